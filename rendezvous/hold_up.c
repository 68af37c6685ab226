/* SPDX-License-Identifier: MIT */
/* hold_up: see hold_up.h. If the awaited rank waits in another communicator, the sentence has both. */
#include "rendezvous/hold_up.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/rank_set.h"
#include "rendezvous/join_group.h"
#include "rendezvous/ping.h"
#include "rendezvous/unreachable.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AWAY_MS = 1500 }; /* without an acknowledgement: two looks of the server */

/* That a process runs is known after a second of the stall only: it is looked at now and then. */
hp_process
hp_hold_up_process(const hp_events *events, const hp_member *who, uint64_t stalled)
{
    hp_process process = events->process(events->arg, who);
    return process == HP_PROCESS_RUNS && stalled < HP_SEC ? HP_PROCESS_UNKNOWN : process;
}

/* If the blamed rank is silent, and not known to be stopped, the text names all silent ranks; else it stays. */
static void
name_silent_ranks(const hp_ring_view *v, hp_blame *blame, uint64_t now, char *text, size_t size)
{
    uint64_t *silent = hp_unreachable_mark(v->witnesses, v->peers, v->events, v->size, blame->sequence, v->heartbeat);
    if (silent && blame->rank >= 0 && hp_rank_set_has(silent, blame->rank) && blame->process != HP_PROCESS_STOPPED) {
        hp_unreachable s = hp_unreachable_find(v->witnesses, v->members, silent, v->size);
        hp_unreachable_print(&s, v->members, silent, v->size, blame, now - v->moved, now, text, size);
        blame->rank = s.first;
    }
    free(silent);
}

static void
print(const hp_ring_view *v, hp_blame *blame, uint64_t stalled, uint64_t now, char *out, size_t size)
{
    if (blame->guilt == HP_GUILT_ABSENT || blame->guilt == HP_GUILT_SILENT)
        blame->process = hp_hold_up_process(v->events, &v->members[blame->rank], stalled);
    hp_blame_print(blame, v->witnesses, v->members, stalled, out, size);
    if (blame->guilt == HP_GUILT_ABSENT && now >= v->moved + 2 * HP_ASK_AFTER)
        name_silent_ranks(v, blame, now, out, size);
}

static hp_blame
blame_of(const hp_ring_view *v)
{
    return hp_blame_find(v->witnesses, v->size, HP_SILENT_HEARTBEATS * v->heartbeat);
}

static hp_blame
find(const hp_ring_view *v, uint64_t stalled, uint64_t now, char *out, size_t size)
{
    hp_blame blame = blame_of(v);
    const hp_wait_place here = {.ring = v->ring, .rank = -1};
    if (blame.guilt != HP_GUILT_ABSENT || !v->events->elsewhere(v->events->arg, &here, stalled, &blame.rank, out, size))
        print(v, &blame, stalled, now, out, size);
    return blame;
}

void
hp_hold_up_here(const hp_ring_view *v, uint64_t stalled, char *out, size_t size)
{
    hp_blame blame = blame_of(v);
    print(v, &blame, stalled, v->moved + stalled, out, size);
}

void
hp_hold_up_add_away(const hp_ring_view *v, int named, char *text, size_t size)
{
    uint64_t *away = hp_rank_set_new(v->size);
    size_t used = strlen(text);
    int n = 0;
    for (int i = 0; away && i < v->size; i++)
        if (!v->witnesses[i].left && v->witnesses[i].silence >= AWAY_MS * HP_MS) {
            hp_rank_set_add(away, i);
            n++;
        }
    if (n && (named < 0 || !hp_rank_set_has(away, named)) && used < size)
        snprintf(text + used, size - used, "; %s %s unreachable", hp_say_ranks(away, v->size, 1).text,
                 n > 1 ? "are" : "is");
    free(away);
}

hp_blame
hp_hold_up_find(const hp_ring_view *v, uint64_t stalled, char *out, size_t size)
{
    hp_blame blame = find(v, stalled, v->moved + stalled, out, size);
    hp_hold_up_add_away(v, blame.rank, out, size);
    return blame;
}

void
hp_hold_up_timeout(const hp_ring_view *v, uint64_t now, hoop_error *error)
{
    char text[256];
    hp_blame blame = hp_hold_up_find(v, now - v->moved, text, sizeof(text));
    name_silent_ranks(v, &blame, now, text, sizeof(text));
    hp_err_set(error, HOOP_ERR_TIMEOUT, "%s", text);
    error->rank = blame.rank;
    error->sequence = blame.sequence;
}

void
hp_hold_up_overrun(const hp_ring_view *v, int rank, uint64_t now, hoop_error *error)
{
    const hp_witness *w = &v->witnesses[rank];
    uint64_t waited = w->report.overdue + (now - w->last_seen);
    char text[256];
    hp_blame blame = find(v, waited, now, text, sizeof(text));
    hp_err_set(error, HOOP_ERR_TIMEOUT, "%s", text);
    if (blame.guilt == HP_GUILT_LINK || blame.guilt == HP_GUILT_SELF) {
        blame.rank = rank;
        hp_err_set(error, HOOP_ERR_TIMEOUT, "%s has waited %.1f s for %s, which was the limit of that wait",
                   hp_member_name(&v->members[rank]).text, (double)waited / 1e9,
                   hp_say_operation(blame.sequence, &blame.call).text);
    }
    error->rank = blame.rank;
    error->reporter = rank;
    error->sequence = blame.sequence;
}

int
hp_hold_up_judge(const hp_ring_view *v, int rank, uint64_t now, hoop_error *error)
{
    const hp_wait_place here = {.ring = v->ring, .rank = rank};
    const hp_witness *w = &v->witnesses[rank];
    char text[256];
    if (error->code != HOOP_ERR_TIMEOUT || !(error->flags & HOOP_ERROR_BEST_EFFORT))
        return 0;
    error->flags &= ~HOOP_ERROR_BEST_EFFORT;
    if (hp_blame_awaits_message(w) &&
        v->events->elsewhere(v->events->arg, &here, w->waiting.since + (now - w->waiting_at), &error->rank, text,
                             sizeof(text)))
        snprintf(error->text, sizeof(error->text), "%s", text);
    return 1;
}

void
hp_hold_up_links(const uint64_t *connected, int n, int size, hoop_error *error)
{
    int late = size - n;
    hp_err_set(error, HOOP_ERR_RENDEZVOUS,
               "all %d ranks joined, but the links of %d of them are not up (%s); can the hosts reach each other, or "
               "does a firewall close their ports?",
               size, late, hp_say_ranks(connected, size, 0).text);
    for (int i = 0; late == 1 && i < size; i++)
        if (!hp_rank_set_has(connected, i))
            error->rank = i;
}
