/* SPDX-License-Identifier: MIT */
/*
 * secret: see secret.h. Every error names the source, the reason and the remedy, and quotes nothing of the text. This
 * file keeps no secret: callers own what they get, and wipe it.
 */
#include "net/secret.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    DIGITS = 2 * HP_SECRET,
    JOB_DIGITS = 2 * HP_JOB_ID_BYTES,
    READ_MAX = HP_SECRET_TEXT + 1,
    SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE
};

static const char job_word[] = "hoop-job ";

static int
digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Two digits for each byte. Returns 0 if a character is not a digit. */
static int
from_digits(uint8_t *bytes, size_t n, const char *text)
{
    int right = 1;
    for (size_t i = 0; i < n; i++) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
        right &= high >= 0 && low >= 0;
        bytes[i] = (uint8_t)((high & 15) << 4 | (low & 15));
    }
    return right;
}

static char *
to_digits(char *out, const uint8_t *bytes, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        *out++ = digits[bytes[i] >> 4];
        *out++ = digits[bytes[i] & 15];
    }
    return out;
}

/*
 * Returns what is wrong with a secret's text, as the end of a sentence that quotes none of it; NULL: the secret was
 * read.
 */
static const char *
parse(hp_secret *secret, const char *text, size_t n)
{
    size_t word = sizeof(job_word) - 1, wanted = DIGITS;
    memset(secret, 0, sizeof(*secret));
    if (n > 0 && text[n - 1] == '\n')
        n--;
    if (n == 0)
        return "is empty";
    secret->of_job = n > word && memcmp(text, job_word, word) == 0;
    if (secret->of_job)
        wanted += word + JOB_DIGITS + 1;
    if (n != wanted)
        return n < wanted ? "is too short" : "is too long";
    int right = from_digits(secret->key, HP_SECRET, text + n - DIGITS);
    if (secret->of_job)
        right &= from_digits(secret->job_id, HP_JOB_ID_BYTES, text + word) && text[word + JOB_DIGITS] == ' ';
    if (right)
        return NULL;
    hp_wipe(secret, sizeof(*secret));
    return "is not hexadecimal";
}

hoop_result
hp_secret_parse(hp_secret *secret, const char *text, size_t n, hoop_error *error)
{
    const char *reason = parse(secret, text, n);
    if (!reason)
        return HOOP_SUCCESS;
    return hp_err_set(error, HOOP_ERR_AUTH,
                      "the secret %s: it must be 64 hexadecimal digits and a newline, "
                      "as `openssl rand -hex 32` prints them",
                      reason);
}

void
hp_secret_format(char out[HP_SECRET_TEXT], const hp_secret *secret)
{
    if (secret->of_job) {
        memcpy(out, job_word, sizeof(job_word) - 1);
        out = to_digits(out + sizeof(job_word) - 1, secret->job_id, HP_JOB_ID_BYTES);
        *out++ = ' ';
    }
    out = to_digits(out, secret->key, HP_SECRET);
    out[0] = '\n';
    out[1] = '\0';
}

/* Reads from the start and leaves the offset alone. Returns 0 with the reason as parse has it, or -1 with errno. */
static int
read_secret(hp_secret *secret, int fd, const char **reason)
{
    char text[READ_MAX];
    size_t have = 0;
    ssize_t got = 1;
    while (have < READ_MAX && got != 0) {
        got = pread(fd, text + have, READ_MAX - have, (off_t)have);
        if (got < 0 && errno != EINTR)
            return -1;
        have += got > 0 ? (size_t)got : 0;
    }
    *reason = parse(secret, text, have);
    hp_wipe(text, sizeof(text));
    return 0;
}

hoop_result
hp_secret_from_fd(hp_secret *secret, int fd, hoop_error *error)
{
    const char *reason;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 && errno == EBADF)
        return hp_err_set(
            error, HOOP_ERR_AUTH,
            "HOOP_SECRET_FD names descriptor %d, which is not open: a wrapper between hooprun and the program "
            "closed it; use HOOP_SECRET_FILE there",
            fd);
    if (seals < 0 || (seals & SEALS) != SEALS)
        return hp_err_set(error, HOOP_ERR_AUTH,
                          "HOOP_SECRET_FD names descriptor %d, which is not a sealed memory file: a program between "
                          "hooprun and this one, such as another launcher, has put something else there, so start the "
                          "program with one "
                          "launcher only; or unset it, or use HOOP_SECRET_FILE",
                          fd);
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC); /* its seals prove that hooprun made it */
    if (read_secret(secret, fd, &reason) != 0)
        return hp_err_sys(error, HOOP_ERR_AUTH, errno, "cannot read the secret from descriptor %d (HOOP_SECRET_FD)",
                          fd);
    if (!reason)
        return HOOP_SUCCESS;
    return hp_err_set(error, HOOP_ERR_AUTH,
                      "the secret behind descriptor %d (HOOP_SECRET_FD) %s: start the program with "
                      "hooprun, which makes a right one",
                      fd, reason);
}

/* A secret that other users can read or change is refused. */
static hoop_result
read_file(hp_secret *secret, int fd, const char *path, hoop_error *error)
{
    struct stat st;
    const char *reason;
    if (fstat(fd, &st) != 0)
        return hp_err_sys(error, HOOP_ERR_AUTH, errno, "cannot look at secret file %.100s", path);
    if (!S_ISREG(st.st_mode))
        return hp_err_set(error, HOOP_ERR_AUTH,
                          "secret file %.100s is not a regular file: name a file in HOOP_SECRET_FILE", path);
    if (st.st_uid != geteuid())
        return hp_err_set(error, HOOP_ERR_AUTH,
                          "secret file %.100s belongs to user %lu, not to you (%lu): make a copy of your own, mode 600",
                          path, (unsigned long)st.st_uid, (unsigned long)geteuid());
    if (st.st_mode & 077)
        return hp_err_set(error, HOOP_ERR_AUTH,
                          "secret file %.100s may be used by others (mode %04o): run `chmod 600` on it, and make a new "
                          "secret if others may have read it",
                          path, (unsigned)st.st_mode & 07777);
    if (read_secret(secret, fd, &reason) != 0)
        return hp_err_sys(error, HOOP_ERR_AUTH, errno, "cannot read secret file %.100s", path);
    if (!reason)
        return HOOP_SUCCESS;
    return hp_err_set(error, HOOP_ERR_AUTH,
                      "secret file %.100s %s: it must hold 64 hexadecimal digits and a newline; make one with "
                      "`(umask 077; openssl rand -hex 32 > FILE)`",
                      path, reason);
}

hoop_result
hp_secret_from_file(hp_secret *secret, const char *path, hoop_error *error)
{
    /* O_NONBLOCK: opening a FIFO of that name must not block. */
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == ELOOP)
        return hp_err_set(error, HOOP_ERR_AUTH,
                          "secret file %.100s is a symbolic link: name the file itself in HOOP_SECRET_FILE", path);
    if (fd < 0 && errno == ENOENT)
        return hp_err_set(error, HOOP_ERR_AUTH,
                          "secret file %.100s does not exist: check HOOP_SECRET_FILE, or make it with "
                          "`hoop-rendezvous --new-secret FILE`",
                          path);
    if (fd < 0)
        return hp_err_sys(error, HOOP_ERR_AUTH, errno,
                          "cannot open secret file %.100s (HOOP_SECRET_FILE; it must be readable by you)", path);
    hoop_result result = read_file(secret, fd, path, error);
    close(fd);
    return result;
}

/* Descriptors 0 to 2 belong to the program's own streams, even if the program closed them. */
static int
above_streams(int fd)
{
    if (fd < 0 || fd > 2)
        return fd;
    int higher = fcntl(fd, F_DUPFD, 3);
    int number = errno;
    close(fd);
    errno = number;
    return higher;
}

int
hp_secret_memfd(const hp_secret *secret, hoop_error *error)
{
    char text[HP_SECRET_TEXT];
    int fd = above_streams(memfd_create("hoop-secret", MFD_ALLOW_SEALING));
    if (fd < 0) {
        hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot make a memory file for the secret");
        return -1;
    }
    hp_secret_format(text, secret);
    ssize_t size = (ssize_t)strlen(text), n = pwrite(fd, text, (size_t)size, 0);
    hp_wipe(text, sizeof(text));
    if (n == size && fcntl(fd, F_ADD_SEALS, SEALS) == 0)
        return fd;
    hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot write and seal the memory file for the secret");
    close(fd);
    return -1;
}

hoop_result
hp_secret_of_job(hp_secret *out, const hp_secret *secret, const uint8_t job_id[HP_JOB_ID_BYTES], hoop_error *error)
{
    uint8_t info[9 + HP_JOB_ID_BYTES] = "hoop1 job";
    if (secret->of_job) {
        *out = *secret;
        if (memcmp(secret->job_id, job_id, HP_JOB_ID_BYTES) == 0)
            return HOOP_SUCCESS;
        hp_wipe(out, sizeof(*out));
        return hp_err_set(error, HOOP_ERR_AUTH, "the secret is another job's own key");
    }
    memcpy(info + 9, job_id, HP_JOB_ID_BYTES);
    hoop_result result = hp_hkdf(out->key, secret->key, "hoop-v1", 7, info, sizeof(info));
    memcpy(out->job_id, job_id, HP_JOB_ID_BYTES);
    out->of_job = 1;
    if (result == HOOP_SUCCESS)
        return result;
    hp_wipe(out, sizeof(*out));
    return hp_err_set(error, result, "libcrypto could not derive the job's own key (HKDF-SHA256): out of memory?");
}
