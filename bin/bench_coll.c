/* SPDX-License-Identifier: MIT */
/* bench_coll: one table; the functions below it only read it. */
#include "bin/bench_coll.h"

#include <string.h>

static hoop_result
run_allreduce(const bench_call *c)
{
    return hoop_allreduce(c->send, c->recv, c->count, c->dtype, c->op, c->comm);
}

static hoop_result
run_reduce_scatter(const bench_call *c)
{
    return hoop_reduce_scatter(c->send, c->recv, c->count, c->dtype, c->op, c->comm);
}

static hoop_result
run_allgather(const bench_call *c)
{
    return hoop_allgather(c->send, c->recv, c->count, c->dtype, c->comm);
}

static hoop_result
run_broadcast(const bench_call *c)
{
    return hoop_broadcast(c->send, c->recv, c->count, c->dtype, c->root, c->comm);
}

static hoop_result
run_reduce(const bench_call *c)
{
    return hoop_reduce(c->send, c->recv, c->count, c->dtype, c->op, c->root, c->comm);
}

static hoop_result
run_gather(const bench_call *c)
{
    return hoop_gather(c->send, c->recv, c->count, c->dtype, c->root, c->comm);
}

static hoop_result
run_scatter(const bench_call *c)
{
    return hoop_scatter(c->send, c->recv, c->count, c->dtype, c->root, c->comm);
}

static hoop_result
run_alltoall(const bench_call *c)
{
    return hoop_alltoall(c->send, c->recv, c->count, c->dtype, c->comm);
}

static hoop_result
run_barrier(const bench_call *c)
{
    return hoop_barrier(c->comm);
}

static const bench_coll colls[BENCH_COLLS] = {
    {"allreduce", 1, 0, BENCH_ONE, BENCH_ONE, run_allreduce, 2},
    {"reduce_scatter", 1, 0, BENCH_MANY, BENCH_ONE, run_reduce_scatter, 1},
    {"allgather", 0, 0, BENCH_ONE, BENCH_MANY, run_allgather, 1},
    {"broadcast", 0, 1, BENCH_ONE, BENCH_ONE, run_broadcast, 0},
    {"reduce", 1, 1, BENCH_ONE, BENCH_ONE, run_reduce, 0},
    {"gather", 0, 1, BENCH_ONE, BENCH_MANY, run_gather, 1},
    {"scatter", 0, 1, BENCH_MANY, BENCH_ONE, run_scatter, 1},
    {"alltoall", 0, 0, BENCH_MANY, BENCH_MANY, run_alltoall, 1},
    {"barrier", 0, 0, BENCH_NOTHING, BENCH_NOTHING, run_barrier, 0},
};

const bench_coll *
bench_coll_at(int index)
{
    return index >= 0 && index < BENCH_COLLS ? &colls[index] : NULL;
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
bench_coll_named(const char *name)
{
    for (int i = 0; i < BENCH_COLLS; i++)
        if (same_name(name, colls[i].name))
            return i;
    return -1;
}

static size_t
elements(bench_layout layout, size_t count, int ranks)
{
    return layout == BENCH_NOTHING ? 0 : layout == BENCH_MANY ? count * (size_t)ranks : count;
}

size_t
bench_coll_send_count(const bench_coll *coll, size_t count, int ranks)
{
    return elements(coll->send, count, ranks);
}

size_t
bench_coll_recv_count(const bench_coll *coll, size_t count, int ranks)
{
    return elements(coll->recv, count, ranks);
}

size_t
bench_coll_total(const bench_coll *coll, size_t count, int ranks)
{
    size_t send = bench_coll_send_count(coll, count, ranks), recv = bench_coll_recv_count(coll, count, ranks);
    return send > recv ? send : recv;
}

size_t
bench_coll_count(const bench_coll *coll, size_t bytes, size_t element, int ranks)
{
    if (coll->send == BENCH_NOTHING)
        return 0;
    return coll->send == BENCH_MANY || coll->recv == BENCH_MANY ? bytes / element / (size_t)ranks : bytes / element;
}

double
bench_coll_bus_factor(const bench_coll *coll, int ranks)
{
    return coll->crossings == 0 ? 1.0 : coll->crossings * (ranks - 1.0) / ranks;
}

void
bench_coll_in_place(const bench_coll *coll, bench_call *call, void *big, size_t element, int rank)
{
    char *own = (char *)big + (size_t)rank * call->count * element;
    call->send = coll->send == BENCH_ONE && coll->recv == BENCH_MANY ? own : big;
    call->recv = coll->send == BENCH_MANY && coll->recv == BENCH_ONE ? own : big;
}

int
bench_coll_receives(const bench_coll *coll, int rank, int root)
{
    int at_root_only = strcmp(coll->name, "reduce") == 0 || strcmp(coll->name, "gather") == 0;
    return coll->recv != BENCH_NOTHING && (!at_root_only || rank == root);
}

int
bench_coll_sends(const bench_coll *coll, int rank, int root)
{
    int from_root_only = strcmp(coll->name, "broadcast") == 0 || strcmp(coll->name, "scatter") == 0;
    return coll->send != BENCH_NOTHING && (!from_root_only || rank == root);
}

bench_origin
bench_coll_origin(const bench_coll *coll, size_t block, size_t count, int rank, int root)
{
    size_t own = coll->send == BENCH_MANY ? (size_t)rank * count : 0;
    if (coll->reduces)
        return (bench_origin){-1, own};
    if (coll->rooted && coll->recv == BENCH_ONE)
        return (bench_origin){root, own};
    return (bench_origin){(int)block, own};
}
