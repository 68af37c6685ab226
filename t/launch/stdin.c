/* SPDX-License-Identifier: MIT */
/* Standard input on its way to rank 0: read only as far as it is taken, from pipes and files, to its end. */
#include "launch/streams.h"

#include "t/launch/fake_loop.h"
#include "t/tap/tap.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WINDOW = 256 * 1024, SIZE = 1000 * 1000 };

static hp_loop *loop;
static size_t given;
static int ends, wrong;

/* The k-th byte of every input here. */
static uint8_t
byte_at(size_t k)
{
    return (uint8_t)(k * 31 >> 4);
}

/* Turns of the loop, until nothing more comes. */
static void
take(hp_stdin *in)
{
    const uint8_t *bytes;
    ssize_t n;
    fake_loop_settle(loop);
    while ((n = hp_stdin_read(in, &bytes)) > 0) {
        wrong |= n > 64 * 1024 || ends > 0;
        for (ssize_t i = 0; i < n; i++)
            wrong |= bytes[i] != byte_at(given + (size_t)i);
        given += (size_t)n;
    }
    ends += n < 0;
}

static hp_stdin *
begin(int fd)
{
    given = 0;
    ends = wrong = 0;
    loop = hp_loop_new();
    return hp_stdin_new(loop, fd);
}

static void
put(int fd, size_t from, size_t n)
{
    uint8_t *bytes = malloc(n);
    for (size_t i = 0; i < n; i++)
        bytes[i] = byte_at(from + i);
    if (write(fd, bytes, n) != (ssize_t)n)
        bail("cannot write %zu bytes", n);
    free(bytes);
}

static void
check_pipe(void)
{
    int fd[2];
    if (pipe(fd) < 0)
        bail("no pipe");
    hp_stdin *in = begin(fd[0]);
    put(fd[1], 0, 100);
    take(in);
    is_uint(0, given, "nothing is read before the ranks run");
    hp_stdin_taken(in, 0);
    take(in);
    is_uint(0, given, "not even where an agent says so");
    hp_stdin_go(in);
    take(in);
    is_uint(100, given, "then what is there");
    put(fd[1], 100, 50);
    take(in);
    is_uint(150, given, "and what comes");
    size_t put_in = 150;
    for (; put_in < WINDOW - 20000; put_in += 10000) {
        put(fd[1], put_in, 10000);
        take(in);
    }
    ok(given < put_in && given > WINDOW - 64 * 1024, "until 256 KiB may be on their way: %zu", given);
    size_t before = given;
    hp_stdin_taken(in, before);
    take(in);
    ok(given > before, "what is taken makes room");
    close(fd[1]);
    hp_stdin_taken(in, given);
    take(in);
    is_int(1, ends, "the end is told once");
    ok(!wrong, "every byte came in its order, in pieces of at most 64 KiB");
    ok(fcntl(fd[0], F_GETFL) == O_RDONLY, "the descriptor's flags are as they were");
    hp_stdin_free(in);
    hp_loop_free(loop);
    close(fd[0]);
}

static void
check_file(void)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/input", tap_tmpdir());
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    put(fd, 0, SIZE);
    lseek(fd, 0, SEEK_SET);
    hp_stdin *in = begin(fd);
    hp_stdin_go(in);
    take(in);
    ok(given <= WINDOW && ends == 0, "of a file as much as of a pipe: %zu", given);
    while (!ends && given < 2 * SIZE) {
        hp_stdin_taken(in, WINDOW);
        take(in);
    }
    is_uint(SIZE, given, "to its end");
    hp_stdin_taken(in, WINDOW);
    take(in);
    ok(ends == 1 && !wrong, "which is told once");
    hp_stdin_free(in);
    hp_stdin_free(NULL);
    hp_loop_free(loop);
    close(fd);
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    check_pipe();
    check_file();
    return 0;
}
