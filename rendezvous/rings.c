/* SPDX-License-Identifier: MIT */
/* rings: see rings.h. */
#include "rendezvous/rings.h"

#include "base/err.h"

hp_roster *
hp_rings_find(hp_roster *rosters, uint64_t comm)
{
    hp_roster *r = rosters;
    while (r && r->ring.comm != comm)
        r = r->next;
    return comm ? r : NULL;
}

const hp_member *
hp_rings_in_world(const hp_roster *rosters, const hp_member *who)
{
    for (const hp_roster *r = rosters; r; r = r->next)
        for (int i = 0; r->world && i < r->ring.size; i++)
            if (hp_member_same(&r->ring.members[i], who))
                return &r->ring.members[i];
    return NULL;
}

/*
 * Refuses a second process with the number of a rank that is in a ring. The same process may open a second
 * communicator.
 */
static hoop_result
check_holders(hp_roster *rosters, const hp_join *join, hoop_error *error)
{
    for (const hp_roster *r = rosters; r && !join->parent && join->member.rank >= 0; r = r->next) {
        const hp_member *holder = r->world ? hp_roster_holder(r, join->member.rank) : NULL;
        if (!holder || hp_member_same(holder, &join->member))
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

/* Refuses a split of a ring that is not here, and a split that is over: no other rank would join it. */
static hoop_result
check_split(hp_roster *rosters, const hp_join *join, hoop_error *error)
{
    const hp_roster *parent = hp_rings_find(rosters, join->parent);
    if (parent && parent->ring.size == join->parent_size && parent->state == HP_ROSTER_FAILED) {
        *error = parent->cause; /* its rank has not heard of that yet */
        return error->code;
    }
    if (!join->parent || (parent && parent->ring.size == join->parent_size && join->split >= parent->splits &&
                          join->split - parent->splits < HP_SPLITS_AHEAD))
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

hoop_result
hp_rings_admit(hp_roster *rosters, const hp_join *join, hoop_error *error)
{
    hoop_result result = check_holders(rosters, join, error);
    return result ? result : check_split(rosters, join, error);
}
