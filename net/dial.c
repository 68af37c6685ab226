/* SPDX-License-Identifier: MIT */
/*
 * dial: see dial.h. It tries until the peer accepts or refuses it, or its time is up: one attempt at a time, one
 * timer for whatever is next. A server that does not answer may not have been started yet, which is no error before
 * the deadline. If a server accepts and then closes without a byte five times (once, where a question is all that was
 * wanted), it is an error: a server with another secret does that. The socket is the dial's until the result hands it over.
 */
#include "net/dial.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/handshake_io.h"
#include "net/socket.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_WAIT (50 * HP_MS)
#define LONGEST_WAIT (1 * HP_SEC)
#define CONNECT_TIME (10 * HP_SEC)
#define HANDSHAKE_TIME (5 * HP_SEC)
#define REFUSED_TIME (3 * HP_SEC)
#define SHORT_TIME (HP_SEC / 2)

enum { UNPROVEN_MAX = 5, WHAT = 96 };

typedef enum dial_state {
    WAITING,     /* until the next attempt */
    CONNECTING,  /* until the socket is writable */
    HANDSHAKING, /* until the next message of the handshake */
    OVER         /* until it is freed */
} dial_state;

struct hp_dial {
    hp_loop *loop;
    dial_state state;
    hp_addr to, from;
    hp_sock_options options;
    hp_keys *keys;
    hp_hello hello;
    char what[WHAT];
    uint64_t began, deadline; /* of all attempts */
    uint64_t next;            /* when WAITING ends, or when this attempt takes too long */
    uint64_t wait;            /* before the next attempt, without jitter */
    uint64_t short_since;     /* since when this process has no descriptor for an attempt; 0: it has */
    int number;               /* the errno of that */
    uint64_t refused;         /* since when the host refuses all attempts; 0: the last one was not refused */
    uint64_t absent;          /* since when attempts meet no process that has what is dialled; 0: the last one did */
    int unproven; /* attempts in a row that were closed after HELLO, or answered by something that is not hoop */
    int fd;
    hp_watch *watch;
    hp_timer *timer;
    hp_handshake handshake;
    hp_dial_fn *fn;
    void *arg;
    char last[160]; /* why the last attempt failed */
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
    if (result->fd < 0 && dial->short_since) {
        result->error.code = HOOP_ERR_SYSTEM;
        result->error.sys_errno = dial->number;
    }
    if (result->fd < 0 && dial->hello.your_rank < HP_RANK_SERVER && result->error.rank < 0)
        result->error.rank = (int)dial->hello.your_rank;
    dial->fn(dial->arg, result);
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

static void
fail_on_time(hp_dial *dial)
{
    char where[HP_ADDR_TEXT];
    uint64_t time = dial->deadline > dial->began ? dial->deadline - dial->began : 0;
    fail(dial, HOOP_ERR_RENDEZVOUS, "could not reach %s at %s within %.3g s: %s", dial->what,
         hp_addr_print(&dial->to, where), (double)time / (double)HP_SEC, dial->last);
}

/* --- time --- */

static void
set_timer(hp_dial *dial, uint64_t now)
{
    uint64_t when = dial->next < dial->deadline ? dial->next : dial->deadline;
    hp_timer_set(dial->timer, when > now ? when - now : 0);
}

/* The wait doubles. Half to one and a half of it is used, so that the ranks do not dial in step. */
static uint64_t
jittered(uint64_t wait)
{
    uint64_t random;
    if (hp_random(&random, sizeof(random), NULL) != HOOP_SUCCESS)
        return wait;
    return wait / 2 + random % (wait + 1);
}

static void
try_later(hp_dial *dial, const char *why)
{
    char where[HP_ADDR_TEXT];
    uint64_t now = hp_loop_now(dial->loop);
    close_socket(dial);
    snprintf(dial->last, sizeof(dial->last), "%s", why);
    hp_log_class("dial: again", HP_LOG_TRACE, "%s at %s: %s; trying again", dial->what, hp_addr_print(&dial->to, where),
                 why);
    dial->state = WAITING;
    dial->next = now + jittered(dial->wait);
    dial->wait = 2 * dial->wait < LONGEST_WAIT ? 2 * dial->wait : LONGEST_WAIT;
    set_timer(dial, now);
}

/* --- what a failed attempt means --- */

static int
is_final(const hoop_error *error)
{
    int number = error->sys_errno;
    return error->code != HOOP_ERR_SYSTEM || number == EAFNOSUPPORT || number == EINVAL;
}

/*
 * Other parts of the process, pending connections among them, may hold the descriptors for a moment; after a second
 * the dial fails.
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
    if (!absent)
        dial->absent = 0;
    else if (!dial->absent)
        dial->absent = hp_loop_now(dial->loop);
}

/*
 * A rank listens before it registers, so a rank that refuses for long has ended, and so has the server of a ring. A
 * server may not have been started yet if this rank has no ring from it.
 */
static int
is_out_of_reach(hp_dial *dial, const hoop_error *error)
{
    uint64_t now = hp_loop_now(dial->loop);
    int server = dial->hello.your_rank == HP_RANK_SERVER;
    if (error->sys_errno != ECONNREFUSED || (server && dial->hello.comm == 0)) {
        dial->refused = 0;
        return 0;
    }
    if (!dial->refused)
        dial->refused = now;
    return now - dial->refused >= REFUSED_TIME;
}

static void
fail_out_of_reach(hp_dial *dial)
{
    char where[HP_ADDR_TEXT];
    hp_addr_print(&dial->to, where);
    if (dial->hello.your_rank == HP_RANK_SERVER)
        fail(
            dial, HOOP_ERR_RENDEZVOUS,
            "%s no longer listens at %s: its program has ended, or called hoop_server_stop. A ring goes on without it, "
            "but can no longer be split",
            dial->what, where);
    else
        fail(dial, HOOP_ERR_RENDEZVOUS,
             "%s refuses connections at %s, where it has registered: does a firewall reject them, or is its "
             "HOOP_SOCKET_IFNAME or HOOP_ADVERTISE wrong?",
             dial->what, where);
}

/* The system refused to make the connection: for good, or for now. */
static void
on_no_socket(hp_dial *dial, const hoop_error *error)
{
    char where[HP_ADDR_TEXT];
    hp_dial_result result = {.fd = -1};
    dial->unproven = 0;
    note_absence(dial, error->sys_errno == ECONNREFUSED);
    if (is_out_of_reach(dial, error)) {
        fail_out_of_reach(dial);
        return;
    }
    if (!is_short_for_long(dial, error) && !is_final(error)) {
        try_later(dial, error->text);
        return;
    }
    hp_err_set(&result.error, error->code, "cannot connect to %s at %s: %s", dial->what,
               hp_addr_print(&dial->to, where), error->text);
    result.error.sys_errno = error->sys_errno;
    finish(dial, &result);
}

/* How often in a row. One that only asks a question can be asked to try again by who sees the answer. */
static int
unproven_most(const hp_dial *dial)
{
    return dial->hello.role == HP_ROLE_ASK ? 1 : UNPROVEN_MAX;
}

static void
fail_unanswered(hp_dial *dial, const char *where)
{
    char how[40] = "the connection";
    if (dial->unproven > 1)
        snprintf(how, sizeof(how), "%d connections", dial->unproven);
    fail(dial, HOOP_ERR_AUTH, "%s at %s closed %s without an answer: %s, or it accepts no more", dial->what, where, how,
         dial->keys->mode == HP_MODE_NONE ? "it may ask for the secret, while HOOP_SECURITY=none holds here"
                                          : "wrong secret or job name");
}

/* answer_why: what is wrong with the peer's answer; NULL: it closed without one. */
static void
on_unproven(hp_dial *dial, const char *answer_why)
{
    char where[HP_ADDR_TEXT], why[128] = "it closes the connection without an answer";
    if (answer_why)
        snprintf(why, sizeof(why), "the answer there is not from this job: %s", answer_why);
    hp_addr_print(&dial->to, where);
    if (++dial->unproven < unproven_most(dial))
        try_later(dial, why);
    else if (answer_why)
        fail(dial, HOOP_ERR_AUTH, "%s at %s: %s", dial->what, where, why);
    else
        fail_unanswered(dial, where);
}

static void
on_lost(hp_dial *dial, int number)
{
    char why[128];
    int silent = dial->handshake.state == HP_HANDSHAKE_CHALLENGE && dial->handshake.have == 0;
    if (silent && (number == 0 || number == ECONNRESET || number == EPIPE)) {
        on_unproven(dial, NULL);
        return;
    }
    dial->unproven = 0;
    snprintf(why, sizeof(why), "it went away during the handshake%s%s", number ? ": " : "",
             number ? strerror(number) : "");
    try_later(dial, why);
}

static void
refuse_version(hp_dial *dial)
{
    char ours[32];
    int min = dial->hello.ver_min, max = dial->hello.ver_max;
    snprintf(ours, sizeof(ours), min == max ? "%d" : "%d to %d", min, max);
    fail(dial, HOOP_ERR_VERSION,
         "%s speaks version %u of hoop's protocol, this rank version %s; install one release of hoop everywhere",
         dial->what, dial->handshake.version, ours);
}

/* The peer is proven and refuses the connection. */
static void
on_refusal(hp_dial *dial)
{
    uint16_t status = dial->handshake.status;
    char me[48] = "this rank";
    hp_dial_result result = {.fd = -1, .status = status, .epoch = dial->handshake.epoch};
    const char *advice = "";
    hoop_result code = HOOP_ERR_RENDEZVOUS;
    if (dial->hello.my_rank < HP_RANK_SERVER)
        snprintf(me, sizeof(me), "rank %u of %u", dial->hello.my_rank, dial->hello.world);
    if (status == HP_DUPLICATE) {
        advice = "; every process needs a rank of its own, and every start a job of its own";
    } else if (status == HP_BAD_WORLD) {
        code = HOOP_ERR_MISMATCH;
        advice = "; set the same size everywhere";
    } else if (status == HP_BAD_EPOCH) {
        code = HOOP_ERR_STALE_EPOCH;
    }
    hp_err_set(&result.error, code, "%s refuses %s: %s%s", dial->what, me, hp_status_text(status), advice);
    finish(dial, &result);
}

static void
on_done(hp_dial *dial)
{
    hp_dial_result result = {
        .fd = dial->fd, .features = dial->handshake.features, .assigned_rank = dial->handshake.assigned_rank};
    hp_err_clear(&result.error);
    dial->fd = -1;
    finish(dial, &result);
}

static void
on_end(hp_dial *dial)
{
    const hp_handshake *handshake = &dial->handshake;
    if (handshake->state == HP_HANDSHAKE_DONE) {
        on_done(dial);
    } else if (handshake->state == HP_HANDSHAKE_REFUSED && handshake->status == HP_BAD_VERSION) {
        refuse_version(dial);
    } else if (handshake->state == HP_HANDSHAKE_REFUSED &&
               (handshake->status == HP_LATE || handshake->status == HP_FULL)) {
        dial->unproven = 0;
        note_absence(dial, handshake->status == HP_LATE);
        try_later(dial, hp_status_text(handshake->status));
    } else if (handshake->state == HP_HANDSHAKE_REFUSED) {
        on_refusal(dial);
    } else {
        on_unproven(dial, handshake->why);
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
        try_later(dial, strerror(errno));
}

static void
on_connected(hp_dial *dial)
{
    uint8_t nonce[32];
    hoop_error error;
    hp_err_clear(&error);
    if (hp_sock_connected(dial->fd, &error) < 0) {
        on_no_socket(dial, &error);
        return;
    }
    if (hp_random(nonce, sizeof(nonce), &error) != HOOP_SUCCESS) {
        fail(dial, error.code, "%s", error.text);
        return;
    }
    uint64_t now = hp_loop_now(dial->loop);
    dial->state = HANDSHAKING;
    dial->next = now + HANDSHAKE_TIME;
    set_timer(dial, now);
    /* The dial keeps the time itself, so that its error can name what the attempt waited for. */
    hp_handshake_start(&dial->handshake, dial->keys, &dial->hello, nonce, HP_NEVER);
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
    dial->fd = hp_sock_connect(&dial->to, dial->from.length ? &dial->from : NULL, &dial->options, &error);
    if (dial->fd < 0) {
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
        [HANDSHAKING] = "no answer to the greeting (stopped, overloaded, or another program's port)",
    };
    if (dial->state == CONNECTING || dial->state == HANDSHAKING)
        snprintf(dial->last, sizeof(dial->last), "%s", overdue[dial->state]);
    if (now >= dial->deadline)
        fail_on_time(dial);
    else if (dial->state == WAITING)
        attempt(dial, now);
    else if (dial->state != OVER)
        try_later(dial, overdue[dial->state]);
}

hp_dial *
hp_dial_new(hp_loop *loop, const hp_addr *to, const hp_addr *from, const hp_sock_options *options, const hp_keys *keys,
            const hp_hello *hello, const char *what, uint64_t deadline, hp_dial_fn *fn, void *arg)
{
    hp_dial *dial = hp_alloc(1, sizeof(*dial));
    if (!dial)
        return NULL;
    *dial =
        (hp_dial){.loop = loop, .to = *to, .keys = hp_keys_hold(keys), .hello = *hello, .fd = -1, .fn = fn, .arg = arg};
    if (from)
        dial->from = *from;
    if (options)
        dial->options = *options;
    snprintf(dial->what, sizeof(dial->what), "%s", what);
    snprintf(dial->last, sizeof(dial->last), "there was no time to try");
    dial->began = dial->next = hp_loop_now(loop);
    dial->deadline = deadline;
    dial->wait = FIRST_WAIT;
    dial->timer = hp_timer_new(loop, on_timer, dial);
    if (!dial->timer) {
        hp_dial_free(dial);
        return NULL;
    }
    set_timer(dial, dial->began);
    return dial;
}

uint64_t
hp_dial_absent_since(const hp_dial *dial)
{
    return dial->absent;
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
