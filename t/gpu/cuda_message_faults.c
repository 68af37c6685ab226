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

/* 1 if the communicator's error has this code and rank, and its text this word. */
static int
failed_so(const cuda_rank *r, hoop_result code, int rank, const char *word)
{
    hoop_error error = {.size = sizeof(error)};
    hoop_comm_error(r->comm, &error);
    if (error.code == code && error.rank == rank && strstr(error.text, word))
        return 1;
    party_note("error %d of rank %d: %s", (int)error.code, error.rank, error.text);
    return 0;
}

/* Work behind the messages in the stream: 1 if it has run soon. */
static int
goes_on(cuda_rank *r, void *stream, double since)
{
    hoop_error error = {.size = sizeof(error)};
    if (hp_cuda_stream_wait(r->device, stream, &error) != HOOP_SUCCESS)
        return 0;
    double lasted = party_clock() - since;
    hp_cuda_copy(r->device, r->seen, r->out.memory, BEHIND, NULL);
    if (lasted < 3 + tap_room() && r->seen[0] == 7 && r->seen[BEHIND - 1] == 7)
        return 1;
    party_note("after %.3f s the stream has not done what was behind the messages", lasted);
    return 0;
}

/*
 * Rank 0's stream: a receive that never comes, a send that it therefore never reaches, and another stream's send that is
 * held because of the same tag. How it ends: by an abort of rank *arg; 2: by the other rank's death; 3: by hoop_comm_destroy
 * of the other rank, which leaves.
 */
static int
never_comes(int number, int size, void *arg)
{
    int how = *(int *)arg;
    hoop_error error = {.size = sizeof(error)};
    void *stream[2] = {NULL, NULL};
    cuda_rank r;
    int bad = cuda_rank_enter(&r, number, size);
    arena behind = arena_new(r.device, ARENA_SLOT, BEHIND);
    memset(behind.memory, 7, BEHIND);
    for (int s = 0; s < 2 && !bad; s++)
        bad = hp_cuda_stream_open(r.device, &stream[s], &error) != HOOP_SUCCESS;
    if (!bad && hoop_allreduce(r.in.memory, r.in.memory, 100, HOOP_INT32, HOOP_SUM, r.comm) != HOOP_SUCCESS)
        bad = cuda_rank_complain("allreduce");
    if (number == 0 && !bad)
        bad = hoop_recv_on_stream(r.out.memory, SHORT, HOOP_UINT8, 1, 3, r.comm, stream[0]) != HOOP_SUCCESS ||
              hoop_send_on_stream(r.in.memory, LONG, HOOP_UINT8, 1, 4, r.comm, stream[0]) != HOOP_SUCCESS ||
              hoop_send_on_stream(r.in.memory, SHORT, HOOP_UINT8, 1, 4, r.comm, stream[1]) != HOOP_SUCCESS ||
              hp_cuda_stream_copy(r.device, stream[0], r.out.memory, behind.memory, BEHIND, &error) != HOOP_SUCCESS;
    usleep(200000);
    double start = party_clock();
    if (number == 1 && how == 2)
        kill(getpid(), SIGKILL);
    if (number == how && hoop_comm_abort(r.comm, "enough") != HOOP_SUCCESS)
        bad = cuda_rank_complain("abort");
    if (number == 0 && !bad)
        bad = !goes_on(&r, stream[0], start) || hp_cuda_stream_wait(r.device, stream[1], &error) != HOOP_SUCCESS;
    while (number == 1 && how == 0 && hoop_comm_progress(r.comm) == HOOP_SUCCESS)
        usleep(1000);
    if (!bad && how < 2)
        bad = !failed_so(&r, HOOP_ERR_ABORTED, how, "enough");
    if (!bad && how >= 2 && number == 0)
        bad = !failed_so(&r, HOOP_ERR_PEER_LOST, 1, how == 2 ? "rank 1" : "left the communicator");
    for (int s = 0; s < 2; s++)
        hp_cuda_stream_close(r.device, stream[s]);
    arena_free(&behind);
    return cuda_rank_leave(&r) || bad;
}

static void
test_never(party *p)
{
    static const char *const text[] = {"rank 0 aborts", "the other rank aborts", "the other rank dies",
                                       "the other rank leaves"};
    for (int how = 0; how < 4; how++) {
        int bad = party_run(p, 2, never_comes, &how, 60);
        bad -= how == 2; /* the one that is killed */
        is_int(0, bad, "a stream waits for a message that never comes: %s, and it goes on", text[how]);
        for (int i = 0; i < 2 && bad; i++)
            diag("rank %d, status %#x: %s", i, (unsigned)p->guest[i].status, p->guest[i].note);
    }
}

/* --- a limit --- */

/* A message whose stream has come has a limit, and the peer that does not send it is named. */
static int
late(int number, int size, void *arg)
{
    hoop_error error = {.size = sizeof(error)};
    void *stream = NULL;
    cuda_rank r;
    int bad = cuda_rank_enter(&r, number, size) || hp_cuda_stream_open(r.device, &stream, &error) != HOOP_SUCCESS;
    (void)arg;
    bad = bad || hoop_barrier(r.comm) != HOOP_SUCCESS;
    if (number == 0) {
        hoop_comm_set_timeout(r.comm, 5000);
        double start = party_clock();
        bad = bad || hoop_recv_on_stream(r.out.memory, SHORT, HOOP_UINT8, 1, 3, r.comm, stream) != HOOP_SUCCESS ||
              hp_cuda_stream_wait(r.device, stream, &error) != HOOP_SUCCESS;
        bad = bad || !failed_so(&r, HOOP_ERR_TIMEOUT, 1, "which has not sent it");
        if (!bad && party_clock() - start > 6 + tap_room()) {
            party_note("%.1f s", party_clock() - start);
            bad = 1;
        }
    }
    while (number == 1 && hoop_comm_progress(r.comm) == HOOP_SUCCESS)
        usleep(1000);
    hp_cuda_stream_close(r.device, stream);
    return cuda_rank_leave(&r) || bad;
}

/* --- destroy --- */

/* Both ranks leave while slices are on their way through the GPU: the messages are complete before. */
static int
destroyed(int number, int size, void *arg)
{
    hoop_work *works[2] = {NULL, NULL};
    cuda_rank r;
    int bad = cuda_rank_enter(&r, number, size);
    (void)arg;
    memset(r.data, number + 1, MOST);
    memset(r.to, 0, MOST);
    arena_put(&r.in, r.data, MOST);
    arena_put(&r.out, r.to, MOST);
    if (!bad && r.fake)
        r.fake->delay(2000);
    bad = bad || hoop_isend(r.in.memory, LONG, HOOP_UINT8, 1 - number, 0, r.comm, &works[0]) != HOOP_SUCCESS ||
          hoop_irecv(r.out.memory, LONG, HOOP_UINT8, 1 - number, 0, r.comm, &works[1]) != HOOP_SUCCESS;
    hoop_work_free(works[0]);
    hoop_work_free(works[1]);
    if (!bad && hoop_comm_destroy(r.comm) != HOOP_SUCCESS)
        bad = cuda_rank_complain("destroy");
    r.comm = NULL;
    arena_get(&r.out, r.seen, MOST);
    for (size_t i = 0; i < MOST && !bad; i++)
        if (r.seen[i] != (i < LONG ? 2 - number : 0)) {
            party_note("byte %zu is %d", i, r.seen[i]);
            bad = 1;
        }
    return cuda_rank_leave(&r) || bad;
}

/* --- the driver fails --- */

typedef struct fault {
    long call; /* of rank 0's driver; 0: a kernel */
    int sticky;
} fault;

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

/* The note: the call that failed, the result, and the rank that the error names. */
static int
failures(int number, int size, void *arg)
{
    const fault *f = arg;
    hoop_error error = {.size = sizeof(error)};
    cuda_rank r;
    int bad = cuda_rank_enter(&r, number, size);
    arena_put(&r.in, r.seen, MOST);
    hoop_result result = hoop_barrier(r.comm);
    if (!bad && number == 0 && f->call)
        r.fake->fail(f->call, f->sticky);
    if (result == HOOP_SUCCESS && number == 0 && !f->call) {
        result = exchange_until_error(&r); /* once without a failure */
        r.fake->break_kernel();
    } else if (result == HOOP_SUCCESS && !f->call) {
        result = exchange_until_error(&r);
    }
    if (result == HOOP_SUCCESS)
        result = exchange_until_error(&r);
    const char *failed = number == 0 ? r.fake->failed() : NULL;
    r.fake->fail(0, 0);
    if (number == 0 && !f->call)
        r.fake->heal();
    /* rank 0 may have failed when the others had all they needed of it; its thread may still be about to say so */
    for (int i = 0; failed && i < 1000 && result == HOOP_SUCCESS; i++) {
        usleep(1000);
        result = hoop_comm_progress(r.comm);
    }
    if (result == HOOP_SUCCESS)
        result = hoop_barrier(r.comm);
    hoop_comm_error(r.comm, &error);
    party_note("%d %d %s | %s", (int)result, error.rank, failed ? failed : "-", error.text);
    cuda_rank_leave(&r);
    return bad;
}

/* 1: fine; 0: not; -1: past the last call, nothing has failed. */
static int
judge(const party *p, const fault *f)
{
    int code[3] = {-1, -1, -1}, rank[3] = {-1, -1, -1}, good = 1;
    char call[3][64];
    for (int i = 0; i < 3 && good; i++)
        good = sscanf(p->guest[i].note, "%d %d %63s", &code[i], &rank[i], call[i]) == 3;
    if (good && f->call && strcmp(call[0], "-") == 0)
        return -1;
    int harmless = good && f->call && code[0] == HOOP_SUCCESS; /* hoop ignores a failure to free */
    for (int i = 0; i < 3 && good; i++)
        good =
            harmless ? code[i] == HOOP_SUCCESS : code[i] == (i == 0 ? HOOP_ERR_CUDA : HOOP_ERR_ABORTED) && rank[i] == 0;
    for (int i = 0; i < 3 && !good; i++)
        diag("call %ld, rank %d: %s", f->call, i, p->guest[i].note);
    return good;
}

static void
test_failures(party *p, int sticky)
{
    int full = getenv("HOOP_TEST_FULL") ? 1 : 0, good = 1, rounds = 0;
    fault f = {.call = 1, .sticky = sticky};
    for (; f.call < 2000 && good == 1; f.call += full ? 1 : 1 + (long)(tap_random() % 40), rounds++) {
        int bad = party_run(p, 3, failures, &f, 30);
        for (int i = 0; i < 3 && bad; i++)
            diag("call %ld, rank %d, status %#x: %s", f.call, i, (unsigned)p->guest[i].status, p->guest[i].note);
        good = bad ? 0 : judge(p, &f);
    }
    ok(good != 0, "%s of rank 0 fails: HOOP_ERR_CUDA there, and named elsewhere (%d k)",
       sticky ? "the k-th driver call and every later one" : "the k-th driver call", rounds);
}

static void
test_broken_kernel(party *p)
{
    fault f = {0};
    int bad = party_run(p, 3, failures, &f, 60);
    ok(bad == 0 && judge(p, &f) == 1, "a kernel that copies a message fails");
}

int
main(void)
{
    party p;
    tap_limit(240);
    plan_lazy();
    party_open(&p);
    test_never(&p);
    cuda_rank_party(&p, 2, late, "a message whose stream has come has a time limit");
    cuda_rank_party(&p, 2, destroyed, "destroy while bytes are copied");
    if (!getenv("HOOP_TEST_CUDA")) {
        test_broken_kernel(&p);
        for (int sticky = 0; sticky < 2; sticky++)
            test_failures(&p, sticky);
    }
    party_close(&p);
    return 0;
}
