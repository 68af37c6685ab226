/* SPDX-License-Identifier: MIT */
/* cuda_rank: see cuda_rank.h. */
#include "t/gpu/cuda_rank.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = CUDA_RANK_BYTES };

typedef struct job {
    cuda_rank_fn *fn;
    int how;
} job;

int
cuda_rank_complain(const char *what)
{
    hoop_error error = {.size = sizeof(error)};
    hoop_comm_error(NULL, &error);
    party_note("%s: %s", what, error.text);
    return 1;
}

static int
enter(cuda_rank *r)
{
    r->fake = cuda_test_driver();
    if (hoop_comm_create(&r->comm, NULL) != HOOP_SUCCESS)
        return cuda_rank_complain("create");
    r->device = cuda_test_open();
    r->in = arena_new(r->device, ARENA_DEVICE, MOST);
    r->out = arena_new(r->device, ARENA_DEVICE, MOST);
    r->data = calloc(1, MOST);
    r->to = calloc(1, MOST);
    r->seen = calloc(1, MOST);
    return !r->data || !r->to || !r->seen;
}

/* After an orderly end all of the driver's objects must be gone. */
static int
leave(cuda_rank *r)
{
    for (int s = 0; s < CUDA_RANK_STREAMS; s++)
        hp_cuda_stream_close(r->device, r->stream[s]);
    int orderly = r->comm && hoop_comm_destroy(r->comm) == HOOP_SUCCESS && !r->faulty;
    arena_free(&r->in);
    arena_free(&r->out);
    r->device->ops->close(r->device);
    free(r->data);
    free(r->to);
    free(r->seen);
    if (!orderly || !r->fake || r->fake->live() == 0)
        return 0;
    party_note("%ld driver objects are left", r->fake->live());
    return 1;
}

int
cuda_rank_be(int rank, int size, cuda_rank_fn *fn, int how)
{
    cuda_rank r = {.rank = rank, .size = size, .how = how};
    if (enter(&r))
        return 1;
    int bad = fn(&r);
    return leave(&r) || bad;
}

static int
guest(int rank, int size, void *arg)
{
    const job *j = arg;
    return cuda_rank_be(rank, size, j->fn, j->how);
}

int
cuda_rank_run(party *p, int size, cuda_rank_fn *fn, int how)
{
    job j = {fn, how};
    return party_run(p, size, guest, &j, 60);
}

void
cuda_rank_party(party *p, int size, cuda_rank_fn *fn, int how, const char *what)
{
    ok(cuda_rank_run(p, size, fn, how) == 0, "%d ranks: %s", size, what);
}

void
cuda_rank_faults(party *p, cuda_rank_fn *fn, unsigned step, int (*judge)(const party *p, long call))
{
    for (int sticky = 0; sticky < 2; sticky++) {
        int good = 1, rounds = 0;
        for (int call = 1; call < 2000 && good == 1; rounds++) {
            good = cuda_rank_run(p, 3, fn, 2 * call + sticky) == 0 ? judge(p, call) : 0;
            call += getenv("HOOP_TEST_FULL") ? 1 : 1 + (int)(tap_random() % step);
        }
        ok(good != 0, "%s of rank 0 fails: HOOP_ERR_CUDA there, and named elsewhere (%d k)",
           sticky ? "the k-th driver call and every later one" : "the k-th driver call", rounds);
    }
}

void
cuda_rank_fault(cuda_rank *r)
{
    r->faulty = 1;
    if (r->rank == 0)
        r->fake->fail(r->how / 2, r->how % 2);
}

int
cuda_rank_streams(cuda_rank *r, int streams, unsigned delay_us)
{
    hoop_error error = {.size = sizeof(error)};
    if (r->fake)
        r->fake->delay(delay_us);
    for (int s = 0; s < streams; s++) {
        if (hp_cuda_stream_open(r->device, &r->stream[s], &error) != HOOP_SUCCESS) {
            party_note("no stream: %s", error.text);
            return 1;
        }
    }
    return 0;
}

int
cuda_rank_copy(cuda_rank *r, void *stream, void *to, const void *from, size_t bytes)
{
    hoop_error error = {.size = sizeof(error)};
    hoop_result result = hp_cuda_stream_copy(r->device, stream, to, from, bytes, &error);
    if (result != HOOP_SUCCESS)
        party_note("a copy: %s", error.text);
    return result != HOOP_SUCCESS;
}

int
cuda_rank_wait(cuda_rank *r, void *stream)
{
    hoop_error error = {.size = sizeof(error)};
    hoop_result result = hp_cuda_stream_wait(r->device, stream, &error);
    if (result != HOOP_SUCCESS)
        party_note("the stream: %s", error.text);
    return result != HOOP_SUCCESS;
}

void
cuda_rank_fill(cuda_rank *r, size_t count)
{
    int32_t *values = malloc(count * sizeof(*values));
    for (size_t i = 0; i < count; i++)
        values[i] = r->rank + 1;
    arena_put(&r->in, values, count * sizeof(*values));
    free(values);
}

int
cuda_rank_sum(cuda_rank *r, size_t count)
{
    hoop_result result = hoop_allreduce(r->in.memory, r->out.memory, count, HOOP_INT32, HOOP_SUM, r->comm);
    return result != HOOP_SUCCESS ? cuda_rank_complain("allreduce") : 0;
}

int
cuda_rank_sum_on(cuda_rank *r, size_t count, void *stream)
{
    hoop_result result =
        hoop_allreduce_on_stream(r->in.memory, r->out.memory, count, HOOP_INT32, HOOP_SUM, r->comm, stream);
    return result != HOOP_SUCCESS ? cuda_rank_complain("on_stream") : 0;
}

hoop_error
cuda_rank_failure(cuda_rank *r)
{
    hoop_error error = {.size = sizeof(error)};
    for (tap_wait w = {0}; hoop_comm_error(r->comm, &error) == HOOP_SUCCESS && error.code == HOOP_SUCCESS;) {
        if (!tap_waits(&w))
            break;
        usleep(1000);
    }
    return error;
}

int
cuda_rank_failed_so(const cuda_rank *r, hoop_result code, int rank, const char *word)
{
    hoop_error error = {.size = sizeof(error)};
    hoop_comm_error(r->comm, &error);
    if (error.code == code && error.rank == rank && strstr(error.text, word))
        return 1;
    party_note("error %d of rank %d: %s", (int)error.code, error.rank, error.text);
    return 0;
}

int
cuda_rank_took_longer(double since, double most, const char *what)
{
    double lasted = party_clock() - since;
    if (lasted <= most + tap_room())
        return 0;
    party_note("%s took %.3f s", what, lasted);
    return 1;
}
