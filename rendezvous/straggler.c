/* SPDX-License-Identifier: MIT */
/* straggler: see straggler.h. Differences are taken between times of the rank's own clock; a counter that shrinks is a lie. */
#include "rendezvous/straggler.h"

#include "base/clock.h"
#include "base/mem.h"
#include "rendezvous/lateness.h"

#include <stdlib.h>
#include <string.h>

/* --- the counters of a rank --- */

#define MOMENT (800 * HP_MS) /* the least time between `before` and the report that takes its place */
#define MARK_EVERY (10 * HP_SEC)
#define FRESH (3 * HP_SEC)
#define MINUTE (60 * HP_SEC)

static uint64_t
grown(uint64_t from, uint64_t to)
{
    return to > from ? to - from : 0;
}

static hp_milestone
mark_of(const hp_vitals *c)
{
    return (hp_milestone){
        .at = c->at, .calls = c->operations + c->messages, .waited = c->waited[HP_WAIT_PEER] + c->waited[HP_WAIT_LINK]};
}

static void
note(hp_history *h, const hp_vitals *vitals, uint64_t now)
{
    if (!h->seen)
        h->before = *vitals;
    else if (grown(h->before.at, h->last.at) >= MOMENT || h->before.at == h->last.at)
        h->before = h->last;
    h->last = *vitals;
    h->seen = now;
    const hp_milestone *newest = &h->mark[(h->next_mark + HP_MILESTONES - 1) % HP_MILESTONES];
    if (h->marks && grown(newest->at, vitals->at) < MARK_EVERY)
        return;
    h->mark[h->next_mark] = mark_of(vitals);
    h->next_mark = (h->next_mark + 1) % HP_MILESTONES;
    h->marks += h->marks < HP_MILESTONES;
}

int
hp_history_take(hp_history **all, int size, int rank, const uint8_t *payload, size_t n, uint64_t now)
{
    hp_vitals vitals;
    if (!hp_vitals_get(&vitals, payload, n) || vitals.most_to >= size)
        return 0;
    if (!*all)
        *all = hp_alloc((size_t)size, sizeof(**all));
    if (*all)
        note(&(*all)[rank], &vitals, now);
    return 1;
}

hp_rates
hp_history_rates(const hp_history *h, hp_span span, uint64_t now)
{
    hp_rates r = {.most = HP_WAIT_PEER};
    hp_vitals first = span == HP_SPAN_ALL ? (hp_vitals){0} : h->before;
    double ns = (double)grown(first.at, h->last.at);
    if (!h->seen || ns <= 0 || (span == HP_SPAN_MOMENT && grown(h->seen, now) > FRESH))
        return r;
    r.sent = (double)grown(first.sent, h->last.sent) * 1e9 / ns;
    r.received = (double)grown(first.received, h->last.received) * 1e9 / ns;
    r.wire = (double)grown(first.wire_sent, h->last.wire_sent) * 1e9 / ns;
    for (int i = HP_WAIT_PEER; i < HP_WAITS; i++) {
        double share = (double)grown(first.waited[i], h->last.waited[i]) / ns;
        r.share[i] = share < 1 ? share : 1;
        r.waited += r.share[i];
        if (r.share[i] > r.share[r.most])
            r.most = (hp_wait)i;
    }
    r.waited = r.waited < 1 ? r.waited : 1;
    return r;
}

/* The oldest mark of the last minute; NULL: there is none. What is older would dilute it. */
static const hp_milestone *
minute_mark(const hp_history *h, uint64_t now)
{
    uint64_t rank_now = h->last.at + grown(h->seen, now);
    for (int i = 0, oldest = h->next_mark + HP_MILESTONES - h->marks; i < h->marks; i++) {
        const hp_milestone *mark = &h->mark[(oldest + i) % HP_MILESTONES];
        if (grown(mark->at, rank_now) <= MINUTE)
            return mark;
    }
    return NULL;
}

/* What was added to the mark's counters within the span; all zero: nothing is known. */
static hp_milestone
added_in(const hp_history *h, hp_span span, uint64_t now)
{
    static const hp_milestone start;
    const hp_milestone *from = span == HP_SPAN_MINUTE ? minute_mark(h, now) : &start;
    hp_milestone to = mark_of(&h->last);
    if (!h->seen || !from)
        return start;
    return (hp_milestone){
        .at = grown(from->at, to.at), .calls = grown(from->calls, to.calls), .waited = grown(from->waited, to.waited)};
}

/* --- who is slow --- */

static const double late_share = 0.05, link_share = 0.1, used_share = 0.1, wire_share = 0.02;

static hp_straggler
find(const hp_history *histories, int n, hp_span span, uint64_t now)
{
    hp_straggler found = {.rank = -1};
    hp_milestone least = {0};
    double least_share = 2, sum = 0;
    for (int i = 0; i < n && histories; i++) {
        hp_milestone added = added_in(&histories[i], span, now);
        if (!added.at || !added.calls) /* nothing is known of the rank in this span, or it has ended no call */
            return (hp_straggler){.rank = -1};
        double share = (double)added.waited / (double)added.at;
        sum += share;
        if (share >= least_share)
            continue;
        least_share = share;
        least = added;
        found.rank = i;
    }
    found.share = n > 1 ? (sum - least_share) / (n - 1) - least_share : 0;
    if (found.rank < 0 || found.share < late_share)
        return (hp_straggler){.rank = -1};
    found.late = found.share * (double)least.at / 1e9 / (double)least.calls;
    return found;
}

hp_straggler
hp_straggler_in_minute(const hp_history *histories, int n, uint64_t now)
{
    return find(histories, n, HP_SPAN_MINUTE, now);
}

/* By how many ns the rank calls later than the first one, on average; 0: the clocks do not tell, or there is no memory. */
static uint64_t
late_by_clock(const hp_history *histories, int n, int rank)
{
    hp_entry_times *times = hp_alloc((size_t)n, sizeof(*times));
    uint64_t *late = hp_alloc((size_t)n, sizeof(*late)), found = 0;
    for (int i = 0; i < n && times; i++)
        times[i] =
            (hp_entry_times){histories[i].last.entries, histories[i].last.entered, histories[i].last.entered_error};
    if (times && late) {
        hp_lateness(times, n, late);
        found = late[rank] == HP_LATENESS_UNKNOWN ? 0 : late[rank];
    }
    free(times);
    free(late);
    return found;
}

hp_straggler
hp_straggler_since_start(const hp_history *histories, int n)
{
    hp_straggler found = find(histories, n, HP_SPAN_ALL, 0);
    uint64_t late = found.rank >= 0 ? late_by_clock(histories, n, found.rank) : 0;
    if (late)
        found.late = (double)late / 1e9;
    return found;
}

/* The position of the sender that waits most for its link; -1: none waits long. */
static int
most_waited(const hp_history *histories, const hp_ring *ring, hp_span span, uint64_t now)
{
    double most = link_share;
    int found = -1;
    for (int p = 0; p < ring->size; p++) {
        hp_rates r = hp_history_rates(&histories[ring->order[p]], span, now);
        if (r.share[HP_WAIT_LINK] < most)
            continue;
        most = r.share[HP_WAIT_LINK];
        found = p;
    }
    return found;
}

/* What TCP says of a link that carries little is what the program sends. */
static int
is_used(const hp_history *h, hp_span span, uint64_t now)
{
    return hp_history_rates(h, span, now).wire > used_share * (double)h->last.delivery_rate;
}

/* The position of the sender whose link is used, and delivers less than half of what any other one does; -1: none. */
static int
least_delivered(const hp_history *histories, const hp_ring *ring, hp_span span, uint64_t now)
{
    uint64_t least = UINT64_MAX, second = UINT64_MAX;
    int found = -1;
    for (int p = 0; p < ring->size; p++) {
        uint64_t rate = histories[ring->order[p]].last.delivery_rate;
        if (!rate)
            continue;
        if (rate < least) {
            second = least;
            least = rate;
            found = p;
        } else if (rate < second) {
            second = rate;
        }
    }
    if (second == UINT64_MAX || least >= second / 2 || !is_used(&histories[ring->order[found]], span, now))
        return -1;
    return found;
}

hp_slow_link
hp_straggler_link_of(const hp_history *histories, int from, int to, hp_span span, uint64_t now)
{
    const hp_vitals *last = &histories[from].last;
    int measured = last->most_to == to;
    return (hp_slow_link){.from = from,
                          .to = to,
                          .share = hp_history_rates(&histories[from], span, now).share[HP_WAIT_LINK],
                          .rate = measured ? last->delivery_rate : 0,
                          .retransmits = measured ? last->most_resent : 0,
                          .rtt = measured ? last->rtt : 0,
                          .measured = measured,
                          .shares = last->most_to < 0};
}

hp_slow_link
hp_straggler_link(const hp_history *histories, const hp_ring *ring, hp_span span, uint64_t now)
{
    hp_slow_link none = {.from = -1, .to = -1};
    if (!histories || ring->size < 2)
        return none;
    int p = most_waited(histories, ring, span, now);
    if (p < 0)
        p = least_delivered(histories, ring, span, now);
    if (p < 0)
        return none;
    int from = ring->order[p], next = ring->order[(p + 1) % ring->size], to = histories[from].last.most_to;
    hp_rates rates = hp_history_rates(&histories[from], span, now);
    int over_tcp = to >= 0 && rates.wire >= wire_share * rates.sent;
    return hp_straggler_link_of(histories, from, over_tcp ? to : next, span, now);
}
