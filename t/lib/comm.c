/* SPDX-License-Identifier: MIT */
/*
 * comm: what a driver may rely on before it sleeps. hp_round_idle reads connections between two rounds; no descriptor
 * announces those bytes any more, so it must say that it has read something. A device may report after a step's last
 * round; as long as the belt has such news, the driver must not sleep. And beside other communicators it looks at those.
 */
#include "base/clock.h"
#include "lib/baton.h"
#include "lib/registry.h"
#include "lib/round.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

enum { ARRAY = 64 << 20, BROADCAST = 2 << 20 };

typedef struct pipes {
    int go[2], done[2];
} pipes;

/* Whether the call of a rank succeeded; if not, the comment says what the rank was doing. */
static int
worked(hoop_result result, const char *what)
{
    return case_ok(result == HOOP_SUCCESS, "%s: %s", what, hoop_strerror(result));
}

static int
wait_for_byte(int fd)
{
    char byte;
    return read(fd, &byte, 1) == 1;
}

static int
sum_ones(hoop_comm *comm)
{
    int32_t one = 1, sum = 0;
    return worked(hoop_allreduce(&one, &sum, 1, HOOP_INT32, HOOP_SUM, comm), "allreduce") &&
           case_int(2, sum, "its sum");
}

/* Calls hp_round_idle until it says that it has read something; it never does, if it read the bytes and said no. */
static int
idle_reads(hoop_comm *comm, struct pollfd *ready)
{
    for (tap_wait w = {0};
         tap_waits(&w);) /* something else may have made the descriptor readable: the server, a timer */
        if (!case_int(1, poll(ready, 1, 30000), "descriptors that are ready when rank 1 has finished"))
            return 0;
        else if (hp_round_idle(comm, hp_now()))
            return 1;
    return case_ok(0, "hp_round_idle never says that it has read something");
}

/* Rank 0, which holds the baton, sends its part, lets rank 1 finish, and only then looks at the connections. */
static int
look_idle(hoop_comm *comm, struct pollfd *ready, const pipes *p)
{
    hp_round_step(comm);
    hp_round_arm(comm);
    return case_ok(write(p->go[1], "", 1) == 1 && wait_for_byte(p->done[0]), "rank 1 did not finish") &&
           idle_reads(comm, ready);
}

/* The first sum makes the connections. Without the baton the standby thread could read what the second one sends. */
static int
look_round(hoop_comm *comm, const pipes *p)
{
    int32_t one = 1, sum = 0;
    int done = 0;
    hoop_work *work;
    struct pollfd ready = {.fd = hoop_comm_fd(comm), .events = POLLIN}; /* from now on rank 0 drives */
    if (!sum_ones(comm) ||
        !worked(hoop_iallreduce(&one, &sum, 1, HOOP_INT32, HOOP_SUM, comm, &work), "start an allreduce") ||
        !case_int(1, hp_baton_take(comm, hp_now() + 10000 * HP_MS), "batons taken"))
        return 0;
    int good = look_idle(comm, &ready, p);
    hp_round_step(comm);
    hp_baton_give(comm);
    return good && worked(hoop_work_test(work, &done), "look at the allreduce") &&
           case_int(1, done, "the allreduce is done") && worked(hoop_work_wait(work, -1), "wait for it") &&
           case_int(2, sum, "its sum");
}

static int
answer(hoop_comm *comm, const pipes *p)
{
    return sum_ones(comm) && case_ok(wait_for_byte(p->go[0]), "rank 0 did not begin") && sum_ones(comm) &&
           case_int(1, write(p->done[1], "", 1), "bytes written to rank 0");
}

/* hoop_work_test moves a few slices only, and what is left makes the descriptor readable: so a program with an event
 * loop of its own is never held up for long. This is counted, not timed: an array of 128 slices takes many calls. */
static int
in_bites(hoop_comm *comm)
{
    size_t count = ARRAY / sizeof(int32_t);
    int32_t *array = calloc(count, sizeof(*array));
    struct pollfd ready = {.fd = hoop_comm_fd(comm), .events = POLLIN};
    int done = 0, calls = 0, slept = 0;
    hoop_work *work;
    if (!case_ok(array != NULL, "no memory") ||
        !worked(hoop_iallreduce(array, array, count, HOOP_INT32, HOOP_SUM, comm, &work), "start an allreduce"))
        return 0;
    for (; !done; calls++) {
        slept += poll(&ready, 1, 30000) != 1;
        if (!worked(hoop_work_test(work, &done), "look at the allreduce"))
            return 0;
    }
    free(array);
    return worked(hoop_work_wait(work, -1), "wait for the allreduce") &&
           case_ok(calls >= 16, "the allreduce took %d calls, not 16 or more", calls) &&
           case_int(0, slept, "calls of %d before which the descriptor was not ready", calls);
}

/* Tests `work` whenever the descriptor is ready. The number of times that this took longer than a tenth of a second;
 * -1 if something failed. */
static int
slow_turns(struct pollfd *ready, hoop_work *work)
{
    int done = 0, slow = 0;
    while (!done) {
        double before = party_clock();
        if (!case_int(1, poll(ready, 1, 30000), "descriptors that are ready while the broadcast is not done") ||
            !worked(hoop_work_test(work, &done), "look at the broadcast"))
            return -1;
        slow += party_clock() - before > 0.1;
    }
    return worked(hoop_work_wait(work, -1), "wait for the broadcast") ? slow : -1;
}

/* A wait for one work may leave another one in the middle of the belt. Then the descriptor must be readable, or the
 * program sleeps until the next report. Rank 1 comes late, so that what starting the works announced is used up. */
static int
wait_then_poll(hoop_comm *comm, int rank)
{
    int32_t one = 1, sum = 0;
    char *array = calloc(1, BROADCAST);
    struct pollfd ready = {.fd = hoop_comm_fd(comm), .events = POLLIN};
    hoop_work *first, *second;
    int slow = 0, more = 0;
    for (int turn = 0; array && turn < 10; turn++) {
        if (rank == 1)
            party_nap(0.02);
        if (!worked(hoop_iallreduce(&one, &sum, 1, HOOP_INT32, HOOP_SUM, comm, &first), "start an allreduce") ||
            !worked(hoop_ibroadcast(array, array, BROADCAST, HOOP_UINT8, 0, comm, &second), "start a broadcast") ||
            !worked(hoop_work_wait(first, -1), "wait for the allreduce") || (more = slow_turns(&ready, second)) < 0 ||
            !worked(hoop_barrier(comm), "barrier"))
            return 0;
        slow += more;
    }
    free(array);
    return case_ok(slow <= 5, "%d times in 10 turns the broadcast waited for a report's time", slow);
}

static int
bite(int rank, int size, void *arg)
{
    hoop_comm *comm;
    const int *waits = arg;
    if (*waits)
        setenv("HOOP_SLICE_BYTES", "16384", 1); /* many steps */
    if (!worked(hoop_comm_create(&comm, NULL), "create"))
        return 1;
    int good = *waits ? wait_then_poll(comm, rank) : in_bites(comm);
    return !worked(hoop_comm_destroy(comm), "destroy") || !good;
}

static int
rank_main(int rank, int size, void *arg)
{
    hoop_comm *comm;
    if (!worked(hoop_comm_create(&comm, NULL), "create"))
        return 1;
    int good = rank == 0 ? look_round(comm, arg) : answer(comm, arg);
    return !worked(hoop_comm_destroy(comm), "destroy") || !good;
}

/* A communicator that is its one belt: an idle one sleeps, one whose belt ended a step with news does not. */
static void
test_news(void)
{
    static hp_channel quiet = {.o.window = 1}, told = {.o.window = 1, .more_done = 1};
    static hoop_comm idle = {.channels = 1, .channel = {&quiet}}, busy = {.channels = 1, .channel = {&told}};
    ok(hp_round_timeout(&idle, hp_now()) > 0, "a driver without news may sleep");
    is_uint(0, hp_round_timeout(&busy, hp_now()), "one with news from a device may not");
}

/* A communicator that nobody got, such as that of a split without a color, was never one of them. */
static void
test_others(void)
{
    static hoop_comm first, second, none;
    hp_registry_add(&first);
    hp_registry_remove(&none);
    ok(!hp_registry_has_several(), "a driver has no other communicator to look at");
    hp_registry_add(&second);
    hp_registry_remove(&none);
    ok(hp_registry_has_several(), "then it has one");
    hp_registry_remove(&first);
    ok(!hp_registry_has_several(), "which may be the one that is left");
    hp_registry_remove(&second);
}

int
main(void)
{
    party p;
    pipes between;
    int waits = 0;
    tap_limit(240);
    plan(8);
    test_news();
    test_others();
    if (pipe(between.go) != 0 || pipe(between.done) != 0)
        return 1;
    party_open(&p);
    is_int(0, party_run(&p, 2, rank_main, &between, 30), "bytes that hp_round_idle reads are reported as read");
    is_int(0, party_run(&p, 2, bite, &waits, 30), "a large operation takes many short calls");
    waits = 1;
    is_int(0, party_run(&p, 2, bite, &waits, 30), "what a wait leaves undone makes the descriptor readable");
    party_close(&p);
    return 0;
}
