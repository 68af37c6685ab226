/* SPDX-License-Identifier: MIT */
/*
 * stats: see stats.h. Reads counters; changes only its own memory of what was logged and measured. Times of STATS are
 * by CLOCK_MONOTONIC: the loop's own does not count what the program computes. Such a report is of the moment at which
 * its counters are read, which may be long after the loop's last look: shares are quotients.
 */
#include "lib/stats.h"

#include "base/clock.h"
#include "base/log.h"
#include "lib/comm.h"
#include "lib/message_waits.h"

#include <stdio.h>

hp_report
hp_stats_report(const hoop_comm *comm)
{
    hp_report r = {.awaited = {HP_WAIT_DEVICE, -1}};
    if (comm->running) {
        r.sequence = comm->running->sequence;
        r.call = comm->running->call;
        r.call_name = hp_name_number(comm, &r.call);
    }
    for (uint32_t c = 0; c < comm->channels; c++) {
        const hp_channel *channel = comm->channel[c];
        hp_awaited a = hp_channel_oldest(channel).awaited;
        r.step += channel->retired;
        for (int i = 0; i < channel->links; i++)
            r.bytes += channel->link[i]->bytes;
        if (a.rank >= 0 && r.awaited.rank < 0)
            r.awaited = a;
    }
    return r;
}

int
hp_stats_is_outside(const hoop_comm *comm)
{
    return comm->running && comm->running->mark && !comm->running->reached;
}

hp_awaited
hp_stats_awaits(const hoop_comm *comm)
{
    if (!comm->running)
        return hp_message_waits_oldest(comm);
    if (hp_stats_is_outside(comm))
        return (hp_awaited){HP_WAIT_STREAM, -1};
    for (uint32_t c = 0; c < comm->channels; c++) {
        hp_awaited a = hp_channel_oldest(comm->channel[c]).awaited;
        if (a.rank >= 0)
            return a;
    }
    return (hp_awaited){HP_WAIT_DEVICE, -1};
}

static int
is_over_tcp(const hp_link *link)
{
    return link->sending && link->state >= HP_LINK_OPEN && !hp_link_shares(link);
}

/*
 * Reads what TCP has measured on the ways to other ranks, and compares clocks with the server; not without one. Of the links
 * that carry most the slowest one tells; a broken one tells nothing, and what it has told stays.
 */
static void
measure(hoop_comm *comm)
{
    hp_counters *counters = &comm->counters;
    uint64_t most = 0, sent = 0, retransmits = 0;
    const hp_link *slowest = NULL;
    hp_tcp_path of_slowest = {0};
    if (comm->state == HP_COMM_READY) /* by the answers so far */
        hp_counters_set_clock(counters, hp_client_compare_clocks(comm->client, 0));
    hp_link_walk all = hp_comm_links(comm), again = all;
    for (const hp_link *link; (link = hp_link_next(&all));) {
        uint64_t bytes = is_over_tcp(link) ? link->bytes : 0;
        sent += bytes;
        most = bytes > most ? bytes : most;
    }
    for (const hp_link *link; (link = hp_link_next(&again));) {
        if (!is_over_tcp(link) || link->state != HP_LINK_OPEN)
            continue;
        hp_tcp_path path = hp_link_path(link);
        retransmits += path.retransmits;
        uint64_t rate = path.delivery_rate, least = of_slowest.delivery_rate; /* 0: unknown */
        if (link->bytes >= most / 2 && (!slowest || (rate && (!least || rate < least)))) {
            slowest = link;
            of_slowest = path;
        }
    }
    hp_count_set(&counters->shares, comm->size > 1 && hp_link_shares(comm->channel[0]->out[1]));
    if (!slowest)
        return;
    hp_count_set(&counters->wire_sent, sent);
    if (retransmits > hp_count_read(&counters->retransmits))
        hp_count_set(&counters->retransmits, retransmits);
    hp_count_set(&counters->most_to, (uint64_t)slowest->peer + 1);
    hp_count_set(&counters->rtt_us, of_slowest.rtt_us);
    hp_count_set(&counters->delivery_rate, of_slowest.delivery_rate);
    hp_count_set(&counters->most_resent, of_slowest.retransmits);
}

void
hp_stats_fill(hoop_comm *comm, hoop_stats *stats)
{
    hp_counters *c = &comm->counters;
    stats->operations = hp_count_read(&comm->completed);
    stats->messages = hp_count_read(&c->messages);
    stats->bytes_received = hp_count_read(&c->bytes[0]);
    stats->bytes_sent = hp_count_read(&c->bytes[1]);
    stats->inside_ns = hp_stopwatch_read(&c->inside);
    stats->outside_ns = hp_counters_outside(c);
    stats->waited_peer_ns = hp_stopwatch_read(&c->waited[HP_WAIT_PEER]);
    stats->waited_link_ns = hp_stopwatch_read(&c->waited[HP_WAIT_LINK]);
    stats->waited_stream_ns = hp_stopwatch_read(&c->waited[HP_WAIT_STREAM]);
    stats->waited_reduction_ns = hp_stopwatch_read(&c->waited[HP_WAIT_DEVICE]);
    stats->slowest_rank = hp_counters_slowest(c, &stats->slowest_ns);
    stats->rtt_us = (uint32_t)hp_count_read(&c->rtt_us);
    stats->retransmits = hp_count_read(&c->retransmits);
    stats->delivery_rate = hp_count_read(&c->delivery_rate);
    hp_entry_times times = hp_counters_times(c, &stats->clock_offset_ns, &stats->clock_error_ns);
    stats->entries = times.count;
    stats->entered_ns = times.sum;
    stats->entered_error_ns = times.error;
    stats->shares_memory = (int32_t)hp_count_read(&c->shares);
    stats->repairs = hp_count_read(&c->repairs);
    stats->narrowed = hp_count_read(&c->narrowed);
    stats->narrowed_e4m3 = hp_count_read(&c->narrowed_e4m3);
    stats->levels = hp_count_read(&c->levels);
    uint64_t plan = hp_count_read(&c->plan);
    stats->in_rank_order = (int32_t)(plan % 3);
    snprintf(stats->algorithm, sizeof(stats->algorithm), "%s",
             plan ? hp_algorithm_name((hp_algorithm)(plan / 3 - 1)) : "");
}

const char *
hp_stats_waiting(const hoop_comm *comm, uint64_t ms, char *out, size_t size)
{
    char me[96], peer[96], again[160] = "";
    const hp_link *ended = comm->fault.ended;
    hp_oldest_step oldest = {0};
    for (uint32_t c = 0; c < comm->channels && !oldest.work; c++)
        oldest = hp_channel_oldest(comm->channel[c]);
    if (!oldest.work) {
        snprintf(out, size, "%s waits for nothing", hp_comm_name(comm, comm->rank, me));
        return out;
    }
    if (oldest.awaited.rank < 0)
        snprintf(peer, sizeof(peer), "its own device");
    else
        hp_comm_name(comm, oldest.awaited.rank, peer);
    if (ended && hp_link_is_repaired(ended)) {
        char name[96];
        snprintf(again, sizeof(again), "; its connection to %s has broken, and is made again",
                 hp_comm_name(comm, ended->peer, name));
    }
    snprintf(out, size, "%s has waited %.1f s in %s, step %llu of %llu, for %s%s%s%s",
             hp_comm_name(comm, comm->rank, me), (double)ms / 1e3,
             hp_say_operation(oldest.work->sequence, &oldest.work->call).text, (unsigned long long)oldest.step,
             (unsigned long long)oldest.steps, oldest.awaited.what == HP_WAIT_PEER ? "data from " : "", peer,
             oldest.awaited.what == HP_WAIT_LINK ? " to take data" : "", again);
    return out;
}

void
hp_stats_stall(hoop_comm *comm, uint64_t after, uint64_t now)
{
    const hp_heartbeats *t = comm->reports.heartbeats;
    hp_stall_warning *warning = &comm->reports.warning;
    hp_blame blame = {.guilt = HP_GUILT_NONE};
    char line[256], name[HP_NAME_PREFIX];
    if (!t || atomic_load(&comm->fault.failed) || hp_membership_has_server(hp_client_membership(comm->client), now)) {
        warning->since = 0;
        return;
    }
    /* neither this rank nor any other, by its heartbeats, has moved; a rank's first heartbeat counts as a move */
    int stalled = now >= comm->reports.moved_at + after && now >= t->moved + after;
    uint64_t listening = HP_SILENT_HEARTBEATS * hp_comm_heartbeat(comm), alive = now - listening;
    if ((warning->since || stalled) && comm->running && t->since && now - t->since >= listening &&
        hp_heartbeats_should_warn(t, alive)) /* else it is another rank's to name the one that holds up the ring */
        blame = hp_heartbeats_blame(t, comm->running->sequence, alive);
    int sure = hp_heartbeats_is_sure(comm->reports.heartbeats, blame.guilt != 0, hp_comm_heartbeat(comm), now);
    if (!warning->since && !sure)
        return;
    switch (hp_stall_warning_due(warning, after, comm->running != NULL, comm->reports.moved_at, now)) {
    case HP_STALL_WARN:
        if (blame.guilt)
            hp_blame_print(&blame, t->of, comm->ring->members, warning->lasted, line, sizeof(line));
        else
            hp_stats_waiting(comm, warning->lasted / HP_MS, line, sizeof(line));
        hp_log(HP_LOG_WARN, "%s%s", hp_name_prefix(comm, name), line);
        break;
    case HP_STALL_OVER:
        hp_log(HP_LOG_WARN, "%sthe operation goes on after %.1f s", hp_name_prefix(comm, name),
               (double)warning->lasted / 1e9);
        break;
    default: break;
    }
}

/* --- once a second, for the server --- */

void
hp_vitals_send(hoop_comm *comm)
{
    hp_reports *r = &comm->reports;
    uint8_t payload[HP_VITALS_BYTES];
    hoop_stats s = {.size = sizeof(s)};
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
    measure(comm);
    uint64_t at = hp_now() - r->born;
    hp_stats_fill(comm, &s);
    hp_vitals vitals = {.at = at,
                        .operations = s.operations,
                        .messages = s.messages,
                        .levels = s.levels,
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
                        .most_to = (int)hp_count_read(&comm->counters.most_to) - 1,
                        .most_resent = hp_count_read(&comm->counters.most_resent),
                        .wire_sent = hp_count_read(&comm->counters.wire_sent)};
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
