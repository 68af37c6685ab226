/* SPDX-License-Identifier: MIT */
/*
 * What callers do wrong: every mistake is an error with a sentence, at once, on this rank alone, and the communicator goes
 * on as if nothing had been asked.
 */
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/descriptors.h"
#include "t/tools/party.h"

#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int bad;

static void
expect(hoop_comm *comm, hoop_result wanted, hoop_result got, const char *word, const char *what)
{
    hoop_error e = {.size = sizeof(e)};
    hoop_comm_error(comm, &e);
    if (wanted == got && (wanted == HOOP_SUCCESS || (e.code == wanted && strstr(e.text, word))))
        return;
    bad++;
    party_note("%s: wanted %s, got %s, \"%s\"", what, hoop_strerror(wanted), hoop_strerror(got), e.text);
}

static int
still_right(hoop_comm *comm)
{
    int32_t one = 1, sum = 0;
    return hoop_allreduce(&one, &sum, 1, HOOP_INT32, HOOP_SUM, comm) == HOOP_SUCCESS && sum == hoop_comm_size(comm);
}

/* t/lib/request.c has the whole contract: here is what the public functions do with a refusal, and before it. */
static void
arguments(hoop_comm *comm)
{
    static float a[64], b[64 * 8];
    hoop_work *work = (hoop_work *)(uintptr_t)1;
    int done, n = hoop_comm_size(comm);
    expect(NULL, HOOP_ERR_INVALID_ARGUMENT, hoop_allreduce(a, b, 1, HOOP_FLOAT32, HOOP_SUM, NULL), "NULL", "comm NULL");
    expect(comm, HOOP_ERR_INVALID_ARGUMENT, hoop_allreduce(NULL, b, 1, HOOP_FLOAT32, HOOP_SUM, comm), "sendbuf",
           "NULL in");
    expect(comm, HOOP_ERR_INVALID_ARGUMENT, hoop_allreduce(a, b, 1, (hoop_dtype)256, HOOP_SUM, comm), "dtype",
           "dtype 256");
    expect(comm, HOOP_ERR_INVALID_ARGUMENT, hoop_allreduce(a, b, 1, HOOP_INT32, (hoop_op)256, comm), "unknown op",
           "op 256");
    expect(comm, HOOP_ERR_INVALID_ARGUMENT, hoop_allgather(b + 4 * n - 2, b, 4, HOOP_FLOAT32, comm), "overlap",
           "allgather from the wrong place");
    expect(comm, HOOP_ERR_INVALID_ARGUMENT, hoop_iallreduce(a, b, 1, HOOP_FLOAT32, HOOP_SUM, comm, NULL), "work",
           "work NULL");
    expect(comm, HOOP_ERR_INVALID_ARGUMENT, hoop_iallreduce(a, NULL, 1, HOOP_FLOAT32, HOOP_SUM, comm, &work), "recvbuf",
           "failed start");
    if (work) {
        bad++;
        party_note("a failed start left a handle");
    }
    struct {
        hoop_call_options known;
        uint64_t later; /* no padding behind it */
    } options = {{.size = sizeof(options)}, 1};
    expect(comm, HOOP_ERR_UNSUPPORTED,
           hoop_iallreduce_with(a, b, 4, HOOP_FLOAT32, HOOP_SUM, comm, &options.known, &work), "options",
           "an unknown option");
    options.later = 0;
    expect(comm, HOOP_SUCCESS, hoop_iallreduce_with(a, b, 4, HOOP_FLOAT32, HOOP_SUM, comm, &options.known, &work), "",
           "options of a later version, all 0");
    expect(comm, HOOP_SUCCESS, hoop_work_wait(work, -1), "", "its wait");
    expect(comm, HOOP_SUCCESS, hoop_iallreduce_with(a, b, 4, HOOP_FLOAT32, HOOP_SUM, comm, NULL, &work), "",
           "no options");
    expect(comm, HOOP_SUCCESS, hoop_work_wait(work, -1), "", "its wait");
    expect(NULL, HOOP_ERR_INVALID_ARGUMENT, hoop_work_wait(NULL, -1), "NULL", "wait NULL");
    done = 1;
    expect(NULL, HOOP_ERR_INVALID_ARGUMENT, hoop_work_test(NULL, &done), "NULL", "test NULL");
    if (done) {
        bad++;
        party_note("a refused test says that the operation has ended");
    }
    expect(comm, HOOP_ERR_UNSUPPORTED, hoop_allreduce_on_stream(a, b, 1, HOOP_FLOAT32, HOOP_SUM, comm, NULL),
           "device memory", "on_stream with host memory");
    expect(comm, HOOP_ERR_INVALID_ARGUMENT, hoop_comm_grow(comm, NULL), "newcomm", "grow without a place for it");
    expect(comm, HOOP_SUCCESS, hoop_allreduce(NULL, NULL, 0, HOOP_FLOAT32, HOOP_SUM, comm), "", "count 0");
}

static void
groups(hoop_comm *comm)
{
    float a[4] = {1, 2, 3, 4}, b[4];
    hoop_work *work;
    expect(comm, HOOP_ERR_INVALID_USAGE, hoop_group_end(comm), "hoop_group_start", "end without start");
    expect(comm, HOOP_SUCCESS, hoop_group_start(comm), "", "start");
    expect(comm, HOOP_ERR_INVALID_USAGE, hoop_group_start(comm), "nest", "nesting");
    expect(comm, HOOP_ERR_INVALID_USAGE, hoop_iallreduce(a, b, 4, HOOP_FLOAT32, HOOP_SUM, comm, &work), "group",
           "i inside");
    expect(comm, HOOP_SUCCESS, hoop_allreduce(a, b, 4, HOOP_FLOAT32, HOOP_SUM, comm), "", "queued");
    expect(comm, HOOP_ERR_INVALID_ARGUMENT, hoop_allreduce(a, NULL, 4, HOOP_FLOAT32, HOOP_SUM, comm), "recvbuf",
           "bad inside");
    expect(comm, HOOP_ERR_INVALID_ARGUMENT, hoop_group_end(comm), "recvbuf", "the end returns it and drops the group");
    expect(comm, HOOP_SUCCESS, hoop_group_start(comm), "", "start again");
    expect(comm, HOOP_SUCCESS, hoop_group_end(comm), "", "an empty group");
}

static int
mistakes(int rank, int size, void *arg)
{
    hoop_comm *comm;
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS)
        return 1;
    arguments(comm);
    if (!still_right(comm))
        bad++;
    groups(comm);
    if (!still_right(comm))
        bad++;
    return bad || hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

/* --- threads --- */

typedef struct caller {
    hoop_comm *comm;
    hoop_result result;
    hoop_work *work;
    int32_t in, out;
} caller;

static void *
call_blocking(void *arg)
{
    caller *c = arg;
    c->result = hoop_allreduce(&c->in, &c->out, 1, HOOP_INT32, HOOP_SUM, c->comm);
    return NULL;
}

static void *
call_starting(void *arg)
{
    caller *c = arg;
    c->result = hoop_iallreduce(&c->in, &c->out, 1, HOOP_INT32, HOOP_SUM, c->comm, &c->work);
    return NULL;
}

static int
threads(int rank, int size, void *arg)
{
    enum { N = 8 };
    hoop_comm *comm;
    pthread_t thread;
    caller first = {.in = 1}, second = {.in = 1}, many[N] = {{0}};
    pthread_t starters[N];
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS)
        return 1;
    first.comm = second.comm = comm;
    if (rank == 0) { /* the others come late: the first call waits and drives, and the second waits beside it */
        pthread_create(&thread, NULL, call_blocking, &first);
        usleep(150000);
        call_blocking(&second);
        pthread_join(thread, NULL);
    } else {
        usleep(400000);
        call_blocking(&first);
        call_blocking(&second);
    }
    if (first.result != HOOP_SUCCESS || first.out != size || second.result != HOOP_SUCCESS || second.out != size)
        return 3;
    for (int i = 0; i < N; i++) {
        many[i].comm = comm;
        many[i].in = 1;
        pthread_create(&starters[i], NULL, call_starting, &many[i]);
    }
    for (int i = 0; i < N; i++)
        pthread_join(starters[i], NULL);
    for (int i = 0; i < N; i++)
        if (many[i].result != HOOP_SUCCESS || hoop_work_wait(many[i].work, -1) != HOOP_SUCCESS || many[i].out != size)
            return 4;
    return !still_right(comm) || hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

/* --- fork --- */

static int
forks(int rank, int size, void *arg)
{
    hoop_comm *comm;
    int status = 0;
    pid_t child;
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS)
        return 1;
    child = fork();
    if (child == 0) {
        hoop_error e = {.size = sizeof(e)};
        int forked = hoop_barrier(comm) == HOOP_ERR_FORKED && hoop_comm_error(comm, &e) == HOOP_SUCCESS &&
                     strstr(e.text, "parent") && hoop_comm_destroy(comm) == HOOP_ERR_FORKED;
        _exit(forked ? 0 : 1);
    }
    waitpid(child, &status, 0);
    for (int i = 0; i < 10; i++)
        if (!still_right(comm))
            return 2;
    child = fork();
    if (child == 0) /* no socket may be left in a program that the child becomes */
        execl("/bin/sh", "sh", "-c", "for f in /proc/$$/fd/*; do case $(readlink $f) in socket:*) exit 1;; esac; done",
              (char *)NULL);
    int leaked = 1;
    waitpid(child, &leaked, 0);
    if (status || leaked)
        party_note("child's status %#x, exec'd child's %#x", (unsigned)status, (unsigned)leaked);
    return status || leaked || hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

/* While rank 2 sleeps, rank 0's chord to it is in the middle of its handshake: a child closes that connection, too. */
static int
forks_dialling(int rank, int size, void *arg)
{
    hoop_comm *comm;
    hoop_work *work;
    int32_t one = 1, sum = 0;
    int left = 0;
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS)
        return 1;
    if (rank == 2)
        usleep(500000);
    if (hoop_iallreduce(&one, &sum, 1, HOOP_INT32, HOOP_SUM, comm, &work) != HOOP_SUCCESS)
        return 2;
    if (rank == 0) {
        usleep(200000);
        pid_t child = fork();
        if (child == 0)
            _exit(count_sockets());
        waitpid(child, &left, 0);
    }
    if (left)
        party_note("the child has %d sockets", WEXITSTATUS(left));
    return left || hoop_work_wait(work, -1) != HOOP_SUCCESS || sum != size || hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

/* --- fusion, split, waits that time out --- */

static int
grouped(int rank, int size, void *arg)
{
    enum { N = 200 };
    static float in[N][97], out[N][97];
    hoop_comm *comm;
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS)
        return 1;
    hoop_group_start(comm);
    for (int i = 0; i < N; i++) {
        size_t count = (size_t)(i * 7) % 98;
        for (size_t k = 0; k < count; k++)
            in[i][k] = (float)((rank + 1) * (i + (int)k % 5));
        memset(out[i], 0xff, sizeof(out[i]));
        if (i == 100)
            hoop_broadcast(in[i], out[i], count, HOOP_FLOAT32, size - 1, comm);
        else
            hoop_allreduce(in[i], out[i], count, HOOP_FLOAT32, i % 10 == 9 ? HOOP_MAX : HOOP_SUM, comm);
    }
    if (hoop_group_end(comm) != HOOP_SUCCESS || hoop_comm_completed(comm) != N)
        return 2;
    for (int i = 0; i < N; i++)
        for (size_t k = 0; k < (size_t)(i * 7) % 98; k++) {
            int factor = i == 100 || i % 10 == 9 ? size : size * (size + 1) / 2;
            if (out[i][k] != (float)(factor * (i + (int)k % 5))) {
                party_note("tensor %d element %zu is %g", i, k, (double)out[i][k]);
                return 3;
            }
        }
    return hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

static int
split(int rank, int size, void *arg)
{
    hoop_comm *comm, *part, *sub;
    int32_t sum = 0, me = rank;
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS)
        return 1;
    /* the last rank takes no part; the others by parity, ranked backwards */
    if (hoop_comm_split(comm, rank == size - 1 ? -1 : rank % 2, -rank, &part) != HOOP_SUCCESS)
        return 2;
    if ((!part) != (rank == size - 1))
        return 3;
    if (part) {
        int want = 0, members = 0, above = 0;
        for (int r = rank % 2; r < size - 1; r += 2)
            want += r, members++, above += r > rank;
        if (hoop_comm_size(part) != members || hoop_comm_rank(part) != above)
            return 4;
        if (hoop_allreduce(&me, &sum, 1, HOOP_INT32, HOOP_SUM, part) != HOOP_SUCCESS || sum != want)
            return 5;
        if (hoop_comm_split(part, 0, 0, &sub) != HOOP_SUCCESS || !still_right(sub) || !still_right(!comm ? sub : part))
            return 6;
        hoop_comm_destroy(sub);
        hoop_comm_destroy(part);
    }
    return !still_right(comm) || hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

static int
waits(int rank, int size, void *arg)
{
    hoop_comm *comm;
    hoop_work *work;
    int32_t one = 1, sum = 0;
    int done = 0;
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS)
        return 1;
    if (rank == size - 1 && !party_await_marks(size - 1))
        return 6;
    if (hoop_iallreduce(&one, &sum, 1, HOOP_INT32, HOOP_SUM, comm, &work) != HOOP_SUCCESS)
        return 2;
    if (rank < size - 1 && hoop_work_wait(work, 50) != HOOP_IN_PROGRESS)
        return 3;
    party_mark();
    while (!done)
        if (hoop_work_test(work, &done) != HOOP_SUCCESS)
            return 4;
    if (hoop_work_wait(work, 0) != HOOP_SUCCESS || sum != size)
        return 5;
    return hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

/* --- a loop of the program's own --- */

/* Wakes of the descriptor within a time, each answered by hoop_comm_progress. */
static int
wakes(hoop_comm *comm, int fd, int ms, hoop_result *result)
{
    int count = 0;
    double end = party_clock() + ms / 1e3;
    *result = HOOP_SUCCESS;
    while (party_clock() < end && *result == HOOP_SUCCESS) {
        struct pollfd p = {fd, POLLIN, 0};
        count += poll(&p, 1, (int)((end - party_clock()) * 1e3) + 1) > 0;
        *result = hoop_comm_progress(comm);
    }
    return count;
}

static int
own_loop(int rank, int size, void *arg)
{
    hoop_comm *comm;
    hoop_work *work;
    hoop_result result;
    int32_t one = 1, sum = 0;
    int fd, done = 0, idle;
    setenv("HOOP_OP_TIMEOUT_MS", "6000", 1);
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS)
        return 1;
    fd = hoop_comm_fd(comm);
    if (fd < 0)
        return 2;
    if (rank == 0) /* the others begin the operation: that alone must not keep this rank awake */
        idle = wakes(comm, fd, 500, &result);
    else
        idle = 0;
    if (idle > 50 || hoop_iallreduce(&one, &sum, 1, HOOP_INT32, HOOP_SUM, comm, &work) != HOOP_SUCCESS) {
        party_note("%d wakes while idle", idle);
        return 3;
    }
    while (!done) {
        wakes(comm, fd, 10, &result);
        if (hoop_work_test(work, &done) != HOOP_SUCCESS)
            return 4;
    }
    if (hoop_work_wait(work, 0) != HOOP_SUCCESS || sum != size)
        return 5;
    if (rank == 0) { /* never enters: the others' sleeping loops must still be woken for the time-out */
        int woken = party_await_marks(size - 1);
        hoop_comm_destroy(comm);
        return !woken;
    }
    if (hoop_iallreduce(&one, &sum, 1, HOOP_INT32, HOOP_SUM, comm, &work) != HOOP_SUCCESS)
        return 6;
    wakes(comm, fd, 30000, &result);
    party_mark();
    hoop_comm_destroy(comm);
    return result == HOOP_ERR_TIMEOUT ? 0 : 7;
}

/* --- the end of a group while another thread waits --- */

static void *
receive_one(void *comm)
{
    int32_t got = 0;
    return hoop_recv(&got, 1, HOOP_INT32, 1, 7, comm) == HOOP_SUCCESS && got == 41 ? NULL : comm;
}

static int
group_beside(int rank, int size, void *arg)
{
    const int32_t one = 1, message = 41;
    hoop_comm *comm;
    pthread_t thread;
    void *failed = NULL;
    int32_t sum = -7;
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS)
        return 1;
    if (rank == 0)
        pthread_create(&thread, NULL, receive_one, comm);
    hoop_group_start(comm);
    hoop_allreduce(&one, &sum, 1, HOOP_INT32, HOOP_SUM, comm);
    if (hoop_group_end(comm) != HOOP_SUCCESS || sum != size)
        return 2;
    if (rank == 1 && hoop_send(&message, 1, HOOP_INT32, 0, 7, comm) != HOOP_SUCCESS)
        return 3;
    if (rank == 0)
        pthread_join(thread, &failed);
    return failed || hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

/* --- several ranks in one process --- */

typedef struct asker {
    pthread_t thread;
    int rank, size;
    hoop_result result;
    hoop_error error;
} asker;

static void *
ask_for_rank(void *arg)
{
    asker *a = arg;
    char rank[16], size[16];
    hoop_comm *comm = NULL;
    hoop_config *config = hoop_config_new();
    snprintf(rank, sizeof(rank), "%d", a->rank);
    snprintf(size, sizeof(size), "%d", a->size);
    a->error = (hoop_error){.size = sizeof(a->error)};
    if (hoop_config_set(config, "rank", rank) != HOOP_SUCCESS || hoop_config_set(config, "size", size) != HOOP_SUCCESS)
        return NULL;
    a->result = hoop_comm_create(&comm, config);
    hoop_comm_error(NULL, &a->error);
    hoop_comm_destroy(comm);
    hoop_config_free(config);
    return NULL;
}

/* At once, or with a rank of which another thread had heard it. */
static int
is_refused(const asker *a)
{
    if (a->result != HOOP_SUCCESS && strstr(a->error.text, "one process is one rank"))
        return 1;
    party_note("thread of rank %d: %s, \"%s\"", a->rank, hoop_strerror(a->result), a->error.text);
    return 0;
}

/* Neither of two waits for the third; nor does that one, which asks when the other two have given up. */
static int
ranks_as_threads(int rank, int size, void *arg)
{
    enum { N = 3 };
    asker askers[N];
    int refused = 0;
    for (int i = 0; i < N; i++)
        askers[i] = (asker){.rank = i, .size = N};
    for (int i = 0; i < N - 1; i++)
        pthread_create(&askers[i].thread, NULL, ask_for_rank, &askers[i]);
    for (int i = 0; i < N - 1; i++)
        pthread_join(askers[i].thread, NULL);
    ask_for_rank(&askers[N - 1]);
    for (int i = 0; i < N; i++)
        refused += is_refused(&askers[i]);
    return refused != N;
}

/* A ring that works is not disturbed by a thread that asks to be another rank. */
static int
late_rank_as_thread(int rank, int size, void *arg)
{
    hoop_comm *comm;
    asker late = {.rank = (rank + 1) % size, .size = size};
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS)
        return 1;
    ask_for_rank(&late);
    return !is_refused(&late) || !still_right(comm) || hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

/* The memory of a communicator may be used again for the next one, which has no error. */
static void
errors_of_two(void)
{
    hoop_error e = {.size = sizeof(e)};
    hoop_comm *comm = NULL;
    int stale = 0;
    for (int i = 0; i < 20; i++) {
        if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS)
            bail("no ring of one");
        hoop_comm_error(comm, &e);
        stale += e.code != HOOP_SUCCESS;
        hoop_allreduce(NULL, NULL, 1, HOOP_INT32, HOOP_SUM, comm);
        hoop_comm_error(comm, &e);
        stale += e.code != HOOP_ERR_INVALID_ARGUMENT;
        hoop_comm_destroy(comm);
    }
    is_int(0, stale, "each communicator has its own error, wherever it lies");
}

/* An older program's hoop_error may be shorter, and then has its own end of the sentence. */
static void
error_sizes(void)
{
    struct {
        hoop_error error;
        char behind[16];
    } e;
    const size_t fixed = offsetof(hoop_error, text);
    is_int(HOOP_ERR_INVALID_ARGUMENT, hoop_comm_error(NULL, NULL), "no place for an error");
    e.error.size = fixed;
    is_int(HOOP_ERR_INVALID_ARGUMENT, hoop_comm_error(NULL, &e.error), "nor one without room for a sentence");
    hoop_barrier(NULL);
    memset(&e, '#', sizeof(e));
    e.error.size = fixed + 8;
    is_int(HOOP_SUCCESS, hoop_comm_error(NULL, &e.error), "a short one is filled");
    is_string("the com", e.error.text, "and its sentence ends");
    is_int('#', e.error.text[8], "within its size");
    e.error.size = sizeof(e);
    is_int(HOOP_SUCCESS, hoop_comm_error(NULL, &e.error), "a newer one, that is longer");
    is_int(sizeof(e.error), (intmax_t)e.error.size, "is told how much was filled");
    is_int('#', e.behind[0], "and keeps the rest");
}

int
main(void)
{
    party p;
    tap_limit(240);
    plan(21);
    error_sizes();
    errors_of_two();
    party_open(&p);
    ok(party_run(&p, 1, mistakes, NULL, 90) == 0, "wrong arguments, a ring of one");
    ok(party_run(&p, 3, mistakes, NULL, 90) == 0, "wrong arguments, three ranks");
    ok(party_run(&p, 3, threads, NULL, 90) == 0, "two threads block at once; starts from eight threads work");
    ok(party_run(&p, 2, forks, NULL, 90) == 0, "a forked child gets FORKED, the parent goes on, exec leaks no socket");
    ok(party_run(&p, 5, forks_dialling, NULL, 90) == 0, "nor does a child keep a connection that is being made");
    ok(party_run(&p, 3, grouped, NULL, 90) == 0, "a group of 200 calls, fused, is right and counts 200");
    ok(party_run(&p, 5, split, NULL, 90) == 0, "splits by color and key, and splits of splits");
    ok(party_run(&p, 3, waits, NULL, 90) == 0, "a wait that times out leaves the work alive");
    ok(party_run(&p, 3, own_loop, NULL, 90) == 0, "hoop_comm_fd sleeps while idle and wakes for time-outs");
    ok(party_run(&p, 2, group_beside, NULL, 90) == 0, "a group ends while another thread waits");
    party_expect(&p, 1, ranks_as_threads, NULL, 50, "three ranks as threads of one process are refused");
    party_expect(&p, 2, late_rank_as_thread, NULL, 50, "a thread that asks to be another rank is refused alone");
    party_close(&p);
    return 0;
}
