/* SPDX-License-Identifier: MIT */
/*
 * agent: a conversation (greeting, secret and spec, then input and signals one way, output and exits the other) for a
 * set of ranks. Every message is checked; a launcher that sends nonsense is treated like one that is gone. While the
 * launcher does not read, output waits here, then in the ranks' pipes.
 */
#include "launch/agent.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/wire.h"
#include "flight/sweep.h"
#include "launch/lease.h"
#include "launch/rank_env.h"
#include "launch/ranks.h"
#include "launch/recorders.h"
#include "launch/spawn.h"
#include "launch/streams.h"
#include "launch/xalloc.h"
#include "lib/config.h"
#include "net/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sockios.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 64 * 1024, HIGH_WATER = 512 * 1024, LOW_WATER = 128 * 1024, SECRET_LINE = HP_SECRET_TEXT - 1 };

/* How long ranks may take to end after TERM if the launcher is gone. */
#define ORPHAN_GRACE (2 * HP_SEC)

/* How often it looks whether ranks are stopped. */
#define LOOK (300 * HP_MS)

/* At its end: how often it looks whether the launcher's side has its last words. */
#define ARRIVAL_LOOK (10 * HP_MS)

/* What the agent does next. */
typedef enum step { TAKE_SECRET, TAKE_SPEC, RUN_RANKS, END } step;

/* What it knows of the launcher. */
typedef enum launcher {
    THERE,
    PAUSED,  /* the launcher has stopped the ranks, then itself, and is silent until it continues them */
    GONE,    /* nothing more comes, and nothing is read there */
    DESERTED /* so it seems: the lease is over; what the launcher would hear of the end now is not the cause */
} launcher;

typedef struct agent {
    step step;
    launcher launcher;
    hp_loop *loop;
    hp_buffer in;
    hp_watch *in_watch;
    hp_timer *look;
    hp_lease lease;
    hp_timer *renewal; /* of the lease; looks whether it is over */
    uint64_t heard;    /* when bytes from the launcher came last */
    hp_knock knock;
    hp_signals signals;
    int secret_fd;
    hp_write_queue out;
    hp_spec spec;
    hp_ranks *ranks;
    hp_flight_claim claim;  /* the recorders of its ranks are its own to collect */
    char own_dir[PATH_MAX]; /* where this program lies */
    int has_pinged;         /* the launcher says now and then that it lives, */
    int held;               /* and that who reads the output is slow */
    int recorders_sent;
} agent;

/* --- to the launcher --- */

static void
push(agent *a)
{
    if (a->launcher == DESERTED)
        hp_buffer_drop(&a->out.buffer, hp_buffer_size(&a->out.buffer));
    hp_write_queue_push(&a->out);
    if (!a->ranks)
        return;
    if (a->held || hp_buffer_size(&a->out.buffer) > HIGH_WATER)
        hp_ranks_pause(a->ranks, 1);
    else if (hp_buffer_size(&a->out.buffer) < LOW_WATER)
        hp_ranks_pause(a->ranks, 0);
}

/* While the launcher does not read, nothing is told. */
static void
look(void *arg)
{
    agent *a = arg;
    if (a->step == RUN_RANKS)
        hp_ranks_look(a->ranks, a->launcher < GONE && hp_buffer_size(&a->out.buffer) == 0);
    hp_timer_set(a->look, LOOK);
}

static void
put_recorders(agent *a)
{
    const char *job = getenv("HOOP_JOB");
    if (job && a->launcher < GONE)
        hp_recorders_put(&a->out.buffer, job);
}

/* Once: before the ranks are stopped, so that they show what they did until then. */
static void
put_last_recorders(agent *a)
{
    if (!a->recorders_sent)
        put_recorders(a);
    a->recorders_sent = 1;
}

static void
fail(agent *a, int status, const char *text)
{
    uint8_t head[4];
    hp_put32(head, (uint32_t)status);
    hp_agent_msg_put(&a->out.buffer, HP_MSG_FAIL, head, sizeof(head), text, strlen(text));
    a->step = END;
}

/* --- from the launcher --- */

/* as: GONE or DESERTED. */
static void
lose_launcher(agent *a, launcher as)
{
    if (a->launcher >= GONE)
        return;
    a->launcher = as;
    a->held = 0;
    hp_watch_set(a->in_watch, 0);
    if (!a->ranks)
        a->step = END;
    else
        hp_ranks_stop(a->ranks, ORPHAN_GRACE);
}

static void
check_lease(void *arg)
{
    agent *a = arg;
    if (a->launcher >= GONE)
        return;
    uint64_t now = hp_loop_now(a->loop);
    hp_lease_word word = hp_lease_judge(&a->lease, a->heard, a->knock.answered, now);
    if (word == HP_LEASE_OVER) { /* the ranks would run for as long as the network is cut, and nobody could end them */
        int reached = now < a->knock.answered + a->lease.end && a->knock.answered > a->heard;
        fprintf(stderr,
                "hooprun: the agent has received nothing from hooprun for %.1f s, and a new connection to it %s; %s\n",
                (double)(now - a->heard) / (double)HP_SEC,
                reached ? "is accepted (is hooprun stopped?)" : "is not answered either (is the network cut?)",
                a->step == END ? "its ranks have ended" : "it ends its ranks");
        lose_launcher(a, DESERTED);
        return;
    }
    if (word == HP_LEASE_KNOCK)
        hp_knock_again(&a->knock);
    hp_timer_set(a->renewal, a->lease.knock);
}

static void
start_ranks(agent *a)
{
    hp_start_error start_error = {.status = 1, .text = "cannot start the ranks"};
    hp_rank_env_adopt(&a->spec);
    const char *job = getenv("HOOP_JOB");
    if (job)
        hp_flight_claim_make(&a->claim, job);
    hp_flight_sweep();
    /* What the ranks here read as peer_timeout_ms, this process reads, too: it has their variables and settings files. */
    uint32_t ms = (uint32_t)hp_config_glance_number(HP_SET_peer_timeout_ms);
    a->lease = hp_lease_of(ms * HP_MS);
    hp_knock_open(&a->knock, a->loop, getenv("HOOP_RENDEZVOUS"), a->secret_fd, a->spec.host);
    hp_agent_msg_put32(&a->out.buffer, HP_MSG_LEASE, ms);
    a->ranks = hp_ranks_start(a->loop, &a->spec, a->secret_fd, a->own_dir, &a->out.buffer, &start_error);
    if (a->ranks)
        a->step = RUN_RANKS;
    else
        fail(a, start_error.status, start_error.text);
    if (a->spec.options.max_restarts == 0) {
        close(a->secret_fd);
        a->secret_fd = -1;
    }
    hp_timer_set(a->look, LOOK);
}

static void
handle(agent *a, const hp_agent_msg *msg)
{
    hoop_error error;
    int signal;
    uint32_t rank;
    if (a->step == TAKE_SPEC) {
        if (hp_spec_take(&a->spec, msg, &error) != HOOP_SUCCESS)
            fail(a, 1, error.text);
        else if (a->spec.complete)
            start_ranks(a);
        return;
    }
    switch (msg->type) {
    case HP_MSG_STDIN: hp_ranks_stdin(a->ranks, msg->payload, msg->size); break;
    case HP_MSG_STDIN_END: hp_ranks_stdin_end(a->ranks); break;
    case HP_MSG_SIGNAL:
        signal = (int)(hp_get32(msg->payload) & 63);
        if (signal == SIGSTOP || signal == SIGCONT)
            a->launcher = signal == SIGSTOP ? PAUSED : THERE;
        hp_ranks_signal(a->ranks, signal);
        break;
    case HP_MSG_WINDOW: hp_ranks_resize(a->ranks, hp_winsize_take(msg)); break;
    case HP_MSG_LOOK: /* the user asks, and the job goes on */
        put_recorders(a);
        hp_agent_msg_put(&a->out.buffer, HP_MSG_LOOKED, NULL, 0, NULL, 0);
        break;
    case HP_MSG_PING:
        a->has_pinged = 1;
        hp_agent_msg_put(&a->out.buffer, HP_MSG_PONG, msg->payload, msg->size, NULL, 0);
        break;
    case HP_MSG_PAUSE:
        a->held = hp_get32(msg->payload) != 0;
        push(a);
        break;
    case HP_MSG_RELET: a->lease = hp_lease_of(hp_get32(msg->payload) * HP_MS); break;
    case HP_MSG_AGAIN:
        rank = hp_get32(msg->payload);
        if (rank < (uint32_t)a->spec.world)
            hp_ranks_again(a->ranks, (int)rank);
        break;
    case HP_MSG_STOP:
        a->held = 0;
        put_last_recorders(a);
        hp_ranks_stop(a->ranks, hp_get32(msg->payload) * HP_MS);
        break;
    default: lose_launcher(a, GONE); /* a second spec: not our launcher */
    }
}

/* Takes the first line. 1: done; 0: more bytes are needed, or the agent has failed. */
static int
take_secret(agent *a)
{
    hp_secret secret;
    hoop_error error;
    if (hp_buffer_size(&a->in) < SECRET_LINE)
        return 0;
    if (hp_secret_parse(&secret, (const char *)hp_buffer_first(&a->in), SECRET_LINE, &error) == HOOP_SUCCESS)
        a->secret_fd = hp_secret_memfd(&secret, &error);
    hp_wipe(&secret, sizeof(secret));
    hp_buffer_drop(&a->in, SECRET_LINE);
    if (a->secret_fd >= 0 && fcntl(a->secret_fd, F_SETFD, FD_CLOEXEC) == 0) {
        a->step = TAKE_SPEC;
        return 1;
    }
    if (a->secret_fd >= 0)
        hp_err_sys(&error, HOOP_ERR_SYSTEM, errno, "cannot keep the secret's descriptor to itself");
    fail(a, 1, error.text);
    return 0;
}

static void
take_messages(agent *a)
{
    hp_agent_msg msg;
    hoop_error error;
    int got;
    if (a->step == TAKE_SECRET && !take_secret(a))
        return;
    while (a->step != END && a->launcher < GONE && (got = hp_agent_msg_get(&a->in, HP_TO_AGENT, &msg, &error)) != 0) {
        if (got < 0) {
            lose_launcher(a, GONE);
            return;
        }
        handle(a, &msg);
        hp_agent_msg_done(&a->in, &msg);
    }
}

static void
readable(void *arg, int ready)
{
    agent *a = arg;
    ssize_t n = read(STDIN_FILENO, hp_xbuffer_room(&a->in, PIECE), PIECE);
    (void)ready;
    if (n > 0) {
        hp_buffer_grown(&a->in, (size_t)n);
        take_messages(a);
        a->heard = hp_loop_now(a->loop);
        hp_timer_set(a->renewal, a->has_pinged && a->launcher != PAUSED ? a->lease.knock : HP_NEVER);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        lose_launcher(a, GONE);
    }
}

/* --- life --- */

/* Whether an event loop can wait for it. A file or /dev/null means that no launcher is connected. */
static int
is_channel(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) || isatty(fd));
}

static int
open_agent(agent *a)
{
    static const int ours[] = {SIGCHLD, SIGTERM, 0}; /* the launcher handles the signals of a terminal */
    static const int ignored[] = {SIGPIPE, SIGINT, SIGQUIT, SIGHUP, SIGTSTP};
    int flags = fcntl(STDIN_FILENO, F_GETFL);
    hp_spawn_own_path(a->own_dir);
    char *slash = strrchr(a->own_dir, '/');
    if (slash)
        *slash = '\0';
    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
        signal(ignored[i], SIG_IGN);
    a->loop = hp_loop_new();
    if (!a->loop || hp_signals_open(&a->signals, a->loop, ours) < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return -1;
    if (flags < 0 || fcntl(STDIN_FILENO, F_SETFL, flags | O_NONBLOCK) < 0)
        return -1;
    a->in_watch = hp_watch_new(a->loop, STDIN_FILENO, readable, a);
    a->look = hp_timer_new(a->loop, look, a);
    a->renewal = hp_timer_new(a->loop, check_lease, a);
    if (!a->in_watch || !a->look || !a->renewal || hp_watch_set(a->in_watch, HP_READ) < 0)
        return -1;
    return hp_write_queue_open(&a->out, a->loop, STDOUT_FILENO);
}

/*
 * A remote shell may have made its socket this process's output. During an outage what was written waits in the kernel;
 * if the socket were closed then, the launcher's next ping would reset it, and the launcher would never hear how the ranks
 * have ended. Of a pipe the kernel says nothing, and whoever reads it keeps what it has.
 */
static int
is_on_its_way(const agent *a)
{
    int waits = 0;
    return hp_buffer_size(&a->out.buffer) > 0 || (ioctl(STDOUT_FILENO, SIOCOUTQ, &waits) == 0 && waits > 0);
}

/* After each turn of the loop. TERM is treated like a launcher that is gone. */
static void
look_round(agent *a)
{
    for (int number; (number = hp_signals_next(&a->signals)) != 0;)
        if (number == SIGTERM)
            lose_launcher(a, GONE);
        else if (a->ranks)
            hp_ranks_reap(a->ranks);
    push(a);
    if (a->out.broken)
        lose_launcher(a, GONE);
    if (a->step == RUN_RANKS && hp_ranks_ended(a->ranks)) {
        put_last_recorders(a);
        hp_agent_msg_put(&a->out.buffer, HP_MSG_DONE, NULL, 0, NULL, 0);
        a->step = END;
        push(a);
    }
}

int
hp_agent_main(void)
{
    agent a = {.secret_fd = -1};
    if (!is_channel(STDIN_FILENO) || !is_channel(STDOUT_FILENO)) {
        fprintf(stderr,
                "hooprun: the standard input and output of an agent must be pipes to its launcher; does the remote "
                "shell pass them on?\n");
        return 1;
    }
    if (open_agent(&a) < 0) {
        fprintf(stderr, "hooprun: an agent cannot start: %s\n", strerror(errno));
        return 1;
    }
    const char *connection = getenv("SSH_CONNECTION"); /* "CLIENT PORT SERVER PORT": CLIENT is the launcher */
    int n = connection ? (int)strcspn(connection, " ") : 0;
    char *line = hp_xasprintf("\n" HP_AGENT_GREETING "%d.%d.%d %.*s\n", HOOP_VERSION_MAJOR, HOOP_VERSION_MINOR,
                              HOOP_VERSION_PATCH, n ? n : 1, n ? connection : "-");
    hp_xbuffer_add(&a.out.buffer, line, strlen(line));
    free(line);
    for (look_round(&a); a.step != END || (a.launcher < GONE && is_on_its_way(&a)); look_round(&a))
        hp_loop_run(a.loop, a.step == END ? ARRIVAL_LOOK : HP_NEVER);
    if (a.ranks)
        hp_ranks_free(a.ranks);
    hp_flight_claim_end(&a.claim);
    hp_write_queue_close(&a.out);
    hp_watch_free(a.in_watch);
    hp_timer_free(a.look);
    hp_timer_free(a.renewal);
    hp_knock_close(&a.knock);
    hp_signals_close(&a.signals);
    hp_spec_free(&a.spec);
    if (a.secret_fd >= 0)
        close(a.secret_fd);
    hp_buffer_free(&a.in);
    if (a.loop)
        hp_loop_free(a.loop);
    return a.launcher == DESERTED ? HP_AGENT_DESERTED : 0;
}
