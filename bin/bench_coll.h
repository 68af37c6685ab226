/* SPDX-License-Identifier: MIT */
/*
 * bench_coll: the collectives as rows: how they lay out a size over send and receive buffers, where in place is, what a
 * rank must have received, and the factor from algorithm to bus bandwidth (nccl-tests, doc/PERFORMANCE.md).
 */
#ifndef BENCH_COLL_H
#define BENCH_COLL_H

#include "hoop.h"

typedef struct bench_call {
    const void *send;
    void *recv;
    size_t count;
    hoop_dtype dtype;
    hoop_op op;
    int root;
    hoop_comm *comm;
} bench_call;

typedef enum bench_layout { BENCH_ONE, BENCH_MANY, BENCH_NOTHING } bench_layout; /* count, or ranks * count elements */

typedef struct bench_coll {
    const char *name;
    int reduces, rooted;
    bench_layout send, recv;
    hoop_result (*run)(const bench_call *call);
    int crossings; /* busbw = algbw * crossings * (n-1)/n; 0: busbw = algbw */
} bench_coll;

enum { BENCH_COLLS = 9 };
const bench_coll *bench_coll_at(int index);
int bench_coll_named(const char *name); /* nccl-tests' spellings too (all_reduce); -1 for an unknown one */

/* Elements per call for a size in bytes: the size is that of the larger buffer. */
size_t bench_coll_count(const bench_coll *coll, size_t bytes, size_t element, int ranks);

/* Elements in the buffers of this rank (off the root as at the root), and their larger one. */
size_t bench_coll_send_count(const bench_coll *coll, size_t count, int ranks);
size_t bench_coll_recv_count(const bench_coll *coll, size_t count, int ranks);
size_t bench_coll_total(const bench_coll *coll, size_t count, int ranks);

double bench_coll_bus_factor(const bench_coll *coll, int ranks);

/* Fills call->send and call->recv with places in `big` (total elements): this rank's in-place form of the call. */
void bench_coll_in_place(const bench_coll *coll, bench_call *call, void *big, size_t element, int rank);

/* Whether a rank has a result to look at, and a buffer to send. */
int bench_coll_receives(const bench_coll *coll, int rank, int root);
int bench_coll_sends(const bench_coll *coll, int rank, int root);

/*
 * Where block b (of count elements) of what `rank` receives comes from: the rank that sent it, and the element in its
 * send buffer. For reductions the rank is -1 and the element counts in the reduction.
 */
typedef struct bench_origin {
    int rank;
    size_t element;
} bench_origin;
bench_origin bench_coll_origin(const bench_coll *coll, size_t block, size_t count, int rank, int root);

#endif
