/* SPDX-License-Identifier: MIT */
/*
 * Which thread drives, with many threads on a ring of one: everything passes the inbox, the baton and the background
 * thread as on a larger ring, and nothing but threads can go wrong. Run under TSan by check-threads.
 */
#include "hoop.h"
#include "t/tap/tap.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { ROUNDS = 300, STARTERS = 3, COUNT = 64 };

static hoop_comm *comm;
static atomic_int finished;

/* Starts operations without blocking and looks at them until they are done; frees them with a wait that cannot block.
 */
static void *
start_and_test(void *arg)
{
    int64_t in[COUNT], out[COUNT];
    int64_t seed = (int64_t)(intptr_t)arg;
    for (int round = 0; round < ROUNDS; round++) {
        hoop_work *work;
        int done = 0;
        for (int i = 0; i < COUNT; i++)
            in[i] = seed * 1000003 + round * 1009 + i;
        memset(out, 0, sizeof(out));
        tap_note(hoop_iallreduce(in, out, COUNT, HOOP_INT64, HOOP_SUM, comm, &work) == HOOP_SUCCESS);
        while (!done)
            tap_note(hoop_work_test(work, &done) == HOOP_SUCCESS);
        tap_note(memcmp(in, out, sizeof(in)) == 0);
        tap_note(hoop_work_wait(work, -1) == HOOP_SUCCESS);
        atomic_fetch_add(&finished, 1);
    }
    return NULL;
}

static void *
block(void *arg)
{
    int64_t in[COUNT] = {1, 2, 3}, out[COUNT];
    for (int round = 0; round < ROUNDS; round++) {
        memset(out, 0, sizeof(out));
        tap_note(hoop_allreduce(in, out, COUNT, HOOP_INT64, HOOP_SUM, comm) == HOOP_SUCCESS);
        tap_note(memcmp(in, out, sizeof(in)) == 0);
        atomic_fetch_add(&finished, 1);
    }
    return NULL;
}

static void *
watch(void *arg)
{
    hoop_error error = {.size = sizeof(error)};
    for (int round = 0; round < ROUNDS; round++) {
        tap_note(hoop_comm_error(comm, &error) == HOOP_SUCCESS);
        tap_note(hoop_comm_size(comm) == 1 && hoop_comm_rank(comm) == 0);
        (void)hoop_comm_completed(comm);
    }
    return NULL;
}

/* Groups of two threads on one communicator: each is its thread's own. */
static void *
group(void *arg)
{
    int64_t in[2][COUNT] = {{4, 5, 6}, {7, 8, 9}}, out[2][COUNT];
    for (int round = 0; round < ROUNDS; round++) {
        memset(out, 0, sizeof(out));
        tap_note(hoop_group_start(comm) == HOOP_SUCCESS);
        tap_note(hoop_allreduce(in[0], out[0], COUNT, HOOP_INT64, HOOP_SUM, comm) == HOOP_SUCCESS);
        tap_note(hoop_allreduce(in[1], out[1], COUNT, HOOP_INT64, HOOP_SUM, comm) == HOOP_SUCCESS);
        tap_note(hoop_group_end(comm) == HOOP_SUCCESS && memcmp(in, out, sizeof(in)) == 0);
    }
    return NULL;
}

static void
test_groups(void)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, i < 2 ? group : i == 2 ? block : start_and_test, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    is_int(0, tap_noted(), "two threads with groups beside others that block and start");
}

static void
test_threads(void)
{
    pthread_t threads[STARTERS + 3];
    int n = 0;
    for (int i = 0; i < STARTERS; i++)
        pthread_create(&threads[n++], NULL, start_and_test, (void *)(intptr_t)(i + 1));
    pthread_create(&threads[n++], NULL, block, NULL);
    pthread_create(&threads[n++], NULL, block, NULL);
    pthread_create(&threads[n++], NULL, watch, NULL);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    is_int(0, tap_noted(), "three threads start and look, two block, one watches");
    is_uint((unsigned)atomic_load(&finished), hoop_comm_completed(comm), "everything is counted");
}

/* The background thread finishes works that no thread waits for. */
static void
test_background(void)
{
    enum { WORKS = 50 };
    static int64_t in[WORKS][COUNT], out[WORKS][COUNT];
    hoop_work *works[WORKS + 1] = {0};
    int done = 0;
    for (int i = 0; i < WORKS; i++) {
        in[i][0] = i;
        hoop_iallreduce(in[i], out[i], COUNT, HOOP_INT64, HOOP_MAX, comm, &works[i]);
    }
    while (!done)
        hoop_work_test(works[WORKS - 1], &done);
    is_int(HOOP_SUCCESS, hoop_wait_all(works, WORKS + 1), "fifty in flight, a NULL among them");
    is_blob(in, out, sizeof(in), "all with their results");
    is_int(HOOP_SUCCESS, hoop_wait_all(NULL, 0), "waiting for nothing");
}

static void
test_wait_of_no_time(void)
{
    int64_t in[COUNT] = {7}, out[COUNT] = {0};
    hoop_work *work;
    hoop_iallreduce(in, out, COUNT, HOOP_INT64, HOOP_SUM, comm, &work);
    hoop_result result = hoop_work_wait(work, 0);
    while (result == HOOP_IN_PROGRESS)
        result = hoop_work_wait(work, 0);
    ok(result == HOOP_SUCCESS && out[0] == 7, "a wait of 0 ms looks, and frees once it is done");
}

/* No descriptor is left: it is said why, and the library's thread goes on. */
static void
test_no_descriptor(void)
{
    int64_t in[COUNT] = {8}, out[COUNT] = {0};
    struct rlimit limit, none;
    hoop_error error = {.size = sizeof(error)};
    hoop_work *work;
    uint64_t before = hoop_comm_completed(comm);
    getrlimit(RLIMIT_NOFILE, &limit);
    none = limit;
    none.rlim_cur = 0;
    setrlimit(RLIMIT_NOFILE, &none);
    int fd = hoop_comm_fd(comm);
    setrlimit(RLIMIT_NOFILE, &limit);
    is_int(-1, fd, "hoop_comm_fd without a descriptor left");
    hoop_comm_error(comm, &error);
    ok(error.code == HOOP_ERR_SYSTEM && error.sys_errno == EMFILE && strstr(error.text, "ulimit -n"), "says why: %s",
       error.text);
    hoop_iallreduce(in, out, COUNT, HOOP_INT64, HOOP_SUM, comm, &work);
    for (tap_wait w = {0}; hoop_comm_completed(comm) == before && tap_waits(&w);)
        usleep(1000);
    is_int(1, (intmax_t)(hoop_comm_completed(comm) - before), "the background thread goes on");
    hoop_work_wait(work, -1);
}

/* The program drives: from now on the library's thread rests. */
static void
test_own_loop(void)
{
    int64_t in[COUNT] = {9}, out[COUNT] = {0};
    hoop_work *work;
    int done = 0, rounds = 0;
    struct pollfd p = {.fd = hoop_comm_fd(comm), .events = POLLIN};
    ok(p.fd > 2, "hoop_comm_fd gives a descriptor");
    hoop_iallreduce(in, out, COUNT, HOOP_INT64, HOOP_SUM, comm, &work);
    for (; !done && rounds < 1000; rounds++) {
        if (poll(&p, 1, 30000) == 1)
            hoop_comm_progress(comm);
        hoop_work_test(work, &done);
    }
    ok(done && rounds < 10, "readable when there is something to do (%d rounds)", rounds);
    ok(hoop_work_wait(work, -1) == HOOP_SUCCESS && out[0] == 9, "and the result is there");
}

static void *
abort_it(void *arg)
{
    hoop_comm_abort(comm, "the test says so");
    return NULL;
}

static void
test_abort(void)
{
    int64_t in[COUNT] = {1}, out[COUNT];
    pthread_t threads[2];
    hoop_error error = {.size = sizeof(error)};
    hoop_result result = HOOP_SUCCESS;
    pthread_create(&threads[0], NULL, abort_it, NULL);
    pthread_create(&threads[1], NULL, abort_it, NULL);
    for (int i = 0; i < 1000000 && result == HOOP_SUCCESS; i++)
        result = hoop_allreduce(in, out, COUNT, HOOP_INT64, HOOP_SUM, comm);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    is_int(HOOP_ERR_ABORTED, result, "an abort from another thread ends the blocking caller's run");
    is_int(HOOP_ERR_ABORTED, hoop_barrier(comm), "and every later call");
    hoop_comm_error(comm, &error);
    ok(strstr(error.text, "the test says so") != NULL, "with its reason: %s", error.text);
    is_int(HOOP_ERR_ABORTED, hoop_group_start(comm), "no group begins any more");
    is_int(HOOP_ERR_ABORTED, hoop_group_end(comm), "nor ends, for the same reason");
    is_int(HOOP_ERR_ABORTED, hoop_comm_destroy(comm), "destroying says it once more");
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS)
        bail("no ring of one");
    test_threads();
    test_groups();
    test_background();
    test_wait_of_no_time();
    test_no_descriptor();
    test_own_loop();
    hoop_comm_destroy(comm);
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS)
        bail("no ring of one");
    test_abort();
    return tap_failures() != 0;
}
