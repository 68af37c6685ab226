/* SPDX-License-Identifier: MIT */
/*
 * A driver that is stuck with the baton, as in a call into a GPU's driver that does not return: waits with a limit end,
 * an abort says that it could not end everything, destroying frees nothing; and all goes well once the thread has
 * returned.
 */
#include "base/clock.h"
#include "hoop.h"
#include "lib/baton.h"
#include "t/tap/tap.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static hoop_comm *comm;
static atomic_int held, let_go;

static void *
hold(void *arg)
{
    const struct timespec moment = {0, 10000000};
    hp_baton_take(comm, HP_NEVER);
    atomic_store(&held, 1);
    while (!atomic_load(&let_go))
        nanosleep(&moment, NULL);
    hp_baton_give(comm);
    return NULL;
}

static double
seconds_since(uint64_t begin)
{
    return (double)(hp_now() - begin) / (double)HP_SEC;
}

/* Another thread has the driver's mutex while it opens a GPU, maybe for seconds. */
static void
test_stats(void)
{
    hoop_stats stats = {.size = sizeof(stats)};
    pthread_mutex_lock(&comm->driver.mutex);
    is_int(HOOP_SUCCESS, hoop_comm_stats(comm, &stats), "who asks for its stats waits for no mutex");
    pthread_mutex_unlock(&comm->driver.mutex);
}

static void
test_waits(hoop_work *work)
{
    static const int limits[] = {1000, 200, 1, 0};
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        uint64_t begin = hp_now();
        hoop_result result = hoop_work_wait(work, limits[i]);
        double took = seconds_since(begin), limit = limits[i] / 1e3;
        ok(result == HOOP_IN_PROGRESS && took >= limit && took < limit + 1 + tap_room(),
           "a wait of %d ms behind a driver that is stuck ends in time (%.3f s)", limits[i], took);
    }
}

static void
test_descriptor(void)
{
    hoop_error error = {.size = sizeof(error)};
    uint64_t begin = hp_now();
    is_int(-1, hoop_comm_fd(comm), "no descriptor behind a driver that is stuck");
    double took = seconds_since(begin);
    hoop_comm_error(comm, &error);
    ok(took < 10 + tap_room() && error.code == HOOP_ERR_BUSY, "and that is said after some seconds (%.1f s): %s", took,
       error.text);
}

static void
test_end(hoop_work *work)
{
    hoop_error error = {.size = sizeof(error)};
    uint64_t begin = hp_now();
    is_int(HOOP_ERR_TIMEOUT, hoop_comm_abort(comm, "the test says so"),
           "an abort says that it has not ended everything");
    double took = seconds_since(begin);
    ok(took > 4 && took < 15 + tap_room(), "after some seconds (%.1f s)", took);
    is_int(HOOP_SUCCESS, hoop_comm_error(comm, &error), "the error is known");
    ok(error.code == HOOP_ERR_ABORTED && strstr(error.text, "the test says so"), "with its reason: %s", error.text);
    is_int(HOOP_ERR_ABORTED, hoop_barrier(comm), "and is every later call's");
    is_int(HOOP_IN_PROGRESS, hoop_work_wait(work, 0), "the work still has its buffers");
    begin = hp_now();
    is_int(HOOP_ERR_BUSY, hoop_comm_destroy(comm), "destroying frees nothing");
    took = seconds_since(begin);
    ok(took < 15 + tap_room(), "and says so soon (%.1f s)", took);
}

int
main(void)
{
    int32_t in = 3, out = 0;
    hoop_work *work = NULL;
    pthread_t holder;
    tap_limit(240);
    plan_lazy();
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS)
        bail("no communicator");
    test_stats();
    pthread_create(&holder, NULL, hold, NULL);
    while (!atomic_load(&held))
        continue;
    is_int(HOOP_SUCCESS, hoop_iallreduce(&in, &out, 1, HOOP_INT32, HOOP_SUM, comm, &work), "an operation starts");
    test_waits(work);
    test_descriptor();
    test_end(work);
    atomic_store(&let_go, 1);
    pthread_join(holder, NULL);
    is_int(HOOP_ERR_ABORTED, hoop_work_wait(work, -1), "the driver has returned: the work ends");
    is_int(0, out, "without a result");
    is_int(HOOP_SUCCESS, hoop_comm_abort(comm, NULL), "another abort has nothing to wait for");
    is_int(HOOP_ERR_ABORTED, hoop_comm_destroy(comm), "and destroying frees all");
    return tap_failures() != 0;
}
