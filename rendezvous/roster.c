/* SPDX-License-Identifier: MIT */
/* roster: see roster.h. A rank reports an operation only if it takes long, so no report is the normal state. */
#include "rendezvous/roster.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/say.h"
#include "base/wire.h"
#include "rendezvous/departure.h"
#include "rendezvous/join_group.h"
#include "rendezvous/link_loss.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TELL_MS = 100, SILENT_MS = 2000 };

static void
log_text(const hp_roster *r, const char *what)
{
    char line[480];
    snprintf(line, sizeof(line), "%s: %s", hp_say_title(r->label, r->name).text, what);
    hp_events_say(r->events, HP_NOTICE_EVENT, line);
}

static int
allocate(hp_roster *r, int count)
{
    size_t n = (size_t)count;
    r->ring.size = count;
    r->ring.order = hp_alloc(n, sizeof(int));
    r->ring.members = hp_alloc(n, sizeof(hp_member));
    r->peers = hp_alloc(n, sizeof(void *));
    r->witnesses = hp_alloc(n, sizeof(hp_witness));
    r->ready = hp_rank_set_new(r->ring.size);
    return hp_link_loss_open(&r->losses, count, r->peer_timeout) && r->ring.order && r->ring.members && r->peers &&
           r->witnesses && r->ready;
}

hp_roster *
hp_roster_new(const hp_join_group *m, const char *label, const hp_joined *joined, int count, uint64_t comm,
              uint64_t now)
{
    hp_roster *r = hp_alloc(1, sizeof(*r));
    if (!r)
        return NULL;
    r->events = m->events;
    snprintf(r->label, sizeof(r->label), "%s", label);
    r->world = m->parent == 0;
    r->shrunk_from = m->shrink ? m->parent : 0;
    r->ring = (hp_ring){.comm = comm, .epoch = m->epoch, .rank = -1, .least = m->least, .most = m->most};
    r->op_timeout = m->op_timeout;
    r->warn_after = m->warn_after;
    r->peer_timeout = m->peer_timeout;
    r->heartbeat = hp_heartbeat(m->op_timeout);
    r->opened = m->opened;
    r->deadline = m->shrink ? now + (m->deadline - m->opened) : m->deadline; /* its ranks have as long again */
    r->moved = r->pings.waiting = now;
    hp_err_clear(&r->cause);
    int fits = allocate(r, count);
    for (int i = 0; fits && i < count; i++) {
        r->ring.members[i] = joined[i].member;
        r->peers[i] = joined[i].peer;
        r->witnesses[i] = (hp_witness){.number = joined[i].number, .silence = joined[i].silence};
        r->present += joined[i].peer ? 1 : 0;
        if (!joined[i].peer)
            hp_link_loss_away(&r->losses, i, joined[i].alive ? joined[i].alive : joined[i].away);
    }
    if (!fits || !hp_ring_arrange(&r->ring)) {
        hp_roster_free(r);
        return NULL;
    }
    for (int i = 0; i < count; i++)
        if (r->peers[i])
            hp_events_assign(r->events, r->peers[i], r, i);
    return r;
}

void
hp_roster_free(hp_roster *r)
{
    if (!r)
        return;
    free(r->ring.order);
    free(r->ring.members);
    free(r->peers);
    free(r->witnesses);
    free(r->histories);
    free(r->call_names);
    hp_refused_calls_free(&r->refused_calls, r->ring.size);
    free(r->ready);
    hp_link_loss_close(&r->losses);
    free(r);
}

int
hp_roster_where(const hp_roster *r, int rank)
{
    if (r->witnesses[rank].left || r->state >= HP_ROSTER_FAILED)
        return HP_AT_END;
    return r->state == HP_ROSTER_RUNNING ? HP_AT_RUNNING : HP_AT_LINKING;
}

static void
send_all(const hp_roster *r, int except, int type, const void *payload, size_t n)
{
    for (int i = 0; i < r->ring.size; i++)
        if (i != except && r->peers[i])
            r->events->send(r->events->arg, r->peers[i], type, payload, n);
}

/* Sets the verdict, sends it to every rank except the one that reported it, and logs it. One that was put off is older. */
static void
fail(hp_roster *r, const hoop_error *cause, int except)
{
    uint8_t payload[HP_ABORT_BYTES];
    const char *split = hp_say_split(r->label);
    char line[300];
    hoop_error first;
    if (r->state >= HP_ROSTER_FAILED)
        return;
    if (hp_disagreement_is_open(&r->disagreement)) {
        hp_disagreement_error(&r->disagreement, r->witnesses, r->ring.members, r->ring.size, &first);
        cause = &first;
        except = -1;
    }
    r->cause = *cause;
    r->cause.phase = r->state == HP_ROSTER_LINKING ? HOOP_PHASE_BRINGUP
                     : cause->phase                ? cause->phase
                                                   : HOOP_PHASE_OPERATION;
    r->state = HP_ROSTER_FAILED;
    r->losses.gone = -1;
    send_all(r, except, HP_ABORT, payload, hp_abort_put(payload, &r->cause));
    snprintf(line, sizeof(line), "failed: %s", r->cause.text);
    log_text(r, line);
    int known = r->cause.rank >= 0 && r->cause.rank < r->ring.size;
    hp_events_failed(r->events, split ? hp_say_title(split, r->name).text : NULL, &r->cause,
                     known ? r->ring.members[r->cause.rank].pid : 0);
}

void
hp_roster_fail(hp_roster *r, const hoop_error *cause)
{
    fail(r, cause, -1);
}

void
hp_roster_begin(hp_roster *r, uint64_t now)
{
    char line[400];
    int hosts = hp_ring_hosts(&r->ring);
    r->state = HP_ROSTER_RUNNING;
    r->moved = now;
    send_all(r, -1, HP_GO, NULL, 0);
    snprintf(line, sizeof(line), "%s on %s joined, ring up after %.2f s",
             hp_say_count((uint64_t)r->ring.size, "rank").text, hp_say_count((uint64_t)hosts, "host").text,
             (double)(now - r->opened) / 1e9);
    log_text(r, line);
}

static hp_ring_view
view_of(const hp_roster *r)
{
    return (hp_ring_view){r->witnesses, r->ring.members, r->peers, r->ring.size, r->moved, r->events};
}

static void
left_early(hp_roster *r, int rank, int waiter, uint64_t sequence)
{
    hp_ring_view view = view_of(r);
    hoop_error error;
    hp_departure_left(&view, rank, waiter, sequence, &error);
    fail(r, &error, -1);
}

/* A rank has left before an operation in which another one waits, perhaps because of an end that is told a moment later. */
static void
check_leavers(hp_roster *r, uint64_t now)
{
    int least = -1, waiter = -1;
    for (int i = 0; r->left_n && i < r->ring.size; i++) {
        const hp_witness *w = &r->witnesses[i], *first = least < 0 ? w : &r->witnesses[least];
        if (w->left && (least < 0 || w->completed < first->completed ||
                        (w->completed == first->completed && w->last_seen < first->last_seen)))
            least = i;
        if (w->in_op && (waiter < 0 || w->report.sequence > r->witnesses[waiter].report.sequence))
            waiter = i;
    }
    if (least < 0 || waiter < 0 || r->witnesses[waiter].report.sequence <= r->witnesses[least].completed ||
        now - r->witnesses[least].last_seen < TELL_MS * HP_MS || r->losses.gone >= 0 ||
        hp_link_loss_has_final(&r->losses) || hp_link_loss_doubts(&r->losses, r->witnesses, now))
        return;
    left_early(r, least, waiter, r->witnesses[waiter].report.sequence);
}

/* The verdict on calls that differ, once the ranks have told them. */
static void
judge_calls(hp_roster *r, uint64_t now)
{
    if (hp_disagreement_is_due(&r->disagreement, r->witnesses, r->ring.size, now))
        fail(r, &r->disagreement.cause, -1);
}

static void
report(hp_roster *r, int rank, const hp_report *received, uint64_t now)
{
    hp_witness *w = &r->witnesses[rank];
    const hp_report *before = &w->report;
    if (received->sequence > before->sequence || received->step > before->step || received->bytes > before->bytes)
        r->moved = now;
    r->in_op_n += !w->in_op;
    w->in_op = 1;
    w->report = *received;
    hp_ring_names_fill(r->call_names, rank, received->call_name, &w->report.call);
    w->last_seen = now;
    judge_calls(r, now);
}

/*
 * The rank is in no operation, as far as is known. A rank that was only reconnected counts as progress if it has
 * completed operations meanwhile.
 */
static void
out(hp_roster *r, int rank, uint64_t completed, int returns, uint64_t now)
{
    hp_witness *w = &r->witnesses[rank];
    int moves = !returns || (completed > w->completed && completed >= w->report.sequence);
    r->in_op_n -= w->in_op;
    w->in_op = 0;
    w->last_seen = now;
    if (completed > w->completed)
        w->completed = completed;
    hp_refused_calls_withdraw(&r->refused_calls, rank, completed);
    r->moved = moves ? now : r->moved;
}

/* A rank is gone without LEAVE. cut: it may be alive, but its host is cut off. */
static void
lose(hp_roster *r, int rank, int cut, const char *why)
{
    hp_ring_view view = view_of(r);
    hp_witness *w = &r->witnesses[rank];
    hoop_error error;
    if (r->state >= HP_ROSTER_FAILED || (r->state == HP_ROSTER_RUNNING && w->left))
        return;
    uint64_t operation = hp_departure_operation(&view, rank, hp_link_loss_oldest(&r->losses));
    if (cut)
        hp_departure_cut_off(&view, rank, operation, r->state == HP_ROSTER_LINKING, &error);
    else
        hp_departure_vanished(&view, rank, operation, r->state == HP_ROSTER_LINKING, why, &error);
    r->in_op_n -= w->in_op;
    w->in_op = 0;
    fail(r, &error, rank);
}

void
hp_roster_cut_off(hp_roster *r, int rank, uint64_t silence, uint64_t now)
{
    r->witnesses[rank].silence = silence;
    if (r->state < HP_ROSTER_FAILED && !r->witnesses[rank].left)
        hp_link_loss_cut(&r->losses, rank, now);
    lose(r, rank, 1, NULL);
}

/* The verdict on a rank that is gone, unless it is put off. */
static void
settle(hp_roster *r, uint64_t now)
{
    int rank = hp_link_loss_named(&r->losses, r->witnesses, now);
    if (rank >= 0)
        lose(r, rank, 0, NULL);
}

/*
 * A rank's connection has ended. If no rank has told in which operation it is, one that is in any tells it now, since
 * its link has ended too.
 */
static void
ended(hp_roster *r, int rank, uint64_t now)
{
    hp_ring_view view = view_of(r);
    int another = r->losses.gone >= 0;
    if (r->state < HP_ROSTER_FAILED && !r->witnesses[rank].left)
        hp_link_loss_ended(&r->losses, rank, now);
    if (another || r->state != HP_ROSTER_RUNNING || r->present == 0 ||
        hp_departure_operation(&view, rank, hp_link_loss_oldest(&r->losses)))
        settle(r, now);
}

/* Weighs the reported link losses and the ranks that are away; sets a verdict if it is time for one. */
static void
weigh(hp_roster *r, int hasty, uint64_t now)
{
    hoop_error error;
    if (r->state != HP_ROSTER_RUNNING || hp_link_loss_is_deaf(&r->losses, r->witnesses, now))
        return;
    hp_link_loss_cause cause = hp_link_loss_judge(&r->losses, r->witnesses, hasty, now);
    if (cause.finding == HP_LINK_LOSS_GONE) {
        lose(r, cause.rank, 0, NULL);
    } else if (cause.finding == HP_LINK_LOSS_CUT) {
        hp_roster_cut_off(r, cause.rank, r->witnesses[cause.rank].silence, now);
    } else if (r->losses.gone < 0 && cause.finding == HP_LINK_LOSS_LEFT) { /* else because of that rank */
        if (hasty || !hp_link_loss_doubts(&r->losses, r->witnesses, now))
            left_early(r, cause.rank, cause.other, cause.sequence);
    } else if (r->losses.gone < 0 && cause.finding == HP_LINK_LOSS_LINK) {
        hp_link_loss_error(&cause, r->ring.members, r->losses.first, &error);
        fail(r, &error, -1);
    }
}

/* There is no later: a verdict that was put off is due, and ranks that are not linked yet never will be. */
void
hp_roster_close(hp_roster *r, const hoop_error *cause, uint64_t now)
{
    settle(r, HP_NEVER);
    check_leavers(r, HP_NEVER);
    weigh(r, 1, now);
    if (r->state == HP_ROSTER_LINKING || hp_disagreement_is_open(&r->disagreement))
        fail(r, cause, -1);
}

void
hp_roster_over(hp_roster *r)
{
    hp_ring_view view = view_of(r);
    char line[320];
    if (r->state != HP_ROSTER_RUNNING)
        return;
    r->state = HP_ROSTER_OVER;
    hp_departure_over(&view, line, sizeof(line));
    log_text(r, line);
}

static void
leave(hp_roster *r, int rank, uint64_t completed, uint64_t now)
{
    hp_witness *w = &r->witnesses[rank];
    if (w->left)
        return;
    out(r, rank, completed, 0, now);
    w->left = 1;
    hp_refused_calls_withdraw(&r->refused_calls, rank, UINT64_MAX);
    hp_link_loss_left(&r->losses, rank);
    r->left_n++;
    if (r->state == HP_ROSTER_LINKING && r->losses.gone < 0)
        lose(r, rank, 0, "it left");
    if (r->left_n == r->ring.size)
        weigh(r, 1, now);
    if (r->left_n == r->ring.size)
        hp_roster_over(r);
}

static void
ready(hp_roster *r, int rank, uint64_t now)
{
    if (r->state != HP_ROSTER_LINKING || hp_rank_set_has(r->ready, rank))
        return;
    hp_rank_set_add(r->ready, rank);
    if (++r->ready_n == r->ring.size)
        hp_roster_begin(r, now);
}

static int
malformed(hoop_error *error)
{
    hp_err_set(error, HOOP_ERR_PROTOCOL, "it sent a malformed message");
    return -1;
}

static int
aborted(hp_roster *r, int rank, const hp_control_frame *frame, uint64_t now, hoop_error *error)
{
    hoop_error cause;
    if (!hp_abort_get(&cause, frame->payload, frame->n) || cause.code == HOOP_SUCCESS || cause.rank < -1 ||
        cause.rank >= r->ring.size)
        return malformed(error);
    cause.reporter = rank;
    if (r->losses.gone >= 0)
        return 0; /* its verdict comes, and this is a consequence */
    if (cause.code == HOOP_ERR_PEER_LOST && r->witnesses[rank].silence >= SILENT_MS * HP_MS)
        hp_roster_cut_off(r, rank, r->witnesses[rank].silence, now); /* it hears nobody, so it can blame nobody */
    else if (r->state == HP_ROSTER_RUNNING && hp_disagreement_note(&r->disagreement, &cause, now))
        judge_calls(r, now);
    else if (cause.code == HOOP_ERR_TIMEOUT && (cause.flags & HOOP_ERROR_BEST_EFFORT))
        r->asked = cause;
    else
        fail(r, &cause, rank);
    return 0;
}

/* The rank has refused a call. A later IN_OP means that it has started an operation after all. */
static int
unstarted(hp_roster *r, int rank, const hp_control_frame *frame, hoop_error *error)
{
    hp_unstarted refused;
    if (!hp_unstarted_get(&refused, frame->payload, frame->n))
        return malformed(error);
    hp_ring_names_fill(r->call_names, rank, refused.call_name, &refused.call);
    if (r->state == HP_ROSTER_RUNNING && !r->witnesses[rank].left)
        hp_refused_calls_note(&r->refused_calls, r->ring.size, rank, &refused);
    return 0;
}

static int
lost(hp_roster *r, int rank, const hp_control_frame *frame, uint64_t now, hoop_error *error)
{
    hp_loss loss;
    if (!hp_loss_get(&loss, frame->payload, frame->n) || loss.peer >= r->ring.size || loss.peer == rank)
        return malformed(error);
    if (r->state != HP_ROSTER_RUNNING || r->witnesses[rank].left)
        return 0;
    hp_link_loss_lost(&r->losses, rank, &loss, now);
    weigh(r, 0, now);
    return 0;
}

static int
take(hp_roster *r, int rank, const hp_control_frame *frame, uint64_t now, hoop_error *error)
{
    hp_report received;
    switch (frame->type) {
    case HP_READY: ready(r, rank, now); return 0;
    case HP_IN_OP:
    case HP_PROGRESS:
        if (!hp_report_get(&received, frame->payload, frame->n) || received.awaited.rank >= r->ring.size)
            return malformed(error);
        if (r->state == HP_ROSTER_RUNNING && !r->witnesses[rank].left) {
            report(r, rank, &received, now);
            hp_refused_calls_withdraw(&r->refused_calls, rank,
                                      frame->type == HP_IN_OP ? UINT64_MAX : received.sequence);
        }
        return 0;
    case HP_UNSTARTED: return unstarted(r, rank, frame, error);
    case HP_OUT: out(r, rank, hp_get64(frame->payload), 0, now); return 0;
    case HP_NAME: return hp_name_get(r->name, frame->payload, frame->n) ? 0 : malformed(error);
    case HP_LEAVE: leave(r, rank, hp_get64(frame->payload), now); return 0;
    case HP_ABORT: return aborted(r, rank, frame, now, error);
    case HP_LOST: return lost(r, rank, frame, now, error);
    case HP_FOUND: /* the connection was made again: what this rank has reported is no loss */
        if (r->losses.loss[rank].peer == (int)hp_get32(frame->payload))
            hp_link_loss_found(&r->losses, rank);
        return 0;
    default: return malformed(error);
    }
}

/* Before anything that may be taken for the cause, the rank that is gone is named. */
int
hp_roster_message(hp_roster *r, int rank, const hp_control_frame *frame, uint64_t now, hoop_error *error)
{
    r->witnesses[rank].last_seen = r->witnesses[rank].heard = now;
    if (frame->type == HP_ABORT || frame->type == HP_LEAVE)
        settle(r, now);
    int result = take(r, rank, frame, now, error);
    if (frame->type != HP_OUT)
        settle(r, now);
    return result;
}

void
hp_roster_lost(hp_roster *r, int rank, const char *why, uint64_t now)
{
    r->present -= r->peers[rank] ? 1 : 0;
    r->peers[rank] = NULL;
    if (why)
        lose(r, rank, 0, why);
    else
        ended(r, rank, now);
}

void
hp_roster_broke(hp_roster *r, int rank, uint64_t now)
{
    if (r->state == HP_ROSTER_OVER || r->witnesses[rank].left) {
        hp_roster_lost(r, rank, NULL, now);
        return;
    }
    r->present -= r->peers[rank] ? 1 : 0;
    r->peers[rank] = NULL;
    if (r->ring.members[rank].proxied) { /* its OUT may be lost, and no probe shows that it lives */
        r->in_op_n -= r->witnesses[rank].in_op;
        r->witnesses[rank].in_op = 0;
    }
    hp_link_loss_away(&r->losses, rank, now);
    weigh(r, 0, now);
}

void
hp_roster_ended(hp_roster *r, int rank, uint64_t now)
{
    if (!r->losses.away[rank] && !r->witnesses[rank].silence) {
        hp_link_loss_doubt(&r->losses, rank, now); /* its connection will end, too */
        return;
    }
    if (r->state < HP_ROSTER_FAILED && !r->witnesses[rank].left)
        hp_link_loss_ended(&r->losses, rank, now);
    settle(r, now);
    if (r->losses.gone < 0)
        hp_link_loss_back(&r->losses, rank);
}

void
hp_roster_alive(hp_roster *r, int rank, uint64_t now)
{
    hp_witness *w = &r->witnesses[rank];
    hp_link_loss_alive(&r->losses, rank, now);
    w->silence = r->losses.away[rank] ? 0 : w->silence; /* of one that is connected a look at its connection tells */
    int idles = w->in_op && hp_link_loss_is_idle(&r->losses, rank, now);
    w->in_op -= idles;
    r->in_op_n -= idles;
}

void
hp_roster_back(hp_roster *r, int rank, uint64_t completed, uint64_t now)
{
    out(r, rank, completed, 1, now);
}

/* Whether a rank that is away may live and compute for long, behind a proxy, where no probe shows it: 10 minutes without limit. */
static int
may_compute(const hp_roster *r, uint64_t here, uint64_t now)
{
    int behind = 0;
    for (int i = 0; r->losses.away_n && i < r->ring.size; i++)
        behind |= r->losses.away[i] && r->ring.members[i].proxied;
    return behind && r->state == HP_ROSTER_RUNNING && now - here < (r->op_timeout ? r->op_timeout : 600 * HP_SEC);
}

int
hp_roster_needed(const hp_roster *r, uint64_t here, uint64_t now)
{
    int ended = r->state == HP_ROSTER_OVER || r->losses.away_n == 0;
    return r->present > 0 || r->state == HP_ROSTER_LINKING || r->losses.gone >= 0 || may_compute(r, here, now) ||
           (!ended && hp_link_loss_returning(&r->losses, r->witnesses, now));
}

/*
 * A wait with a limit of its own ends the operation, even one that progresses. It is judged a moment after its report,
 * when the other ranks that are in the operation have reported that too.
 */
static int
is_overdue(hp_roster *r, uint64_t now)
{
    int rank = hp_limit_overdue(r->witnesses, r->ring.size);
    if (rank < 0 || !r->overdue_at)
        r->overdue_at = rank < 0 ? 0 : now;
    return rank >= 0 && now - r->overdue_at >= r->heartbeat;
}

int
hp_roster_timed(const hp_roster *r)
{
    return r->state == HP_ROSTER_LINKING || (r->state == HP_ROSTER_FAILED && r->present == 0) ||
           (r->state == HP_ROSTER_RUNNING &&
            (r->in_op_n > 0 || r->losses.gone >= 0 || hp_disagreement_is_open(&r->disagreement) ||
             hp_link_loss_waits(&r->losses)));
}

int
hp_roster_tick(hp_roster *r, uint64_t now)
{
    hoop_error error;
    int linking = r->state == HP_ROSTER_LINKING;
    int gone = linking ? hp_link_loss_stayed_away(&r->losses, r->witnesses, now) : -1;
    if (gone >= 0) {
        lose(r, gone, 0, NULL);
    } else if (linking && now >= r->deadline) {
        hp_departure_unlinked(r->ready, r->ring.size, r->ready_n, &error);
        fail(r, &error, -1);
    }
    judge_calls(r, now);
    if (r->losses.gone >= 0 && now - r->losses.gone_at >= TELL_MS * HP_MS)
        settle(r, now);
    check_leavers(r, now);
    weigh(r, 0, now);
    if (r->state != HP_ROSTER_RUNNING || r->in_op_n == 0 || r->losses.gone >= 0)
        return 0;
    int refused = hp_refused_calls_due(&r->refused_calls, r->witnesses, r->ring.size, now);
    if (refused >= 0) {
        hp_refused_calls_print(&r->refused_calls, &r->ring.members[refused], &error);
        fail(r, &error, -1);
        return 0;
    }
    uint64_t limit = hp_limit_shortest(r->witnesses, r->ring.size, r->op_timeout);
    hp_ring_view view = view_of(r);
    if (now - r->moved >= limit || is_overdue(r, now))
        return 1;
    hp_pings_send(&r->pings, &view, limit, now);
    return 0;
}

const hp_member *
hp_roster_holder(const hp_roster *r, int rank)
{
    int sound = r->state == HP_ROSTER_LINKING || r->state == HP_ROSTER_RUNNING;
    int here = sound && r->present && rank < r->ring.size && (r->peers[rank] || r->losses.away[rank]);
    return here && !r->witnesses[rank].left ? &r->ring.members[rank] : NULL;
}
