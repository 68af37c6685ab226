/* SPDX-License-Identifier: MIT */
/*
 * allgatherv and reduce_scatterv on real rings of processes: counts of many shapes (t/sim/blocks.h), blocks in any order
 * with gaps between them, in place and not, in flight, in groups and over several channels, against t/sim/answer.c
 * (trial.h). collectives.c has their types and operations. Then what callers do wrong.
 */
#include "t/sys/trial.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 8, KINDS = 2, LAYOUTS = 3, SHAPES = 4 };

/* --- shapes of counts --- */

/* `count` elements in a shape of sim_blocks, the rest by the seed: in the ranks' order, close together, or with gaps. */
static trial
trial_of(int i, size_t count, uint64_t seed)
{
    static const uint32_t layouts[LAYOUTS] = {3 << 8, 0, 1 << 7};
    uint32_t shape = (uint32_t)(i / KINDS / 2 / LAYOUTS % SHAPES), random = (uint32_t)(seed >> 32);
    trial t = {.seed = seed, .in_place = i / KINDS % 2};
    t.call = (hp_call){.kind = i % KINDS ? HP_REDUCE_SCATTERV : HP_ALLGATHERV, .dtype = HOOP_FLOAT32, .count = count};
    t.call.root = (int32_t)((random & 0xfc7c) | layouts[i / KINDS / 2 % LAYOUTS] | shape);
    return t;
}

static int
try_shapes(hoop_comm *comm, uint64_t seed)
{
    size_t n = (size_t)hoop_comm_size(comm);
    const size_t counts[] = {0, 1, n, n * (n + 1), 97, 10007, 65536 * n - 1, 65536 * n, 65536 * n + 1};
    for (int i = 0; i < 9 * SHAPES * LAYOUTS * 2 * KINDS; i++) {
        trial t = trial_of(i, counts[i / KINDS / 2 / LAYOUTS / SHAPES], tap_mix(seed + (uint64_t)i));
        if (t.call.count > 20000 && i % 5) /* of the long ones each shape and layout in turn */
            continue;
        if (!trial_succeeds(&t, comm))
            return 0;
    }
    return 1;
}

static int
try_random(hoop_comm *comm, uint64_t seed)
{
    for (uint64_t k = 0; k < 150; k++) {
        uint64_t random = tap_mix(seed + k);
        trial t = trial_of((int)(random & 0xffff), (size_t)(random >> 16 & ((UINT64_C(1) << random % 18) - 1)), random);
        t.call.dtype = random >> 11 & 1 ? HOOP_INT64 : HOOP_UINT8;
        if (!trial_succeeds(&t, comm))
            return 0;
    }
    return 1;
}

/* Many at once: started one by one, or queued in a group, each with operations of other kinds between them. */
static int
flight(hoop_comm *comm, uint64_t seed, int grouped)
{
    enum { N = 24 };
    int size = hoop_comm_size(comm), good = !grouped || hoop_group_start(comm) == HOOP_SUCCESS;
    trial t[N];
    hoop_work *work[2 * N] = {NULL};
    int32_t ones[N], sums[N];
    for (int i = 0; i < N; i++) {
        uint64_t random = tap_mix(seed + (uint64_t)i);
        t[i] = trial_of((int)(random & 0xffff), (size_t)(random % 5000 * (uint64_t)size), random);
        ones[i] = 1;
        trial_make(&t[i], comm);
        good &= trial_call(&t[i], comm, grouped ? NULL : &work[2 * i]) == HOOP_SUCCESS;
        good &= (grouped ? hoop_allreduce(&ones[i], &sums[i], 1, HOOP_INT32, HOOP_SUM, comm)
                         : hoop_iallreduce(&ones[i], &sums[i], 1, HOOP_INT32, HOOP_SUM, comm, &work[2 * i + 1])) ==
                HOOP_SUCCESS;
    }
    good &= (grouped ? hoop_group_end(comm) : hoop_wait_all(work, 2 * N)) == HOOP_SUCCESS;
    for (int i = 0; i < N; i++) {
        good = good && trial_result_is_right(&t[i]) && trial_is_untouched(&t[i]) && sums[i] == size;
        trial_drop(&t[i]);
    }
    return good;
}

static int
try_flight(hoop_comm *comm, uint64_t seed)
{
    return flight(comm, seed, 0);
}

static int
try_group(hoop_comm *comm, uint64_t seed)
{
    return flight(comm, seed, 1);
}

/* Blocks that are worth several channels, and some that are not. */
static int
try_large(hoop_comm *comm, uint64_t seed)
{
    for (int i = 0; i < SHAPES * LAYOUTS * 2 * KINDS; i += 7) {
        trial t = trial_of(i, 1000003, tap_mix(seed + (uint64_t)i));
        t.call.dtype = HOOP_INT32;
        if (!trial_succeeds(&t, comm))
            return 0;
    }
    return 1;
}

/* --- what callers do wrong --- */

static int
refused(hoop_comm *comm, hoop_result result, const char *words)
{
    hoop_error e = {.size = sizeof(e)};
    hoop_comm_error(comm, &e);
    if (result == HOOP_ERR_INVALID_ARGUMENT && e.code == result && strstr(e.text, words))
        return 1;
    party_note("wanted a refusal with \"%s\", got %d, \"%s\"", words, (int)result, e.text);
    return 0;
}

/* Two ranks. Each mistake loses nothing: the ring works on. t/lib/request.c has the others; here the blocks overlap. */
static int
try_mistakes(hoop_comm *comm, uint64_t seed)
{
    size_t rank = (size_t)hoop_comm_rank(comm), same[2] = {1, 1}, far[2] = {0, SIZE_MAX / 4};
    const size_t counts[2] = {3, 5}, over[2] = {0, 2};
    int32_t small[8] = {0}, large[16] = {0};
    hoop_work *work;
    int good = refused(comm, hoop_allgatherv(small, large, counts[rank], counts, over, HOOP_INT32, comm),
                       "blocks of ranks 0 and 1 overlap");
    good &= refused(comm, hoop_ireduce_scatterv(large, small, counts, same, HOOP_INT32, HOOP_SUM, comm, &work),
                    "blocks of ranks 0 and 1 overlap");
    good &= hoop_allgatherv(rank ? large + 9 : NULL, large, rank, (size_t[2]){0, 1}, NULL, HOOP_INT32, comm) == 0;
    good &= hoop_reduce_scatterv(NULL, NULL, (size_t[2]){0, 0}, far, HOOP_INT32, HOOP_SUM, comm) == HOOP_SUCCESS;
    /* this rank's block is sent from a gap of the larger array, and received into one */
    good &= hoop_allgatherv(large + 8, large, counts[rank], counts, (size_t[2]){5, 0}, HOOP_INT32, comm) == 0;
    return good && hoop_reduce_scatterv(large, large + 8, counts, (size_t[2]){5, 0}, HOOP_INT32, HOOP_SUM, comm) == 0;
}

/*
 * Rank 2 disagrees: one more for rank 0 and one less for rank 1, or an allgather instead. Whom the
 * sentence names first is t/rendezvous/disagreement.c's matter: it depends on whose call has come within a fifth of a second.
 */
static int
disagrees(int rank, int size, void *arg)
{
    size_t counts[MOST_RANKS];
    float small[8] = {0}, large[8 * MOST_RANKS] = {0};
    hoop_comm *comm = party_join(1);
    hoop_error e = {.size = sizeof(e)};
    hoop_result result;
    const char *wanted =
        *(int *)arg ? "allgatherv of 12 x float32" : "allgatherv of 12 x float32, with other recvcounts";
    for (int r = 0; r < size; r++)
        counts[r] = 4 + (size_t)(rank == 2 && r == 0) - (size_t)(rank == 2 && r == 1);
    if (*(int *)arg && rank == 2)
        result = hoop_allgather(small, large, 4, HOOP_FLOAT32, comm);
    else
        result = hoop_allgatherv(small, large, counts[rank], counts, NULL, HOOP_FLOAT32, comm);
    hoop_comm_error(comm, &e);
    party_note("%d %s", (int)result, e.text);
    hoop_comm_destroy(comm);
    return result != HOOP_ERR_MISMATCH || !strstr(e.text, wanted) || !strstr(e.text, "rank 2 ");
}

/* --- the party --- */

static const struct {
    int (*fn)(hoop_comm *comm, uint64_t seed);
    const char *name, *channels;
} modes[] = {{try_shapes, "shapes of counts, gaps and in place", "1"},
             {try_random, "random counts", "1"},
             {try_flight, "24 in flight", "1"},
             {try_group, "24 in a group", "1"},
             {try_large, "three channels", "3"},
             {try_mistakes, "mistakes", "1"}};
enum { MISTAKES = 5 };

typedef struct job {
    uint64_t seed;
    int mode;
} job;

static int
guest(int rank, int size, void *arg)
{
    const job *j = arg;
    setenv("HOOP_CHANNELS", modes[j->mode].channels, 1);
    hoop_comm *comm = party_join(0);
    int good = modes[j->mode].fn(comm, j->seed);
    return hoop_comm_destroy(comm) == HOOP_SUCCESS && good ? 0 : 2;
}

int
main(void)
{
    static const int sizes[] = {1, 2, 3, 4, 5, MOST_RANKS};
    party p;
    tap_limit(240);
    plan_lazy();
    party_open(&p);
    for (int mode = 0; mode <= MISTAKES; mode++)
        for (int i = 0; i < 6; i++) {
            job j = {tap_seed() + (uint64_t)(10 * mode + sizes[i]), mode};
            if (mode != MISTAKES || sizes[i] == 2)
                ok(party_run(&p, sizes[i], guest, &j, 100) == 0, "%s, %d ranks", modes[mode].name, sizes[i]);
        }
    for (int other = 0; other < 2; other++) {
        ok(party_run(&p, 3, disagrees, &other, 100) == 0, "%s: all ranks get both calls",
           other ? "an allgather instead" : "other counts, the same total");
        diag("%s", p.guest[0].note);
    }
    party_close(&p);
    return 0;
}
