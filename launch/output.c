/* SPDX-License-Identifier: MIT */
/*
 * output: a sink is a descriptor, a queue, and the screen that fills the queue. The descriptor's flags belong to all
 * processes that share it, so it stays blocking: poll tells whether it takes bytes, and a pipe that does takes at least
 * 4 KiB (PIPE_BUF) without blocking. A terminal may take one byte and block for the next, so it is opened once more, with
 * flags of its own. If standard output and error are the same terminal or file, they
 * are one sink, so that an unfinished line of one is ended before a line of the other begins.
 *
 * The ranks' files are opened relative to a folder that has been checked, so that it cannot be exchanged in between. All
 * folders and files are checked before the first one is made or overwritten. Symbolic links are not followed and another
 * user's folder is not used, because in a shared folder anyone could have put them there.
 */
#include "launch/output.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "launch/screen.h"
#include "launch/xalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIPE_PIECE = 4096, FILE_PIECE = 1 << 20, STREAMS = 2 };

typedef struct rank_files {
    int dir;    /* -1: not open */
    char *made; /* the path of the folder, if it was not there before */
    int count;  /* STREAMS for each rank */
    int fd[];
} rank_files;

typedef struct sink {
    hp_output *output;
    int fd, own; /* own: a terminal's, which is fd, too; -1: none */
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
    rank_files *files;       /* NULL: none */
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

/* Writes what it takes now. */
static void
push(sink *s)
{
    struct pollfd p = {.fd = s->fd, .events = POLLOUT};
    size_t size, most = s->is_file ? FILE_PIECE : PIPE_PIECE;
    while ((size = hp_buffer_size(&s->queue)) > 0 && poll(&p, 1, 0) > 0) {
        ssize_t n = write(s->fd, hp_buffer_first(&s->queue), size < most ? size : most);
        if (n > 0)
            hp_buffer_drop(&s->queue, (size_t)n);
        else if (errno != EINTR && errno != EAGAIN)
            break_sink(s);
        if (n <= 0)
            break;
    }
    if (s->watch)
        hp_watch_set(s->watch, hp_buffer_size(&s->queue) ? HP_WRITE : 0);
}

static void
writable(void *arg, int ready)
{
    (void)ready;
    push(arg);
}

/* Shows the lines that have waited long enough in the screen, and sets the timer for the others. */
static void
settle(void *arg)
{
    sink *s = arg;
    uint64_t now = hp_now(), next = hp_screen_due(s->screen, now);
    hp_timer_set(s->timer, next == HP_NEVER ? HP_NEVER : next - now);
    if (s->broken)
        hp_buffer_free(&s->queue);
    push(s);
    if (hp_buffer_size(&s->queue) == 0 || s->watch)
        return;
    s->watch = hp_watch_new(s->output->loop, s->fd, writable, s);
    if (!s->watch || hp_watch_set(s->watch, HP_WRITE) < 0)
        break_sink(s);
}

static void
open_sink(hp_output *output, sink *s, int fd)
{
    struct stat st;
    char path[40];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    int own = isatty(fd) ? open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
    *s = (sink){.output = output, .fd = own >= 0 ? own : fd, .own = own};
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
    s->timer = hp_xcheck(hp_timer_new(s->output->loop, settle, s));
}

static void
close_sink(sink *s)
{
    hp_screen_free(s->screen);
    hp_timer_free(s->timer);
    hp_watch_free(s->watch);
    hp_buffer_free(&s->queue);
    if (s->own >= 0)
        close(s->own);
}

static const char *const names[STREAMS] = {"stdout", "stderr"};

/* --- folders for files --- */

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

/* With its parents. *made: its path if it was not there before, else NULL; free() it. */
static int
open_top(const char *dir, char **made)
{
    char *path = hp_xstrdup(dir), *end = path + strlen(path);
    int is_new = 0, result = 0;
    while (end > path + 1 && end[-1] == '/') /* with it a link would be followed */
        *--end = '\0';
    for (char *slash = strchr(path + 1, '/'); slash && result == 0; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        result = mkdir(path, 0777) < 0 && errno != EEXIST ? -1 : 0;
        *slash = '/';
    }
    if (result == 0)
        result = open_folder(AT_FDCWD, path, &is_new);
    int number = errno;
    *made = is_new ? path : NULL;
    if (!is_new)
        free(path);
    errno = number;
    return result;
}

/* --- files --- */

static int
open_files_of(rank_files *files, int dir, int rank, int force)
{
    char name[24];
    snprintf(name, sizeof(name), "rank.%d", rank);
    int is_new, folder = open_folder(dir, name, &is_new), i, number;
    int how = O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | (force ? 0 : O_EXCL);
    int result = folder;
    for (i = 0; i < STREAMS && result >= 0; i++)
        result = files->fd[STREAMS * rank + i] = openat(folder, names[i], how, 0666);
    number = errno;
    if (folder >= 0)
        close(folder);
    errno = number;
    return result;
}

static hoop_result
refuse(const char *dir, int rank, hoop_error *error)
{
    const char *why = errno == ELOOP   ? "a symbolic link is in the way; hooprun does not follow it"
                      : errno == EPERM ? "a folder there belongs to another user"
                                       : strerror(errno);
    return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                      "--output-dir %.150s: cannot make the files of rank %d there: %s", dir, rank, why);
}

static hoop_result
open_all(rank_files *files, const char *dir, int force, hoop_error *error)
{
    struct stat st;
    for (int i = 0; i < files->count && !force; i++) {
        char former[40];
        snprintf(former, sizeof(former), "rank.%d/%s", i / STREAMS, names[i % STREAMS]);
        if (fstatat(files->dir, former, &st, AT_SYMLINK_NOFOLLOW) == 0)
            return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                              "--output-dir %.150s: %s is there already; name another folder, or write over it with "
                              "--force",
                              dir, former);
    }
    for (int i = 0; i < files->count / STREAMS; i++)
        if (open_files_of(files, files->dir, i, force) < 0)
            return refuse(dir, i, error);
    return HOOP_SUCCESS;
}

static void
close_files(rank_files *files)
{
    for (int i = 0; i < files->count; i++)
        if (files->fd[i] >= 0)
            close(files->fd[i]);
    if (files->dir >= 0)
        close(files->dir);
    free(files->made);
    free(files);
}

static int
is_empty(int fd)
{
    struct stat st;
    return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0;
}

/* The files too, and folders that are empty then: no rank has run. What an earlier run has written stays. */
static void
remove_files(rank_files *files)
{
    for (int rank = 0; rank < files->count / STREAMS; rank++) {
        char name[24];
        snprintf(name, sizeof(name), "rank.%d", rank);
        int folder = openat(files->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        for (int i = 0; i < STREAMS && folder >= 0; i++)
            if (is_empty(files->fd[STREAMS * rank + i]))
                unlinkat(folder, names[i], 0);
        if (folder >= 0)
            close(folder);
        unlinkat(files->dir, name, AT_REMOVEDIR); /* one with other files in it stays */
    }
    if (files->made)
        rmdir(files->made);
    close_files(files);
}

/* Files of a former run are overwritten only with force. */
static rank_files *
open_files(const char *dir, int ranks, int force, hoop_error *error)
{
    rank_files *files = hp_xcalloc(1, sizeof(*files) + (size_t)(STREAMS * ranks) * sizeof(files->fd[0]));
    files->count = STREAMS * ranks;
    for (int i = 0; i < files->count; i++)
        files->fd[i] = -1;
    files->dir = open_top(dir, &files->made);
    if ((files->dir < 0 ? refuse(dir, 0, error) : open_all(files, dir, force, error)) == HOOP_SUCCESS)
        return files;
    remove_files(files);
    return NULL;
}

/* --- the owner's side --- */

hp_output *
hp_output_new(hp_loop *loop, const hp_output_options *options, hoop_error *error)
{
    hp_output *output = hp_xcalloc(1, sizeof(*output));
    struct stat out, err;
    *output = (hp_output){.loop = loop, .options = *options};
    open_sink(output, &output->out, STDOUT_FILENO);
    open_sink(output, &output->err_own, STDERR_FILENO);
    int is_same = fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 && out.st_dev == err.st_dev &&
                  out.st_ino == err.st_ino;
    output->err = is_same ? &output->out : &output->err_own;
    open_screen(&output->out);
    if (output->err != &output->out)
        open_screen(output->err);
    if (!options->dir)
        return output;
    output->files = open_files(options->dir, options->size, options->force, error);
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
    for (size_t at = 0; output->files && at < n;) {
        ssize_t done = write(output->files->fd[STREAMS * rank + stream - 1], bytes + at, n - at);
        if (done > 0) {
            at += (size_t)done;
        } else if (done == 0 || errno != EINTR) {
            output->broken = output->broken ? output->broken : errno;
            break;
        }
    }
    if (n == 0 || s->broken || (output->files && !output->options.tee))
        return;
    hp_screen_feed(s->screen, writer_of(output, rank, stream), bytes, n, hp_now());
    output->shown += stream == 2;
    settle(s);
}

void
hp_output_keep(hp_output *output)
{
    for (int i = 0; output->files && !output->kept && i < output->files->count; i++)
        if (ftruncate(output->files->fd[i], 0) < 0 && errno != EINVAL) /* with --force it may be an earlier run's */
            hp_diag(output, "cannot empty a file of --output-dir: %s", strerror(errno));
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

void
hp_diag(hp_output *output, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    char *text = hp_xvasprintf(format, ap);
    va_end(ap);
    hp_text_tame(text, strlen(text), '\n'); /* it may quote hosts and ranks */
    char *line = hp_xasprintf("hooprun: %s", text);
    hp_output_say(output, line);
    free(line);
    free(text);
}

void
hp_diag_quote(hp_output *output, const char *host, const hp_buffer *text)
{
    const char *at = (const char *)hp_buffer_first(text);
    for (size_t left = hp_buffer_size(text), n; left > 0; left -= n, at += n) {
        for (n = 0; n < left && at[n] != '\r' && at[n] != '\n';)
            n++;
        char *line = hp_xasprintf("%s| %.*s", host, (int)n, at);
        hp_text_tame(line, strlen(line), '\t');
        if (n > 0)
            hp_output_say(output, line);
        free(line);
        n += n < left;
    }
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
        close_files(output->files);
    else if (output->files)
        remove_files(output->files);
    close_sink(&output->out);
    close_sink(&output->err_own);
    free(output);
}
