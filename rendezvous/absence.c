/* SPDX-License-Identifier: MIT */
/* absence: see absence.h. */
#include "rendezvous/absence.h"

int
hp_absence_same(const hp_member *a, const hp_member *b)
{
    return a->pid == b->pid && a->host_id == b->host_id;
}

static int
add(const hp_member *who, const hp_member **out, int n, int most)
{
    for (int i = 0; i < n; i++)
        if (hp_absence_same(out[i], who))
            return n;
    if (n < most)
        out[n++] = who;
    return n;
}

int
hp_absence_list(const hp_job *job, const hp_member **out, int most)
{
    int n = 0;
    for (const hp_roster *r = job->rosters; r; r = r->next)
        for (int i = 0; r->losses.away_n && i < r->ring.size; i++)
            if (r->losses.away[i])
                n = add(&r->ring.members[i], out, n, most);
    for (const hp_join_group *m = job->join_groups; m; m = m->next)
        for (int i = 0; i < m->joined_n; i++)
            if (m->joined[i].away)
                n = add(&m->joined[i].member, out, n, most);
    return n;
}
