/* SPDX-License-Identifier: MIT */
/* recall: see recall.h. */
#include "rendezvous/recall.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/say.h"
#include "base/wire.h"
#include "net/tcp.h"
#include "rendezvous/admission.h"
#include "rendezvous/half_split.h"
#include "rendezvous/registration.h"
#include "rendezvous/shrink.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATIENCE_AT = 8, TELL_MS = 2000 }; /* the roster comes within that, or the next rank is asked for it */

struct hp_recall {
    hp_recall *next;
    uint64_t comm, digest;
    int size;
    hp_ring ring;              /* as the teller says */
    int parts_to;              /* its members [0, parts_to) are here */
    const hp_job_conn *teller; /* that was asked for the roster last, NULL: none, */
    uint64_t asked;            /* and when */
    hp_caller *callers;
    hp_join terms; /* of the first: its limits */
};

static void
ask(const hp_job *job, hp_recall *r, hp_job_conn *conn, uint64_t now)
{
    uint8_t with_roster = !r->teller && r->parts_to < r->size;
    if (with_roster) {
        r->teller = conn;
        r->asked = now;
    }
    job->owner->send(job->owner->arg, conn, HP_RECALL, &with_roster, 1);
}

static hp_recall *
find(hp_job *job, const hp_join *join)
{
    uint64_t comm = join->ring ? join->ring : join->parent;
    int size = join->ring ? join->size : join->parent_size;
    hp_recall *r = job->recalls;
    while (r && (r->comm != comm || r->digest != join->digest || r->size != size))
        r = r->next;
    if (r || !(r = hp_alloc(1, sizeof(*r))))
        return r;
    *r = (hp_recall){.next = job->recalls, .comm = comm, .digest = join->digest, .size = size, .terms = *join};
    job->recalls = r;
    return r;
}

int
hp_recall_keep(hp_job *job, hp_job_conn *conn, const hp_join *join, const hp_control_frame *frame, uint64_t now)
{
    uint64_t comm = join->ring ? join->ring : join->parent;
    if (!conn->recalls || !join->digest || !comm || hp_job_ring(job->rosters, comm))
        return 0;
    hp_caller *c = hp_alloc(1, sizeof(*c) + frame->n);
    hp_recall *r = c ? find(job, join) : NULL;
    if (!r) {
        free(c);
        return 0;
    }
    *c = (hp_caller){.next = r->callers, .conn = conn, .member = join->member, .frame = *frame};
    c->rank = join->ring ? join->member.rank : join->parent_rank;
    c->until = join->ring ? HP_NEVER : now + (uint64_t)join->patience * HP_MS;
    memcpy(c->bytes, frame->payload, frame->n);
    c->frame.payload = c->bytes;
    r->callers = c;
    conn->recall = r;
    conn->where = HP_RECALLED;
    ask(job, r, conn, now);
    return 1;
}

static hp_caller *
caller_of(const hp_job_conn *conn)
{
    hp_caller *c = conn->recall->callers;
    while (c->conn != conn)
        c = c->next;
    return c;
}

static void
clear_roster(hp_recall *r)
{
    free(r->ring.order);
    free(r->ring.members);
    r->ring = (hp_ring){.rank = -1};
    r->parts_to = 0;
}

/* The next part of the roster, from the rank that was asked for it. A rank that is asked once more starts again. */
static int
take_part(hp_recall *r, const hp_control_frame *frame, uint64_t now)
{
    hp_part part;
    if (!hp_part_get(&part, frame->payload, frame->n) || part.size != r->size || part.comm != r->comm)
        return 0;
    if (part.first > 0 && r->parts_to == 0) /* of an answer that was given up */
        return 1;
    if (part.first == 0)
        clear_roster(r);
    if (part.first != r->parts_to)
        return 0;
    if (!r->ring.members) {
        r->ring = (hp_ring){.comm = part.comm, .epoch = part.epoch, .rank = -1, .least = part.least, .most = part.most};
        r->ring.order = hp_alloc((size_t)part.size, sizeof(int));
        r->ring.members = hp_alloc((size_t)part.size, sizeof(hp_member));
        r->ring.size = part.size;
    }
    if (!r->ring.order || !r->ring.members || !hp_part_members(&part, r->ring.members, r->ring.order))
        return 0;
    r->parts_to += part.count;
    r->asked = now;
    if (r->parts_to < r->size || (hp_ring_close(&r->ring) && hp_ring_digest(&r->ring) == r->digest))
        return 1;
    r->parts_to = 0; /* it is none: take_out asks the next rank */
    return 0;
}

int
hp_recall_message(hp_job_conn *conn, const hp_control_frame *frame, uint64_t now, hoop_error *error)
{
    hp_recall *r = conn->recall;
    hp_caller *c = caller_of(conn);
    int right = 1;
    if (frame->type == HP_READY && c->statement.standing == HP_STANDS_ASSIGNED)
        c->statement.standing = HP_STANDS_LINKED;
    else if (frame->type == HP_RECALL)
        right = c->told = hp_statement_get(&c->statement, frame->payload, frame->n);
    else if (frame->type == HP_ROSTER)
        right = r->teller != conn || r->parts_to == r->size || take_part(r, frame, now); /* another one may tell */
    if (right)
        return 0;
    hp_err_set(error, HOOP_ERR_PROTOCOL, "it sent a malformed statement of its ring");
    return -1;
}

static void
drop(hp_job *job, hp_recall *r)
{
    hp_recall **at = &job->recalls;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    clear_roster(r);
    free(r);
}

/* If it was to tell the roster, and has not, the next one is asked. */
static hp_caller *
take_out(hp_job *job, hp_caller *c, uint64_t now)
{
    hp_recall *r = c->conn->recall;
    hp_caller **at = &r->callers;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    c->conn->recall = NULL;
    c->conn->where = HP_JOINING;
    if (r->teller == c->conn) {
        r->teller = NULL;
        if (r->parts_to < r->size)
            clear_roster(r);
        if (r->parts_to < r->size && r->callers)
            ask(job, r, r->callers->conn, now);
    }
    if (!r->callers)
        drop(job, r);
    return c;
}

void
hp_recall_forget(hp_job_conn *conn, uint64_t now)
{
    if (conn->recall)
        free(take_out(conn->job, caller_of(conn), now));
}

void
hp_recall_free(hp_job *job)
{
    for (hp_recall *r; (r = job->recalls); drop(job, r))
        for (hp_caller *c; (c = r->callers); free(c))
            r->callers = c->next; /* its connection may be gone */
}

/* --- a ring that is known again --- */

/*
 * Whether another rank waits for this one in an operation, a message or a split, or has lost its connection to it. That of a
 * split may be over for this one, which a rank that has the split's ring tells when it is back.
 */
static int
is_missed(const hp_job *job, const hp_roster *r, int rank, uint64_t now)
{
    int missed = 0;
    for (int i = 0; i < r->ring.size; i++) {
        const hp_witness *w = &r->witnesses[i];
        missed |= r->losses.loss[i].peer == rank || (w->in_op && w->report.awaited.rank == rank) ||
                  (w->waiting.call.kind && w->waiting.awaited.rank == rank);
    }
    for (const hp_join_group *m = job->join_groups; m && now - r->opened >= HP_RETURN_MS * HP_MS; m = m->next)
        missed |= m->parent == r->ring.comm && !m->shrink && m->joined_n > 0 && !hp_join_group_has(m, rank);
    return missed;
}

int
hp_recall_may_have_left(const hp_job *job, const hp_roster *r, int rank, uint64_t now)
{
    return r->recalled && r->state == HP_ROSTER_RUNNING && !r->witnesses[rank].heard && !r->losses.doubted[rank] &&
           !is_missed(job, r, rank, now);
}

int
hp_recall_is_awaited(const hp_job *job, const hp_member *who, uint64_t now)
{
    int awaited = 0;
    for (hp_roster *r = job->rosters; r; r = r->next) {
        int rank = hp_ring_rank_of(&r->ring, who);
        awaited |= rank >= 0 && hp_roster_holder(r, rank) && !hp_recall_may_have_left(job, r, rank, now);
    }
    return awaited;
}

/* Which of its ranks have told of it; NULL: out of memory. */
static uint64_t *
list_told(const hp_recall *r, int *count)
{
    uint64_t *told = hp_rank_set_new(r->size);
    *count = 0;
    for (const hp_caller *c = r->callers; told && c; c = c->next)
        if (c->told && !hp_rank_set_has(told, c->rank)) {
            hp_rank_set_add(told, c->rank);
            ++*count;
        }
    return told;
}

static const hp_statement *
any_statement(const hp_recall *r)
{
    const hp_caller *c = r->callers;
    while (c && !c->told)
        c = c->next;
    return c ? &c->statement : NULL;
}

/* A process that has come for whatever ring, joins one, or is a member of one that is known again. */
static int
is_here(const hp_job *job, const hp_member *member)
{
    for (const hp_recall *r = job->recalls; r; r = r->next)
        for (const hp_caller *c = r->callers; c; c = c->next)
            if (hp_member_same(&c->member, member))
                return 1;
    for (const hp_join_group *m = job->join_groups; m; m = m->next)
        for (int i = 0; i < m->joined_n; i++)
            if (hp_member_same(&m->joined[i].member, member))
                return 1;
    for (const hp_roster *roster = job->rosters; roster; roster = roster->next)
        for (int i = 0; i < roster->ring.size; i++)
            if (roster->peers[i] && hp_member_same(&roster->ring.members[i], member))
                return 1;
    return 0;
}

/* Ranks have told of a later epoch of the same ring: those that are here are there. */
static int
is_outdated(const hp_job *job, const hp_statement *s)
{
    for (const hp_recall *r = job->recalls; r; r = r->next)
        for (const hp_caller *c = r->callers; c; c = c->next)
            if (c->told && c->statement.origin.lineage == s->origin.lineage && c->statement.epoch > s->epoch)
                return 1;
    return 0;
}

/*
 * More than half have told of it, or are here for another ring: ranks wait in a split for those that have their ring, and
 * these for the ranks that join again.
 */
static int
is_majority(const hp_job *job, const hp_recall *r)
{
    const hp_statement *s = any_statement(r);
    int count;
    uint64_t *told = list_told(r, &count);
    int others = told && s && 2 * count <= r->size && (job->recalls->next || job->join_groups || job->rosters) &&
                 !is_outdated(job, s);
    for (int rank = 0; others && rank < r->size; rank++)
        count += !hp_rank_set_has(told, rank) && is_here(job, &r->ring.members[rank]);
    free(told);
    return 2 * count > r->size;
}

/* All members are away; those that have called come back next. */
static hp_roster *
make_roster(const hp_job *job, const hp_recall *r, const hp_statement *s, uint64_t now)
{
    char label[HP_LABEL_TEXT];
    hp_join_group group = {.events = job->owner,
                           .parent = s->origin.split || s->epoch ? s->origin.lineage : 0,
                           .epoch = r->ring.epoch,
                           .least = r->ring.least,
                           .most = r->ring.most,
                           .op_timeout = r->terms.op_timeout,
                           .warn_after = r->terms.warn_after,
                           .peer_timeout = r->terms.peer_timeout ? r->terms.peer_timeout : HP_PEER_TIMEOUT_MS * HP_MS,
                           .opened = now,
                           .deadline = HP_NEVER};
    hp_joined *joined = hp_alloc((size_t)r->size, sizeof(*joined));
    if (!joined)
        return NULL;
    for (int i = 0; i < r->size; i++) {
        joined[i] = (hp_joined){.away = now, .member = r->ring.members[i]};
        joined[i].member.proxied = r->terms.member.proxied; /* as a rule all are */
    }
    size_t used = (size_t)snprintf(label, sizeof(label), "%.31s", job->label);
    if (s->origin.split)
        used += (size_t)snprintf(label + used, sizeof(label) - used, " split %u colour %d", s->origin.split,
                                 s->origin.color);
    if (r->ring.epoch && used < sizeof(label))
        snprintf(label + used, sizeof(label) - used, " epoch %u", r->ring.epoch);
    hp_roster *roster = hp_roster_new(&group, label, joined, r->size, r->comm, now);
    free(joined);
    return roster;
}

/* One that GO has reached runs, and then all have their links. */
static void
place(hp_roster *roster, const hp_recall *r)
{
    for (const hp_caller *c = r->callers; c; c = c->next)
        if (c->told)
            hp_half_split_over(roster, c->rank, c->statement.placed);
    for (const hp_caller *c = r->callers; c; c = c->next) {
        if (!c->told || roster->state == HP_ROSTER_RUNNING)
            continue;
        uint64_t until = roster->opened + (uint64_t)c->statement.patience * HP_MS;
        if (c->statement.standing == HP_STANDS_RUNNING)
            roster->state = HP_ROSTER_RUNNING;
        else if (c->statement.patience && until < roster->deadline)
            roster->deadline = until;
    }
}

/* Another ring has failed because of one of its ranks, which may have ended: a probe tells. */
static void
doubt(hp_roster *roster, const hp_roster *failed, uint64_t now)
{
    const hoop_error *cause = &failed->cause;
    int named = failed->state == HP_ROSTER_FAILED && cause->code == HOOP_ERR_PEER_LOST && cause->rank >= 0 &&
                !failed->witnesses[cause->rank].left;
    int rank = named ? hp_ring_rank_of(&roster->ring, &failed->ring.members[cause->rank]) : -1;
    if (rank >= 0 && !roster->ring.members[rank].proxied) /* else no probe tells */
        hp_link_loss_doubt(&roster->losses, rank, now);
}

/* Ranks that join the group of a ring that was made before, and whose roster has not arrived, get their places there. */
static void
fetch(const hp_job *job, hp_join_group *m, hp_roster *roster, uint64_t now)
{
    hp_roster *parent = hp_job_ring(job->rosters, m->parent);
    for (int i = m->joined_n - 1; i >= 0; i--) {
        hp_join join = hp_join_group_joined(m, i);
        hp_job_conn *conn = m->joined[i].peer;
        int rank = hp_comeback_find(roster, &join);
        if (rank < 0)
            continue;
        if (parent && conn)
            hp_half_split_over(parent, m->joined[i].member.rank, m->split);
        hp_join_group_withdraw(m, i);
        if (!conn) /* it is away: it gets its place when it is back, and has not gone on until then */
            continue;
        conn->join_group = NULL;
        conn->roster = roster;
        conn->rank = rank;
        hp_comeback_take(roster, rank, conn, &join, now);
    }
}

static void
make_known(hp_job *job, hp_recall *r, uint64_t now)
{
    const hp_statement *s = any_statement(r);
    hp_roster *roster = make_roster(job, r, s, now);
    char line[200];
    hoop_error stale;
    if (!roster)
        return;
    if (hp_ring_digest(&roster->ring) != r->digest) { /* another release orders rings in another way */
        hp_roster_free(roster);
        return;
    }
    roster->origin = s->origin;
    roster->recalled = 1;
    place(roster, r);
    hp_shrink_stale(roster->ring.epoch, &stale);
    for (hp_roster *old = job->rosters; old; old = old->next) {
        doubt(roster, old, now);
        if (old->origin.lineage == s->origin.lineage && old->ring.epoch < roster->ring.epoch)
            hp_roster_fail(old, &stale);
    }
    roster->next = job->rosters;
    job->rosters = roster;
    snprintf(line, sizeof(line), "%s: known again, by its ranks: the server was started again", roster->label);
    hp_events_say(job->owner, HP_NOTICE_EVENT, line);
    for (hp_join_group *m = job->join_groups; m; m = m->next)
        fetch(job, m, roster, now);
}

/* The ring here that has gone on without the ranks of this one; NULL: none has. */
static const hp_roster *
successor(const hp_job *job, const hp_recall *r)
{
    const hp_statement *s = any_statement(r);
    const hp_roster *roster = s ? job->rosters : NULL;
    while (roster && !(roster->origin.lineage == s->origin.lineage && roster->ring.epoch > s->epoch &&
                       roster->state < HP_ROSTER_FAILED))
        roster = roster->next;
    return roster;
}

/* One that awaits its parent, and has a place in a ring that was made of it. */
static hp_caller *
find_placed(const hp_job *job, const hp_recall *r)
{
    for (hp_caller *c = r->callers; c; c = c->next) {
        hp_join join;
        int first = c->until != HP_NEVER && hp_join_get(&join, c->bytes, c->frame.n);
        join.shrink = c->frame.type == HP_SHRINK;
        join.grow = c->frame.type == HP_GROW;
        for (const hp_roster *roster = job->rosters; first && roster; roster = roster->next)
            if (roster->recalled && hp_comeback_find(roster, &join) >= 0)
                return c;
    }
    return NULL;
}

hp_caller *
hp_recall_next(hp_job *job, uint64_t now)
{
    for (hp_recall *r = job->recalls; r; r = r->next) {
        if (r->parts_to == r->size && !successor(job, r) && !hp_job_ring(job->rosters, r->comm) && is_majority(job, r))
            make_known(job, r, now);
        hp_caller *c = hp_job_ring(job->rosters, r->comm) ? r->callers : find_placed(job, r);
        if (!c)
            continue;
        take_out(job, c, now);
        if (c->until != HP_NEVER) /* it waits no longer than it has said */
            hp_put32(c->bytes + PATIENCE_AT, (uint32_t)(c->until > now ? (c->until - now) / HP_MS : 0));
        return c;
    }
    return NULL;
}

/* --- those that are not known in time --- */

static void
refuse(hp_job *job, const hp_caller *c, uint64_t now, const hoop_error *error)
{
    uint8_t payload[HP_ABORT_BYTES];
    hp_job_conn *conn = c->conn;
    int type = c->until == HP_NEVER ? HP_ABORT : HP_REFUSED;
    job->owner->send(job->owner->arg, conn, type, payload, hp_abort_put(payload, error));
    hp_recall_forget(conn, now);
    hp_events_disconnect(job->owner, conn);
}

static void
set_unknown(const hp_recall *r, const hp_caller *c, hoop_error *error)
{
    int count;
    uint64_t *told = list_told(r, &count);
    hp_err_set(
        error, HOOP_ERR_RENDEZVOUS,
        "the rendezvous server was started again, and of the %d ranks of the communicator that rank %d %s, %s %s not "
        "come back to it; it needs more than half of them",
        r->size, c->rank,
        c->frame.type == HP_SHRINK ? "shrinks"
        : c->frame.type == HP_GROW ? "grows"
                                   : "splits",
        told ? hp_say_ranks(told, r->size, 0).text : "too many", r->size - count == 1 ? "has" : "have");
    for (int i = 0; told && r->size - count == 1 && i < r->size; i++)
        if (!hp_rank_set_has(told, i))
            error->rank = i;
    free(told);
    error->phase = HOOP_PHASE_BRINGUP;
}

/* Answers one; 0: none is to be answered. */
static int
answer(hp_job *job, hp_recall *r, uint64_t now)
{
    const hp_roster *ring = successor(job, r);
    hoop_error error;
    for (const hp_caller *c = r->callers; c; c = c->next) {
        if (!ring && now < c->until)
            continue;
        if (ring)
            hp_shrink_stale(ring->ring.epoch, &error);
        else
            set_unknown(r, c, &error);
        refuse(job, c, now, &error);
        return 1;
    }
    return 0;
}

static int
awaits_roster(const hp_recall *r)
{
    return r->teller && r->parts_to < r->size;
}

/* A rank that is stopped must not keep the others waiting: one that has answered is asked. */
static void
ask_another(const hp_job *job, hp_recall *r, uint64_t now)
{
    hp_caller *c = r->callers;
    while (c && (!c->told || c->conn == r->teller))
        c = c->next;
    if (!c || !awaits_roster(r) || now < r->asked + TELL_MS * HP_MS)
        return;
    clear_roster(r);
    r->teller = NULL;
    ask(job, r, c->conn, now);
}

void
hp_recall_check(hp_job *job, uint64_t now)
{
    for (hp_recall *r = job->recalls; r; r = r->next)
        ask_another(job, r, now);
    for (hp_recall *r = job->recalls; r;)
        r = answer(job, r, now) ? job->recalls : r->next; /* that may have freed any of them */
    hp_half_split_begin(job, now);
}

int
hp_recall_timed(const hp_job *job)
{
    for (const hp_recall *r = job->recalls; r; r = r->next) {
        if (awaits_roster(r))
            return 1;
        for (const hp_caller *c = r->callers; c; c = c->next)
            if (c->until != HP_NEVER)
                return 1;
    }
    return 0;
}
