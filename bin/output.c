/* SPDX-License-Identifier: MIT */
/*
 * output: a sink is a descriptor with a queue. Its flags belong to whoever shares it, so it stays blocking: poll says
 * whether it takes bytes, and a pipe or terminal that does takes at least 4 KiB (PIPE_BUF) without blocking. Standard
 * output and error that are the same terminal or file are one sink, so that an unfinished line of the one is ended
 * before the other begins.
 */
#include "bin/output.h"

#include "bin/bytes.h"
#include "bin/must.h"
#include "lib/base/err.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIPE_PIECE = 4096, FILE_PIECE = 1 << 20, NOBODY = -1 };

typedef struct sink {
    hp_output *output;
    int fd;
    int is_file, broken;
    int open; /* whose line is unfinished; NOBODY: none */
    hp_bytes queue;
    hp_watch *watch; /* made when first needed: epoll knows no regular files */
} sink;

struct hp_output {
    hp_loop *loop;
    hp_output_options options;
    sink out, err_own, *err; /* err: &err_own, or &out when they are the same */
    int *files;              /* 2 a rank; NULL: no folder */
    int broken;
    uint64_t shown;
};

/* --- sinks --- */

static void
break_sink(sink *s)
{
    if (s->output->broken == 0)
        s->output->broken = errno ? errno : EIO;
    s->broken = 1;
    hp_bytes_free(&s->queue);
}

/* 1 when bytes left, 0 when it takes none now or broke. */
static int
write_some(sink *s)
{
    struct pollfd p = {.fd = s->fd, .events = POLLOUT};
    size_t size = hp_bytes_size(&s->queue), most = s->is_file ? FILE_PIECE : PIPE_PIECE;
    ssize_t n;

    if (poll(&p, 1, 0) <= 0)
        return 0;
    n = write(s->fd, hp_bytes_first(&s->queue), size < most ? size : most);
    if (n > 0)
        hp_bytes_drop(&s->queue, (size_t)n);
    else if (errno != EINTR && errno != EAGAIN)
        break_sink(s);
    return n > 0;
}

static void
push(sink *s)
{
    while (hp_bytes_size(&s->queue) > 0 && write_some(s))
        continue;
    if (s->watch != NULL)
        hp_watch_set(s->watch, hp_bytes_size(&s->queue) ? HP_WRITE : 0);
}

static void
writable(void *arg, int ready)
{
    sink *s = arg;

    (void)ready;
    push(s);
    s->output->options.moved(s->output->options.arg);
}

static void
flush(sink *s)
{
    push(s);
    if (hp_bytes_size(&s->queue) == 0 || s->watch != NULL)
        return;
    s->watch = hp_watch_new(s->output->loop, s->fd, writable, s);
    if (s->watch == NULL || hp_watch_set(s->watch, HP_WRITE) < 0)
        break_sink(s);
}

static void
open_sink(hp_output *output, sink *s, int fd)
{
    struct stat st;

    *s = (sink){.output = output, .fd = fd, .open = NOBODY};
    s->is_file = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

static int
same_file(int a, int b)
{
    struct stat sa, sb;

    return fstat(a, &sa) == 0 && fstat(b, &sb) == 0 && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

/* Whoever writes next begins at a line of its own. */
static void
end_line(sink *s, int who)
{
    if (s->open == NOBODY || s->open == who)
        return;
    hp_bytes_add(&s->queue, "\n", 1);
    s->open = NOBODY;
}

static void
add_labelled(sink *s, int rank, const uint8_t *bytes, size_t n)
{
    char label[16];
    int size = snprintf(label, sizeof label, "[%d] ", rank);

    while (n > 0) {
        const uint8_t *newline = memchr(bytes, '\n', n);
        size_t line = newline ? (size_t)(newline - bytes) + 1 : n;

        if (s->open == NOBODY)
            hp_bytes_add(&s->queue, label, (size_t)size);
        hp_bytes_add(&s->queue, bytes, line);
        s->open = newline ? NOBODY : rank;
        bytes += line;
        n -= line;
    }
}

/* --- files --- */

static void
write_file(hp_output *output, int fd, const uint8_t *bytes, size_t n)
{
    while (n > 0) {
        ssize_t done = write(fd, bytes, n);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0) {
            output->broken = output->broken ? output->broken : errno;
            return;
        }
        bytes += done;
        n -= (size_t)done;
    }
}

static int
make_folders(char *path)
{
    char *slash;

    for (slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0777) < 0 && errno != EEXIST)
            return -1;
        *slash = '/';
    }
    return 0;
}

static int
open_file(const char *dir, int rank, int stream)
{
    char *path = hp_must_print("%s/rank.%d/%s", dir, rank, stream == 1 ? "stdout" : "stderr");
    int fd = make_folders(path) < 0 ? -1 : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int number = errno;

    free(path);
    errno = number;
    return fd;
}

static hoop_result
open_files(hp_output *output, hoop_error *error)
{
    int count = 2 * output->options.size, i;

    output->files = hp_must_alloc((size_t)count, sizeof *output->files);
    for (i = 0; i < count; i++)
        output->files[i] = -1;
    for (i = 0; i < count; i++) {
        output->files[i] = open_file(output->options.dir, i / 2, 1 + i % 2);
        if (output->files[i] < 0)
            return hp_err_sys(error, HOOP_ERR_INVALID_ARGUMENT, errno,
                              "--output-dir %.150s: cannot make the files of rank %d there", output->options.dir,
                              i / 2);
    }
    return HOOP_SUCCESS;
}

/* --- the owner's side --- */

hp_output *
hp_output_new(hp_loop *loop, const hp_output_options *options, hoop_error *error)
{
    hp_output *output = hp_must_alloc(1, sizeof *output);

    *output = (hp_output){.loop = loop, .options = *options};
    open_sink(output, &output->out, STDOUT_FILENO);
    open_sink(output, &output->err_own, STDERR_FILENO);
    output->err = same_file(STDOUT_FILENO, STDERR_FILENO) ? &output->out : &output->err_own;
    if (options->dir == NULL || open_files(output, error) == HOOP_SUCCESS)
        return output;
    hp_output_free(output);
    return NULL;
}

void
hp_output_rank(hp_output *output, int rank, int stream, const uint8_t *bytes, size_t n)
{
    sink *s = stream == 1 ? &output->out : output->err;
    int who = output->options.size > 1 ? 2 * rank + stream : 0; /* one rank alone mixes its streams as it likes */

    if (output->files != NULL) {
        write_file(output, output->files[2 * rank + stream - 1], bytes, n);
        return;
    }
    if (n == 0 || s->broken)
        return;
    end_line(s, who);
    if (output->options.label)
        add_labelled(s, rank, bytes, n);
    else
        hp_bytes_add(&s->queue, bytes, n);
    s->open = bytes[n - 1] == '\n' ? NOBODY : who;
    output->shown += stream == 2;
    flush(s);
}

void
hp_output_say(hp_output *output, const char *line)
{
    sink *s = output->err;

    if (s->broken)
        return;
    end_line(s, NOBODY);
    hp_bytes_add(&s->queue, line, strlen(line));
    hp_bytes_add(&s->queue, "\n", 1);
    flush(s);
}

size_t
hp_output_backlog(const hp_output *output)
{
    return hp_bytes_size(&output->out.queue) + hp_bytes_size(&output->err_own.queue);
}

int
hp_output_broken(const hp_output *output)
{
    return output->broken;
}

uint64_t
hp_output_shown(const hp_output *output)
{
    return output->shown;
}

void
hp_output_free(hp_output *output)
{
    int i;

    for (i = 0; output->files != NULL && i < 2 * output->options.size; i++)
        if (output->files[i] >= 0)
            close(output->files[i]);
    free(output->files);
    hp_watch_free(output->out.watch);
    hp_watch_free(output->err_own.watch);
    hp_bytes_free(&output->out.queue);
    hp_bytes_free(&output->err_own.queue);
    free(output);
}
