/* SPDX-License-Identifier: MIT */
/* limit_socket: see limit_socket.h. */
#include "limit_socket.h"

#include "bench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { PORT = 21000 }; /* below those that the kernel gives to connections */

static struct sockaddr_in
address_of(int rank)
{
    const char *net = getenv("BENCH_NET");
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)(PORT + rank))};
    char text[32] = "127.0.0.1";
    if (net)
        snprintf(text, sizeof(text), "%s%d", net, rank + 1);
    if (inet_pton(AF_INET, text, &a.sin_addr) != 1) {
        errno = 0;
        bench_die("BENCH_NET is no network; it looks like 10.99.0.");
    }
    return a;
}

int
limit_listen(int rank)
{
    struct sockaddr_in mine = address_of(rank);
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(listener, (const struct sockaddr *)&mine, sizeof(mine)) != 0 || listen(listener, 8) != 0)
        bench_die("cannot listen on port 21000 + rank");
    return listener;
}

/* Of a socket that is not connected yet: the other end's is set by itself. */
static void
set_congestion_control(int fd)
{
    const char *cc = getenv("LIMIT_CC");
    if (cc && setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, cc, (socklen_t)strlen(cc)) != 0)
        bench_die("this congestion control is not to be had");
}

static void
send_at_once(int fd)
{
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

int
limit_dial(int rank)
{
    struct sockaddr_in theirs = address_of(rank);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    set_congestion_control(fd);
    if (connect(fd, (const struct sockaddr *)&theirs, sizeof(theirs)) != 0)
        bench_die("cannot connect to another rank");
    send_at_once(fd);
    return fd;
}

int
limit_accept(int listener)
{
    int fd = accept(listener, NULL, NULL);
    if (fd < 0)
        bench_die("cannot accept another rank");
    set_congestion_control(fd);
    send_at_once(fd);
    return fd;
}
