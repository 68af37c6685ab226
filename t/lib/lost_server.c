/* SPDX-License-Identifier: MIT */
/*
 * A server that falls silent, and then ranks that stall: whole rings with a clock of the test's own, in which every
 * rank hears, sends and passes on heartbeats, and judges, as in lib/reports.c and lib/fault.c. Each rank that names one
 * names a stalled one, all agree, and none takes longer than the time-out and a second.
 */
#include "base/clock.h"
#include "lib/peer_heartbeat.h"
#include "t/tap/tap.h"

#include <string.h>

enum { MOST = 16, SEEDS = 40, OPERATION = 17, LIMIT = 4000, BEAT = 250, QUIET = 2000, JOIN_IN = 2000, END = 9000 };

/* What happened; all times are milliseconds. */
typedef struct plot {
    int n, first, count; /* positions [first, first + count) stand still, or are cut off together */
    int cut;             /* 1: cut off: alive, but heard by no other rank */
    int absent;          /* 1: they have not come to the operation */
    int stagger;         /* ranks enter within so long */
} plot;

typedef struct member {
    hp_heartbeats *heartbeats;
    int gone;      /* stalled */
    int enter;     /* when it came to the operation */
    int moved;     /* its own last progress */
    int last_seen; /* the server's last frame */
    int said;      /* its last report; 0: none */
    int waits_for, look, named, named_at;
} member;

static member m[MOST];
static int order[MOST];

static int
upto(int most)
{
    return most > 0 ? (int)(tap_random() % (uint64_t)most) : 0;
}

static int
is_in(const plot *s, int position)
{
    return (position - s->first + s->n) % s->n < s->count;
}

static int
linked(const plot *s, int a, int b)
{
    return !m[a].gone && !m[b].gone && (!s->cut || is_in(s, a) == is_in(s, b));
}

static void
open_ring(const plot *s)
{
    int frozen = upto(2000) - 500; /* the server, before or after the operation begins */
    memset(m, 0, sizeof(m));
    for (int i = 0; i < s->n; i++) {
        int j = upto(i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    for (int i = 0; i < s->n; i++) {
        int behind = (i - s->first - s->count + 1 + s->n) % s->n; /* the stall reaches one after the other */
        m[i].gone = !s->cut && is_in(s, i);
        m[i].enter = upto(s->stagger + 1);
        m[i].moved = m[i].enter + (s->absent ? 0 : behind * upto(20));
        m[i].last_seen = frozen - upto(1000);
        m[i].look = 1 + upto(BEAT / 2);
        m[i].named = -1;
        m[i].waits_for = order[(i + s->n - 1) % s->n];
        m[i].heartbeats = hp_heartbeats_new(s->n, i, order);
        if (is_in(s, (i + 1) % s->n) && !is_in(s, i) && upto(2))
            m[i].waits_for = order[(i + 1) % s->n]; /* it waits for that one to take data */
    }
}

/* lib/reports.c's report() and tick(). */
static void
report(member *self, int position, int now)
{
    hp_report r = {.sequence = OPERATION, .step = 3, .awaited = {HP_WAIT_PEER, self->waits_for}};
    int wait = self->said ? BEAT : BEAT / 2, before = self->said ? self->said : self->enter;
    hp_heartbeats *t = self->heartbeats;
    uint64_t ns = (uint64_t)now * HP_MS;
    if (now < self->enter || now - before < wait)
        return;
    if (!self->said && self->last_seen < now)
        self->last_seen = now;
    self->said = now;
    int alone = now > self->last_seen + QUIET, asked = t->asked && ns - t->asked < JOIN_IN * HP_MS;
    if (ns - t->of[order[position]].last_seen > HP_SILENT_HEARTBEATS * BEAT * HP_MS)
        t->since = 0;
    if (alone || asked)
        hp_heartbeats_make(t, &r, OPERATION - 1, alone, ns);
    else
        t->since = 0;
}

static void
pass(const plot *s, int position, int now)
{
    uint8_t bytes[HP_HEARTBEATS_BYTES];
    int before = (position + s->n - 1) % s->n;
    for (size_t n; (n = hp_heartbeats_put(m[position].heartbeats, order[before], bytes)) > 0;) {
        hp_heartbeats_taken(m[position].heartbeats);
        if (linked(s, position, before) &&
            !hp_heartbeats_receive(m[before].heartbeats, bytes, n, (uint64_t)now * HP_MS))
            bail("a frame that cannot be read");
    }
}

/* lib/fault.c's check_clock(), and the ABORT of a neighbour. */
static void
judge(const plot *s, int position, int now)
{
    member *self = &m[position];
    hp_heartbeat_clock clock = {(uint64_t)now * HP_MS, (uint64_t)self->moved * HP_MS, LIMIT * HP_MS, BEAT * HP_MS};
    for (int d = -1; d <= 1; d += 2) {
        const member *other = &m[(position + d + s->n) % s->n];
        if (self->named < 0 && other->named >= 0 && other->named_at < now &&
            linked(s, position, (position + d + s->n) % s->n))
            self->named = other->named;
    }
    if (self->named < 0 && self->said && now > self->last_seen + QUIET)
        self->named = hp_heartbeats_judge(self->heartbeats, OPERATION, 0, &clock).rank;
    if (self->named >= 0)
        self->named_at = now;
}

static int
wrong(const plot *s, int seed)
{
    int bad = 0, named = -1;
    for (int i = 0; i < s->n; i++) {
        int culprit = 0;
        if (is_in(s, i))
            continue;
        for (int k = 0; k < s->count; k++)
            culprit |= m[i].named == order[(s->first + k) % s->n];
        if (named < 0)
            named = m[i].named;
        if (culprit && m[i].named == named && m[i].named_at <= m[i].moved + LIMIT + 1000)
            continue;
        if (!bad++)
            diag("%d ranks, seed %d, %d from position %d (rank %d): position %d names %d at %d, progress %d", s->n,
                 seed, s->count, s->first, order[s->first], i, m[i].named, m[i].named_at, m[i].moved);
    }
    return bad > 0;
}

static int
play(const plot *s, int seed)
{
    open_ring(s);
    for (int now = 1; now < END; now++)
        for (int i = 0; i < s->n; i++) {
            if (m[i].gone || m[i].named >= 0 || (s->absent && is_in(s, i)) || m[i].look > now)
                continue;
            m[i].look = now + 1 + upto(BEAT / 2);
            report(&m[i], i, now);
            pass(s, i, now);
            judge(s, i, now);
        }
    int bad = wrong(s, seed);
    for (int i = 0; i < s->n; i++)
        hp_heartbeats_free(m[i].heartbeats);
    return bad;
}

/* Every size, every place. */
static void
try_all(plot s, const char *what)
{
    int good = 0, tried = 0;
    for (s.n = s.count + 1; s.n <= MOST; s.n++)
        for (s.first = 0; s.first < s.n; s.first++)
            for (int seed = 0; seed < SEEDS / 8; seed++, tried++)
                good += !play(&s, seed);
    is_int(tried, good, "%s", what);
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    try_all((plot){.count = 1}, "a frozen server, a rank that is stopped");
    try_all((plot){.count = 1, .stagger = 900}, "ranks that come at different times");
    try_all((plot){.count = 1, .absent = 1, .stagger = 900}, "a rank that has not come");
    try_all((plot){.count = 2, .cut = 1, .stagger = 300}, "the server's host, with two ranks, is cut off");
    try_all((plot){.count = 1, .cut = 1, .stagger = 300}, "the same with one rank a host");
    try_all((plot){.count = 3, .stagger = 300}, "three ranks are stopped");
    return tap_failures() != 0;
}
