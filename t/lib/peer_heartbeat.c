/* SPDX-License-Identifier: MIT */
/*
 * Heartbeats of ranks without a server, flooded through rings in this process: all ranks that are alive name the
 * stalled one, wherever it is; nothing goes round twice; and garbage is refused.
 */
#include "base/wire.h"
#include "lib/peer_heartbeat.h"
#include "t/tap/tap.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 200, SMALL = 40, SEEDS = 400, OPERATION = 17 };

typedef struct ring {
    int n, order[MOST];
    int deaf[MOST], mute[MOST];      /* by rank: it hears and passes on nothing; it makes no heartbeat of its own */
    hp_heartbeats *heartbeats[MOST]; /* by position */
    int frames, entries;
} ring;

static void
open_ring(ring *r, int n)
{
    memset(r, 0, sizeof(*r));
    r->n = n;
    tap_shuffle(r->order, n);
    for (int i = 0; i < n; i++)
        r->heartbeats[i] = hp_heartbeats_new(n, i, r->order);
}

static void
close_ring(ring *r)
{
    for (int i = 0; i < r->n; i++)
        hp_heartbeats_free(r->heartbeats[i]);
}

static int
is_deaf(const ring *r, int position)
{
    return r->deaf[r->order[position]];
}

/* One frame from a position to the one before it, if there is something to tell. */
static int
pass(ring *r, int position, uint64_t now)
{
    uint8_t bytes[HP_HEARTBEATS_BYTES], *exact;
    int before = (position + r->n - 1) % r->n;
    size_t n = hp_heartbeats_put(r->heartbeats[position], r->order[before], bytes);
    if (!n)
        return 0;
    hp_heartbeats_taken(r->heartbeats[position]);
    r->frames++;
    r->entries += (int)(n / HP_HEARTBEAT_BYTES);
    exact = memcpy(malloc(n), bytes, n);
    if (!is_deaf(r, before) && !hp_heartbeats_receive(r->heartbeats[before], exact, n, now))
        bail("a frame that cannot be read");
    free(exact);
    return 1;
}

/* In some order, until no rank has anything to pass on. */
static void
flood(ring *r, uint64_t now)
{
    int more = 1;
    while (more) {
        more = 0;
        for (int k = 0, i = (int)(tap_random() % (uint64_t)r->n); k < r->n; k++, i = (i + 1) % r->n)
            if (!is_deaf(r, i))
                more |= pass(r, i, now);
    }
}

/* Ranks wait for whom waits[] says, by position; without it for the one before. */
static void
everybody_says(ring *r, const int *waits, uint64_t sequence, uint64_t step, uint64_t now)
{
    for (int i = 0; i < r->n; i++) {
        int before = r->order[(i + r->n - 1) % r->n];
        hp_report report = {.sequence = sequence, .step = step, .awaited = {HP_WAIT_PEER, waits ? waits[i] : before}};
        if (!is_deaf(r, i) && !r->mute[r->order[i]])
            hp_heartbeats_make(r->heartbeats[i], &report, sequence - 1, 0, now);
    }
    flood(r, now);
}

/* A rank that is blamed has one that waits for it, which the sentence can name. */
static int
is_witnessed(const hp_heartbeats *t, const hp_blame *b)
{
    if (b->guilt != HP_GUILT_SILENT && b->guilt != HP_GUILT_ABSENT)
        return 1;
    return b->other >= 0 && b->other != b->rank && t->of[b->other].report.awaited.rank == b->rank;
}

/* How many name this rank for this; -1: one names another. */
static int
named(const ring *r, int rank, hp_guilt guilt, uint64_t alive)
{
    int n = 0;
    for (int i = 0; i < r->n; i++) {
        hp_blame b = hp_heartbeats_blame(r->heartbeats[i], OPERATION, alive);
        if (is_deaf(r, i) || b.guilt == HP_GUILT_NONE)
            continue;
        n++;
        if (b.rank == rank && b.guilt == guilt && is_witnessed(r->heartbeats[i], &b))
            continue;
        diag("%d ranks, position %d (rank %d) names %d for %d, not %d for %d", r->n, i, r->order[i], b.rank,
             (int)b.guilt, rank, (int)guilt);
        return -1;
    }
    return n;
}

/* Whether the rank at a position can blame one, and is to log it. */
static int
tells(const ring *r, int position, uint64_t alive)
{
    const hp_heartbeats *t = r->heartbeats[position];
    return !is_deaf(r, position) && hp_heartbeats_blame(t, OPERATION, alive).guilt &&
           hp_heartbeats_should_warn(t, alive);
}

/* How many of the ranks that blame one are to log it. */
static int
speakers(const ring *r, uint64_t alive)
{
    int n = 0;
    for (int i = 0; i < r->n; i++)
        n += tells(r, i, alive);
    return n;
}

/* A rank stops in the operation, or has not entered it: the ranks that wait for it name it, and none names another. */
static void
test_still(void)
{
    int stopped = 0, absent = 0, loud = 0, moved = 0, voices = 0;
    for (int seed = 0; seed < SEEDS; seed++) {
        ring r;
        int victim, waits[MOST], chords = seed / 2 % 2, direct = 0;
        open_ring(&r, 2 + (int)(tap_random() % (SMALL - 1)));
        victim = (int)(tap_random() % (uint64_t)r.n);
        for (int i = 0; i < r.n; i++) {
            waits[i] = r.order[chords ? (int)(tap_random() % (uint64_t)r.n) : (i + r.n - 1) % r.n];
            direct += waits[i] == victim && r.order[i] != victim;
        }
        everybody_says(&r, waits, seed % 2 ? OPERATION : OPERATION - 1, 3, 1000);
        loud += !case_ok(r.entries <= r.n * (r.n - 1) && r.frames >= r.n, "%d ranks: %d ticks in %d frames", r.n,
                         r.entries, r.frames);
        r.deaf[victim] = 1;
        for (uint64_t now = 2000; now <= 9000; now += 1000)
            everybody_says(&r, waits, OPERATION, 4, now);
        int n = named(&r, victim, seed % 2 ? HP_GUILT_SILENT : HP_GUILT_ABSENT, 8000);
        *(seed % 2 ? &stopped : &absent) +=
            case_ok(n >= direct && n >= !chords, "%d ranks, %swait for rank %d%s: %d of %d name it", r.n,
                    chords ? "any " : "the next ones ", victim, seed % 2 ? "" : ", which is absent", n, direct);
        voices +=
            case_int(n > 0, speakers(&r, 8000), "%d ranks, %d name rank %d: those that tell people", r.n, n, victim);
        for (int i = 0; i < r.n; i++)
            moved += !case_ok(r.heartbeats[i]->moved <= 2000, "%d ranks: position %d counts a tick without progress",
                              r.n, i);
        close_ring(&r);
    }
    is_int(SEEDS / 2, stopped, "a rank that stops in the operation is named by all that wait for it, at every place");
    is_int(SEEDS / 2, absent, "so is one that has not entered it");
    is_int(0, loud, "a tick goes round once and never comes back");
    is_int(0, moved, "ticks without progress are none");
    is_int(SEEDS, voices, "however many name it, one of them tells people");
}

/* A rank that rests, done with its part, is not taken for the stalled one, though it is silent, too. */
static void
test_rest(void)
{
    ring r;
    open_ring(&r, 8);
    everybody_says(&r, NULL, OPERATION, 3, 1000);
    int resting = r.order[3], victim = r.order[6], waits[8];
    for (int i = 0; i < 8; i++)
        waits[i] = r.order[i < 6 ? 6 : i - 1];
    r.deaf[resting] = r.deaf[victim] = 1;
    everybody_says(&r, waits, OPERATION, 3, 9000);
    is_int(2, named(&r, victim, HP_GUILT_SILENT, 8000),
           "ranks between see which one they wait for, the others name none");
    close_ring(&r);
}

/* How many of them are sure, and log it at this time. */
static int
sure(const ring *r, uint64_t alive, uint64_t interval, uint64_t now)
{
    int n = 0;
    for (int i = 0; i < r->n; i++)
        n += hp_heartbeats_is_sure(r->heartbeats[i], tells(r, i, alive), interval, now);
    return n;
}

/*
 * Rank 2 wakes up, and passes on the heartbeats of those behind it before it makes one of its own. Rank 1 sees then
 * that rank 3 waits for it. Rank 0 has told people already, so rank 1 must wait for the next heartbeat before it does.
 */
static void
test_woken(void)
{
    enum { INTERVAL = 1000 };
    const int waits[] = {2, 3, 0, 2};
    ring r;
    open_ring(&r, 4);
    for (int i = 0; i < 4; i++)
        r.order[i] = i;
    r.deaf[2] = 1;
    for (uint64_t now = 1000; now <= 8000; now += INTERVAL)
        everybody_says(&r, waits, OPERATION, 3, now);
    is_int(0, sure(&r, 7000, INTERVAL, 8000), "a rank that sees which one sleeps does not tell people at once");
    is_int(0, sure(&r, 7000, INTERVAL, 8999), "nor a moment before it has seen so for an interval");
    is_int(1, sure(&r, 7000, INTERVAL, 9000), "then it does");
    r.deaf[2] = 0, r.mute[2] = 1;
    everybody_says(&r, waits, OPERATION, 3, 9000);
    is_int(2, speakers(&r, 8000), "when that one wakes up, a second rank sees the same");
    is_int(1, sure(&r, 8000, INTERVAL, 9000), "but does not tell people");
    r.mute[2] = 0;
    everybody_says(&r, waits, OPERATION, 3, 9500);
    is_int(1, sure(&r, 8500, INTERVAL, 9500), "and the next heartbeat shows that it need not");
    is_int(1, sure(&r, 8500, INTERVAL, 10500), "not later either");
    close_ring(&r);
}

/* All are alive: the waits tell, as they tell the server. */
static void
test_alive(void)
{
    ring r;
    hp_report stuck = {.sequence = OPERATION, .step = 2, .awaited = {HP_WAIT_PEER, -1}};
    open_ring(&r, 5);
    everybody_says(&r, NULL, OPERATION, 3, 1000);
    hp_heartbeats_make(r.heartbeats[2], &stuck, OPERATION - 1, 0, 1100);
    flood(&r, 1100);
    is_int(5, named(&r, r.order[2], HP_GUILT_SELF, 900), "a rank that waits for none and does not move");
    stuck.awaited.rank = r.order[1];
    hp_heartbeats_make(r.heartbeats[2], &stuck, OPERATION - 1, 0, 1200);
    flood(&r, 1200);
    is_int(5, named(&r, r.order[2], HP_GUILT_LINK, 900), "a link between two that are alive: the one furthest behind");
    is_int(1, speakers(&r, 900), "all see it, and one of them tells");
    close_ring(&r);
}

/* The way to the previous rank takes fewer frames than there are: each rank is heard often enough all the same. */
static void
test_narrow(void)
{
    enum { RANKS = 160, BEAT = 250, FRAMES = 4, LOOKS = 2, END = 200 * BEAT };
    ring r;
    open_ring(&r, RANKS);
    int victim = (int)(tap_random() % RANKS);
    r.deaf[r.order[victim]] = 1;
    for (int now = BEAT; now <= END; now += BEAT / LOOKS)
        for (int k = 0; k < RANKS; k++) {
            int i = (victim + 1 + k) % RANKS;
            hp_report report = {.sequence = OPERATION, .step = 3, .awaited = {HP_WAIT_PEER, r.order[victim]}};
            if (i != victim && now % BEAT == 0)
                hp_heartbeats_make(r.heartbeats[i], &report, OPERATION - 1, 0, (uint64_t)now);
            for (int sent = 0; i != victim && sent < FRAMES; sent++)
                pass(&r, i, (uint64_t)now);
        }
    is_int(RANKS - 1, named(&r, r.order[victim], HP_GUILT_ABSENT, END - HP_SILENT_HEARTBEATS * BEAT),
           "%d ranks, %d ticks a beat from each to the one before: all name the stalled one", RANKS,
           LOOKS * FRAMES * HP_HEARTBEATS_BYTES / HP_HEARTBEAT_BYTES);
    close_ring(&r);
}

static void
test_progress(void)
{
    ring r;
    hp_report report = {.sequence = OPERATION, .step = 3, .bytes = 5, .awaited = {HP_WAIT_PEER, 1}};
    uint64_t before;
    open_ring(&r, 3);
    everybody_says(&r, NULL, OPERATION, 3, 1000);
    before = r.heartbeats[0]->moved;
    report.bytes = 6;
    hp_heartbeats_make(r.heartbeats[2], &report, OPERATION - 1, 0, 3000);
    flood(&r, 3000);
    ok(before == 0 && r.heartbeats[0]->moved == 3000,
       "a byte that moved somewhere is progress everywhere; what is heard "
       "first is none");
    close_ring(&r);
}

/* A rank that does not hear the server makes all others send heartbeats; those that do so because of it ask none. */
static void
test_asked(void)
{
    ring r;
    hp_report report = {.sequence = OPERATION, .awaited = {HP_WAIT_PEER, 1}};
    int asked = 0;
    open_ring(&r, 6);
    everybody_says(&r, NULL, OPERATION, 3, 1000);
    for (int i = 0; i < 6; i++)
        asked += r.heartbeats[i]->asked != 0;
    is_int(0, asked, "a rank that hears the server asks none");
    hp_heartbeats_make(r.heartbeats[2], &report, 5, 1, 2000);
    flood(&r, 2000);
    everybody_says(&r, NULL, OPERATION, 3, 3000);
    for (int i = 0; i < 6; i++)
        asked += r.heartbeats[i]->asked == 2000;
    is_int(5, asked, "one that does not asks all others, once");
    close_ring(&r);
}

static void
test_garbage(void)
{
    uint8_t good[HP_HEARTBEATS_BYTES], bytes[HP_HEARTBEATS_BYTES];
    int refused = 0, taken = 0;
    ring r;
    open_ring(&r, 4);
    hp_report report = {.sequence = OPERATION, .awaited = {HP_WAIT_PEER, 3}};
    hp_heartbeats_make(r.heartbeats[1], &report, 5, 0, 1000);
    is_uint(HP_HEARTBEAT_BYTES, hp_heartbeats_put(r.heartbeats[1], r.order[0], good), "one tick");
    is_uint(HP_HEARTBEAT_BYTES, hp_heartbeats_put(r.heartbeats[1], r.order[0], bytes), "stays until it was taken");
    hp_heartbeats_taken(r.heartbeats[1]);
    is_uint(0, hp_heartbeats_put(r.heartbeats[1], r.order[0], bytes), "is told once");
    for (size_t n = 1; n < HP_HEARTBEAT_BYTES; n++)
        refused += !hp_heartbeats_receive(r.heartbeats[0], good, n, 1);
    is_int(HP_HEARTBEAT_BYTES - 1, refused, "no part of one is accepted");
    static const struct {
        size_t at;
        uint32_t value;
        const char *what;
    } wrong[] = {{0, 4, "rank 4 of 4"},
                 {4, 4, "one that waits for rank 4"},
                 {4, 0xfffffffe, "for rank -2"},
                 {12, 0, "beat 0"},
                 {8, 2, "a third way to hear"}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        memcpy(bytes, good, HP_HEARTBEAT_BYTES);
        hp_put32(bytes + wrong[i].at, wrong[i].value);
        ok(!hp_heartbeats_receive(r.heartbeats[0], bytes, HP_HEARTBEAT_BYTES, 1), "%s is refused", wrong[i].what);
    }
    for (int i = 0; i < 100000; i++) {
        memcpy(bytes, good, HP_HEARTBEAT_BYTES);
        for (int flips = 1 + (int)(tap_random() % 4); flips > 0; flips--)
            bytes[tap_random() % HP_HEARTBEAT_BYTES] = (uint8_t)tap_random();
        taken += hp_heartbeats_receive(r.heartbeats[0], bytes, HP_HEARTBEAT_BYTES, 1);
        hp_blame b = hp_heartbeats_blame(r.heartbeats[0], OPERATION, 1);
        if (b.rank < -1 || b.rank >= 4 || b.other >= 4)
            bail("an impossible rank is named");
    }
    ok(taken > 0, "%d damaged ticks are read, and no impossible rank is named", taken);
    close_ring(&r);
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    test_still();
    test_rest();
    test_woken();
    test_alive();
    test_narrow();
    test_progress();
    test_asked();
    test_garbage();
    return tap_failures() != 0;
}
