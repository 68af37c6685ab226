/* SPDX-License-Identifier: MIT */
/*
 * secret: every way in which a secret's text, file or descriptor can be wrong, with the sentence that says so; and the
 * keys of single jobs, against an independent program (Python's hmac).
 */
#include "net/secret.h"

#include "t/tap/tap.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static hp_secret secret; /* 00 01 02 ... 1f */
static char text[HP_SECRET_TEXT];

/* The error must be AUTH and its sentence must hold all three. */
static void
is_refused(hoop_result result, const hoop_error *error, const char *a, const char *b, const char *c)
{
    ok(result == HOOP_ERR_AUTH && error->code == HOOP_ERR_AUTH && strstr(error->text, a) && strstr(error->text, b) &&
           strstr(error->text, c),
       "AUTH: %s", error->text);
}

/* Job a0 a1 ... af. */
static void
keys_of_jobs(void)
{
    static const char own_text[] = "hoop-job a0a1a2a3a4a5a6a7a8a9aaabacadaeaf "
                                   "cb6ef5a1727cf926231db22913abde5e83ac9f7818a426166478d2aae62e8450\n";
    uint8_t job_id[HP_JOB_ID_BYTES], other[HP_JOB_ID_BYTES];
    hp_secret own, got, again;
    char said[HP_SECRET_TEXT], cut[HP_SECRET_TEXT];
    hoop_error error;
    hp_job_id(other, "second", NULL);
    for (size_t k = 0; k < sizeof(job_id); k++)
        job_id[k] = (uint8_t)(0xa0 + k);
    is_int(HOOP_SUCCESS, hp_secret_of_job(&own, &secret, job_id, &error), "a job's own key");
    hp_secret_format(said, &own);
    is_string(own_text, said, "as Python makes it, and says whose it is");
    is_int(HP_SECRET_TEXT - 1, (int)strlen(said), "in a text of fixed length");
    is_int(HOOP_SUCCESS, hp_secret_parse(&got, said, strlen(said), &error), "which comes back");
    ok(memcmp(&got, &own, sizeof(own)) == 0, "as it was");
    ok(hp_secret_of_job(&again, &got, job_id, &error) == HOOP_SUCCESS && memcmp(&again, &own, sizeof(own)) == 0,
       "and is taken as it is for its job");
    is_int(HOOP_ERR_AUTH, hp_secret_of_job(&again, &got, other, &error), "but not for another: %s", error.text);
    hp_secret_of_job(&again, &secret, other, &error);
    hp_secret_format(said, &again);
    is_string("hoop-job 16367aacb67a4a017c8da8ab95682ccb "
              "d5133d6617844b562d7c274badd1dcd1d3359a2e78226fd270a88d4103c4f9de\n",
              said, "the key of a job by its name");
    int refused = 0;
    for (size_t n = 0; n < sizeof(own_text) - 2; n++) {
        memcpy(cut, own_text, sizeof(cut));
        refused += hp_secret_parse(&got, cut, n, &error) == HOOP_ERR_AUTH;
        cut[n] = '+';
        refused += hp_secret_parse(&got, cut, sizeof(cut) - 1, &error) == HOOP_ERR_AUTH;
    }
    is_int(2 * (HP_SECRET_TEXT - 2), refused, "cut anywhere, or with a wrong character anywhere, it is refused");
    is_refused(error.code, &error, "is not hexadecimal", "64 hexadecimal", "openssl rand");
}

static void
texts(void)
{
    hp_secret got, none;
    char upper[HP_SECRET_TEXT], longer[HP_SECRET_TEXT + 1];
    hoop_error error;
    is_string("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n", text, "a secret's text");
    is_int(HOOP_SUCCESS, hp_secret_parse(&got, text, 65, NULL), "comes back");
    is_blob(secret.key, got.key, HP_SECRET, "as it was");
    is_int(HOOP_SUCCESS, hp_secret_parse(&got, text, 64, NULL), "also without the newline");
    for (size_t k = 0; k < sizeof(upper); k++)
        upper[k] = text[k] >= 'a' && text[k] <= 'f' ? (char)(text[k] - 'a' + 'A') : text[k];
    ok(hp_secret_parse(&got, upper, 65, NULL) == HOOP_SUCCESS && memcmp(&got, &secret, sizeof(got)) == 0,
       "or in capitals");
    is_refused(hp_secret_parse(&got, "", 0, &error), &error, "is empty", "64 hexadecimal", "openssl rand");
    is_refused(hp_secret_parse(&got, "\n", 1, &error), &error, "is empty", "64 hexadecimal", "openssl rand");
    is_refused(hp_secret_parse(&got, text, 63, &error), &error, "too short", "64 hexadecimal", "openssl rand");
    snprintf(longer, sizeof(longer), "0%s", text);
    is_refused(hp_secret_parse(&got, longer, 66, &error), &error, "too long", "64 hexadecimal", "openssl rand");
    int refused = 0;
    for (size_t k = 0; k < 64; k++) {
        memcpy(upper, text, sizeof(upper));
        upper[k] = "g:/@G`\n "[k % 8];
        refused += hp_secret_parse(&got, upper, 65, &error) == HOOP_ERR_AUTH;
    }
    is_int(64, refused, "a character that is no digit is refused at any place");
    is_refused(error.code, &error, "is not hexadecimal", "64 hexadecimal", "openssl rand");
    memset(&none, 0, sizeof(none));
    ok(memcmp(&got, &none, sizeof(got)) == 0, "and leaves nothing of the secret behind");
}

/* A file of these bytes and this mode in the test's folder. */
static const char *
make_file(const char *name, const void *bytes, size_t n, mode_t mode)
{
    static char path[4096];
    snprintf(path, sizeof(path), "%s/%s", tap_tmpdir(), name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, bytes, n) != (ssize_t)n || fchmod(fd, mode) != 0 || close(fd) != 0)
        bail("cannot write %s", path);
    return path;
}

static void
refused_file(const char *path, const char *reason, const char *remedy)
{
    hp_secret got;
    hoop_error error;
    hoop_result result = hp_secret_from_file(&got, path, &error);
    is_refused(result, &error, strrchr(path, '/'), reason, remedy);
}

static void
good_files(void)
{
    hp_secret got;
    is_int(HOOP_SUCCESS, hp_secret_from_file(&got, make_file("600", text, 65, 0600), NULL), "a file of mode 600");
    is_blob(secret.key, got.key, HP_SECRET, "gives the secret");
    is_int(HOOP_SUCCESS, hp_secret_from_file(&got, make_file("400", text, 65, 0400), NULL),
           "and so does one of mode 400");
}

static void
bad_files(void)
{
    static const mode_t modes[] = {0644, 0640, 0604, 0620, 0602, 0610, 0601};
    static char mega[1 << 20];
    for (size_t k = 0; k < sizeof(modes) / sizeof(modes[0]); k++)
        refused_file(make_file("open", text, 65, modes[k]), "may be used by others", "chmod 600");
    refused_file(make_file("empty", "", 0, 0600), "is empty", "openssl rand");
    refused_file(make_file("short", text, 20, 0600), "is too short", "openssl rand");
    memset(mega, '0', sizeof(mega));
    refused_file(make_file("mega", mega, sizeof(mega), 0600), "is too long", "openssl rand");
    mega[63] = 'z';
    refused_file(make_file("words", mega, 64, 0600), "is not hexadecimal", "openssl rand");
}

/* The remedy must survive a path that does not fit into the sentence. */
static void
long_path(void)
{
    hp_secret got;
    char spoilt[64], name[200];
    hoop_error error;
    memset(spoilt, 'z', sizeof(spoilt));
    memset(name, 'n', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    hoop_result result = hp_secret_from_file(&got, make_file(name, spoilt, sizeof(spoilt), 0600), &error);
    is_refused(result, &error, "nnnnnnnn", "is not hexadecimal", "openssl rand -hex 32 > FILE)`");
    result = hp_secret_from_file(&got, make_file(name, spoilt, sizeof(spoilt), 0666), &error);
    is_refused(result, &error, "nnnnnnnn", "may be used by others", "may have read it");
}

static void
odd_files(void)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/missing", tap_tmpdir());
    refused_file(path, "does not exist", "HOOP_SECRET_FILE");
    snprintf(path, sizeof(path), "%s/link", tap_tmpdir());
    if (symlink(make_file("target", text, 65, 0600), path) != 0)
        bail("no symlink");
    refused_file(path, "is a symbolic link", "name the file itself");
    snprintf(path, sizeof(path), "%s/folder", tap_tmpdir());
    if (mkdir(path, 0700) != 0)
        bail("no folder");
    refused_file(path, "is not a regular file", "HOOP_SECRET_FILE");
    snprintf(path, sizeof(path), "%s/fifo", tap_tmpdir());
    if (mkfifo(path, 0600) != 0)
        bail("no fifo");
    refused_file(path, "is not a regular file", "HOOP_SECRET_FILE");
    if (geteuid() != 0) {
        refused_file(make_file("000", text, 65, 0), "cannot open", "readable by you");
        skip(1, "giving a file away needs root: run it as root");
        return;
    }
    skip(1, "root may open every file: run it as another user");
    const char *foreign = make_file("foreign", text, 65, 0600);
    if (chown(foreign, 12345, 12345) != 0)
        bail("no chown");
    refused_file(foreign, "belongs to user 12345", "copy of your own");
}

static void
memfds(void)
{
    hp_secret got;
    char byte = 'x';
    int fd = hp_secret_memfd(&secret, NULL);
    ok(fd > 2, "a sealed memory file");
    ok((fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0, "which an exec'd program inherits");
    for (int k = 0; k < 2; k++) {
        memset(&got, 0, sizeof(got));
        is_int(HOOP_SUCCESS, hp_secret_from_fd(&got, fd, NULL), "read it (%d)", k + 1);
        is_blob(secret.key, got.key, HP_SECRET, "the secret is there");
    }
    ok(fcntl(fd, F_GETFD) & FD_CLOEXEC, "from then on no program inherits it");
    is_int(0, lseek(fd, 0, SEEK_CUR), "reading leaves the offset alone");
    ok(pwrite(fd, &byte, 1, 0) < 0 && pwrite(fd, &byte, 1, 65) < 0 && ftruncate(fd, 0) < 0, "nobody can change it");
    ok(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) < 0, "nor its seals");
    close(fd);
    int null = dup(0);
    close(0);
    fd = hp_secret_memfd(&secret, NULL);
    ok(fd > 2, "it does not take standard input's place");
    ok(fcntl(0, F_GETFD) < 0, "and leaves nothing there");
    ok(hp_secret_from_fd(&got, fd, NULL) == HOOP_SUCCESS && memcmp(&got, &secret, sizeof(got)) == 0,
       "and holds the secret");
    dup2(null, 0);
    close(null);
    close(fd);
}

/* A memory file of these bytes with these seals. */
static int
make_memfd(const void *bytes, size_t n, int seals)
{
    int fd = memfd_create("test", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    if (fd < 0 || write(fd, bytes, n) != (ssize_t)n || fcntl(fd, F_ADD_SEALS, seals) != 0)
        bail("no memfd");
    return fd;
}

static void
refused_fd(int fd, const char *reason, const char *remedy)
{
    hp_secret got;
    hoop_error error;
    int flags = fcntl(fd, F_GETFD), sealed = strcmp(reason, "is not a sealed memory file") != 0;
    hoop_result result = hp_secret_from_fd(&got, fd, &error);
    is_refused(result, &error, "HOOP_SECRET_FD", reason, remedy);
    ok(sealed || fcntl(fd, F_GETFD) == flags, "a descriptor of somebody else's stays as it is");
    close(fd);
}

static void
bad_fds(void)
{
    const int all = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    int ends[2];
    refused_fd(make_memfd(text, 65, all & ~F_SEAL_WRITE), "is not a sealed memory file", "hooprun");
    refused_fd(make_memfd(text, 65, all & ~F_SEAL_GROW), "is not a sealed memory file", "hooprun");
    refused_fd(make_memfd(text, 65, all & ~F_SEAL_SHRINK), "is not a sealed memory file", "hooprun");
    refused_fd(make_memfd(text, 65, all & ~F_SEAL_SEAL), "is not a sealed memory file", "hooprun");
    refused_fd(make_memfd(text, 0, all), "is empty", "hooprun");
    refused_fd(make_memfd(text, 30, all), "is too short", "hooprun");
    refused_fd(open(make_file("plain", text, 65, 0600), O_RDONLY), "is not a sealed memory file", "hooprun");
    if (pipe(ends) != 0)
        bail("no pipe");
    refused_fd(ends[0], "is not a sealed memory file", "hooprun");
    close(ends[1]);
    refused_fd(ends[0], "is not open", "HOOP_SECRET_FILE");
    refused_fd(-1, "is not open", "HOOP_SECRET_FILE");
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    for (size_t k = 0; k < sizeof(secret.key); k++)
        secret.key[k] = (uint8_t)k;
    hp_secret_format(text, &secret);
    keys_of_jobs();
    texts();
    good_files();
    bad_files();
    long_path();
    odd_files();
    memfds();
    bad_fds();
    return 0;
}
