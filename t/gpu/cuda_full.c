/* SPDX-License-Identifier: MIT */
/*
 * Drivers that are full, on the stand-in: a hardware queue that holds a few operations only, so that a thread which
 * brings one more behind a held stream waits. What could go on does.
 */
#include "t/gpu/cuda_rank.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEPTH = 4, COUNT = 30000, BYTES = COUNT * 4 };

/* A rank, and a thread of it that puts more into the stream than there is room for. */
typedef struct full {
    cuda_rank r;
    void *stream;
    pthread_t feeder;
} full;

static int
begin(full *f, int number, int size)
{
    hoop_error error = {.size = sizeof error};

    *f = (full){0};
    int bad =
        cuda_rank_enter(&f->r, number, size) || hp_cuda_stream_open(f->r.device, &f->stream, &error) != HOOP_SUCCESS;
    memset(f->r.seen, 0, BYTES);
    arena_put(&f->r.in, f->r.seen, BYTES);
    if (!bad && hoop_allreduce(f->r.in.memory, f->r.out.memory, COUNT, HOOP_INT32, HOOP_SUM, f->r.comm) != HOOP_SUCCESS)
        bad = cuda_rank_complain("allreduce");
    return bad;
}

static int
end(full *f)
{
    f->r.fake->depth(0);
    hp_cuda_stream_close(f->r.device, f->stream);
    return cuda_rank_leave(&f->r);
}

static int
allreduce(full *f)
{
    return hoop_allreduce_on_stream(f->r.in.memory, f->r.out.memory, COUNT, HOOP_INT32, HOOP_SUM, f->r.comm,
                                    f->stream) == HOOP_SUCCESS
               ? 0
               : cuda_rank_complain("on_stream");
}

/* --- room comes --------------------------------------------------------------------------------------------------- */

static void *
three_calls(void *arg)
{
    for (int i = 0; i < 3; i++)
        allreduce(arg);
    return NULL;
}

/*
 * Rank 0 has a thread that waits for room behind the first call, whose peers come after a call on another communicator:
 * the thread must not keep that call from being started.
 */
static int
beside(int number, int size, void *arg)
{
    hoop_error error = {.size = sizeof error};
    hoop_comm *second = NULL;
    void *other = NULL;
    full f;
    int bad = begin(&f, number, size) || hoop_comm_split(f.r.comm, 0, number, &second) != HOOP_SUCCESS ||
              hp_cuda_stream_open(f.r.device, &other, &error) != HOOP_SUCCESS;
    char *in = f.r.in.memory + CUDA_RANK_BYTES / 2, *out = f.r.out.memory + CUDA_RANK_BYTES / 2;

    (void)arg;
    f.r.fake->depth(DEPTH);
    bad = bad || (number == 0 && pthread_create(&f.feeder, NULL, three_calls, &f) != 0);
    usleep(number == 0 ? 200000 : 0);
    bad = bad ||
          (hoop_allreduce_on_stream(in, out, COUNT, HOOP_INT32, HOOP_SUM, second, other) != HOOP_SUCCESS &&
           cuda_rank_complain("on the second")) ||
          hp_cuda_stream_wait(f.r.device, other, &error) != HOOP_SUCCESS;
    for (int i = 0; i < 3 && number != 0 && !bad; i++)
        bad = allreduce(&f);
    if (number == 0 && !bad)
        pthread_join(f.feeder, NULL);
    bad = bad || hp_cuda_stream_wait(f.r.device, f.stream, &error) != HOOP_SUCCESS;
    hp_cuda_stream_close(f.r.device, other);
    bad |= hoop_comm_destroy(second) != HOOP_SUCCESS;
    return end(&f) || bad;
}

static void
run(party *p, int size, party_fn *fn, void *arg, const char *what)
{
    int bad = party_run(p, size, fn, arg, 60);

    ok(bad == 0, "%d ranks: %s", size, what);
    for (int i = 0; i < size && bad != 0; i++)
        diag("rank %d, status %#x: %s", i, (unsigned)p->guest[i].status, p->guest[i].note);
}

int
main(void)
{
    party p;

    tap_limit(240);
    if (getenv("HOOP_TEST_CUDA") != NULL)
        skip_all("only the stand-in driver is full when asked");
    plan_lazy();
    party_open(&p);
    for (int size = 2; size <= 3; size++)
        run(&p, size, beside, NULL, "who waits for room keeps nobody from another communicator");
    party_close(&p);
    return 0;
}
