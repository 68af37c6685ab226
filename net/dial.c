/* SPDX-License-Identifier: MIT */
/*
 * dial: see dial.h. It tries until the peer accepts or refuses it, or its time is up: one attempt at a time, one
 * timer for whatever is next. A server that does not answer may not have been started yet, which is no error before
 * the deadline. Nor is one that accepts and closes without a byte: a server with another secret does that, but so does a
 * proxy whose target is not up yet, and nobody who lacks the secret gets an answer that would tell them apart. Nor is one
 * that answers in another protocol, as a proxy for HTTP does meanwhile. The socket is the dial's until the result hands
 * it over.
 */
#include "net/dial.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/socket.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SOON (2 * HP_MS)
#define FIRST_WAIT (50 * HP_MS)
#define LONGEST_WAIT (1 * HP_SEC)
#define CONNECT_TIME (10 * HP_SEC)
#define HANDSHAKE_TIME (5 * HP_SEC)
#define REFUSED_TIME (3 * HP_SEC)
#define FULL_TIME (2 * HP_SEC)
#define SHORT_TIME (HP_SEC / 2)

enum { FOREIGN_MOST = 5, WHAT = 96 };

typedef enum dial_state {
    WAITING,     /* until the next attempt */
    CONNECTING,  /* until the socket is writable */
    HANDSHAKING, /* until the next message of the handshake */
    OVER         /* until it is freed */
} dial_state;

/* What the last attempt met at the address. */
typedef enum encounter {
    NOBODY,  /* nobody who speaks to this rank */
    UNREADY, /* the right one, and it has not got so far, or no longer has what is dialled */
    WAITS,   /* the right one, and it says why this rank must wait */
    CLOSES,  /* it accepts, and closes without a byte */
    SILENT,  /* it accepts, and says nothing */
    STRANGE, /* it answers in another protocol */
    BUSY     /* the right one, and it has no room now */
} encounter;

struct hp_dial {
    hp_loop *loop;
    dial_state state;
    hp_addr to;
    hp_dial_options o; /* what: points to this: */
    char what[WHAT];
    hp_keys *keys;
    uint64_t began;       /* of all attempts */
    uint64_t next;        /* when WAITING ends, or when this attempt takes too long */
    uint64_t wait;        /* before the next attempt, without jitter; */
    uint64_t soon;        /* if it is UNREADY, for as long as this is below FIRST_WAIT */
    uint64_t short_since; /* since when this process has no descriptor for an attempt; 0: it has */
    int number;           /* the errno of that */
    uint64_t refused;     /* since when the host refuses all attempts; 0: the last one was not refused */
    uint64_t absent;      /* since when attempts meet no process that has what is dialled; 0: the last one did */
    uint64_t silent;      /* since when no attempt reaches the host; 0: the last one did */
    int has_asked;        /* an attempt was made */
    uint64_t full;        /* since when the peer has no room for this rank; 0: it has */
    encounter met;
    int closed, closed_most; /* in a row, without a byte; so many, or so many strange answers, are an error, 0: never */
    int awaits;              /* a server that comes back */
    int foreign;             /* attempts in a row that something answered which is not of this job */
    int fd;
    hp_watch *watch;
    hp_timer *timer;
    hp_handshake handshake;
    char last[200]; /* why the last attempt failed */
};

static void
close_socket(hp_dial *dial)
{
    hp_watch_free(dial->watch);
    dial->watch = NULL;
    if (dial->fd >= 0)
        hp_socket_close(dial->fd);
    dial->fd = -1;
}

/* The only call of fn, and the last action: fn may free the dial. */
static void
finish(hp_dial *dial, hp_dial_result *result)
{
    close_socket(dial);
    hp_timer_set(dial->timer, HP_NEVER);
    hp_wipe(&dial->handshake, sizeof(dial->handshake));
    dial->state = OVER;
    result->to = dial->to;
    if (result->fd < 0 && dial->short_since) {
        result->error.code = HOOP_ERR_SYSTEM;
        result->error.sys_errno = dial->number;
    }
    if (result->fd < 0 && dial->refused && !result->error.sys_errno)
        result->error.sys_errno = ECONNREFUSED; /* no process listens there */
    if (result->fd < 0 && dial->o.hello.your_rank < HP_RANK_SERVER && result->error.rank < 0)
        result->error.rank = (int)dial->o.hello.your_rank;
    dial->o.fn(dial->o.arg, result);
}

__attribute__((format(printf, 3, 4))) static void
fail(hp_dial *dial, hoop_result code, const char *format, ...)
{
    hp_dial_result result = {.fd = -1};
    char text[sizeof(result.error.text)];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    hp_err_set(&result.error, code, "%s", text);
    finish(dial, &result);
}

/* Who closes may be either, so the sentence names both. within: after how long, or "". */
static void
fail_closed(hp_dial *dial, const char *within)
{
    char where[HP_ADDR_TEXT], how[40] = "the connection";
    if (dial->closed > 1)
        snprintf(how, sizeof(how), "%d connections", dial->closed);
    fail(dial, HOOP_ERR_AUTH, "%s at %s closed %s without an answer%s: %s, or a proxy with nothing behind it",
         dial->what, hp_addr_print(&dial->to, where), how, within,
         dial->keys->mode == HP_MODE_NONE ? "it may ask for the secret, while HOOP_SECURITY=none holds here"
                                          : "wrong secret or job name");
}

static void
fail_on_time(hp_dial *dial)
{
    char where[HP_ADDR_TEXT], within[40];
    uint64_t time = dial->o.deadline > dial->began ? dial->o.deadline - dial->began : 0;
    snprintf(within, sizeof(within), " within %.3g s", (double)time / (double)HP_SEC);
    if (dial->met == CLOSES)
        fail_closed(dial, within);
    else
        fail(dial, HOOP_ERR_RENDEZVOUS, "could not reach %s at %s%s: %s", dial->what, hp_addr_print(&dial->to, where),
             within, dial->last);
}

/* --- time --- */

static void
set_timer(hp_dial *dial, uint64_t now)
{
    uint64_t when = dial->next < dial->o.deadline ? dial->next : dial->o.deadline;
    hp_timer_set(dial->timer, when > now ? when - now : 0);
}

static void
try_later(hp_dial *dial, encounter met, const char *why)
{
    char where[HP_ADDR_TEXT];
    uint64_t now = hp_loop_now(dial->loop), random;
    uint64_t *next = met == UNREADY && dial->soon < FIRST_WAIT ? &dial->soon : &dial->wait;
    uint64_t wait = *next;
    close_socket(dial);
    dial->met = met;
    dial->closed = met == CLOSES ? dial->closed : 0;
    snprintf(dial->last, sizeof(dial->last), "%s", why);
    hp_log_class("dial: again", HP_LOG_TRACE, "%s at %s: %s; trying again", dial->what, hp_addr_print(&dial->to, where),
                 why);
    dial->state = WAITING;
    /* The wait doubles. Half to one and a half of it is used, so that the ranks do not dial in step. */
    dial->next = now + wait;
    if (hp_random(&random, sizeof(random), NULL) == HOOP_SUCCESS)
        dial->next = now + wait / 2 + random % (wait + 1);
    *next = 2 * wait < LONGEST_WAIT ? 2 * wait : LONGEST_WAIT;
    set_timer(dial, now);
}

/* --- what a failed attempt means --- */

/*
 * Other parts of the process, pending connections among them, may hold the descriptors for a moment; after half a
 * second the dial fails.
 */
static int
is_short_for_long(hp_dial *dial, const hoop_error *error)
{
    uint64_t now = hp_loop_now(dial->loop);
    if (error->sys_errno != EMFILE && error->sys_errno != ENFILE) {
        dial->short_since = 0;
        return 0;
    }
    dial->number = error->sys_errno;
    if (!dial->short_since)
        dial->short_since = now;
    return now - dial->short_since >= SHORT_TIME;
}

static void
note_absence(hp_dial *dial, int absent)
{
    dial->absent = !absent ? 0 : dial->absent ? dial->absent : hp_loop_now(dial->loop);
}

/*
 * A rank listens before it registers, so a rank that refuses for long has ended, and so has the server of a ring. A
 * server may not have been started yet if this rank has no ring from it.
 */
static int
is_out_of_reach(hp_dial *dial, const hoop_error *error)
{
    uint64_t now = hp_loop_now(dial->loop);
    int server = dial->o.hello.your_rank == HP_RANK_SERVER;
    if (error->sys_errno != ECONNREFUSED || (server && (dial->o.hello.comm == 0 || dial->awaits))) {
        dial->refused = 0;
        return 0;
    }
    if (!dial->refused)
        dial->refused = now;
    return now - dial->refused >= REFUSED_TIME;
}

/* The system refused to make the connection: for good, or for now. */
static void
on_no_socket(hp_dial *dial, const hoop_error *error)
{
    char where[HP_ADDR_TEXT];
    hp_dial_result result = {.fd = -1};
    dial->foreign = 0;
    note_absence(dial, error->sys_errno == ECONNREFUSED);
    hp_addr_print(&dial->to, where);
    if (is_out_of_reach(dial, error)) {
        fail(dial, HOOP_ERR_RENDEZVOUS,
             dial->o.hello.your_rank == HP_RANK_SERVER
                 ? "%s no longer listens at %s: its program has ended, or called hoop_server_stop. A ring goes on "
                   "without it, but can no longer be split"
                 : "%s refuses connections at %s, where it has registered: does a firewall reject them, or is its "
                   "HOOP_SOCKET_IFNAME or HOOP_ADVERTISE wrong?",
             dial->what, where);
        return;
    }
    int is_final = error->code != HOOP_ERR_SYSTEM || error->sys_errno == EAFNOSUPPORT || error->sys_errno == EINVAL;
    if (!is_short_for_long(dial, error) && !is_final) {
        try_later(dial, NOBODY, error->text);
        return;
    }
    hp_err_set(&result.error, error->code, "cannot connect to %s at %s: %s", dial->what, where, error->text);
    result.error.sys_errno = error->sys_errno;
    finish(dial, &result);
}

/* The peer has closed without a byte. */
static void
on_closed(hp_dial *dial)
{
    dial->foreign = 0;
    if (++dial->closed == dial->closed_most)
        fail_closed(dial, "");
    else
        try_later(dial, CLOSES, "it closes the connection without an answer");
}

/* The greeting was sent, or is about to be, and no byte has come. */
static int
is_unanswered(const hp_dial *dial)
{
    return dial->state == HANDSHAKING && dial->handshake.state == HP_HANDSHAKE_CHALLENGE && dial->handshake.have == 0;
}

static int
is_closing(int number)
{
    return number == 0 || number == ECONNRESET || number == EPIPE;
}

static void
on_lost(hp_dial *dial, int number)
{
    char why[128];
    if (is_unanswered(dial) && is_closing(number)) {
        on_closed(dial);
        return;
    }
    dial->foreign = 0;
    snprintf(why, sizeof(why), "it went away during the handshake%s%s", number ? ": " : "",
             number ? strerror(number) : "");
    try_later(dial, NOBODY, why);
}

/*
 * The peer is proven and refuses the connection, perhaps for now only. What fills it may just be leaving, connections of
 * communicators that were destroyed for instance, so only one that stays full refuses.
 */
static void
on_refusal(hp_dial *dial)
{
    uint16_t status = dial->handshake.status;
    uint64_t now = hp_loop_now(dial->loop);
    dial->full = status != HP_FULL ? 0 : dial->full ? dial->full : now;
    if (status == HP_LATE || status == HP_BUSY || (status == HP_FULL && now - dial->full < FULL_TIME)) {
        dial->foreign = 0;
        note_absence(dial, status == HP_LATE);
        try_later(dial, status == HP_BUSY ? BUSY : status == HP_LATE ? UNREADY : WAITS, hp_status_text(status));
        return;
    }
    char me[48] = "this rank";
    hp_dial_result result = {.fd = -1, .status = status, .epoch = dial->handshake.epoch};
    const char *advice = "";
    hoop_result code = HOOP_ERR_RENDEZVOUS;
    if (dial->o.hello.my_rank < HP_RANK_SERVER)
        snprintf(me, sizeof(me), "rank %u of %u", dial->o.hello.my_rank, dial->o.hello.world);
    if (status == HP_DUPLICATE) {
        advice = "; every process needs a rank of its own, and every start a job of its own";
    } else if (status == HP_BAD_WORLD) {
        code = HOOP_ERR_MISMATCH;
        advice = "; set the same size everywhere";
    } else if (status == HP_BAD_EPOCH) {
        code = HOOP_ERR_STALE_EPOCH;
    } else if (status == HP_FULL && dial->o.hello.your_rank == HP_RANK_SERVER) {
        advice = "; a rank can be in 256 communicators at a time, so destroy those that are no longer used";
    }
    hp_err_set(&result.error, code, "%s refuses %s: %s%s", dial->what, me, hp_status_text(status), advice);
    finish(dial, &result);
}

/*
 * Another program, perhaps a proxy that says that its target is not up yet; or a peer that has found this rank's HELLO
 * right and then errs.
 */
static void
on_foreign(hp_dial *dial)
{
    const hp_handshake *handshake = &dial->handshake;
    encounter met = handshake->strange ? STRANGE : NOBODY;
    int most = handshake->strange ? dial->closed_most : FOREIGN_MOST;
    char where[HP_ADDR_TEXT], why[sizeof(dial->last)], answer[48];
    hp_handshake_quote(handshake, answer, sizeof(answer));
    if (handshake->strange)
        snprintf(why, sizeof(why),
                 "it answers %s, which is not hoop's protocol (a proxy whose target is not up yet, or one for HTTP or "
                 "TLS, not TCP? another program's port?)",
                 answer);
    else
        snprintf(why, sizeof(why), "the answer there is not from this job: %s", handshake->why);
    dial->foreign = dial->met == met ? dial->foreign + 1 : 1;
    if (dial->foreign == most)
        fail(dial, HOOP_ERR_AUTH, "%s at %s: %s", dial->what, hp_addr_print(&dial->to, where), why);
    else
        try_later(dial, met, why);
}

static void
on_end(hp_dial *dial)
{
    const hp_handshake *handshake = &dial->handshake;
    if (handshake->state == HP_HANDSHAKE_DONE) {
        hp_dial_result done = {.fd = dial->fd,
                               .features = handshake->features,
                               .assigned_rank = handshake->assigned_rank,
                               .shares = handshake->shares};
        hp_err_clear(&done.error);
        dial->fd = -1;
        finish(dial, &done);
    } else if (handshake->state == HP_HANDSHAKE_REFUSED && handshake->status == HP_BAD_VERSION) {
        char ours[32];
        int min = dial->o.hello.ver_min, max = dial->o.hello.ver_max;
        hp_dial_result other = {.fd = -1, .status = HP_BAD_VERSION};
        snprintf(ours, sizeof(ours), min == max ? "%d" : "%d to %d", min, max);
        hp_err_set(&other.error, HOOP_ERR_VERSION,
                   "%s speaks version %u of hoop's protocol, this rank version %s; install one release of hoop "
                   "everywhere",
                   dial->what, handshake->version, ours);
        finish(dial, &other);
    } else if (handshake->state == HP_HANDSHAKE_REFUSED) {
        on_refusal(dial);
    } else {
        on_foreign(dial);
    }
}

/* --- the attempt itself --- */

static void
run_handshake(hp_dial *dial)
{
    int next = hp_handshake_io(&dial->handshake, dial->fd, hp_loop_now(dial->loop));
    if (next == HP_HANDSHAKE_IO_LOST)
        on_lost(dial, errno);
    else if (next == HP_HANDSHAKE_IO_STOP)
        on_end(dial);
    else if (hp_watch_set(dial->watch, next) != 0)
        try_later(dial, NOBODY, strerror(errno));
}

static void
on_connected(hp_dial *dial)
{
    uint8_t nonce[32];
    hoop_error error;
    hp_err_clear(&error);
    int failed = hp_sock_connected(dial->fd, &error) < 0;
    if (!failed || error.sys_errno == ECONNREFUSED || is_closing(error.sys_errno))
        dial->silent = 0;
    if (failed) {
        if (is_closing(error.sys_errno))
            on_closed(dial);
        else
            on_no_socket(dial, &error);
        return;
    }
    dial->refused = 0;
    if (dial->met != UNREADY) /* somebody listens again, and has not said that it lacks what is dialled */
        note_absence(dial, 0);
    if (hp_random(nonce, sizeof(nonce), &error) != HOOP_SUCCESS) {
        fail(dial, error.code, "%s", error.text);
        return;
    }
    uint64_t now = hp_loop_now(dial->loop);
    dial->state = HANDSHAKING;
    dial->next = now + HANDSHAKE_TIME;
    set_timer(dial, now);
    /* The dial keeps the time itself, so that its error can name what the attempt waited for. */
    hp_handshake_start(&dial->handshake, dial->keys, &dial->o.hello, nonce, HP_NEVER);
    run_handshake(dial);
}

static void
on_socket(void *arg, int ready)
{
    (void)ready;
    hp_dial *dial = arg;
    if (dial->state == CONNECTING)
        on_connected(dial);
    else if (dial->state == HANDSHAKING)
        run_handshake(dial);
}

static void
attempt(hp_dial *dial, uint64_t now)
{
    hoop_error error;
    hp_err_clear(&error);
    dial->has_asked = 1;
    dial->fd = hp_sock_connect(&dial->to, dial->o.from.length ? &dial->o.from : NULL, &dial->o.sock, &error);
    if (dial->fd < 0) {
        dial->silent = error.sys_errno == ECONNREFUSED ? 0 : dial->silent ? dial->silent : now;
        on_no_socket(dial, &error);
        return;
    }
    dial->short_since = 0;
    dial->watch = hp_watch_new(dial->loop, dial->fd, on_socket, dial);
    if (!dial->watch || hp_watch_set(dial->watch, HP_WRITE) != 0) {
        fail(dial, errno == ENOMEM ? HOOP_ERR_NO_MEMORY : HOOP_ERR_SYSTEM, "cannot watch the connection to %s: %s",
             dial->what, strerror(errno));
        return;
    }
    dial->state = CONNECTING;
    dial->silent = dial->silent ? dial->silent : now;
    dial->next = now + CONNECT_TIME;
    set_timer(dial, now);
}

static void
on_timer(void *arg)
{
    hp_dial *dial = arg;
    uint64_t now = hp_loop_now(dial->loop);
    static const char *const overdue[] = {
        [CONNECTING] = "no answer to the connection request (the host is down or a firewall drops the packets)",
        [HANDSHAKING] =
            "no answer to the greeting (stopped, overloaded, another program's port, or a proxy with nothing "
            "behind it)",
    };
    int trying = dial->state == CONNECTING || dial->state == HANDSHAKING, whole = now >= dial->next;
    if (trying && (whole || dial->met == NOBODY)) /* an attempt that the deadline cuts short says less than the last */
        snprintf(dial->last, sizeof(dial->last), "%s", overdue[dial->state]);
    if (now >= dial->o.deadline)
        fail_on_time(dial);
    else if (dial->state == WAITING)
        attempt(dial, now);
    else if (trying)
        try_later(dial, is_unanswered(dial) ? SILENT : NOBODY, overdue[dial->state]);
}

hp_dial *
hp_dial_new(hp_loop *loop, const hp_addr *to, const hp_dial_options *options)
{
    hp_dial *dial = hp_alloc(1, sizeof(*dial));
    if (!dial)
        return NULL;
    *dial = (hp_dial){.loop = loop, .to = *to, .o = *options, .keys = hp_keys_hold(options->keys), .fd = -1};
    dial->o.what = dial->what;
    snprintf(dial->what, sizeof(dial->what), "%s", options->what);
    snprintf(dial->last, sizeof(dial->last), "there was no time to try");
    dial->began = dial->next = hp_loop_now(loop);
    dial->wait = FIRST_WAIT;
    dial->soon = SOON;
    dial->timer = hp_timer_new(loop, on_timer, dial);
    if (!dial->timer) {
        hp_dial_free(dial);
        return NULL;
    }
    set_timer(dial, dial->began);
    return dial;
}

void
hp_dial_limit_closed(hp_dial *dial, int most)
{
    dial->closed_most = most;
}

void
hp_dial_await_server(hp_dial *dial)
{
    dial->awaits = 1;
}

int
hp_dial_explain(const hp_dial *dial, hoop_error *error)
{
    uint64_t now = hp_loop_now(dial->loop);
    int silent = dial->met == SILENT || (is_unanswered(dial) && now + HANDSHAKE_TIME >= dial->next + HP_SEC);
    char where[HP_ADDR_TEXT];
    hp_addr_print(&dial->to, where);
    hp_err_clear(error);
    if (dial->met == CLOSES)
        hp_err_set(error, HOOP_ERR_AUTH,
                   "something accepts connections at %s and closes them without an answer (a proxy whose target is not "
                   "up yet? another secret or job name?)",
                   where);
    else if (dial->met == STRANGE)
        hp_err_set(error, HOOP_ERR_RENDEZVOUS, "something accepts connections at %s; %s", where, dial->last);
    else if (silent)
        hp_err_set(error, HOOP_ERR_RENDEZVOUS,
                   "something accepts connections at %s and does not answer (a proxy whose target is not up yet? is it "
                   "stopped?)",
                   where);
    else if (dial->met == BUSY)
        hp_err_set(error, HOOP_ERR_RENDEZVOUS, "it has no room for another connection now at %s", where);
    return error->code != HOOP_SUCCESS;
}

uint64_t
hp_dial_absent_since(const hp_dial *dial)
{
    return dial->absent;
}

int
hp_dial_has_asked(const hp_dial *dial)
{
    return dial->has_asked;
}

uint64_t
hp_dial_silent_since(const hp_dial *dial)
{
    return dial->silent;
}

hp_dial_standing
hp_dial_stands(const hp_dial *dial)
{
    if (dial->met == UNREADY || dial->met == WAITS || dial->met == BUSY) /* also while it is dialled again */
        return HP_DIAL_MET;
    if (dial->state == HANDSHAKING)
        return dial->handshake.state == HP_HANDSHAKE_CHALLENGE ? HP_DIAL_GREETING : HP_DIAL_MET;
    return dial->state == CONNECTING ? HP_DIAL_ASKING : HP_DIAL_FAILED;
}

const char *
hp_dial_answer(const hp_dial *dial)
{
    int young = hp_loop_now(dial->loop) - dial->silent < HP_SEC; /* its answer may just not have been read */
    if (dial->state == CONNECTING && !(young && dial->refused))
        return "no answer to the connection request";
    return is_unanswered(dial) ? "something accepts, and does not answer" : dial->last;
}

void
hp_dial_free(hp_dial *dial)
{
    if (!dial)
        return;
    close_socket(dial);
    hp_timer_free(dial->timer);
    hp_keys_drop(dial->keys);
    free(dial);
}
