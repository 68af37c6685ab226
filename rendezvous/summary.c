/* SPDX-License-Identifier: MIT */
/* summary: see summary.h. */
#include "rendezvous/summary.h"

#include <stdio.h>
#include <string.h>

/* What all ranks of a ring have counted together. */
typedef struct sums {
    int ranks;           /* that have reported */
    uint64_t operations; /* of the rank that has ended most */
    uint64_t messages, sent;
    double seconds; /* of the rank that has been in the ring for longest */
    double waited[HP_WAITS], total;
} sums;

static sums
add_up(const hp_roster *r)
{
    sums s = {0};
    for (int i = 0; i < r->ring.size && r->histories; i++) {
        const hp_vitals *c = &r->histories[i].last;
        double seconds = (double)c->at / 1e9;
        if (!r->histories[i].seen)
            continue;
        s.ranks++;
        s.operations = c->operations > s.operations ? c->operations : s.operations;
        s.messages += c->messages;
        s.sent += c->sent;
        s.seconds = seconds > s.seconds ? seconds : s.seconds;
        s.total += seconds;
        for (int w = HP_WAIT_PEER; w < HP_WAITS; w++)
            s.waited[w] += (double)c->waited[w] / 1e9;
    }
    return s;
}

/* "4.80 GB". Returns out. */
static const char *
print_bytes(double bytes, char out[32])
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB", "PB"};
    int unit = 0;
    while (bytes >= 1000 && unit < 5) {
        bytes /= 1000;
        unit++;
    }
    snprintf(out, 32, "%.*f %s", unit ? 2 : 0, bytes, units[unit]);
    return out;
}

static void
print_work(const hp_roster *r, const sums *s, const hp_line_sink *lines)
{
    char line[400], messages[64] = "", sent[32], rate[32];
    if (s->messages)
        snprintf(messages, sizeof(messages), ", %.60s", hp_say_count(s->messages, "message").text);
    snprintf(line, sizeof(line), "%s of %d rank%s: %llu operation%s%s, %s sent in %.1f s, %s/s a rank",
             hp_say_title(r->world ? "ring" : r->label, r->name).text, r->ring.size, r->ring.size == 1 ? "" : "s",
             (unsigned long long)s->operations, s->operations == 1 ? "" : "s", messages,
             print_bytes((double)s->sent, sent), s->seconds,
             print_bytes(s->total > 0 ? (double)s->sent / s->total : 0, rate));
    hp_columns_say(lines, line);
}

static void
print_waits(const sums *s, const hp_line_sink *lines)
{
    static const char *const reasons[HP_WAITS] = {"", "for data of other ranks", "for other ranks to take data",
                                                  "for a CUDA stream", "for the ranks' own devices"};
    char line[400] = "waited ";
    size_t at = strlen(line);
    for (int w = HP_WAIT_PEER; w < HP_WAITS; w++)
        at += (size_t)snprintf(line + at, sizeof(line) - at, "%s%.1f%% %s", w > HP_WAIT_PEER ? ", " : "",
                               s->total > 0 ? 100 * s->waited[w] / s->total : 0, reasons[w]);
    hp_columns_say(lines, line);
}

const char *
hp_summary_link(const hp_roster *r, const hp_slow_link *link, char *out, size_t size)
{
    char rate[64] = "", round_trip[64] = "", sent[HP_NOUN + 16] = " through memory", bytes[32];
    if (link->rate)
        snprintf(rate, sizeof(rate), ", %s/s", print_bytes((double)link->rate, bytes));
    if (link->rtt)
        snprintf(round_trip, sizeof(round_trip), ", round trip %.2f ms", link->rtt / 1e3);
    if (!link->shares)
        snprintf(sent, sizeof(sent), ", %s sent again", hp_say_count(link->retransmits, "segment").text);
    snprintf(out, size, "slowest link: %s to %s%s%s%s, waited for %.0f%% of the time",
             hp_member_name(&r->ring.members[link->from]).text, hp_member_name(&r->ring.members[link->to]).text, rate,
             round_trip, sent, link->share * 100);
    return out;
}

const char *
hp_summary_straggler(const hp_roster *r, const hp_straggler *straggler, const char *when, char *out, size_t size)
{
    snprintf(out, size,
             "slowest rank %s: %s, late by %.3g ms an operation on average; the others wait %.0f%% of the time for it",
             when, hp_member_name(&r->ring.members[straggler->rank]).text, straggler->late * 1e3,
             straggler->share * 100);
    return out;
}

void
hp_summary_print(const hp_roster *r, const hp_line_sink *lines)
{
    sums s = add_up(r);
    char text[400];
    if (!s.ranks)
        return;
    print_work(r, &s, lines);
    print_waits(&s, lines);
    hp_straggler straggler = hp_straggler_since_start(r->histories, r->ring.size);
    hp_slow_link link = hp_straggler_link(r->histories, &r->ring, HP_SPAN_ALL, 0);
    if (straggler.rank >= 0)
        hp_columns_say(lines, hp_summary_straggler(r, &straggler, "since the start", text, sizeof(text)));
    if (link.from >= 0)
        hp_columns_say(lines, hp_summary_link(r, &link, text, sizeof(text)));
}
