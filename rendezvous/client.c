/* SPDX-License-Identifier: MIT */
/*
 * client: see client.h. It dials, sends JOIN, collects the roster and awaits GO; from then on it sends small reports
 * and may receive a verdict. The loss of the server is fatal only before GO: during the join the client dials again,
 * after GO the ring goes on without a server. If the control connection was reset after GO, the server may still be
 * there: the client is away, dials, and sends JOIN again.
 */
#include "rendezvous/client.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/wire.h"
#include "net/socket.h"
#include "rendezvous/clock_question.h"
#include "rendezvous/resend.h"

#include <stdlib.h>
#include <string.h>

enum {
    GRACE_MS = 300, /* the server's own time-out, which names the missing ranks, ends first */
    REDIAL_MS = 50,
    REDIAL_MOST_MS = 1000,
    SERVER_SILENT_MS = 15000, /* during an operation the server sends PING every second */
    SERVER_QUIET_MS = 2000,
    ASLEEP_MS = 1000, /* reports leave every quarter of a second, unless this process was stopped */
    FLUSH_MS = 100,
    RETURN_MS = HP_RETURN_MS,
    REPORT_QUEUE = 16 << 10 /* above this reports are dropped, verdicts are not */
};

typedef enum away {
    HERE,
    AWAY,     /* the connection was reset: the owner calls hp_client_return */
    RETURNING /* dialling, or JOIN is sent: awaits GO or a verdict */
} away;

struct hp_client {
    hp_loop *loop;
    hp_client_options options;
    hp_keys *keys;
    char *agree;
    void (*kick)(void *arg);
    void *arg;
    hp_client_state state;
    hoop_error error, verdict;
    hp_dial *dial;
    hp_control_conn *control;
    hp_timer *redial, *giving_up;
    int attempts;
    hp_ring ring;
    int parts_to; /* members [0, parts_to) of the roster have arrived */
    int in_op;
    uint64_t features;            /* of the server */
    int refused;                  /* this rank has refused a call, and has started none since */
    uint64_t last_seen, reported; /* during an operation: the server's last frame, this rank's last report */
    away away;                    /* in GO only */
    uint64_t away_until;
    hp_resend resend;
    hp_clock_offset clock; /* against the server's */
};

static void dial_server(void *arg);

static void
fail(hp_client *c, const hoop_error *error)
{
    if (c->state >= HP_CLIENT_GO)
        return;
    c->error = *error;
    c->error.phase = HOOP_PHASE_BRINGUP;
    c->state = HP_CLIENT_FAILED;
    hp_timer_set(c->redial, HP_NEVER);
    hp_timer_set(c->giving_up, HP_NEVER);
}

static void
gone(hp_client *c)
{
    c->away = HERE;
    c->state = HP_CLIENT_GONE;
    hp_log(HP_LOG_INFO, "the rendezvous server is gone; the ring continues without it");
}

/* --- frames from the server --- */

static int
take_part(hp_client *c, const uint8_t *payload, size_t n, hoop_error *error)
{
    int whole = hp_registration_part(&c->options, &c->ring, &c->parts_to, payload, n, error);
    if (whole > 0)
        c->state = HP_CLIENT_ROSTER;
    return whole < 0 ? -1 : 0;
}

static int
take_cause(hp_client *c, const uint8_t *payload, size_t n, hoop_error *error)
{
    hoop_error cause;
    if (!hp_abort_get(&cause, payload, n) || cause.code == HOOP_SUCCESS) {
        hp_err_set(error, HOOP_ERR_PROTOCOL, "the rendezvous server sent a malformed error");
        return -1;
    }
    hp_abort_confine(&cause, c->state == HP_CLIENT_JOINING ? (int)hp_registration_hello(&c->options, NULL).world
                                                           : c->ring.size);
    if (!c->verdict.code)
        c->verdict = cause;
    fail(c, &cause);
    return 0;
}

static int
where(const hp_client *c)
{
    switch (c->state) {
    case HP_CLIENT_JOINING: return HP_JOINING;
    case HP_CLIENT_ROSTER:
    case HP_CLIENT_READY: return HP_AT_LINKING;
    case HP_CLIENT_GO: return c->away ? HP_AT_LINKING : HP_AT_RUNNING;
    default: return HP_AT_END;
    }
}

/* The server's answer to a member that has connected again. */
static int
take_answer(hp_client *c, int type, const uint8_t *payload, size_t n, hoop_error *error)
{
    if (type == HP_PING)
        return 0;
    if (type == HP_REFUSED) {
        gone(c);
        return -1;
    }
    c->away = HERE;
    hp_timer_set(c->giving_up, HP_NEVER);
    if (type == HP_ABORT)
        return take_cause(c, payload, n, error);
    hp_log(HP_LOG_INFO, "connected to the rendezvous server again");
    hp_resend_all(&c->resend, c->control);
    return 0;
}

static int
on_frame(void *arg, int type, const uint8_t *payload, size_t n, hoop_error *error)
{
    hp_client *c = arg;
    int result = 0;
    c->last_seen = hp_loop_now(c->loop);
    if (!hp_message_fits(type, 1, where(c), n)) {
        hp_err_set(error, HOOP_ERR_PROTOCOL, "the rendezvous server sent an unexpected message of type %d", type);
        return -1;
    }
    if (c->away)
        result = take_answer(c, type, payload, n, error);
    else if (type == HP_ROSTER)
        result = take_part(c, payload, n, error);
    else if (type == HP_ABORT || type == HP_REFUSED)
        result = take_cause(c, payload, n, error);
    else if (type == HP_CLOCK)
        hp_clock_take(&c->clock, payload);
    else if (type == HP_GO && c->state == HP_CLIENT_READY) {
        c->state = HP_CLIENT_GO;
        hp_timer_set(c->giving_up, HP_NEVER);
    }
    c->kick(c->arg);
    return result;
}

/* --- the connection --- */

static void
redial_later(hp_client *c)
{
    uint64_t pause = (uint64_t)REDIAL_MS << (c->attempts < 5 ? c->attempts : 5);
    c->attempts++;
    c->parts_to = 0;
    hp_timer_set(c->redial, (pause < REDIAL_MOST_MS ? pause : REDIAL_MOST_MS) * HP_MS);
}

/* The control connection ended after GO. If it was reset, the client may dial again. */
static void
lose_control(hp_client *c, const hoop_error *why)
{
    uint64_t now = hp_loop_now(c->loop);
    if (!c->ring.size)
        return; /* this rank takes no part in a split, and the server has closed */
    if (why->code != HOOP_ERR_SYSTEM || (c->away && now >= c->away_until)) {
        gone(c);
        return;
    }
    hp_log(HP_LOG_INFO, "%s; connecting again", why->text);
    if (!c->away)
        c->away_until = now + RETURN_MS * HP_MS;
    c->away = AWAY;
    c->in_op = 0;
}

static void
on_closed(void *arg, const hoop_error *why)
{
    hp_client *c = arg;
    char server[HP_ADDR_TEXT];
    hoop_error error;
    hp_control_conn_free(c->control);
    c->control = NULL;
    if (c->state == HP_CLIENT_GO)
        lose_control(c, why);
    else if (why->code && why->code != HOOP_ERR_SYSTEM)
        fail(c, why);
    else if (c->state == HP_CLIENT_JOINING)
        redial_later(c);
    else if (c->state < HP_CLIENT_GO && c->ring.size > 0) {
        hp_err_set(&error, HOOP_ERR_RENDEZVOUS,
                   "the rendezvous server at %s closed the connection while the ring was being linked; was it stopped?",
                   hp_addr_print(&c->options.server, server));
        fail(c, &error);
    }
    c->kick(c->arg);
}

static int
send_join(hp_client *c)
{
    uint8_t payload[HP_CONTROL_MAX];
    hp_join join = c->away ? hp_registration_again(&c->options, &c->ring)
                           : hp_registration_first(&c->options, hp_loop_now(c->loop));
    join.agree = c->agree;
    join.agree_n = strlen(c->agree);
    size_t n = hp_join_put(payload, &join);
    return n && hp_control_conn_send(c->control, HP_JOIN, payload, n);
}

static void
open_control(hp_client *c, int fd)
{
    hp_control_conn_owner owner = {c, on_frame, NULL, on_closed};
    hoop_error error;
    c->control = hp_control_conn_new(c->loop, fd, &owner);
    if (c->control && send_join(c))
        return;
    if (!c->control)
        hp_socket_close(fd);
    if (c->away)
        gone(c);
    hp_err_set(&error, HOOP_ERR_NO_MEMORY, "out of memory or descriptors for the control connection");
    fail(c, &error);
}

/*
 * The server is that of another start of this job. An older one ends sooner or later, and leaves its port to the right
 * one; if it is newer, this rank is left over.
 */
static void
meet_other_attempt(hp_client *c, uint32_t attempt)
{
    int older = attempt < c->options.attempt;
    hoop_error error;
    hp_registration_other_attempt(&c->options, attempt, &error);
    if (!older) {
        fail(c, &error);
        return;
    }
    if (!c->error.code)
        hp_log(HP_LOG_WARN, "%s; this rank waits for that", error.text);
    c->error = error;
    redial_later(c);
}

static void
on_dialled(void *arg, const hp_dial_result *result)
{
    hp_client *c = arg;
    hp_dial *dial = c->dial;
    c->dial = NULL;
    c->features = result->features;
    if (result->fd >= 0) {
        hp_err_clear(&c->error);
        open_control(c, result->fd);
    } else if (c->away)
        gone(c);
    else if (result->status == HP_DUPLICATE && c->attempts > 0)
        redial_later(c); /* most likely this rank itself: its first connection broke, unnoticed by the server */
    else if (result->status == HP_DUPLICATE) {
        hoop_error error;
        hp_registration_duplicate(&c->options, &error);
        fail(c, &error);
    } else if (result->status == HP_BAD_EPOCH)
        meet_other_attempt(c, result->epoch);
    else
        fail(c, &result->error);
    hp_dial_free(dial);
    c->kick(c->arg);
}

static void
dial_server(void *arg)
{
    hp_client *c = arg;
    const hp_client_options *o = &c->options;
    hoop_error error;
    hp_hello hello = hp_registration_hello(&c->options, c->away ? &c->ring : NULL);
    hello.mode = c->keys->mode;
    memcpy(hello.job_id, c->keys->job_id, HP_JOB_ID_BYTES);
    c->dial = hp_dial_new(c->loop, &o->server, NULL, &o->sock, c->keys, &hello, "the rendezvous server",
                          c->away ? c->away_until : o->deadline, on_dialled, c);
    if (c->dial)
        return;
    if (c->away)
        gone(c);
    hp_err_set(&error, HOOP_ERR_NO_MEMORY, "out of memory for the control connection");
    fail(c, &error);
    c->kick(c->arg);
}

static void
on_too_late(void *arg)
{
    hp_client *c = arg;
    hoop_error error;
    if (c->away) { /* JOIN is sent, and no answer has arrived */
        hp_control_conn_free(c->control);
        hp_dial_free(c->dial);
        c->control = NULL;
        c->dial = NULL;
        gone(c);
        c->kick(c->arg);
        return;
    }
    if (c->error.code)
        error = c->error; /* of an older attempt's server */
    else
        hp_registration_too_late(&c->options, c->control != NULL, &error);
    fail(c, &error);
    c->kick(c->arg);
}

/* --- the client itself --- */

hp_client *
hp_client_new(hp_loop *loop, const hp_client_options *options, void (*kick)(void *arg), void *arg)
{
    hp_client *c = hp_alloc(1, sizeof(*c));
    if (!c)
        return NULL;
    uint64_t now = hp_loop_now(loop);
    c->loop = loop;
    c->options = *options;
    c->options.keys = NULL;
    c->options.agree = NULL;
    c->keys = hp_keys_hold(options->keys);
    c->kick = kick;
    c->arg = arg;
    hp_err_clear(&c->error);
    hp_err_clear(&c->verdict);
    hp_resend_clear(&c->resend);
    c->agree = hp_strdup(options->agree ? options->agree : "");
    c->redial = hp_timer_new(loop, dial_server, c);
    c->giving_up = hp_timer_new(loop, on_too_late, c);
    if (!c->agree || !c->redial || !c->giving_up) {
        hp_client_free(c);
        return NULL;
    }
    hp_timer_set(c->giving_up, (options->deadline > now ? options->deadline - now : 0) + GRACE_MS * HP_MS);
    hp_timer_set(c->redial, 0);
    return c;
}

hp_client_state
hp_client_status(const hp_client *c)
{
    return c->state;
}

const hoop_error *
hp_client_error(const hp_client *c)
{
    return &c->error;
}

const hp_addr *
hp_client_awaits(const hp_client *c)
{
    return c->state == HP_CLIENT_JOINING && !c->control && !c->error.code ? &c->options.server : NULL;
}

const hp_ring *
hp_client_ring(const hp_client *c)
{
    return &c->ring;
}

void
hp_client_ready(hp_client *c)
{
    if (c->state != HP_CLIENT_ROSTER)
        return;
    c->state = c->ring.size ? HP_CLIENT_READY : HP_CLIENT_GO;
    if (c->control && c->ring.size)
        hp_control_conn_send(c->control, HP_READY, NULL, 0);
}

static void
send_report(hp_client *c, hp_frame_type type, const hp_report *report)
{
    uint8_t payload[HP_REPORT_BYTES];
    hp_report_put(payload, report);
    hp_control_conn_send(c->control, type, payload, sizeof(payload));
    c->in_op = 1;
}

void
hp_client_in_op(hp_client *c, const hp_report *report)
{
    uint64_t now = hp_loop_now(c->loop);
    if (c->state != HP_CLIENT_GO || !c->control || c->away)
        return;
    if (!c->in_op || now - c->reported > ASLEEP_MS * HP_MS)
        c->last_seen = now;
    c->reported = now;
    if (now - c->last_seen > SERVER_SILENT_MS * HP_MS) {
        c->state = HP_CLIENT_GONE;
        c->kick(c->arg);
        return;
    }
    if (hp_control_conn_queued(c->control) > REPORT_QUEUE)
        return;
    send_report(c, c->in_op || c->refused ? HP_PROGRESS : HP_IN_OP, report);
}

/* The member's control connection, while reports may be sent on it; else NULL. */
static hp_control_conn *
usable_control(const hp_client *c)
{
    return c->away || !c->ring.size ? NULL : c->control;
}

void
hp_client_unstarted(hp_client *c, const hp_unstarted *unstarted)
{
    if (c->state != HP_CLIENT_GO)
        return;
    c->refused = 1;
    hp_resend_unstarted(&c->resend, usable_control(c), unstarted);
}

void
hp_client_started(hp_client *c, const hp_report *report)
{
    c->refused = 0;
    c->resend.unstarted.sequence = 0;
    if (c->state != HP_CLIENT_GO || !c->control || c->away)
        return;
    if (!c->in_op)
        c->last_seen = hp_loop_now(c->loop);
    c->reported = hp_loop_now(c->loop);
    send_report(c, HP_IN_OP, report);
}

int
hp_client_has_server(const hp_client *c, uint64_t now)
{
    /* the caller's `now` may be a moment older than the frame */
    return c->state != HP_CLIENT_GONE && !c->away && (!c->in_op || now <= c->last_seen + SERVER_QUIET_MS * HP_MS);
}

const hp_clock_offset *
hp_client_compare_clocks(hp_client *c, int asks)
{
    if (asks && c->state == HP_CLIENT_GO && usable_control(c))
        hp_clock_ask(c->control);
    return &c->clock;
}

static void
send_count(hp_client *c, hp_frame_type type, uint64_t completed)
{
    uint8_t payload[HP_COUNT_BYTES];
    hp_put64(payload, completed);
    if (c->control)
        hp_control_conn_send(c->control, type, payload, sizeof(payload));
}

void
hp_client_out(hp_client *c, uint64_t completed)
{
    if (c->in_op && c->state == HP_CLIENT_GO)
        send_count(c, HP_OUT, completed);
    c->in_op = 0;
}

int
hp_client_inform(hp_client *c, uint64_t feature, hp_frame_type type, const void *payload, size_t n)
{
    hp_control_conn *control = c->features & feature ? usable_control(c) : NULL;
    if (c->state != HP_CLIENT_GO || !control || hp_control_conn_queued(control) > REPORT_QUEUE)
        return 0;
    return hp_control_conn_send(control, type, payload, n);
}

void
hp_client_abort(hp_client *c, const hoop_error *cause)
{
    if (c->state >= HP_CLIENT_ROSTER && c->state < HP_CLIENT_LEFT)
        hp_resend_abort(&c->resend, usable_control(c), c->resend.cause.code ? &c->resend.cause : cause);
}

void
hp_client_lost(hp_client *c, const hp_loss *loss)
{
    if (c->state == HP_CLIENT_GO)
        hp_resend_lost(&c->resend, usable_control(c), c->resend.loss.peer < 0 ? loss : &c->resend.loss);
}

void
hp_client_found(hp_client *c)
{
    c->resend.loss.peer = -1;
}

int
hp_client_is_away(const hp_client *c)
{
    return c->state == HP_CLIENT_GO && c->away != HERE;
}

void
hp_client_return(hp_client *c, uint64_t started, uint64_t completed)
{
    uint64_t now = hp_loop_now(c->loop);
    if (c->state != HP_CLIENT_GO || c->away != AWAY)
        return;
    c->options.started = started;
    c->options.completed = completed;
    c->away = RETURNING;
    if (started >= c->resend.unstarted.sequence)
        c->resend.unstarted.sequence = 0;
    hp_timer_set(c->giving_up, c->away_until > now ? c->away_until - now : 0);
    dial_server(c);
}

void
hp_client_refuse(hp_client *c, uint32_t split, const hoop_error *cause)
{
    if (c->state == HP_CLIENT_GO)
        hp_resend_refuse(&c->resend, usable_control(c), split, cause);
}

int
hp_client_name(hp_client *c, int number, const char *name)
{
    int takes = c->state == HP_CLIENT_GO && (!number || (c->features & HP_FEATURE_CALL_NAMES));
    if (takes)
        hp_resend_name(&c->resend, usable_control(c), number, name);
    return takes;
}

int
hp_client_verdict(const hp_client *c, hoop_error *error)
{
    if (!c->verdict.code)
        return 0;
    *error = c->verdict;
    return 1;
}

void
hp_client_leave(hp_client *c, uint64_t completed)
{
    if (c->state < HP_CLIENT_ROSTER || c->state > HP_CLIENT_GO || c->ring.size == 0)
        return;
    hp_dial_free(c->dial); /* a client that is away leaves without a frame */
    c->dial = NULL;
    c->away = HERE;
    send_count(c, HP_LEAVE, completed);
    if (c->control)
        hp_control_conn_shut(c->control);
    c->state = HP_CLIENT_LEFT;
}

void
hp_client_free(hp_client *c)
{
    if (!c)
        return;
    if (c->control && (c->state == HP_CLIENT_LEFT || hp_control_conn_queued(c->control)))
        hp_control_conn_finish(c->control, FLUSH_MS * HP_MS);
    hp_control_conn_free(c->control);
    hp_dial_free(c->dial);
    hp_timer_free(c->redial);
    hp_timer_free(c->giving_up);
    hp_keys_drop(c->keys);
    free(c->agree);
    free(c->ring.order);
    free(c->ring.members);
    free(c);
}
