/* SPDX-License-Identifier: MIT */
/* shrink: see shrink.h. */
#include "rendezvous/shrink.h"

#include "base/clock.h"
#include "base/err.h"
#include "rendezvous/registration.h"

#include <stdio.h>
#include <string.h>

void
hp_shrink_stale(uint32_t epoch, hoop_error *error)
{
    hp_err_set(
        error, HOOP_ERR_STALE_EPOCH,
        "the other ranks have gone on without this one, as epoch %u: it was silent, or called hoop_comm_shrink too "
        "late",
        epoch);
    error->phase = HOOP_PHASE_BRINGUP;
}

hoop_result
hp_shrink_admit(const hp_job *job, const hp_join *join, hoop_error *error)
{
    const hp_roster *parent = hp_job_ring(job->rosters, join->parent);
    if (parent && parent->ring.size == join->parent_size && !parent->outlived)
        return HOOP_SUCCESS;
    if (parent && parent->outlived)
        hp_shrink_stale(parent->ring.epoch + 1, error);
    else
        hp_err_set(error, HOOP_ERR_RENDEZVOUS,
                   "the rendezvous server does not know the communicator that rank %d shrinks: it was restarted after "
                   "the ring was up, or has lost its ranks; end the job and start it again",
                   join->parent_rank);
    error->rank = join->parent_rank;
    error->phase = HOOP_PHASE_BRINGUP;
    return error->code;
}

void
hp_shrink_open(const hp_job *job, hp_join_group *m)
{
    const hp_roster *parent = hp_job_ring(job->rosters, m->parent);
    const char *epoch = strstr(parent->label, " epoch ");
    int n = epoch ? (int)(epoch - parent->label) : (int)strlen(parent->label);
    snprintf(m->label, sizeof(m->label), "%.*s", n, parent->label);
    m->epoch = parent->ring.epoch + 1;
}

void
hp_shrink_end(const hp_job *job, const hp_join *join)
{
    hp_roster *parent = join->shrink ? hp_job_ring(job->rosters, join->parent) : NULL;
    hoop_error error;
    if (!parent || parent->state >= HP_ROSTER_FAILED)
        return;
    hp_err_set(&error, HOOP_ERR_ABORTED, "%s called hoop_comm_shrink",
               hp_say_rank(join->parent_rank, join->member.host, 0).text);
    error.rank = error.reporter = join->parent_rank;
    hp_roster_fail(parent, &error);
}

/* Whether nobody who is connected acknowledges what the server sends, or did until a moment ago. */
static int
is_deaf(const hp_roster *parent, hp_join_group *m, uint64_t now)
{
    int heard = 0, silent = 0;
    for (int i = 0; i < parent->ring.size; i++)
        if (parent->peers[i])
            *(parent->witnesses[i].silence >= parent->peer_timeout / 2 ? &silent : &heard) += 1;
    for (int i = 0; i < m->joined_n; i++)
        if (m->joined[i].peer)
            *(m->joined[i].silence >= m->peer_timeout / 2 ? &silent : &heard) += 1;
    if (silent && !heard)
        m->deaf = now;
    return m->deaf && now - m->deaf < HP_RELISTEN_MS * HP_MS;
}

/* A rank that is away may come back for as long as a member dials. deaf: what the server does not hear proves nothing. */
static int
is_left(const hp_roster *parent, int rank, int deaf, uint64_t now)
{
    const hp_witness *w = &parent->witnesses[rank];
    uint64_t away = parent->losses.away[rank], alive = parent->losses.alive[rank];
    if (w->left)
        return 0;
    if (parent->peers[rank])
        return deaf || w->silence < parent->peer_timeout;
    return away && (deaf || now - (alive > away ? alive : away) < HP_RETURN_MS * HP_MS);
}

/* As long as a ring of its ranks is being linked, nobody knows yet whether the others will go on without these. */
static int
is_undecided(const hp_job *job, const hp_join_group *m)
{
    const hp_roster *r = job->rosters;
    while (r && !(r->shrunk_from == m->parent && r->state == HP_ROSTER_LINKING))
        r = r->next;
    return r != NULL;
}

int
hp_shrink_is_complete(const hp_job *job, hp_join_group *m, uint64_t now)
{
    const hp_roster *parent = hp_job_ring(job->rosters, m->parent);
    if (m->failure.code || is_undecided(job, m))
        return 0;
    int deaf = is_deaf(parent, m, now);
    for (int rank = 0; rank < m->size; rank++)
        if (now >= m->deadline || !is_left(parent, rank, deaf, now))
            hp_join_group_excuse(m, rank);
    return m->joined_n > 0 && hp_join_group_is_known(m);
}

void
hp_shrink_note(const hp_job *job)
{
    for (const hp_roster *r = job->rosters; r; r = r->next) {
        hp_roster *parent = r->state == HP_ROSTER_RUNNING ? hp_job_ring(job->rosters, r->shrunk_from) : NULL;
        if (parent)
            parent->outlived = 1;
    }
}

void
hp_shrink_check(const hp_job *job, hp_join_group *m, uint64_t now)
{
    const hp_roster *parent = hp_job_ring(job->rosters, m->parent);
    hoop_error error;
    if (!m->shrink || m->failure.code || !parent->outlived)
        return;
    hp_shrink_stale(parent->ring.epoch + 1, &error);
    hp_join_group_fail(m, &error, now);
}

int
hp_join_groups_need(const hp_job *job, const hp_roster *parent)
{
    const hp_join_group *m = job->join_groups;
    while (m && !(m->parent == parent->ring.comm && !m->failure.code))
        m = m->next;
    return m != NULL;
}

void
hp_shrink_print(const hp_roster *parent, const hp_join_group *m, uint64_t now, char *out, size_t size)
{
    int missing = 0;
    for (int rank = 0; rank < m->size; rank++)
        missing += !hp_rank_set_has(m->has_joined, rank);
    snprintf(out, size, "%s %s not called hoop_comm_shrink of %s; %s", hp_say_ranks(m->has_joined, m->size, 0).text,
             missing == 1 ? "has" : "have", hp_say_ring(parent->label, parent->name).text,
             hp_say_waited(m->joined_n, now - m->opened).text);
}
