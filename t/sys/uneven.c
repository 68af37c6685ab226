/* SPDX-License-Identifier: MIT */
/*
 * allgatherv and reduce_scatterv on real rings of processes: counts of many shapes, blocks in any order with gaps between
 * them, in place and not, in every form, type and operation, against a reference that each rank computes alone. Outputs
 * are poisoned first; gaps, guards and inputs must be untouched. Then what callers do wrong.
 */
#include "hoop.h"
#include "t/gpu/reference.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 8, GUARD = 64, POISON = 0xa5, VALUES = 64 };
enum { GATHER, REDUCE, KINDS };
static const char *const names[KINDS] = {"allgatherv", "reduce_scatterv"};

typedef struct trial {
    int kind, in_place, gaps;
    hoop_dtype dtype;
    hoop_op op;
    uint64_t seed;
    size_t counts[MOST_RANKS];
} trial;

/* --- data --- */

static int
is_narrow(hoop_dtype dtype)
{
    return dtype == HOOP_FLOAT16 || dtype >= HOOP_BFLOAT16;
}

/*
 * Small whole numbers, of which every type and operation here gives an exact result: of a product one factor is 2, and
 * the mean is whole. The means of narrow floats are rounded on their way, unless all ranks have the same number.
 */
static int
value_of(const trial *t, int rank, int size, uint64_t i)
{
    int base = (int)(tap_mix(t->seed ^ i) % 4), turn = (int)((i + (uint64_t)rank) % (uint64_t)size);
    if (t->kind == GATHER)
        return (int)(tap_mix(t->seed ^ ((uint64_t)rank << 40) ^ i) % 4);
    if (t->op == HOOP_PROD)
        return turn == 0 ? 2 : 1;
    return t->op == HOOP_AVG && is_narrow(t->dtype) ? base : base + 2 * turn;
}

static int
reduced(const trial *t, int size, uint64_t i)
{
    int result = value_of(t, 0, size, i);
    for (int r = 1; r < size; r++) {
        int v = value_of(t, r, size, i);
        if (t->op == HOOP_PROD)
            result *= v;
        else if (t->op == HOOP_MAX || t->op == HOOP_MIN)
            result = (t->op == HOOP_MAX) == (v > result) ? v : result;
        else
            result += v;
    }
    return t->op == HOOP_AVG ? result / size : result;
}

/* The reference's encoder searches; there are few values. */
static uint64_t
element_of(hoop_dtype dtype, int value)
{
    static uint64_t kept[HOOP_FLOAT8E5M2 + 1][4 * VALUES];
    uint64_t *element = &kept[dtype][value], bits = 0;
    float single = (float)value;
    double wide = value;
    if (*element || value == 0)
        return *element;
    if (is_narrow(dtype))
        bits = ref_encode(dtype, value);
    else if (dtype == HOOP_FLOAT32)
        memcpy(&bits, &single, sizeof(single));
    else if (dtype == HOOP_FLOAT64)
        memcpy(&bits, &wide, sizeof(wide));
    else
        bits = (uint64_t)value;
    return *element = bits;
}

/* Element i of block b has this number in the data of a rank that has all blocks. */
static uint64_t
number_of(int block, uint64_t i)
{
    return (uint64_t)block << 32 | i;
}

/* --- arrays --- */

typedef struct arrays {
    size_t elem, displs[MOST_RANKS], large_bytes, small_bytes;
    uint8_t *large, *small; /* that with all blocks, and that with this rank's */
    uint8_t *before;        /* a copy of the large one, guard included */
} arrays;

/* With gaps each rank has the blocks in an order of its own, some elements apart. Returns the elements they span. */
static size_t
lay_out(const trial *t, int rank, int size, size_t displs[MOST_RANKS])
{
    size_t at = 0;
    for (int k = 0; k < size; k++) {
        uint64_t random = tap_mix(t->seed + (uint64_t)rank * 8 + (uint64_t)k);
        int r = t->gaps ? (k * (t->seed % 2 ? size - 1 : 1) + rank) % size : k;
        at += t->gaps ? random % 5 * (random % 3) : 0;
        displs[r] = at;
        at += t->counts[r];
    }
    return at + (t->gaps ? 3 : 0);
}

static void
make(arrays *a, const trial *t, int rank, int size)
{
    a->elem = hoop_dtype_size(t->dtype);
    a->large_bytes = lay_out(t, rank, size, a->displs) * a->elem;
    a->small_bytes = t->counts[rank] * a->elem;
    a->large = malloc(a->large_bytes + GUARD);
    a->before = malloc(a->large_bytes + GUARD);
    a->small = t->in_place ? a->large + a->displs[rank] * a->elem : malloc(a->small_bytes + GUARD);
    memset(a->large, POISON, a->large_bytes + GUARD);
    if (!t->in_place)
        memset(a->small, POISON, a->small_bytes + GUARD);
    for (size_t i = 0; i < t->counts[rank] && t->kind == GATHER; i++)
        ref_put(t->dtype, a->small, i, element_of(t->dtype, value_of(t, rank, size, i)));
    for (int b = 0; b < size && t->kind == REDUCE; b++)
        for (size_t i = 0; i < t->counts[b]; i++)
            ref_put(t->dtype, a->large, a->displs[b] + i,
                    element_of(t->dtype, value_of(t, rank, size, number_of(b, i))));
    memcpy(a->before, a->large, a->large_bytes + GUARD);
}

static void
drop(arrays *a, const trial *t)
{
    if (!t->in_place)
        free(a->small);
    free(a->large);
    free(a->before);
}

/* The large array as it must be afterwards, in `before`; whether it is. */
static int
large_is_right(arrays *a, const trial *t, int rank, int size)
{
    for (int b = 0; b < size && t->kind == GATHER; b++)
        for (size_t i = 0; i < t->counts[b]; i++)
            ref_put(t->dtype, a->before, a->displs[b] + i, element_of(t->dtype, value_of(t, b, size, i)));
    for (size_t i = 0; i < t->counts[rank] && t->kind == REDUCE && t->in_place; i++)
        ref_put(t->dtype, a->before, a->displs[rank] + i, element_of(t->dtype, reduced(t, size, number_of(rank, i))));
    return memcmp(a->large, a->before, a->large_bytes + GUARD) == 0;
}

static int
small_is_right(const arrays *a, const trial *t, int rank, int size)
{
    for (size_t i = 0; i < t->counts[rank]; i++) {
        int value = t->kind == GATHER ? value_of(t, rank, size, i) : reduced(t, size, number_of(rank, i));
        if (ref_get(t->dtype, a->small, i) != element_of(t->dtype, value))
            return 0;
    }
    for (size_t i = 0; i < GUARD && !t->in_place; i++)
        if (a->small[a->small_bytes + i] != POISON)
            return 0;
    return 1;
}

static int
is_right(arrays *a, const trial *t, int rank, int size)
{
    int large = large_is_right(a, t, rank, size), small = small_is_right(a, t, rank, size);
    if (large && small)
        return 1;
    party_note("%s of dtype %d op %d, seed %ju,%s%s: the %s array is wrong; counts %zu %zu %zu %zu ...", names[t->kind],
               (int)t->dtype, (int)t->op, (uintmax_t)t->seed, t->in_place ? " in place," : "", t->gaps ? " gaps" : "",
               large ? "smaller" : "larger", t->counts[0], t->counts[1], t->counts[2], t->counts[3]);
    return 0;
}

/* --- calls --- */

/* The caller's arrays of numbers change as soon as the call has returned. */
static hoop_result
call(const trial *t, const arrays *a, int rank, hoop_comm *comm, hoop_work **work)
{
    size_t counts[MOST_RANKS], displs[MOST_RANKS], *at = t->gaps ? displs : NULL;
    hoop_result result;
    memcpy(counts, t->counts, sizeof(counts));
    memcpy(displs, a->displs, sizeof(displs));
    if (t->kind == GATHER)
        result = work ? hoop_iallgatherv(a->small, a->large, counts[rank], counts, at, t->dtype, comm, work)
                      : hoop_allgatherv(a->small, a->large, counts[rank], counts, at, t->dtype, comm);
    else
        result = work ? hoop_ireduce_scatterv(a->large, a->small, counts, at, t->dtype, t->op, comm, work)
                      : hoop_reduce_scatterv(a->large, a->small, counts, at, t->dtype, t->op, comm);
    memset(counts, 0xff, sizeof(counts));
    memset(displs, 0xff, sizeof(displs));
    return result;
}

static int
one(const trial *t, hoop_comm *comm)
{
    int rank = hoop_comm_rank(comm), size = hoop_comm_size(comm);
    arrays a;
    make(&a, t, rank, size);
    int good = call(t, &a, rank, comm, NULL) == HOOP_SUCCESS && is_right(&a, t, rank, size);
    drop(&a, t);
    return good;
}

/* --- shapes of counts --- */

enum { SHAPES = 12 };

static size_t
count_of(int shape, uint64_t seed, int rank, int size)
{
    static const size_t primes[MOST_RANKS] = {2, 65537, 3, 10007, 7919, 97, 31, 40009};
    uint64_t random = tap_mix(seed + (uint64_t)rank), chosen = seed % (uint64_t)size == (uint64_t)rank;
    switch (shape) {
    case 0: return 0;
    case 1: return chosen ? 300007 : 0;
    case 2: return chosen ? 0 : 10007;
    case 3: return primes[rank];
    case 4: return 1;
    case 5: return (size_t)size + 1;
    case 6: return (size_t)rank;
    case 7: return (size_t)(size - 1 - rank) * 16;
    case 8: return random % 5000;
    case 9: return random % 3 ? random >> 8 & ((UINT64_C(1) << random % 18) - 1) : 0;
    case 10: return 65536 + random % 3 - 1;
    default: return chosen ? 1 << 18 : 1 + random % 2;
    }
}

static trial
trial_of(int shape, uint64_t seed, int size)
{
    trial t = {.seed = seed, .dtype = HOOP_FLOAT32, .op = HOOP_SUM};
    for (int r = 0; r < size; r++)
        t.counts[r] = count_of(shape, seed, r, size);
    return t;
}

static int
try_shapes(hoop_comm *comm, uint64_t seed)
{
    for (int shape = 0; shape < SHAPES; shape++)
        for (int k = 0; k < KINDS * 4; k++) {
            trial t = trial_of(shape, tap_mix(seed + (uint64_t)(100 * shape + k)), hoop_comm_size(comm));
            t.kind = k % KINDS;
            t.in_place = k / KINDS % 2;
            t.gaps = k / KINDS / 2;
            if (!one(&t, comm))
                return 0;
        }
    return 1;
}

static int
try_random(hoop_comm *comm, uint64_t seed)
{
    for (uint64_t k = 0; k < 150; k++) {
        uint64_t random = tap_mix(seed + k);
        trial t = trial_of(8 + (int)(random % 2), random, hoop_comm_size(comm));
        t.kind = (int)(random >> 8 & 1);
        t.in_place = (int)(random >> 9 & 1);
        t.gaps = (int)(random >> 10 & 1);
        t.dtype = random >> 11 & 1 ? HOOP_INT64 : HOOP_UINT8;
        if (!one(&t, comm))
            return 0;
    }
    return 1;
}

/* Sums of 8-bit floats would be rounded. */
static int
try_types(hoop_comm *comm, uint64_t seed)
{
    for (int dtype = HOOP_INT8; dtype <= HOOP_FLOAT8E5M2; dtype++)
        for (int op = HOOP_SUM; op <= HOOP_AVG; op++)
            for (int kind = 0; kind < KINDS; kind++) {
                trial t = trial_of(8, tap_mix(seed + (uint64_t)(dtype * 10 + op)), hoop_comm_size(comm));
                t.kind = kind;
                t.gaps = op % 2;
                t.dtype = (hoop_dtype)dtype;
                t.op = dtype >= HOOP_FLOAT8E4M3 && op == HOOP_SUM ? HOOP_PROD : (hoop_op)op;
                if (!one(&t, comm))
                    return 0;
            }
    return 1;
}

/* Many at once: started one by one, then queued in a group, each with operations of other kinds between them. */
static int
try_flight(hoop_comm *comm, uint64_t seed, int grouped)
{
    enum { N = 24 };
    int rank = hoop_comm_rank(comm), size = hoop_comm_size(comm), good = 1;
    trial t[N];
    arrays a[N];
    hoop_work *work[2 * N] = {NULL};
    int32_t ones[N], sums[N];
    good &= !grouped || hoop_group_start(comm) == HOOP_SUCCESS;
    for (int i = 0; i < N; i++) {
        uint64_t random = tap_mix(seed + (uint64_t)i);
        t[i] = trial_of((int)(random % SHAPES), random, size);
        t[i].kind = (int)(random >> 32 & 1);
        t[i].in_place = (int)(random >> 33 & 1);
        t[i].gaps = (int)(random >> 34 & 1);
        ones[i] = 1;
        make(&a[i], &t[i], rank, size);
        good &= call(&t[i], &a[i], rank, comm, grouped ? NULL : &work[2 * i]) == HOOP_SUCCESS;
        good &= (grouped ? hoop_allreduce(&ones[i], &sums[i], 1, HOOP_INT32, HOOP_SUM, comm)
                         : hoop_iallreduce(&ones[i], &sums[i], 1, HOOP_INT32, HOOP_SUM, comm, &work[2 * i + 1])) ==
                HOOP_SUCCESS;
    }
    good &= (grouped ? hoop_group_end(comm) : hoop_wait_all(work, 2 * N)) == HOOP_SUCCESS;
    for (int i = 0; i < N; i++) {
        good = good && is_right(&a[i], &t[i], rank, size) && sums[i] == size;
        drop(&a[i], &t[i]);
    }
    return good;
}

/* Blocks that are worth several channels, and some that are not. */
static int
try_large(hoop_comm *comm, uint64_t seed)
{
    for (int k = 0; k < KINDS * 2; k++) {
        trial t = trial_of(9, tap_mix(seed + (uint64_t)k), hoop_comm_size(comm));
        for (int r = 0; r < hoop_comm_size(comm); r++)
            t.counts[r] += r % 2 ? 700001 : 17 * (size_t)r;
        t.counts[0] += 1000003;
        t.kind = k % KINDS;
        t.in_place = t.gaps = k / KINDS;
        t.dtype = HOOP_INT32;
        if (!one(&t, comm))
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

/* Two ranks. Each mistake loses nothing: the ring works on. */
static int
try_mistakes(hoop_comm *comm)
{
    size_t rank = (size_t)hoop_comm_rank(comm), huge[2] = {SIZE_MAX / 8, 1}, same[2] = {1, 1},
           far[2] = {0, SIZE_MAX / 4};
    const size_t counts[2] = {3, 5}, over[2] = {0, 2}, gap[2] = {6, 1};
    int32_t small[8] = {0}, large[16] = {0};
    hoop_work *work;
    int good = refused(comm, hoop_allgatherv(small, large, counts[rank], NULL, NULL, HOOP_INT32, comm), "recvcounts");
    good &= refused(comm, hoop_allgatherv(small, large, 4, counts, NULL, HOOP_INT32, comm), "sendcount is 4, but");
    good &= refused(comm, hoop_allgatherv(small, large, counts[rank], counts, over, HOOP_INT32, comm),
                    "blocks of ranks 0 and 1 overlap");
    good &= refused(comm, hoop_reduce_scatterv(large, small, counts, over, HOOP_INT32, HOOP_SUM, comm), "overlap");
    good &= refused(comm, hoop_ireduce_scatterv(large, small, counts, same, HOOP_INT32, HOOP_SUM, comm, &work),
                    "blocks of ranks 0 and 1 overlap");
    good &= refused(comm, hoop_allgatherv(large + 1, large, counts[rank], counts, NULL, HOOP_INT32, comm), "in-place");
    good &= refused(comm, hoop_reduce_scatterv(large, large + 7, counts, gap, HOOP_INT32, HOOP_SUM, comm), "in-place");
    good &= refused(comm, hoop_reduce_scatterv(large, small, huge, NULL, HOOP_INT32, HOOP_SUM, comm), "address range");
    good &= refused(comm, hoop_reduce_scatterv(large, small, counts, far, HOOP_INT32, HOOP_SUM, comm), "address range");
    good &=
        refused(comm, hoop_reduce_scatterv(NULL, small, counts, NULL, HOOP_INT32, HOOP_SUM, comm), "sendbuf is NULL");
    good &=
        refused(comm, hoop_reduce_scatterv(large, NULL, counts, NULL, HOOP_INT32, HOOP_SUM, comm), "recvbuf is NULL");
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

typedef struct job {
    uint64_t seed;
    int mode;
} job;

enum { SHAPED, RANDOM, TYPES, FLIGHT, GROUPS, CHANNELS, MISTAKES, MODES };
static const char *const modes[MODES] = {"shapes of counts, gaps and in place",
                                         "random counts",
                                         "types and operations",
                                         "24 in flight",
                                         "24 in a group",
                                         "three channels",
                                         "mistakes"};

static int
guest(int rank, int size, void *arg)
{
    const job *j = arg;
    int good;
    (void)rank;
    (void)size;
    if (j->mode == CHANNELS)
        setenv("HOOP_CHANNELS", "3", 1);
    hoop_comm *comm = party_join(0);
    switch (j->mode) {
    case SHAPED: good = try_shapes(comm, j->seed); break;
    case RANDOM: good = try_random(comm, j->seed); break;
    case TYPES: good = try_types(comm, j->seed); break;
    case CHANNELS: good = try_large(comm, j->seed); break;
    case MISTAKES: good = try_mistakes(comm); break;
    default: good = try_flight(comm, j->seed, j->mode == GROUPS); break;
    }
    return hoop_comm_destroy(comm) == HOOP_SUCCESS && good ? 0 : 2;
}

static int
succeeds(party *p, int mode, int size)
{
    job j = {tap_seed() + (uint64_t)(10 * mode + size), mode};
    int failed = party_run(p, size, guest, &j, 100);
    for (int r = 0; r < size && failed; r++)
        diag("rank %d: %s", r, p->guest[r].note);
    return ok(failed == 0, "%s, %d ranks", modes[mode], size);
}

int
main(void)
{
    static const int sizes[] = {1, 2, 3, 4, 5, MOST_RANKS};
    party p;
    tap_limit(240);
    plan_lazy();
    party_open(&p);
    for (int mode = SHAPED; mode < MISTAKES; mode++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
            succeeds(&p, mode, sizes[i]);
    succeeds(&p, MISTAKES, 2);
    for (int other = 0; other < 2; other++) {
        ok(party_run(&p, 3, disagrees, &other, 100) == 0, "%s: all ranks get both calls",
           other ? "an allgather instead" : "other counts, the same total");
        diag("%s", p.guest[0].note);
    }
    party_close(&p);
    return 0;
}
