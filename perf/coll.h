/* SPDX-License-Identifier: MIT */
/*
 * coll: the collectives as rows: how they lay out a size over send and receive buffers, where in place is, what a
 * rank must have received, and the factor from algorithm to bus bandwidth (nccl-tests, doc/PERFORMANCE.md).
 */
#ifndef PERF_COLL_H
#define PERF_COLL_H

#include "hoop.h"

typedef struct perf_call {
    const void *send;
    void *recv;
    size_t count;
    hoop_dtype dtype;
    hoop_op op;
    int root;
    hoop_comm *comm;
} perf_call;

typedef enum perf_layout { PERF_ONE, PERF_MANY, PERF_NOTHING } perf_layout; /* count, or ranks * count elements */

typedef struct perf_coll {
    const char *name;
    int reduces, rooted;
    perf_layout send, recv;
    hoop_result (*run)(const perf_call *call);
    int crossings; /* busbw = algbw * crossings * (n-1)/n; 0: busbw = algbw */
} perf_coll;

enum { PERF_COLLS = 9 };
const perf_coll *perf_coll_at(int index);
int perf_coll_named(const char *name); /* nccl-tests' spellings too (all_reduce); -1 for an unknown one */

/* Elements per call for a size in bytes: the size is that of the larger buffer. */
size_t perf_coll_count(const perf_coll *coll, size_t bytes, size_t element, int ranks);

/* Elements in the buffers of this rank (off the root as at the root), and their larger one. */
size_t perf_coll_send_count(const perf_coll *coll, size_t count, int ranks);
size_t perf_coll_recv_count(const perf_coll *coll, size_t count, int ranks);
size_t perf_coll_total(const perf_coll *coll, size_t count, int ranks);

double perf_coll_bus_factor(const perf_coll *coll, int ranks);

/* Fills call->send and call->recv with places in `big` (total elements): this rank's in-place form of the call. */
void perf_coll_in_place(const perf_coll *coll, perf_call *call, void *big, size_t element, int rank);

/* Whether a rank has a result to look at, and a buffer to send. */
int perf_coll_receives(const perf_coll *coll, int rank, int root);
int perf_coll_sends(const perf_coll *coll, int rank, int root);

/*
 * Where block b (of count elements) of what `rank` receives comes from: the rank that sent it, and the element in its
 * send buffer. For reductions the rank is -1 and the element counts in the reduction.
 */
typedef struct perf_origin {
    int rank;
    size_t element;
} perf_origin;
perf_origin perf_coll_origin(const perf_coll *coll, size_t block, size_t count, int rank, int root);

#endif
