/* SPDX-License-Identifier: MIT */
/*
 * roster: see roster.h. A rank reports an operation only if it takes long, so no report is the normal state. A rank
 * is blamed only for what others wait for, or when its connection breaks.
 */
#include "rendezvous/roster.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/wire.h"
#include "rendezvous/ring_order.h"
#include "rendezvous/unreachable.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PING_MS = 1000, FORGET_MS = 1000 };

static void
log_text(const hp_roster *r, const char *what)
{
    char line[400];
    snprintf(line, sizeof(line), "%s: %s", r->label, what);
    r->events->log(r->events->arg, line);
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
    r->ready = hp_alloc(n / 64 + 1, sizeof(uint64_t));
    int opened = hp_link_loss_open(&r->losses, count);
    return opened && r->ring.order && r->ring.members && r->peers && r->witnesses && r->ready;
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
    r->ring.comm = comm;
    r->ring.rank = -1;
    r->op_timeout = m->op_timeout;
    r->warn_after = m->warn_after;
    r->heartbeat = hp_heartbeat(m->op_timeout);
    r->opened = m->opened;
    r->deadline = m->deadline;
    r->present = count;
    r->moved = r->pinged = now;
    hp_err_clear(&r->cause);
    int fits = allocate(r, count);
    for (int i = 0; fits && i < count; i++) {
        r->ring.members[i] = joined[i].member;
        r->peers[i] = joined[i].peer;
    }
    if (!fits || !hp_ring_arrange(&r->ring)) {
        hp_roster_free(r);
        return NULL;
    }
    for (int i = 0; i < count; i++)
        r->events->assign(r->events->arg, r->peers[i], r, i);
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

/* Sets the verdict, sends it to every rank except the one that reported it, and logs it. */
static void
fail(hp_roster *r, const hoop_error *cause, int except)
{
    uint8_t payload[HP_ABORT_BYTES];
    char line[300];
    if (r->state >= HP_ROSTER_FAILED)
        return;
    r->cause = *cause;
    r->cause.phase = r->state == HP_ROSTER_LINKING ? HOOP_PHASE_BRINGUP
                     : cause->phase                ? cause->phase
                                                   : HOOP_PHASE_OPERATION;
    r->state = HP_ROSTER_FAILED;
    send_all(r, except, HP_ABORT, payload, hp_abort_put(payload, &r->cause));
    snprintf(line, sizeof(line), "failed: %s", r->cause.text);
    log_text(r, line);
    r->events->failed(r->events->arg, &r->cause);
}

void
hp_roster_fail(hp_roster *r, const hoop_error *cause)
{
    fail(r, cause, -1);
}

static void
ring_is_up(hp_roster *r, uint64_t now)
{
    char line[128];
    int hosts = hp_ring_hosts(&r->ring);
    r->state = HP_ROSTER_RUNNING;
    r->moved = now;
    send_all(r, -1, HP_GO, NULL, 0);
    snprintf(line, sizeof(line), "%d rank%s on %d host%s joined, ring up after %.2f s", r->ring.size,
             r->ring.size == 1 ? "" : "s", hosts, hosts == 1 ? "" : "s", (double)(now - r->opened) / 1e9);
    log_text(r, line);
}

static void
left_early(hp_roster *r, int rank, int waiter, uint64_t sequence)
{
    unsigned long long completed = r->witnesses[rank].completed, operation = sequence;
    hoop_error error;
    hp_err_set(&error, HOOP_ERR_PEER_LOST,
               "rank %d (%s) left the communicator after %llu operation%s while rank %d (%s) waits in operation %llu",
               rank, r->ring.members[rank].host, completed, completed == 1 ? "" : "s", waiter,
               r->ring.members[waiter].host, operation);
    error.rank = rank;
    error.sequence = operation;
    fail(r, &error, -1);
}

/* A rank has left after fewer operations than the one in which another rank waits: that rank would wait for ever. */
static void
check_leavers(hp_roster *r)
{
    int least = -1, waiter = -1;
    for (int i = 0; i < r->ring.size; i++) {
        const hp_witness *w = &r->witnesses[i];
        if (w->left && (least < 0 || w->completed < r->witnesses[least].completed))
            least = i;
        if (w->in_op && (waiter < 0 || w->report.sequence > r->witnesses[waiter].report.sequence))
            waiter = i;
    }
    if (r->losses.first >= 0) /* a rank that leaves now may have failed because of what its neighbour reports */
        return;
    if (least < 0 || waiter < 0 || r->witnesses[waiter].report.sequence <= r->witnesses[least].completed)
        return;
    left_early(r, least, waiter, r->witnesses[waiter].report.sequence);
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
    w->last_seen = now;
    if (r->left_n)
        check_leavers(r);
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

/* The operation in which a vanished rank was; if it had not reported one, the oldest of the others'; 0: none. */
static uint64_t
operation_of(const hp_roster *r, int rank)
{
    uint64_t oldest = 0;
    if (r->witnesses[rank].in_op)
        return r->witnesses[rank].report.sequence;
    if (r->losses.first >= 0 && r->losses.loss[r->losses.first].sequence)
        return r->losses.loss[r->losses.first].sequence;
    for (int i = 0; i < r->ring.size; i++)
        if (r->witnesses[i].in_op && (!oldest || r->witnesses[i].report.sequence < oldest))
            oldest = r->witnesses[i].report.sequence;
    return oldest;
}

/* A rank is gone without LEAVE. */
static void
vanished(hp_roster *r, int rank, const char *why)
{
    const hp_member *who = &r->ring.members[rank];
    hp_witness *w = &r->witnesses[rank];
    char during[48] = "";
    hoop_error error;
    if (r->state >= HP_ROSTER_FAILED || (r->state == HP_ROSTER_RUNNING && w->left))
        return;
    uint64_t operation = operation_of(r, rank);
    r->in_op_n -= w->in_op;
    w->in_op = 0;
    if (operation)
        snprintf(during, sizeof(during), " during operation %llu", (unsigned long long)operation);
    hp_err_set(&error, HOOP_ERR_PEER_LOST, "rank %d (%s, pid %u) vanished%s: %s", rank, who->host, who->pid,
               r->state == HP_ROSTER_LINKING ? " during bring-up" : during,
               why ? why : "its process ended or its connection broke");
    error.rank = rank;
    error.sequence = operation;
    fail(r, &error, rank);
}

/* Weighs the reported link losses and the ranks that are away; sets a verdict if it is time for one. */
static void
weigh(hp_roster *r, int hasty, uint64_t now)
{
    hoop_error error;
    if (r->state != HP_ROSTER_RUNNING)
        return;
    hp_link_loss_cause cause = hp_link_loss_judge(&r->losses, r->witnesses, hasty, now);
    if (cause.finding == HP_LINK_LOSS_GONE) {
        vanished(r, cause.rank, NULL);
    } else if (cause.finding == HP_LINK_LOSS_LEFT) {
        left_early(r, cause.rank, cause.other, cause.sequence);
    } else if (cause.finding == HP_LINK_LOSS_LINK) {
        hp_link_loss_error(&cause, r->ring.members, r->losses.first, &error);
        fail(r, &error, -1);
    }
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
    r->left_n++;
    if (r->state == HP_ROSTER_LINKING)
        vanished(r, rank, "it left");
    else if (r->state == HP_ROSTER_RUNNING)
        check_leavers(r);
    if (r->left_n == r->ring.size)
        weigh(r, 1, now);
    if (r->state != HP_ROSTER_RUNNING || r->left_n < r->ring.size)
        return;
    char line[128];
    uint64_t most = 0;
    for (int i = 0; i < r->ring.size; i++)
        if (r->witnesses[i].completed > most)
            most = r->witnesses[i].completed;
    r->state = HP_ROSTER_OVER;
    snprintf(line, sizeof(line), "over: %s%d rank%s left after %llu operation%s", r->ring.size == 1 ? "its " : "all ",
             r->ring.size, r->ring.size == 1 ? "" : "s", (unsigned long long)most, most == 1 ? "" : "s");
    log_text(r, line);
}

static int
is_ready(const hp_roster *r, int rank)
{
    return (int)(r->ready[rank / 64] >> (rank % 64) & 1);
}

static void
ready(hp_roster *r, int rank, uint64_t now)
{
    if (r->state != HP_ROSTER_LINKING || is_ready(r, rank))
        return;
    r->ready[rank / 64] |= UINT64_C(1) << (rank % 64);
    if (++r->ready_n == r->ring.size)
        ring_is_up(r, now);
}

static int
malformed(hoop_error *error)
{
    hp_err_set(error, HOOP_ERR_PROTOCOL, "it sent a malformed message");
    return -1;
}

static int
aborted(hp_roster *r, int rank, const uint8_t *payload, size_t n, hoop_error *error)
{
    hoop_error cause;
    if (!hp_abort_get(&cause, payload, n) || cause.code == HOOP_SUCCESS || cause.rank < -1 ||
        cause.rank >= r->ring.size)
        return malformed(error);
    cause.reporter = rank;
    fail(r, &cause, rank);
    return 0;
}

/* The rank has refused a call. A later IN_OP means that it has started an operation after all. */
static int
unstarted(hp_roster *r, int rank, const uint8_t *payload, size_t n, hoop_error *error)
{
    hp_unstarted refused;
    if (!hp_unstarted_get(&refused, payload, n))
        return malformed(error);
    if (r->state == HP_ROSTER_RUNNING && !r->witnesses[rank].left)
        hp_refused_calls_note(&r->refused_calls, r->ring.size, rank, &refused);
    return 0;
}

static void
fail_refused(hp_roster *r, int rank)
{
    hoop_error error;
    hp_refused_calls_print(&r->refused_calls, &r->ring.members[rank], &error);
    fail(r, &error, -1);
}

static int
lost(hp_roster *r, int rank, const uint8_t *payload, size_t n, uint64_t now, hoop_error *error)
{
    hp_loss loss;
    if (!hp_loss_get(&loss, payload, n) || loss.peer >= r->ring.size || loss.peer == rank)
        return malformed(error);
    if (r->state != HP_ROSTER_RUNNING || r->witnesses[rank].left)
        return 0;
    hp_link_loss_lost(&r->losses, rank, &loss, now);
    weigh(r, 0, now);
    return 0;
}

int
hp_roster_message(hp_roster *r, int rank, int type, const uint8_t *payload, size_t n, uint64_t now, hoop_error *error)
{
    hp_report received;
    r->witnesses[rank].last_seen = now;
    switch (type) {
    case HP_READY: ready(r, rank, now); return 0;
    case HP_IN_OP:
    case HP_PROGRESS:
        if (!hp_report_get(&received, payload, n) || received.waits_for >= r->ring.size)
            return malformed(error);
        if (r->state == HP_ROSTER_RUNNING && !r->witnesses[rank].left) {
            report(r, rank, &received, now);
            hp_refused_calls_withdraw(&r->refused_calls, rank, type == HP_IN_OP ? UINT64_MAX : received.sequence);
        }
        return 0;
    case HP_UNSTARTED: return unstarted(r, rank, payload, n, error);
    case HP_OUT: out(r, rank, hp_get64(payload), 0, now); return 0;
    case HP_LEAVE: leave(r, rank, hp_get64(payload), now); return 0;
    case HP_ABORT: return aborted(r, rank, payload, n, error);
    case HP_LOST: return lost(r, rank, payload, n, now, error);
    default: return malformed(error);
    }
}

void
hp_roster_lost(hp_roster *r, int rank, const char *why)
{
    r->present -= r->peers[rank] ? 1 : 0;
    r->peers[rank] = NULL;
    vanished(r, rank, why);
}

void
hp_roster_broke(hp_roster *r, int rank, uint64_t now)
{
    int ended = r->state == HP_ROSTER_LINKING || r->state == HP_ROSTER_OVER || r->witnesses[rank].left;
    if (ended) {
        hp_roster_lost(r, rank, NULL);
        return;
    }
    r->present -= r->peers[rank] ? 1 : 0;
    r->peers[rank] = NULL;
    hp_link_loss_away(&r->losses, rank, now);
    weigh(r, 0, now);
}

void
hp_roster_ended(hp_roster *r, int rank)
{
    if (r->state == HP_ROSTER_RUNNING && r->losses.away[rank])
        vanished(r, rank, NULL);
}

int
hp_roster_knows(const hp_roster *r, const hp_join *join)
{
    int rank = join->member.rank;
    if (r->ring.comm != join->ring || r->ring.size != join->size || rank < 0 || rank >= r->ring.size ||
        r->ring.epoch != join->epoch || hp_ring_digest(&r->ring) != join->digest || r->witnesses[rank].left)
        return 0;
    const hp_member *m = &r->ring.members[rank];
    return m->pid == join->member.pid && m->host_id == join->member.host_id && (r->peers[rank] || r->losses.away[rank]);
}

void
hp_roster_return(hp_roster *r, void *peer, const hp_join *join, uint64_t now)
{
    uint8_t payload[HP_ABORT_BYTES];
    int rank = join->member.rank;
    hp_link_loss_back(&r->losses, rank);
    r->present += r->peers[rank] ? 0 : 1;
    r->peers[rank] = peer;
    if (r->state != HP_ROSTER_FAILED) {
        out(r, rank, join->completed, 1, now);
        r->events->send(r->events->arg, peer, HP_GO, NULL, 0);
        return;
    }
    r->events->send(r->events->arg, peer, HP_ABORT, payload, hp_abort_put(payload, &r->cause));
}

int
hp_roster_needed(const hp_roster *r, uint64_t now)
{
    return r->present > 0 || (r->state == HP_ROSTER_FAILED && r->losses.away_n && (!r->forget || now < r->forget)) ||
           (r->state == HP_ROSTER_RUNNING && hp_link_loss_returning(&r->losses, now));
}

static void
links_missing(hp_roster *r)
{
    hoop_error error;
    char ranks[96];
    int late = r->ring.size - r->ready_n;
    hp_err_set(
        &error, HOOP_ERR_RENDEZVOUS,
        "all %d ranks joined, but the links of %d of them are not up (rank %s); can the hosts reach each other, or "
        "does a firewall close their ports?",
        r->ring.size, late, hp_rank_list(r->ready, r->ring.size, 0, ranks, sizeof(ranks)));
    for (int i = 0; late == 1 && i < r->ring.size; i++)
        if (!is_ready(r, i))
            error.rank = i;
    fail(r, &error, -1);
}

/* The rank to which "waits for" leads from those that wait. */
static hp_blame
blame_of(const hp_roster *r, uint64_t stalled, char *out, size_t size)
{
    hp_blame blame = hp_blame_find(r->witnesses, r->ring.size, HP_SILENT_HEARTBEATS * r->heartbeat);
    hp_blame_print(&blame, r->witnesses, r->ring.members, stalled, out, size);
    return blame;
}

const char *
hp_roster_late(const hp_roster *r, uint64_t stalled, char *out, size_t size)
{
    blame_of(r, stalled, out, size);
    return out;
}

/* If the blamed rank is silent, the text names all silent ranks; else it stays. */
static void
name_silent_ranks(const hp_roster *r, hp_blame *blame, uint64_t now, char *text, size_t size)
{
    uint8_t *silent =
        hp_unreachable_mark(r->witnesses, r->peers, r->events, r->ring.size, blame->sequence, r->heartbeat);
    if (silent && blame->rank >= 0 && silent[blame->rank]) {
        hp_unreachable s = hp_unreachable_find(r->witnesses, r->ring.members, silent, r->ring.size);
        hp_unreachable_print(&s, r->ring.members, silent, r->ring.size, blame->sequence, now - r->moved, now, text,
                             size);
        blame->rank = s.first;
    }
    free(silent);
}

/*
 * Ranks that have not entered the operation get one PING for each stall, which shows whether their hosts take bytes.
 * They need not answer.
 */
static void
ping_absent_ranks(hp_roster *r, uint64_t now)
{
    if (!r->op_timeout || now - r->moved < r->op_timeout / 2 || r->asked == r->moved)
        return;
    r->asked = r->moved;
    for (int i = 0; i < r->ring.size; i++)
        if (!r->witnesses[i].in_op && !r->witnesses[i].left && r->peers[i])
            r->events->send(r->events->arg, r->peers[i], HP_PING, NULL, 0);
}

static void
stalled(hp_roster *r, uint64_t now)
{
    hoop_error error;
    char text[256];
    hp_blame blame = blame_of(r, now - r->moved, text, sizeof(text));
    name_silent_ranks(r, &blame, now, text, sizeof(text));
    hp_err_set(&error, HOOP_ERR_TIMEOUT, "%s", text);
    error.rank = blame.rank;
    error.sequence = blame.sequence;
    fail(r, &error, -1);
}

int
hp_roster_timed(const hp_roster *r)
{
    return r->state == HP_ROSTER_LINKING || (r->state == HP_ROSTER_FAILED && r->present == 0) ||
           (r->state == HP_ROSTER_RUNNING && (r->in_op_n > 0 || hp_link_loss_waits(&r->losses)));
}

void
hp_roster_tick(hp_roster *r, uint64_t now)
{
    if (r->state == HP_ROSTER_LINKING && now >= r->deadline)
        links_missing(r);
    weigh(r, 0, now);
    if (r->state == HP_ROSTER_FAILED && r->present == 0 && !r->forget)
        r->forget = now + FORGET_MS * HP_MS;
    if (r->state != HP_ROSTER_RUNNING || r->in_op_n == 0)
        return;
    int refused = hp_refused_calls_due(&r->refused_calls, r->witnesses, r->ring.size, now);
    if (refused >= 0) {
        fail_refused(r, refused);
        return;
    }
    if (r->op_timeout && now - r->moved >= r->op_timeout) {
        stalled(r, now);
        return;
    }
    ping_absent_ranks(r, now);
    if (now - r->pinged < PING_MS * HP_MS)
        return;
    r->pinged = now;
    for (int i = 0; i < r->ring.size; i++)
        if (r->witnesses[i].in_op && r->peers[i])
            r->events->send(r->events->arg, r->peers[i], HP_PING, NULL, 0);
}

const hp_member *
hp_roster_holder(const hp_roster *r, int rank)
{
    int sound = r->state == HP_ROSTER_LINKING || r->state == HP_ROSTER_RUNNING;
    int here = sound && rank < r->ring.size && (r->peers[rank] || r->losses.away[rank]);
    return here && !r->witnesses[rank].left ? &r->ring.members[rank] : NULL;
}
