/* SPDX-License-Identifier: MIT */
/* history: see history.h. Differences are taken between times of the rank's own clock; a counter that shrinks is a lie. */
#include "rendezvous/history.h"

#include "base/clock.h"
#include "base/mem.h"

#include <string.h>

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

static const hp_milestone *
newest_mark(const hp_history *h)
{
    return &h->mark[(h->next_mark + HP_MILESTONES - 1) % HP_MILESTONES];
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
    if (h->marks && grown(newest_mark(h)->at, vitals->at) < MARK_EVERY)
        return;
    h->mark[h->next_mark] = mark_of(vitals);
    h->next_mark = (h->next_mark + 1) % HP_MILESTONES;
    h->marks += h->marks < HP_MILESTONES;
}

int
hp_history_take(hp_history **all, int size, int rank, const uint8_t *payload, size_t n, uint64_t now)
{
    hp_vitals vitals;
    if (!hp_vitals_get(&vitals, payload, n))
        return 0;
    if (!*all)
        *all = hp_alloc((size_t)size, sizeof(**all));
    if (*all)
        note(&(*all)[rank], &vitals, now);
    return 1;
}

/* The counters at the beginning of a span; that of the whole time begins with none. */
static hp_vitals
first_of(const hp_history *h, hp_span span)
{
    return span == HP_SPAN_ALL ? (hp_vitals){0} : h->before;
}

hp_rates
hp_history_rates(const hp_history *h, hp_span span, uint64_t now)
{
    hp_rates r = {.most = HP_WAIT_PEER};
    hp_vitals first = first_of(h, span);
    double ns = (double)grown(first.at, h->last.at);
    if (!h->seen || ns <= 0 || (span == HP_SPAN_MOMENT && grown(h->seen, now) > FRESH))
        return r;
    r.sent = (double)grown(first.sent, h->last.sent) * 1e9 / ns;
    r.received = (double)grown(first.received, h->last.received) * 1e9 / ns;
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

hp_milestone
hp_history_added(const hp_history *h, hp_span span, uint64_t now)
{
    static const hp_milestone start;
    const hp_milestone *from = span == HP_SPAN_MINUTE ? minute_mark(h, now) : &start;
    hp_milestone to = mark_of(&h->last);
    if (!h->seen || !from)
        return start;
    return (hp_milestone){
        .at = grown(from->at, to.at), .calls = grown(from->calls, to.calls), .waited = grown(from->waited, to.waited)};
}
