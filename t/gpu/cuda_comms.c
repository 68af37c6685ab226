/* SPDX-License-Identifier: MIT */
/*
 * Several communicators of a process on one GPU, with a jealous stand-in driver: opening a GPU, pinning memory and
 * making a stream wait until no stream is blocked. If a communicator's first use of the GPU needed that while another
 * communicator blocks a stream, both would wait for ever; so hoop prepares it before. A prepared communicator may still
 * take another GPU, or end unused. The first use of one that could not be prepared is refused.
 */
#include "lib/comm.h"
#include "lib/registry.h"
#include "t/gpu/cuda_rank.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 30000 };

typedef struct comm_pair {
    cuda_rank r;
    hoop_comm *second;
    void *stream, *other;
} comm_pair;

static int
part(comm_pair *p)
{
    return hoop_comm_split(p->r.comm, 0, p->r.rank, &p->second) != HOOP_SUCCESS ? cuda_rank_complain("split") : 0;
}

static int
begin(comm_pair *p, int number, int size)
{
    hoop_error error = {.size = sizeof(error)};
    int32_t values[COUNT];
    *p = (comm_pair){0};
    int bad = cuda_rank_enter(&p->r, number, size);
    for (int i = 0; i < COUNT; i++)
        values[i] = number + 1;
    arena_put(&p->r.in, values, sizeof(values));
    bad = bad || hp_cuda_stream_open(p->r.device, &p->stream, &error) != HOOP_SUCCESS ||
          hp_cuda_stream_open(p->r.device, &p->other, &error) != HOOP_SUCCESS;
    if (p->r.fake)
        p->r.fake->jealous(1);
    return bad;
}

static int
end(comm_pair *p)
{
    hp_cuda_stream_close(p->r.device, p->stream);
    hp_cuda_stream_close(p->r.device, p->other);
    return hoop_comm_destroy(p->second) != HOOP_SUCCESS || cuda_rank_leave(&p->r);
}

/* Results: each call has an array of its own. */
static char *
place(const comm_pair *p, int which)
{
    return p->r.out.memory + which * COUNT * (int)sizeof(int32_t);
}

static int
is_sum(const comm_pair *p, int which)
{
    int32_t values[COUNT], wanted = p->r.size * (p->r.size + 1) / 2;
    hp_cuda_copy(p->r.device, values, place(p, which), sizeof(values), NULL);
    for (int i = 0; i < COUNT; i++) {
        if (values[i] != wanted) {
            party_note("result %d, element %d: %d, not %d", which, i, values[i], wanted);
            return 0;
        }
    }
    return 1;
}

static int
first_on_stream(comm_pair *p)
{
    hoop_result result =
        hoop_allreduce_on_stream(p->r.in.memory, place(p, 0), COUNT, HOOP_INT32, HOOP_SUM, p->r.comm, p->stream);
    return result != HOOP_SUCCESS ? cuda_rank_complain("on_stream") : 0;
}

/* The second communicator's first uses: a blocking call, and a call on a stream of its own. */
static int
second_uses(comm_pair *p)
{
    hoop_error error = {.size = sizeof(error)};
    if (hoop_allreduce(p->r.in.memory, place(p, 1), COUNT, HOOP_INT32, HOOP_SUM, p->second) != HOOP_SUCCESS)
        return cuda_rank_complain("allreduce");
    if (hoop_allreduce_on_stream(p->r.in.memory, place(p, 2), COUNT, HOOP_INT32, HOOP_SUM, p->second, p->other) !=
        HOOP_SUCCESS)
        return cuda_rank_complain("on_stream");
    return hp_cuda_stream_wait(p->r.device, p->other, &error) != HOOP_SUCCESS;
}

/* Rank 0's stream is blocked: the others use the second communicator before they call the operation on the first. */
static int
crossed(comm_pair *p)
{
    hoop_error error = {.size = sizeof(error)};
    int bad = p->r.rank == 0 ? first_on_stream(p) || second_uses(p) : second_uses(p) || first_on_stream(p);
    bad = bad || hp_cuda_stream_wait(p->r.device, p->stream, &error) != HOOP_SUCCESS;
    return bad || !is_sum(p, 0) || !is_sum(p, 1) || !is_sum(p, 2);
}

static int
both_before(int number, int size, void *arg)
{
    comm_pair p;
    int bad = begin(&p, number, size) || part(&p);
    (void)arg;
    bad = bad || crossed(&p);
    return end(&p) || bad;
}

static int
made_later(int number, int size, void *arg)
{
    hoop_error error = {.size = sizeof(error)};
    comm_pair p;
    int bad = begin(&p, number, size) || first_on_stream(&p) ||
              hp_cuda_stream_wait(p.r.device, p.stream, &error) != HOOP_SUCCESS || part(&p);
    (void)arg;
    bad = bad || crossed(&p);
    return end(&p) || bad;
}

/* Making a communicator while a stream is blocked calls no driver; it is used after the stream went on. */
static int
made_meanwhile(int number, int size, void *arg)
{
    hoop_error error = {.size = sizeof(error)};
    comm_pair p;
    int bad = begin(&p, number, size);
    (void)arg;
    bad = bad || (number == 0 && first_on_stream(&p)) || part(&p) || (number != 0 && first_on_stream(&p)) ||
          hp_cuda_stream_wait(p.r.device, p.stream, &error) != HOOP_SUCCESS;
    bad = bad || crossed(&p);
    return end(&p) || bad;
}

/* Made while rank 0's stream is blocked, and used at once: rank 0 refuses and starts nothing; later it works. */
static int
used_too_early(int number, int size, void *arg)
{
    hoop_error error = {.size = sizeof(error)};
    comm_pair p;
    int bad = begin(&p, number, size);
    (void)arg;
    bad = bad || (number == 0 && first_on_stream(&p)) || part(&p);
    if (number == 0 && !bad) {
        hoop_result blocking = hoop_allreduce(p.r.in.memory, place(&p, 1), COUNT, HOOP_INT32, HOOP_SUM, p.second);
        hoop_result barrier = hoop_barrier_on_stream(p.second, p.other);
        hoop_comm_error(p.second, &error);
        if (blocking != HOOP_ERR_INVALID_USAGE || barrier != HOOP_ERR_INVALID_USAGE ||
            !strstr(error.text, "synchronise")) {
            party_note("results %d and %d: %s", (int)blocking, (int)barrier, error.text);
            bad = 1;
        }
    }
    bad = bad || (number != 0 && first_on_stream(&p)) ||
          hp_cuda_stream_wait(p.r.device, p.stream, &error) != HOOP_SUCCESS;
    bad = bad || crossed(&p);
    return end(&p) || bad;
}

static int
never_used(int number, int size, void *arg)
{
    hoop_error error = {.size = sizeof(error)};
    comm_pair p;
    int bad = begin(&p, number, size) || part(&p) || first_on_stream(&p) ||
              hp_cuda_stream_wait(p.r.device, p.stream, &error) != HOOP_SUCCESS;
    (void)arg;
    if (!bad && (!p.second->device[1] || p.second->gpu.chosen || p.second->gpu.pinned != 0)) {
        party_note("the second communicator is not prepared, or thinks that it was used");
        bad = 1;
    }
    return end(&p) || bad;
}

/* The second communicator is prepared for the first one's GPU, and gets arrays of another GPU. */
static int
elsewhere(int number, int size, void *arg)
{
    hoop_error error = {.size = sizeof(error)};
    hp_cuda_limits limits;
    int32_t value = number + 1;
    comm_pair p;
    int bad = begin(&p, number, size) || part(&p) || first_on_stream(&p) ||
              hp_cuda_stream_wait(p.r.device, p.stream, &error) != HOOP_SUCCESS;
    (void)arg;
    hp_device *there = cuda_test_open_on(1);
    arena array = arena_new(there, ARENA_DEVICE, 4096);
    arena_put(&array, &value, sizeof(value));
    if (!bad && hoop_allreduce(array.memory, array.memory, 1, HOOP_INT32, HOOP_SUM, p.second) != HOOP_SUCCESS)
        bad = cuda_rank_complain("allreduce on GPU 1");
    arena_get(&array, &value, sizeof(value));
    hp_cuda_limits_of(p.second->device[1], &limits);
    if (!bad && (limits.ordinal != 1 || value != size * (size + 1) / 2)) {
        party_note("GPU %d, sum %d", limits.ordinal, value);
        bad = 1;
    }
    arena_free(&array);
    there->ops->close(there);
    return end(&p) || bad;
}

/* While a thread prepares another communicator, which may take long, a prepared one is used. */
static int
locked(int number, int size, void *arg)
{
    hoop_error error = {.size = sizeof(error)};
    comm_pair p;
    int bad = begin(&p, number, size) || part(&p) || first_on_stream(&p) ||
              hp_cuda_stream_wait(p.r.device, p.stream, &error) != HOOP_SUCCESS;
    (void)arg;
    hp_registry_lock();
    if (!bad && hoop_allreduce(p.r.in.memory, place(&p, 1), COUNT, HOOP_INT32, HOOP_SUM, p.second) != HOOP_SUCCESS)
        bad = cuda_rank_complain("allreduce");
    hp_registry_unlock();
    bad = bad || !is_sum(&p, 1);
    return end(&p) || bad;
}

/* As soon as a stream went on, its owner may do at once all that is refused while a stream is blocked. */
static int
counted(int number, int size, void *arg)
{
    enum { ROUNDS = 500 };
    comm_pair p;
    int bad = begin(&p, number, size) || part(&p), standing = 0;
    (void)arg;
    for (int round = 0; round < ROUNDS && !bad; round++) {
        bad = first_on_stream(&p) || hp_cuda_stream_wait(p.r.device, p.stream, NULL) != HOOP_SUCCESS;
        standing += hp_registry_blocked();
    }
    if (standing != 0)
        party_note("%d of %d times the stream was said to stand", standing, ROUNDS);
    return end(&p) || bad || standing != 0;
}

/* A stream goes on behind an operation that has failed, and nothing has told its owner: the ring is not shrunk then. */
static int
shrunk_blindly(int number, int size, void *arg)
{
    hoop_error error = {.size = sizeof(error)}, failed = {.size = sizeof(failed)};
    hoop_comm *rest = NULL;
    comm_pair p;
    int bad = begin(&p, number, size);
    (void)arg;
    if (number == 0 && !bad) {
        bad = first_on_stream(&p);
        party_mark();
        bad = bad || hp_cuda_stream_wait(p.r.device, p.stream, &error) != HOOP_SUCCESS;
        hoop_result blind = hoop_comm_shrink(p.r.comm, &rest);
        hoop_comm_error(NULL, &error);
        hoop_comm_error(p.r.comm, &failed);
        if (blind != HOOP_ERR_INVALID_USAGE || rest || !strstr(error.text, "stream") ||
            failed.code != HOOP_ERR_ABORTED) {
            party_note("shrink: %d, %s; then %d, %s", (int)blind, error.text, (int)failed.code, failed.text);
            bad = 1;
        }
    } else if (!bad) {
        party_await_marks(1);
        hoop_comm_abort(p.r.comm, "for the test");
    }
    bad = bad || hoop_comm_shrink(p.r.comm, &rest) != HOOP_SUCCESS || hoop_comm_size(rest) != size;
    if (bad && !rest)
        cuda_rank_complain("shrink");
    hoop_comm_destroy(rest);
    end(&p); /* returns the error once more */
    return bad;
}

int
main(void)
{
    party p;
    tap_limit(240);
    plan_lazy();
    if (!getenv("HOOP_TEST_CUDA"))
        setenv("HOOP_FAKE_CUDA_DEVICES", "2", 1);
    party_open(&p);
    for (int size = 2; size <= 3; size++) {
        cuda_rank_party(&p, size, both_before, "a second communicator's first use behind a stream that stands");
        cuda_rank_party(&p, size, made_later, "... also of one made after the first has used the GPU");
        cuda_rank_party(&p, size, made_meanwhile, "... and one may be made while a stream stands");
        cuda_rank_party(&p, size, used_too_early, "... but not used for the first time");
    }
    cuda_rank_party(&p, 3, counted, "a stream that has gone on stands no more");
    cuda_rank_party(&p, 2, shrunk_blindly, "a ring is shrunk only when a stream's failure was seen");
    cuda_rank_party(&p, 2, never_used, "what was prepared for nothing is given back");
    cuda_rank_party(&p, 2, locked, "what is prepared waits for nobody who prepares something else");
    if (!getenv("HOOP_TEST_CUDA"))
        cuda_rank_party(&p, 2, elsewhere, "what was prepared for another GPU gives way");
    else
        skip(1, "not every machine has two GPUs");
    party_close(&p);
    return 0;
}
