/* SPDX-License-Identifier: MIT */
/* ask: see ask.h. */
#include "top/ask.h"

#include "base/clock.h"
#include "flight/folder.h"
#include "flight/server_socket.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REQUEST = 32, PIECE = 256 << 10, LIMIT_MS = 2000 };
enum { ANSWER_MAX = 512 << 20 }; /* as JSON, a rank takes a kilobyte in each ring that it is in */

/* 1: at the end; 0: more may come; -1 with errno. */
static int
read_piece(int fd, hp_buffer *out, uint64_t deadline)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    uint64_t now = hp_now();
    uint8_t *room = hp_buffer_room(out, PIECE);
    if (!room || hp_buffer_size(out) > ANSWER_MAX) {
        errno = room ? EMSGSIZE : ENOMEM;
        return -1;
    }
    if (now >= deadline || poll(&ready, 1, (int)((deadline - now) / HP_MS) + 1) == 0) {
        errno = ETIMEDOUT;
        return -1;
    }
    ssize_t n = recv(fd, room, PIECE, 0);
    if (n > 0)
        hp_buffer_grown(out, (size_t)n);
    return n == 0 ? 1 : n > 0 || errno == EAGAIN || errno == EINTR ? 0 : -1;
}

int
hp_top_converse(int fd, const char *request, hp_buffer *out)
{
    char line[REQUEST];
    int n = snprintf(line, sizeof(line), "%s\n", request), got = -1;
    uint64_t deadline = hp_now() + LIMIT_MS * HP_MS;
    if (send(fd, line, (size_t)n, MSG_NOSIGNAL) == n)
        while ((got = read_piece(fd, out, deadline)) == 0)
            continue;
    return got == 1 ? 0 : -1;
}

int
hp_top_ask(const char *path, const char *request, hp_buffer *out)
{
    int fd = hp_server_socket_connect(path);
    if (fd < 0)
        return -1;
    int got = hp_top_converse(fd, request, out), number = errno;
    close(fd);
    errno = number;
    return got;
}

/* Takes the folder's descriptor. */
static int
find_servers(int fd, void (*fn)(void *arg, const char *path, int pid), void *arg)
{
    char path[HP_SERVER_SOCKET_PATH];
    int found = 0;
    DIR *dir = fdopendir(fd);
    if (!dir)
        close(fd);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        int pid = hp_server_socket_pid(entry->d_name);
        if (pid && hp_server_socket_is_dead(fd, entry->d_name)) {
            unlinkat(fd, entry->d_name, 0);
        } else if (pid) {
            found++;
            fn(arg, hp_server_socket_path(fd, entry->d_name, path), pid);
        }
    }
    if (dir)
        closedir(dir);
    return found;
}

int
hp_top_servers(void (*fn)(void *arg, const char *path, int pid), void *arg)
{
    char path[HP_FLIGHT_PATH];
    int found = 0;
    for (int i = 0; i < HP_FLIGHT_FOLDERS; i++) {
        int fd = hp_flight_folder_open(i, path, NULL);
        found += fd >= 0 ? find_servers(fd, fn, arg) : 0;
    }
    return found;
}
