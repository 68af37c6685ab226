/* SPDX-License-Identifier: MIT */
/*
 * Calls that one rank refuses: the others do not wait for it until the time-out, in whatever form it was called; and
 * where it calls again in time, or where all refuse, nothing happens.
 */
#include "hoop.h"
#include "t/sys/told.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 3, GUILTY = 1, COUNT = 100, BUSY = 1 << 21 };

/* The guilty one calls rightly only when the others have ended: those who waited for it would wait for long. */
enum { UNTIL_THEY_END = 1000 };

typedef enum form { BLOCKING, NON_BLOCKING, NO_HANDLE, GROUP, GROUP_OF_BAD, ON_STREAM, FORMS } form;

static const char *const form_names[FORMS] = {"a blocking call",
                                              "a non-blocking call",
                                              "one without a place for its handle",
                                              "a group of one",
                                              "a group whose second call is bad",
                                              "a stream-ordered call on host memory"};

typedef struct plot {
    form form;
    double pause;  /* seconds after which the guilty one calls rightly, or UNTIL_THEY_END */
    int everybody; /* all ranks refuse; the guilty one is the last to go on */
    int busy;      /* a non-blocking operation is under way meanwhile */
    double loop;   /* the guilty one has an event loop of its own, to which it comes back after so many seconds */
} plot;

static float in[COUNT * RANKS], out[COUNT * RANKS];

/* sendbuf == recvbuf is the in-place form of rank 0 only. */
static hoop_result
call(hoop_comm *comm, form f, int bad)
{
    float *send = bad ? out : in;
    hoop_work *work = NULL;
    hoop_result result = HOOP_SUCCESS;
    switch (f) {
    case BLOCKING: return hoop_allgather(send, out, COUNT, HOOP_FLOAT32, comm);
    case NON_BLOCKING: result = hoop_iallgather(send, out, COUNT, HOOP_FLOAT32, comm, &work); break;
    case NO_HANDLE: result = hoop_iallgather(in, out, COUNT, HOOP_FLOAT32, comm, bad ? NULL : &work); break;
    case ON_STREAM:
        if (bad)
            return hoop_allgather_on_stream(in, out, COUNT, HOOP_FLOAT32, comm, NULL);
        return hoop_allgather(in, out, COUNT, HOOP_FLOAT32, comm);
    default:
        result = hoop_group_start(comm);
        if (result != HOOP_SUCCESS) /* the communicator has failed meanwhile */
            return result;
        if (f == GROUP_OF_BAD)
            hoop_barrier(comm);
        hoop_allgather(send, out, COUNT, HOOP_FLOAT32, comm);
        return hoop_group_end(comm);
    }
    return result ? result : hoop_work_wait(work, -1);
}

static int
refuses(int rank, int size, void *arg)
{
    static float large[BUSY];
    const plot *s = arg;
    hoop_comm *comm = party_join(2);
    hoop_work *busy = NULL;
    hoop_result result = HOOP_SUCCESS;
    double since = party_clock();
    if (s->busy && hoop_iallreduce(large, large, BUSY, HOOP_FLOAT32, HOOP_SUM, comm, &busy) != HOOP_SUCCESS)
        return 7;
    if ((rank == GUILTY || s->everybody) && call(comm, s->form, 1) == HOOP_SUCCESS)
        return 6;
    if (rank == GUILTY && s->pause == UNTIL_THEY_END && party_await_marks(RANKS - 1))
        for (tap_wait w = {0}; hoop_comm_progress(comm) == HOOP_SUCCESS && tap_waits(&w);)
            party_nap(0.01); /* it hears of it, too */
    else if (rank == GUILTY && s->pause != UNTIL_THEY_END)
        party_nap(s->pause);
    result = call(comm, s->form, 0);
    if (busy && hoop_work_wait(busy, -1) != HOOP_SUCCESS && result == HOOP_SUCCESS)
        result = HOOP_ERR_SYSTEM;
    tell(comm, result, since);
    party_mark();
    hoop_comm_destroy(comm);
    return 0;
}

/* What was started is told to the server at once, not when the program looks again. */
static int
looks_late(int rank, int size, void *arg)
{
    const plot *s = arg;
    hoop_comm *comm = party_join(2);
    hoop_work *work = NULL;
    double since = party_clock();
    if (rank == GUILTY) {
        if (hoop_comm_fd(comm) < 0 || hoop_iallgather(out, out, COUNT, HOOP_FLOAT32, comm, &work) == HOOP_SUCCESS)
            return 6;
        party_nap(s->pause);
    }
    hoop_result result = hoop_iallgather(in, out, COUNT, HOOP_FLOAT32, comm, &work);
    party_nap(rank == GUILTY ? s->loop : 0);
    tell(comm, result ? result : hoop_work_wait(work, -1), since);
    hoop_comm_destroy(comm);
    return 0;
}

static int
all_told(int operation, const char *what)
{
    int good = 1;
    for (int rank = 0; rank < RANKS; rank++) {
        told t = hear(rank);
        good &= t.result == HOOP_ERR_MISMATCH && (t.ms < 2000 + tap_room() * 1000 || rank == GUILTY) &&
                t.rank == GUILTY && t.operation == operation && strstr(t.text, what);
    }
    return good || show("told");
}

static int
all_succeed(void)
{
    int good = 1;
    for (int rank = 0; rank < RANKS; rank++)
        good &= p.guest[rank].status == 0 && hear(rank).result == HOOP_SUCCESS;
    return good || show("succeed");
}

static void
test_forms(void)
{
    static const char *const what[FORMS] = {[NO_HANDLE] = "allgather of 100 x float32): work is NULL",
                                            [GROUP_OF_BAD] = "barrier): hoop_allgather: sendbuf and recvbuf overlap",
                                            [ON_STREAM] = "allgather of 100 x float32): a stream-ordered call"};
    for (form f = 0; f < FORMS; f++) {
        plot s = {.form = f, .pause = UNTIL_THEY_END};
        char expected[128];
        snprintf(expected, sizeof(expected), ") could not start operation 3 (%s",
                 what[f] ? what[f] : "allgather of 100 x float32): sendbuf and recvbuf overlap");
        party_run(&p, RANKS, refuses, &s, 90);
        ok(all_told(3, expected), "%s that one rank refuses: all get MISMATCH at once", form_names[f]);
    }
    plot s = {.pause = UNTIL_THEY_END, .busy = 1};
    party_run(&p, RANKS, refuses, &s, 90);
    ok(all_told(4, ") could not start operation 4 (allgather"), "the same while another thread drives");
}

static void
test_corrected(void)
{
    static const double pauses[] = {0, 0.3};
    int good = 0;
    for (form f = 0; f < FORMS; f++)
        for (int i = 0; i < 2; i++) {
            plot s = {.form = f, .pause = pauses[i], .busy = i};
            party_run(&p, RANKS, refuses, &s, 90);
            good += all_succeed();
        }
    is_int(2 * FORMS, good, "a rank that corrects its call in time: all ranks succeed, in every form");
    plot s = {.form = NO_HANDLE, .pause = UNTIL_THEY_END, .everybody = 1};
    party_run(&p, RANKS, refuses, &s, 90);
    ok(all_told(3, ") could not start operation 3 (allgather"),
       "where all have refused that call, those who correct it wait for who does not");
    s.pause = 0.3;
    party_run(&p, RANKS, refuses, &s, 90);
    ok(all_succeed(), "where all correct it in time, all is well");
}

static void
test_loop(void)
{
    plot at_once = {.loop = 2.5}, later = {.loop = 2.5, .pause = 0.3};
    party_run(&p, RANKS, looks_late, &at_once, 90);
    ok(all_succeed(), "called rightly at once by a program that drives, and computes for long then");
    party_run(&p, RANKS, looks_late, &later, 90);
    ok(all_succeed(), "or a moment later");
}

/* Wrong calls between many right ones that are over at once, then nothing for long. */
static int
tries(int rank, int size, void *arg)
{
    hoop_comm *comm = party_join(2);
    hoop_result result = HOOP_SUCCESS;
    double since = party_clock();
    for (int i = 0; i < 300 && result == HOOP_SUCCESS; i++) {
        if (i % 3 == rank && hoop_allreduce(NULL, out, COUNT, HOOP_FLOAT32, HOOP_SUM, comm) == HOOP_SUCCESS)
            return 6;
        result = hoop_allreduce(in, out, COUNT, HOOP_FLOAT32, HOOP_SUM, comm);
    }
    party_nap(rank == 0 ? 2.5 : 0);
    if (result == HOOP_SUCCESS)
        result = hoop_allreduce(in, out, COUNT, HOOP_FLOAT32, HOOP_SUM, comm);
    tell(comm, result, since);
    hoop_comm_destroy(comm);
    return 0;
}

/* With an argument: the calls that are corrected in time (corrected.t). */
int
main(int argc, char **argv)
{
    plan_lazy();
    tap_limit(240);
    setenv("HOOP_OP_TIMEOUT_MS", "120000", 1);
    setenv("HOOP_DEBUG", "none", 1);
    party_open(&p);
    if (argc > 1) {
        test_corrected();
        test_loop();
    } else {
        test_forms();
        party_run(&p, RANKS, tries, NULL, 90);
        ok(all_succeed(), "a hundred refusals between short operations leave nothing behind");
    }
    party_close(&p);
    return 0;
}
