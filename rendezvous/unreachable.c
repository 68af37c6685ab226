/* SPDX-License-Identifier: MIT */
/* unreachable: see unreachable.h. Every rank's last report is compared with the latest report of any rank. */
#include "rendezvous/unreachable.h"

#include "base/rank_set.h"

#include <stdio.h>

/*
 * Whether the server has received nothing from a rank that must report, or the rank's host has not taken the
 * PING that was sent half a time-out ago.
 */
static int
is_silent(const hp_witness *w, const void *peer, const hp_events *events, uint64_t sequence, uint64_t seen_since)
{
    if (w->left || (!w->in_op && w->completed >= sequence))
        return 0;
    if (w->in_op)
        return w->last_seen < seen_since;
    return !peer || !events->reached(events->arg, peer);
}

uint64_t *
hp_unreachable_mark(const hp_witness *w, void *const *peers, const hp_events *events, int n, uint64_t sequence,
                    uint64_t heartbeat)
{
    uint64_t freshest = 0, allowed = HP_SILENT_HEARTBEATS * heartbeat;
    uint64_t *silent = hp_rank_set_new(n);
    for (int i = 0; silent && i < n; i++)
        if (w[i].in_op && w[i].last_seen > freshest)
            freshest = w[i].last_seen;
    for (int i = 0; silent && i < n; i++)
        if (is_silent(&w[i], peers[i], events, sequence, freshest > allowed ? freshest - allowed : 0))
            hp_rank_set_add(silent, i);
    return silent;
}

hp_unreachable
hp_unreachable_find(const hp_witness *w, const hp_member *members, const uint64_t *silent, int n)
{
    hp_unreachable s = {.first = -1};
    for (int i = 0; i < n; i++) {
        if (!hp_rank_set_has(silent, i)) {
            s.waiting += w[i].in_op;
            continue;
        }
        s.count++;
        s.first = s.first < 0 ? i : s.first;
        for (int j = 0; j < n; j++)
            if (members[j].host_id == members[i].host_id && w[j].heard > s.spoke)
                s.spoke = w[j].heard;
        s.hosts |= members[i].host_id != members[s.first].host_id;
    }
    return s;
}

void
hp_unreachable_print(const hp_unreachable *s, const hp_member *members, const uint64_t *silent, int n,
                     const hp_blame *blame, uint64_t stalled, uint64_t now, char *out, size_t size)
{
    const hp_member *who = &members[s->first];
    double ago = s->spoke < now ? (double)(now - s->spoke) / 1e9 : 0;
    hp_noun since = hp_say_waited(s->waiting, stalled), operation = hp_say_operation(blame->sequence, &blame->call);
    if (s->count == 1)
        snprintf(out, size, "%s is unreachable or stopped; its host last spoke %.1f s ago; %s in %s",
                 hp_member_process(who).text, ago, since.text, operation.text);
    else
        snprintf(out, size, "%s (%s%.40s) are unreachable or stopped; their host%s last spoke %.1f s ago; %s in %s",
                 hp_say_ranks(silent, n, 1).text, s->hosts ? "the first on " : "", who->host, s->hosts ? "s" : "", ago,
                 since.text, operation.text);
}
