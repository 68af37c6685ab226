/* SPDX-License-Identifier: MIT */
/*
 * ranks: one table of local ranks. An exit is reported at once, after the output that came before it. All has ended
 * when no child is left: no rank, and no orphan that a rank has left behind (the process is a subreaper). Orphans have
 * a second to end by themselves. If ranks may be started again, nothing has ended before the ranks are stopped.
 */
#include "launch/ranks.h"

#include "base/clock.h"
#include "base/wire.h"
#include "flight/collection.h"
#include "launch/rank_env.h"
#include "launch/spawn.h"
#include "launch/streams.h"
#include "launch/xalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PIECE = 64 * 1024, DRAIN_MAX = 1 << 20, SECRET_FD = 3 };

/* After so long the launcher is told of a process again: what it was told counts for some seconds only. */
#define REPEAT HP_SEC

typedef struct stream {
    hp_ranks *ranks;
    int rank, number; /* number: 1 stdout, 2 stderr */
    int fd;           /* -1: closed */
    hp_watch *watch;
} stream;

typedef struct local_rank {
    int number;
    int index;   /* in the spec; -1: it ran on another host first */
    pid_t pid;   /* 0: not started or reaped */
    pid_t group; /* of its last process; what that has left behind may still be in it. 0: none */
    uint64_t started;
    int stopped;   /* as the launcher knows it */
    uint64_t told; /* when it was told that last; 0: never */
    stream out, err;
} local_rank;

struct hp_ranks {
    hp_loop *loop;
    const hp_spec *spec;
    int secret_fd;
    const char *also_dir;
    hp_buffer *out;   /* messages to the launcher */
    local_rank *rank; /* room for all of the job */
    int count, living;
    hp_exit_watch exits;
    int paused, ended;
    hp_write_queue input; /* to rank 0, if it runs here */
    int input_fd;         /* -1: none, or closed */
    int input_over;       /* close it when the queue is empty */
    size_t owed;          /* bytes of input not yet reported as taken */
    int stopping;         /* TERM has been sent */
    uint64_t kill_at;
    hp_timer *timer;
    hp_cpu_list cpus;     /* for --bind */
    uint8_t piece[PIECE]; /* of output, between a pipe and `out` */
};

/* --- output --- */

static void
close_stream(stream *s)
{
    if (s->fd < 0)
        return;
    hp_watch_free(s->watch);
    close(s->fd);
    s->fd = -1;
}

static void
put_output(hp_ranks *ranks, int rank, int number, const void *bytes, size_t n)
{
    uint8_t head[5];
    hp_put32(head, (uint32_t)rank);
    head[4] = (uint8_t)number;
    hp_agent_msg_put(ranks->out, HP_MSG_OUTPUT, head, sizeof(head), bytes, n);
}

/* Reads once; returns the number of bytes. */
static size_t
read_stream(stream *s)
{
    if (s->fd < 0)
        return 0;
    ssize_t n = read(s->fd, s->ranks->piece, PIECE);
    if (n > 0)
        put_output(s->ranks, s->rank, s->number, s->ranks->piece, (size_t)n);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        close_stream(s);
    return n > 0 ? (size_t)n : 0;
}

static void
readable(void *arg, int ready)
{
    (void)ready;
    read_stream(arg);
}

/* Output from before an exit is in the pipe. The bound is for an orphan that goes on writing. */
static void
drain_stream(stream *s)
{
    size_t drained = 0, n;
    while (drained < DRAIN_MAX && (n = read_stream(s)) > 0)
        drained += n;
}

static int
open_stream(stream *s, int fd)
{
    s->fd = fd;
    s->watch = hp_watch_new(s->ranks->loop, fd, readable, s);
    if (!s->watch || fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
        return -1;
    return hp_watch_set(s->watch, s->ranks->paused ? 0 : HP_READ);
}

void
hp_ranks_pause(hp_ranks *ranks, int pause)
{
    if (ranks->paused == pause)
        return;
    ranks->paused = pause;
    for (int i = 0; i < ranks->count; i++) {
        if (ranks->rank[i].out.fd >= 0)
            hp_watch_set(ranks->rank[i].out.watch, pause ? 0 : HP_READ);
        if (ranks->rank[i].err.fd >= 0)
            hp_watch_set(ranks->rank[i].err.watch, pause ? 0 : HP_READ);
    }
}

/* --- state --- */

void
hp_ranks_look(hp_ranks *ranks, int tell)
{
    uint64_t now = hp_loop_now(ranks->loop);
    hp_exit_watch_look(&ranks->exits, now);
    for (int i = 0; i < ranks->count && tell; i++) {
        local_rank *r = &ranks->rank[i];
        hp_flight_process process;
        int stopped = r->pid > 0 && hp_flight_find_process((uint32_t)r->pid, &process) && process.stopped;
        if (r->pid <= 0 || (r->told && r->stopped == stopped && now < r->told + REPEAT))
            continue;
        r->told = now;
        r->stopped = stopped;
        const uint32_t words[] = {(uint32_t)r->number, (uint32_t)r->pid, (uint32_t)stopped};
        hp_agent_msg_put_words(ranks->out, HP_MSG_STOPPED, words, 3);
    }
}

/* --- input --- */

static void
close_input(hp_ranks *ranks)
{
    if (ranks->input_fd < 0)
        return;
    hp_write_queue_close(&ranks->input);
    close(ranks->input_fd);
    ranks->input_fd = -1;
}

static void
report_taken(hp_ranks *ranks)
{
    size_t waiting = ranks->input_fd >= 0 ? hp_buffer_size(&ranks->input.buffer) : 0;
    size_t taken = ranks->owed - waiting;
    ranks->owed = waiting;
    if (taken > 0)
        hp_agent_msg_put32(ranks->out, HP_MSG_TAKEN, (uint32_t)taken);
    if (waiting == 0 && (ranks->input_over || ranks->input.broken))
        close_input(ranks);
}

void
hp_ranks_stdin(hp_ranks *ranks, const uint8_t *bytes, size_t n)
{
    ranks->owed += n;
    if (ranks->input_fd >= 0) {
        hp_xbuffer_add(&ranks->input.buffer, bytes, n);
        hp_write_queue_push(&ranks->input);
    }
    report_taken(ranks);
}

void
hp_ranks_stdin_end(hp_ranks *ranks)
{
    ranks->input_over = 1;
    report_taken(ranks);
}

/* --- stopping --- */

/* Processes whose parent has ended are our children. A group without any of these may be another program's by now. */
static int
signal_group(pid_t group, int signal)
{
    siginfo_t any;
    int ours = group > 0 && waitid(P_PGID, (id_t)group, &any, WEXITED | WNOHANG | WNOWAIT) == 0;
    return ours && kill(-group, signal) == 0;
}

/* What timeout(1), or a shell with job control, has put into another group of a rank's session. */
static void
signal_other_groups(const hp_ranks *ranks, int signal)
{
    pid_t *list;
    size_t n = hp_proctree_list(getpid(), &list);
    for (size_t k = 0; k < n; k++)
        for (int i = 0; i < ranks->count; i++) {
            pid_t session = ranks->rank[i].group, group = getpgid(list[k]);
            if (session <= 0 || group <= 0 || group == session || getsid(list[k]) != session)
                continue;
            size_t before = 0;
            while (before < k && getpgid(list[before]) != group)
                before++;
            if (before == k)
                kill(-group, signal);
        }
    free(list);
}

int
hp_ranks_signal(hp_ranks *ranks, int signal)
{
    int found = 0;
    for (int i = 0; i < ranks->count; i++)
        found += signal_group(ranks->rank[i].group, signal);
    if (signal == SIGTERM || signal == SIGSTOP || signal == SIGCONT)
        signal_other_groups(ranks, signal);
    return found;
}

/* To all that the ranks have started; without /proc, which alone shows that, to what is in their groups. 0: there is none. */
static int
signal_all(hp_ranks *ranks, int signal)
{
    int found = hp_proctree_signal(getpid(), signal);
    return found ? found : hp_ranks_signal(ranks, signal);
}

void
hp_ranks_resize(hp_ranks *ranks, hp_winsize winsize)
{
    for (int i = 0; i < ranks->count; i++)
        if (ranks->rank[i].out.fd >= 0)
            hp_terminal_resize(ranks->rank[i].out.fd, winsize);
    hp_ranks_signal(ranks, SIGWINCH); /* the kernel signals only processes whose controlling terminal it is */
}

static void
end(hp_ranks *ranks)
{
    if (ranks->ended)
        return;
    ranks->ended = 1;
    hp_timer_set(ranks->timer, HP_NEVER);
    close_input(ranks);
    for (int i = 0; i < ranks->count; i++) {
        drain_stream(&ranks->rank[i].out);
        drain_stream(&ranks->rank[i].err);
        close_stream(&ranks->rank[i].out);
        close_stream(&ranks->rank[i].err);
    }
}

int
hp_ranks_ended(hp_ranks *ranks)
{
    if (!ranks->ended)
        report_taken(ranks);
    return ranks->ended;
}

static void
timer_fired(void *arg)
{
    hp_ranks *ranks = arg;
    uint64_t now = hp_now();
    hp_ranks_reap(ranks);
    if (ranks->ended)
        return;
    if (ranks->stopping && now >= ranks->kill_at) {
        if (signal_all(ranks, SIGKILL) > 0)
            hp_timer_set(ranks->timer, 100 * HP_MS);
        else
            end(ranks); /* what is left, if anything, cannot be seen */
    } else if (ranks->stopping) {
        hp_timer_set(ranks->timer, ranks->kill_at - now);
    } else if (ranks->living == 0) {
        hp_ranks_stop(ranks, 2 * HP_SEC);
    }
}

void
hp_ranks_stop(hp_ranks *ranks, uint64_t grace_ns)
{
    uint64_t kill_at = hp_now() + grace_ns;
    if (ranks->ended)
        return;
    if (!ranks->stopping) {
        (ranks->living == 0 ? signal_all : hp_ranks_signal)(ranks, SIGTERM);
        hp_ranks_signal(ranks, SIGCONT);
        ranks->kill_at = kill_at;
    }
    ranks->stopping = 1;
    if (kill_at < ranks->kill_at)
        ranks->kill_at = kill_at;
    hp_timer_set(ranks->timer, ranks->kill_at > hp_now() ? ranks->kill_at - hp_now() : 0);
    if (ranks->living == 0)
        hp_ranks_reap(ranks);
}

/* --- exits --- */

/* Whether ranks may still be started again. */
static int
is_open(const hp_ranks *ranks)
{
    return ranks->spec->options.max_restarts > 0 && !ranks->stopping;
}

static void
put_exit(hp_ranks *ranks, const local_rank *r, int status, hp_exit_cause cause)
{
    uint8_t payload[24];
    hp_put32(payload, (uint32_t)r->number);
    hp_put32(payload + 4, (uint32_t)r->pid);
    hp_put32(payload + 8, (uint32_t)status);
    hp_put64(payload + 12, r->started ? (hp_now() - r->started) / HP_MS : 0);
    hp_put32(payload + 20, cause);
    hp_agent_msg_put(ranks->out, HP_MSG_EXIT, payload, sizeof(payload), NULL, 0);
}

static void
rank_exited(hp_ranks *ranks, local_rank *r, int status, hp_exit_cause cause)
{
    if (status != 0 && is_open(ranks))
        signal_group(r->group, SIGKILL); /* what it has left behind is not in the way of the next one */
    ranks->living--;
    drain_stream(&r->out);
    drain_stream(&r->err);
    if (r->number == 0)
        close_input(ranks);
    report_taken(ranks);
    put_exit(ranks, r, status, cause);
    r->pid = 0;
    if (ranks->living == 0 && !ranks->stopping && !is_open(ranks))
        hp_timer_set(ranks->timer, HP_SEC);
}

void
hp_ranks_reap(hp_ranks *ranks)
{
    hp_exit_cause cause;
    int status;
    pid_t pid;
    while ((pid = hp_exit_reap(&ranks->exits, &status, &cause)) > 0)
        for (int i = 0; i < ranks->count; i++)
            if (ranks->rank[i].pid == pid)
                rank_exited(ranks, &ranks->rank[i], status, cause);
    if (pid < 0 && errno == ECHILD && ranks->living == 0 && !is_open(ranks))
        end(ranks);
}

/* --- starting --- */

/* Our ends of the pipes become streams; the rank's ends are closed. */
static int
keep_pipes(hp_ranks *ranks, local_rank *r, hp_spawn_pipes *p)
{
    close(p->out[1]);
    close(p->err[1]);
    if (p->in[0] >= 0) {
        close(p->in[0]);
        ranks->input_fd = p->in[1];
        if (hp_write_queue_open(&ranks->input, ranks->loop, p->in[1]) < 0)
            return -1;
    }
    r->out = (stream){.ranks = ranks, .rank = r->number, .number = 1, .fd = -1};
    r->err = (stream){.ranks = ranks, .rank = r->number, .number = 2, .fd = -1};
    return open_stream(&r->out, p->out[0]) | open_stream(&r->err, p->err[0]);
}

/* again: it waits for a place in the ring, and standard input has ended with the first process. */
static int
start_rank(hp_ranks *ranks, local_rank *r, int number, int index, int again, hp_spawn_step *step)
{
    hp_spawn spawn = {
        .argv = ranks->spec->argv.item, .also_dir = ranks->also_dir, .session = 1, .death_signal = SIGKILL};
    cpu_set_t cpus;
    char **env, secret[40];
    int pair[2]; /* a terminal in place of the pipe for standard output, if one can be opened */
    hp_spawn_pipes p;
    *r = (local_rank){.number = number, .index = index, .out.fd = -1, .err.fd = -1};
    *step = HP_SPAWN_FORK;
    if (hp_spawn_pipes_open(&p, number == 0 && !again) < 0)
        return -1;
    if (ranks->spec->options.pty != HP_PTY_NEVER && hp_terminal_open(pair, ranks->spec->winsize) == 0) {
        close(p.out[0]);
        close(p.out[1]);
        memcpy(p.out, pair, sizeof(pair));
    }
    env = hp_rank_env_new(ranks->spec, again ? -1 : index, SECRET_FD);
    spawn.environ = env;
    spawn.fd[0] = p.in[0];
    spawn.fd[1] = p.out[1];
    spawn.fd[2] = p.err[1];
    /* The secret once more, read-only, with a file position of its own, which ranks must not share. */
    snprintf(secret, sizeof(secret), "/proc/self/fd/%d", ranks->secret_fd);
    spawn.fd[3] = open(secret, O_RDONLY | O_CLOEXEC);
    if (spawn.fd[3] < 0)
        spawn.fd[3] = fcntl(ranks->secret_fd, F_DUPFD_CLOEXEC, 0);
    if (ranks->spec->options.bind && index >= 0) {
        hp_affinity_of_rank(&ranks->cpus, ranks->spec->local_size, ranks->spec->local_first + index, &cpus);
        spawn.affinity = CPU_COUNT(&cpus) > 0 ? &cpus : NULL; /* NULL: the processors are unknown */
    }
    r->started = hp_now();
    r->pid = spawn.fd[3] < 0 ? -1 : hp_spawn_start(&spawn, step);
    int why = errno;
    if (spawn.fd[3] >= 0)
        close(spawn.fd[3]);
    hp_rank_env_free(env);
    r->group = r->pid > 0 ? r->pid : 0;
    if (r->pid < 0) {
        r->pid = 0;
        hp_spawn_pipes_close(&p);
        errno = why;
        return -1;
    }
    ranks->living++;
    return keep_pipes(ranks, r, &p);
}

/*
 * A rank could not be started: kills the others. Nothing was added to `out`. A process may start another one just
 * before it is killed; it dies after that, so all are killed once more after each death. What cannot be seen is left.
 */
static void
undo(hp_ranks *ranks)
{
    while (signal_all(ranks, SIGKILL) > 0 && (waitpid(-1, NULL, 0) >= 0 || errno == EINTR))
        continue;
    ranks->ended = 1;
    hp_ranks_free(ranks);
}

/* Goes into the ranks' folder. 0: a folder is missing, or terminals; *e says which. */
static int
prepare(const hp_spec *spec, hp_start_error *e)
{
    struct stat st;
    int pair[2];
    if (spec->prefix && (stat(spec->prefix, &st) < 0 || !S_ISDIR(st.st_mode)))
        hp_start_error_say(e, 2, "--prefix %.300s: there is no such folder; name the one where hoop is installed",
                           spec->prefix);
    else if (hp_rank_env_enter_folder(spec) < 0)
        hp_start_error_say(e, 1, "cannot change into the folder %.300s%s: %s; create it there, or name another with %s",
                           spec->dir, spec->dir_required ? "" : ", in which hooprun was started", strerror(errno),
                           spec->dir_required ? "--wdir" : "--wdir DIR");
    else if (spec->options.pty != HP_PTY_ALWAYS)
        return 1;
    else if (hp_terminal_open(pair, (hp_winsize){0}) < 0)
        hp_start_error_say(e, 1, "cannot make a pseudo-terminal for each rank: %s; with --pty=never ranks need none",
                           strerror(errno));
    else
        return close(pair[0]) == 0 && close(pair[1]) == 0;
    return 0;
}

static void
put_started(hp_ranks *ranks, const local_rank *r)
{
    const uint32_t words[] = {(uint32_t)r->number, (uint32_t)r->pid};
    hp_agent_msg_put_words(ranks->out, HP_MSG_STARTED, words, 2);
}

hp_ranks *
hp_ranks_start(hp_loop *loop, hp_spec *spec, int secret_fd, const char *also_dir, hp_buffer *out,
               hp_start_error *start_error)
{
    hp_ranks *ranks = hp_xcalloc(1, sizeof(*ranks));
    hp_spawn_step step = HP_SPAWN_FORK;
    ranks->loop = loop;
    ranks->spec = spec;
    ranks->secret_fd = secret_fd;
    ranks->also_dir = also_dir;
    ranks->out = out;
    ranks->input_fd = -1;
    ranks->rank = hp_xcalloc((size_t)spec->world, sizeof(*ranks->rank));
    ranks->timer = hp_xcheck(hp_timer_new(loop, timer_fired, ranks));
    if (spec->prefix)
        hp_rank_env_add_library(spec->prefix);
    if (!prepare(spec, start_error)) {
        undo(ranks);
        return NULL;
    }
    hp_rank_env_find_program(spec);
    hp_exit_watch_open(&ranks->exits, hp_loop_now(ranks->loop));
    if (spec->options.bind)
        hp_affinity_read(&ranks->cpus);
    for (; ranks->count < spec->ranks; ranks->count++)
        if (start_rank(ranks, &ranks->rank[ranks->count], spec->rank[ranks->count], ranks->count, 0, &step) < 0) {
            hp_start_error_program(start_error, spec->argv.item[0], spec->world, step);
            ranks->count++;
            undo(ranks);
            return NULL;
        }
    for (ranks->count = 0; ranks->count < spec->ranks; ranks->count++)
        put_started(ranks, &ranks->rank[ranks->count]);
    return ranks;
}

void
hp_ranks_again(hp_ranks *ranks, int number)
{
    hp_start_error e = {.status = 1};
    hp_spawn_step step;
    int i = 0;
    while (i < ranks->count && ranks->rank[i].number != number)
        i++;
    local_rank *r = &ranks->rank[i];
    if (!is_open(ranks) || (i < ranks->count && r->pid > 0))
        return;
    int index = i < ranks->count ? r->index : -1;
    if (i < ranks->count) {
        close_stream(&r->out);
        close_stream(&r->err);
    } else {
        ranks->count++;
    }
    if (start_rank(ranks, r, number, index, 1, &step) == 0) {
        put_started(ranks, r);
        return;
    }
    if (r->pid > 0) { /* its output cannot be read */
        kill(-r->pid, SIGKILL);
        return;
    }
    hp_start_error_program(&e, ranks->spec->argv.item[0], ranks->spec->world, step);
    put_output(ranks, number, 2, e.text, strlen(e.text));
    put_exit(ranks, r, e.status << 8, HP_EXIT_UNKNOWN);
}

void
hp_ranks_free(hp_ranks *ranks)
{
    for (int i = 0; i < ranks->count; i++) {
        close_stream(&ranks->rank[i].out);
        close_stream(&ranks->rank[i].err);
    }
    close_input(ranks);
    hp_timer_free(ranks->timer);
    hp_affinity_free(&ranks->cpus);
    free(ranks->rank);
    free(ranks);
}
