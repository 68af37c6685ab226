/* SPDX-License-Identifier: MIT */
/* stats: see stats.h. Reads counters, changes nothing. */
#include "lib/stats.h"

#include <stdio.h>

hp_report
hp_stats_report(const hoop_comm *comm)
{
    hp_report r = {.waits_for = -1};
    if (comm->running) {
        r.sequence = comm->running->sequence;
        r.call = comm->running->call;
    }
    for (uint32_t c = 0; c < comm->channels; c++) {
        const hp_channel *channel = comm->channel[c];
        hp_awaited a = hp_channel_awaited(channel);
        r.step += channel->retired;
        for (int i = 0; i < channel->links; i++)
            r.bytes += channel->link[i]->bytes;
        if (a.peer >= 0 && r.waits_for < 0) {
            r.waits_for = a.peer;
            r.sending = a.sending;
        }
    }
    return r;
}

const char *
hp_stats_waiting(const hoop_comm *comm, uint64_t ms, char *out, size_t size)
{
    char me[96], peer[96], call[96];
    hp_awaited a = {.peer = -1};
    for (uint32_t c = 0; c < comm->channels && !a.work; c++)
        a = hp_channel_awaited(comm->channel[c]);
    if (!a.work) {
        snprintf(out, size, "%s waits for nothing", hp_comm_name(comm, comm->rank, me));
        return out;
    }
    hp_call_print(&a.work->call, call, sizeof call);
    if (a.peer < 0)
        snprintf(peer, sizeof peer, "its own device");
    else
        hp_comm_name(comm, a.peer, peer);
    snprintf(out, size, "%s has waited %.1f s in operation %llu (%s), step %llu of %llu, for %s%s%s",
             hp_comm_name(comm, comm->rank, me), (double)ms / 1e3, (unsigned long long)a.work->sequence, call,
             (unsigned long long)a.step, (unsigned long long)a.steps, a.sending || a.peer < 0 ? "" : "data from ", peer,
             a.sending ? " to take data" : "");
    return out;
}
