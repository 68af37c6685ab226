/* SPDX-License-Identifier: MIT */
/* server_socket: see server_socket.h. */
#include "flight/server_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

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
