/* SPDX-License-Identifier: MIT */
/* grow: see grow.h. Those that wait are in groups of equal settings: which of these the ring has is known when it grows. */
#include "rendezvous/grow.h"

#include "base/err.h"
#include "rendezvous/registration.h"

#include <stdio.h>
#include <string.h>

void
hp_grow_free(hp_job *job)
{
    while (job->newcomers) {
        hp_join_group *m = job->newcomers;
        job->newcomers = m->next;
        hp_join_group_free(m);
    }
}

/* Drops groups that nobody waits in any more. */
static void
sweep(hp_job *job)
{
    for (hp_join_group **at = &job->newcomers; *at;) {
        hp_join_group *m = *at;
        if (m->joined_n > 0) {
            at = &m->next;
            continue;
        }
        *at = m->next;
        hp_join_group_free(m);
    }
}

static hoop_result
check_process(const hp_job *job, const hp_join *join, hoop_error *error)
{
    for (const hp_join_group *m = job->newcomers; m; m = m->next)
        for (int i = 0; i < m->joined_n; i++)
            if (hp_member_same(&m->joined[i].member, &join->member) && m->joined[i].number != join->epoch)
                return hp_err_set(error, HOOP_ERR_RENDEZVOUS,
                                  "this process (%s, pid %u) waits for hoop_comm_grow already: one process is one rank",
                                  join->member.host, join->member.pid);
    return HOOP_SUCCESS;
}

hoop_result
hp_grow_wait(hp_job *job, hp_job_conn *conn, const hp_join *join, uint64_t now, hoop_error *error)
{
    char line[200];
    sweep(job);
    if (check_process(job, join, error) != HOOP_SUCCESS)
        return error->code;
    hp_join_group *m = job->newcomers;
    while (m && (strlen(m->agree) != join->agree_n || memcmp(m->agree, join->agree, join->agree_n) != 0))
        m = m->next;
    if (!m) {
        m = hp_join_group_new(job->owner, job->label, join, now);
        if (!m)
            return hp_err_set(error, HOOP_ERR_NO_MEMORY, "the rendezvous server is out of memory");
        m->next = job->newcomers;
        job->newcomers = m;
    }
    hoop_result result = hp_join_group_join(m, conn, join, now, error);
    if (result != HOOP_SUCCESS)
        return result;
    conn->join_group = m;
    snprintf(line, sizeof(line), "%s: a process on %s (pid %u) waits for hoop_comm_grow", job->label, join->member.host,
             join->member.pid);
    hp_events_say(job->owner, HP_NOTICE_EVENT, line);
    return HOOP_SUCCESS;
}

int
hp_grow_take(hp_job *job, hp_join_group *m, uint64_t now)
{
    hoop_error error;
    int taken = 0;
    for (hp_join_group *waiting = job->newcomers; waiting; waiting = waiting->next) {
        int n = hp_join_group_take(m, waiting, &error);
        if (n < 0)
            hp_join_group_fail(waiting, &error, now);
        taken += n > 0 ? n : 0;
    }
    sweep(job);
    return taken;
}

int
hp_grow_stranded(const hp_job *job)
{
    int waiting = 0;
    for (const hp_join_group *m = job->newcomers; m && !job->rosters && !job->join_groups; m = m->next)
        waiting += m->joined_n;
    return waiting;
}

void
hp_grow_end(hp_job *job, const hoop_error *cause, uint64_t now)
{
    for (hp_join_group *m = job->newcomers; m; m = m->next)
        if (m->joined_n > 0)
            hp_join_group_fail(m, cause, now);
    sweep(job);
}
