/* SPDX-License-Identifier: MIT */
/*
 * Functions of ended operations with many threads on a ring of one, where nothing but threads can go wrong: each is
 * called once and one at a time, a wait returns after it, destroying waits for it, and what it must not do is refused.
 * Run under TSan by check-threads.
 */
#include "hoop.h"
#include "t/tap/tap.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { ROUNDS = 300, STARTERS = 3 };

static hoop_comm *comm;
static atomic_int within, calls;

typedef struct turn {
    int32_t in, out;
    atomic_int called;
} turn;

static void
on_turn(void *arg, hoop_result result)
{
    turn *t = arg;
    tap_note(atomic_fetch_add(&within, 1) == 0 && result == HOOP_SUCCESS && t->out == t->in);
    atomic_fetch_add(&t->called, 1);
    atomic_fetch_add(&calls, 1);
    atomic_fetch_sub(&within, 1);
}

/* Sets the function at once, or when the operation may have ended; waits, or lets go. */
static void *
start_and_set(void *arg)
{
    static turn turns[STARTERS][ROUNDS];
    turn *mine = turns[(intptr_t)arg];
    for (int round = 0; round < ROUNDS; round++) {
        turn *t = &mine[round];
        hoop_work *work;
        t->in = round;
        tap_note(hoop_iallreduce(&t->in, &t->out, 1, HOOP_INT32, HOOP_SUM, comm, &work) == HOOP_SUCCESS);
        if (round % 3 == 1)
            usleep(100);
        tap_note(hoop_work_on_done(work, on_turn, t) == HOOP_SUCCESS);
        tap_note(hoop_work_on_done(work, on_turn, t) == HOOP_ERR_INVALID_USAGE);
        if (round % 2) {
            tap_note(hoop_work_free(work) == HOOP_SUCCESS);
            continue;
        }
        tap_note(hoop_work_wait(work, -1) == HOOP_SUCCESS && atomic_load(&t->called) == 1);
    }
    return NULL;
}

static void
test_threads(void)
{
    pthread_t threads[STARTERS];
    for (int i = 0; i < STARTERS; i++)
        pthread_create(&threads[i], NULL, start_and_set, (void *)(intptr_t)i);
    for (int i = 0; i < STARTERS; i++)
        pthread_join(threads[i], NULL);
    for (tap_wait w = {0}; atomic_load(&calls) < STARTERS * ROUNDS && tap_waits(&w);)
        usleep(1000);
    is_int(0, tap_noted(), "three threads start, set functions, wait and let go");
    is_int(STARTERS * ROUNDS, atomic_load(&calls), "every function is called once");
}

/* --- what is refused --- */

static int refusals;

static void
expect_refusal(hoop_result result)
{
    hoop_error error = {.size = sizeof(error)};
    hoop_comm_error(NULL, &error);
    if (result == HOOP_ERR_INVALID_USAGE && strstr(error.text, "inside a function of hoop_work_on_done"))
        refusals++;
}

static void
on_refused(void *arg, hoop_result result)
{
    hoop_work *other = NULL, *works[1];
    hoop_comm *made = NULL;
    int32_t in = 1, out = 0;
    size_t index;
    tap_note(hoop_iallreduce(&in, &out, 1, HOOP_INT32, HOOP_SUM, comm, &other) == HOOP_SUCCESS);
    works[0] = other;
    expect_refusal(hoop_work_wait(other, -1));
    expect_refusal(hoop_work_wait_or_fail(other, -1));
    expect_refusal(hoop_wait_all(works, 1));
    expect_refusal(hoop_wait_any(works, 1, -1, &index));
    expect_refusal(hoop_allreduce(&in, &in, 1, HOOP_INT32, HOOP_SUM, comm));
    expect_refusal(hoop_barrier(comm));
    expect_refusal(hoop_comm_split(comm, 0, 0, &made));
    expect_refusal(hoop_comm_create(&made, NULL));
    expect_refusal(hoop_comm_fd_close(comm));
    expect_refusal(hoop_comm_destroy(comm));
    tap_note(hoop_comm_progress(comm) == HOOP_SUCCESS && works[0] == other);
    for (int done = 0; !done;)
        tap_note(hoop_work_test(other, &done) == HOOP_SUCCESS);
    tap_note(out == 1 && hoop_work_free(other) == HOOP_SUCCESS);
    *(int *)arg = 1;
}

static void
test_refusals(void)
{
    hoop_work *work;
    int32_t in = 1, out = 0;
    int called = 0;
    hoop_iallreduce(&in, &out, 1, HOOP_INT32, HOOP_SUM, comm, &work);
    is_int(HOOP_ERR_INVALID_ARGUMENT, hoop_work_on_done(NULL, on_refused, &called), "a function for NULL");
    is_int(HOOP_ERR_INVALID_ARGUMENT, hoop_work_on_done(work, NULL, &called), "no function");
    hoop_group_start(comm);
    is_int(HOOP_ERR_INVALID_USAGE, hoop_work_on_done(work, on_refused, &called), "inside a group");
    is_int(HOOP_ERR_INVALID_USAGE, hoop_comm_progress(comm), "and no progress there, which may call functions");
    hoop_group_end(comm);
    is_int(HOOP_SUCCESS, hoop_work_on_done(work, on_refused, &called), "a function that does what it must not");
    is_int(HOOP_SUCCESS, hoop_work_wait(work, -1), "its operation");
    ok(called && refusals == 10, "what waits or destroys is refused with a sentence (%d times)", refusals);
    is_int(0, tap_noted(), "what does not is allowed");
    is_int(HOOP_ERR_INVALID_ARGUMENT, hoop_wait_any(NULL, 1, 0, &(size_t){0}), "hoop_wait_any without works");
    is_int(HOOP_ERR_INVALID_ARGUMENT, hoop_wait_any(&work, 1, 0, NULL), "and without an index");
}

/* --- a group of the thread that calls --- */

static pthread_t caller;

/* Runs while its thread has a group open on `comm`; its own operation on `comm` is complete before that group is. */
static void
on_inside_group(void *arg, hoop_result result)
{
    hoop_work *mine = NULL;
    int32_t in = 5, out = 0;
    tap_note(result == HOOP_ERR_ABORTED && pthread_equal(pthread_self(), caller));
    tap_note(hoop_iallreduce(&in, &out, 1, HOOP_INT32, HOOP_SUM, comm, &mine) == HOOP_SUCCESS);
    for (int done = 0; mine && !done;)
        tap_note(hoop_work_test(mine, &done) == HOOP_SUCCESS);
    tap_note(out == 5 && hoop_work_free(mine) == HOOP_SUCCESS);
    expect_refusal(hoop_group_start(comm));
    expect_refusal(hoop_group_end(comm));
    expect_refusal(hoop_igroup_end(comm, &mine));
    expect_refusal(hoop_allreduce(&in, &out, 1, HOOP_INT32, HOOP_SUM, comm));
    expect_refusal(hoop_send(&in, 1, HOOP_INT32, 0, 0, comm));
    tap_note(!mine);
    *(int *)arg = 1;
}

/* The program drives the other communicator, so its function runs where this thread aborts that. */
static void
test_inside_group(void)
{
    hoop_comm *other;
    hoop_work *work;
    int32_t in = 1, out = 0, queued = 3, sum = 0;
    int called = 0;
    caller = pthread_self();
    refusals = 0;
    if (hoop_comm_create(&other, NULL) != HOOP_SUCCESS || hoop_comm_fd(other) < 0)
        bail("no second ring of one");
    hoop_irecv(&out, 1, HOOP_INT32, 0, 0, other, &work);
    hoop_work_on_done(work, on_inside_group, &called);
    is_int(HOOP_SUCCESS, hoop_group_start(comm), "a group on one communicator,");
    hoop_allreduce(&queued, &sum, 1, HOOP_INT32, HOOP_SUM, comm);
    is_int(HOOP_SUCCESS, hoop_comm_abort(other, NULL), "an abort of another one inside it,");
    ok(called && tap_noted() == 0, "a function of that starts an operation, which is not of the group");
    is_int(5, refusals, "groups and blocking calls are refused inside the function");
    is_int(0, sum, "the group still waits for its end");
    hoop_allreduce(&in, &out, 1, HOOP_INT32, HOOP_SUM, comm);
    is_int(HOOP_SUCCESS, hoop_group_end(comm), "which comes");
    ok(sum == 3 && out == 1, "with the results of all its calls");
    hoop_work_free(work);
    is_int(HOOP_ERR_ABORTED, hoop_comm_destroy(other), "destroying the other one");
}

/* A group that is empty is done before it starts. */
static void
test_empty_group(void)
{
    hoop_work *work;
    turn t = {0};
    hoop_group_start(comm);
    is_int(HOOP_SUCCESS, hoop_igroup_end(comm, &work), "an empty group");
    is_int(HOOP_SUCCESS, hoop_work_on_done(work, on_turn, &t), "gets a function");
    is_int(1, atomic_load(&t.called), "which is called at once");
    is_int(HOOP_SUCCESS, hoop_work_wait(work, 0), "and can be waited for");
}

/* The ready function, as a program with an eventfd uses it, or one that only looks at the result. */
static void
test_signal(void)
{
    enum { WORKS = 3 };
    hoop_signal signals[WORKS];
    int32_t in = 1, out[WORKS];
    eventfd_t count = 0;
    int fd = eventfd(0, EFD_CLOEXEC);
    for (int i = 0; i < WORKS; i++) {
        hoop_work *work;
        signals[i] = (hoop_signal){.fd = i ? fd : -1, .result = HOOP_IN_PROGRESS};
        tap_note(hoop_iallreduce(&in, &out[i], 1, HOOP_INT32, HOOP_SUM, comm, &work) == HOOP_SUCCESS);
        tap_note(hoop_work_on_done(work, hoop_signal_done, &signals[i]) == HOOP_SUCCESS);
        tap_note(hoop_work_free(work) == HOOP_SUCCESS);
    }
    for (eventfd_t more; count < WORKS - 1 && eventfd_read(fd, &more) == 0;)
        count += more;
    is_int(WORKS - 1, (int)count, "hoop_signal_done adds 1 to the eventfd, if there is one");
    for (int i = 0; i < WORKS; i++)
        is_int(HOOP_SUCCESS, __atomic_load_n(&signals[i].result, __ATOMIC_ACQUIRE), "signal %d has the result", i);
    hoop_signal_done(&signals[1], HOOP_ERR_PEER_LOST);
    is_int(HOOP_ERR_PEER_LOST, signals[1].result, "which may be an error");
    close(fd);
    is_int(0, tap_noted(), "starting, setting it and letting go");
}

/* --- destroying --- */

static atomic_int slow; /* 1: the function runs, 2: it has ended */

static void
on_slow(void *arg, hoop_result result)
{
    atomic_store(&slow, 1);
    usleep(300000);
    atomic_store(&slow, 2);
}

static void *
set_late(void *work)
{
    hoop_work_on_done(work, on_slow, NULL);
    return NULL;
}

/* Of an operation that has ended, by a thread of the program; or by the background thread. */
static void
test_destroy(int late)
{
    hoop_work *work;
    pthread_t thread;
    int32_t in = 1, out = 0;
    int done = 0;
    atomic_store(&slow, 0);
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS)
        bail("no ring of one");
    hoop_iallreduce(&in, &out, 1, HOOP_INT32, HOOP_SUM, comm, &work);
    while (late && !done)
        hoop_work_test(work, &done);
    if (late)
        pthread_create(&thread, NULL, set_late, work);
    else
        hoop_work_on_done(work, on_slow, NULL);
    while (late && atomic_load(&slow) == 0)
        usleep(1000);
    is_int(HOOP_SUCCESS, hoop_comm_destroy(comm), "destroying");
    is_int(2, atomic_load(&slow), "waits for a function that %s", late ? "another thread is in" : "is due");
    if (late)
        pthread_join(thread, NULL);
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS)
        bail("no ring of one");
    test_threads();
    test_refusals();
    test_inside_group();
    test_empty_group();
    test_signal();
    is_int(HOOP_SUCCESS, hoop_comm_destroy(comm), "destroying");
    test_destroy(0);
    test_destroy(1);
    return tap_failures() != 0;
}
