/* SPDX-License-Identifier: MIT */
/* grow: see grow.h. */
#include "rendezvous/grow.h"

#include "base/err.h"
#include "rendezvous/registration.h"

#include <stdio.h>
#include <string.h>

hoop_result
hp_grow_wait(hp_job *job, hp_job_conn *conn, const hp_join *join, uint64_t now, hoop_error *error)
{
    char line[200];
    if (!job->newcomers)
        job->newcomers = hp_join_group_new(job->owner, job->label, join, now);
    if (!job->newcomers)
        return hp_err_set(error, HOOP_ERR_NO_MEMORY, "the rendezvous server is out of memory");
    hoop_result result = hp_join_group_join(job->newcomers, conn, join, now, error);
    if (result != HOOP_SUCCESS)
        return result;
    conn->join_group = job->newcomers;
    snprintf(line, sizeof(line), "%s: a process on %s (pid %u) waits for hoop_comm_grow", job->label, join->member.host,
             join->member.pid);
    job->owner->log(job->owner->arg, line);
    return HOOP_SUCCESS;
}

int
hp_grow_take(hp_job *job, hp_join_group *m, uint64_t now)
{
    hp_join_group *waiting = job->newcomers;
    hoop_error error;
    job->newcomers = NULL;
    int taken = waiting ? hp_join_group_take(m, waiting, &error) : 0;
    if (taken < 0)
        hp_join_group_fail(waiting, &error, now);
    hp_join_group_free(waiting);
    return taken > 0 ? taken : 0;
}
