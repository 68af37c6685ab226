/* SPDX-License-Identifier: MIT */
/*
 * Functions that are called when an operation has ended, whoever drives: each once, one at a time, in order, and able to
 * start the next operation; also when the operation fails. Works that are let go, one of several communicators' works,
 * and a descriptor that is closed again.
 */
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHAIN = 1000, FLIGHT = 200, COUNT = 5 };

typedef enum way { WAITS, BACKGROUND, DESCRIPTOR, WAYS } way;
static const char *const way_name[WAYS] = {"a thread that waits", "the background thread", "the program's own loop"};

static atomic_int wrong, within;

static void
note(int right, const char *what)
{
    if (right)
        return;
    if (atomic_fetch_add(&wrong, 1) == 0)
        party_note("%s", what);
}

/* --- a chain: each function starts the next operation --- */

static struct chain {
    hoop_comm *comm;
    way how;
    hoop_work *work[CHAIN + 1];
    int64_t in[COUNT], out[COUNT];
    atomic_int links;
} chain;

static void
on_link(void *arg, hoop_result result)
{
    int k = (int)(intptr_t)arg, rank = hoop_comm_rank(chain.comm), n = hoop_comm_size(chain.comm);
    note(atomic_fetch_add(&within, 1) == 0, "two functions at a time");
    note(result == HOOP_SUCCESS && k == atomic_load(&chain.links), "a link in its turn");
    for (int i = 0; i < COUNT; i++) {
        note(chain.out[i] == (int64_t)n * (n - 1) / 2 + (int64_t)n * (k + i), "its sum");
        chain.in[i] = rank + k + 1 + i;
        chain.out[i] = -1;
    }
    if (k + 1 < CHAIN) {
        hoop_result started =
            hoop_iallreduce(chain.in, chain.out, COUNT, HOOP_INT64, HOOP_SUM, chain.comm, &chain.work[k + 1]);
        note(started == HOOP_SUCCESS, "a function starts the next operation");
        started = hoop_work_on_done(chain.work[k + 1], on_link, (void *)(intptr_t)(k + 1));
        note(started == HOOP_SUCCESS, "and sets the next function");
    }
    if (chain.how != WAITS)
        note(hoop_work_free(chain.work[k]) == HOOP_SUCCESS, "and frees its own work");
    atomic_fetch_sub(&within, 1);
    atomic_store(&chain.links, k + 1);
}

static int
run_chain(int rank, int size, void *arg)
{
    chain.how = *(way *)arg;
    chain.comm = party_join(1);
    struct pollfd ready = {chain.how == DESCRIPTOR ? hoop_comm_fd(chain.comm) : -1, POLLIN, 0};
    for (int i = 0; i < COUNT; i++)
        chain.in[i] = rank + i;
    hoop_iallreduce(chain.in, chain.out, COUNT, HOOP_INT64, HOOP_SUM, chain.comm, &chain.work[0]);
    note(hoop_work_on_done(chain.work[0], on_link, NULL) == HOOP_SUCCESS, "on_done");
    for (int k = 0; k < CHAIN && chain.how == WAITS; k++) /* a wait returns after the function that starts the next */
        note(hoop_work_wait(chain.work[k], -1) == HOOP_SUCCESS && atomic_load(&chain.links) > k, "a wait for a link");
    while (chain.how == DESCRIPTOR && atomic_load(&chain.links) < CHAIN)
        if (poll(&ready, 1, 10000) == 1)
            hoop_comm_progress(chain.comm);
    while (atomic_load(&chain.links) < CHAIN)
        usleep(1000);
    note(hoop_comm_destroy(chain.comm) == HOOP_SUCCESS && atomic_load(&chain.links) == CHAIN, "the end");
    return atomic_load(&wrong) != 0;
}

/* --- many in flight --- */

static atomic_int called;
static hoop_result called_with[FLIGHT];

static void
on_flight(void *arg, hoop_result result)
{
    int k = (int)(intptr_t)arg;
    note(atomic_fetch_add(&within, 1) == 0, "two functions at a time");
    note(atomic_load(&called) == k, "in the order of the operations");
    called_with[k] = result;
    atomic_fetch_sub(&within, 1);
    atomic_store(&called, k + 1);
}

static int32_t flight_in[FLIGHT], flight_out[FLIGHT];

static void
take_off(hoop_comm *comm, int works, int free_them)
{
    for (int k = 0; k < works; k++) {
        hoop_work *work = NULL;
        flight_in[k] = k;
        flight_out[k] = -1;
        note(hoop_iallreduce(&flight_in[k], &flight_out[k], 1, HOOP_INT32, HOOP_SUM, comm, &work) == HOOP_SUCCESS,
             "start");
        note(hoop_work_on_done(work, on_flight, (void *)(intptr_t)k) == HOOP_SUCCESS, "on_done");
        if (free_them)
            note(hoop_work_free(work) == HOOP_SUCCESS, "free before the end");
    }
}

static int
all_called_with(hoop_result result, int works)
{
    int right = atomic_load(&called) == works;
    for (int k = 0; k < works; k++)
        right &= called_with[k] == result;
    return right;
}

/* Works that were let go before they ended are used again: round after round, with and without functions. */
static int
let_go(int rank, int size, void *arg)
{
    hoop_comm *comm = party_join(1);
    for (int round = 0; round < 20; round++) {
        atomic_store(&called, 0);
        take_off(comm, FLIGHT, 1);
        note(hoop_barrier(comm) == HOOP_SUCCESS, "a barrier behind them");
        while (atomic_load(&called) < FLIGHT)
            usleep(100);
        note(all_called_with(HOOP_SUCCESS, FLIGHT), "every function once, with success");
        for (int k = 0; k < FLIGHT; k++)
            note(flight_out[k] == size * k, "the sum of a work that was let go");
    }
    note(hoop_work_free(NULL) == HOOP_SUCCESS, "free NULL");
    return hoop_comm_destroy(comm) != HOOP_SUCCESS || atomic_load(&wrong) != 0;
}

/* --- failures --- */

typedef enum ending { ABORTS, DIES, DESTROYS, ABORTS_INSIDE, ENDINGS } ending;
static const char *const ending_name[ENDINGS] = {"an abort", "the death of a rank", "hoop_comm_destroy",
                                                 "an abort by a function"};

static hoop_comm *to_abort;

static void
on_first(void *arg, hoop_result result)
{
    note(result == HOOP_SUCCESS, "the first has ended well");
    party_mark(); /* an abort of one rank may reach the other before that one has seen the end of its own */
    note(party_await_marks(2), "on both ranks");
    note(hoop_comm_abort(to_abort, "a function says so") == HOOP_SUCCESS, "an abort inside a function");
}

/* Rank 1 starts none of the operations of the others, and ends the communicator. */
static int
fail_all(int rank, int size, void *arg)
{
    static int32_t one = 1, sum;
    ending how = *(ending *)arg;
    hoop_comm *comm = party_join(1);
    hoop_work *work;
    if (rank == 1) {
        party_nap(0.3);
        if (how == ABORTS)
            hoop_comm_abort(comm, "the test says so");
        if (how == DIES)
            _exit(0);
        if (how == ABORTS_INSIDE) {
            hoop_allreduce(&one, &sum, 1, HOOP_INT32, HOOP_SUM, comm);
            while (hoop_comm_error(comm, &(hoop_error){.size = sizeof(hoop_error)}) == HOOP_SUCCESS &&
                   hoop_barrier(comm) == HOOP_SUCCESS)
                continue;
        }
        if (how == DESTROYS)
            party_nap(1.5);
        hoop_comm_destroy(comm);
        return 0;
    }
    to_abort = comm;
    if (how == ABORTS_INSIDE) {
        hoop_iallreduce(&one, &sum, 1, HOOP_INT32, HOOP_SUM, comm, &work);
        hoop_work_on_done(work, on_first, NULL);
        hoop_work_free(work);
    }
    take_off(comm, 50, rank == 0);
    hoop_result expected = how == DIES ? HOOP_ERR_PEER_LOST : HOOP_ERR_ABORTED, last;
    if (how == DESTROYS) {
        last = hoop_comm_destroy(comm);
        note(last != HOOP_SUCCESS && all_called_with(last, 50), "destroying calls all functions with its error");
        return atomic_load(&wrong) != 0;
    }
    for (tap_wait w = {0}; atomic_load(&called) < 50 && tap_waits(&w);)
        usleep(1000);
    note(all_called_with(expected, 50), "every function, with the error");
    note(hoop_comm_destroy(comm) == expected, "and destroying says it too");
    return atomic_load(&wrong) != 0;
}

/* --- one of several --- */

/* Three communicators; rank 1 enters their operations in another order, each when rank 0 has seen the end of the one before. */
static int
choose(int rank, int size, void *arg)
{
    static const size_t order[] = {2, 0, 1};
    hoop_comm *world = party_join(1), *comm[3];
    hoop_work *works[5] = {NULL};
    int32_t in[3] = {1, 2, 3}, out[3] = {0};
    int by_loop = *(int *)arg;
    size_t index = 99;
    for (int i = 0; i < 3; i++)
        if (hoop_comm_split(world, 0, rank, &comm[i]) != HOOP_SUCCESS || hoop_barrier(comm[i]) != HOOP_SUCCESS)
            return 1; /* the first operation makes a connection, which takes several turns of the program's loop */
    if (by_loop)      /* nobody calls hoop_comm_progress: the wait drives, or has driven, all three */
        for (int i = 0; i < 3; i++)
            note(hoop_comm_fd(comm[i]) >= 0, "a descriptor");
    for (int i = 0; i < 3; i++) {
        size_t at = rank == 1 ? order[i] : (size_t)i;
        if (rank == 1)
            note(party_await_marks(i + 1), "rank 0 has seen what was before");
        note(hoop_iallreduce(&in[at], &out[at], 1, HOOP_INT32, HOOP_SUM, comm[at], &works[at + 1]) == HOOP_SUCCESS,
             "start");
    }
    if (rank != 1) {
        note(hoop_wait_any(works, 5, 20, &index) == HOOP_IN_PROGRESS && index == 5, "time is up");
        party_mark();
    }
    for (int i = 0; i < 3; i++) {
        note(hoop_wait_any(works, 5, -1, &index) == HOOP_SUCCESS && index < 5 && !works[index], "one has ended");
        note(rank == 1 || index == order[i] + 1, "in the order in which rank 1 enters them");
        if (rank != 1)
            party_mark();
    }
    for (int i = 0; i < 3; i++)
        note(out[i] == (i + 1) * size, "its sum");
    note(hoop_wait_any(works, 5, -1, &index) == HOOP_SUCCESS && index == 5, "all are NULL");
    note(hoop_wait_any(NULL, 0, -1, &index) == HOOP_SUCCESS && index == 0, "there is none");
    for (int i = 0; i < 3; i++)
        note(hoop_comm_destroy(comm[i]) == HOOP_SUCCESS, "destroy");
    return hoop_comm_destroy(world) != HOOP_SUCCESS || atomic_load(&wrong) != 0;
}

/* --- the descriptor is closed again --- */

/* An operation of the background thread: nobody waits or calls hoop_comm_progress. */
static void
by_background(hoop_comm *comm, int32_t *sum)
{
    static int32_t one = 1;
    hoop_work *work;
    uint64_t before = hoop_comm_completed(comm);
    hoop_iallreduce(&one, sum, 1, HOOP_INT32, HOOP_SUM, comm, &work);
    for (tap_wait w = {0}; hoop_comm_completed(comm) == before && tap_waits(&w);)
        usleep(1000);
    note(hoop_comm_completed(comm) == before + 1, "the background thread drives");
    hoop_work_wait(work, -1);
}

static void
by_loop(hoop_comm *comm, int fd, int32_t *sum)
{
    static int32_t one = 1;
    struct pollfd ready = {fd, POLLIN, 0};
    hoop_work *work;
    int done = 0, rounds = 0;
    hoop_iallreduce(&one, sum, 1, HOOP_INT32, HOOP_SUM, comm, &work);
    for (; hoop_work_test(work, &done) == HOOP_SUCCESS && !done && rounds < 1000; rounds++)
        if (poll(&ready, 1, 30000) == 1)
            hoop_comm_progress(comm);
    note(done, "the program drives");
    hoop_work_wait(work, -1);
}

static int
close_descriptor(int rank, int size, void *arg)
{
    int32_t sum[4] = {0}, one = 1;
    hoop_comm *comm = party_join(1);
    hoop_work *work;
    note(hoop_comm_fd_close(comm) == HOOP_SUCCESS, "there is no descriptor to close");
    int fd = hoop_comm_fd(comm);
    by_loop(comm, fd, &sum[0]);
    if (rank == 1)
        note(party_await_marks(1), "rank 0 has closed its descriptor");
    uint64_t before = hoop_comm_completed(comm);
    hoop_iallreduce(&one, &sum[1], 1, HOOP_INT32, HOOP_SUM, comm, &work); /* in flight while the descriptor closes */
    note(hoop_comm_fd_close(comm) == HOOP_SUCCESS, "close");
    if (rank == 0)
        party_mark();
    for (tap_wait w = {0}; hoop_comm_completed(comm) == before && tap_waits(&w);)
        usleep(1000);
    note(hoop_work_wait(work, 60000) == HOOP_SUCCESS && sum[1] == size, "an operation in flight goes on");
    by_background(comm, &sum[2]);
    fd = hoop_comm_fd(comm);
    note(fd >= 0, "a new descriptor");
    by_loop(comm, fd, &sum[3]);
    note(sum[0] == size && sum[2] == size && sum[3] == size, "all sums");
    note(hoop_comm_fd_close(comm) == HOOP_SUCCESS && hoop_comm_fd_close(comm) == HOOP_SUCCESS, "closed twice");
    return hoop_comm_destroy(comm) != HOOP_SUCCESS || atomic_load(&wrong) != 0;
}

/* --- a group of the thread that calls --- */

static hoop_comm *grouped;

/* Its thread has a group open, on the communicator that it uses. */
static void
on_aborted(void *arg, hoop_result result)
{
    static const int32_t in = 4;
    hoop_work *work = NULL;
    note(result == HOOP_ERR_ABORTED, "its operation was aborted");
    note(hoop_iallreduce(&in, arg, 1, HOOP_INT32, HOOP_SUM, grouped, &work) == HOOP_SUCCESS, "a function starts one");
    note(hoop_group_start(grouped) == HOOP_ERR_INVALID_USAGE, "no group inside a function");
    note(hoop_group_end(grouped) == HOOP_ERR_INVALID_USAGE, "nor the end of one");
    note(hoop_work_free(work) == HOOP_SUCCESS, "and lets it go");
    atomic_store(&called, 1);
}

/* Every rank aborts a part while a group is open; the part's function starts an operation before that group's. */
static int
abort_in_group(int rank, int size, void *arg)
{
    static int32_t inside = -1;
    int32_t one = 1, nothing[2], sum = -1;
    hoop_comm *part;
    hoop_work *work;
    grouped = party_join(1);
    if (hoop_comm_split(grouped, 0, rank, &part) != HOOP_SUCCESS || hoop_comm_fd(part) < 0)
        return 1;
    note(hoop_irecv(nothing, 1, HOOP_INT32, rank, 0, part, &work) == HOOP_SUCCESS, "a message that does not come");
    note(hoop_work_on_done(work, on_aborted, &inside) == HOOP_SUCCESS, "its function");
    note(hoop_group_start(grouped) == HOOP_SUCCESS, "a group");
    hoop_allreduce(&one, &sum, 1, HOOP_INT32, HOOP_SUM, grouped);
    hoop_comm_abort(part, "the test says so");
    while (!atomic_load(&called)) /* the others' abort may have come first */
        usleep(100);
    note(sum == -1, "the group waits for its end");
    note(hoop_group_end(grouped) == HOOP_SUCCESS && sum == size, "the group");
    note(inside == 4 * size, "the operation of the function, which was before it");
    hoop_work_free(work);
    note(hoop_comm_destroy(part) == HOOP_ERR_ABORTED, "the part");
    return hoop_comm_destroy(grouped) != HOOP_SUCCESS || atomic_load(&wrong) != 0;
}

/* --- forks --- */

static int
in_child(hoop_comm *comm, hoop_work *work)
{
    hoop_work *works[] = {work};
    size_t index;
    return hoop_work_on_done(work, on_flight, NULL) != HOOP_ERR_FORKED || hoop_work_free(work) != HOOP_ERR_FORKED ||
           hoop_wait_any(works, 1, 0, &index) != HOOP_ERR_FORKED || hoop_comm_fd_close(comm) != HOOP_ERR_FORKED ||
           hoop_comm_set_timeout(comm, 1) != HOOP_ERR_FORKED || hoop_work_wait_or_fail(work, 1) != HOOP_ERR_FORKED;
}

/* A process forks while functions are called; the child may use nothing, and the parent loses nothing. */
static int
fork_meanwhile(int rank, int size, void *arg)
{
    hoop_comm *comm = party_join(1);
    hoop_work *last;
    int status = -1, children = 0;
    take_off(comm, FLIGHT, 1);
    hoop_ibarrier(comm, &last);
    for (; children < 10; children++) {
        pid_t child = fork();
        if (child == 0)
            _exit(in_child(comm, last));
        if (waitpid(child, &status, 0) != child || status != 0)
            break;
    }
    note(children == 10, "a child's calls are HOOP_ERR_FORKED");
    note(hoop_work_wait(last, -1) == HOOP_SUCCESS, "the parent waits");
    while (atomic_load(&called) < FLIGHT)
        usleep(100);
    note(all_called_with(HOOP_SUCCESS, FLIGHT), "and every function is called");
    return hoop_comm_destroy(comm) != HOOP_SUCCESS || atomic_load(&wrong) != 0 || rank < 0;
}

int
main(void)
{
    static const int sizes[] = {1, 2, 3, 4};
    party p;
    tap_limit(240);
    plan_lazy();
    party_open(&p);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (way how = 0; how < WAYS; how++)
            is_int(0, party_run(&p, sizes[i], run_chain, &how, 60), "%d ranks, a chain of %d operations: %s drives",
                   sizes[i], CHAIN, way_name[how]);
    is_int(0, party_run(&p, 3, let_go, NULL, 60), "works that are let go before they end");
    for (int loop = 0; loop < 2; loop++)
        is_int(0, party_run(&p, 2, choose, &loop, 60), "one of three communicators' operations%s",
               loop ? ", and the program's own loop" : "");
    is_int(0, party_run(&p, 2, close_descriptor, NULL, 60), "the descriptor is closed, and made again");
    is_int(0, party_run(&p, 2, fork_meanwhile, NULL, 60), "forks");
    ok(party_run(&p, 3, abort_in_group, NULL, 60) == 0, "a function that is called inside a group");
    for (ending how = 0; how < ENDINGS; how++) {
        setenv("HOOP_OP_TIMEOUT_MS", how == DESTROYS ? "1000" : "120000", 1);
        ok(party_run(&p, 3, fail_all, &how, 60) == 0, "functions are called with the error: %s", ending_name[how]);
    }
    party_close(&p);
    return tap_failures() != 0;
}
