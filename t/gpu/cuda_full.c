/* SPDX-License-Identifier: MIT */
/*
 * Full drivers, on the stand-in. A hardware queue holds only a few operations: a thread that appends one more to a
 * blocked stream waits, and may keep all other threads out of the driver. Or several streams share a hardware queue:
 * hoop's commands are then behind the caller's blocked stream. An operation that can go on does; another ends by an
 * abort or the time limit. hoop reports the error before it opens a gate, and touches no array afterwards.
 */
#include "t/gpu/cuda_rank.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEPTH = 4, MORE = 12, COUNT = 30000, BYTES = COUNT * 4, LIMIT_MS = 5000 };

/* A rank, and a thread of it that appends more to the stream than the hardware queue holds. */
typedef struct full {
    cuda_rank *r;
    pthread_t feeder;
    int feeds, refused; /* refused: one of the thread's calls was */
    hoop_error seen;    /* by the thread, after its last call */
    atomic_int fed;
} full;

static int
begin(full *f, cuda_rank *r, int streams)
{
    *f = (full){.r = r};
    cuda_rank_fill(r, COUNT);
    return cuda_rank_streams(r, streams, 0) || cuda_rank_sum(r, COUNT);
}

static int
end(full *f)
{
    if (f->feeds)
        pthread_join(f->feeder, NULL);
    f->r->fake->depth(0);
    f->r->fake->jealous(0);
    return f->refused;
}

static int
allreduce(full *f)
{
    return cuda_rank_sum_on(f->r, COUNT, f->r->stream[0]);
}

/*
 * Appends more work behind the operation than the driver takes; then asks, as a caller must, how the operation ended.
 */
static void *
feed(void *arg)
{
    full *f = arg;
    hoop_error error = {.size = sizeof(error)};
    char *beside = f->r->in.memory + CUDA_RANK_BYTES / 2;
    for (int i = 0; i < MORE; i++)
        hp_cuda_stream_copy(f->r->device, f->r->stream[0], beside, f->r->in.memory, 64, &error);
    hp_cuda_stream_wait(f->r->device, f->r->stream[0], &error);
    f->seen.size = sizeof(f->seen);
    hoop_comm_error(f->r->comm, &f->seen);
    atomic_store(&f->fed, 1);
    return NULL;
}

/* Until the thread waits for room in the hardware queue. */
static int
fill_up(full *f)
{
    f->r->fake->depth(DEPTH);
    f->r->fake->jealous(1);
    f->feeds = pthread_create(&f->feeder, NULL, feed, f) == 0;
    usleep(200000);
    if (!f->feeds || atomic_load(&f->fed))
        party_note("the stream was never full");
    return !f->feeds || atomic_load(&f->fed);
}

/* The communicator has failed, the thread has seen the error, and the arrays are the caller's again. */
static int
is_over(full *f, hoop_result code, int who)
{
    hoop_error error = {.size = sizeof(error)};
    double start = party_clock();
    tap_wait w = {0};
    do {
        usleep(1000);
        hoop_comm_error(f->r->comm, &error);
    } while ((error.code == HOOP_SUCCESS || (f->feeds && !atomic_load(&f->fed))) && tap_waits(&w));
    if (error.code != code || error.rank != who || (f->feeds && (!atomic_load(&f->fed) || f->seen.code != code))) {
        party_note("after %.3f s %s: error %d of rank %d: %s; the stream's owner saw %d", party_clock() - start,
                   atomic_load(&f->fed) ? "done" : "not done", (int)error.code, error.rank, error.text,
                   (int)f->seen.code);
        return 0;
    }
    return 1;
}

static int
is_left_alone(full *f)
{
    memset(f->r->data, 7, BYTES);
    arena_put(&f->r->out, f->r->data, BYTES);
    usleep(100000);
    arena_get(&f->r->out, f->r->seen, BYTES);
    if (memcmp(f->r->data, f->r->seen, BYTES) != 0)
        party_note("an array was written after the end");
    return memcmp(f->r->data, f->r->seen, BYTES) == 0;
}

/* --- a thread that keeps all others out --- */

/*
 * Rank 0's stream is full when rank 1's data arrives: the driving thread blocks when it submits the command. how: 1 if
 * rank 0 aborts.
 */
static int
stuck(cuda_rank *r)
{
    int aborts = r->how;
    full f;
    int bad = begin(&f, r, 1);
    if (r->rank == 0)
        bad = bad || allreduce(&f) || fill_up(&f), party_mark();
    else
        bad |= !party_await_marks(1);
    bad = bad || (r->rank != 0 && allreduce(&f));
    usleep(r->rank == 0 ? 300000 : 0);
    if (r->rank == 0 && aborts) {
        double start = party_clock();
        hoop_comm_abort(f.r->comm, "enough");
        bad |= cuda_rank_took_longer(start, 3, "the abort");
    }
    bad = bad || !is_over(&f, aborts ? HOOP_ERR_ABORTED : HOOP_ERR_TIMEOUT, 0);
    if (r->rank == 0 && !aborts) /* after the abort hoop may not touch the arrays */
        hoop_comm_abort(f.r->comm, "over");
    bad = bad || (r->rank == 0 && !is_left_alone(&f));
    end(&f);
    return bad;
}

static int
broadcast(full *f)
{
    void *array = f->r->out.memory;
    return hoop_broadcast_on_stream(array, array, COUNT, HOOP_INT32, 1, f->r->comm, f->r->stream[0]) == HOOP_SUCCESS
               ? 0
               : cuda_rank_complain("broadcast_on_stream");
}

static void *
broadcast_and_feed(void *arg)
{
    full *f = arg;
    usleep(100000);
    f->refused = broadcast(f);
    usleep(50000);
    f->r->fake->depth(DEPTH);
    f->r->fake->jealous(1);
    party_mark();
    return feed(arg);
}

/*
 * On rank 0 one thread fills its stream while another waits in a call. The second thread returns and enters its next
 * call, so the background thread does not drive; the call blocks in the driver when hoop asks whose its array is. So no
 * thread drives.
 */
static int
entering(cuda_rank *r)
{
    static int in[1000], out[1000];
    full f;
    int bad = begin(&f, r, 1);
    if (r->rank == 0)
        f.feeds = !bad && pthread_create(&f.feeder, NULL, broadcast_and_feed, &f) == 0;
    else
        bad |= !party_await_marks(1) || usleep(300000);
    bad =
        bad || (r->rank == 0 && !f.feeds) ||
        (hoop_allreduce(in, out, 1000, HOOP_INT32, HOOP_SUM, f.r->comm) != HOOP_SUCCESS && cuda_rank_complain("first"));
    if (r->rank == 0)
        party_mark();
    else
        bad = bad || !party_await_marks(2) || usleep(300000) || broadcast(&f);
    double start = party_clock();
    hoop_result second = hoop_allreduce(in, out, 1000, HOOP_INT32, HOOP_SUM, f.r->comm);
    if (second != HOOP_ERR_TIMEOUT)
        party_note("the second call ended with %d", (int)second);
    bad = bad || second != HOOP_ERR_TIMEOUT || cuda_rank_took_longer(start, LIMIT_MS / 1e3, "the second call");
    end(&f);
    return bad;
}

/* --- a thread that waits for room --- */

static void *
three_calls(void *arg)
{
    full *f = arg;
    for (int i = 0; i < 3; i++)
        f->refused |= allreduce(f);
    return NULL;
}

/*
 * A thread of rank 0 waits for room behind the first call. The other ranks make that call only after one on another
 * communicator: the waiting thread must not keep rank 0 from starting the latter.
 */
static int
beside(cuda_rank *r)
{
    hoop_comm *second = NULL;
    full f;
    int bad = begin(&f, r, 2) || hoop_comm_split(r->comm, 0, r->rank, &second) != HOOP_SUCCESS;
    void *other = r->stream[1];
    char *in = f.r->in.memory + CUDA_RANK_BYTES / 2, *out = f.r->out.memory + CUDA_RANK_BYTES / 2;
    f.r->fake->depth(DEPTH);
    f.feeds = r->rank == 0 && !bad && pthread_create(&f.feeder, NULL, three_calls, &f) == 0;
    bad = bad || (r->rank == 0 && !f.feeds);
    usleep(r->rank == 0 ? 200000 : 0);
    bad = bad ||
          (hoop_allreduce_on_stream(in, out, COUNT, HOOP_INT32, HOOP_SUM, second, other) != HOOP_SUCCESS &&
           cuda_rank_complain("on the second")) ||
          cuda_rank_wait(r, other);
    for (int i = 0; i < 3 && r->rank != 0 && !bad; i++)
        bad = allreduce(&f);
    if (f.feeds)
        pthread_join(f.feeder, NULL);
    f.feeds = 0;
    bad = bad || cuda_rank_wait(r, r->stream[0]);
    bad |= hoop_comm_destroy(second) != HOOP_SUCCESS;
    return end(&f) || bad;
}

/* --- streams that share a hardware queue --- */

/*
 * The commands are queued behind the stream that waits for them. An abort (how) or the time limit ends the operation,
 * and all streams go on.
 */
static int
shared(cuda_rank *r)
{
    int aborts = r->how;
    hoop_result wanted = aborts ? HOOP_ERR_ABORTED : HOOP_ERR_TIMEOUT;
    full f;
    int bad = begin(&f, r, 1) || allreduce(&f);
    double start = party_clock();
    if (aborts && r->rank == 0) {
        usleep(200000);
        hoop_comm_abort(r->comm, "enough");
    }
    hoop_error error = cuda_rank_failure(r);
    if (error.code != wanted)
        party_note("after %.3f s error %d: %s", party_clock() - start, (int)error.code, error.text);
    bad = bad || error.code != wanted || cuda_rank_wait(r, r->stream[0]) ||
          (aborts && cuda_rank_took_longer(start, 1, "until the stream went on"));
    end(&f);
    return bad;
}

int
main(void)
{
    char limit[16];
    party p;
    tap_limit(240);
    if (getenv("HOOP_TEST_CUDA"))
        skip_all("only the stand-in driver is full when asked");
    plan_lazy();
    party_open(&p);
    /* over chords some ranks, and of two the other one, would have all data already */
    setenv("HOOP_SPREAD_BYTES", "0", 1);
    for (int size = 3; size <= 4; size++)
        cuda_rank_party(&p, size, stuck, 1,
                        "an abort lets a stream go behind which a thread keeps the driver to itself");
    for (int size = 2; size <= 3; size++)
        cuda_rank_party(&p, size, beside, 0, "who waits for room keeps nobody from another communicator");
    snprintf(limit, sizeof(limit), "%d", LIMIT_MS);
    setenv("HOOP_OP_TIMEOUT_MS", limit, 1);
    cuda_rank_party(&p, 3, stuck, 0, "and so does the time limit");
    cuda_rank_party(&p, 3, entering, 0, "also where the driver keeps who has entered a call, and nobody drives");
    setenv("HOOP_FAKE_CUDA_CONNECTIONS", "1", 1);
    cuda_rank_party(&p, 3, shared, 0, "commands behind the stream that waits for them: the time limit ends it");
    setenv("HOOP_OP_TIMEOUT_MS", "60000", 1);
    cuda_rank_party(&p, 3, shared, 1, "and so does an abort");
    party_close(&p);
    return 0;
}
