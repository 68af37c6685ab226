/* SPDX-License-Identifier: MIT */
/*
 * The benchmark's checker must be able to fail. For every collective, type and rank a right result is put together by
 * hand, block by block from the ranks' own data; it counts 0 wrong, and after one bit was changed anywhere it counts 1.
 */
#include "perf/data.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 3, ROOT = 1 };

typedef struct scene {
    perf_check check;
    perf_call call;
    perf_buffer send, recv;
    char name[64];
} scene;

/* Elements first ... first + count of a rank's send buffer (rank -1: of the reduction), without the period's help. */
static void
slice(const perf_pattern *p, int rank, size_t first, size_t count, uint8_t *out)
{
    size_t size = p->type->size, entries = first + count < PERF_PERIOD ? first + count : PERF_PERIOD;
    uint8_t *table = calloc(PERF_PERIOD, 8);
    if (rank < 0)
        perf_pattern_reduced(p, table, entries);
    else
        perf_pattern_send(p, rank, table, entries);
    for (size_t i = 0; i < count; i++)
        memcpy(out + i * size, table + (first + i) % PERF_PERIOD * size, size);
    free(table);
}

/* Where a rank's block begins where blocks are uneven: of three, one has a sixth of all, one two, one three. */
static size_t
begins(size_t n, int rank)
{
    static const size_t sixths[RANKS + 1] = {0, 1, 3, 6};
    return n * RANKS * sixths[rank] / 6;
}

/* What the collective is: written down once more, from hoop.h. */
static void
play(scene *s)
{
    const char *coll = s->check.coll->name;
    const perf_pattern *p = &s->check.pattern;
    size_t n = s->call.count, own = (size_t)s->check.rank * n;
    uint8_t *out = s->call.recv;
    int at_root = s->check.rank == ROOT;
    if (strcmp(coll, "allreduce") == 0 || (strcmp(coll, "reduce") == 0 && at_root))
        slice(p, -1, 0, n, out);
    else if (strcmp(coll, "reduce_scatter") == 0)
        slice(p, -1, own, n, out);
    else if (strcmp(coll, "broadcast") == 0)
        slice(p, ROOT, 0, n, out);
    else if (strcmp(coll, "scatter") == 0)
        slice(p, ROOT, own, n, out);
    else if (strcmp(coll, "allgather") == 0 || (strcmp(coll, "gather") == 0 && at_root))
        for (int r = 0; r < RANKS; r++)
            slice(p, r, 0, n, out + (size_t)r * n * p->type->size);
    else if (strcmp(coll, "sendrecv") == 0)
        slice(p, s->check.rank == 0 ? RANKS - 1 : s->check.rank - 1, 0, n, out);
    else if (strcmp(coll, "alltoall") == 0 || strcmp(coll, "alltoallv") == 0)
        for (int r = 0; r < RANKS; r++)
            slice(p, r, own, n, out + (size_t)r * n * p->type->size);
    else if (strcmp(coll, "reduce_scatterv") == 0)
        slice(p, -1, begins(n, s->check.rank), begins(n, s->check.rank + 1) - begins(n, s->check.rank), out);
    else if (strcmp(coll, "allgatherv") == 0)
        for (int r = 0; r < RANKS; r++)
            slice(p, r, 0, begins(n, r + 1) - begins(n, r), out + begins(n, r) * p->type->size);
}

static void
open_scene(scene *s, int coll, int type, int rank, size_t count, int in_place)
{
    *s = (scene){.check = {.coll = perf_coll_at(coll), .rank = rank, .in_place = in_place}};
    const perf_type *t = perf_type_at(type);
    size_t bytes = perf_coll_total(s->check.coll, count, RANKS) * t->size;
    char why[256];
    const perf_memory *memory = perf_memory_open(0, why, sizeof(why));
    if (perf_buffer_open(&s->send, memory, bytes) != 0 || perf_buffer_open(&s->recv, memory, bytes) != 0 ||
        perf_check_open(&s->check) != 0)
        bail("no memory");
    s->call = (perf_call){.send = s->send.data, .recv = s->recv.data, .count = count, .dtype = t->dtype, .root = ROOT};
    if (in_place)
        perf_coll_in_place(s->check.coll, &s->call, s->recv.data, t->size, RANKS, rank);
    s->check.pattern =
        (perf_pattern){.type = t, .op = s->check.coll->reduces ? HOOP_SUM : -1, .ranks = RANKS, .seed = tap_random()};
    s->check.call = &s->call;
    s->check.send = &s->send;
    s->check.recv = &s->recv;
    snprintf(s->name, sizeof(s->name), "%s of %zu %s, rank %d, %s place", s->check.coll->name, count, t->name, rank,
             in_place ? "in" : "out of");
}

static void
close_scene(scene *s)
{
    perf_buffer_close(&s->send);
    perf_buffer_close(&s->recv);
    perf_check_close(&s->check);
}

/* One wrong bit in what was received; at a random place. */
static void
flip_received(scene *s)
{
    size_t elements = perf_coll_recv_count(s->check.coll, s->call.count, RANKS, s->check.rank);
    size_t bits = elements * s->check.pattern.type->size * 8, bit = tap_random() % bits;
    uint8_t *at = (uint8_t *)s->call.recv + bit / 8;
    *at ^= (uint8_t)(1U << bit % 8);
    is_uint(1, perf_check_wrong(&s->check), "one wrong bit (%zu) is one wrong element: %s", bit, s->name);
    *at ^= (uint8_t)(1U << bit % 8);
}

static void
flip_sent(scene *s)
{
    size_t elements = perf_coll_send_count(s->check.coll, s->call.count, RANKS, s->check.rank);
    uint8_t *at = s->send.data + tap_random() % (elements * s->check.pattern.type->size);
    *at ^= 1;
    is_uint(1, perf_check_wrong(&s->check), "a changed send buffer shows: %s", s->name);
    *at ^= 1;
}

static void
trespass(scene *s)
{
    size_t elements = s->check.in_place ? perf_coll_total(s->check.coll, s->call.count, RANKS)
                                        : perf_coll_recv_count(s->check.coll, s->call.count, RANKS, s->check.rank);
    uint8_t *after = s->recv.data + elements * s->check.pattern.type->size;
    *after ^= 0xFF;
    is_uint(1, perf_check_wrong(&s->check), "a byte behind the result shows: %s", s->name);
    *after ^= 0xFF;
    s->recv.data[-1] ^= 0xFF;
    is_uint(1, perf_check_wrong(&s->check), "a byte before the result shows: %s", s->name);
    s->recv.data[-1] ^= 0xFF;
}

static void
try_scene(int coll, int type, int rank, size_t count, int in_place)
{
    scene s;
    open_scene(&s, coll, type, rank, count, in_place);
    perf_check_fill(&s.check);
    int receives = perf_coll_receives(s.check.coll, rank, ROOT);
    size_t sent = perf_coll_send_count(s.check.coll, count, RANKS, rank);
    size_t received = perf_coll_recv_count(s.check.coll, count, RANKS, rank);
    /* The root of a broadcast or scatter in place has its own result from the start; one element may agree by chance.
     */
    int has_it = in_place && rank == ROOT && !perf_coll_sends(s.check.coll, ROOT + 1, ROOT);
    if (receives && count > 1 && received > 1 && !has_it)
        ok(perf_check_wrong(&s.check) > 0, "nothing done is wrong: %s", s.name);
    play(&s);
    is_uint(0, perf_check_wrong(&s.check), "the right result is right: %s", s.name);
    if (receives && received > 0)
        flip_received(&s);
    if (!in_place && sent > 0 && perf_coll_sends(s.check.coll, rank, ROOT))
        flip_sent(&s);
    trespass(&s);
    close_scene(&s);
}

/* Two slices of a large result change places: a pattern that repeated with the slices would not see it. */
static void
swapped_slices(void)
{
    enum { COUNT = 1 << 19, SLICE = 1 << 16 };
    scene s;
    uint8_t *keep = malloc(SLICE);
    open_scene(&s, perf_coll_named("allreduce"), perf_type_named("int8"), 0, COUNT, 0);
    perf_check_fill(&s.check);
    play(&s);
    is_uint(0, perf_check_wrong(&s.check), "a large result is right");
    uint8_t *out = s.call.recv;
    memcpy(keep, out, SLICE);
    memcpy(out, out + 3 * SLICE, SLICE);
    memcpy(out + 3 * SLICE, keep, SLICE);
    ok(perf_check_wrong(&s.check) > SLICE, "two of its slices in each other's place are wrong");
    free(keep);
    close_scene(&s);
}

/*
 * A mean of small floats is right where every element is as near to the true mean as it must be; here as near as one
 * rounding comes. One that is beyond is wrong, and counts once.
 */
static void
rounded(int type, int coll, int rank)
{
    enum { COUNT = 300 };
    scene s;
    open_scene(&s, coll, type, rank, COUNT, 0);
    s.check.pattern.op = HOOP_AVG;
    perf_check_fill(&s.check);
    ok(perf_check_wrong(&s.check) > 0, "nothing done is no mean: %s", s.name);
    perf_range *ranges = calloc(RANKS * COUNT, sizeof(*ranges));
    perf_pattern_range(&s.check.pattern, ranges, RANKS * COUNT);
    const perf_range *own = strcmp(s.check.coll->name, "reduce_scatter") == 0 ? ranges + rank * COUNT : ranges;
    size_t size = s.check.pattern.type->size, narrow = 0;
    uint8_t *out = s.call.recv;
    for (size_t i = 0; i < COUNT; i++)
        perf_put_order(s.check.pattern.type, out + i * size, own[i].least);
    is_uint(0, perf_check_wrong(&s.check), "the least mean that may be is right: %s", s.name);
    for (size_t i = 0; i < COUNT; i++)
        perf_put_order(s.check.pattern.type, out + i * size, own[i].greatest);
    is_uint(0, perf_check_wrong(&s.check), "so is the greatest: %s", s.name);
    size_t at = tap_random() % COUNT;
    perf_put_order(s.check.pattern.type, out + at * size, own[at].least - 1);
    is_uint(1, perf_check_wrong(&s.check), "one element below is one wrong element: %s", s.name);
    perf_put_order(s.check.pattern.type, out + at * size, own[at].least);
    for (size_t i = 0; i < COUNT; i++)
        narrow += own[i].least == own[i].greatest;
    ok(narrow > COUNT / 4 && narrow < COUNT, "some elements are certain, some are not: %s", s.name);
    free(ranges);
    close_scene(&s);
}

static void
available(void)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/meminfo", tap_tmpdir());
    FILE *file = fopen(path, "w");
    if (!file)
        bail("cannot write %s", path);
    fprintf(file, "MemTotal:  9000 kB\nMemFree:  10 kB\nMemAvailable:     4096 kB\nBuffers: 1 kB\n");
    fclose(file);
    ok(perf_memory_available(path) == 4 << 20, "the memory that is available");
    ok(perf_memory_available("/nowhere/meminfo") == UINT64_MAX, "unknown where the system does not tell");
}

int
main(void)
{
    static const size_t counts[] = {0, 1, 33, PERF_PERIOD + 5};
    plan_lazy();
    tap_limit(240);
    for (int coll = 0; coll < perf_coll_named("barrier"); coll++)
        for (int type = 0; type < PERF_TYPES; type++)
            for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
                if (counts[i] < PERF_PERIOD || type == perf_type_named("half"))
                    for (int rank = 0; rank < RANKS; rank++)
                        for (int in_place = 0; in_place < 2 - perf_coll_at(coll)->messages; in_place++)
                            if (counts[i] > 0 || rank == ROOT)
                                try_scene(coll, type, rank, counts[i], in_place);
    for (int type = 0; type < PERF_TYPES; type++)
        for (int rank = 0; rank < RANKS && perf_type_is_small(perf_type_at(type)); rank++) {
            rounded(type, perf_coll_named("allreduce"), rank);
            rounded(type, perf_coll_named("reduce_scatter"), rank);
        }
    swapped_slices();
    available();
    return 0;
}
