/* SPDX-License-Identifier: MIT */
/*
 * ports: see ports.h. A socket that is bound, and does not listen, holds a port. Only after it was bound it takes
 * SO_REUSEADDR: another one that looks for ports like this does not get it, while a server of the test, which has that option,
 * does.
 */
#include "t/tap/ports.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { FIRST = 10000, END = 32000, MOST = 128, TRIES = 200 };

static int
hold(int port)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&any, sizeof(any)) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0)
        return fd;
    close(fd);
    return -1;
}

int
ports_hold(int n)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    unsigned seed = (unsigned)getpid() * 2654435761U ^ (unsigned)now.tv_nsec;
    for (int try = 0; try < TRIES && n <= MOST; try++) {
        int fds[MOST], held = 0, first = FIRST + rand_r(&seed) % (END - FIRST - n);
        while (held < n && (fds[held] = hold(first + held)) >= 0)
            held++;
        if (held == n)
            return first;
        while (held > 0)
            close(fds[--held]);
    }
    return -1;
}
