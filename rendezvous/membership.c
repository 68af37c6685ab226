/* SPDX-License-Identifier: MIT */
/*
 * membership: see membership.h. A rank sends JOIN, collects the roster and awaits GO; from then on it sends small reports
 * and may receive a verdict. The loss of the server is fatal only before GO: during the join the rank dials again, after
 * GO the ring goes on without a server. If the control connection was reset after GO, or a proxy may have closed it, the
 * server may still be there: the rank is away, dials, and sends JOIN again.
 */
#include "rendezvous/membership.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/wire.h"
#include "net/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    GRACE_MS = 300, /* the server's own time-out, which names the missing ranks, ends first */
    REDIAL_MS = 50,
    REDIAL_MOST_MS = 1000,
    SERVER_QUIET_MS = 2000, /* during an operation the server sends PING every second */
    LOST_MS = 1000,         /* from one dial to a lost server to the next */
    TELL_QUEUE = 16 << 10,  /* the next part of a roster is sent below this */
    LOOK_MS = 1000,         /* at the silence of the server's host */
    QUIET_MS = 3000         /* without a PING: they come each second */
};

void
hp_membership_open(hp_membership *m, const hp_client_options *options, const hp_outlet *outlet, uint64_t now)
{
    *m = (hp_membership){.options = *options, .outlet = *outlet, .dial_at = now, .look_at = now};
    m->met = options->parent != 0;
    m->comes_back = options->comes_back;
    m->options.number = (uint32_t)now | 1;
    hp_err_clear(&m->error);
    hp_err_clear(&m->verdict);
    hp_resend_clear(&m->resend);
    m->bringup = options->deadline > now ? options->deadline - now : 0;
    m->give_up_at = now + m->bringup + GRACE_MS * HP_MS;
}

void
hp_membership_close(hp_membership *m)
{
    free(m->ring.order);
    free(m->ring.members);
}

static void
fail(hp_membership *m, const hoop_error *error)
{
    if (m->state >= HP_CLIENT_GO)
        return;
    m->error = *error;
    m->error.phase = HOOP_PHASE_BRINGUP;
    m->state = HP_CLIENT_FAILED;
    m->dial_at = m->give_up_at = HP_NEVER;
}

int
hp_membership_is_lost(const hp_membership *m)
{
    return m->state == HP_CLIENT_GONE && m->comes_back && !m->given_up;
}

static void
look_again(hp_membership *m, uint64_t now)
{
    m->dial_at = hp_membership_is_lost(m) && !m->verdict.code ? now + LOST_MS * HP_MS : HP_NEVER;
}

static void
gone(hp_membership *m, uint64_t now)
{
    m->away = HP_HERE;
    m->state = HP_CLIENT_GONE;
    m->in_op = m->owes_out = 0;
    m->give_up_at = HP_NEVER;
    look_again(m, now);
    hp_log(HP_LOG_INFO, "the rendezvous server is gone; the ring continues without it%s",
           m->comes_back ? " until it is back" : "");
}

/* --- frames to the server --- */

const hp_outlet *
hp_membership_outlet(const hp_membership *m)
{
    int usable = m->line == HP_LINE_UP && !m->away && m->ring.size && m->state != HP_CLIENT_GONE;
    return usable ? &m->outlet : NULL;
}

int
hp_membership_send(const hp_membership *m, hp_frame_type type, const void *payload, size_t n)
{
    return m->line == HP_LINE_UP && m->outlet.send(m->outlet.arg, type, payload, n);
}

/* --- frames from the server --- */

static int
take_part(hp_membership *m, const hp_control_frame *frame, hoop_error *error)
{
    int whole = hp_registration_part(&m->options, &m->ring, &m->parts_to, frame->payload, frame->n, error);
    if (whole > 0)
        m->state = HP_CLIENT_ROSTER;
    return whole < 0 ? -1 : 0;
}

static int
take_cause(hp_membership *m, const hp_control_frame *frame, hoop_error *error)
{
    hoop_error cause;
    if (!hp_abort_get(&cause, frame->payload, frame->n) || cause.code == HOOP_SUCCESS) {
        hp_err_set(error, HOOP_ERR_PROTOCOL, "the rendezvous server sent a malformed error");
        return -1;
    }
    hp_abort_confine(&cause, m->state == HP_CLIENT_JOINING ? (int)hp_registration_hello(&m->options, NULL).world
                                                           : m->ring.size);
    if (!m->verdict.code)
        m->verdict = cause;
    fail(m, &cause);
    return 0;
}

static int
where(const hp_membership *m)
{
    switch (m->state) {
    case HP_CLIENT_JOINING: return HP_JOINING;
    case HP_CLIENT_ROSTER:
    case HP_CLIENT_READY: return HP_AT_LINKING;
    case HP_CLIENT_GO: return m->away ? HP_AT_LINKING : HP_AT_RUNNING;
    default: return HP_AT_END;
    }
}

/* The server's answer to a member that has connected again. */
static int
take_answer(hp_membership *m, const hp_control_frame *frame, uint64_t now, hoop_error *error)
{
    if (frame->type == HP_PING)
        return 0;
    if (frame->type == HP_REFUSED) {
        m->given_up = 1;
        gone(m, now);
        return -1;
    }
    m->away = HP_HERE;
    m->state = HP_CLIENT_GO;
    if (frame->type == HP_ABORT)
        return take_cause(m, frame, error);
    hp_log(HP_LOG_INFO, "connected to the rendezvous server again");
    hp_resend_all(&m->resend, &m->outlet);
    return 0;
}

void
hp_membership_tell(hp_membership *m)
{
    uint8_t payload[HP_CONTROL_MAX];
    while (m->told && m->outlet.queued(m->outlet.arg) <= TELL_QUEUE) {
        int next;
        size_t n = hp_part_put(payload, m->told, m->told->rank, m->told_to, &next);
        if (!hp_membership_send(m, HP_ROSTER, payload, n))
            return; /* when there is room */
        m->told_to = next;
        m->told = next < m->told->size ? m->told : NULL;
    }
}

static void
send_statement(hp_membership *m, const hp_ring *ring, uint64_t now)
{
    const hp_client_options *o = &m->options;
    uint8_t payload[HP_RECALL_BYTES];
    hp_statement s = {.origin = ring == &m->ring ? hp_registration_origin(o, ring) : o->parent_origin,
                      .epoch = ring->epoch,
                      .standing = m->state == HP_CLIENT_ROSTER  ? HP_STANDS_ASSIGNED
                                  : m->state == HP_CLIENT_READY ? HP_STANDS_LINKED
                                                                : HP_STANDS_RUNNING,
                      .placed = ring == &m->ring ? m->placed : o->parent_placed};
    if (m->state < HP_CLIENT_GO && o->deadline > now)
        s.patience = (uint32_t)((o->deadline - now) / HP_MS);
    hp_statement_put(payload, &s);
    hp_membership_send(m, HP_RECALL, payload, sizeof(payload));
}

void
hp_membership_placed(hp_membership *m, uint32_t split)
{
    m->placed = split;
    if ((m->features & HP_FEATURE_RECALL) && hp_membership_outlet(m))
        send_statement(m, &m->ring, 0);
}

/* The server was started again, and asks for the ring that this rank has named: its own, or the one that it splits. */
static int
recall(hp_membership *m, int with_roster, uint64_t now, hoop_error *error)
{
    const hp_ring *ring = m->state == HP_CLIENT_JOINING ? m->options.parent_ring : &m->ring;
    if (!ring || !ring->size) {
        hp_err_set(error, HOOP_ERR_PROTOCOL, "the rendezvous server asks for a ring that this rank has not named");
        return -1;
    }
    send_statement(m, ring, now);
    m->told = with_roster ? ring : NULL;
    m->told_to = 0;
    hp_membership_tell(m);
    return 0;
}

int
hp_membership_frame(hp_membership *m, const hp_control_frame *frame, uint64_t now, hoop_error *error)
{
    m->last_seen = now;
    if (m->state == HP_CLIENT_LEFT)
        return 0;
    if (!hp_message_fits(frame->type, 1, where(m), frame->n)) {
        hp_err_set(error, HOOP_ERR_PROTOCOL, "the rendezvous server sent an unexpected message of type %d",
                   frame->type);
        return -1;
    }
    m->pinged |= frame->type == HP_PING && m->state == HP_CLIENT_JOINING;
    if (frame->type == HP_RECALL)
        return recall(m, frame->payload[0] != 0, now, error);
    if (m->away || m->state == HP_CLIENT_GONE)
        return take_answer(m, frame, now, error);
    if (frame->type == HP_ROSTER)
        return take_part(m, frame, error);
    if (frame->type == HP_ABORT || frame->type == HP_REFUSED)
        return take_cause(m, frame, error);
    if (frame->type == HP_GO && m->state == HP_CLIENT_READY) {
        m->state = HP_CLIENT_GO;
        m->give_up_at = HP_NEVER;
    }
    return 0;
}

/* --- the connection --- */

static void
redial_later(hp_membership *m, uint64_t now)
{
    uint64_t pause = (uint64_t)REDIAL_MS << (m->attempts < 5 ? m->attempts : 5);
    m->attempts++;
    m->parts_to = 0;
    m->dial_at = now + (pause < REDIAL_MOST_MS ? pause : REDIAL_MOST_MS) * HP_MS;
}

/* The server waits for this member. After GO the owner says when to dial. */
static void
go_away(hp_membership *m, const hoop_error *why, uint64_t now)
{
    hp_log(HP_LOG_INFO, "%s; connecting again",
           why->code ? why->text : "the control connection was closed, perhaps by a proxy or the server's end");
    m->away = m->state == HP_CLIENT_GO ? HP_AWAY : HP_RETURNING;
    m->in_op = m->owes_out = 0; /* JOIN has the number of operations completed */
    if (m->away == HP_RETURNING)
        m->dial_at = now;
}

/*
 * Whether the server waits for this member: the connection was reset, or closed where a proxy may have done that. After
 * LEAVE the server closes it.
 */
static int
is_awaited(const hp_membership *m, const hoop_error *why)
{
    return m->state > HP_CLIENT_JOINING &&
           (why->code == HOOP_ERR_SYSTEM || (!why->code && m->options.proxied && m->state != HP_CLIENT_LEFT) ||
            (!why->code && m->comes_back && m->state < HP_CLIENT_GO));
}

void
hp_membership_closed(hp_membership *m, const hoop_error *why, uint64_t now)
{
    char server[HP_ADDR_TEXT];
    hoop_error error;
    m->line = HP_LINE_NONE;
    m->told = NULL;
    m->pinged = 0;
    if (m->state == HP_CLIENT_GONE)
        look_again(m, now);
    if (m->state > HP_CLIENT_LEFT || (m->state > HP_CLIENT_JOINING && !m->ring.size))
        return; /* it has failed; or it takes no part in a split, and the server has closed */
    if (is_awaited(m, why))
        go_away(m, why, now);
    else if (m->state == HP_CLIENT_GO)
        gone(m, now);
    else if (m->state == HP_CLIENT_LEFT)
        return; /* the server has read LEAVE */
    else if (why->code && why->code != HOOP_ERR_SYSTEM)
        fail(m, why);
    else if (m->state == HP_CLIENT_JOINING)
        redial_later(m, now);
    else {
        hp_err_set(&error, HOOP_ERR_RENDEZVOUS,
                   "the rendezvous server at %s closed the connection while the ring was being linked; was it stopped?",
                   hp_addr_print(&m->options.server, server));
        fail(m, &error);
    }
}

/* A member that was connected before. */
static int
is_member(const hp_membership *m)
{
    return m->away || m->state == HP_CLIENT_GONE;
}

static int
is_linked(const hp_membership *m)
{
    return m->state == HP_CLIENT_GO || m->state == HP_CLIENT_GONE;
}

static int
send_join(hp_membership *m, uint64_t now)
{
    uint8_t payload[HP_CONTROL_MAX];
    hp_join join =
        is_member(m) ? hp_registration_again(&m->options, &m->ring) : hp_registration_first(&m->options, now);
    join.agree = m->options.agree;
    join.agree_n = strlen(m->options.agree);
    size_t n = hp_join_put(payload, &join);
    return n && m->outlet.send(m->outlet.arg, join.shrink ? HP_SHRINK : join.grow ? HP_GROW : HP_JOIN, payload, n);
}

/*
 * The server is that of another start of this job. An older one ends sooner or later, and leaves its port to the right
 * one; if it is newer, this rank is left over.
 */
static void
meet_other_attempt(hp_membership *m, uint32_t attempt, uint64_t now)
{
    int older = attempt < m->options.attempt;
    hoop_error error;
    hp_registration_other_attempt(&m->options, attempt, &error);
    if (!older) {
        fail(m, &error);
        return;
    }
    if (!m->error.code)
        hp_log(HP_LOG_WARN, "%s; this rank waits for that", error.text);
    m->error = error;
    redial_later(m, now);
}

int
hp_membership_count(const hp_membership *m, hp_frame_type type, uint64_t completed)
{
    uint8_t payload[HP_COUNT_BYTES];
    hp_put64(payload, completed);
    return hp_membership_send(m, type, payload, sizeof(payload));
}

/* The connection is up. A member that waits for GO, or has left, need not await an answer. */
static void
enter(hp_membership *m, uint64_t now)
{
    hoop_error error;
    m->line = HP_LINE_UP;
    m->met = 1;
    hp_err_clear(&m->error);
    if (!send_join(m, now)) {
        m->line = HP_LINE_NONE;
        if (m->state == HP_CLIENT_GO || m->state == HP_CLIENT_GONE)
            gone(m, now);
        hp_err_set(&error, HOOP_ERR_NO_MEMORY, "out of memory or descriptors for the control connection");
        fail(m, &error);
        return;
    }
    if (is_linked(m) && (m->features & HP_FEATURE_RECALL)) { /* it may have been started again, and link the ring yet */
        hp_membership_send(m, HP_READY, NULL, 0);
        send_statement(m, &m->ring, now);
    }
    if (is_linked(m))
        return;
    m->give_up_at = m->options.grow && !m->options.parent ? HP_NEVER : m->give_up_at; /* the others grow when they do */
    m->away = HP_HERE;
    if (m->state == HP_CLIENT_READY && (m->features & HP_FEATURE_COMEBACK))
        hp_membership_send(m, HP_READY, NULL, 0);
    if (m->state == HP_CLIENT_LEFT)
        hp_membership_count(m, HP_LEAVE, m->options.completed);
}

/*
 * The server gives no answer, which says nothing about its end: it may be stopped, or its network may be down. Where
 * nobody listens any more, its program has ended.
 */
static int
is_silent(const hp_dial_result *result)
{
    return result->error.code == HOOP_ERR_RENDEZVOUS && !result->status && result->error.sys_errno != ECONNREFUSED;
}

/* A member has dialled in vain. What refuses or closes at a proxy's address says nothing of the server behind it. */
static void
stay_away(hp_membership *m, const hp_dial_result *result, uint64_t now)
{
    if (m->state == HP_CLIENT_GO && (is_silent(result) || (m->options.proxied && !result->status)))
        m->away = HP_AWAY;
    else if (m->state == HP_CLIENT_GO)
        gone(m, now);
    else if (is_silent(result) || (m->comes_back && !result->status && m->state < HP_CLIENT_GO))
        m->dial_at = now + (is_silent(result) ? 0 : REDIAL_MS * HP_MS);
    else if (m->state == HP_CLIENT_LEFT)
        m->away = HP_HERE; /* it leaves without a word */
    else
        fail(m, &result->error);
}

hp_hello
hp_membership_dial(hp_membership *m, uint64_t now, uint64_t *deadline)
{
    m->dial_at = HP_NEVER;
    m->line = HP_LINE_DIALLING;
    int waits = m->give_up_at == HP_NEVER; /* a newcomer that was in, perhaps for hours */
    *deadline = is_member(m) ? now + HP_RETURN_MS * HP_MS : waits ? now + m->bringup : m->options.deadline;
    return hp_registration_hello(&m->options, is_member(m) ? &m->ring : NULL);
}

void
hp_membership_dialled(hp_membership *m, const hp_dial_result *result, uint64_t now)
{
    m->features = result->features;
    m->line = HP_LINE_NONE;
    if (result->fd >= 0) {
        if (m->state == HP_CLIENT_JOINING)
            m->comes_back = (result->features & HP_FEATURE_RECALL) != 0;
        enter(m, now);
    } else if (m->state == HP_CLIENT_GONE) {
        m->given_up |= result->status == HP_BAD_EPOCH; /* that of another start of the job has its place */
        look_again(m, now);
    } else if (m->away) {
        stay_away(m, result, now);
    } else if (result->status == HP_DUPLICATE && m->attempts > 0) {
        redial_later(m, now); /* most likely this rank itself: its first connection broke, unnoticed by the server */
    } else if (result->status == HP_DUPLICATE) {
        hoop_error error;
        hp_registration_duplicate(&m->options, &error);
        fail(m, &error);
    } else if (result->status == HP_BAD_EPOCH) {
        meet_other_attempt(m, result->epoch, now);
    } else {
        fail(m, &result->error);
    }
}

void
hp_membership_time(hp_membership *m, uint64_t now)
{
    int answered = m->line == HP_LINE_UP;
    hoop_error error = m->error; /* of an older attempt's server, or none */
    if (now < m->give_up_at)
        return;
    if (!m->late && now > m->give_up_at + GRACE_MS / 2 * HP_MS) { /* it was not run, so it has not read what came */
        m->late = 1;
        m->give_up_at = now + GRACE_MS * HP_MS;
        return;
    }
    m->give_up_at = HP_NEVER;
    m->line = HP_LINE_NONE;
    if (!error.code)
        hp_registration_too_late(&m->options, answered, &error);
    fail(m, &error);
}

void
hp_membership_silence(hp_membership *m, uint64_t since, uint64_t now)
{
    int waits = m->state < HP_CLIENT_GO;
    uint64_t heard = m->last_seen > m->answered ? m->last_seen : m->answered;
    if (m->pinged && m->state == HP_CLIENT_JOINING && now > heard + QUIET_MS * HP_MS && (!since || heard < since))
        since = heard;
    m->look_at = waits ? now + LOOK_MS * HP_MS : HP_NEVER;
    if (!since || !m->met || !waits)
        m->silent_since = 0;
    else if (!m->silent_since || since < m->silent_since)
        m->silent_since = since;
}

int
hp_membership_wants_probe(const hp_membership *m, uint64_t now)
{
    uint64_t set = m->options.sock.peer_timeout, away = set ? set : HP_PEER_TIMEOUT_MS * HP_MS;
    return m->state < HP_CLIENT_GO && m->silent_since && now >= m->silent_since + away + hp_tcp_silence_deference(away);
}

void
hp_membership_probed(hp_membership *m, int answered, uint64_t now)
{
    hoop_error error;
    if (!answered && hp_membership_wants_probe(m, now)) {
        hp_registration_cut_off(&m->options, now - m->silent_since, &error);
        m->line = HP_LINE_NONE;
        fail(m, &error);
    }
    m->silent_since = 0;
    m->answered = answered ? now : m->answered;
}

int
hp_membership_wants_dial(const hp_membership *m, uint64_t now)
{
    return m->line == HP_LINE_NONE && now >= m->dial_at;
}

uint64_t
hp_membership_next(const hp_membership *m)
{
    uint64_t next = m->look_at < m->give_up_at ? m->look_at : m->give_up_at;
    return m->line == HP_LINE_NONE && m->dial_at < next ? m->dial_at : next;
}

/* --- calls of the owner --- */

void
hp_membership_ready(hp_membership *m)
{
    if (m->state != HP_CLIENT_ROSTER)
        return;
    m->state = m->ring.size ? HP_CLIENT_READY : HP_CLIENT_GO;
    if (m->ring.size)
        hp_membership_send(m, HP_READY, NULL, 0);
}

int
hp_membership_has_server(const hp_membership *m, uint64_t now)
{
    /* the caller's `now` may be a moment older than the frame */
    return m->state != HP_CLIENT_GONE && !m->away && (!m->in_op || now <= m->last_seen + SERVER_QUIET_MS * HP_MS);
}

int
hp_membership_is_away(const hp_membership *m)
{
    return (m->state == HP_CLIENT_GO || m->state == HP_CLIENT_LEFT) && m->away != HP_HERE;
}

int
hp_membership_may_return(const hp_membership *m)
{
    return hp_membership_is_away(m) || hp_membership_is_lost(m);
}

int
hp_membership_is_leaving(const hp_membership *m)
{
    return m->state == HP_CLIENT_LEFT && (m->line != HP_LINE_NONE || m->away);
}

void
hp_membership_return(hp_membership *m, uint64_t started, uint64_t completed, uint64_t now)
{
    if (!hp_membership_is_lost(m) && (m->state != HP_CLIENT_GO || m->away != HP_AWAY))
        return;
    m->options.started = started;
    m->options.completed = completed;
    if (started >= m->resend.unstarted.sequence)
        m->resend.unstarted.sequence = 0;
    if (m->state == HP_CLIENT_GONE)
        return;
    m->away = HP_RETURNING;
    m->dial_at = now;
}

int
hp_membership_verdict(const hp_membership *m, hoop_error *error)
{
    if (m->verdict.code)
        *error = m->verdict;
    return m->verdict.code != HOOP_SUCCESS;
}

void
hp_membership_leave(hp_membership *m, uint64_t completed)
{
    if (m->state == HP_CLIENT_GONE && m->line != HP_LINE_UP) { /* it does not look for its server any more */
        m->given_up = 1;
        m->dial_at = HP_NEVER;
        return;
    }
    int joins = m->state == HP_CLIENT_GONE; /* its server is back, and has not answered yet */
    if (!joins && (m->state < HP_CLIENT_ROSTER || m->state > HP_CLIENT_GO || m->ring.size == 0))
        return;
    m->options.completed = completed;
    m->options.started = m->options.started > completed ? m->options.started : completed;
    m->state = HP_CLIENT_LEFT;
    /* a JOIN on its way is not answered first: a server that was started again may never do so. One that is away does not dial */
    m->away = m->line == HP_LINE_DIALLING ? m->away : HP_HERE;
    hp_membership_count(m, HP_LEAVE, completed);
    m->dial_at = m->line == HP_LINE_NONE ? HP_NEVER : m->dial_at;
    m->give_up_at = HP_NEVER;
}
