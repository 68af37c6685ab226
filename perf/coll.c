/* SPDX-License-Identifier: MIT */
/* coll: one table; the functions below it only read it. */
#include "perf/coll.h"

#include <string.h>

static hoop_result
run_allreduce(const perf_call *c)
{
    return hoop_allreduce(c->send, c->recv, c->count, c->dtype, c->op, c->comm);
}

static hoop_result
run_reduce_scatter(const perf_call *c)
{
    return hoop_reduce_scatter(c->send, c->recv, c->count, c->dtype, c->op, c->comm);
}

static hoop_result
run_allgather(const perf_call *c)
{
    return hoop_allgather(c->send, c->recv, c->count, c->dtype, c->comm);
}

static hoop_result
run_broadcast(const perf_call *c)
{
    return hoop_broadcast(c->send, c->recv, c->count, c->dtype, c->root, c->comm);
}

static hoop_result
run_reduce(const perf_call *c)
{
    return hoop_reduce(c->send, c->recv, c->count, c->dtype, c->op, c->root, c->comm);
}

static hoop_result
run_gather(const perf_call *c)
{
    return hoop_gather(c->send, c->recv, c->count, c->dtype, c->root, c->comm);
}

static hoop_result
run_scatter(const perf_call *c)
{
    return hoop_scatter(c->send, c->recv, c->count, c->dtype, c->root, c->comm);
}

static hoop_result
run_alltoall(const perf_call *c)
{
    return hoop_alltoall(c->send, c->recv, c->count, c->dtype, c->comm);
}

static hoop_result
run_barrier(const perf_call *c)
{
    return hoop_barrier(c->comm);
}

static const perf_coll colls[PERF_COLLS] = {
    {"allreduce", 1, 0, PERF_ONE, PERF_ONE, run_allreduce, 2},
    {"reduce_scatter", 1, 0, PERF_MANY, PERF_ONE, run_reduce_scatter, 1},
    {"allgather", 0, 0, PERF_ONE, PERF_MANY, run_allgather, 1},
    {"broadcast", 0, 1, PERF_ONE, PERF_ONE, run_broadcast, 0},
    {"reduce", 1, 1, PERF_ONE, PERF_ONE, run_reduce, 0},
    {"gather", 0, 1, PERF_ONE, PERF_MANY, run_gather, 1},
    {"scatter", 0, 1, PERF_MANY, PERF_ONE, run_scatter, 1},
    {"alltoall", 0, 0, PERF_MANY, PERF_MANY, run_alltoall, 1},
    {"barrier", 0, 0, PERF_NOTHING, PERF_NOTHING, run_barrier, 0},
};

const perf_coll *
perf_coll_at(int index)
{
    return index >= 0 && index < PERF_COLLS ? &colls[index] : NULL;
}

/* Equal but for underscores. */
static int
same_name(const char *a, const char *b)
{
    while (*a != '\0' || *b != '\0') {
        if (*a == '_')
            a++;
        else if (*b == '_')
            b++;
        else if (*a++ != *b++)
            return 0;
    }
    return 1;
}

int
perf_coll_named(const char *name)
{
    for (int i = 0; i < PERF_COLLS; i++)
        if (same_name(name, colls[i].name))
            return i;
    return -1;
}

static size_t
elements(perf_layout layout, size_t count, int ranks)
{
    return layout == PERF_NOTHING ? 0 : layout == PERF_MANY ? count * (size_t)ranks : count;
}

size_t
perf_coll_send_count(const perf_coll *coll, size_t count, int ranks)
{
    return elements(coll->send, count, ranks);
}

size_t
perf_coll_recv_count(const perf_coll *coll, size_t count, int ranks)
{
    return elements(coll->recv, count, ranks);
}

size_t
perf_coll_total(const perf_coll *coll, size_t count, int ranks)
{
    size_t send = perf_coll_send_count(coll, count, ranks), recv = perf_coll_recv_count(coll, count, ranks);
    return send > recv ? send : recv;
}

size_t
perf_coll_count(const perf_coll *coll, size_t bytes, size_t element, int ranks)
{
    if (coll->send == PERF_NOTHING)
        return 0;
    return coll->send == PERF_MANY || coll->recv == PERF_MANY ? bytes / element / (size_t)ranks : bytes / element;
}

double
perf_coll_bus_factor(const perf_coll *coll, int ranks)
{
    return coll->crossings == 0 ? 1.0 : coll->crossings * (ranks - 1.0) / ranks;
}

void
perf_coll_in_place(const perf_coll *coll, perf_call *call, void *big, size_t element, int rank)
{
    char *own = (char *)big + (size_t)rank * call->count * element;
    call->send = coll->send == PERF_ONE && coll->recv == PERF_MANY ? own : big;
    call->recv = coll->send == PERF_MANY && coll->recv == PERF_ONE ? own : big;
}

int
perf_coll_receives(const perf_coll *coll, int rank, int root)
{
    int at_root_only = strcmp(coll->name, "reduce") == 0 || strcmp(coll->name, "gather") == 0;
    return coll->recv != PERF_NOTHING && (!at_root_only || rank == root);
}

int
perf_coll_sends(const perf_coll *coll, int rank, int root)
{
    int from_root_only = strcmp(coll->name, "broadcast") == 0 || strcmp(coll->name, "scatter") == 0;
    return coll->send != PERF_NOTHING && (!from_root_only || rank == root);
}

perf_origin
perf_coll_origin(const perf_coll *coll, size_t block, size_t count, int rank, int root)
{
    size_t own = coll->send == PERF_MANY ? (size_t)rank * count : 0;
    if (coll->reduces)
        return (perf_origin){-1, own};
    if (coll->rooted && coll->recv == PERF_ONE)
        return (perf_origin){root, own};
    return (perf_origin){(int)block, own};
}
