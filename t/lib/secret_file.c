/* SPDX-License-Identifier: MIT */
/*
 * secret_file: a new file is the user's alone and replaces nothing; the host's secret lies in a folder that nobody else
 * may enter, and processes that make it at once agree on it.
 */
#include "lib/secret_file.h"

#include "t/tap/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATH_TEXT = 400, MAKERS = 8, ROUNDS = 50 };

static char runtime[PATH_TEXT], host_file[PATH_TEXT + 16];

static int
mode_of(const char *path)
{
    struct stat s;
    return lstat(path, &s) == 0 ? (int)(s.st_mode & 07777) : -1;
}

static void
in_folder(char path[PATH_TEXT], const char *name)
{
    snprintf(path, PATH_TEXT, "%s/%s", tap_tmpdir(), name);
}

/* --- a new file --- */

static void
test_new(void)
{
    char path[PATH_TEXT], other[PATH_TEXT];
    hp_secret secret = {.of_job = 0}, again = {.of_job = 0};
    hoop_error error;
    in_folder(path, "new");
    in_folder(other, "link");
    memset(secret.key, 7, sizeof(secret.key));
    memset(again.key, 9, sizeof(again.key));
    mode_t before = umask(0);
    ok(hp_secret_file_new(path, &secret, &error) == HOOP_SUCCESS, "a new file");
    umask(before);
    is_int(0600, mode_of(path), "is the user's alone, whatever the umask");
    ok(hp_secret_file_new(path, &again, &error) == HOOP_ERR_SYSTEM && strstr(error.text, path), "an old one stays: %s",
       error.text);
    ok(hp_secret_from_file(&again, path, &error) == HOOP_SUCCESS && memcmp(again.key, secret.key, HP_SECRET) == 0,
       "with its secret");
    if (symlink("nowhere", other) != 0)
        bail("no link");
    ok(hp_secret_file_new(other, &secret, &error) == HOOP_ERR_SYSTEM && access(other, F_OK) != 0,
       "a symbolic link is not followed: %s", error.text);
}

/* --- the user's own --- */

static void
own_is(const char *wanted, const char *text)
{
    char path[HP_SECRET_PATH];
    hoop_error error;
    hoop_result result = hp_secret_file_own(path, 0, &error);
    is_string(wanted, result == HOOP_SUCCESS ? path : "none", "%s", text);
}

static void
test_own(void)
{
    char path[HP_SECRET_PATH], config[PATH_TEXT];
    hoop_error error;
    setenv("HOME", "/home/user", 1);
    unsetenv("XDG_CONFIG_HOME");
    own_is("/home/user/.config/hoop/secret", "the user's own");
    setenv("XDG_CONFIG_HOME", "/etc/user", 1);
    own_is("/etc/user/hoop/secret", "in the folder of XDG_CONFIG_HOME");
    setenv("XDG_CONFIG_HOME", "relative", 1);
    own_is("/home/user/.config/hoop/secret", "a relative folder does not count");
    unsetenv("HOME");
    own_is("none", "nor is there one without HOME");
    in_folder(config, "config/deep");
    setenv("XDG_CONFIG_HOME", config, 1);
    ok(hp_secret_file_own(path, 1, &error) == HOOP_SUCCESS, "its folders are made");
    *strrchr(path, '/') = 0;
    is_int(0700, mode_of(path), "for the user alone");
}

/* --- the host's --- */

static hoop_result
of_host(hp_secret *secret, hoop_error *error)
{
    *error = (hoop_error){.size = sizeof(*error)};
    return hp_secret_file_of_host(secret, error);
}

static void
test_host(void)
{
    hp_secret one, two;
    hoop_error error;
    ok(of_host(&one, &error) == HOOP_SUCCESS && of_host(&two, &error) == HOOP_SUCCESS &&
           memcmp(one.key, two.key, HP_SECRET) == 0,
       "the host's secret stays");
    is_int(0600, mode_of(host_file), "in a file that is the user's alone");
    chmod(host_file, 0640);
    ok(of_host(&two, &error) == HOOP_ERR_AUTH && strstr(error.text, host_file), "others can read it: %s", error.text);
    unlink(host_file);
    if (symlink("/dev/null", host_file) != 0)
        bail("no link");
    ok(of_host(&two, &error) == HOOP_ERR_AUTH && strstr(error.text, host_file), "a symbolic link: %s", error.text);
    unlink(host_file);
    if (geteuid() == 0 && of_host(&two, &error) == HOOP_SUCCESS && chown(host_file, 65534, 65534) == 0)
        ok(of_host(&two, &error) == HOOP_ERR_AUTH && strstr(error.text, host_file), "another's: %s", error.text);
    else
        skip(1, "only root can give a file away");
    unlink(host_file);
}

/* Processes that come at once, each with its answer in shared memory. */
static void
test_race(void)
{
    hp_secret *seen = mmap(NULL, MAKERS * sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int bad = 0, go[2];
    if (seen == MAP_FAILED)
        bail("no shared memory");
    for (int round = 0; round < ROUNDS && bad == 0; round++) {
        memset(seen, 0xA5, MAKERS * sizeof(*seen));
        if (pipe(go) != 0)
            bail("no pipe");
        for (int i = 0; i < MAKERS; i++)
            if (fork() == 0) {
                hoop_error error;
                char end;
                close(go[1]);
                ssize_t n = read(go[0], &end, 1); /* all begin when the test closes it */
                _exit(n != 0 || of_host(&seen[i], &error) != HOOP_SUCCESS);
            }
        close(go[1]);
        close(go[0]);
        for (int i = 0, status = -1; i < MAKERS; i++)
            bad += wait(&status) < 0 || status != 0;
        for (int i = 1; i < MAKERS; i++)
            bad += memcmp(seen[i].key, seen[0].key, HP_SECRET) != 0;
        bad += unlink(host_file) != 0;
        bad += rmdir(runtime) != 0 || mkdir(runtime, 0700) != 0; /* nothing else was left in it */
    }
    is_int(0, bad, "%d processes that make it at once have the same one, %d times", MAKERS, ROUNDS);
    munmap(seen, MAKERS * sizeof(*seen));
}

/* The folder in /tmp may be used then, and is the user's real one: it is only looked at. */
static void
test_folder(void)
{
    char fallback[64];
    hp_secret secret;
    hoop_error error;
    chmod(runtime, 0750);
    snprintf(fallback, sizeof(fallback), "/tmp/hoop-%u", (unsigned)geteuid());
    int had = access(fallback, F_OK) == 0;
    hoop_result result = of_host(&secret, &error);
    ok(access(host_file, F_OK) != 0, "nothing is put into a folder that others may enter: %s",
       result == HOOP_SUCCESS ? "it is in /tmp" : error.text);
    is_int(0700, mode_of(fallback), "but into one that they may not");
    if (!had) {
        snprintf(fallback, sizeof(fallback), "/tmp/hoop-%u/hoop.secret", (unsigned)geteuid());
        unlink(fallback);
        *strrchr(fallback, '/') = 0;
        rmdir(fallback);
    }
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    in_folder(runtime, "runtime");
    snprintf(host_file, sizeof(host_file), "%s/hoop.secret", runtime);
    if (mkdir(runtime, 0700) != 0)
        bail("no folder");
    setenv("XDG_RUNTIME_DIR", runtime, 1);
    test_new();
    test_own();
    test_host();
    test_race();
    test_folder();
    return tap_failures() != 0;
}
