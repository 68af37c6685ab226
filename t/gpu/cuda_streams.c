/* SPDX-License-Identifier: MIT */
/*
 * Streams of several ranks, on the stand-in driver. Calls on a stream, of every kind, give the results of
 * t/sim/answer.c, which shares no code with the library, and keep the stream's order without the host, also with short
 * hardware queues. Two streams take turns on one communicator. Calls without a stream run after the default stream, and
 * so after blocking streams, with arrays in host and device memory. A stream that is blocked when the job is aborted
 * goes on.
 */
#include "gpu/cuda_driver.h"
#include "t/gpu/cuda_rank.h"
#include "t/sim/forms.h"
#include "t/sim/sim.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = CUDA_RANK_BYTES, KINDS = HP_KINDS - 1, CALLS = 3 * KINDS, ROOM = MOST / CALLS / 8 * 8 };

/* --- streams --- */

/*
 * Three allreduces on one stream, each on the result of the one before; the stream itself copies between them. The host
 * looks only at the end.
 */
static int
chain(cuda_rank *r, void *stream, size_t count)
{
    hoop_error error = {.size = sizeof(error)};
    size_t bytes = count * sizeof(int32_t);
    int32_t *values = (int32_t *)(void *)r->seen;
    for (int step = 0; step < 3; step++) {
        if (cuda_rank_sum_on(r, count, stream))
            return 1;
        if (hoop_barrier_on_stream(r->comm, stream) != HOOP_SUCCESS)
            return cuda_rank_complain("barrier on_stream");
        if (cuda_rank_copy(r, stream, r->in.memory, r->out.memory, bytes))
            return 1;
    }
    if (cuda_rank_wait(r, stream))
        return 1;
    arena_get(&r->out, values, bytes);
    int32_t wanted = r->size * (r->size + 1) / 2 * r->size * r->size;
    for (size_t i = 0; i < count; i++) {
        if (values[i] != wanted) {
            party_note("element %zu of %zu is %d, not %d", i, count, values[i], wanted);
            return 1;
        }
    }
    return 0;
}

/* Calls without a stream, and groups, start after the default stream's work: here a copy that makes their input. */
static int
after_default_stream(cuda_rank *r, size_t count)
{
    hoop_error error = {.size = sizeof(error)};
    size_t bytes = count * sizeof(int32_t);
    int32_t *values = (int32_t *)(void *)r->seen;
    int32_t wanted = r->size * (r->size + 1) / 2;
    char *second = r->out.memory + MOST / 2;
    for (size_t i = 0; i < count; i++)
        values[i] = r->rank + 1;
    arena_put(&r->out, values, bytes);
    for (int round = 0; round < 2; round++) {
        arena_put(&r->in, r->to, bytes); /* other values */
        if (cuda_rank_copy(r, NULL, r->in.memory, r->out.memory, bytes))
            return 1;
        if (round == 1 && hoop_group_start(r->comm) != HOOP_SUCCESS)
            return cuda_rank_complain("group");
        if (hoop_allreduce(r->in.memory, second, count, HOOP_INT32, HOOP_SUM, r->comm) != HOOP_SUCCESS ||
            hoop_allreduce(r->in.memory, second + MOST / 4, count, HOOP_INT32, HOOP_SUM, r->comm) != HOOP_SUCCESS)
            return cuda_rank_complain("allreduce");
        if (round == 1 && hoop_group_end(r->comm) != HOOP_SUCCESS)
            return cuda_rank_complain("group");
        for (size_t half = 0; half < 2; half++) {
            hp_cuda_copy(r->device, r->seen + bytes, second + half * (MOST / 4), bytes, &error);
            if (values[count] != wanted || values[2 * count - 1] != wanted) {
                party_note("round %d of %zu: %d, not %d", round, count, values[count], wanted);
                return 1;
            }
        }
    }
    return 0;
}

static int
streams(cuda_rank *r)
{
    hoop_error error = {.size = sizeof(error)};
    static const size_t counts[] = {1, 1000, 100003};
    int bad = 0;
    if (r->fake)
        r->fake->jealous(1);
    for (int round = 0; round < 6 && !bad; round++) {
        cuda_rank_fill(r, counts[round % 3]);
        bad = cuda_rank_streams(r, 1, 200) || chain(r, r->stream[0], counts[round % 3]);
        hp_cuda_stream_close(r->device, r->stream[0]);
        r->stream[0] = NULL;
        bad = bad || after_default_stream(r, counts[round % 3]);
    }
    return bad;
}

/* --- every kind --- */

/* The n-th call of a row: the kinds in turn, each time another root, type, operation and size. */
static hp_call
nth_call(int n, int size)
{
    static const size_t counts[] = {1, 1000, 0, 15013, 7};
    hp_call c = {.kind = (uint8_t)(HP_ALLREDUCE + n % KINDS),
                 .dtype = n % 2 ? HOOP_FLOAT32 : HOOP_INT32,
                 .op = (uint8_t)(n % 5),
                 .root = n % size,
                 .count = counts[n / 2 % 5]};
    if (c.kind == HP_BARRIER)
        c.count = 0;
    if (hp_kind_has_counts(c.kind)) {
        c.count = 600 * (size_t)n;
        c.root = 192 + n; /* the counts, with gaps: t/sim/blocks.h */
    }
    return c;
}

/* 1 if recv holds the result of call `c` on the data of `seed`; else the note says where it differs. */
static int
right(const cuda_rank *r, const hp_call *c, uint64_t seed, const void *recv, const char *form)
{
    char why[160];
    if (c->count == 0 || sim_answer_is_right(c, seed, r->rank, r->size, recv, why, sizeof(why)))
        return 1;
    party_note("%s, seed %d: %s", form, (int)seed, why);
    return 0;
}

/*
 * The stream itself copies each call's input in and its result out. All calls are started before the first result is
 * looked at, and all use the same two arrays: only the stream's order keeps them apart. The host's arrays are pinned,
 * so that the driver copies asynchronously.
 */
static int
row_of_calls(cuda_rank *r, void *stream, const arena *from, const arena *to)
{
    hoop_error error = {.size = sizeof(error)};
    for (int n = 0; n < CALLS; n++) {
        hp_call c = nth_call(n, r->size);
        uint64_t sent = sim_send_count(&c, r->rank, r->size), got = sim_recv_count(&c, r->rank, r->size);
        char *source = from->memory + n * ROOM, *target = to->memory + n * ROOM;
        if (c.count > 0)
            sim_fill(&c, (uint64_t)n, r->rank, r->size, source);
        if (cuda_rank_copy(r, stream, r->in.memory, source, sent * 4 + 4) ||
            sim_call_on_stream(&c, r->in.memory, r->out.memory, r->comm, stream) != HOOP_SUCCESS ||
            cuda_rank_copy(r, stream, target, r->out.memory, got * 4 + 4))
            return cuda_rank_complain(hp_kind_name(c.kind));
    }
    return 0;
}

static int
kinds(cuda_rank *r)
{
    hoop_error error = {.size = sizeof(error)};
    int bad = cuda_rank_streams(r, 1, 100);
    arena from = arena_new(r->device, ARENA_SLOT, MOST), to = arena_new(r->device, ARENA_SLOT, MOST);
    bad = bad || row_of_calls(r, r->stream[0], &from, &to) || cuda_rank_wait(r, r->stream[0]);
    for (int n = 0; n < CALLS && !bad; n++) {
        hp_call c = nth_call(n, r->size);
        bad = !right(r, &c, (uint64_t)n, to.memory + n * ROOM, "on a stream");
    }
    arena_free(&from);
    arena_free(&to);
    return bad;
}

/* --- arrays on either side of the bus --- */

/* t/gpu/cuda_ring.c has blocking calls; here several are under way at once, and the last is waited for first. */
static int
under_way(cuda_rank *r, int first)
{
    hoop_work *works[KINDS] = {NULL};
    for (int n = 0; n < KINDS; n++) {
        int host_from = (first + n) % 3 == 1, host_to = (first + n) % 3 == 2;
        hp_call c = nth_call(first + n, r->size);
        char *from = host_from ? r->data + n * ROOM : r->in.memory + n * ROOM;
        if (c.count > 0)
            sim_fill(&c, (uint64_t)n, r->rank, r->size, r->data + n * ROOM);
        if (!host_from)
            hp_cuda_copy(r->device, from, r->data + n * ROOM, ROOM, NULL);
        memset(r->seen + n * ROOM, 0x55, ROOM);
        if (sim_call(&c, from, (host_to ? r->seen : r->out.memory) + n * ROOM, r->comm, &works[n]) != HOOP_SUCCESS)
            return cuda_rank_complain(hp_kind_name(c.kind));
    }
    for (int n = KINDS; n-- > 0;) {
        hp_call c = nth_call(first + n, r->size);
        if (hoop_work_wait(works[n], -1) != HOOP_SUCCESS)
            return cuda_rank_complain("wait");
        if ((first + n) % 3 != 2)
            hp_cuda_copy(r->device, r->seen + n * ROOM, r->out.memory + n * ROOM, ROOM, NULL);
        if (!right(r, &c, (uint64_t)n, r->seen + n * ROOM, "non-blocking"))
            return 1;
    }
    return 0;
}

static int
mixed(cuda_rank *r)
{
    int bad = cuda_rank_streams(r, 0, 100);
    for (int first = 0; first < 5 && !bad; first++)
        bad = under_way(r, first);
    return bad;
}

/* --- two streams --- */

/*
 * Each stream uses the results of its calls as the next input. The calls of the two streams alternate on the
 * communicator. All are started before the host waits, for the second stream first.
 */
static int
turns(cuda_rank *r, void *const stream[2], size_t count)
{
    enum { ROUNDS = 8 };
    hoop_error error = {.size = sizeof(error)};
    int32_t *values = (int32_t *)(void *)r->seen, wanted = r->size * (r->size + 1) / 2;
    char *array[2] = {r->in.memory, r->in.memory + MOST / 2}, *sum[2] = {r->out.memory, r->out.memory + MOST / 2};
    for (size_t i = 0; i < count; i++)
        values[i] = r->rank + 1;
    arena_put(&r->in, values, count * sizeof(*values));
    hp_cuda_copy(r->device, array[1], values, count * sizeof(*values), &error);
    for (int round = 0; round < ROUNDS; round++) {
        for (int s = 0; s < 2; s++) {
            if (hoop_allreduce_on_stream(array[s], sum[s], count, HOOP_INT32, s ? HOOP_MAX : HOOP_SUM, r->comm,
                                         stream[s]) != HOOP_SUCCESS)
                return cuda_rank_complain("on_stream");
            if (cuda_rank_copy(r, stream[s], array[s], sum[s], count * sizeof(*values)))
                return 1;
        }
    }
    for (int round = 1; round < ROUNDS; round++)
        wanted *= r->size;
    for (int s = 1; s >= 0; s--) {
        if (cuda_rank_wait(r, stream[s]))
            return 1;
        hp_cuda_copy(r->device, values, array[s], count * sizeof(*values), &error);
        for (size_t i = 0; i < count; i++) {
            if (values[i] != (s ? r->size : wanted)) {
                party_note("stream %d, element %zu: %d, not %d", s, i, values[i], s ? r->size : wanted);
                return 1;
            }
        }
    }
    return 0;
}

static int
two_streams(cuda_rank *r)
{
    hoop_error error = {.size = sizeof(error)};
    unsigned delay_us = r->rank % 2 ? 200 : 20; /* the ranks' streams reach the calls at different times */
    return cuda_rank_streams(r, 2, delay_us) || turns(r, r->stream, 1) || turns(r, r->stream, 30011);
}

/* --- a blocking stream --- */

static int
copies_meet(cuda_rank *r, void *stream, size_t bytes)
{
    hoop_error error = {.size = sizeof(error)};
    size_t count = bytes / sizeof(int32_t);
    for (int round = 0; round < 3; round++) {
        /* into the blocking stream; the default stream's call waits for it, and the next copy for the call */
        if (cuda_rank_copy(r, stream, r->in.memory, r->in.memory + MOST / 2, bytes) ||
            hoop_allreduce(r->in.memory, r->out.memory, count, HOOP_INT32, HOOP_SUM, r->comm) != HOOP_SUCCESS ||
            hoop_allreduce_on_stream(r->out.memory, r->out.memory, count, HOOP_INT32, HOOP_SUM, r->comm, stream) !=
                HOOP_SUCCESS ||
            cuda_rank_copy(r, NULL, r->in.memory + MOST / 2, r->out.memory, bytes))
            return cuda_rank_complain("a round");
    }
    return cuda_rank_wait(r, NULL);
}

/* A stream made without CU_STREAM_NON_BLOCKING. Each round sums over the ranks, so multiplies by their number. */
static int
legacy(cuda_rank *r)
{
    enum { COUNT = 5000 };
    const hp_cuda_driver *driver = NULL;
    hp_cu_stream stream = NULL;
    int32_t values[COUNT], wanted = r->size * (r->size + 1) / 2 * r->size;
    int bad = cuda_rank_streams(r, 0, 2000);
    for (int i = 0; i < COUNT; i++)
        values[i] = r->rank + 1;
    hp_cuda_copy(r->device, r->in.memory + MOST / 2, values, sizeof(values), NULL);
    bad = bad || hp_cuda_load(&driver, NULL) != HOOP_SUCCESS || driver->stream_create(&stream, 0, 0) != 0;
    bad = bad || copies_meet(r, stream, sizeof(values));
    hp_cuda_copy(r->device, values, r->in.memory + MOST / 2, sizeof(values), NULL);
    for (int round = 1; round < 3; round++)
        wanted *= r->size * r->size;
    if (!bad && (values[0] != wanted || values[COUNT - 1] != wanted)) {
        party_note("%d and %d, not %d", values[0], values[COUNT - 1], wanted);
        bad = 1;
    }
    hp_cuda_stream_close(r->device, stream);
    return bad;
}

/* --- a stream that waits for absent peers --- */

/*
 * Rank 0's stream is blocked by calls that the other ranks never make. *arg: the rank that aborts, 0 or another. The
 * stream goes on: it runs the work behind the calls within a second.
 */
static int
abandoned(cuda_rank *r)
{
    int who = r->how;
    hoop_error error = {.size = sizeof(error)};
    int bad = cuda_rank_streams(r, 1, 0);
    arena behind = arena_new(r->device, ARENA_SLOT, 4096); /* pinned: otherwise the host may wait for the copy */
    bad = bad || cuda_rank_sum(r, 100);
    for (int i = 0; i < 3 && r->rank == 0 && !bad; i++)
        bad = cuda_rank_sum_on(r, 100000, r->stream[0]);
    memset(behind.memory, 7, behind.bytes);
    if (r->rank == 0 && !bad)
        bad = cuda_rank_copy(r, r->stream[0], r->out.memory, behind.memory, behind.bytes);
    usleep(200000);
    double start = party_clock();
    if (r->rank == who && hoop_comm_abort(r->comm, "enough") != HOOP_SUCCESS)
        bad = cuda_rank_complain("abort");
    bad = bad || cuda_rank_wait(r, r->stream[0]);
    bad = bad || (r->rank == 0 && cuda_rank_took_longer(start, 1, "what was behind the calls"));
    arena_get(&r->out, r->seen, 4096);
    if (r->rank == 0 && !bad && (r->seen[0] != 7 || r->seen[4095] != 7)) {
        party_note("the stream has not done what was behind the calls");
        bad = 1;
    }
    while (r->rank != who && r->rank != 0 && hoop_comm_progress(r->comm) == HOOP_SUCCESS)
        usleep(1000);
    bad = bad || !cuda_rank_failed_so(r, HOOP_ERR_ABORTED, who, "enough");
    arena_free(&behind);
    return bad;
}

int
main(void)
{
    party p;
    tap_limit(240);
    plan_lazy();
    party_open(&p);
    for (int size = 1; size <= 4; size++) {
        cuda_rank_party(&p, size, streams, 0, "stream-ordered calls keep the stream's order");
        cuda_rank_party(&p, size, kinds, 0, "every kind on a stream delivers what it must");
        cuda_rank_party(&p, size, mixed, 0, "non-blocking calls take arrays on the GPU, on the host, and one of each");
        cuda_rank_party(&p, size, two_streams, 0, "two streams take turns on a communicator");
    }
    for (int who = 0; who < 2; who++)
        cuda_rank_party(&p, 3, abandoned, who, "a rank aborts; rank 0's stream is held for peers that never come");
    cuda_rank_party(&p, 3, legacy, 0,
                    "blocking streams and the default one wait for each other, and so do the calls on them");
    setenv("HOOP_FAKE_CUDA_DEPTH", "4", 1); /* a call waits until the hardware queue has room */
    cuda_rank_party(&p, 3, kinds, 0, "every kind on a stream, where a hardware queue holds four operations");
    cuda_rank_party(&p, 3, two_streams, 0, "... and two streams");
    party_close(&p);
    return 0;
}
