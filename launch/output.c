/* SPDX-License-Identifier: MIT */
/*
 * output: a sink is a descriptor, a queue, and the screen that fills the queue. The descriptor's flags belong to all
 * processes that share it, so it stays blocking: poll tells whether it takes bytes, and a pipe or terminal that does
 * takes at least 4 KiB (PIPE_BUF) without blocking. If standard output and error are the same terminal or file, they
 * are one sink, so that an unfinished line of one is ended before a line of the other begins.
 */
#include "launch/output.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "launch/files.h"
#include "launch/screen.h"
#include "launch/xalloc.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIPE_PIECE = 4096, FILE_PIECE = 1 << 20 };

typedef struct sink {
    hp_output *output;
    int fd;
    int is_file, broken;
    hp_buffer queue;
    hp_screen *screen; /* NULL: nothing is shown here */
    hp_timer *timer;   /* for lines that wait in it */
    hp_watch *watch;   /* made at the first need: epoll does not take regular files */
} sink;

struct hp_output {
    hp_loop *loop;
    hp_output_options options;
    sink out, err_own, *err; /* err: &err_own, or &out when they are the same */
    hp_files *files;         /* NULL: none */
    int broken, all_ended;
    int kept; /* the files stay, also if nothing was written */
    uint64_t shown;
};

/* --- sinks --- */

static void
break_sink(sink *s)
{
    if (s->output->broken == 0)
        s->output->broken = errno ? errno : EIO;
    s->broken = 1;
    hp_buffer_free(&s->queue);
}

/* 1: bytes were written; 0: it takes none now, or it broke. */
static int
write_some(sink *s)
{
    struct pollfd p = {.fd = s->fd, .events = POLLOUT};
    size_t size = hp_buffer_size(&s->queue), most = s->is_file ? FILE_PIECE : PIPE_PIECE;
    if (poll(&p, 1, 0) <= 0)
        return 0;
    ssize_t n = write(s->fd, hp_buffer_first(&s->queue), size < most ? size : most);
    if (n > 0)
        hp_buffer_drop(&s->queue, (size_t)n);
    else if (errno != EINTR && errno != EAGAIN)
        break_sink(s);
    return n > 0;
}

static void
push(sink *s)
{
    while (hp_buffer_size(&s->queue) > 0 && write_some(s))
        continue;
    if (s->watch)
        hp_watch_set(s->watch, hp_buffer_size(&s->queue) ? HP_WRITE : 0);
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
    if (hp_buffer_size(&s->queue) == 0 || s->watch)
        return;
    s->watch = hp_watch_new(s->output->loop, s->fd, writable, s);
    if (!s->watch || hp_watch_set(s->watch, HP_WRITE) < 0)
        break_sink(s);
}

/* Shows the lines that have waited long enough in the screen, and sets the timer for the others. */
static void
settle(sink *s)
{
    uint64_t now = hp_now(), next = hp_screen_due(s->screen, now);
    hp_timer_set(s->timer, next == HP_NEVER ? HP_NEVER : next - now);
    if (s->broken)
        hp_buffer_free(&s->queue);
    else
        flush(s);
}

static void
waited(void *arg)
{
    settle(arg);
}

static void
open_sink(hp_output *output, sink *s, int fd)
{
    struct stat st;
    *s = (sink){.output = output, .fd = fd};
    s->is_file = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

static void
open_screen(sink *s)
{
    const hp_output_options *o = &s->output->options;
    const hp_screen_options options = {.writers = o->size > 1 ? 2 * o->size : 1, /* a single rank mixes its streams */
                                       .per_label = o->label ? 2 : 0,
                                       .lazy = o->label && o->lazy_labels,
                                       .live = isatty(s->fd),
                                       .out = &s->queue};
    s->screen = hp_screen_new(&options);
    s->timer = hp_xcheck(hp_timer_new(s->output->loop, waited, s));
}

static void
close_sink(sink *s)
{
    hp_screen_free(s->screen);
    hp_timer_free(s->timer);
    hp_watch_free(s->watch);
    hp_buffer_free(&s->queue);
}

static int
same_file(int a, int b)
{
    struct stat sa, sb;
    return fstat(a, &sa) == 0 && fstat(b, &sb) == 0 && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

/* --- the owner's side --- */

hp_output *
hp_output_new(hp_loop *loop, const hp_output_options *options, hoop_error *error)
{
    hp_output *output = hp_xcalloc(1, sizeof(*output));
    *output = (hp_output){.loop = loop, .options = *options};
    open_sink(output, &output->out, STDOUT_FILENO);
    open_sink(output, &output->err_own, STDERR_FILENO);
    output->err = same_file(STDOUT_FILENO, STDERR_FILENO) ? &output->out : &output->err_own;
    open_screen(&output->out);
    if (output->err != &output->out)
        open_screen(output->err);
    if (!options->dir)
        return output;
    output->files = hp_files_open(options->dir, options->size, options->force, error);
    if (output->files)
        return output;
    hp_output_free(output);
    return NULL;
}

static int
writer_of(const hp_output *output, int rank, int stream)
{
    return output->options.size > 1 ? 2 * rank + stream - 1 : 0;
}

static sink *
sink_of(hp_output *output, int stream)
{
    return stream == 1 ? &output->out : output->err;
}

void
hp_output_rank(hp_output *output, int rank, int stream, const uint8_t *bytes, size_t n)
{
    sink *s = sink_of(output, stream);
    if (output->files && hp_files_write(output->files, rank, stream, bytes, n) < 0)
        output->broken = output->broken ? output->broken : errno;
    if (n == 0 || s->broken || (output->files && !output->options.tee))
        return;
    hp_screen_feed(s->screen, writer_of(output, rank, stream), bytes, n, hp_now());
    output->shown += stream == 2;
    settle(s);
}

void
hp_output_keep(hp_output *output)
{
    output->kept = 1;
}

void
hp_output_ended(hp_output *output, int rank)
{
    for (int stream = 1; stream <= 2; stream++) {
        hp_screen_end(sink_of(output, stream)->screen, writer_of(output, rank, stream));
        settle(sink_of(output, stream));
    }
}

void
hp_output_all_ended(hp_output *output)
{
    for (int rank = 0; rank < output->options.size && !output->all_ended; rank++)
        hp_output_ended(output, rank);
    output->all_ended = 1;
    hp_screen_done(output->out.screen);
    settle(&output->out);
    hp_screen_done(output->err->screen);
    settle(output->err);
}

void
hp_output_say(hp_output *output, const char *line)
{
    if (output->err->broken)
        return;
    hp_screen_say(output->err->screen, line);
    settle(output->err);
}

size_t
hp_output_backlog(const hp_output *output)
{
    return hp_buffer_size(&output->out.queue) + hp_buffer_size(&output->err_own.queue);
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
    if (output->files && output->kept)
        hp_files_close(output->files);
    else if (output->files)
        hp_files_remove(output->files);
    close_sink(&output->out);
    close_sink(&output->err_own);
    free(output);
}
