/* SPDX-License-Identifier: MIT */
/* admission: see admission.h. */
#include "rendezvous/admission.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/limits.h"
#include "net/incoming.h"

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
        job->owner->warn(job->owner->arg, error->text);
    } else if (job->conns > HP_RINGS_PER_RANK * (int64_t)job->world) {
        hp_err_set(error, HOOP_ERR_RENDEZVOUS,
                   "the ranks of this job are in %d communicators each, the most that the rendezvous server allows: "
                   "destroy those that are no longer used",
                   HP_RINGS_PER_RANK);
    }
    error->phase = HOOP_PHASE_BRINGUP;
    return error->code != HOOP_SUCCESS;
}
