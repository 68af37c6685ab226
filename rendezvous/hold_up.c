/* SPDX-License-Identifier: MIT */
/*
 * hold_up: see hold_up.h. If the awaited rank waits in another communicator, the sentence has both. A rank that computes
 * reports nothing, so silence counts only if a report is due, or if the host does not take the bytes sent to it.
 */
#include "rendezvous/hold_up.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/say.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AWAY_MS = 1500 }; /* without an acknowledgement: two looks of the server */

/* --- silent ranks --- */

typedef struct silence {
    uint64_t *ranks;  /* a set */
    int first, count; /* first: the lowest of them, or -1 */
    int waiting;      /* ranks in an operation that are not among them */
    int hosts;        /* 1: they are on several hosts */
    uint64_t spoke;   /* when anything of a rank on one of their hosts arrived last */
} silence;

/*
 * Whether the server has received nothing from a rank that must report, or the rank's host has not taken the
 * PING that was sent half a time-out ago.
 */
static int
is_silent(const hp_roster *r, int rank, uint64_t sequence, uint64_t seen_since)
{
    const hp_witness *w = &r->witnesses[rank];
    if (w->left || (!w->in_op && w->completed >= sequence))
        return 0;
    if (w->in_op)
        return w->last_seen < seen_since;
    return !r->peers[rank] || !r->events->reached(r->events->arg, r->peers[rank]);
}

static void
note_silent(silence *s, const hp_roster *r, int rank)
{
    const hp_member *members = r->ring.members;
    hp_rank_set_add(s->ranks, rank);
    s->count++;
    s->first = s->first < 0 ? rank : s->first;
    for (int i = 0; i < r->ring.size; i++)
        if (members[i].host_id == members[rank].host_id && r->witnesses[i].heard > s->spoke)
            s->spoke = r->witnesses[i].heard;
    s->hosts |= members[rank].host_id != members[s->first].host_id;
}

/* Those that wait in an operation or have not completed `sequence`, and have sent nothing. Without memory there are none. */
static silence
find_silent(const hp_roster *r, uint64_t sequence)
{
    silence s = {.ranks = hp_rank_set_new(r->ring.size), .first = -1};
    uint64_t seen_since = hp_blame_silent_before(r->witnesses, r->ring.size, HP_SILENT_HEARTBEATS * r->heartbeat);
    for (int i = 0; s.ranks && i < r->ring.size; i++)
        if (is_silent(r, i, sequence, seen_since))
            note_silent(&s, r, i);
        else
            s.waiting += r->witnesses[i].in_op;
    return s;
}

static void
print_silent(const hp_roster *r, const silence *s, const hp_blame *blame, uint64_t now, char *out, size_t size)
{
    const hp_member *who = &r->ring.members[s->first];
    double ago = s->spoke < now ? (double)(now - s->spoke) / 1e9 : 0;
    hp_noun since = hp_say_waited(s->waiting, now - r->moved);
    hp_noun operation = hp_say_operation(blame->sequence, &blame->call);
    if (s->count == 1)
        snprintf(out, size, "%s is unreachable or stopped; its host last spoke %.1f s ago; %s in %s",
                 hp_member_process(who).text, ago, since.text, operation.text);
    else
        snprintf(out, size, "%s (%s%.40s) are unreachable or stopped; their host%s last spoke %.1f s ago; %s in %s",
                 hp_say_ranks(s->ranks, r->ring.size, 1).text, s->hosts ? "the first on " : "", who->host,
                 s->hosts ? "s" : "", ago, since.text, operation.text);
}

/* If the blamed rank is silent, and not known to be stopped, the text names all silent ranks; else it stays. */
static void
name_silent_ranks(const hp_roster *r, hp_blame *blame, uint64_t now, char *text, size_t size)
{
    silence s = find_silent(r, blame->sequence);
    if (s.count && blame->rank >= 0 && hp_rank_set_has(s.ranks, blame->rank) && blame->process != HP_PROCESS_STOPPED) {
        print_silent(r, &s, blame, now, text, size);
        blame->rank = s.first;
    }
    free(s.ranks);
}

void
hp_hold_up_add_away(const hp_roster *r, int named, char *text, size_t size)
{
    uint64_t *away = hp_rank_set_new(r->ring.size);
    size_t used = strlen(text);
    int n = 0;
    for (int i = 0; away && i < r->ring.size; i++)
        if (!r->witnesses[i].left && r->witnesses[i].silence >= AWAY_MS * HP_MS) {
            hp_rank_set_add(away, i);
            n++;
        }
    if (n && (named < 0 || !hp_rank_set_has(away, named)) && used < size)
        snprintf(text + used, size - used, "; %s %s unreachable", hp_say_ranks(away, r->ring.size, 1).text,
                 n > 1 ? "are" : "is");
    free(away);
}

/* --- the rank for which the others wait --- */

static hp_blame
blame_of(const hp_roster *r)
{
    return hp_blame_find(r->witnesses, r->ring.size, HP_SILENT_HEARTBEATS * r->heartbeat);
}

static void
print(const hp_whereabouts *where, const hp_roster *r, hp_blame *blame, uint64_t stalled, uint64_t now, char *out,
      size_t size)
{
    if (blame->guilt == HP_GUILT_ABSENT || blame->guilt == HP_GUILT_SILENT)
        blame->process = hp_whereabouts_process(where, &r->ring.members[blame->rank], stalled);
    hp_blame_print(blame, r->witnesses, r->ring.members, stalled, out, size);
    if (blame->guilt == HP_GUILT_ABSENT && now >= r->moved + 2 * HP_ASK_AFTER)
        name_silent_ranks(r, blame, now, out, size);
}

static hp_blame
find(const hp_whereabouts *where, const hp_roster *r, uint64_t stalled, uint64_t now, char *out, size_t size)
{
    hp_blame blame = blame_of(r);
    const hp_wait_place here = {.ring = r, .rank = -1};
    if (blame.guilt != HP_GUILT_ABSENT || !hp_wait_chain_print(where, &here, stalled, &blame.rank, out, size))
        print(where, r, &blame, stalled, now, out, size);
    return blame;
}

hp_blame
hp_hold_up_find(const hp_whereabouts *where, const hp_roster *r, uint64_t stalled, char *out, size_t size)
{
    hp_blame blame = find(where, r, stalled, r->moved + stalled, out, size);
    hp_hold_up_add_away(r, blame.rank, out, size);
    return blame;
}

void
hp_hold_up_here(const hp_whereabouts *where, const hp_roster *r, uint64_t stalled, char *out, size_t size)
{
    hp_blame blame = blame_of(r);
    print(where, r, &blame, stalled, r->moved + stalled, out, size);
}

/* --- errors --- */

static hp_blame
end_stall(const hp_whereabouts *where, const hp_roster *r, uint64_t now, hoop_error *error)
{
    char text[256];
    hp_blame blame = hp_hold_up_find(where, r, now - r->moved, text, sizeof(text));
    name_silent_ranks(r, &blame, now, text, sizeof(text));
    hp_err_set(error, HOOP_ERR_TIMEOUT, "%s", text);
    return blame;
}

static hp_blame
end_overrun(const hp_whereabouts *where, const hp_roster *r, int rank, uint64_t now, hoop_error *error)
{
    const hp_witness *w = &r->witnesses[rank];
    uint64_t waited = w->report.overdue + (now - w->last_seen);
    char text[256];
    hp_blame blame = find(where, r, waited, now, text, sizeof(text));
    hp_err_set(error, HOOP_ERR_TIMEOUT, "%s", text);
    if (blame.guilt == HP_GUILT_LINK || blame.guilt == HP_GUILT_SELF) {
        blame.rank = rank;
        hp_err_set(error, HOOP_ERR_TIMEOUT, "%s has waited %.1f s for %s, which was the limit of that wait",
                   hp_member_name(&r->ring.members[rank]).text, (double)waited / 1e9,
                   hp_say_operation(blame.sequence, &blame.call).text);
    }
    error->reporter = rank;
    return blame;
}

void
hp_hold_up_timeout(const hp_whereabouts *where, const hp_roster *r, uint64_t now, hoop_error *error)
{
    int stalled = now - r->moved >= hp_limit_shortest(r->witnesses, r->ring.size, r->op_timeout);
    hp_blame blame = stalled ? end_stall(where, r, now, error)
                             : end_overrun(where, r, hp_limit_overdue(r->witnesses, r->ring.size), now, error);
    error->rank = blame.rank;
    error->sequence = blame.sequence;
}

void
hp_hold_up_message(const hp_whereabouts *where, const hp_roster *r, uint64_t now, hoop_error *error)
{
    const hp_wait_place here = {.ring = r, .rank = error->reporter};
    const hp_witness *w = &r->witnesses[error->reporter];
    char text[256];
    if (hp_blame_awaits_message(w) &&
        hp_wait_chain_print(where, &here, w->waiting.since + (now - w->waiting_at), &error->rank, text, sizeof(text)))
        snprintf(error->text, sizeof(error->text), "%s", text);
}
