/* SPDX-License-Identifier: MIT */
/*
 * secret_file: see secret_file.h. That of the host is in the user's runtime folder; where the system has none, in a
 * folder in /tmp that nobody else may enter. It gets its name by a link, so that all processes see one whole file.
 */
#include "lib/secret_file.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

hoop_result
hp_secret_file_new(const char *path, const hp_secret *secret, hoop_error *error)
{
    char text[HP_SECRET_TEXT];
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST)
        return hp_err_set(error, HOOP_ERR_SYSTEM,
                          "there is a secret in \"%.140s\" already: copy that file to every host, or remove it first",
                          path);
    if (fd < 0)
        return hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot make the new file \"%.180s\" for a secret", path);
    hp_secret_format(text, secret);
    ssize_t n = (ssize_t)strlen(text), wrote = write(fd, text, (size_t)n);
    int number = errno;
    hp_wipe(text, sizeof(text));
    if (close(fd) == 0 && wrote == n)
        return HOOP_SUCCESS;
    unlink(path);
    return hp_err_sys(error, HOOP_ERR_SYSTEM, number, "cannot write the secret to \"%.180s\"", path);
}

/* --- the user's own --- */

/* Makes the folders of the path that do not exist, for the user alone; its first `there` characters have to exist. */
static hoop_result
make_folders(char *path, size_t there, hoop_error *error)
{
    for (char *slash = strchr(path + there + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        int made = mkdir(path, 0700) == 0 || errno == EEXIST;
        if (!made)
            return hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot make the folder \"%.180s\"", path);
        *slash = '/';
    }
    return HOOP_SUCCESS;
}

hoop_result
hp_secret_file_own(char path[HP_SECRET_PATH], int make, hoop_error *error)
{
    /* a program with more rights than its caller does not follow the caller's variables */
    const char *folder = secure_getenv("XDG_CONFIG_HOME"), *home = secure_getenv("HOME");
    int known = folder && *folder == '/', n = -1;
    if (known)
        n = snprintf(path, HP_SECRET_PATH, "%s/hoop/secret", folder);
    else if (home && *home == '/')
        n = snprintf(path, HP_SECRET_PATH, "%s/.config/hoop/secret", home);
    if (n < 0 || n >= HP_SECRET_PATH)
        return hp_err_set(error, HOOP_ERR_AUTH,
                          "this user has no folder for a secret: HOME is not set; name a file in HOOP_SECRET_FILE");
    return make ? make_folders(path, known ? 0 : strlen(home), error) : HOOP_SUCCESS;
}

/* --- that of the host --- */

/* A folder that is the user's, and that no other user may enter. */
static int
is_private(const char *folder)
{
    struct stat s;
    return lstat(folder, &s) == 0 && S_ISDIR(s.st_mode) && s.st_uid == geteuid() && (s.st_mode & 077) == 0;
}

static hoop_result
find_folder(char folder[HP_SECRET_PATH], hoop_error *error)
{
    const char *given = secure_getenv("XDG_RUNTIME_DIR");
    if (given && *given == '/' && strlen(given) < HP_SECRET_PATH / 2 && is_private(given)) {
        snprintf(folder, HP_SECRET_PATH, "%s", given);
        return HOOP_SUCCESS;
    }
    snprintf(folder, HP_SECRET_PATH, "/tmp/hoop-%u", (unsigned)geteuid());
    if ((mkdir(folder, 0700) == 0 || errno == EEXIST) && is_private(folder))
        return HOOP_SUCCESS;
    return hp_err_set(error, HOOP_ERR_AUTH,
                      "%s is not a folder that only this user may enter, so hoop keeps no secret there: remove it, set "
                      "XDG_RUNTIME_DIR, or name a file in HOOP_SECRET_FILE",
                      folder);
}

/* Makes the file, unless another process was faster. */
static hoop_result
make_file(const char *folder, const char *path, hp_secret *secret, hoop_error *error)
{
    char draft[HP_SECRET_PATH + 32];
    uint64_t random;
    *secret = (hp_secret){.of_job = 0};
    hoop_result result = hp_random(&random, sizeof(random), error);
    if (result == HOOP_SUCCESS)
        result = hp_random(secret->key, sizeof(secret->key), error);
    snprintf(draft, sizeof(draft), "%s/hoop.secret.%016llx", folder, (unsigned long long)random);
    if (result == HOOP_SUCCESS)
        result = hp_secret_file_new(draft, secret, error);
    if (result != HOOP_SUCCESS)
        return result;
    if (link(draft, path) != 0 && errno != EEXIST)
        result = hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot make the file \"%.180s\" for a secret", path);
    unlink(draft);
    return result;
}

hoop_result
hp_secret_file_of_host(hp_secret *secret, hoop_error *error)
{
    char folder[HP_SECRET_PATH], path[HP_SECRET_PATH + 16];
    hoop_result result = find_folder(folder, error);
    if (result != HOOP_SUCCESS)
        return result;
    snprintf(path, sizeof(path), "%s/hoop.secret", folder);
    if (access(path, F_OK) != 0)
        result = make_file(folder, path, secret, error);
    return result == HOOP_SUCCESS ? hp_secret_from_file(secret, path, error) : result;
}
