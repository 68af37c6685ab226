/* SPDX-License-Identifier: MIT */
/* forms: see forms.h. */
#include "t/sim/forms.h"

#include "t/sim/blocks.h"
#include "t/sim/sim.h"

#include <string.h>

/* Counts and displacements of a call that has them, as the public functions take them. */
typedef struct vectors {
    size_t counts[SIM_RANKS_MAX], displs[SIM_RANKS_MAX], own;
    const size_t *at; /* the displacements, or NULL */
} vectors;

static void
vectors_of(vectors *v, const hp_call *c, hoop_comm *comm)
{
    hp_block blocks[SIM_RANKS_MAX] = {{0, 0}};
    int rank = hoop_comm_rank(comm), size = hoop_comm_size(comm);
    sim_blocks(blocks, c, rank, size);
    for (int r = 0; r < size; r++) {
        v->counts[r] = blocks[r].count;
        v->displs[r] = blocks[r].at;
    }
    v->own = blocks[rank].count;
    v->at = sim_blocks_are_plain(c) ? NULL : v->displs;
}

static hoop_result
blocking(const hp_call *c, const void *from, void *to, hoop_comm *comm, const vectors *v)
{
    hoop_dtype dtype = (hoop_dtype)c->dtype;
    hoop_op op = (hoop_op)c->op;
    size_t count = c->count;
    switch ((hp_kind)c->kind) {
    case HP_ALLREDUCE: return hoop_allreduce(from, to, count, dtype, op, comm);
    case HP_REDUCE_SCATTER: return hoop_reduce_scatter(from, to, count, dtype, op, comm);
    case HP_ALLGATHER: return hoop_allgather(from, to, count, dtype, comm);
    case HP_BROADCAST: return hoop_broadcast(from, to, count, dtype, c->root, comm);
    case HP_REDUCE: return hoop_reduce(from, to, count, dtype, op, c->root, comm);
    case HP_GATHER: return hoop_gather(from, to, count, dtype, c->root, comm);
    case HP_SCATTER: return hoop_scatter(from, to, count, dtype, c->root, comm);
    case HP_ALLTOALL: return hoop_alltoall(from, to, count, dtype, comm);
    case HP_ALLGATHERV: return hoop_allgatherv(from, to, v->own, v->counts, v->at, dtype, comm);
    case HP_REDUCE_SCATTERV: return hoop_reduce_scatterv(from, to, v->counts, v->at, dtype, op, comm);
    default: return hoop_barrier(comm);
    }
}

static hoop_result
started(const hp_call *c, const void *from, void *to, hoop_comm *comm, const vectors *v, hoop_work **work)
{
    hoop_dtype dtype = (hoop_dtype)c->dtype;
    hoop_op op = (hoop_op)c->op;
    size_t count = c->count;
    switch ((hp_kind)c->kind) {
    case HP_ALLREDUCE: return hoop_iallreduce(from, to, count, dtype, op, comm, work);
    case HP_REDUCE_SCATTER: return hoop_ireduce_scatter(from, to, count, dtype, op, comm, work);
    case HP_ALLGATHER: return hoop_iallgather(from, to, count, dtype, comm, work);
    case HP_BROADCAST: return hoop_ibroadcast(from, to, count, dtype, c->root, comm, work);
    case HP_REDUCE: return hoop_ireduce(from, to, count, dtype, op, c->root, comm, work);
    case HP_GATHER: return hoop_igather(from, to, count, dtype, c->root, comm, work);
    case HP_SCATTER: return hoop_iscatter(from, to, count, dtype, c->root, comm, work);
    case HP_ALLTOALL: return hoop_ialltoall(from, to, count, dtype, comm, work);
    case HP_ALLGATHERV: return hoop_iallgatherv(from, to, v->own, v->counts, v->at, dtype, comm, work);
    case HP_REDUCE_SCATTERV: return hoop_ireduce_scatterv(from, to, v->counts, v->at, dtype, op, comm, work);
    default: return hoop_ibarrier(comm, work);
    }
}

hoop_result
sim_call(const hp_call *c, const void *from, void *to, hoop_comm *comm, hoop_work **work)
{
    vectors v;
    vectors_of(&v, c, comm);
    hoop_result result = work ? started(c, from, to, comm, &v, work) : blocking(c, from, to, comm, &v);
    memset(&v, 0xff, sizeof(v));
    return result;
}

hoop_result
sim_call_on_stream(const hp_call *c, const void *from, void *to, hoop_comm *comm, void *stream)
{
    hoop_dtype dtype = (hoop_dtype)c->dtype;
    hoop_op op = (hoop_op)c->op;
    size_t count = c->count;
    vectors v;
    vectors_of(&v, c, comm);
    switch ((hp_kind)c->kind) {
    case HP_ALLREDUCE: return hoop_allreduce_on_stream(from, to, count, dtype, op, comm, stream);
    case HP_REDUCE_SCATTER: return hoop_reduce_scatter_on_stream(from, to, count, dtype, op, comm, stream);
    case HP_ALLGATHER: return hoop_allgather_on_stream(from, to, count, dtype, comm, stream);
    case HP_BROADCAST: return hoop_broadcast_on_stream(from, to, count, dtype, c->root, comm, stream);
    case HP_REDUCE: return hoop_reduce_on_stream(from, to, count, dtype, op, c->root, comm, stream);
    case HP_GATHER: return hoop_gather_on_stream(from, to, count, dtype, c->root, comm, stream);
    case HP_SCATTER: return hoop_scatter_on_stream(from, to, count, dtype, c->root, comm, stream);
    case HP_ALLTOALL: return hoop_alltoall_on_stream(from, to, count, dtype, comm, stream);
    case HP_ALLGATHERV: return hoop_allgatherv_on_stream(from, to, v.own, v.counts, v.at, dtype, comm, stream);
    case HP_REDUCE_SCATTERV: return hoop_reduce_scatterv_on_stream(from, to, v.counts, v.at, dtype, op, comm, stream);
    default: return hoop_barrier_on_stream(comm, stream);
    }
}
