/* SPDX-License-Identifier: MIT */
/* half_split: see half_split.h. */
#include "rendezvous/half_split.h"

void
hp_half_split_over(hp_roster *parent, int rank, uint32_t split)
{
    if (rank >= 0 && rank < parent->ring.size && parent->witnesses[rank].placed < split)
        parent->witnesses[rank].placed = split;
}

void
hp_half_split_ask(hp_job_conn *conn)
{
    const hp_events *events = conn->job->owner;
    const hp_roster *parent = conn->join_group ? hp_job_ring(conn->job->rosters, conn->join_group->parent) : NULL;
    uint8_t with_roster = 0;
    if (parent && parent->recalled && conn->recalls)
        events->send(events->arg, conn, HP_RECALL, &with_roster, 1);
}

void
hp_half_split_hear(const hp_job_conn *conn, const hp_statement *said)
{
    const hp_join_group *m = conn->join_group;
    const hp_joined *joined = m ? hp_join_group_entry(m, conn) : NULL;
    hp_roster *r = joined ? hp_job_ring(conn->job->rosters, m->parent) : conn->roster;
    if (r && r->origin.lineage == said->origin.lineage)
        hp_half_split_over(r, joined ? joined->member.rank : conn->rank, said->placed);
}

static int
is_over_for(const hp_roster *parent, int rank, const hp_join_group *m)
{
    return parent && parent->recalled && m->split && rank < parent->ring.size &&
           parent->witnesses[rank].placed >= m->split;
}

int
hp_half_split_is_over(const hp_job *job, const hp_join_group *m)
{
    const hp_roster *parent = hp_job_ring(job->rosters, m->parent);
    for (int rank = 0; rank < m->size; rank++)
        if (is_over_for(parent, rank, m))
            return 1;
    return 0;
}

/* Its ranks may use that ring alone, and say nothing of the parent. */
static void
learn_from(const hp_roster *begun, hp_roster *parent)
{
    for (int i = 0; i < begun->ring.size; i++)
        for (int rank = 0; rank < parent->ring.size; rank++)
            if (hp_member_same(&begun->ring.members[i], &parent->ring.members[rank]))
                hp_half_split_over(parent, rank, begun->origin.split);
}

int
hp_half_split_is_complete(const hp_job *job, hp_join_group *m)
{
    hp_roster *parent = hp_job_ring(job->rosters, m->parent);
    if (!parent || !parent->recalled || !m->split || m->failure.code)
        return m->joined_n == m->size;
    for (const hp_roster *r = job->rosters; r; r = r->next)
        if (r->recalled && r->state == HP_ROSTER_RUNNING && r->origin.parent == m->parent &&
            r->origin.split >= m->split)
            learn_from(r, parent);
    for (int rank = 0; rank < m->size; rank++)
        if (is_over_for(parent, rank, m))
            hp_join_group_excuse(m, rank);
    return m->joined_n > 0 && hp_join_group_is_known(m);
}

/* Whether a rank has gone on, which it did not do before this ring began. One that has said something here has not. */
static int
has_begun(const hp_roster *r, const hp_roster *parent)
{
    for (int rank = 0; parent && rank < parent->ring.size; rank++) {
        int over = parent->witnesses[rank].placed >= r->origin.split;
        int i = over ? hp_ring_rank_of(&r->ring, &parent->ring.members[rank]) : -1;
        if (i >= 0 && !r->witnesses[i].heard)
            return 1;
    }
    return 0;
}

void
hp_half_split_begin(const hp_job *job, uint64_t now)
{
    for (hp_roster *r = job->rosters; r; r = r->next)
        if (r->recalled && !r->ring.epoch && r->state == HP_ROSTER_LINKING &&
            has_begun(r, hp_job_ring(job->rosters, r->origin.parent)))
            hp_roster_begin(r, now);
}

int
hp_half_split_is_next(const hp_roster *parent, uint32_t split)
{
    int next = 1;
    for (int rank = 0; parent->recalled && rank < parent->ring.size; rank++)
        next &= parent->witnesses[rank].placed < split;
    return next;
}
