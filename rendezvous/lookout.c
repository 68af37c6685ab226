/* SPDX-License-Identifier: MIT */
/* lookout: see lookout.h. */
#include "rendezvous/lookout.h"

#include "base/clock.h"
#include "base/mem.h"
#include "net/sock.h"
#include "rendezvous/job.h"
#include "rendezvous/registration.h"

#include <stdlib.h>

enum {
    ASKED_MOST = 64, /* processes at a time, of one job */
    VAIN_MOST = 2,   /* questions in a row that a host may leave unanswered: its cable may just be back */
    AGAIN_MS = 1000, /* from one question to the next, at first; */
    AGAIN_PART = 8,  /* later this part of the time since the first */
};

/* About one process. */
struct hp_enquiry {
    hp_enquiry *next;
    const hp_job *job;
    hp_member who;
    hp_probe probe;
    uint64_t opened, asked, again; /* the first question, this one, the next one */
    uint64_t refused;              /* since when its proxy has refused or closed every connection; 0: it does not */
    int listed, vain;              /* vain: so many questions in a row have had no answer */
};

/* --- who is absent --- */

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

int
hp_absence_list(const hp_job *job, const hp_member **out, int most)
{
    int n = 0;
    for (const hp_roster *r = job->rosters; r; r = r->next)
        for (int i = 0; i < r->ring.size; i++)
            if (r->losses.away[i] || (r->state < HP_ROSTER_FAILED && !r->witnesses[i].left &&
                                      (r->losses.doubted[i] || r->witnesses[i].silence >= r->peer_timeout)))
                n = add(&r->ring.members[i], out, n, most);
    for (const hp_join_group *m = job->join_groups; m; m = m->next)
        for (int i = 0; i < m->joined_n; i++)
            if (m->joined[i].away)
                n = add(&m->joined[i].member, out, n, most);
    return n;
}

void
hp_absence_see(const hp_job_conn *conn, uint64_t silence)
{
    int splits =
        conn->join_group && conn->join_group->parent; /* who waits for the world is not looked for among many */
    hp_joined *joined = splits ? hp_join_group_entry(conn->join_group, conn) : NULL;
    if (conn->roster)
        conn->roster->witnesses[conn->rank].silence = silence;
    else if (joined)
        joined->silence = silence;
}

static void
add_silence(uint64_t silence, uint64_t away, uint64_t now, uint64_t *longest, int *heard)
{
    uint64_t lasts = away && silence >= HP_SILENT ? silence + now - away : 0;
    *heard |= !away && silence < HP_SILENT;
    *longest = lasts > *longest ? lasts : *longest;
}

uint64_t
hp_absence_silence(const hp_job *job, const hp_member *who, uint64_t now)
{
    uint64_t longest = 0;
    int heard = 0;
    for (const hp_roster *r = job->rosters; r; r = r->next) {
        int rank = hp_ring_rank_of(&r->ring, who);
        if (rank >= 0 && (r->peers[rank] || r->losses.away[rank]))
            add_silence(r->witnesses[rank].silence, r->losses.away[rank], now, &longest, &heard);
    }
    for (const hp_join_group *m = job->join_groups; m; m = m->next)
        for (int i = 0; i < m->joined_n; i++)
            if (m->parent && hp_member_same(&m->joined[i].member, who))
                add_silence(m->joined[i].silence, m->joined[i].away, now, &longest, &heard);
    return heard ? 0 : longest;
}

/* --- looking and asking --- */

int
hp_lookout_due(hp_lookout *l, uint64_t now)
{
    int due = now - l->looked >= HP_LOOK_MS * HP_MS;
    l->looked = due ? now : l->looked;
    return due;
}

void
hp_lookout_see(hp_control_conn *control, hp_job_conn *conn, uint64_t now)
{
    uint64_t peer_timeout = conn->roster       ? conn->roster->peer_timeout
                            : conn->join_group ? conn->join_group->peer_timeout
                                               : 0; /* in no ring yet */
    if (peer_timeout)
        hp_control_conn_await_peer(control, peer_timeout);
    hp_absence_see(conn, hp_control_conn_silence(control, now));
}

static hp_enquiry *
find(hp_lookout *l, const hp_job *job, const hp_member *who, uint64_t now)
{
    for (hp_enquiry *e = l->enquiries; e; e = e->next)
        if (e->job == job && hp_member_same(&e->who, who))
            return e;
    hp_enquiry *e = hp_alloc(1, sizeof(*e));
    if (!e)
        return NULL;
    *e = (hp_enquiry){.next = l->enquiries, .job = job, .who = *who, .opened = now, .again = now};
    e->probe.proxied = who->proxied;
    l->enquiries = e;
    return e;
}

void
hp_lookout_forget(hp_lookout *l, const hp_job *job)
{
    for (hp_enquiry **at = &l->enquiries; *at;) {
        hp_enquiry *e = *at;
        if (e->job != job || e->listed) {
            e->listed = 0; /* until the next list */
            at = &e->next;
            continue;
        }
        *at = e->next;
        hp_probe_stop(&e->probe);
        free(e);
    }
}

/* The longest of its rings and groups; 0: it is in none. */
static uint64_t
peer_timeout(const hp_job *job, const hp_member *who)
{
    uint64_t longest = 0;
    for (const hp_roster *r = job->rosters; r; r = r->next)
        for (int i = 0; i < r->ring.size; i++)
            if (hp_member_same(&r->ring.members[i], who) && r->peer_timeout > longest)
                longest = r->peer_timeout;
    for (const hp_join_group *m = job->join_groups; m; m = m->next)
        for (int i = 0; i < m->joined_n; i++)
            if (hp_member_same(&m->joined[i].member, who) && m->peer_timeout > longest)
                longest = m->peer_timeout;
    return longest;
}

/*
 * Tells the job what the answer is, or that there is none. A proxy also refuses and closes while it is started again: only
 * when it has done so for as long as a host may be unreachable, the process has ended. What it holds open proves nothing.
 */
static void
conclude(hp_enquiry *e, hp_job *job, hp_probe_state state, uint64_t now)
{
    int answered = state == HP_PROBE_ALIVE || state == HP_PROBE_HELD || state == HP_PROBE_ENDED;
    int refused = state == HP_PROBE_ENDED && e->who.proxied;
    uint64_t pause = answered ? 0 : (now - e->opened) / AGAIN_PART; /* an answer counts for some seconds only */
    e->again = state == HP_PROBE_ASKED ? now : e->asked + (pause < AGAIN_MS * HP_MS ? AGAIN_MS * HP_MS : pause);
    hp_probe_stop(&e->probe);
    e->refused = !refused ? 0 : e->refused ? e->refused : e->asked;
    e->asked = 0;
    e->vain = answered ? 0 : e->vain;
    if (!answered && state != HP_PROBE_NONE && ++e->vain >= VAIN_MOST)
        hp_job_unreached(job, &e->who, hp_absence_silence(job, &e->who, now), now);
    else if (answered && (!e->who.proxied || (refused && now - e->refused >= peer_timeout(job, &e->who))))
        hp_job_probed(job, &e->who, state == HP_PROBE_ENDED, now);
}

static void
ask(hp_enquiry *e, hp_job *job, uint64_t now)
{
    if (!e->asked && now >= e->again) {
        hp_addr to = e->who.addr;
        hp_addr_scope_as(&to, &job->network);
        e->asked = now;
        hp_probe_start(&e->probe, &to, NULL);
    }
    hp_probe_state state = hp_probe_poll(&e->probe);
    int waits = state == HP_PROBE_ASKED || state == HP_PROBE_HELD;
    if (e->asked && (!waits || now - e->asked >= HP_TCP_ANSWER_MS * HP_MS))
        conclude(e, job, state, now);
}

int
hp_lookout_ask(hp_lookout *l, hp_job *job, uint64_t now)
{
    const hp_member *absent[ASKED_MOST];
    int n = hp_absence_list(job, absent, ASKED_MOST);
    for (int i = 0; i < n; i++) {
        hp_enquiry *e = find(l, job, absent[i], now);
        if (e)
            e->listed = 1;
    }
    hp_lookout_forget(l, job);
    for (hp_enquiry *e = l->enquiries; e; e = e->next) /* the job's members may go meanwhile: enquiries have copies */
        if (e->job == job)
            ask(e, job, now);
    return n > 0;
}

void
hp_lookout_clear(hp_lookout *l)
{
    while (l->enquiries) {
        hp_enquiry *e = l->enquiries;
        l->enquiries = e->next;
        hp_probe_stop(&e->probe);
        free(e);
    }
}
