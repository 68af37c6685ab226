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
    ASKED_MOST = 64,     /* processes at a time, of one job */
    VAIN_MOST = 2,       /* questions in a row that a host may leave unanswered: its cable may just be back */
    AGAIN_MS = 1000,     /* from one question to the next, at first; */
    AGAIN_PART = 8,      /* later this part of the time since the first, */
    AGAIN_MOST_MS = 4000 /* at the most: who lives is known soon after the server's own outage (link_loss.c) */
};

/* About one process. */
struct hp_enquiry {
    hp_enquiry *next;
    const hp_job *job;
    hp_member who;
    hp_probe probe;
    uint64_t opened, asked, again; /* the first question, this one, the next one */
    uint64_t answered;             /* the last one that had an answer; 0: none had */
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
                                      (r->losses.doubted[i] || r->witnesses[i].silence >= r->peer_timeout / 2)))
                n = add(&r->ring.members[i], out, n, most);
    for (const hp_join_group *m = job->join_groups; m; m = m->next)
        for (int i = 0; i < m->joined_n; i++)
            if (m->joined[i].away || m->joined[i].silence >= m->peer_timeout / 2)
                n = add(&m->joined[i].member, out, n, most);
    return n;
}

/* Where the silence of a connection is kept; NULL: nowhere, as of who waits for the world, who is not looked for among many. */
static uint64_t *
silence_of(const hp_job_conn *conn)
{
    int splits = conn->join_group && conn->join_group->parent;
    hp_joined *joined = splits ? hp_join_group_entry(conn->join_group, conn) : NULL;
    return conn->roster ? &conn->roster->witnesses[conn->rank].silence : joined ? &joined->silence : NULL;
}

void
hp_absence_see(const hp_job_conn *conn, uint64_t silence)
{
    uint64_t *kept = silence_of(conn);
    if (kept)
        *kept = silence;
}

int
hp_absence_was_silent(const hp_job_conn *conn)
{
    const uint64_t *silence = silence_of(conn);
    return silence && *silence >= HP_SILENT;
}

/* Of a process, over its rings and splits. */
typedef struct silences {
    uint64_t longest; /* on a connection */
    uint64_t gone;    /* where one broke while its host was silent: since it was heard */
    int connected, heard;
} silences;

static void
add_silence(silences *s, const void *peer, uint64_t away, uint64_t silence, uint64_t now)
{
    int silent = silence >= HP_SILENT;
    if (peer) {
        s->connected = 1;
        s->heard |= !silent;
        s->longest = silence > s->longest ? silence : s->longest;
    } else if (silent && silence + now - away > s->gone) {
        s->gone = silence + now - away;
    }
}

uint64_t
hp_absence_silence(const hp_job *job, const hp_member *who, uint64_t now)
{
    silences s = {0};
    for (const hp_roster *r = job->rosters; r; r = r->next) {
        int rank = hp_ring_rank_of(&r->ring, who);
        int waits = rank >= 0 && r->losses.away[rank] && r->state < HP_ROSTER_FAILED;
        if (rank >= 0 && (r->peers[rank] || waits))
            add_silence(&s, r->peers[rank], r->losses.away[rank], r->witnesses[rank].silence, now);
    }
    for (const hp_join_group *m = job->join_groups; m; m = m->next)
        for (int i = 0; i < m->joined_n; i++)
            if (m->parent && hp_member_same(&m->joined[i].member, who))
                add_silence(&s, m->joined[i].peer, m->joined[i].away, m->joined[i].silence, now);
    return s.heard ? 0 : s.connected ? s.longest : s.gone;
}

void
hp_absence_ping(const hp_job *job, const hp_member *who)
{
    for (const hp_roster *r = job->rosters; r; r = r->next) {
        int rank = hp_ring_rank_of(&r->ring, who);
        if (rank >= 0 && r->peers[rank])
            r->events->send(r->events->arg, r->peers[rank], HP_PING, NULL, 0);
    }
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
    if (conn->join_group && conn->join_group->parent) /* it reads, and its host has to acknowledge something */
        hp_control_conn_send(control, HP_PING, NULL, 0);
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

/* Since its last answer at the most: what a proxy holds open proves that its host is there, and nothing else. */
static uint64_t
proven_silence(const hp_enquiry *e, const hp_job *job, uint64_t now)
{
    uint64_t lasts = hp_absence_silence(job, &e->who, now);
    return e->answered && now - e->answered < lasts ? now - e->answered : lasts;
}

/*
 * Tells the job what the answer is, or that there is none. A proxy also refuses and closes while it is started again: only
 * when it has done so for as long as a host may be unreachable, the process has ended. What it holds open proves nothing.
 */
static void
conclude(hp_enquiry *e, hp_job *job, hp_probe_state state, uint64_t now)
{
    int answered = state == HP_PROBE_ALIVE || state == HP_PROBE_HELD || state == HP_PROBE_ENDED;
    int refused = state == HP_PROBE_ENDED && e->who.proxied, vain = !answered && state != HP_PROBE_NONE;
    uint64_t pause = answered ? 0 : (now - e->opened) / AGAIN_PART; /* an answer counts for some seconds only */
    pause = pause < AGAIN_MS * HP_MS ? AGAIN_MS * HP_MS : pause < AGAIN_MOST_MS * HP_MS ? pause : AGAIN_MOST_MS * HP_MS;
    e->again = state == HP_PROBE_ASKED ? now : e->asked + pause;
    hp_probe_stop(&e->probe);
    e->refused = !refused ? 0 : e->refused ? e->refused : e->asked;
    e->asked = 0;
    e->vain = answered ? 0 : e->vain + vain;
    e->answered = answered ? now : e->answered;
    if (vain && e->vain == 1)
        hp_absence_ping(job, &e->who);
    else if (vain && e->vain >= VAIN_MOST)
        hp_job_unreached(job, &e->who, proven_silence(e, job, now), now);
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
