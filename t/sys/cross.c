/* SPDX-License-Identifier: MIT */
/*
 * One rank splits the communicator while the others are in a collective: all learn at once what the two of them called.
 * Where all have started the same operations before they split nothing happens, however long those take.
 */
#include "hoop.h"
#include "t/sys/told.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS = 4, GUILTY = 2, COUNT = 1000 };

static int
crosses(int rank, int size, void *arg)
{
    static float values[COUNT];
    hoop_comm *comm = party_join(2), *part;
    hoop_result result;
    double since = party_clock();
    if (rank == GUILTY)
        result = hoop_comm_split(comm, 0, 0, &part);
    else
        result = hoop_allreduce(values, values, COUNT, HOOP_FLOAT32, HOOP_SUM, comm);
    tell(comm, result, since);
    hoop_comm_destroy(comm);
    return 0;
}

static void
test_crossed(void)
{
    int good = 0;
    party_run(&p, RANKS, crosses, NULL, 90);
    for (int rank = 0; rank < RANKS; rank++) {
        told t = hear(rank);
        good += t.result == HOOP_ERR_MISMATCH && t.ms < 1250 + tap_room() * 1000 && strstr(t.text, "rank 2 (") &&
                strstr(t.text, ") is in hoop_comm_split after 2 operations, but rank ") &&
                strstr(t.text, " is in operation 3 (allreduce of 1000 x float32, sum), which rank 2 has not");
    }
    if (good < RANKS)
        show("crossed");
    is_int(RANKS, good, "a rank in a split, the others in a collective: all get MISMATCH at once, with both calls");
}

/* The last rank comes to the split long after the others, with the operation under way that all have started. */
static int
starts_and_splits(int rank, int size, void *arg)
{
    static float values[COUNT], more[COUNT];
    hoop_comm *comm = party_join(2), *part = NULL;
    hoop_work *work[2];
    double since = party_clock();
    hoop_result result = hoop_iallreduce(values, values, COUNT, HOOP_FLOAT32, HOOP_SUM, comm, &work[0]);
    party_nap(rank == GUILTY ? 1.5 : 0);
    if (result == HOOP_SUCCESS)
        result = hoop_iallreduce(more, more, COUNT, HOOP_FLOAT32, HOOP_SUM, comm, &work[1]);
    party_nap(rank == GUILTY ? 1.5 : 0);
    if (result == HOOP_SUCCESS)
        result = hoop_comm_split(comm, 0, 0, &part);
    if (result == HOOP_SUCCESS)
        result = hoop_wait_all(work, 2);
    tell(comm, result, since);
    hoop_comm_destroy(part);
    hoop_comm_destroy(comm);
    return 0;
}

static void
test_harmless(void)
{
    int good = 0;
    party_run(&p, RANKS, starts_and_splits, NULL, 90);
    for (int rank = 0; rank < RANKS; rank++)
        good += p.guest[rank].status == 0 && hear(rank).result == HOOP_SUCCESS;
    if (good < RANKS)
        show("split");
    is_int(RANKS, good, "operations that all ranks have started before they split go on");
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    setenv("HOOP_OP_TIMEOUT_MS", "120000", 1);
    setenv("HOOP_DEBUG", "none", 1);
    party_open(&p);
    test_crossed();
    test_harmless();
    party_close(&p);
    return 0;
}
