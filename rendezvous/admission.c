/* SPDX-License-Identifier: MIT */
/* admission: see admission.h. */
#include "rendezvous/admission.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/limits.h"
#include "net/incoming.h"
#include "rendezvous/shrink.h"

#include <errno.h>
#include <limits.h>

#define MOMENT (500 * HP_MS) /* connections of communicators that were just destroyed are gone by then */

int
hp_admission_share(void)
{
    int limit = hp_limits_descriptors();
    return limit == INT_MAX ? INT_MAX : limit / 4 * 3;
}

int
hp_admission_expects(const hp_job *job)
{
    int proven = HP_PER_ADDRESS + 2 * job->conns;
    return job->world < proven ? job->world : proven;
}

/* The room that the server has for this connection, or will have. */
static hp_status
room(hp_job *job, const hp_hello *hello, uint64_t lacking, uint64_t now)
{
    int64_t world = (int)hello->world > job->world ? (int)hello->world : job->world;
    int64_t excess = job->conns - HP_RINGS_PER_RANK * world;
    if (excess < 0)
        job->full_since = 0;
    else if (!job->full_since)
        job->full_since = now;
    if ((excess >= 0 && now - job->full_since < MOMENT) || (lacking && lacking < MOMENT))
        return HP_BUSY;
    return excess >= world ? HP_FULL : HP_OK;
}

hp_status
hp_admission_judge(hp_job *job, const hp_hello *hello, uint64_t lacking, uint64_t now)
{
    if (hello->world == 0 || hello->world > HP_WORLD_MAX)
        return HP_BAD_WORLD;
    if (hello->my_rank != HP_RANK_UNKNOWN && hello->my_rank >= hello->world)
        return HP_BAD_RANK;
    hp_status status = job ? room(job, hello, lacking, now) : HP_OK;
    if (status != HP_OK || !job || hello->comm || hello->my_rank == HP_RANK_UNKNOWN)
        return status;
    for (const hp_join_group *m = job->join_groups; m; m = m->next)
        if (!m->parent && !m->failure.code && hp_join_group_has(m, (int)hello->my_rank))
            return HP_DUPLICATE;
    return HP_OK;
}

int
hp_admission_lacks(const hp_job_conn *conn, hoop_error *error)
{
    const hp_job *job = conn->job;
    hp_err_clear(error);
    if (conn->starved) {
        hp_err_set(
            error, HOOP_ERR_SYSTEM,
            "the rendezvous server has no descriptor left: the limit of its process (RLIMIT_NOFILE) is %d, and it "
            "needs one for each rank of each communicator; raise \"ulimit -n\" there",
            hp_limits_descriptors());
        error->sys_errno = EMFILE;
        hp_events_say(job->owner, HP_NOTICE_WARNING, error->text);
    } else if (job->conns > HP_RINGS_PER_RANK * (int64_t)job->world) {
        hp_err_set(error, HOOP_ERR_RENDEZVOUS,
                   "the ranks of this job are in %d communicators each, the most that the rendezvous server allows: "
                   "destroy those that are no longer used",
                   HP_RINGS_PER_RANK);
    }
    error->phase = HOOP_PHASE_BRINGUP;
    return error->code != HOOP_SUCCESS;
}

/* --- JOINs --- */

int
hp_admission_declared(const hp_job_conn *conn, const hp_join *join)
{
    int rank = join->parent ? join->parent_rank : join->member.rank;
    int world = join->parent ? join->parent_size : join->size;
    if (join->grow && (join->parent ? join->color || join->key : join->member.rank >= 0 || join->size != 1))
        return 0;
    return conn->declared_parent == (join->ring ? join->ring : join->parent) &&
           conn->declared_world == (uint32_t)world &&
           conn->declared_rank == (rank < 0 ? HP_RANK_UNKNOWN : (uint32_t)rank);
}

/*
 * Refuses a second process with the number of a rank that is in a ring. The same process may open a second
 * communicator, with another port if that has another interface.
 */
static hoop_result
check_holders(hp_roster *rosters, const hp_join *join, hoop_error *error)
{
    for (const hp_roster *r = rosters; r && !join->parent && join->member.rank >= 0; r = r->next) {
        const hp_member *holder = r->world ? hp_roster_holder(r, join->member.rank) : NULL;
        if (!holder || (holder->pid == join->member.pid && holder->pid_space == join->member.pid_space &&
                        holder->host_id == join->member.host_id))
            continue;
        hp_err_set(
            error, HOOP_ERR_RENDEZVOUS,
            "duplicate rank: the job is running, and its rank %d is %s, pid %u; start every job under a name of its "
            "own (HOOP_JOB)",
            join->member.rank, holder->host, holder->pid);
        error->rank = join->member.rank;
        error->phase = HOOP_PHASE_BRINGUP;
        return error->code;
    }
    return HOOP_SUCCESS;
}

/* Refuses a split of a ring that is not here, too, and a split that is over: no other rank would join it. */
hoop_result
hp_admission_join(const hp_job *job, const hp_join *join, hoop_error *error)
{
    if (join->shrink)
        return hp_shrink_admit(job, join, error);
    if (check_holders(job->rosters, join, error))
        return error->code;
    const hp_roster *parent = hp_job_ring(job->rosters, join->parent);
    if (parent && parent->ring.size == join->parent_size && parent->state == HP_ROSTER_FAILED) {
        *error = parent->cause; /* its rank has not heard of that yet */
        return error->code;
    }
    if (!join->parent || (parent && parent->ring.size == join->parent_size && join->split >= parent->splits &&
                          (parent->recalled || join->split - parent->splits < HP_SPLITS_AHEAD)))
        return HOOP_SUCCESS;
    if (parent && parent->state == HP_ROSTER_FAILED) { /* as the split has, by then */
        *error = parent->cause;
        return error->code;
    }
    if (!parent || parent->ring.size != join->parent_size)
        hp_err_set(error, HOOP_ERR_RENDEZVOUS,
                   "the rendezvous server does not know the communicator that rank %d splits: it was restarted after "
                   "the ring was up, or has lost its ranks; end the job and start it again",
                   join->parent_rank);
    else if (join->split < parent->splits)
        hp_err_set(error, HOOP_ERR_RENDEZVOUS, "split %u is over, but rank %d joins it now", join->split,
                   join->parent_rank);
    else
        hp_err_set(error, HOOP_ERR_RENDEZVOUS, "rank %d joins split %u, but another rank has not joined split %u",
                   join->parent_rank, join->split, parent->splits ? parent->splits : 1);
    error->rank = join->parent_rank;
    error->phase = HOOP_PHASE_BRINGUP;
    return error->code;
}

/* --- ranks that come back --- */

/* Whether this JOIN may be that of the rank: it is the same process, and the ring awaits it. */
static int
is_rank(const hp_roster *r, int rank, const hp_join *join)
{
    return hp_member_same(&r->ring.members[rank], &join->member) && !r->witnesses[rank].left &&
           (r->peers[rank] || r->losses.away[rank]);
}

/*
 * A ring that this server has learned from its ranks (recall.h) is being linked, and this is a first JOIN to such a ring: the
 * server that died may have made it without this rank's roster having arrived.
 */
static int
has_lost_rosters(const hp_roster *r, const hp_join *join)
{
    if (!r->recalled || r->state != HP_ROSTER_LINKING || join->parent == r->ring.comm)
        return 0;
    return join->shrink || join->grow
               ? r->ring.epoch > 0
               : r->origin.split == join->split && (!join->split || r->origin.color == join->color);
}

int
hp_comeback_find(const hp_roster *r, const hp_join *join)
{
    int rank = join->member.rank;
    if (join->ring) {
        int fits = r->ring.comm == join->ring && r->ring.size == join->size && rank >= 0 && rank < r->ring.size &&
                   r->ring.epoch == join->epoch && hp_ring_digest(&r->ring) == join->digest;
        return fits && is_rank(r, rank, join) ? rank : -1;
    }
    int lost = has_lost_rosters(r, join);
    for (int i = 0; join->epoch && i < r->ring.size; i++)
        if ((r->witnesses[i].number == join->epoch || (lost && !r->peers[i])) && is_rank(r, i, join))
            return i;
    return -1;
}

hoop_result
hp_comeback_refuse(const hp_join *join, hoop_error *error)
{
    hp_err_set(error, HOOP_ERR_RENDEZVOUS,
               "the rendezvous server does not know the ring that %s wants to join again: was the server restarted?",
               hp_member_name(&join->member).text);
    error->rank = join->member.rank;
    error->phase = HOOP_PHASE_OPERATION;
    return error->code;
}

void
hp_comeback_take(hp_roster *r, int rank, void *peer, const hp_join *join, uint64_t now)
{
    uint8_t payload[HP_ABORT_BYTES];
    r->ring.members[rank].proxied = join->member.proxied; /* a server that was started again did not know */
    hp_link_loss_back(&r->losses, rank);
    hp_link_loss_found(&r->losses, rank); /* what still holds comes again */
    r->present += r->peers[rank] ? 0 : 1;
    r->peers[rank] = peer;
    r->witnesses[rank].waiting.call.kind = 0;
    r->witnesses[rank].silence = 0;
    r->witnesses[rank].heard = now;
    if (r->state == HP_ROSTER_FAILED) {
        r->events->send(r->events->arg, peer, HP_ABORT, payload, hp_abort_put(payload, &r->cause));
        return;
    }
    if (!join->ring) {
        r->witnesses[rank].number = join->epoch; /* it may send this JOIN once more */
        hp_events_assign(r->events, peer, r, rank);
    } else {
        hp_roster_back(r, rank, join->completed, now);
    }
    if (r->state == HP_ROSTER_RUNNING)
        r->events->send(r->events->arg, peer, HP_GO, NULL, 0);
}
