/* SPDX-License-Identifier: MIT */
/*
 * job: see job.h. Gives each JOIN to its join group, turns complete groups into rings, hands every later frame to its
 * ring, and frees what is no longer needed. Guests belong to the owner, join groups and rosters to the job.
 */
#include "rendezvous/job.h"

#include "base/err.h"
#include "base/mem.h"
#include "net/pending.h"
#include "rendezvous/rings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RINGS_PER_RANK = 256,  /* connections of one rank: one for each communicator */
    JOIN_GROUPS_MAX = 1024 /* join groups of one job at a time, including those that failed and are remembered */
};

static void
on_tell(void *arg, void *peer, int type, const void *payload, size_t n)
{
    const hp_job *job = arg;
    job->owner->tell(job->owner->arg, peer, type, payload, n);
}

static void
on_assign(void *arg, void *peer, hp_roster *roster, int rank)
{
    const hp_job *job = arg;
    hp_guest *guest = peer;
    guest->join_group = NULL;
    guest->roster = roster;
    guest->rank = rank;
    job->owner->assign(job->owner->arg, peer, roster, rank);
}

static void
on_disconnect(void *arg, void *peer)
{
    const hp_job *job = arg;
    hp_guest *guest = peer;
    guest->join_group = NULL;
    guest->done = 1;
    job->owner->disconnect(job->owner->arg, peer);
}

static void
on_say(void *arg, const char *line)
{
    const hp_job *job = arg;
    job->owner->say(job->owner->arg, line);
}

static void
on_warn(void *arg, const char *line)
{
    const hp_job *job = arg;
    job->owner->warn(job->owner->arg, line);
}

static void
on_failed(void *arg, const hoop_error *cause)
{
    const hp_job *job = arg;
    job->owner->failed(job->owner->arg, cause);
}

static int
on_reached(void *arg, const void *peer)
{
    const hp_job *job = arg;
    return job->owner->reached(job->owner->arg, peer);
}

static const char *
on_host_of(void *arg, int rank)
{
    const hp_job *job = arg;
    return job->owner->host_of(job->owner->arg, rank);
}

hp_job *
hp_job_new(const hp_events *owner, const uint8_t job_id[HP_JOB_ID], uint64_t comm_seed)
{
    hp_job *job = hp_alloc(1, sizeof(*job));
    if (!job)
        return NULL;
    memcpy(job->job_id, job_id, HP_JOB_ID);
    snprintf(job->label, sizeof(job->label), "job %02x%02x%02x%02x", job_id[0], job_id[1], job_id[2], job_id[3]);
    job->owner = owner;
    job->events =
        (hp_events){job, on_tell, on_assign, on_disconnect, on_say, on_warn, on_failed, on_reached, on_host_of};
    job->next_comm = comm_seed;
    return job;
}

void
hp_job_free(hp_job *job)
{
    while (job->join_groups) {
        hp_join_group *join_group = job->join_groups;
        job->join_groups = join_group->next;
        hp_join_group_free(join_group);
    }
    while (job->rosters) {
        hp_roster *roster = job->rosters;
        job->rosters = roster->next;
        hp_roster_free(roster);
    }
    free(job);
}

int
hp_job_idle(const hp_job *job)
{
    return job->guests == 0 && !job->join_groups && !job->rosters && !job->ended.size;
}

/* A split that has failed is remembered for the ranks that have not joined it yet: they would wait for ever. */
static int
is_kept(const hp_job *job, const hp_join_group *m)
{
    const hp_roster *parent = hp_rings_find(job->rosters, m->parent);
    return m->failure.code && parent && parent->state == HP_ROSTER_RUNNING && !hp_join_group_is_known(m);
}

int
hp_job_timed(const hp_job *job)
{
    if (job->overseer.warning.since)
        return 1;
    for (const hp_join_group *m = job->join_groups; m; m = m->next)
        if (!is_kept(job, m))
            return 1;
    for (const hp_roster *r = job->rosters; r; r = r->next)
        if (hp_roster_timed(r))
            return 1;
    return 0;
}

int
hp_job_expects(const hp_job *job)
{
    int proven = HP_PER_ADDRESS + 2 * job->guests;
    return job->world < proven ? job->world : proven;
}

static int
is_full(const hp_job *job, const hp_hello *hello)
{
    int64_t world = (int)hello->world > job->world ? (int)hello->world : job->world;
    return job->guests >= RINGS_PER_RANK * world;
}

hp_status
hp_job_judge(const hp_job *job, const hp_hello *hello)
{
    if (hello->world == 0 || hello->world > HP_WORLD_MAX)
        return HP_BAD_WORLD;
    if (hello->my_rank != HP_RANK_UNKNOWN && hello->my_rank >= hello->world)
        return HP_BAD_RANK;
    if (job && is_full(job, hello))
        return HP_FULL;
    if (!job || hello->comm || hello->my_rank == HP_RANK_UNKNOWN)
        return HP_OK;
    for (const hp_join_group *m = job->join_groups; m; m = m->next)
        if (!m->parent && !m->failure.code && hp_join_group_has(m, (int)hello->my_rank))
            return HP_DUPLICATE;
    return HP_OK;
}

void
hp_job_enter(hp_job *job, hp_guest *guest, const hp_hello *hello)
{
    *guest = (hp_guest){.job = job,
                        .where = HP_BEFORE_JOIN,
                        .rank_said = hello->my_rank,
                        .world_said = hello->world,
                        .parent_said = hello->comm};
    job->guests++;
    if (hello->world <= HP_WORLD_MAX && (int)hello->world > job->world)
        job->world = (int)hello->world;
}

static uint64_t
new_comm(hp_job *job)
{
    while (++job->next_comm == 0)
        continue;
    return job->next_comm;
}

static void
refuse(hp_guest *guest, const hoop_error *error)
{
    hp_job *job = guest->job;
    uint8_t payload[HP_ABORT_BYTES];
    on_tell(job, guest, HP_REFUSED, payload, hp_abort_put(payload, error));
    on_disconnect(job, guest);
}

/* A rank with a negative colour takes no part: it gets an empty roster and is disconnected. */
static void
send_away(hp_guest *guest, uint64_t parent)
{
    uint8_t payload[HP_CONTROL_MAX];
    hp_ring none = {.comm = parent, .rank = -1};
    int next;
    on_tell(guest->job, guest, HP_ROSTER, payload, hp_part_put(payload, &none, -1, 0, &next));
    on_disconnect(guest->job, guest);
}

static void
open_ring(hp_job *job, const hp_join_group *m, int first, int count, uint64_t now)
{
    hoop_error error;
    char label[64];
    if (m->parent)
        snprintf(label, sizeof(label), "%s split %u colour %d", job->label, m->split, m->joined[first].color);
    else
        snprintf(label, sizeof(label), "%s", job->label);
    hp_roster *roster = hp_roster_new(m, label, m->joined + first, count, new_comm(job), now);
    if (roster) {
        roster->next = job->rosters;
        job->rosters = roster;
        return;
    }
    hp_err_set(&error, HOOP_ERR_NO_MEMORY, "the rendezvous server is out of memory");
    for (int i = first; i < first + count; i++)
        refuse(m->joined[i].peer, &error);
}

static void
conclude(hp_job *job, hp_join_group *m, uint64_t now)
{
    hp_join_group_sort(m);
    for (int first = 0, count; (count = hp_join_group_group(m, first)) > 0; first += count) {
        if (m->joined[first].color >= 0) {
            open_ring(job, m, first, count, now);
            continue;
        }
        for (int i = first; i < first + count; i++)
            send_away(m->joined[i].peer, m->parent);
    }
    m->came = 0;
}

/* A split fails when its parent has failed. */
static void
check_parent(const hp_job *job, hp_join_group *m, uint64_t now)
{
    if (!m->parent || m->failure.code)
        return;
    for (const hp_roster *r = job->rosters; r; r = r->next)
        if (r->ring.comm == m->parent && r->state == HP_ROSTER_FAILED) {
            hp_join_group_fail(m, &r->cause, now);
            return;
        }
}

static int
spent(const hp_job *job, const hp_join_group *m, uint64_t now)
{
    if (!m->failure.code)
        return m->came == 0;
    return now >= m->deadline && !is_kept(job, m);
}

static void
close_split(hp_job *job, const hp_join_group *m)
{
    hp_roster *parent = hp_rings_find(job->rosters, m->parent);
    if (parent && m->split >= parent->splits)
        parent->splits = m->split + 1;
}

/* After every event: complete join groups become rings; join groups and rings that are no longer needed are freed. */
static void
settle(hp_job *job, uint64_t now)
{
    for (hp_join_group **at = &job->join_groups; *at;) {
        hp_join_group *m = *at;
        check_parent(job, m, now);
        if (m->came == m->size) {
            hp_job_watch_start(m, now);
            conclude(job, m, now);
        } else {
            hp_join_group_fail_missing(m, &job->ended, now);
        }
        if (!spent(job, m, now)) {
            at = &m->next;
            continue;
        }
        *at = m->next;
        close_split(job, m);
        hp_join_group_free(m);
    }
    if (job->overseer.warning.since)
        hp_job_watch_stall(&job->overseer, job->rosters, &job->events, now);
    for (hp_roster **at = &job->rosters; *at;) {
        hp_roster *r = *at;
        if (hp_roster_needed(r, now)) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        hp_roster_free(r);
    }
}

void
hp_job_ended(hp_job *job, int rank, int size, const char *host, uint64_t now)
{
    for (hp_roster *r = job->rosters; r; r = r->next)
        if (r->world && r->ring.size == size && rank < size)
            hp_roster_ended(r, rank);
    if (job->ended.size)
        return; /* the first one is enough: no world of the whole job can be complete without it */
    job->ended = (hp_ended){.rank = rank, .size = size};
    snprintf(job->ended.host, sizeof(job->ended.host), "%s", host);
    settle(job, now);
}

/*
 * The join group of this JOIN; opened if there is none. A world that has failed and has seen this rank already
 * belongs to an earlier start of the job. Every call of split has a number of its own. NULL: no memory, or too many
 * groups.
 */
static hp_join_group *
find_join_group(hp_job *job, const hp_join *join, uint64_t now)
{
    int rank = join->parent ? join->parent_rank : join->who.rank;
    for (hp_join_group *m = job->join_groups; m; m = m->next)
        if (!m->parent && hp_join_group_is(m, join) && m->failure.code && hp_join_group_has(m, rank))
            m->deadline = now;
    settle(job, now);
    int open = 0;
    for (hp_join_group *m = job->join_groups; m; m = m->next, open++)
        if (hp_join_group_is(m, join))
            return m;
    hp_join_group *m = open >= JOIN_GROUPS_MAX ? NULL : hp_join_group_new(&job->events, job->label, join, now);
    if (m) {
        m->next = job->join_groups;
        job->join_groups = m;
    }
    return m;
}

static int
as_declared(const hp_guest *guest, const hp_join *join)
{
    int rank = join->parent ? join->parent_rank : join->who.rank;
    int world = join->parent ? join->parent_size : join->size;
    return guest->parent_said == (join->ring ? join->ring : join->parent) && guest->world_said == (uint32_t)world &&
           guest->rank_said == (rank < 0 ? HP_RANK_UNKNOWN : (uint32_t)rank);
}

static void
say_refusal(hp_job *job, const hoop_error *error)
{
    char line[300];
    snprintf(line, sizeof(line), "%s: refused: %s", job->label, error->text);
    on_say(job, line);
}

static hoop_result
seek_seat(hp_guest *guest, const hp_join *join, uint64_t now, hoop_error *error)
{
    hoop_result result = hp_rings_admit(guest->job->rosters, join, error);
    if (result) {
        say_refusal(guest->job, error);
        return result;
    }
    hp_join_group *m = find_join_group(guest->job, join, now);
    if (!m)
        return hp_err_set(error, HOOP_ERR_NO_MEMORY,
                          "the rendezvous server is out of memory, or has %d incomplete groups of this job",
                          JOIN_GROUPS_MAX);
    result = hp_join_group_join(m, guest, join, now, error);
    if (!result)
        guest->join_group = m;
    else if (!m->failure.code)
        say_refusal(guest->job, error); /* a join group that has failed has said so itself */
    return result;
}

/*
 * A member whose control connection broke is connected again; the server may not have noticed the end of the old
 * connection.
 */
static hoop_result
come_back(hp_guest *guest, const hp_join *join, uint64_t now, hoop_error *error)
{
    hp_job *job = guest->job;
    hp_roster *r = hp_rings_find(job->rosters, join->ring);
    if (!r || !hp_roster_knows(r, join)) {
        hp_err_set(error, HOOP_ERR_RENDEZVOUS,
                   "the rendezvous server does not know the ring that rank %d (%.60s) wants to join again: was the "
                   "server restarted?",
                   join->who.rank, join->who.host);
        error->rank = join->who.rank;
        error->phase = HOOP_PHASE_OPERATION;
        return error->code;
    }
    hp_guest *before = r->peers[join->who.rank];
    if (before) {
        before->roster = NULL;
        on_disconnect(job, before);
    }
    guest->roster = r;
    guest->rank = join->who.rank;
    guest->returned = 1;
    hp_roster_return(r, guest, join, now);
    return HOOP_SUCCESS;
}

static int
join(hp_guest *guest, const uint8_t *payload, size_t n, uint64_t now, hoop_error *error)
{
    hp_job *job = guest->job;
    hoop_error refusal;
    hp_join said;
    hp_err_clear(&refusal);
    if (!hp_join_get(&said, payload, n) || !as_declared(guest, &said)) {
        /*
         * It has proven the secret, so it gets the reason: closed without one it would dial again until its time is
         * up.
         */
        hp_err_set(&refusal, HOOP_ERR_PROTOCOL,
                   "the rendezvous server cannot read the JOIN message of this rank; install one release of hoop "
                   "everywhere");
        refusal.phase = HOOP_PHASE_BRINGUP;
        refuse(guest, &refusal);
        hp_err_set(error, HOOP_ERR_PROTOCOL, "it sent a malformed JOIN");
        return -1;
    }
    guest->where = HP_JOINING;
    if (said.ring ? come_back(guest, &said, now, &refusal) : seek_seat(guest, &said, now, &refusal))
        refuse(guest, &refusal);
    settle(job, now);
    return 0;
}

/* A member cannot join a split of its ring: the others must not wait for it. */
static int
refused(hp_guest *guest, const uint8_t *payload, size_t n, uint64_t now, hoop_error *error)
{
    const hp_roster *ring = guest->roster;
    hp_join absent = {.parent = ring->ring.comm, .parent_rank = guest->rank, .parent_size = ring->ring.size};
    hoop_error cause;
    if (!hp_refusal_get(&absent.split, &cause, payload, n) ||
        (absent.split > ring->splits && absent.split - ring->splits >= HP_SPLITS_AHEAD)) {
        hp_err_set(error, HOOP_ERR_PROTOCOL, "it sent a malformed REFUSED");
        return -1;
    }
    cause.rank = cause.reporter = guest->rank;
    cause.phase = HOOP_PHASE_BRINGUP;
    if (absent.split < ring->splits || ring->state != HP_ROSTER_RUNNING)
        return 0;
    hp_join_group *m = find_join_group(guest->job, &absent, now);
    if (m)
        hp_join_group_refuse(m, guest->rank, &cause, now);
    settle(guest->job, now);
    return 0;
}

static void
forget(hp_guest *guest, const char *why, uint64_t now)
{
    if (guest->join_group)
        hp_join_group_lost(guest->join_group, guest, now);
    if (guest->roster)
        hp_roster_lost(guest->roster, guest->rank, why);
    guest->join_group = NULL;
    guest->roster = NULL;
    settle(guest->job, now);
}

int
hp_job_message(hp_guest *guest, int type, const uint8_t *payload, size_t n, uint64_t now, hoop_error *error)
{
    if (guest->done)
        return 0;
    int where = guest->roster ? hp_roster_where(guest->roster, guest->rank) : guest->where;
    if (!hp_message_fits(type, 0, where, n)) {
        hp_err_set(error, HOOP_ERR_PROTOCOL, "it sent an unexpected message of type %d with %zu bytes", type, n);
        return -1;
    }
    if (type == HP_JOIN)
        return join(guest, payload, n, now, error);
    if (type == HP_REFUSED)
        return refused(guest, payload, n, now, error);
    if (guest->roster) {
        int result = hp_roster_message(guest->roster, guest->rank, type, payload, n, now, error);
        settle(guest->job, now);
        return result;
    }
    forget(guest, NULL, now); /* LEAVE before the group was complete */
    on_disconnect(guest->job, guest);
    return 0;
}

void
hp_job_lost(hp_guest *guest, const char *why, uint64_t now)
{
    guest->job->guests--;
    forget(guest, why, now);
}

void
hp_job_broke(hp_guest *guest, uint64_t now)
{
    hp_roster *r = guest->roster;
    if (!r) {
        hp_job_lost(guest, NULL, now);
        return;
    }
    guest->roster = NULL;
    guest->job->guests--;
    hp_roster_broke(r, guest->rank, now);
    settle(guest->job, now);
}

void
hp_job_tick(hp_job *job, uint64_t now)
{
    for (hp_join_group *m = job->join_groups; m; m = m->next) {
        hp_join_group_tick(m, now);
        hp_job_watch_start(m, now);
    }
    for (hp_roster *r = job->rosters; r; r = r->next)
        hp_roster_tick(r, now);
    hp_job_watch_cross(job->join_groups, job->rosters, now);
    hp_job_watch_stall(&job->overseer, job->rosters, &job->events, now);
    settle(job, now);
}
