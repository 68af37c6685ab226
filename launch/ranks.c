/* SPDX-License-Identifier: MIT */
/*
 * crew: one table of ranks. A rank's death is told at once, after what it had written; the crew has ended when no child
 * is left, neither a rank nor an orphan that a rank has left behind (the process is a subreaper). Orphans get a second
 * to finish by themselves.
 */
#include "launch/ranks.h"

#include "base/clock.h"
#include "launch/affinity.h"
#include "launch/folder.h"
#include "launch/proctree.h"
#include "launch/rank_env.h"
#include "launch/spawn.h"
#include "launch/terminal.h"
#include "launch/write_queue.h"
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

typedef struct stream {
    hp_crew *crew;
    int rank, number; /* number: 1 stdout, 2 stderr */
    int fd;           /* -1: closed */
    hp_watch *watch;
} stream;

typedef struct member {
    int rank;
    pid_t pid; /* 0: not started or reaped */
    uint64_t started;
    stream out, err;
} member;

struct hp_crew {
    hp_loop *loop;
    const hp_orders *orders;
    hp_crew_owner owner;
    member *member;
    int count, living;
    int paused, ended;
    hp_outbox input; /* to rank 0, where it runs here */
    int input_fd;    /* -1: none, or closed */
    int input_over;  /* close it when it has run empty */
    size_t owed;     /* bytes of input not yet reported as taken */
    int stopping;    /* TERM has been sent */
    uint64_t kill_at;
    hp_timer *timer;
    hp_machine machine; /* to be shared out, if that is ordered */
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

/* Reads once; how much came. */
static size_t
read_stream(stream *s)
{
    static uint8_t piece[PIECE];
    ssize_t n;
    if (s->fd < 0)
        return 0;
    n = read(s->fd, piece, sizeof(piece));
    if (n > 0)
        s->crew->owner.output(s->crew->owner.arg, s->rank, s->number, piece, (size_t)n);
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

/* What was written before a death is in the pipe; an orphan that goes on writing must not hold us here. */
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
    s->watch = hp_watch_new(s->crew->loop, fd, readable, s);
    if (!s->watch || fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
        return -1;
    return hp_watch_set(s->watch, HP_READ);
}

void
hp_crew_pause(hp_crew *crew, int pause)
{
    int i;
    if (crew->paused == pause)
        return;
    crew->paused = pause;
    for (i = 0; i < crew->count; i++) {
        if (crew->member[i].out.fd >= 0)
            hp_watch_set(crew->member[i].out.watch, pause ? 0 : HP_READ);
        if (crew->member[i].err.fd >= 0)
            hp_watch_set(crew->member[i].err.watch, pause ? 0 : HP_READ);
    }
}

/* --- input --- */

static void
close_input(hp_crew *crew)
{
    if (crew->input_fd < 0)
        return;
    hp_outbox_close(&crew->input);
    close(crew->input_fd);
    crew->input_fd = -1;
}

static void
settle_input(hp_crew *crew)
{
    size_t waiting = crew->input_fd >= 0 ? hp_bytes_size(&crew->input.bytes) : 0;
    size_t taken = crew->owed - waiting;
    crew->owed = waiting;
    if (taken > 0)
        crew->owner.taken(crew->owner.arg, taken);
    if (waiting == 0 && (crew->input_over || crew->input.broken))
        close_input(crew);
}

static void
input_moved(void *arg)
{
    settle_input(arg);
}

void
hp_crew_input(hp_crew *crew, const uint8_t *bytes, size_t n)
{
    crew->owed += n;
    if (crew->input_fd >= 0) {
        hp_bytes_add(&crew->input.bytes, bytes, n);
        hp_outbox_push(&crew->input);
    }
    settle_input(crew);
}

void
hp_crew_input_end(hp_crew *crew)
{
    crew->input_over = 1;
    settle_input(crew);
}

/* --- stopping --- */

void
hp_crew_signal(hp_crew *crew, int signal)
{
    int i;
    for (i = 0; i < crew->count; i++)
        if (crew->member[i].pid > 0)
            kill(-crew->member[i].pid, signal);
}

void
hp_crew_window(hp_crew *crew, hp_window window)
{
    int i;
    for (i = 0; i < crew->count; i++)
        if (crew->member[i].out.fd >= 0)
            hp_terminal_resize(crew->member[i].out.fd, window);
    hp_crew_signal(crew, SIGWINCH); /* the kernel tells those only whose controlling terminal it is */
}

static void
end(hp_crew *crew)
{
    int i;
    if (crew->ended)
        return;
    crew->ended = 1;
    hp_timer_set(crew->timer, HP_NEVER);
    close_input(crew);
    for (i = 0; i < crew->count; i++) {
        drain_stream(&crew->member[i].out);
        drain_stream(&crew->member[i].err);
        close_stream(&crew->member[i].out);
        close_stream(&crew->member[i].err);
    }
    crew->owner.ended(crew->owner.arg);
}

static void
kill_all(hp_crew *crew)
{
    hp_crew_signal(crew, SIGKILL);
    hp_kin_signal(getpid(), SIGKILL);
    hp_timer_set(crew->timer, 100 * HP_MS);
}

static void
alarm_rings(void *arg)
{
    hp_crew *crew = arg;
    uint64_t now = hp_now();
    hp_crew_reap(crew);
    if (crew->ended)
        return;
    if (crew->stopping && now >= crew->kill_at)
        kill_all(crew);
    else if (crew->stopping)
        hp_timer_set(crew->timer, crew->kill_at - now);
    else if (crew->living == 0)
        hp_crew_stop(crew, 2 * HP_SEC);
}

void
hp_crew_stop(hp_crew *crew, uint64_t grace_ns)
{
    uint64_t kill_at = hp_now() + grace_ns;
    if (crew->ended)
        return;
    if (!crew->stopping) {
        hp_crew_signal(crew, SIGTERM);
        hp_crew_signal(crew, SIGCONT);
        if (crew->living == 0)
            hp_kin_signal(getpid(), SIGTERM);
        crew->kill_at = kill_at;
    }
    crew->stopping = 1;
    if (kill_at < crew->kill_at)
        crew->kill_at = kill_at;
    hp_timer_set(crew->timer, crew->kill_at > hp_now() ? crew->kill_at - hp_now() : 0);
}

/* --- deaths --- */

static void
bury(hp_crew *crew, member *m, int status)
{
    pid_t pid = m->pid;
    m->pid = 0;
    crew->living--;
    drain_stream(&m->out);
    drain_stream(&m->err);
    if (m->rank == 0)
        close_input(crew);
    settle_input(crew);
    crew->owner.exited(crew->owner.arg, m->rank, pid, status, (hp_now() - m->started) / HP_MS);
    if (crew->living == 0 && !crew->stopping)
        hp_timer_set(crew->timer, HP_SEC);
}

void
hp_crew_reap(hp_crew *crew)
{
    int status, i;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (i = 0; i < crew->count; i++)
            if (crew->member[i].pid == pid)
                bury(crew, &crew->member[i], status);
    if (pid < 0 && errno == ECHILD && crew->living == 0)
        end(crew);
}

/* --- starting --- */

/* The secret once more, read-only and with a place to read at of its own, so that ranks that read it do not meet. */
static int
own_secret(int secret_fd)
{
    char path[40];
    int fd;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", secret_fd);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? fcntl(secret_fd, F_DUPFD_CLOEXEC, 0) : fd;
}

/* Our ends become streams, theirs are closed. */
static int
keep_pipes(hp_crew *crew, member *m, hp_spawn_pipes *p)
{
    close(p->out[1]);
    close(p->err[1]);
    if (p->in[0] >= 0) {
        close(p->in[0]);
        crew->input_fd = p->in[1];
        if (hp_outbox_open(&crew->input, crew->loop, p->in[1], input_moved, crew) < 0)
            return -1;
    }
    m->out = (stream){.crew = crew, .rank = m->rank, .number = 1, .fd = -1};
    m->err = (stream){.crew = crew, .rank = m->rank, .number = 2, .fd = -1};
    return open_stream(&m->out, p->out[0]) | open_stream(&m->err, p->err[0]);
}

static int
terminals_work(void)
{
    int pair[2];
    if (hp_terminal_open(pair, (hp_window){0}) < 0)
        return 0;
    close(pair[0]);
    close(pair[1]);
    return 1;
}

/* A terminal in place of the pipe for standard output; where there is none to be had it remains a pipe. */
static int
open_channels(const hp_crew *crew, int rank, hp_spawn_pipes *p)
{
    const hp_wish *wish = &crew->orders->wish;
    int pair[2];
    if (hp_spawn_pipes_open(p, rank == 0) < 0)
        return -1;
    if (wish->pty == HP_PTY_NEVER || hp_terminal_open(pair, crew->orders->window) < 0)
        return 0;
    close(p->out[0]);
    close(p->out[1]);
    memcpy(p->out, pair, sizeof(pair));
    return 0;
}

static int
start_member(hp_crew *crew, int i, int secret_fd, const char *also_dir, hp_spawn_step *step)
{
    member *m = &crew->member[i];
    hp_spawn spawn = {.argv = crew->orders->argv.word, .also_dir = also_dir, .session = 1, .death_signal = SIGKILL};
    cpu_set_t share;
    char **variables;
    int number;
    hp_spawn_pipes p;
    *m = (member){.rank = crew->orders->rank[i], .out.fd = -1, .err.fd = -1};
    *step = HP_SPAWN_FORK;
    if (open_channels(crew, m->rank, &p) < 0)
        return -1;
    variables = hp_variables_of_rank(crew->orders, i, SECRET_FD);
    spawn.environ = variables;
    spawn.fd[0] = p.in[0];
    spawn.fd[1] = p.out[1];
    spawn.fd[2] = p.err[1];
    spawn.fd[3] = own_secret(secret_fd);
    if (crew->orders->wish.bind) {
        hp_share_cut(&crew->machine, crew->orders->local_size, crew->orders->local_first + i, &share);
        spawn.share = CPU_COUNT(&share) > 0 ? &share : NULL; /* none: the kernel has not told */
    }
    m->started = hp_now();
    m->pid = spawn.fd[3] < 0 ? -1 : hp_spawn_start(&spawn, step);
    number = errno;
    if (spawn.fd[3] >= 0)
        close(spawn.fd[3]);
    hp_variables_free(variables);
    if (m->pid < 0) {
        m->pid = 0;
        hp_spawn_pipes_close(&p);
        errno = number;
        return -1;
    }
    crew->living++;
    return keep_pipes(crew, m, &p);
}

/* One could not be started: the others are killed before they have done anything, and nothing more is told. */
static void
undo(hp_crew *crew)
{
    while (waitpid(-1, NULL, WNOHANG) >= 0) {
        hp_kin_signal(getpid(), SIGKILL);
        usleep(1000);
    }
    crew->ended = 1;
    hp_crew_free(crew);
}

hp_crew *
hp_crew_start(hp_loop *loop, hp_orders *orders, int secret_fd, const char *also_dir, const hp_crew_owner *owner,
              hp_refusal *refusal)
{
    hp_crew *crew = hp_must_alloc(1, sizeof(*crew));
    hp_spawn_step step = HP_SPAWN_FORK;
    *crew = (hp_crew){.loop = loop, .orders = orders, .owner = *owner, .input_fd = -1};
    crew->member = hp_must_alloc((size_t)orders->ranks, sizeof(*crew->member));
    crew->timer = hp_must(hp_timer_new(loop, alarm_rings, crew));
    hp_variables_adopt(orders);
    if (orders->prefix)
        hp_variables_library(orders->prefix);
    if (hp_folder_enter(orders) < 0) {
        hp_refusal_of_folder(refusal, orders);
        undo(crew);
        return NULL;
    }
    if (orders->wish.pty == HP_PTY_ALWAYS && !terminals_work()) {
        hp_refusal_of_terminal(refusal);
        undo(crew);
        return NULL;
    }
    hp_folder_find_program(orders);
    if (orders->wish.bind)
        hp_machine_read(&crew->machine);
    for (; crew->count < orders->ranks; crew->count++)
        if (start_member(crew, crew->count, secret_fd, also_dir, &step) < 0) {
            hp_refusal_of_program(refusal, orders, step);
            crew->count++;
            undo(crew);
            return NULL;
        }
    for (crew->count = 0; crew->count < orders->ranks; crew->count++)
        owner->started(owner->arg, crew->member[crew->count].rank, crew->member[crew->count].pid);
    return crew;
}

void
hp_crew_free(hp_crew *crew)
{
    int i;
    for (i = 0; i < crew->count; i++) {
        close_stream(&crew->member[i].out);
        close_stream(&crew->member[i].err);
    }
    close_input(crew);
    hp_timer_free(crew->timer);
    hp_machine_free(&crew->machine);
    free(crew->member);
    free(crew);
}
