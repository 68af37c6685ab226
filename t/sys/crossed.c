/* SPDX-License-Identifier: MIT */
/*
 * Two ranks with two communicators whose connections have all been reset, and each rank waits in a call on another one of
 * them: neither is in the call that would make the other's connection again, and both calls end soon all the same.
 */
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"
#include "t/tools/proxy.h"

#include <stdlib.h>

enum { LIMIT_S = 120, SOON_S = 30 }; /* of an operation; as long as a busy machine may take for one of a second */

typedef enum crossing { DESTROYS, BARRIER, WORK, SPLIT, ANY } crossing;

static party p;
static proxy *x;
static hoop_comm *more; /* of ANY: two communicators are busy beside the one that rests */

static hoop_result
split(hoop_comm *comm)
{
    hoop_comm *part = NULL;
    hoop_result result = hoop_comm_split(comm, 0, 0, &part);
    return result ? result : hoop_comm_destroy(part);
}

static hoop_result
begin_and_wait(hoop_comm *comm)
{
    static float value;
    hoop_work *work = NULL;
    hoop_result result = hoop_iallreduce(&value, &value, 1, HOOP_FLOAT32, HOOP_SUM, comm, &work);
    return result ? result : hoop_work_wait(work, -1);
}

static hoop_result
begin_two_and_wait(hoop_comm *comm)
{
    static float value[2];
    hoop_work *works[2] = {NULL, NULL};
    size_t index;
    hoop_result result = hoop_iallreduce(&value[0], &value[0], 1, HOOP_FLOAT32, HOOP_SUM, comm, &works[0]);
    result = result ? result : hoop_iallreduce(&value[1], &value[1], 1, HOOP_FLOAT32, HOOP_SUM, more, &works[1]);
    for (int i = 0; i < 2 && result == HOOP_SUCCESS; i++)
        result = hoop_wait_any(works, 2, -1, &index);
    return result;
}

static hoop_result
call(crossing how, hoop_comm *comm)
{
    switch (how) {
    case BARRIER: return hoop_barrier(comm);
    case WORK: return begin_and_wait(comm);
    case ANY: return begin_two_and_wait(comm);
    default: return split(comm);
    }
}

/* Rank 0 destroys one of the two; rank 1 first does something else. */
static hoop_result
cross(crossing how, int rank, hoop_comm *world, hoop_comm *part)
{
    hoop_result result = HOOP_SUCCESS;
    hoop_comm *order[] = {part, world};
    if (how == DESTROYS && rank == 0) {
        order[0] = world;
        order[1] = part;
    }
    if (how != DESTROYS && rank == 1)
        result = call(how, world);
    result = result ? result : hoop_comm_destroy(order[0]);
    if (how != DESTROYS && rank == 0)
        result = result ? result : call(how, world);
    return result ? result : hoop_comm_destroy(order[1]);
}

static int
meet(int rank, int size, void *arg)
{
    hoop_comm *world = NULL, *part = NULL;
    proxy_stand_before(x, rank);
    hoop_result result = party_create(&world);
    result = result ? result : hoop_comm_split(world, 0, 0, &part);
    if (*(const crossing *)arg == ANY) {
        result = result ? result : hoop_comm_split(world, 0, 0, &more);
        result = result ? result : hoop_barrier(more);
    }
    result = result ? result : hoop_barrier(world);
    result = result ? result : hoop_barrier(part);
    party_mark();
    party_await_marks(size + 1); /* the test has reset all connections */
    double begun = party_clock();
    result = result ? result : cross(*(const crossing *)arg, rank, world, part);
    result = result ? result : hoop_comm_destroy(more);
    double took = party_clock() - begun;
    party_note("after %.1f s: %d", took, (int)result);
    return result != HOOP_SUCCESS || took > SOON_S * tap_room();
}

static void
test_crossed(crossing how, const char *what)
{
    proxy_reset(x);
    party_start(&p, 2, meet, &how, 2 * LIMIT_S);
    party_await_marks(2);
    proxy_drop_all(x, 1);
    party_mark();
    party_wait(&p);
    ok(party_failed(&p) == 0, "%s", what);
}

int
main(void)
{
    plan_lazy();
    tap_limit(600);
    setenv("HOOP_LINK_REPAIR", "all", 1);
    setenv("HOOP_SHM", "0", 1);
    setenv("HOOP_OP_TIMEOUT_MS", "120000", 1);
    setenv("HOOP_BOOTSTRAP_TIMEOUT_MS", "120000", 1);
    party_open(&p);
    x = proxy_open();
    test_crossed(DESTROYS, "two ranks destroy two communicators, each another one first");
    test_crossed(BARRIER,
                 "one destroys a communicator, and the other is in an operation of the one that this was made of");
    test_crossed(WORK, "or waits for one that it has begun");
    test_crossed(SPLIT, "or splits that");
    test_crossed(ANY, "or waits for one of two that it has begun, one of them in a third communicator");
    proxy_close(x);
    party_close(&p);
    return tap_failures() != 0;
}
