/* SPDX-License-Identifier: MIT */
/*
 * Messages in a GPU's memory when something fails, on the stand-in driver: a stream that never reaches its message, or
 * waits for one that never comes, until the job is aborted or the communicator destroyed; a peer that dies; a driver's
 * call that fails, each in turn; a kernel that fails; a communicator that is destroyed while bytes are copied. Streams go
 * on, every call ends, the right rank is named, and nothing of the driver's is left after an orderly end.
 */
#include "t/gpu/cuda_rank.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = CUDA_RANK_BYTES, LONG = 3000001, SHORT = 50001, BEHIND = 4096 };

/* --- streams that wait --- */

/* Work behind the messages in the stream: 1 if it has run soon. */
static int
goes_on(cuda_rank *r, void *stream, double since)
{
    hoop_error error = {.size = sizeof(error)};
    if (cuda_rank_wait(r, stream) || cuda_rank_took_longer(since, 3, "what was behind the messages"))
        return 0;
    hp_cuda_copy(r->device, r->seen, r->out.memory, BEHIND, NULL);
    if (r->seen[0] == 7 && r->seen[BEHIND - 1] == 7)
        return 1;
    party_note("the stream has not done what was behind the messages");
    return 0;
}

/*
 * Rank 0's stream: a receive that never comes, a send that it therefore never reaches, and another stream's send that is
 * held because of the same tag. How it ends: by an abort of that rank; 2: by the other rank's death; 3: by hoop_comm_destroy
 * of the other rank, which leaves.
 */
static int
never_comes(cuda_rank *r)
{
    int how = r->how;
    hoop_error error = {.size = sizeof(error)};
    int bad = cuda_rank_streams(r, 2, 0);
    arena behind = arena_new(r->device, ARENA_SLOT, BEHIND);
    memset(behind.memory, 7, BEHIND);
    bad = bad || cuda_rank_sum(r, 100);
    if (r->rank == 0 && !bad)
        bad = hoop_recv_on_stream(r->out.memory, SHORT, HOOP_UINT8, 1, 3, r->comm, r->stream[0]) != HOOP_SUCCESS ||
              hoop_send_on_stream(r->in.memory, LONG, HOOP_UINT8, 1, 4, r->comm, r->stream[0]) != HOOP_SUCCESS ||
              hoop_send_on_stream(r->in.memory, SHORT, HOOP_UINT8, 1, 4, r->comm, r->stream[1]) != HOOP_SUCCESS ||
              cuda_rank_copy(r, r->stream[0], r->out.memory, behind.memory, BEHIND);
    usleep(200000);
    double start = party_clock();
    if (r->rank == 1 && how == 2)
        kill(getpid(), SIGKILL);
    if (r->rank == how && hoop_comm_abort(r->comm, "enough") != HOOP_SUCCESS)
        bad = cuda_rank_complain("abort");
    if (r->rank == 0 && !bad)
        bad = !goes_on(r, r->stream[0], start) || cuda_rank_wait(r, r->stream[1]);
    while (r->rank == 1 && how == 0 && hoop_comm_progress(r->comm) == HOOP_SUCCESS)
        usleep(1000);
    if (!bad && how < 2)
        bad = !cuda_rank_failed_so(r, HOOP_ERR_ABORTED, how, "enough");
    if (!bad && how >= 2 && r->rank == 0)
        bad = !cuda_rank_failed_so(r, HOOP_ERR_PEER_LOST, 1, how == 2 ? "rank 1" : "left the communicator");
    arena_free(&behind);
    return bad;
}

static void
test_never(party *p)
{
    static const char *const text[] = {"rank 0 aborts", "the other rank aborts", "the other rank dies",
                                       "the other rank leaves"};
    for (int how = 0; how < 4; how++) /* one is killed */
        is_int(how == 2, cuda_rank_run(p, 2, never_comes, how),
               "a stream waits for a message that never comes: %s, and it goes on", text[how]);
}

/* --- a limit --- */

/* A message whose stream has come has a limit, and the peer that does not send it is named. */
static int
late(cuda_rank *r)
{
    hoop_error error = {.size = sizeof(error)};
    int bad = cuda_rank_streams(r, 1, 0);
    bad = bad || hoop_barrier(r->comm) != HOOP_SUCCESS;
    if (r->rank == 0) {
        hoop_comm_set_timeout(r->comm, 5000);
        double start = party_clock();
        bad = bad ||
              hoop_recv_on_stream(r->out.memory, SHORT, HOOP_UINT8, 1, 3, r->comm, r->stream[0]) != HOOP_SUCCESS ||
              cuda_rank_wait(r, r->stream[0]);
        bad = bad || !cuda_rank_failed_so(r, HOOP_ERR_TIMEOUT, 1, "which has not sent it") ||
              cuda_rank_took_longer(start, 6, "the limit");
    }
    while (r->rank == 1 && hoop_comm_progress(r->comm) == HOOP_SUCCESS)
        usleep(1000);
    return bad;
}

/* --- destroy --- */

/* Both ranks leave while slices are on their way through the GPU: the messages are complete before. */
static int
destroyed(cuda_rank *r)
{
    hoop_work *works[2] = {NULL, NULL};
    int bad = cuda_rank_streams(r, 0, 2000);
    memset(r->data, r->rank + 1, MOST);
    memset(r->to, 0, MOST);
    arena_put(&r->in, r->data, MOST);
    arena_put(&r->out, r->to, MOST);
    bad = bad || hoop_isend(r->in.memory, LONG, HOOP_UINT8, 1 - r->rank, 0, r->comm, &works[0]) != HOOP_SUCCESS ||
          hoop_irecv(r->out.memory, LONG, HOOP_UINT8, 1 - r->rank, 0, r->comm, &works[1]) != HOOP_SUCCESS;
    hoop_work_free(works[0]);
    hoop_work_free(works[1]);
    if (!bad && hoop_comm_destroy(r->comm) != HOOP_SUCCESS)
        bad = cuda_rank_complain("destroy");
    r->comm = NULL;
    arena_get(&r->out, r->seen, MOST);
    for (size_t i = 0; i < MOST && !bad; i++)
        if (r->seen[i] != (i < LONG ? 2 - r->rank : 0)) {
            party_note("byte %zu is %d", i, r->seen[i]);
            bad = 1;
        }
    return bad;
}

/* --- the driver fails --- */

static hoop_result
exchange_until_error(cuda_rank *r)
{
    static const size_t lengths[] = {SHORT, LONG, 100};
    hoop_error error = {.size = sizeof(error)};
    int next = (r->rank + 1) % r->size, previous = (r->rank + r->size - 1) % r->size;
    hoop_result result = HOOP_SUCCESS;
    for (int i = 0; i < 3 && result == HOOP_SUCCESS; i++) {
        result = hoop_group_start(r->comm); /* the error may be known by now, and then no group is open */
        if (result == HOOP_SUCCESS) {
            hoop_send(r->in.memory, lengths[i], HOOP_UINT8, next, 0, r->comm);
            hoop_recv(r->out.memory, lengths[i], HOOP_UINT8, previous, 0, r->comm);
            result = hoop_group_end(r->comm);
        }
        if (result == HOOP_SUCCESS)
            result = hoop_send_on_stream(r->in.memory, SHORT, HOOP_UINT8, next, 1, r->comm, NULL);
        if (result == HOOP_SUCCESS)
            result = hoop_recv_on_stream(r->out.memory, SHORT, HOOP_UINT8, previous, 1, r->comm, NULL);
    }
    if (result == HOOP_SUCCESS) /* an error may come after the last result */
        result = hoop_barrier(r->comm);
    hp_cuda_stream_wait(r->device, NULL, &error);
    return result;
}

/* how: a call of rank 0's driver fails; 0: a kernel does. The note: the result, the rank that the error names, the call. */
static int
failures(cuda_rank *r)
{
    hoop_error error = {.size = sizeof(error)};
    int kernel = r->how == 0;
    arena_put(&r->in, r->seen, MOST);
    hoop_result result = hoop_barrier(r->comm);
    cuda_rank_fault(r);
    if (result == HOOP_SUCCESS && kernel) /* once without a failure */
        result = exchange_until_error(r);
    if (result == HOOP_SUCCESS && kernel && r->rank == 0)
        r->fake->break_kernel();
    if (result == HOOP_SUCCESS)
        result = exchange_until_error(r);
    const char *failed = r->rank == 0 ? r->fake->failed() : NULL;
    r->fake->fail(0, 0);
    if (r->rank == 0 && kernel)
        r->fake->heal();
    /* rank 0 may have failed when the others had all they needed of it; its thread may still be about to say so */
    for (int i = 0; failed && i < 1000 && result == HOOP_SUCCESS; i++) {
        usleep(1000);
        result = hoop_comm_progress(r->comm);
    }
    if (result == HOOP_SUCCESS)
        result = hoop_barrier(r->comm);
    hoop_comm_error(r->comm, &error);
    party_note("%d %d %s | %s", (int)result, error.rank, failed ? failed : "-", error.text);
    return 0;
}

/* As cuda_rank_faults wants it; call 0 is a kernel. */
static int
judge(const party *p, long failing)
{
    int code[3] = {-1, -1, -1}, rank[3] = {-1, -1, -1}, good = 1;
    char call[3][64];
    for (int i = 0; i < 3 && good; i++)
        good = sscanf(p->guest[i].note, "%d %d %63s", &code[i], &rank[i], call[i]) == 3;
    if (good && failing && strcmp(call[0], "-") == 0)
        return -1;
    int harmless = good && failing && code[0] == HOOP_SUCCESS; /* hoop ignores a failure to free */
    for (int i = 0; i < 3 && good; i++)
        good =
            harmless ? code[i] == HOOP_SUCCESS : code[i] == (i == 0 ? HOOP_ERR_CUDA : HOOP_ERR_ABORTED) && rank[i] == 0;
    for (int i = 0; i < 3 && !good; i++)
        diag("call %ld, rank %d: %s", failing, i, p->guest[i].note);
    return good;
}

int
main(void)
{
    party p;
    tap_limit(240);
    plan_lazy();
    party_open(&p);
    test_never(&p);
    cuda_rank_party(&p, 2, late, 0, "a message whose stream has come has a time limit");
    cuda_rank_party(&p, 2, destroyed, 0, "destroy while bytes are copied");
    if (!getenv("HOOP_TEST_CUDA")) {
        ok(cuda_rank_run(&p, 3, failures, 0) == 0 && judge(&p, 0) == 1, "a kernel that copies a message fails");
        cuda_rank_faults(&p, failures, 40, judge);
    }
    party_close(&p);
    return 0;
}
