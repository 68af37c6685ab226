/* SPDX-License-Identifier: MIT */
/*
 * vitals: see vitals.h. Times are by CLOCK_MONOTONIC: the loop's own does not count what the program computes. A report is
 * of the moment at which its counters are read, which may be long after the loop's last look: shares are quotients.
 */
#include "lib/vitals.h"

#include "base/clock.h"
#include "lib/stats.h"

static hp_vitals
measure(hoop_comm *comm)
{
    hoop_stats s = {.size = sizeof(s)};
    uint64_t at = hp_now();
    hp_stats_fill(comm, &s);
    return (hp_vitals){.at = at - comm->reports.born,
                       .operations = s.operations,
                       .messages = s.messages,
                       .sent = s.bytes_sent,
                       .received = s.bytes_received,
                       .waited = {[HP_WAIT_PEER] = s.waited_peer_ns,
                                  [HP_WAIT_LINK] = s.waited_link_ns,
                                  [HP_WAIT_STREAM] = s.waited_stream_ns,
                                  [HP_WAIT_DEVICE] = s.waited_reduction_ns},
                       .retransmits = s.retransmits,
                       .delivery_rate = s.delivery_rate,
                       .entries = s.entries,
                       .entered = s.entered_ns,
                       .entered_error = s.entered_error_ns,
                       .rtt = s.rtt_us,
                       .shares = (uint32_t)s.shares_memory};
}

void
hp_vitals_send(hoop_comm *comm)
{
    hp_reports *r = &comm->reports;
    uint8_t payload[HP_VITALS_BYTES];
    if (!comm->client) {
        r->vitals_due = HP_NEVER;
        return;
    }
    (void)hp_loop_now(comm->loop);
    uint64_t now = hp_loop_looked(comm->loop);
    r->vitals_due = now + HP_SEC;
    r->asks = 1;
    if (!r->born)
        r->born = now;
    hp_stats_measure(comm);
    hp_vitals vitals = measure(comm);
    hp_vitals_put(payload, &vitals);
    hp_membership_inform(hp_client_membership(comm->client), HP_FEATURE_STATS, HP_STATS, payload, sizeof(payload));
}

void
hp_vitals_ask(hoop_comm *comm)
{
    comm->reports.asks = 0;
    comm->reports.turns = HP_REPORT_TURNS;
    if (comm->client)
        hp_client_compare_clocks(comm->client, 1);
}
