/* SPDX-License-Identifier: MIT */
/*
 * Reductions in rank order on real rings of processes: the bits depend on the ranks' values alone. What one array gives
 * by itself (compared with t/sim/answer.c, float64 with a loop here) it gives at any place in larger arrays, in a group,
 * in place, as block of a reduce_scatter, to a root, over one channel and two, through memory and over TCP. In the order of
 * hosts the same, with two ranks or three on a host; to a root, and if hosts are uneven as blocks, they are in rank order.
 */
#include "base/dtype.h"
#include "hoop.h"
#include "t/sim/sim.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEW = 1003, COPIES = 331, MOST = FEW * COPIES };

typedef struct job {
    uint64_t seed;
    int host;   /* so many ranks are on a host, and are combined first; 0: in rank order */
    int cyclic; /* ... of which each host has one, then each one more; and two levels are forbidden elsewhere */
} job;

/* One array of a type and an operation, and what is made of it. */
typedef struct trial {
    hoop_comm *comm;
    hp_call call;
    uint64_t seed;
    int rank, size, host, cyclic;
    size_t elem;
    uint8_t *x, *wanted; /* FEW elements */
    uint8_t *send, *recv;
} trial;

/* Of all magnitudes, and some that cancel. */
static double
wide(uint64_t seed, int rank, uint64_t i)
{
    uint64_t random = tap_mix(seed ^ tap_mix((uint64_t)rank << 40 ^ i));
    return ldexp((double)(random >> 11) - 4503599627370496.0, (int)(random % 41) - 80);
}

static double
combined(const trial *t, double all, double v)
{
    switch ((hoop_op)t->call.op) {
    case HOOP_PROD: return all * v;
    case HOOP_MAX: return v > all ? v : all;
    case HOOP_MIN: return v < all ? v : all;
    default: return all + v;
    }
}

static double
wide_wanted(const trial *t, uint64_t i)
{
    double all = 0;
    int host = t->host ? t->host : 1, hosts = (t->size + host - 1) / host;
    for (int h = 0; h < hosts; h++) {
        int first = t->cyclic ? h : h * host, apart = t->cyclic ? hosts : 1;
        double sum = wide(t->seed, first, i);
        for (int k = 1, r = first + apart; k < host && r < t->size; k++, r += apart)
            sum = combined(t, sum, wide(t->seed, r, i));
        all = h == 0 ? sum : combined(t, all, sum);
    }
    return t->call.op == HOOP_AVG && t->size > 1 ? all / t->size : all;
}

static int
alone_is_right(const trial *t, char *why, size_t room)
{
    if (t->call.dtype != HOOP_FLOAT64)
        return sim_answer_is_right(&t->call, t->seed, t->rank, t->size, t->wanted, why, room);
    for (uint64_t i = 0; i < FEW; i++) {
        double wanted = wide_wanted(t, i);
        if (memcmp(t->wanted + 8 * i, &wanted, 8) != 0)
            return 0;
    }
    return 1;
}

static hoop_result
allreduce(const trial *t, const void *send, void *recv, size_t count)
{
    return hoop_allreduce(send, recv, count, (hoop_dtype)t->call.dtype, (hoop_op)t->call.op, t->comm);
}

/* Bytes to the end of the copy in which element i of an endless row lies, `most` elements at most. */
static size_t
rest_of(const trial *t, size_t i, size_t most)
{
    size_t rest = FEW - i % FEW;
    return (rest < most ? rest : most) * t->elem;
}

/* `count` elements from element `first` of an endless row of copies. */
static void
tile(const trial *t, const uint8_t *x, uint8_t *to, size_t first, size_t count)
{
    for (size_t i = 0, n; i < count; i += n / t->elem) {
        n = rest_of(t, first + i, count - i);
        memcpy(to + i * t->elem, x + (first + i) % FEW * t->elem, n);
    }
}

static int
is_tiled(const trial *t, const uint8_t *result, size_t first, size_t count)
{
    for (size_t i = 0, n; i < count; i += n / t->elem) {
        n = rest_of(t, first + i, count - i);
        if (memcmp(result + i * t->elem, t->wanted + (first + i) % FEW * t->elem, n) != 0)
            return 0;
    }
    return 1;
}

static int
tells(const trial *t, const char *what, int good)
{
    char call[100];
    if (!good)
        party_note("%s: %s", hp_call_print(&t->call, call, sizeof(call)), what);
    return good;
}

static int
in_longer_arrays(trial *t)
{
    static const size_t counts[] = {1, 63, FEW - 1, 3 * FEW + 5, 40 * FEW + 17, MOST};
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
        size_t first = (size_t)(t->seed + 7 * i) % FEW;
        int in_place = (int)(i + t->seed) % 2;
        tile(t, t->x, t->send, first, counts[i]);
        memset(t->recv, 0xdb, counts[i] * t->elem);
        void *result = in_place ? t->send : t->recv;
        if (allreduce(t, t->send, result, counts[i]) != HOOP_SUCCESS || !is_tiled(t, result, first, counts[i]))
            return 0;
    }
    return 1;
}

/* Fused with others: the parts lie behind one another in another order. */
static int
in_a_group(trial *t)
{
    static const size_t cuts[] = {0, 300, 301, 700, FEW};
    memset(t->recv, 0xdb, FEW * t->elem);
    int good = hoop_group_start(t->comm) == HOOP_SUCCESS;
    for (int k = 3; k >= 0; k--)
        good &=
            allreduce(t, t->x + cuts[k] * t->elem, t->recv + cuts[k] * t->elem, cuts[k + 1] - cuts[k]) == HOOP_SUCCESS;
    return (hoop_group_end(t->comm) == HOOP_SUCCESS) & good && is_tiled(t, t->recv, 0, FEW);
}

/* Fused to a long array, from tensors that are cut anywhere; odd ones in place. */
static int
in_a_long_group(trial *t)
{
    size_t pieces = 2 * (size_t)(COPIES / 2), bytes = FEW * t->elem;
    int good = hoop_group_start(t->comm) == HOOP_SUCCESS;
    tile(t, t->x, t->recv, 0, pieces * FEW);
    for (size_t k = pieces; k-- > 0;)
        good &= allreduce(t, k % 2 ? t->recv + k * bytes : t->x, t->recv + k * bytes, FEW) == HOOP_SUCCESS;
    return (hoop_group_end(t->comm) == HOOP_SUCCESS) & good && is_tiled(t, t->recv, 0, pieces * FEW);
}

/* Block b of a reduce_scatter begins with another element. */
static int
in_blocks(trial *t)
{
    hoop_dtype dtype = (hoop_dtype)t->call.dtype;
    hoop_op op = (hoop_op)t->call.op;
    size_t each = MOST / (size_t)t->size;
    for (int b = 0; b < t->size; b++)
        tile(t, t->x, t->send + (size_t)b * each * t->elem, (size_t)b * 11, each);
    memset(t->recv, 0xdb, each * t->elem);
    return hoop_reduce_scatter(t->send, t->recv, each, dtype, op, t->comm) == HOOP_SUCCESS &&
           is_tiled(t, t->recv, (size_t)t->rank * 11, each);
}

static int
at_a_root(trial *t)
{
    int root = (int)(t->seed % (uint64_t)t->size);
    size_t count = 5 * FEW + 3;
    tile(t, t->x, t->send, 4, count);
    memset(t->recv, 0xdb, count * t->elem);
    return hoop_reduce(t->send, t->recv, count, (hoop_dtype)t->call.dtype, (hoop_op)t->call.op, root, t->comm) ==
               HOOP_SUCCESS &&
           (t->rank != root || is_tiled(t, t->recv, 4, count));
}

/* By an option of the call; and against it a call without order. */
static int
by_option(trial *t)
{
    hoop_call_options options = {.size = sizeof(options), .order = HOOP_ORDER_AUTO};
    hoop_stats stats = {.size = sizeof(stats)};
    for (int ordered = 0; ordered < 2; ordered++) {
        hoop_work *work = NULL;
        if (hoop_iallreduce_with(t->x, t->recv, FEW, (hoop_dtype)t->call.dtype, (hoop_op)t->call.op, t->comm, &options,
                                 &work) != HOOP_SUCCESS ||
            hoop_work_wait(work, -1) != HOOP_SUCCESS || hoop_comm_stats(t->comm, &stats) != HOOP_SUCCESS ||
            stats.in_rank_order != (!ordered || t->size == 1 ? 0
                                    : t->host                ? 2
                                                             : 1) ||
            (t->host && ordered && strcmp(stats.algorithm, "levels") != 0))
            return 0;
        options.order = t->host ? HOOP_ORDER_HOST : HOOP_ORDER_RANK;
    }
    return is_tiled(t, t->recv, 0, FEW);
}

static int
try_one(trial *t)
{
    char why[200] = "not right by itself";
    t->elem = hp_dtype_size((hoop_dtype)t->call.dtype);
    if (t->call.dtype == HOOP_FLOAT64)
        for (uint64_t i = 0; i < FEW; i++)
            memcpy(t->x + 8 * i, &(double){wide(t->seed, t->rank, i)}, 8);
    else
        sim_fill(&t->call, t->seed, t->rank, t->size, t->x);
    memset(t->wanted, 0xdb, FEW * t->elem);
    return tells(t, "the call", allreduce(t, t->x, t->wanted, FEW) == HOOP_SUCCESS) &&
           tells(t, why, alone_is_right(t, why, sizeof(why))) &&
           tells(t, "other bits in longer arrays", in_longer_arrays(t)) &&
           tells(t, "other bits in a group", in_a_group(t)) &&
           tells(t, "other bits in a long group", in_a_long_group(t)) &&
           tells(t, "other bits in blocks", (t->host && t->size % t->host) || in_blocks(t)) &&
           tells(t, "other bits at the root", t->host || at_a_root(t)) && tells(t, "by an option", by_option(t));
}

static int
ranks_fn(int rank, int size, void *arg)
{
    static const hoop_dtype dtypes[] = {HOOP_FLOAT32,    HOOP_BFLOAT16,   HOOP_FLOAT16,
                                        HOOP_FLOAT8E4M3, HOOP_FLOAT8E5M2, HOOP_FLOAT64};
    static const hoop_op ops[] = {HOOP_SUM, HOOP_AVG, HOOP_MAX, HOOP_MIN, HOOP_PROD};
    const job *j = arg;
    trial t = {.rank = rank, .size = size, .host = j->host, .cyclic = j->cyclic};
    int host_of[8];
    for (int r = 0; r < size && j->host; r++)
        host_of[r] = j->cyclic ? r % ((size + j->host - 1) / j->host) : r / j->host;
    if (j->host) {
        party_set_host(host_of[rank], 1);
        setenv("HOOP_LEVELS", j->cyclic ? "0" : "auto", 1);
        sim_answer_hosts(host_of);
    }
    int good = party_create(&t.comm) == HOOP_SUCCESS;
    t.x = calloc(FEW, 8), t.wanted = calloc(FEW, 8), t.send = calloc(MOST, 8), t.recv = calloc(MOST, 8);
    for (uint64_t i = 0; i < 6 * 3 && good; i++) {
        hoop_op op = ops[i % 3 < 2 ? i % 3 : 2 + (j->seed + i) % 3];
        t.seed = j->seed + i;
        t.call = (hp_call){.kind = HP_ALLREDUCE, .dtype = (uint8_t)dtypes[i / 3], .op = (uint8_t)op, .root = -1};
        t.call.count = FEW;
        t.call.ordered = size == 1 ? HP_ORDER_ANY : j->host ? HP_ORDER_HOST : HP_ORDER_RANK;
        good = try_one(&t);
    }
    good = hoop_comm_destroy(t.comm) == HOOP_SUCCESS && good;
    free(t.x), free(t.wanted), free(t.send), free(t.recv);
    return !good;
}

static void
test_ring(int size, int host, int cyclic, const char *shm, const char *channels)
{
    party p;
    job j = {.seed = tap_random() >> 8, .host = host, .cyclic = cyclic};
    setenv("HOOP_ORDER", host ? "host" : "rank", 1);
    setenv("HOOP_SHM", shm, 1);
    setenv("HOOP_CHANNELS", channels, 1);
    party_open(&p);
    int good = party_run(&p, size, ranks_fn, &j, 90) == 0;
    for (int rank = 0; rank < size && !good; rank++)
        diag("rank %d: %s", rank, p.guest[rank].note);
    ok(good, "%d ranks %s, %s, by %s: the bits depend on the values alone", size,
       *shm == '1' ? "through memory" : "over TCP", *channels == '1' ? "one channel" : "two channels",
       host ? "host" : "rank");
    party_close(&p);
}

int
main(void)
{
    static const int sizes[] = {1, 2, 3, 5, 8};
    plan_lazy();
    tap_limit(240);
    tap_seed();
    for (int i = 0; i < 5; i++) {
        test_ring(sizes[i], 0, 0, "1", "1");
        if (sizes[i] > 1)
            test_ring(sizes[i], 0, 0, "0", sizes[i] == 3 ? "2" : "1");
    }
    test_ring(4, 2, 1, "1", "1");
    test_ring(5, 2, 0, "1", "2");
    test_ring(8, 3, 0, "0", "1");
    return 0;
}
