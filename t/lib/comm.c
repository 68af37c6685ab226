/* SPDX-License-Identifier: MIT */
/*
 * What a driver may rely on before it sleeps: bytes that arrive after the last step and are read while it looks round
 * (hp_comm_idle) are announced by no descriptor any more, so looking round must say that it heard something. Nor is
 * what a device has told in a step's last round: as long as the belt has news, nobody sleeps.
 */
#include "lib/comm.h"

#include "base/clock.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

enum { ARRAY = 64 << 20, BROADCAST = 2 << 20 };

typedef struct pipes {
    int go[2], done[2];
} pipes;

static int
wait_for_byte(int fd)
{
    char byte;
    return read(fd, &byte, 1) == 1;
}

/* Sends its part, lets the other rank finish, and only then looks round. */
static int
look_round(hoop_comm *comm, const pipes *p)
{
    int32_t one = 1, sum = 0;
    int done = 0;
    hoop_work *work;
    struct pollfd ready = {.fd = hoop_comm_fd(comm), .events = POLLIN};
    if (hoop_iallreduce(&one, &sum, 1, HOOP_INT32, HOOP_SUM, comm, &work) != HOOP_SUCCESS)
        return 1;
    hoop_comm_progress(comm);
    if (write(p->go[1], "", 1) != 1 || !wait_for_byte(p->done[0]) || poll(&ready, 1, 10000) != 1)
        return 2;
    if (hp_comm_idle(comm, hp_now()) != 1) {
        party_note("hp_comm_idle read what had come and said nothing");
        return 3;
    }
    hp_comm_step(comm);
    return hoop_work_test(work, &done) != HOOP_SUCCESS || !done || hoop_work_wait(work, -1) != HOOP_SUCCESS || sum != 2;
}

/* An idle communicator sleeps, one whose belt ended a step with news does not. */
static int
has_news(hoop_comm *comm)
{
    uint64_t idle = hp_comm_patience(comm, hp_now()), news;
    comm->channel[0]->news = 1;
    news = hp_comm_patience(comm, hp_now());
    comm->channel[0]->news = 0;
    if (idle > 0 && news == 0)
        return 0;
    party_note("a sleep of %llu ns with news, of %llu without", (unsigned long long)news, (unsigned long long)idle);
    return 7;
}

static int
answer(hoop_comm *comm, const pipes *p)
{
    int32_t one = 1, sum = 0;
    if (!wait_for_byte(p->go[0]) || hoop_allreduce(&one, &sum, 1, HOOP_INT32, HOOP_SUM, comm) != HOOP_SUCCESS)
        return 4;
    return write(p->done[1], "", 1) != 1 || sum != 2;
}

/* A program with a loop of its own is never held up for long: a call moves a few slices, and what is left makes the
 * descriptor readable. Counted, not timed: an array of 128 slices takes many calls, and none of them in vain. */
static int
in_bites(hoop_comm *comm)
{
    size_t count = ARRAY / sizeof(int32_t);
    int32_t *array = calloc(count, sizeof(*array));
    struct pollfd ready = {.fd = hoop_comm_fd(comm), .events = POLLIN};
    int done = 0, calls = 0, slept = 0;
    hoop_work *work;
    if (!array || hoop_iallreduce(array, array, count, HOOP_INT32, HOOP_SUM, comm, &work) != HOOP_SUCCESS)
        return 8;
    for (; !done; calls++) {
        slept += poll(&ready, 1, 5000) != 1;
        if (hoop_work_test(work, &done) != HOOP_SUCCESS)
            return 9;
    }
    free(array);
    if (hoop_work_wait(work, -1) != HOOP_SUCCESS || calls < 16 || slept > 0)
        party_note("%d calls, of which %d waited for nothing", calls, slept);
    return calls < 16 || slept > 0 ? 10 : 0;
}

/* Waiting for one work may leave another in the middle of the belt: the descriptor must say so, or the program sleeps
 * until the next report. The other rank comes late, so that what starting them has announced is used up by then. */
static int
wait_then_poll(hoop_comm *comm, int rank)
{
    int32_t one = 1, sum = 0;
    char *array = calloc(1, BROADCAST);
    struct pollfd ready = {.fd = hoop_comm_fd(comm), .events = POLLIN};
    hoop_work *first, *second;
    int done = 0, slow = 0;
    for (int turn = 0; array && turn < 10; turn++, done = 0) {
        if (rank == 1)
            party_nap(0.02);
        if (hoop_iallreduce(&one, &sum, 1, HOOP_INT32, HOOP_SUM, comm, &first) != HOOP_SUCCESS ||
            hoop_ibroadcast(array, array, BROADCAST, HOOP_UINT8, 0, comm, &second) != HOOP_SUCCESS ||
            hoop_work_wait(first, -1) != HOOP_SUCCESS)
            return 11;
        while (!done) {
            double before = party_clock();
            if (poll(&ready, 1, 5000) != 1 || hoop_work_test(second, &done) != HOOP_SUCCESS)
                return 12;
            slow += party_clock() - before > 0.1;
        }
        if (hoop_work_wait(second, -1) != HOOP_SUCCESS || hoop_barrier(comm) != HOOP_SUCCESS)
            return 13;
    }
    free(array);
    if (slow > 5)
        party_note("%d of 10 works waited for a report's time", slow);
    return slow > 5 ? 14 : 0;
}

static int
bite(int rank, int size, void *arg)
{
    hoop_comm *comm;
    const int *waits = arg;
    (void)size;
    if (*waits)
        setenv("HOOP_SLICE_BYTES", "16384", 1); /* many steps */
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS)
        return 5;
    int bad = *waits ? wait_then_poll(comm, rank) : in_bites(comm);
    return hoop_comm_destroy(comm) != HOOP_SUCCESS ? 6 : bad;
}

static int
rank_main(int rank, int size, void *arg)
{
    hoop_comm *comm;
    (void)size;
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS)
        return 5;
    int bad = rank == 0 ? look_round(comm, arg) : answer(comm, arg);
    bad = bad ? bad : has_news(comm);
    return hoop_comm_destroy(comm) != HOOP_SUCCESS ? 6 : bad;
}

int
main(void)
{
    party p;
    pipes between;
    tap_limit(60);
    plan(3);
    if (pipe(between.go) != 0 || pipe(between.done) != 0)
        return 1;
    party_open(&p);
    int failed = party_run(&p, 2, rank_main, &between, 30);
    ok(failed == 0, "what is read while looking round, and what a device has told, is not slept over %s%s",
       p.guest[0].note, p.guest[1].note);
    int waits = 0;
    failed = party_run(&p, 2, bite, &waits, 30);
    ok(failed == 0, "progress comes in bites %s%s", p.guest[0].note, p.guest[1].note);
    waits = 1;
    failed = party_run(&p, 2, bite, &waits, 30);
    ok(failed == 0, "what a wait leaves undone makes the descriptor readable %s%s", p.guest[0].note, p.guest[1].note);
    party_close(&p);
    return 0;
}
