/* SPDX-License-Identifier: MIT */
/* absence: see absence.h. */
#include "rendezvous/absence.h"

static int
add(const hp_member *who, const hp_member **out, int n, int most)
{
    for (int i = 0; i < n; i++)
        if (hp_member_same(out[i], who))
            return n;
    if (n < most)
        out[n++] = who;
    return n;
}

/* Whether a member may have ended, or its host may be cut off. */
static int
is_absent(const hp_roster *r, int rank)
{
    const hp_witness *w = &r->witnesses[rank];
    return r->losses.away[rank] || (r->state < HP_ROSTER_FAILED && !w->left && w->silence >= r->peer_timeout);
}

int
hp_absence_list(const hp_job *job, const hp_member **out, int most)
{
    int n = 0;
    for (const hp_roster *r = job->rosters; r; r = r->next)
        for (int i = 0; i < r->ring.size; i++)
            if (is_absent(r, i))
                n = add(&r->ring.members[i], out, n, most);
    for (const hp_join_group *m = job->join_groups; m; m = m->next)
        for (int i = 0; i < m->joined_n; i++)
            if (m->joined[i].away)
                n = add(&m->joined[i].member, out, n, most);
    return n;
}

void
hp_absence_probed(hp_job *job, const hp_member *who, int ended, uint64_t now)
{
    for (hp_join_group *m = job->join_groups; m; m = m->next)
        hp_join_group_probed(m, who, ended, now);
    for (hp_roster *r = job->rosters; r; r = r->next)
        for (int i = 0; i < r->ring.size; i++) {
            if (!hp_member_same(&r->ring.members[i], who))
                continue;
            if (ended)
                hp_roster_ended(r, i);
            else
                hp_link_loss_alive(&r->losses, i, now);
        }
}

void
hp_absence_unreached(hp_job *job, const hp_member *who, uint64_t now)
{
    for (hp_roster *r = job->rosters; r; r = r->next)
        for (int i = 0; i < r->ring.size; i++)
            if (hp_member_same(&r->ring.members[i], who) && r->witnesses[i].silence >= r->peer_timeout &&
                !hp_link_loss_is_deaf(&r->losses, r->witnesses, r->peer_timeout, now))
                hp_roster_cut_off(r, i);
}

void
hp_absence_see(const hp_job_conn *conn, uint64_t silence)
{
    if (conn->roster)
        conn->roster->witnesses[conn->rank].silence = silence;
}

uint64_t
hp_absence_limit(const hp_job_conn *conn)
{
    return conn->roster ? conn->roster->peer_timeout : conn->join_group ? conn->join_group->peer_timeout : 0;
}
