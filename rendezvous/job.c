/* SPDX-License-Identifier: MIT */
/*
 * job: see job.h. It gives each JOIN to its join group, turns complete groups into rings, hands every later frame to its
 * ring, and frees what nobody needs. Connections belong to the owner, join groups and rosters to the job.
 */
#include "rendezvous/job.h"

#include "base/err.h"
#include "base/mem.h"
#include "rendezvous/admission.h"
#include "rendezvous/grow.h"
#include "rendezvous/half_split.h"
#include "rendezvous/hold_up.h"
#include "rendezvous/job_watch.h"
#include "rendezvous/note.h"
#include "rendezvous/recall.h"
#include "rendezvous/shrink.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOIN_GROUPS_MAX = 1024 }; /* join groups of one job at a time, including those that failed and are remembered */

hp_job *
hp_job_new(const hp_events *owner, const uint8_t job_id[HP_JOB_ID_BYTES], const char *name, uint64_t comm_seed)
{
    hp_job *job = hp_alloc(1, sizeof(*job));
    if (!job)
        return NULL;
    memcpy(job->job_id, job_id, HP_JOB_ID_BYTES);
    snprintf(job->label, sizeof(job->label), "job %02x%02x%02x%02x", job_id[0], job_id[1], job_id[2], job_id[3]);
    if (name)
        snprintf(job->label, sizeof(job->label), "job %s", name);
    job->owner = owner;
    job->next_comm = comm_seed;
    return job;
}

void
hp_job_free(hp_job *job)
{
    for (hp_join_group *m; (m = job->join_groups); hp_join_group_free(m))
        job->join_groups = m->next;
    for (hp_roster *r; (r = job->rosters); hp_roster_free(r))
        job->rosters = r->next;
    hp_recall_free(job);
    hp_grow_free(job);
    hp_keys_drop(job->keys);
    free(job);
}

int
hp_job_idle(const hp_job *job)
{
    return job->conns == 0 && !job->join_groups && !job->rosters && !job->ended.size;
}

/* A split that has failed is remembered for the ranks that have not joined it yet: they would wait for ever. */
static int
is_kept(const hp_job *job, const hp_join_group *m)
{
    const hp_roster *parent = hp_job_ring(job->rosters, m->parent);
    return m->failure.code && parent && parent->state == HP_ROSTER_RUNNING && !hp_join_group_is_known(m);
}

int
hp_job_timed(const hp_job *job)
{
    if (job->watch.warning.since || hp_recall_timed(job))
        return 1;
    for (const hp_join_group *m = job->join_groups; m; m = m->next)
        if (!is_kept(job, m))
            return 1;
    for (const hp_roster *r = job->rosters; r; r = r->next)
        if (hp_roster_timed(r))
            return 1;
    return 0;
}

void
hp_job_mistrust(hp_job *job, const char *address)
{
    for (hp_join_group *m = job->join_groups; m; m = m->next)
        if (!m->parent)
            hp_join_group_mistrust(m, address);
}

void
hp_job_enter(hp_job *job, hp_job_conn *conn, const hp_hello *hello)
{
    *conn = (hp_job_conn){.job = job,
                          .where = HP_BEFORE_JOIN,
                          .declared_rank = hello->my_rank,
                          .declared_world = hello->world,
                          .declared_parent = hello->comm};
    job->conns++;
    if (hello->world <= HP_WORLD_MAX && (int)hello->world > job->world)
        job->world = (int)hello->world;
}

static void
refuse(hp_job_conn *conn, const hoop_error *error)
{
    hp_job *job = conn->job;
    uint8_t payload[HP_ABORT_BYTES];
    job->owner->send(job->owner->arg, conn, HP_REFUSED, payload, hp_abort_put(payload, error));
    hp_events_disconnect(job->owner, conn);
}

/* A rank with a negative colour takes no part: it gets an empty roster and is disconnected. */
static void
send_empty_roster(hp_job_conn *conn, uint64_t parent)
{
    uint8_t payload[HP_CONTROL_MAX];
    hp_ring none = {.comm = parent, .rank = -1};
    int next;
    conn->job->owner->send(conn->job->owner->arg, conn, HP_ROSTER, payload, hp_part_put(payload, &none, -1, 0, &next));
    hp_events_disconnect(conn->job->owner, conn);
}

static void
open_ring(hp_job *job, const hp_join_group *m, int first, int count, uint64_t now)
{
    hoop_error error;
    char label[64];
    if (m->epoch)
        snprintf(label, sizeof(label), "%.40s epoch %u", m->label, m->epoch);
    else if (m->parent)
        snprintf(label, sizeof(label), "%s split %u colour %d", job->label, m->split, m->joined[first].color);
    else
        snprintf(label, sizeof(label), "%s", job->label);
    while (++job->next_comm == 0)
        continue;
    hp_roster *roster = hp_roster_new(m, label, m->joined + first, count, job->next_comm, now);
    if (roster) {
        const hp_roster *parent = hp_job_ring(job->rosters, m->parent);
        roster->origin = (hp_origin){.parent = m->parent, .split = m->split, .color = m->joined[first].color};
        if (parent && (m->shrink || m->grow))
            roster->origin = parent->origin;
        if (!m->shrink)
            roster->origin.lineage = roster->ring.comm;
        roster->next = job->rosters;
        job->rosters = roster;
        return;
    }
    hp_err_set(&error, HOOP_ERR_NO_MEMORY, "the rendezvous server is out of memory");
    for (int i = first; i < first + count; i++)
        if (m->joined[i].peer)
            refuse(m->joined[i].peer, &error);
}

static void
open_rings(hp_job *job, hp_join_group *m, uint64_t now)
{
    if (m->grow && (hp_half_split_is_over(job, m) || !hp_grow_take(job, m, now))) /* the ring stays as it is */
        for (int i = 0; i < m->joined_n; i++)
            m->joined[i].color = -1;
    hp_join_group_sort(m);
    for (int first = 0, count; (count = hp_join_group_group(m, first)) > 0; first += count) {
        if (m->joined[first].color >= 0) {
            open_ring(job, m, first, count, now);
            continue;
        }
        for (int i = first; i < first + count; i++)
            if (m->joined[i].peer)
                send_empty_roster(m->joined[i].peer, m->parent);
    }
    m->joined_n = 0;
}

/* A split fails when its parent has failed. */
static void
check_parent(const hp_job *job, hp_join_group *m, uint64_t now)
{
    const hp_roster *parent = m->shrink || m->failure.code ? NULL : hp_job_ring(job->rosters, m->parent);
    if (parent && parent->state == HP_ROSTER_FAILED)
        hp_join_group_fail(m, &parent->cause, now);
}

/* After every event: complete join groups become rings; join groups and rings that are no longer needed are freed. */
static void
update(hp_job *job, uint64_t now)
{
    job->here = job->conns ? now : job->here;
    hp_recall_check(job, now);
    hp_shrink_note(job);
    for (hp_join_group **at = &job->join_groups; *at;) {
        hp_join_group *m = *at;
        check_parent(job, m, now);
        hp_shrink_check(job, m, now);
        int complete = m->shrink ? hp_shrink_is_complete(job, m, now) : hp_half_split_is_complete(job, m);
        if (complete) {
            hp_job_watch_start(job, m, now);
            open_rings(job, m, now);
        } else {
            hp_join_group_fail_missing(m, &job->ended, now);
        }
        int finished = m->failure.code ? now >= m->deadline && !is_kept(job, m) : m->joined_n == 0;
        if (!finished) {
            at = &m->next;
            continue;
        }
        *at = m->next;
        hp_roster *parent = hp_job_ring(job->rosters, m->parent);
        if (parent && !m->shrink && (complete || m->failure.code) && m->split >= parent->splits)
            parent->splits = m->split + 1;
        hp_join_group_free(m);
    }
    if (job->watch.warning.since)
        hp_job_watch_stall(job, now);
    for (hp_roster **at = &job->rosters; *at;) {
        hp_roster *r = *at;
        hp_job_watch_links(r, now);
        if (hp_roster_needed(r, job->here, now) || hp_join_groups_need(job, r)) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        hp_roster_over(r);
        job->owner->ended(job->owner->arg, r);
        hp_roster_free(r);
    }
}

void
hp_job_ended(hp_job *job, int rank, int size, const char *host, uint64_t now)
{
    for (hp_roster *r = job->rosters; r; r = r->next)
        if (r->world && r->ring.size == size && rank < size)
            hp_roster_ended(r, rank, now);
    if (job->ended.size)
        return; /* the first one is enough: no world of the whole job can be complete without it */
    job->ended = (hp_ended){.rank = rank, .size = size};
    snprintf(job->ended.host, sizeof(job->ended.host), "%s", host);
    update(job, now);
}

/*
 * The join group of this JOIN; opened if there is none. A world that has failed and has seen this rank already
 * belongs to an earlier start of the job. Every call of split has a number of its own. NULL: no memory, or too many
 * groups.
 */
static hp_join_group *
find_join_group(hp_job *job, const hp_join *join, uint64_t now)
{
    int rank = join->parent ? join->parent_rank : join->member.rank;
    int open = 0;
    for (hp_join_group *m = job->join_groups; m; m = m->next)
        if (!m->parent && hp_join_group_is(m, join) && m->failure.code && hp_join_group_has(m, rank))
            m->deadline = now;
    update(job, now);
    if (join->parent && !hp_job_ring(job->rosters, join->parent))
        return NULL;
    for (hp_join_group *m = job->join_groups; m; m = m->next, open++)
        if (hp_join_group_is(m, join))
            return m;
    hp_join_group *m = open >= JOIN_GROUPS_MAX ? NULL : hp_join_group_new(job->owner, job->label, join, now);
    if (m && (m->shrink || m->grow))
        hp_shrink_open(job, m);
    if (m) {
        m->next = job->join_groups;
        job->join_groups = m;
    }
    return m;
}

static hoop_result
admit(hp_job_conn *conn, const hp_join *join, uint64_t now, hoop_error *error)
{
    hp_job *job = conn->job;
    hp_join_group *m = NULL;
    hoop_error lack;
    char line[300];
    hoop_result result = hp_admission_join(job, join, error);
    if (!result && join->grow && !join->parent)
        return hp_grow_wait(job, conn, join, now, error);
    if (!result && !(m = find_join_group(job, join, now)))
        result = hp_err_set(error, HOOP_ERR_NO_MEMORY,
                            "the rendezvous server is out of memory, has %d incomplete groups, or the ring has ended",
                            JOIN_GROUPS_MAX);
    if (m && !m->failure.code && hp_admission_lacks(conn, &lack))
        hp_join_group_fail(m, &lack, now); /* all its ranks hear it */
    if (m)
        result = hp_join_group_join(m, conn, join, now, error);
    if (!result) {
        conn->join_group = m;
        hp_shrink_end(job, join);
    } else if (!m || !m->failure.code) { /* a join group that fails logs that itself */
        snprintf(line, sizeof(line), "%s: refused: %s", job->label, error->text);
        hp_events_say(job->owner, HP_NOTICE_EVENT, line);
    }
    return result;
}

/* A rank that was connected before is so again; 0: it is not known. */
static int
resume(hp_job_conn *conn, const hp_join *join, uint64_t now)
{
    hp_job *job = conn->job;
    hp_roster *r = job->rosters;
    int rank = -1;
    while (r && (rank = hp_comeback_find(r, join)) < 0)
        r = r->next;
    if (!r)
        return 0;
    hp_job_conn *before = r->peers[rank];
    if (before) {
        before->roster = NULL;
        hp_events_disconnect(job->owner, before);
    }
    conn->roster = r;
    conn->rank = rank;
    conn->returned = join->ring != 0;
    hp_comeback_take(r, rank, conn, join, now);
    return 1;
}

static int
join(hp_job_conn *conn, const hp_control_frame *frame, uint64_t now, hoop_error *error)
{
    hp_job *job = conn->job;
    hoop_error refusal;
    hp_join request;
    hp_err_clear(&refusal);
    int legible = hp_join_get(&request, frame->payload, frame->n);
    request.shrink = frame->type == HP_SHRINK;
    request.grow = frame->type == HP_GROW;
    if (!legible || (request.shrink && !request.parent) || !hp_admission_declared(conn, &request)) {
        /* the rank has proven the secret, so it gets the reason, and does not dial again until its time is up */
        hp_err_set(&refusal, HOOP_ERR_PROTOCOL,
                   "the rendezvous server cannot read the JOIN of this rank; install one release of hoop everywhere");
        refusal.phase = HOOP_PHASE_BRINGUP;
        refuse(conn, &refusal);
        hp_err_set(error, HOOP_ERR_PROTOCOL, "it sent a malformed JOIN");
        return -1;
    }
    conn->where = HP_JOINING;
    conn->proxied = request.member.proxied;
    if (resume(conn, &request, now) || hp_recall_keep(job, conn, &request, frame, now))
        return 0;
    hp_roster *parent = hp_job_ring(job->rosters, request.parent);
    if (!request.shrink && parent && (request.color < 0 || request.grow) &&
        request.split < parent->splits) /* it takes no part, and the others have their ring */
        send_empty_roster(conn, request.parent);
    else if (request.ring ? hp_comeback_refuse(&request, &refusal) : admit(conn, &request, now, &refusal))
        refuse(conn, &refusal);
    update(job, now);
    hp_half_split_ask(conn);
    return 0;
}

/* The JOINs that named rings that are known now, or again. The last rank that such a ring needs may join another one. */
static void
replay(hp_job *job, uint64_t now)
{
    hoop_error error;
    for (hp_caller *c; (c = hp_recall_next(job, now)); free(c)) {
        join(c->conn, &c->frame, now, &error);
        if (c->conn->roster && c->statement.standing == HP_STANDS_LINKED)
            hp_roster_message(c->conn->roster, c->conn->rank, &(hp_control_frame){.type = HP_READY}, now, &error);
        update(job, now);
    }
}

static int
recalled(hp_job_conn *conn, const hp_control_frame *frame, uint64_t now, hoop_error *error)
{
    hp_statement statement;
    if (conn->recall && hp_recall_message(conn, frame, now, error))
        return -1;
    if (frame->type == HP_RECALL && hp_statement_get(&statement, frame->payload, frame->n))
        hp_half_split_hear(conn, &statement);
    replay(conn->job, now);
    update(conn->job, now);
    return 0;
}

/* A rank that waits for the others to join was interrupted: they must not wait for it. */
static int
called_off(hp_job_conn *conn, const hp_control_frame *frame, uint64_t now, hoop_error *error)
{
    hoop_error cause;
    if (!hp_abort_get(&cause, frame->payload, frame->n) || cause.code == HOOP_SUCCESS) {
        hp_err_set(error, HOOP_ERR_PROTOCOL, "it sent a malformed ABORT");
        return -1;
    }
    cause.rank = cause.reporter = conn->declared_rank == HP_RANK_UNKNOWN ? -1 : (int)conn->declared_rank;
    if (conn->join_group)
        hp_join_group_fail(conn->join_group, &cause, now);
    update(conn->job, now);
    return 0;
}

/* A member cannot join a split of its ring: the others must not wait for it. */
static int
refused(hp_job_conn *conn, const hp_control_frame *frame, uint64_t now, hoop_error *error)
{
    hp_roster *ring = conn->roster;
    hp_join absent = {.parent = ring->ring.comm, .parent_rank = conn->rank, .parent_size = ring->ring.size};
    hoop_error cause;
    int legible = hp_refusal_get(&absent.split, &cause, frame->payload, frame->n);
    int ahead = !ring->recalled && absent.split > ring->splits && absent.split - ring->splits >= HP_SPLITS_AHEAD;
    if (!legible) {
        hp_err_set(error, HOOP_ERR_PROTOCOL, "it sent a malformed REFUSED");
        return -1;
    }
    cause.rank = cause.reporter = conn->rank;
    cause.phase = HOOP_PHASE_BRINGUP;
    if (ahead || !hp_half_split_is_next(ring, absent.split) || absent.split < ring->splits ||
        ring->state != HP_ROSTER_RUNNING) /* it may be of long ago */
        return 0;
    hp_join_group *m = find_join_group(conn->job, &absent, now);
    if (m)
        hp_join_group_refuse(m, conn->rank, &cause, now);
    update(conn->job, now);
    return 0;
}

/* One connection of a process has ended, so the process may have: its other rings doubt it, if a probe can tell. */
static void
doubt(hp_job *job, const hp_roster *here, const hp_member *who, uint64_t now)
{
    for (hp_roster *r = who->proxied ? NULL : job->rosters; r; r = r->next) {
        int rank = r == here ? -1 : hp_ring_rank_of(&r->ring, who);
        if (rank >= 0)
            hp_link_loss_doubt(&r->losses, rank, now);
    }
}

/* returns: the rank may be alive and dial again. */
static void
forget(hp_job_conn *conn, int returns, const char *why, uint64_t now)
{
    hp_roster *r = conn->roster;
    hp_join_group *m = conn->join_group;
    const hp_joined *joined = m && m->parent ? hp_join_group_entry(m, conn) : NULL;
    const hp_member *who = joined ? &joined->member : r ? hp_roster_holder(r, conn->rank) : NULL;
    conn->roster = NULL;
    conn->join_group = NULL;
    hp_recall_forget(conn, now);
    if (who && !returns)
        doubt(conn->job, r, who, now);
    if (m)
        returns ? hp_join_group_broke(m, conn, now) : hp_join_group_lost(m, conn, now);
    if (r)
        returns ? hp_roster_broke(r, conn->rank, now) : hp_roster_lost(r, conn->rank, why, now);
    update(conn->job, now);
}

/* A time-out that has just failed a ring, which ran before, fails others that wait for the same. */
static void
spread(hp_job *job, const hp_wait_place *from, int ran, uint64_t now)
{
    if (ran && from->ring->state == HP_ROSTER_FAILED && from->ring->cause.code == HOOP_ERR_TIMEOUT)
        hp_wait_chain_fail_others(job, from, now);
}

/* A message of a rank has timed out, and the cause may be in another ring. */
static void
judge_message(const hp_job *job, hp_roster *r, uint64_t now)
{
    hoop_error error = r->asked;
    hp_whereabouts where = hp_whereabouts_take(job, NULL, now);
    hp_err_clear(&r->asked);
    error.flags &= ~HOOP_ERROR_BEST_EFFORT;
    hp_hold_up_message(&where, r, now, &error);
    hp_whereabouts_free(&where);
    hp_roster_fail(r, &error);
}

int
hp_job_message(hp_job_conn *conn, const hp_control_frame *frame, uint64_t now, hoop_error *error)
{
    if (conn->done)
        return 0;
    int where = conn->roster ? hp_roster_where(conn->roster, conn->rank) : conn->where;
    if (!hp_message_fits(frame->type, 0, where, frame->n)) {
        hp_err_set(error, HOOP_ERR_PROTOCOL, "it sent an unexpected message (%d, %zu bytes)", frame->type, frame->n);
        return -1;
    }
    if (frame->type == HP_CLOCK) /* the server's to answer */
        return 0;
    if (frame->type == HP_RECALL || frame->type == HP_ROSTER || (frame->type == HP_READY && conn->recall))
        return recalled(conn, frame, now, error);
    if (frame->type == HP_JOIN || frame->type == HP_SHRINK || frame->type == HP_GROW) {
        int result = join(conn, frame, now, error);
        replay(conn->job, now);
        return result;
    }
    if (frame->type == HP_REFUSED)
        return refused(conn, frame, now, error);
    if (frame->type == HP_STATS || frame->type == HP_CALL_NAME || frame->type == HP_WAITING)
        return hp_note_take(conn, frame, now, error);
    if (conn->roster) {
        int message = frame->type == HP_ABORT && hp_blame_awaits_message(&conn->roster->witnesses[conn->rank]);
        const hp_wait_place from = {.ring = conn->roster, .rank = message ? conn->rank : -1};
        int ran = conn->roster->state == HP_ROSTER_RUNNING;
        int result = hp_roster_message(conn->roster, conn->rank, frame, now, error);
        if (conn->roster->asked.code)
            judge_message(conn->job, conn->roster, now);
        spread(conn->job, &from, ran, now);
        update(conn->job, now);
        return result;
    }
    const hp_join_group *m = conn->join_group;
    if (frame->type == HP_ABORT &&
        !(m && (m->shrink || (m->grow && !m->parent)))) /* the others go on without this one */
        return called_off(conn, frame, now, error);
    forget(conn, 0, NULL, now); /* LEAVE before the group was complete */
    hp_events_disconnect(conn->job->owner, conn);
    return 0;
}

void
hp_job_lost(hp_job_conn *conn, const char *why, uint64_t now)
{
    conn->job->conns--;
    forget(conn, !why && conn->proxied, why, now);
}

void
hp_job_broke(hp_job_conn *conn, uint64_t now)
{
    conn->job->conns--;
    forget(conn, 1, NULL, now);
}

void
hp_job_probed(hp_job *job, const hp_member *who, int ended, uint64_t now)
{
    int awaited = ended && hp_recall_is_awaited(job, who, now);
    const hp_roster *parent = NULL; /* of the split in which it waits, and so it has not left that ring */
    for (hp_join_group *m = job->join_groups; m; m = m->next)
        parent = hp_join_group_probed(m, who, ended, now) ? hp_job_ring(job->rosters, m->parent) : parent;
    for (hp_roster *r = job->rosters; r; r = r->next) {
        int rank = hp_ring_rank_of(&r->ring, who);
        if (rank >= 0 && ended && (awaited || r == parent || !hp_recall_may_have_left(job, r, rank, now)))
            hp_roster_ended(r, rank, now);
        else if (rank >= 0 && !ended)
            hp_roster_alive(r, rank, now);
    }
    update(job, now);
}

void
hp_job_unreached(hp_job *job, const hp_member *who, uint64_t silence, uint64_t now)
{
    for (hp_roster *r = job->rosters; r; r = r->next) {
        int rank = hp_ring_rank_of(&r->ring, who);
        int left = rank >= 0 && !r->peers[rank] && hp_recall_may_have_left(job, r, rank, now);
        uint64_t lasts = rank < 0 ? 0 : left ? r->witnesses[rank].silence : silence;
        if (rank >= 0)
            r->losses.doubted[rank] = 0; /* no probe tells */
        if (rank >= 0 && r->present && lasts >= r->peer_timeout && !hp_link_loss_is_deaf(&r->losses, r->witnesses, now))
            hp_roster_cut_off(r, rank, lasts, now);
    }
    update(job, now);
}

static void
tick_ring(hp_job *job, hp_roster *r, uint64_t now)
{
    const hp_wait_place from = {.ring = r, .rank = -1};
    hoop_error error;
    if (!hp_roster_tick(r, now))
        return;
    hp_whereabouts where = hp_whereabouts_take(job, NULL, now);
    hp_hold_up_timeout(&where, r, now, &error);
    hp_whereabouts_free(&where);
    hp_roster_fail(r, &error);
    spread(job, &from, 1, now);
}

void
hp_job_tick(hp_job *job, uint64_t now)
{
    for (hp_join_group *m = job->join_groups; m; m = m->next) {
        if (hp_join_group_tick(m, now) && !m->shrink) /* a shrink goes on without those that are late */
            hp_job_watch_overdue(job, m, now);
        hp_job_watch_start(job, m, now);
    }
    for (hp_roster *r = job->rosters; r; r = r->next)
        tick_ring(job, r, now);
    hp_job_watch_cross(job, now);
    hp_job_watch_stall(job, now);
    update(job, now);
    replay(job, now);
}

void
hp_job_close(hp_job *job, const hoop_error *cause, uint64_t now)
{
    for (hp_join_group *m = job->join_groups; m; m = m->next)
        if (!m->failure.code)
            hp_join_group_fail(m, cause, now);
    hp_grow_end(job, cause, now);
    for (hp_roster *r = job->rosters; r; r = r->next)
        hp_roster_close(r, cause, now);
}
