/* SPDX-License-Identifier: MIT */
/*
 * A remote shell over plain TCP, without any secret, for tests of networks that fail:
 *
 *     far_shell serve PORT                      in the network of a host: runs what it is sent, until it is killed
 *     far_shell call ADDRESS PORT COMMAND...    runs the command there; its input and output are those of the command
 *
 * Standard error of the command stays on its own side, as that of `serve`, which prints "listening" when it does. What a
 * killed server has started gets TERM.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LINE = 65536, PIECE = 65536 };

static int
fail(const char *what)
{
    perror(what);
    return 125;
}

/* --- on the host --- */

/* One line is the command; what follows belongs to it. */
static int
run(int fd)
{
    static char line[LINE] = "exec ";
    size_t n = strlen(line);
    while (n < sizeof(line) - 1 && read(fd, line + n, 1) == 1 && line[n] != '\n')
        n++;
    line[n] = '\0';
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(fd, 0);
    dup2(fd, 1);
    close(fd);
    execl("/bin/sh", "sh", "-c", line, (char *)NULL);
    return fail("sh");
}

static int
serve(int port)
{
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    int listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(listener, (struct sockaddr *)&any, sizeof(any)) < 0 || listen(listener, 64) < 0)
        return fail("listen");
    signal(SIGCHLD, SIG_IGN);
    puts("listening");
    fflush(stdout);
    for (int fd; (fd = accept(listener, NULL, NULL)) >= 0; close(fd))
        if (fork() == 0)
            return run(fd);
    return fail("accept");
}

/* --- at the caller --- */

static int
write_all(int fd, const char *bytes, ssize_t n)
{
    for (ssize_t done; n > 0; bytes += done, n -= done)
        if ((done = write(fd, bytes, (size_t)n)) < 0)
            return -1;
    return 0;
}

/* 0: that was the end. */
static int
pass_on(int from, int to)
{
    static char bytes[PIECE];
    ssize_t n = read(from, bytes, sizeof(bytes));
    return n > 0 && write_all(to, bytes, n) == 0;
}

static int
call(const char *address, int port, char **words)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (inet_pton(AF_INET, address, &to.sin_addr) != 1 || connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
        return fail(address);
    for (; *words; words++)
        if (write_all(fd, *words, (ssize_t)strlen(*words)) < 0 || write_all(fd, words[1] ? " " : "\n", 1) < 0)
            return fail("write");
    struct pollfd ready[2] = {{.fd = fd, .events = POLLIN}, {.fd = 0, .events = POLLIN}};
    while (poll(ready, 2, -1) > 0) {
        if (ready[0].revents && !pass_on(fd, 1))
            return 0;
        if (ready[1].revents && !pass_on(0, fd)) {
            shutdown(fd, SHUT_WR);
            ready[1].fd = -1;
        }
    }
    return fail("poll");
}

int
main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    if (argc == 3 && strcmp(argv[1], "serve") == 0)
        return serve(atoi(argv[2]));
    if (argc > 4 && strcmp(argv[1], "call") == 0)
        return call(argv[2], atoi(argv[3]), argv + 4);
    fprintf(stderr, "usage: far_shell serve PORT | call ADDRESS PORT COMMAND...\n");
    return 125;
}
