/* SPDX-License-Identifier: MIT */
/*
 * A rank destroys its communicator while operations are in flight that no other rank completes. That ends long before
 * the time-out, and every rank gets the reason. One that leaves when another has ended the ring gets it, too.
 */
#include "hoop.h"
#include "t/sys/told.h"
#include "t/tap/tap.h"

#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 4, PATIENCE_MS = 5000 };

/* Rank 0 leaves with a receive, the others wait in a collective that it never enters. */
static int
unmatched(int rank, int size, void *arg)
{
    static int32_t value[COUNT];
    hoop_comm *comm = party_join(1);
    hoop_work *work;
    double since = party_clock();
    if (rank > 0) {
        tell(comm, hoop_barrier(comm), since);
        hoop_comm_destroy(comm);
        return 0;
    }
    if (hoop_irecv(value, COUNT, HOOP_INT32, *(const int *)arg, 3, comm, &work) != HOOP_SUCCESS)
        return 1;
    return tell(NULL, hoop_comm_destroy(comm), since);
}

typedef struct scene {
    int collective; /* rank 0 has started one */
    int receives;   /* the others leave with receives */
    int from;       /* rank 0 receives */
} scene;

/* Rank 0 has a receive in flight, and perhaps a collective. The others leave. */
static int
others_leave(int rank, int size, void *arg)
{
    static int32_t value[COUNT], sum[COUNT], other[COUNT];
    const scene *s = arg;
    hoop_comm *comm = party_join(1);
    hoop_work *work;
    double since = party_clock();
    hoop_result result = HOOP_SUCCESS;
    if (rank == 0 && s->collective)
        result = hoop_iallreduce(value, sum, COUNT, HOOP_INT32, HOOP_SUM, comm, &work);
    if (result == HOOP_SUCCESS && (rank == 0 || s->receives))
        result = hoop_irecv(other, COUNT, HOOP_INT32, rank ? (rank + 1) % size : s->from, 3, comm, &work);
    if (result != HOOP_SUCCESS)
        return 1;
    return tell(NULL, hoop_comm_destroy(comm), since);
}

#define E_ACUTE "\xc3\xa9"
#define TEN E_ACUTE E_ACUTE E_ACUTE E_ACUTE E_ACUTE E_ACUTE E_ACUTE E_ACUTE E_ACUTE E_ACUTE
/* The 120 bytes that are told end in the middle of a character. */
#define REASON "the loss is NaN,\nor: " TEN TEN TEN TEN TEN TEN

/* Rank 0 ends the ring, or, with a signal, itself. The server has told the others before they leave; they have called nothing. */
static int
hears_late(int rank, int size, void *signal)
{
    hoop_comm *comm = party_join(1);
    double since = party_clock();
    if (rank == 0 && signal)
        raise(SIGKILL);
    if (rank == 0)
        hoop_comm_abort(comm, REASON);
    for (tap_wait w = {0}; !party_says(&p, signal ? "vanished" : "the loss is NaN") && tap_waits(&w);)
        party_nap(0.01);
    return tell(NULL, hoop_comm_destroy(comm), since);
}

static void
test_hears_late(void)
{
    int ended = 0;
    party_run(&p, 3, hears_late, NULL, 60);
    for (int rank = 0; rank < 3; rank++)
        ended += hear(rank).result == HOOP_ERR_ABORTED && hear(rank).rank == 0 &&
                 strstr(hear(rank).text, "the loss is NaN,?or: " TEN TEN TEN TEN E_ACUTE) &&
                 !strcmp(hear(rank).text, hear(0).text) &&
                 (unsigned char)hear(0).text[strlen(hear(0).text) - 1] == 0xa9;
    is_int(3, ended, "a rank ends the ring while the others compute: these hear of it when they leave");
    party_run(&p, 3, hears_late, &p, 60);
    is_int(2, (hear(1).result == HOOP_SUCCESS) + (hear(2).result == HOOP_SUCCESS),
           "a rank ends when nobody waits for it: the others leave well");
}

static void
test_unmatched(int size, int from, const char *call)
{
    int named = 0;
    is_int(0, party_run(&p, size, unmatched, &from, 120), "%d ranks, one leaves with a %s", size, call);
    for (int rank = 0; rank < size; rank++) {
        told t = hear(rank);
        named += t.result == HOOP_ERR_ABORTED && t.rank == 0 &&
                 strstr(t.text, "leaves, and no rank has matched its ") && strstr(t.text, call);
    }
    if (!is_int(size, named, "all learn why that ends"))
        for (int rank = 0; rank < size; rank++)
            diag("%s", p.guest[rank].note);
    int ms = hear(0).ms;
    ok(ms >= PATIENCE_MS && ms < 2 * PATIENCE_MS + tap_room() * 1000, "after %d ms", ms);
}

static void
test_others_leave(int size, scene s)
{
    is_int(0, party_run(&p, size, others_leave, &s, 120),
           "%d ranks, one leaves with a receive from %d%s; the others %s", size, s.from,
           s.collective ? " and a collective" : "", s.receives ? "have receives" : "have left");
    told t = hear(0);
    ok(t.result == HOOP_ERR_PEER_LOST || t.result == HOOP_ERR_ABORTED, "an error: %s", p.guest[0].note);
    ok(t.ms < 2 * PATIENCE_MS + tap_room() * 1000, "after %d ms", t.ms);
}

int
main(void)
{
    plan_lazy();
    tap_limit(300);
    party_open(&p);
    setenv("HOOP_OP_TIMEOUT_MS", "60000", 1);
    test_hears_late();
    test_unmatched(2, 1, "recv of 4 x int32 (tag 3) from rank 1");
    test_unmatched(3, HOOP_ANY_RANK, "recv of 4 x int32 (tag 3) from any rank");
    for (int size = 2; size <= 5; size += 3) {
        test_others_leave(size, (scene){.from = 1});
        test_others_leave(size, (scene){.from = HOOP_ANY_RANK});
        test_others_leave(size, (scene){.collective = 1, .from = 1});
        test_others_leave(size, (scene){.collective = 1, .from = HOOP_ANY_RANK});
        test_others_leave(size, (scene){.collective = 1, .from = 1, .receives = 1});
    }
    party_close(&p);
    return tap_failures() != 0;
}
