/* SPDX-License-Identifier: MIT */
/*
 * secure: MACs against RFC 4231, the key schedule against an independent program (Python's hmac), and every way in
 * which a secret's text, file or descriptor can be wrong, with the sentence that says so.
 */
#include "net/secure.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "t/tap/tap.h"

static uint8_t secret[HP_SECRET]; /* 00 01 02 ... 1f */
static char text[2 * HP_SECRET + 2];

static void
is_hex(const char *wanted, const uint8_t *bytes, size_t n, const char *what)
{
    char hex[2 * 64 + 1] = "";
    for (size_t k = 0; k < n; k++)
        snprintf(hex + 2 * k, 3, "%02x", bytes[k]);
    is_string(wanted, hex, "%s", what);
}

/* The error must be AUTH and its sentence must hold all three. */
static void
is_refused(hoop_result result, const hoop_error *error, const char *a, const char *b, const char *c)
{
    ok(result == HOOP_ERR_AUTH && error->code == HOOP_ERR_AUTH && strstr(error->text, a) && strstr(error->text, b) &&
           strstr(error->text, c),
       "AUTH: %s", error->text);
}

static void
macs(void)
{
    uint8_t key[32] = {0}, mac[HP_MAC], again[HP_MAC];
    const char *data = "what do ya want for nothing?";
    memset(key, 0x0b, 20);
    is_int(HOOP_SUCCESS, hp_mac(mac, key, "Hi There", 8, NULL, 0, NULL, 0), "a MAC");
    is_hex("b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7", mac, 32, "RFC 4231, case 1");
    memset(key, 0, sizeof key);
    memcpy(key, "Jefe", 4);
    hp_mac(mac, key, data, strlen(data), NULL, 0, NULL, 0);
    is_hex("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843", mac, 32, "RFC 4231, case 2");
    int same = 1;
    for (size_t i = 0; i <= strlen(data); i++)
        for (size_t j = i; j <= strlen(data); j++) {
            hp_mac(again, key, data, i, data + i, j - i, data + j, strlen(data) - j);
            same &= hp_mac_equal(mac, again);
        }
    ok(same, "in up to three pieces, cut anywhere, it is the same");
    int differ = 0;
    for (int bit = 0; bit < HP_MAC * 8; bit++) {
        memcpy(again, mac, sizeof mac);
        again[bit / 8] ^= (uint8_t)(1 << bit % 8);
        differ += !hp_mac_equal(mac, again);
    }
    is_int(HP_MAC * 8, differ, "a MAC with any one bit flipped is another");
}

static void
key_schedule(void)
{
    uint8_t job[HP_JOB], zeros[HP_SECRET] = {0};
    hp_keys keys, none, wanted;
    for (size_t k = 0; k < sizeof job; k++)
        job[k] = (uint8_t)(0xa0 + k);
    is_int(HOOP_SUCCESS, hp_keys_derive(&keys, secret, job, HP_MODE_AUTH, NULL), "keys");
    is_hex("39f49a0a49802bf7d5a786c3650f52366b591e6eca054b88b319a40ec67befd5", keys.prk, 32, "PRK");
    is_hex("05e94c69d8d23b1ef447ce3dfba999cb92303c6e31ac4d4a862fe8b7bd9aa05c", keys.hello, 32, "K_hello");
    is_hex("12567c45fa67a4f46d3fa4e7072191eaffc692a58d2e64995d5fd774216df5d3", keys.resp, 32, "K_resp");
    is_hex("871828a3a91de5314b749480a8773937b1747bcb0c2531a0179ff6075cc0d49b", keys.init, 32, "K_init");
    is_hex("e9afd3037f2d58fc2ec47217607d005b1d793ca2cbce04f012474f1a22b1f435", keys.welcome, 32, "K_welcome");
    is_blob(job, keys.job, HP_JOB, "the keys know their job");
    hp_keys_derive(&none, secret, job, HP_MODE_NONE, NULL);
    hp_keys_derive(&wanted, zeros, job, HP_MODE_AUTH, NULL);
    is_blob(wanted.prk, none.prk, 32, "mode none is the secret of 32 zero bytes");
    is_int(HP_MODE_NONE, none.mode, "and says so");
    hp_keys_wipe(&keys);
    memset(&none, 0, sizeof none);
    is_blob(&none, &keys, sizeof keys, "wiped keys are gone");
}

static void
numbers(void)
{
    uint8_t job[HP_JOB], a[64] = {0}, b[64] = {0};
    is_int(HOOP_SUCCESS, hp_job_id(job, "abc", NULL), "a job's id");
    is_hex("ba7816bf8f01cfea414140de5dae2223", job, HP_JOB, "is the beginning of its name's SHA-256");
    ok(hp_random(a, sizeof a, NULL) == HOOP_SUCCESS && hp_random(b, sizeof b, NULL) == HOOP_SUCCESS, "random bytes");
    ok(memcmp(a, b, sizeof a) != 0, "are others each time");
    int seen[4] = {0};
    for (size_t k = 0; k < sizeof a; k++)
        seen[k / 16] |= a[k];
    ok(seen[0] && seen[1] && seen[2] && seen[3], "and fill all of the buffer");
}

static void
texts(void)
{
    uint8_t got[HP_SECRET];
    char upper[2 * HP_SECRET + 2], longer[2 * HP_SECRET + 3];
    hoop_error error;
    is_string("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n", text, "a secret's text");
    is_int(HOOP_SUCCESS, hp_secret_parse(got, text, 65, NULL), "comes back");
    is_blob(secret, got, HP_SECRET, "as it was");
    is_int(HOOP_SUCCESS, hp_secret_parse(got, text, 64, NULL), "also without the newline");
    for (size_t k = 0; k < sizeof upper; k++)
        upper[k] = text[k] >= 'a' && text[k] <= 'f' ? (char)(text[k] - 'a' + 'A') : text[k];
    ok(hp_secret_parse(got, upper, 65, NULL) == HOOP_SUCCESS && memcmp(got, secret, HP_SECRET) == 0, "or in capitals");
    is_refused(hp_secret_parse(got, "", 0, &error), &error, "is empty", "64 hexadecimal", "openssl rand");
    is_refused(hp_secret_parse(got, "\n", 1, &error), &error, "is empty", "64 hexadecimal", "openssl rand");
    is_refused(hp_secret_parse(got, text, 63, &error), &error, "too short", "64 hexadecimal", "openssl rand");
    snprintf(longer, sizeof longer, "0%s", text);
    is_refused(hp_secret_parse(got, longer, 66, &error), &error, "too long", "64 hexadecimal", "openssl rand");
    int refused = 0;
    for (size_t k = 0; k < 64; k++) {
        memcpy(upper, text, sizeof upper);
        upper[k] = "g:/@G`\n "[k % 8];
        refused += hp_secret_parse(got, upper, 65, &error) == HOOP_ERR_AUTH;
    }
    is_int(64, refused, "a character that is no digit is refused at any place");
    is_refused(error.code, &error, "is not hexadecimal", "64 hexadecimal", "openssl rand");
    memset(upper, 0, sizeof upper);
    ok(memcmp(got, upper, HP_SECRET) == 0, "and leaves nothing of the secret behind");
}

/* A file of these bytes and this mode in the test's folder. */
static const char *
make_file(const char *name, const void *bytes, size_t n, mode_t mode)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", tap_tmpdir(), name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, bytes, n) != (ssize_t)n || fchmod(fd, mode) != 0 || close(fd) != 0)
        bail("cannot write %s", path);
    return path;
}

static void
refused_file(const char *path, const char *reason, const char *remedy)
{
    uint8_t got[HP_SECRET];
    hoop_error error;
    hoop_result result = hp_secret_from_file(got, path, &error);
    is_refused(result, &error, strrchr(path, '/'), reason, remedy);
}

static void
good_files(void)
{
    uint8_t got[HP_SECRET];
    is_int(HOOP_SUCCESS, hp_secret_from_file(got, make_file("600", text, 65, 0600), NULL), "a file of mode 600");
    is_blob(secret, got, HP_SECRET, "gives the secret");
    is_int(HOOP_SUCCESS, hp_secret_from_file(got, make_file("400", text, 65, 0400), NULL),
           "and so does one of mode 400");
}

static void
bad_files(void)
{
    static const mode_t modes[] = {0644, 0640, 0604, 0620, 0602, 0610, 0601};
    static char mega[1 << 20];
    for (size_t k = 0; k < sizeof modes / sizeof modes[0]; k++)
        refused_file(make_file("open", text, 65, modes[k]), "may be used by others", "chmod 600");
    refused_file(make_file("empty", "", 0, 0600), "is empty", "openssl rand");
    refused_file(make_file("short", text, 20, 0600), "is too short", "openssl rand");
    memset(mega, '0', sizeof mega);
    refused_file(make_file("mega", mega, sizeof mega, 0600), "is too long", "openssl rand");
    mega[63] = 'z';
    refused_file(make_file("words", mega, 64, 0600), "is not hexadecimal", "openssl rand");
}

/* The remedy must survive a path that does not fit into the sentence. */
static void
long_path(void)
{
    uint8_t got[HP_SECRET];
    char spoilt[64], name[200];
    hoop_error error;
    memset(spoilt, 'z', sizeof spoilt);
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    hoop_result result = hp_secret_from_file(got, make_file(name, spoilt, sizeof spoilt, 0600), &error);
    is_refused(result, &error, "nnnnnnnn", "is not hexadecimal", "openssl rand -hex 32 > FILE)`");
    result = hp_secret_from_file(got, make_file(name, spoilt, sizeof spoilt, 0666), &error);
    is_refused(result, &error, "nnnnnnnn", "may be used by others", "may have read it");
}

static void
odd_files(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/missing", tap_tmpdir());
    refused_file(path, "does not exist", "HOOP_SECRET_FILE");
    snprintf(path, sizeof path, "%s/link", tap_tmpdir());
    if (symlink(make_file("target", text, 65, 0600), path) != 0)
        bail("no symlink");
    refused_file(path, "is a symbolic link", "name the file itself");
    snprintf(path, sizeof path, "%s/folder", tap_tmpdir());
    if (mkdir(path, 0700) != 0)
        bail("no folder");
    refused_file(path, "is not a regular file", "HOOP_SECRET_FILE");
    snprintf(path, sizeof path, "%s/fifo", tap_tmpdir());
    if (mkfifo(path, 0600) != 0)
        bail("no fifo");
    refused_file(path, "is not a regular file", "HOOP_SECRET_FILE");
    if (geteuid() != 0) {
        refused_file(make_file("000", text, 65, 0), "cannot open", "readable by you");
        skip(1, "giving a file away needs root");
        return;
    }
    skip(1, "root may open every file");
    const char *foreign = make_file("foreign", text, 65, 0600);
    if (chown(foreign, 12345, 12345) != 0)
        bail("no chown");
    refused_file(foreign, "belongs to user 12345", "copy of your own");
}

static void
memfds(void)
{
    uint8_t got[HP_SECRET];
    char byte = 'x';
    int fd = hp_secret_memfd(secret, NULL);
    ok(fd > 2, "a sealed memory file");
    ok((fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0, "which an exec'd program inherits");
    for (int k = 0; k < 2; k++) {
        memset(got, 0, sizeof got);
        is_int(HOOP_SUCCESS, hp_secret_from_fd(got, fd, NULL), "read it (%d)", k + 1);
        is_blob(secret, got, HP_SECRET, "the secret is there");
    }
    is_int(0, lseek(fd, 0, SEEK_CUR), "reading leaves the offset alone");
    ok(pwrite(fd, &byte, 1, 0) < 0 && pwrite(fd, &byte, 1, 65) < 0 && ftruncate(fd, 0) < 0, "nobody can change it");
    ok(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) < 0, "nor its seals");
    close(fd);
    int null = dup(0);
    close(0);
    fd = hp_secret_memfd(secret, NULL);
    ok(fd > 2, "it does not take standard input's place");
    ok(fcntl(0, F_GETFD) < 0, "and leaves nothing there");
    ok(hp_secret_from_fd(got, fd, NULL) == HOOP_SUCCESS && memcmp(got, secret, HP_SECRET) == 0, "and holds the secret");
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
    uint8_t got[HP_SECRET];
    hoop_error error;
    hoop_result result = hp_secret_from_fd(got, fd, &error);
    is_refused(result, &error, "HOOP_SECRET_FD", reason, remedy);
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
    refused_fd(open(make_file("plain", text, 65, 0600), O_RDONLY | O_CLOEXEC), "is not a sealed memory file",
               "hooprun");
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
    tap_limit(60);
    plan_lazy();
    for (size_t k = 0; k < sizeof secret; k++)
        secret[k] = (uint8_t)k;
    hp_secret_format(text, secret);
    macs();
    key_schedule();
    numbers();
    texts();
    good_files();
    bad_files();
    long_path();
    odd_files();
    memfds();
    bad_fds();
    return 0;
}
