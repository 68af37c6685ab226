/* SPDX-License-Identifier: MIT */
/*
 * files: everything is opened relative to a folder that has been checked, so that it cannot be exchanged in between.
 * All folders and files are checked before the first one is made or overwritten.
 */
#include "launch/files.h"

#include "base/err.h"
#include "launch/xalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STREAMS = 2 };

struct hp_files {
    int dir;    /* -1: not open */
    char *made; /* the path of the folder, if it was not there before */
    int count;  /* STREAMS for each rank */
    int fd[];
};

static const char *const names[STREAMS] = {"stdout", "stderr"};

/* --- folders --- */

static int
make_parents(const char *dir)
{
    char *path = hp_xstrdup(dir);
    int result = 0, number;
    for (char *slash = strchr(path + 1, '/'); slash && result == 0; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        result = mkdir(path, 0777) < 0 && errno != EEXIST ? -1 : 0;
        *slash = '/';
    }
    number = errno;
    free(path);
    errno = number;
    return result;
}

/* Opens a folder of ours, or makes it (*made). EPERM: it is another user's; ENOTDIR, ELOOP: it is no folder. */
static int
open_folder(int parent, const char *name, int *made)
{
    struct stat st;
    *made = mkdirat(parent, name, 0777) == 0;
    if (!*made && errno != EEXIST)
        return -1;
    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode)) {
        errno = ELOOP; /* openat would say ENOTDIR */
        return -1;
    }
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || (fstat(fd, &st) == 0 && st.st_uid == geteuid()))
        return fd;
    close(fd);
    errno = EPERM;
    return -1;
}

/* *made: its path if it was not there before, else NULL; free() it. */
static int
open_top(const char *dir, char **made)
{
    char *path = hp_xstrdup(dir), *end = path + strlen(path);
    int is_new = 0;
    while (end > path + 1 && end[-1] == '/') /* with it a link would be followed */
        *--end = '\0';
    int fd = make_parents(path) < 0 ? -1 : open_folder(AT_FDCWD, path, &is_new);
    int number = errno;
    *made = is_new ? path : NULL;
    if (!is_new)
        free(path);
    errno = number;
    return fd;
}

/* --- files --- */

/* The name of a file of a former run; NULL: none. free() it. */
static char *
find_former(int dir, int ranks)
{
    char *path = NULL;
    struct stat st;
    for (int i = 0; i < STREAMS * ranks; i++) {
        path = hp_xasprintf("rank.%d/%s", i / STREAMS, names[i % STREAMS]);
        if (fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
            return path;
        free(path);
    }
    return NULL;
}

static int
open_files_of(hp_files *files, int dir, int rank, int force)
{
    char *name = hp_xasprintf("rank.%d", rank);
    int is_new, folder = open_folder(dir, name, &is_new), i, number;
    int how = O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | (force ? O_TRUNC : O_EXCL);
    int result = folder;
    for (i = 0; i < STREAMS && result >= 0; i++)
        result = files->fd[STREAMS * rank + i] = openat(folder, names[i], how, 0666);
    number = errno;
    if (folder >= 0)
        close(folder);
    free(name);
    errno = number;
    return result;
}

/* A folder with other files in it stays. */
static void
remove_rank(const hp_files *files, int rank)
{
    char *name = hp_xasprintf("rank.%d", rank);
    int folder = openat(files->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    for (int i = 0; i < STREAMS && folder >= 0; i++)
        if (files->fd[STREAMS * rank + i] >= 0)
            unlinkat(folder, names[i], 0);
    if (folder >= 0)
        close(folder);
    unlinkat(files->dir, name, AT_REMOVEDIR);
    free(name);
}

static const char *
reason(int number)
{
    switch (number) {
    case ELOOP: return "a symbolic link is in the way; hooprun does not follow it";
    case EPERM: return "a folder there belongs to another user";
    default: return strerror(number);
    }
}

static hoop_result
refuse(const char *dir, int rank, hoop_error *error)
{
    return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                      "--output-dir %.150s: cannot make the files of rank %d there: %s", dir, rank, reason(errno));
}

static hoop_result
open_all(hp_files *files, const char *dir, int force, hoop_error *error)
{
    char *former = force ? NULL : find_former(files->dir, files->count / STREAMS);
    if (former) {
        hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                   "--output-dir %.150s: %s is there already; name another folder, or write over it with --force", dir,
                   former);
        free(former);
        return HOOP_ERR_INVALID_ARGUMENT;
    }
    for (int i = 0; i < files->count / STREAMS; i++)
        if (open_files_of(files, files->dir, i, force) < 0)
            return refuse(dir, i, error);
    return HOOP_SUCCESS;
}

/* --- the owner's side --- */

hp_files *
hp_files_open(const char *dir, int ranks, int force, hoop_error *error)
{
    hp_files *files = hp_xcalloc(1, sizeof(*files) + (size_t)(STREAMS * ranks) * sizeof(files->fd[0]));
    files->count = STREAMS * ranks;
    for (int i = 0; i < files->count; i++)
        files->fd[i] = -1;
    files->dir = open_top(dir, &files->made);
    if ((files->dir < 0 ? refuse(dir, 0, error) : open_all(files, dir, force, error)) == HOOP_SUCCESS)
        return files;
    hp_files_remove(files);
    return NULL;
}

int
hp_files_write(hp_files *files, int rank, int stream, const uint8_t *bytes, size_t n)
{
    int fd = files->fd[STREAMS * rank + stream - 1];
    while (n > 0) {
        ssize_t done = write(fd, bytes, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return -1;
        bytes += done;
        n -= (size_t)done;
    }
    return 0;
}

void
hp_files_remove(hp_files *files)
{
    for (int i = 0; i < files->count / STREAMS; i++)
        remove_rank(files, i);
    if (files->made)
        rmdir(files->made);
    hp_files_close(files);
}

void
hp_files_close(hp_files *files)
{
    for (int i = 0; i < files->count; i++)
        if (files->fd[i] >= 0)
            close(files->fd[i]);
    if (files->dir >= 0)
        close(files->dir);
    free(files->made);
    free(files);
}
