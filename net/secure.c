/* SPDX-License-Identifier: MIT */
/*
 * secure: HMAC-SHA256, HKDF and the job's secret, on libcrypto of OpenSSL 3, which no other file includes. Random bytes
 * come from the kernel: a generator of libcrypto's own would take 200 KiB in every rank for a few nonces. The secret's
 * three forms (text, file, sealed memfd) are read here too, and every refusal names the place, the reason and the
 * remedy. It keeps no secret of its own: callers own what they got and wipe it.
 */
#include "net/secure.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include "lib/base/err.h"
#include "lib/base/mem.h"

enum {
    DIGITS = 2 * HP_SECRET,
    READ_MAX = DIGITS + 3,
    SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE
};

/* Fetched once for the life of the process: a fetch costs more than a MAC. NULL: libcrypto refuses, this time. */
static EVP_MAC *
hmac(void)
{
    static _Atomic(EVP_MAC *) kept;
    EVP_MAC *mine, *other = NULL;
    if (atomic_load(&kept))
        return atomic_load(&kept);
    mine = EVP_MAC_fetch(NULL, "HMAC", NULL);
    if (!mine || atomic_compare_exchange_strong(&kept, &other, mine))
        return mine;
    EVP_MAC_free(mine); /* another thread was quicker */
    return other;
}

/*
 * libcrypto notes errors in a queue that it shares with the program's own use of it: what a call of ours leaves there
 * is taken away again (ERR_set_mark before it). What is used here can fail for want of memory, and else only where its
 * configuration switches it off.
 */
static hoop_result
judge(int right, const char *what, hoop_error *error)
{
    unsigned long last = right ? 0 : ERR_peek_last_error();
    ERR_pop_to_mark();
    if (right)
        return HOOP_SUCCESS;
    if (!last || ERR_GET_REASON(last) == ERR_R_MALLOC_FAILURE)
        return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory: libcrypto could not %s", what);
    return hp_err_set(error, HOOP_ERR_SYSTEM,
                      "libcrypto could not %s: out of memory, or its configuration does not allow it", what);
}

hoop_result
hp_random(void *out, size_t n, hoop_error *error)
{
    if (getentropy(out, n) == 0)
        return HOOP_SUCCESS;
    return hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot get random bytes from the kernel");
}

hoop_result
hp_job_id(uint8_t job[HP_JOB], const char *name, hoop_error *error)
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    ERR_set_mark();
    int right = EVP_Digest(name, strlen(name), digest, NULL, EVP_sha256(), NULL) == 1;
    if (right)
        memcpy(job, digest, HP_JOB);
    return judge(right, "compute SHA-256", error);
}

static int
mac_update(EVP_MAC_CTX *ctx, const void *bytes, size_t n)
{
    return n == 0 || EVP_MAC_update(ctx, bytes, n) == 1;
}

hoop_result
hp_mac(uint8_t out[HP_MAC], const uint8_t key[32], const void *a, size_t na, const void *b, size_t nb, const void *c,
       size_t nc)
{
    char digest[] = "SHA256";
    OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                           OSSL_PARAM_construct_end()};
    size_t n = 0;
    ERR_set_mark();
    EVP_MAC *mac = hmac();
    EVP_MAC_CTX *ctx = mac ? EVP_MAC_CTX_new(mac) : NULL;
    int right = ctx != NULL && EVP_MAC_init(ctx, key, 32, params) == 1 && mac_update(ctx, a, na) &&
                mac_update(ctx, b, nb) && mac_update(ctx, c, nc) && EVP_MAC_final(ctx, out, &n, HP_MAC) == 1;
    EVP_MAC_CTX_free(ctx);
    return judge(right && n == HP_MAC, "compute HMAC-SHA256", NULL);
}

int
hp_mac_equal(const uint8_t a[HP_MAC], const uint8_t b[HP_MAC])
{
    return CRYPTO_memcmp(a, b, HP_MAC) == 0;
}

/* HKDF-Extract, salt "hoop-v1" || job: HMAC pads its key with zeros anyway, so a key of 32 bytes serves. */
static hoop_result
extract(uint8_t prk[32], const uint8_t secret[HP_SECRET], const uint8_t job[HP_JOB])
{
    uint8_t salt[32] = "hoop-v1";
    memcpy(salt + 7, job, HP_JOB);
    return hp_mac(prk, salt, secret, HP_SECRET, NULL, 0, NULL, 0);
}

/* HKDF-Expand to 32 bytes, which is its first round. */
static hoop_result
expand(uint8_t out[32], const uint8_t prk[32], const char *label)
{
    static const uint8_t round = 1;
    return hp_mac(out, prk, "hoop1 ", 6, label, strlen(label), &round, 1);
}

hoop_result
hp_keys_derive(hp_keys *keys, const uint8_t secret[HP_SECRET], const uint8_t job[HP_JOB], int mode, hoop_error *error)
{
    static const uint8_t no_secret[HP_SECRET];
    uint8_t *const key[] = {keys->hello, keys->resp, keys->init, keys->welcome};
    static const char *const label[] = {"hello", "resp", "init", "welcome"};
    memset(keys, 0, sizeof *keys);
    memcpy(keys->job, job, HP_JOB);
    keys->mode = (uint8_t)mode;
    hoop_result result = extract(keys->prk, mode == HP_MODE_NONE ? no_secret : secret, job);
    for (int i = 0; i < 4 && result == HOOP_SUCCESS; i++)
        result = expand(key[i], keys->prk, label[i]);
    if (result == HOOP_SUCCESS)
        return result;
    hp_keys_wipe(keys);
    return hp_err_set(error, result, "libcrypto could not derive the job's keys (HMAC-SHA256): out of memory?");
}

void
hp_keys_wipe(hp_keys *keys)
{
    hp_wipe(keys, sizeof *keys);
}

static int
digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* What is wrong with a secret's text, as the end of a sentence; NULL when it was read. Never quotes the text. */
static const char *
parse(uint8_t secret[HP_SECRET], const char *text, size_t n)
{
    if (n > 0 && text[n - 1] == '\n')
        n--;
    if (n == 0)
        return "is empty";
    if (n != DIGITS)
        return n < DIGITS ? "is too short" : "is too long";
    int wrong = 0;
    for (size_t i = 0; i < HP_SECRET; i++) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
        wrong |= high < 0 || low < 0;
        secret[i] = (uint8_t)((high & 15) << 4 | (low & 15));
    }
    if (!wrong)
        return NULL;
    hp_wipe(secret, HP_SECRET);
    return "is not hexadecimal";
}

hoop_result
hp_secret_parse(uint8_t secret[HP_SECRET], const char *text, size_t n, hoop_error *error)
{
    const char *reason = parse(secret, text, n);
    if (reason == NULL)
        return HOOP_SUCCESS;
    return hp_err_set(error, HOOP_ERR_AUTH,
                      "the secret %s: it must be 64 hexadecimal digits and a newline, "
                      "as `openssl rand -hex 32` prints them",
                      reason);
}

void
hp_secret_format(char out[DIGITS + 2], const uint8_t secret[HP_SECRET])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < HP_SECRET; i++) {
        out[2 * i] = digits[secret[i] >> 4];
        out[2 * i + 1] = digits[secret[i] & 15];
    }
    out[DIGITS] = '\n';
    out[DIGITS + 1] = '\0';
}

/* Reads from the start and leaves the offset alone; the bytes, up to READ_MAX, or -1. */
static ssize_t
read_start(int fd, char text[READ_MAX])
{
    size_t have = 0;
    while (have < READ_MAX) {
        ssize_t got = pread(fd, text + have, READ_MAX - have, (off_t)have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        have += (size_t)got;
    }
    return (ssize_t)have;
}

hoop_result
hp_secret_from_fd(uint8_t secret[HP_SECRET], int fd, hoop_error *error)
{
    char text[READ_MAX];
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 && errno == EBADF)
        return hp_err_set(
            error, HOOP_ERR_AUTH,
            "HOOP_SECRET_FD names descriptor %d, which is not open: a wrapper between hooprun and the program "
            "closed it; use HOOP_SECRET_FILE there",
            fd);
    if (seals < 0 || (seals & SEALS) != SEALS)
        return hp_err_set(
            error, HOOP_ERR_AUTH,
            "HOOP_SECRET_FD names descriptor %d, which is not a sealed memory file: unset it, or start the "
            "program with hooprun, or use HOOP_SECRET_FILE",
            fd);
    ssize_t n = read_start(fd, text);
    if (n < 0)
        return hp_err_sys(error, HOOP_ERR_AUTH, errno, "cannot read the secret from descriptor %d (HOOP_SECRET_FD)",
                          fd);
    const char *reason = parse(secret, text, (size_t)n);
    hp_wipe(text, sizeof text);
    if (reason == NULL)
        return HOOP_SUCCESS;
    return hp_err_set(error, HOOP_ERR_AUTH,
                      "the secret behind descriptor %d (HOOP_SECRET_FD) %s: start the program with "
                      "hooprun, which makes a right one",
                      fd, reason);
}

static hoop_result
refuse_open(const char *path, int number, hoop_error *error)
{
    if (number == ELOOP)
        return hp_err_set(error, HOOP_ERR_AUTH,
                          "secret file %.100s is a symbolic link: name the file itself in HOOP_SECRET_FILE", path);
    if (number == ENOENT)
        return hp_err_set(error, HOOP_ERR_AUTH,
                          "secret file %.100s does not exist: check HOOP_SECRET_FILE, or make it with "
                          "`(umask 077; openssl rand -hex 32 > FILE)`",
                          path);
    return hp_err_sys(error, HOOP_ERR_AUTH, number,
                      "cannot open secret file %.100s (HOOP_SECRET_FILE; it must be readable by you)", path);
}

/* A secret that others could read or change is no secret. */
static hoop_result
check_file(int fd, const char *path, hoop_error *error)
{
    struct stat st;
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
    return HOOP_SUCCESS;
}

static hoop_result
read_file(uint8_t secret[HP_SECRET], int fd, const char *path, hoop_error *error)
{
    char text[READ_MAX];
    hoop_result result = check_file(fd, path, error);
    if (result != HOOP_SUCCESS)
        return result;
    ssize_t n = read_start(fd, text);
    if (n < 0)
        return hp_err_sys(error, HOOP_ERR_AUTH, errno, "cannot read secret file %.100s", path);
    const char *reason = parse(secret, text, (size_t)n);
    hp_wipe(text, sizeof text);
    if (reason == NULL)
        return HOOP_SUCCESS;
    return hp_err_set(error, HOOP_ERR_AUTH,
                      "secret file %.100s %s: it must hold 64 hexadecimal digits and a newline; make one with "
                      "`(umask 077; openssl rand -hex 32 > FILE)`",
                      path, reason);
}

hoop_result
hp_secret_from_file(uint8_t secret[HP_SECRET], const char *path, hoop_error *error)
{
    /* O_NONBLOCK: a FIFO of that name must not hang us. */
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return refuse_open(path, errno, error);
    hoop_result result = read_file(secret, fd, path, error);
    close(fd);
    return result;
}

/* Descriptors 0 to 2 belong to the program's own streams, even where it closed them. */
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
hp_secret_memfd(const uint8_t secret[HP_SECRET], hoop_error *error)
{
    char text[DIGITS + 2];
    int fd = above_streams(memfd_create("hoop-secret", MFD_ALLOW_SEALING));
    if (fd < 0) {
        hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot make a memory file for the secret");
        return -1;
    }
    hp_secret_format(text, secret);
    ssize_t n = pwrite(fd, text, DIGITS + 1, 0);
    hp_wipe(text, sizeof text);
    if (n == DIGITS + 1 && fcntl(fd, F_ADD_SEALS, SEALS) == 0)
        return fd;
    hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot write and seal the memory file for the secret");
    close(fd);
    return -1;
}
