/* SPDX-License-Identifier: MIT */
/* folder: see folder.h. */
#include "flight/folder.h"

#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { TRIES = 10000 }; /* names of one process: a recorder may be left of an earlier one with its pid */

/* --- the folder --- */

static int
open_folder(const char *path, int make, hoop_error *error)
{
    if (make && mkdir(path, 0700) != 0 && errno != EEXIST) {
        hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot make the folder %s", path);
        return -1;
    }
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot open the folder %s", path);
        return -1;
    }
    struct stat folder; /* one of another user would show that user what this one calls, and take a link to any file */
    if (fstat(fd, &folder) == 0 && folder.st_uid == geteuid() && (folder.st_mode & 077) == 0)
        return fd;
    hp_err_set(error, HOOP_ERR_SYSTEM, "the folder %s is not this user's alone: remove it, or give it mode 0700", path);
    close(fd);
    return -1;
}

/* 0: this user has none. */
static int
in_runtime_folder(char path[HP_FLIGHT_PATH])
{
    const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
    return runtime && runtime[0] == '/' && snprintf(path, HP_FLIGHT_PATH, "%s/hoop", runtime) < HP_FLIGHT_PATH;
}

static void
in_memory(char path[HP_FLIGHT_PATH])
{
    snprintf(path, HP_FLIGHT_PATH, "/dev/shm/hoop-%u", (unsigned)geteuid());
}

int
hp_flight_folder_make(char path[HP_FLIGHT_PATH], hoop_error *error)
{
    int fd = in_runtime_folder(path) ? open_folder(path, 1, error) : -1;
    if (fd >= 0)
        return fd;
    in_memory(path);
    return open_folder(path, 1, error);
}

int
hp_flight_folder_open(int number, char path[HP_FLIGHT_PATH], hoop_error *error)
{
    if (number > 0)
        in_memory(path);
    else if (!in_runtime_folder(path))
        snprintf(path, HP_FLIGHT_PATH, "/run/user/%u/hoop", (unsigned)geteuid());
    return open_folder(path, 0, error);
}

/* --- a recorder --- */

/* A descriptor of a new file of the folder; -1 with errno. */
static int
create(int folder, char name[64])
{
    int fd = -1;
    for (int i = 1; fd < 0 && i <= TRIES; i++) {
        snprintf(name, 64, "%d-%d.flight", (int)getpid(), i);
        fd = openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    return fd;
}

/* 0, or an errno. Where the process may write no such file, the kernel would kill it. A signal interrupts it at any time. */
static int
reserve(int fd)
{
    struct rlimit most;
    int number;
    if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY && most.rlim_cur < HP_FLIGHT_BYTES)
        return EFBIG;
    while ((number = posix_fallocate(fd, 0, HP_FLIGHT_BYTES)) == EINTR)
        continue;
    return number;
}

/* The bytes of the file in memory; NULL with errno. */
static hp_flight_word *
map(int fd)
{
    void *words = mmap(NULL, HP_FLIGHT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (words == MAP_FAILED)
        return NULL;
    if (madvise(words, HP_FLIGHT_BYTES, MADV_DONTFORK) == 0)
        return words;
    munmap(words, HP_FLIGHT_BYTES);
    return NULL;
}

hoop_result
hp_flight_file_make(hp_flight_file *file, hoop_error *error)
{
    char folder_path[HP_FLIGHT_PATH], name[64];
    int folder = hp_flight_folder_make(folder_path, error);
    *file = (hp_flight_file){0};
    if (folder < 0)
        return HOOP_ERR_SYSTEM;
    int fd = create(folder, name), number = fd < 0 ? errno : reserve(fd);
    if (number == 0 && !(file->words = map(fd)))
        number = errno;
    if (number != 0 && fd >= 0)
        unlinkat(folder, name, 0);
    if (fd >= 0)
        close(fd);
    close(folder);
    if (number != 0)
        return hp_err_sys(error, HOOP_ERR_SYSTEM, number, "cannot reserve %d bytes in %s", HP_FLIGHT_BYTES,
                          folder_path);
    snprintf(file->path, sizeof(file->path), "%s/%s", folder_path, name);
    return HOOP_SUCCESS;
}

void
hp_flight_file_end(hp_flight_file *file, int keep)
{
    if (!file->words)
        return;
    munmap((void *)file->words, HP_FLIGHT_BYTES);
    if (!keep)
        unlink(file->path);
    file->words = NULL;
}

/* --- sockets of servers --- */

int
hp_server_socket_pid(const char *name)
{
    int pid, end = 0;
    return sscanf(name, "%9d-%*9d.socket%n", &pid, &end) == 1 && end > 0 && name[end] == '\0' && pid > 0 ? pid : 0;
}

int
hp_server_socket_connect(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(at.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(at.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&at, sizeof(at)) == 0)
        return fd;
    int number = errno;
    close(fd);
    errno = number;
    return -1;
}

const char *
hp_server_socket_path(int folder, const char *name, char out[HP_SERVER_SOCKET_PATH])
{
    snprintf(out, HP_SERVER_SOCKET_PATH, "/proc/self/fd/%d/%.32s", folder, name);
    return out;
}

int
hp_server_socket_is_dead(int folder, const char *name)
{
    char path[HP_SERVER_SOCKET_PATH];
    struct stat file;
    if (!hp_server_socket_pid(name) || fstatat(folder, name, &file, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISSOCK(file.st_mode) || file.st_uid != geteuid())
        return 0;
    int fd = hp_server_socket_connect(hp_server_socket_path(folder, name, path)), refused = errno == ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    return fd < 0 && refused;
}
