/* SPDX-License-Identifier: MIT */
/* unreachable: see unreachable.h. Every rank's last report is compared with the latest report of any rank. */
#include "rendezvous/unreachable.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

enum { RANGES_SHOWN = 6 };

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

uint8_t *
hp_unreachable_mark(const hp_witness *w, void *const *peers, const hp_events *events, int n, uint64_t sequence,
                    uint64_t heartbeat)
{
    uint64_t freshest = 0, allowed = HP_SILENT_HEARTBEATS * heartbeat;
    uint8_t *silent = hp_alloc((size_t)n, 1);
    for (int i = 0; silent && i < n; i++)
        if (w[i].in_op && w[i].last_seen > freshest)
            freshest = w[i].last_seen;
    for (int i = 0; silent && i < n; i++)
        silent[i] = (uint8_t)is_silent(&w[i], peers[i], events, sequence, freshest > allowed ? freshest - allowed : 0);
    return silent;
}

hp_unreachable
hp_unreachable_find(const hp_witness *w, const hp_member *members, const uint8_t *silent, int n)
{
    hp_unreachable s = {.first = -1};
    for (int i = 0; i < n; i++) {
        s.waiting += w[i].in_op && !silent[i];
        s.count += silent[i];
        if (silent[i] && s.first < 0)
            s.first = i;
        for (int j = 0; silent[i] && j < n; j++)
            if (members[j].host_id == members[i].host_id && w[j].heard > s.spoke)
                s.spoke = w[j].heard;
        s.hosts |= silent[i] && members[i].host_id != members[s.first].host_id;
    }
    return s;
}

static int
last_of_range(const uint8_t *silent, int n, int i)
{
    while (i + 1 < n && silent[i + 1])
        i++;
    return i;
}

const char *
hp_unreachable_list(const uint8_t *silent, int n, char *out, size_t size)
{
    size_t at = 0;
    int left = 0, shown = 0;
    out[0] = 0;
    for (int i = 0; i < n; i++)
        left += silent[i];
    for (int i = 0; i < n && left && at < size; i++) {
        if (!silent[i])
            continue;
        if (shown++ == RANGES_SHOWN) {
            snprintf(out + at, size - at, " and %d more", left);
            break;
        }
        int last = last_of_range(silent, n, i), here = last - i + 1;
        const char *join = !at ? "" : left == here ? " and " : ", ";
        left -= here;
        if (here == 1)
            at += (size_t)snprintf(out + at, size - at, "%s%d", join, i);
        else
            at += (size_t)snprintf(out + at, size - at, "%s%d-%d", join, i, last);
        i = last;
    }
    return out;
}

void
hp_unreachable_print(const hp_unreachable *s, const hp_member *members, const uint8_t *silent, int n,
                     const hp_blame *blame, uint64_t stalled, uint64_t now, char *out, size_t size)
{
    const hp_member *who = &members[s->first];
    char list[96], since[64 + HP_OPERATION_TEXT], operation[HP_OPERATION_TEXT];
    double ago = s->spoke < now ? (double)(now - s->spoke) / 1e9 : 0;
    snprintf(since, sizeof(since), "%d rank%s waited %.1f s in %s", s->waiting, s->waiting == 1 ? " has" : "s have",
             (double)stalled / 1e9, hp_blame_operation(blame->sequence, &blame->call, operation));
    if (s->count == 1)
        snprintf(out, size, "rank %d (%.40s, pid %u) is unreachable or stopped; its host last spoke %.1f s ago; %s",
                 who->rank, who->host, who->pid, ago, since);
    else
        snprintf(out, size, "ranks %s (%s%.40s) are unreachable or stopped; their host%s last spoke %.1f s ago; %s",
                 hp_unreachable_list(silent, n, list, sizeof(list)), s->hosts ? "the first on " : "", who->host,
                 s->hosts ? "s" : "", ago, since);
}
