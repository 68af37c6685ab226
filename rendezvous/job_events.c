/* SPDX-License-Identifier: MIT */
/* job_events: see job_events.h. */
#include "rendezvous/job_events.h"

#include "rendezvous/rings.h"
#include "rendezvous/wait_chain.h"

static void
on_send(void *arg, void *peer, int type, const void *payload, size_t n)
{
    const hp_job *job = arg;
    job->owner->send(job->owner->arg, peer, type, payload, n);
}

static void
on_assign(void *arg, void *peer, hp_roster *roster, int rank)
{
    const hp_job *job = arg;
    hp_job_conn *conn = peer;
    conn->join_group = NULL;
    conn->roster = roster;
    conn->rank = rank;
    job->owner->assign(job->owner->arg, peer, roster, rank);
}

static void
on_disconnect(void *arg, void *peer)
{
    const hp_job *job = arg;
    hp_job_conn *conn = peer;
    conn->join_group = NULL;
    conn->done = 1;
    job->owner->disconnect(job->owner->arg, peer);
}

static void
on_log(void *arg, const char *line)
{
    const hp_job *job = arg;
    job->owner->log(job->owner->arg, line);
}

static void
on_warn(void *arg, const char *line)
{
    const hp_job *job = arg;
    job->owner->warn(job->owner->arg, line);
}

static void
on_failed(void *arg, const char *split, const hoop_error *cause)
{
    const hp_job *job = arg;
    job->owner->failed(job->owner->arg, split, cause);
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

static hp_process
on_process(void *arg, const hp_member *who)
{
    const hp_job *job = arg;
    const hp_member *as = hp_rings_in_world(job->rosters, who);
    return as ? job->owner->process(job->owner->arg, as) : HP_PROCESS_UNKNOWN;
}

static int
on_elsewhere(void *arg, const hp_wait_place *from, uint64_t stalled, int *guilty, char *out, size_t size)
{
    hp_whereabouts where = hp_whereabouts_take(arg, NULL, 0);
    int follows = hp_wait_chain_print(&where, from, stalled, guilty, out, size);
    hp_whereabouts_free(&where);
    return follows;
}

static void
on_ended(void *arg, const hp_roster *ring)
{
    const hp_job *job = arg;
    job->owner->ended(job->owner->arg, ring);
}

hp_events
hp_job_events(hp_job *job)
{
    return (hp_events){job,       on_send,    on_assign,  on_disconnect, on_log,       on_warn,
                       on_failed, on_reached, on_host_of, on_process,    on_elsewhere, on_ended};
}
