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

/* When the second communicator is made, by the first one's use of the GPU; TOO_EARLY: it is also used then. */
enum { BEFORE, LATER, MEANWHILE, TOO_EARLY };
/* Whether the ring has failed before it is shrunk. */
enum { FAILED, SOUND };

static hoop_comm *second;

static int
part(cuda_rank *r)
{
    return hoop_comm_split(r->comm, 0, r->rank, &second) != HOOP_SUCCESS ? cuda_rank_complain("split") : 0;
}

static int
begin(cuda_rank *r)
{
    int bad = cuda_rank_streams(r, 2, 0);
    cuda_rank_fill(r, COUNT);
    if (r->fake)
        r->fake->jealous(1);
    return bad;
}

static int
end(int bad)
{
    return hoop_comm_destroy(second) != HOOP_SUCCESS || bad;
}

/* Results: each call has an array of its own. */
static char *
place(const cuda_rank *r, int which)
{
    return r->out.memory + which * COUNT * (int)sizeof(int32_t);
}

static int
is_sum(const cuda_rank *r, int which)
{
    int32_t values[COUNT], wanted = r->size * (r->size + 1) / 2;
    hp_cuda_copy(r->device, values, place(r, which), sizeof(values), NULL);
    for (int i = 0; i < COUNT; i++) {
        if (values[i] != wanted) {
            party_note("result %d, element %d: %d, not %d", which, i, values[i], wanted);
            return 0;
        }
    }
    return 1;
}

static int
first_on_stream(cuda_rank *r)
{
    return cuda_rank_sum_on(r, COUNT, r->stream[0]);
}

static int
second_blocking(cuda_rank *r)
{
    hoop_result result = hoop_allreduce(r->in.memory, place(r, 1), COUNT, HOOP_INT32, HOOP_SUM, second);
    return result != HOOP_SUCCESS ? cuda_rank_complain("allreduce") : 0;
}

/* The second communicator's first uses: a blocking call, and a call on a stream of its own. */
static int
second_uses(cuda_rank *r)
{
    if (second_blocking(r))
        return 1;
    if (hoop_allreduce_on_stream(r->in.memory, place(r, 2), COUNT, HOOP_INT32, HOOP_SUM, second, r->stream[1]) !=
        HOOP_SUCCESS)
        return cuda_rank_complain("on_stream");
    return cuda_rank_wait(r, r->stream[1]);
}

/* Made while this rank's stream is blocked: its first use is refused, and starts nothing. */
static int
is_refused(cuda_rank *r)
{
    hoop_error error = {.size = sizeof(error)};
    hoop_result blocking = hoop_allreduce(r->in.memory, place(r, 1), COUNT, HOOP_INT32, HOOP_SUM, second);
    hoop_result barrier = hoop_barrier_on_stream(second, r->stream[1]);
    hoop_comm_error(second, &error);
    if (blocking == HOOP_ERR_INVALID_USAGE && barrier == HOOP_ERR_INVALID_USAGE && strstr(error.text, "synchronise"))
        return 1;
    party_note("results %d and %d: %s", (int)blocking, (int)barrier, error.text);
    return 0;
}

/*
 * Rank 0's stream is blocked: the others use the second communicator before they call the operation on the first.
 * Making a communicator while a stream is blocked calls no driver; it is used after the stream went on.
 */
static int
crossed(cuda_rank *r)
{
    int zero = r->rank == 0, bad = begin(r);
    if (r->how == LATER)
        bad = bad || first_on_stream(r) || cuda_rank_wait(r, r->stream[0]);
    if (r->how >= MEANWHILE)
        bad = bad || (zero && first_on_stream(r));
    bad = bad || part(r) || (r->how == TOO_EARLY && zero && !is_refused(r));
    if (r->how >= MEANWHILE)
        bad = bad || (!zero && first_on_stream(r)) || cuda_rank_wait(r, r->stream[0]);
    bad = bad || (zero ? first_on_stream(r) || second_uses(r) : second_uses(r) || first_on_stream(r));
    bad = bad || cuda_rank_wait(r, r->stream[0]) || !is_sum(r, 0) || !is_sum(r, 1) || !is_sum(r, 2);
    return end(bad);
}

/* The second communicator is prepared for the GPU that the first one has used. */
static int
prepared(cuda_rank *r)
{
    return begin(r) || part(r) || first_on_stream(r) || cuda_rank_wait(r, r->stream[0]);
}

static int
never_used(cuda_rank *r)
{
    int bad = prepared(r);
    if (!bad && (!second->device[1] || second->gpu.chosen || second->gpu.pinned != 0)) {
        party_note("the second communicator is not prepared, or thinks that it was used");
        bad = 1;
    }
    return end(bad);
}

/* It gets arrays of another GPU. */
static int
elsewhere(cuda_rank *r)
{
    hp_cuda_limits limits;
    int32_t value = r->rank + 1;
    int bad = prepared(r);
    hp_device *there = cuda_test_open_on(1);
    arena array = arena_new(there, ARENA_DEVICE, 4096);
    arena_put(&array, &value, sizeof(value));
    if (!bad && hoop_allreduce(array.memory, array.memory, 1, HOOP_INT32, HOOP_SUM, second) != HOOP_SUCCESS)
        bad = cuda_rank_complain("allreduce on GPU 1");
    arena_get(&array, &value, sizeof(value));
    hp_cuda_limits_of(second->device[1], &limits);
    if (!bad && (limits.ordinal != 1 || value != r->size * (r->size + 1) / 2)) {
        party_note("GPU %d, sum %d", limits.ordinal, value);
        bad = 1;
    }
    arena_free(&array);
    there->ops->close(there);
    return end(bad);
}

/* While a thread prepares another communicator, which may take long, a prepared one is used. */
static int
locked(cuda_rank *r)
{
    int bad = prepared(r);
    hp_registry_lock();
    bad = bad || second_blocking(r);
    hp_registry_unlock();
    return end(bad || !is_sum(r, 1));
}

/* As soon as a stream went on, its owner may do at once all that is refused while a stream is blocked. */
static int
counted(cuda_rank *r)
{
    enum { ROUNDS = 500 };
    int bad = begin(r) || part(r), standing = 0;
    for (int round = 0; round < ROUNDS && !bad; round++) {
        bad = first_on_stream(r) || cuda_rank_wait(r, r->stream[0]);
        standing += hp_registry_blocked();
    }
    if (standing != 0)
        party_note("%d of %d times the stream was said to stand", standing, ROUNDS);
    return end(bad || standing != 0);
}

/*
 * A stream goes on behind an operation that has failed, and nothing has told its owner: the ring is not shrunk then. Also
 * not if the call itself ends the operation, because the ring has not failed.
 */
static int
shrunk_blindly(cuda_rank *r)
{
    hoop_error error = {.size = sizeof(error)}, failed = {.size = sizeof(failed)};
    hoop_comm *rest = NULL;
    int bad = begin(r);
    if (r->rank == 0 && !bad) {
        bad = first_on_stream(r);
        party_mark();
        bad = bad || (r->how == FAILED && cuda_rank_wait(r, r->stream[0]));
        hoop_result blind = hoop_comm_shrink(r->comm, &rest);
        hoop_comm_error(NULL, &error);
        bad = bad || cuda_rank_wait(r, r->stream[0]);
        hoop_comm_error(r->comm, &failed);
        if (blind != HOOP_ERR_INVALID_USAGE || rest || !strstr(error.text, "stream, call hoop_comm_error") ||
            !strstr(error.text, "shrink then") || failed.code != HOOP_ERR_ABORTED) {
            party_note("shrink: %d, %s; then %d, %s", (int)blind, error.text, (int)failed.code, failed.text);
            bad = 1;
        }
    } else if (!bad) {
        party_await_marks(1);
        if (r->how == FAILED)
            hoop_comm_abort(r->comm, "for the test");
    }
    bad = bad || hoop_comm_shrink(r->comm, &rest) != HOOP_SUCCESS || hoop_comm_size(rest) != r->size;
    if (bad && !rest)
        cuda_rank_complain("shrink");
    hoop_comm_destroy(rest);
    return bad;
}

/* A test of another operation has told of the failure. */
static int
shrunk_knowingly(cuda_rank *r)
{
    hoop_comm *rest = NULL;
    hoop_work *work = NULL;
    hoop_result result = HOOP_SUCCESS;
    int32_t value = 1;
    int bad = begin(r), done = 0;
    if (r->rank == 0 && !bad) {
        bad = first_on_stream(r) ||
              hoop_iallreduce(&value, &value, 1, HOOP_INT32, HOOP_SUM, r->comm, &work) != HOOP_SUCCESS;
        party_mark();
        for (tap_wait w = {0}; !bad && !done && tap_waits(&w);)
            result = hoop_work_test(work, &done);
        bad = bad || result != HOOP_ERR_ABORTED || cuda_rank_wait(r, r->stream[0]);
    } else if (!bad) {
        party_await_marks(1);
        hoop_comm_abort(r->comm, "for the test");
    }
    if (hoop_comm_shrink(r->comm, &rest) != HOOP_SUCCESS)
        bad = cuda_rank_complain("shrink");
    hoop_comm_destroy(rest);
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
        cuda_rank_party(&p, size, crossed, BEFORE, "a second communicator's first use behind a stream that stands");
        cuda_rank_party(&p, size, crossed, LATER, "... also of one made after the first has used the GPU");
        cuda_rank_party(&p, size, crossed, MEANWHILE, "... and one may be made while a stream stands");
        cuda_rank_party(&p, size, crossed, TOO_EARLY, "... but not used for the first time");
    }
    cuda_rank_party(&p, 3, counted, 0, "a stream that has gone on stands no more");
    cuda_rank_party(&p, 2, shrunk_blindly, FAILED, "a ring is shrunk only when a stream's failure was seen");
    cuda_rank_party(&p, 2, shrunk_blindly, SOUND, "... also if it is the shrink that ends the operation");
    cuda_rank_party(&p, 2, shrunk_knowingly, 0, "... and hoop_work_test shows it, too");
    cuda_rank_party(&p, 2, never_used, 0, "what was prepared for nothing is given back");
    cuda_rank_party(&p, 2, locked, 0, "what is prepared waits for nobody who prepares something else");
    if (!getenv("HOOP_TEST_CUDA"))
        cuda_rank_party(&p, 2, elsewhere, 0, "what was prepared for another GPU gives way");
    else
        skip(1, "not every machine has two GPUs");
    party_close(&p);
    return 0;
}
