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
#include "t/sim/blocks.h"
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
        if (hoop_allreduce_on_stream(r->in.memory, r->out.memory, count, HOOP_INT32, HOOP_SUM, r->comm, stream) !=
            HOOP_SUCCESS)
            return cuda_rank_complain("on_stream");
        if (hoop_barrier_on_stream(r->comm, stream) != HOOP_SUCCESS)
            return cuda_rank_complain("barrier on_stream");
        if (hp_cuda_stream_copy(r->device, stream, r->in.memory, r->out.memory, bytes, &error) != HOOP_SUCCESS)
            return 1;
    }
    if (hp_cuda_stream_wait(r->device, stream, &error) != HOOP_SUCCESS)
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
        if (hp_cuda_stream_copy(r->device, NULL, r->in.memory, r->out.memory, bytes, &error) != HOOP_SUCCESS)
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
streams(int number, int size, void *arg)
{
    hoop_error error = {.size = sizeof(error)};
    static const size_t counts[] = {1, 1000, 100003};
    void *stream = NULL;
    cuda_rank r;
    int bad = cuda_rank_enter(&r, number, size);
    (void)arg;
    if (!bad && r.fake) {
        r.fake->delay(200);
        r.fake->jealous(1);
    }
    memset(r.to, 0, MOST);
    for (int round = 0; round < 6 && !bad; round++) {
        size_t count = counts[round % 3];
        int32_t *values = (int32_t *)(void *)r.seen;
        for (size_t i = 0; i < count; i++)
            values[i] = number + 1;
        arena_put(&r.in, values, count * sizeof(*values));
        bad = hp_cuda_stream_open(r.device, &stream, &error) != HOOP_SUCCESS || chain(&r, stream, count);
        hp_cuda_stream_close(r.device, stream);
        bad = bad || after_default_stream(&r, count);
    }
    return cuda_rank_leave(&r) || bad;
}

/* --- every kind --- */

/* Counts and displacements of a call that has them, as the public functions take them. */
typedef struct vectors {
    size_t counts[SIM_RANKS_MAX], displs[SIM_RANKS_MAX], own;
} vectors;

static vectors
vectors_of(const hp_call *c, hoop_comm *comm)
{
    hp_block blocks[SIM_RANKS_MAX] = {{0, 0}};
    int rank = hoop_comm_rank(comm), size = hoop_comm_size(comm);
    vectors v;
    sim_blocks(blocks, c, rank, size);
    for (int r = 0; r < size; r++) {
        v.counts[r] = blocks[r].count;
        v.displs[r] = blocks[r].at;
    }
    v.own = blocks[rank].count;
    return v;
}

static hoop_result
on_stream(const hp_call *c, const void *from, void *to, hoop_comm *comm, void *stream)
{
    hoop_dtype dtype = (hoop_dtype)c->dtype;
    hoop_op op = (hoop_op)c->op;
    size_t count = c->count;
    vectors v = vectors_of(c, comm);
    switch ((hp_kind)c->kind) {
    case HP_ALLREDUCE: return hoop_allreduce_on_stream(from, to, count, dtype, op, comm, stream);
    case HP_REDUCE_SCATTER: return hoop_reduce_scatter_on_stream(from, to, count, dtype, op, comm, stream);
    case HP_ALLGATHER: return hoop_allgather_on_stream(from, to, count, dtype, comm, stream);
    case HP_BROADCAST: return hoop_broadcast_on_stream(from, to, count, dtype, c->root, comm, stream);
    case HP_REDUCE: return hoop_reduce_on_stream(from, to, count, dtype, op, c->root, comm, stream);
    case HP_GATHER: return hoop_gather_on_stream(from, to, count, dtype, c->root, comm, stream);
    case HP_SCATTER: return hoop_scatter_on_stream(from, to, count, dtype, c->root, comm, stream);
    case HP_ALLTOALL: return hoop_alltoall_on_stream(from, to, count, dtype, comm, stream);
    case HP_ALLGATHERV: return hoop_allgatherv_on_stream(from, to, v.own, v.counts, v.displs, dtype, comm, stream);
    case HP_REDUCE_SCATTERV:
        return hoop_reduce_scatterv_on_stream(from, to, v.counts, v.displs, dtype, op, comm, stream);
    default: return hoop_barrier_on_stream(comm, stream);
    }
}

static hoop_result
non_blocking(const hp_call *c, const void *from, void *to, hoop_comm *comm, hoop_work **work)
{
    hoop_dtype dtype = (hoop_dtype)c->dtype;
    hoop_op op = (hoop_op)c->op;
    size_t count = c->count;
    vectors v = vectors_of(c, comm);
    switch ((hp_kind)c->kind) {
    case HP_ALLREDUCE: return hoop_iallreduce(from, to, count, dtype, op, comm, work);
    case HP_REDUCE_SCATTER: return hoop_ireduce_scatter(from, to, count, dtype, op, comm, work);
    case HP_ALLGATHER: return hoop_iallgather(from, to, count, dtype, comm, work);
    case HP_BROADCAST: return hoop_ibroadcast(from, to, count, dtype, c->root, comm, work);
    case HP_REDUCE: return hoop_ireduce(from, to, count, dtype, op, c->root, comm, work);
    case HP_GATHER: return hoop_igather(from, to, count, dtype, c->root, comm, work);
    case HP_SCATTER: return hoop_iscatter(from, to, count, dtype, c->root, comm, work);
    case HP_ALLTOALL: return hoop_ialltoall(from, to, count, dtype, comm, work);
    case HP_ALLGATHERV: return hoop_iallgatherv(from, to, v.own, v.counts, v.displs, dtype, comm, work);
    case HP_REDUCE_SCATTERV: return hoop_ireduce_scatterv(from, to, v.counts, v.displs, dtype, op, comm, work);
    default: return hoop_ibarrier(comm, work);
    }
}

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
        if (hp_cuda_stream_copy(r->device, stream, r->in.memory, source, sent * 4 + 4, &error) != HOOP_SUCCESS ||
            on_stream(&c, r->in.memory, r->out.memory, r->comm, stream) != HOOP_SUCCESS ||
            hp_cuda_stream_copy(r->device, stream, target, r->out.memory, got * 4 + 4, &error) != HOOP_SUCCESS)
            return cuda_rank_complain(hp_kind_name(c.kind));
    }
    return 0;
}

static int
kinds(int number, int size, void *arg)
{
    hoop_error error = {.size = sizeof(error)};
    void *stream = NULL;
    cuda_rank r;
    int bad = cuda_rank_enter(&r, number, size);
    arena from = arena_new(r.device, ARENA_SLOT, MOST), to = arena_new(r.device, ARENA_SLOT, MOST);
    (void)arg;
    if (!bad && r.fake)
        r.fake->delay(100);
    bad = bad || hp_cuda_stream_open(r.device, &stream, &error) != HOOP_SUCCESS ||
          row_of_calls(&r, stream, &from, &to) || hp_cuda_stream_wait(r.device, stream, &error) != HOOP_SUCCESS;
    for (int n = 0; n < CALLS && !bad; n++) {
        hp_call c = nth_call(n, size);
        bad = !right(&r, &c, (uint64_t)n, to.memory + n * ROOM, "on a stream");
    }
    hp_cuda_stream_close(r.device, stream);
    arena_free(&from);
    arena_free(&to);
    return cuda_rank_leave(&r) || bad;
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
        if (non_blocking(&c, from, (host_to ? r->seen : r->out.memory) + n * ROOM, r->comm, &works[n]) != HOOP_SUCCESS)
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
mixed(int number, int size, void *arg)
{
    cuda_rank r;
    int bad = cuda_rank_enter(&r, number, size);
    (void)arg;
    if (!bad && r.fake)
        r.fake->delay(100);
    for (int first = 0; first < 5 && !bad; first++)
        bad = under_way(&r, first);
    return cuda_rank_leave(&r) || bad;
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
            if (hp_cuda_stream_copy(r->device, stream[s], array[s], sum[s], count * sizeof(*values), &error) !=
                HOOP_SUCCESS)
                return 1;
        }
    }
    for (int round = 1; round < ROUNDS; round++)
        wanted *= r->size;
    for (int s = 1; s >= 0; s--) {
        if (hp_cuda_stream_wait(r->device, stream[s], &error) != HOOP_SUCCESS)
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
two_streams(int number, int size, void *arg)
{
    hoop_error error = {.size = sizeof(error)};
    void *stream[2] = {NULL, NULL};
    cuda_rank r;
    int bad = cuda_rank_enter(&r, number, size);
    (void)arg;
    if (!bad && r.fake)
        r.fake->delay(number % 2 ? 200 : 20); /* the ranks' streams reach the calls at different times */
    for (int s = 0; s < 2 && !bad; s++)
        bad = hp_cuda_stream_open(r.device, &stream[s], &error) != HOOP_SUCCESS;
    bad = bad || turns(&r, stream, 1) || turns(&r, stream, 30011);
    for (int s = 0; s < 2; s++)
        hp_cuda_stream_close(r.device, stream[s]);
    return cuda_rank_leave(&r) || bad;
}

/* --- a blocking stream --- */

static int
copies_meet(cuda_rank *r, void *stream, size_t bytes)
{
    hoop_error error = {.size = sizeof(error)};
    size_t count = bytes / sizeof(int32_t);
    for (int round = 0; round < 3; round++) {
        /* into the blocking stream; the default stream's call waits for it, and the next copy for the call */
        if (hp_cuda_stream_copy(r->device, stream, r->in.memory, r->in.memory + MOST / 2, bytes, &error) !=
                HOOP_SUCCESS ||
            hoop_allreduce(r->in.memory, r->out.memory, count, HOOP_INT32, HOOP_SUM, r->comm) != HOOP_SUCCESS ||
            hoop_allreduce_on_stream(r->out.memory, r->out.memory, count, HOOP_INT32, HOOP_SUM, r->comm, stream) !=
                HOOP_SUCCESS ||
            hp_cuda_stream_copy(r->device, NULL, r->in.memory + MOST / 2, r->out.memory, bytes, &error) != HOOP_SUCCESS)
            return cuda_rank_complain("a round");
    }
    return hp_cuda_stream_wait(r->device, NULL, &error) != HOOP_SUCCESS;
}

/* A stream made without CU_STREAM_NON_BLOCKING. Each round sums over the ranks, so multiplies by their number. */
static int
legacy(int number, int size, void *arg)
{
    enum { COUNT = 5000 };
    const hp_cuda_driver *driver = NULL;
    hp_cu_stream stream = NULL;
    int32_t values[COUNT], wanted = size * (size + 1) / 2 * size;
    cuda_rank r;
    int bad = cuda_rank_enter(&r, number, size);
    (void)arg;
    for (int i = 0; i < COUNT; i++)
        values[i] = number + 1;
    hp_cuda_copy(r.device, r.in.memory + MOST / 2, values, sizeof(values), NULL);
    bad = bad || hp_cuda_load(&driver, NULL) != HOOP_SUCCESS || driver->stream_create(&stream, 0, 0) != 0;
    if (r.fake)
        r.fake->delay(2000);
    bad = bad || copies_meet(&r, stream, sizeof(values));
    hp_cuda_copy(r.device, values, r.in.memory + MOST / 2, sizeof(values), NULL);
    for (int round = 1; round < 3; round++)
        wanted *= size * size;
    if (!bad && (values[0] != wanted || values[COUNT - 1] != wanted)) {
        party_note("%d and %d, not %d", values[0], values[COUNT - 1], wanted);
        bad = 1;
    }
    hp_cuda_stream_close(r.device, stream);
    return cuda_rank_leave(&r) || bad;
}

/* --- a stream that waits for absent peers --- */

/* 1 if the error is the sentence with which rank `who` aborted the job. */
static int
aborted_by(const cuda_rank *r, int who)
{
    hoop_error error = {.size = sizeof(error)};
    hoop_comm_error(r->comm, &error);
    if (error.code == HOOP_ERR_ABORTED && error.rank == who && strstr(error.text, "enough"))
        return 1;
    party_note("error %d of rank %d: %s", (int)error.code, error.rank, error.text);
    return 0;
}

/*
 * Rank 0's stream is blocked by calls that the other ranks never make. *arg: the rank that aborts, 0 or another. The
 * stream goes on: it runs the work behind the calls within a second.
 */
static int
abandoned(int number, int size, void *arg)
{
    int who = *(int *)arg;
    hoop_error error = {.size = sizeof(error)};
    void *stream = NULL;
    cuda_rank r;
    int bad = cuda_rank_enter(&r, number, size) || hp_cuda_stream_open(r.device, &stream, &error) != HOOP_SUCCESS;
    arena behind = arena_new(r.device, ARENA_SLOT, 4096); /* pinned: otherwise the host may wait for the copy */
    if (!bad && hoop_allreduce(r.in.memory, r.in.memory, 100, HOOP_INT32, HOOP_SUM, r.comm) != HOOP_SUCCESS)
        bad = cuda_rank_complain("allreduce");
    for (int i = 0; i < 3 && number == 0 && !bad; i++) {
        if (hoop_allreduce_on_stream(r.in.memory, r.out.memory, 100000, HOOP_INT32, HOOP_SUM, r.comm, stream) !=
            HOOP_SUCCESS)
            bad = cuda_rank_complain("on_stream");
    }
    memset(behind.memory, 7, behind.bytes);
    if (number == 0 && !bad)
        bad = hp_cuda_stream_copy(r.device, stream, r.out.memory, behind.memory, behind.bytes, &error) != HOOP_SUCCESS;
    usleep(200000);
    double start = party_clock();
    if (number == who && hoop_comm_abort(r.comm, "enough") != HOOP_SUCCESS)
        bad = cuda_rank_complain("abort");
    bad = bad || hp_cuda_stream_wait(r.device, stream, &error) != HOOP_SUCCESS;
    double lasted = party_clock() - start;
    if (number == 0 && !bad)
        arena_get(&r.out, r.seen, 4096);
    if (number == 0 && !bad && (r.seen[0] != 7 || r.seen[4095] != 7 || lasted > 1 + tap_room())) {
        party_note("after %.3f s the stream has not done what was behind the calls", lasted);
        bad = 1;
    }
    while (number != who && number != 0 && hoop_comm_progress(r.comm) == HOOP_SUCCESS)
        usleep(1000);
    bad = bad || !aborted_by(&r, who);
    hp_cuda_stream_close(r.device, stream);
    arena_free(&behind);
    return cuda_rank_leave(&r) || bad;
}

static void
test_abandoned(party *p, int who)
{
    int bad = party_run(p, 3, abandoned, &who, 60);
    ok(bad == 0, "rank %d aborts while rank 0's stream is held for peers that never come: the stream goes on", who);
    for (int i = 0; i < 3 && bad != 0; i++)
        diag("rank %d, status %#x: %s", i, (unsigned)p->guest[i].status, p->guest[i].note);
}

int
main(void)
{
    party p;
    tap_limit(240);
    plan_lazy();
    party_open(&p);
    for (int size = 1; size <= 4; size++) {
        cuda_rank_party(&p, size, streams, "stream-ordered calls keep the stream's order");
        cuda_rank_party(&p, size, kinds, "every kind on a stream delivers what it must");
        cuda_rank_party(&p, size, mixed, "non-blocking calls take arrays on the GPU, on the host, and one of each");
        cuda_rank_party(&p, size, two_streams, "two streams take turns on a communicator");
    }
    for (int who = 0; who < 2; who++)
        test_abandoned(&p, who);
    cuda_rank_party(&p, 3, legacy,
                    "blocking streams and the default one wait for each other, and so do the calls on them");
    setenv("HOOP_FAKE_CUDA_DEPTH", "4", 1); /* a call waits until the hardware queue has room */
    cuda_rank_party(&p, 3, kinds, "every kind on a stream, where a hardware queue holds four operations");
    cuda_rank_party(&p, 3, two_streams, "... and two streams");
    party_close(&p);
    return 0;
}
