/* SPDX-License-Identifier: MIT */
/*
 * collectives: what can be measured, as tables. Each collective has a row: its layout of a size over send and receive
 * buffers, its in-place form, the origin of each block that a rank receives, and the factor from algorithm to bus
 * bandwidth (nccl-tests, doc/PERFORMANCE.md). Types and operations have the names of nccl-tests. Elements are encoded
 * here by plain arithmetic, without the library's own conversions, so that a mistake there cannot hide here.
 */
#ifndef PERF_COLLECTIVES_H
#define PERF_COLLECTIVES_H

#include "hoop.h"

/* --- collectives --- */

typedef struct perf_call {
    const void *send;
    void *recv;
    size_t count;
    const size_t *counts; /* of each rank, if the collective has them; `count` is their mean, rounded down */
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
    int crossings; /* busbw = algbw * crossings * (n-1)/n; 0: busbw = algbw */
    int uneven;    /* each rank has a count of its own, see perf_coll_block */
    int messages;  /* it consists of messages between two ranks: no in-place form */
} perf_coll;

enum { PERF_COLLS = 13 };
const perf_coll *perf_coll_at(int index);
hoop_result perf_coll_run(const perf_coll *coll, const perf_call *call);
int perf_coll_named(const char *name); /* nccl-tests' spellings too (all_reduce); -1 for an unknown one */

/* Elements per call for a size in bytes: the size is that of the larger buffer. */
size_t perf_coll_count(const perf_coll *coll, size_t bytes, size_t element, int ranks);

/*
 * A rank's block of ranks * count elements. Blocks are equal, or they grow evenly: block r begins at the
 * r(r+1) / (ranks(ranks+1))-th part of all.
 */
typedef struct perf_block {
    size_t first, count;
} perf_block;
perf_block perf_coll_block(const perf_coll *coll, size_t count, int ranks, int rank);

/* Elements in a rank's send buffer, receive buffer, and the larger of the two; on every rank as at the root. */
size_t perf_coll_send_count(const perf_coll *coll, size_t count, int ranks, int rank);
size_t perf_coll_recv_count(const perf_coll *coll, size_t count, int ranks, int rank);
size_t perf_coll_total(const perf_coll *coll, size_t count, int ranks);

double perf_coll_bus_factor(const perf_coll *coll, int ranks);

/* Makes the call in place: call->send and call->recv point into `big`, which has room for all elements. */
void perf_coll_in_place(const perf_coll *coll, perf_call *call, void *big, size_t element, int ranks, int rank);

/* Whether a rank has a result, and whether it has data to send. */
int perf_coll_receives(const perf_coll *coll, int rank, int root);
int perf_coll_sends(const perf_coll *coll, int rank, int root);

/*
 * Where block b of what `rank` receives comes from: the rank that sent it, and the element in its
 * send buffer. For reductions the rank is -1 and the element counts in the reduction.
 */
typedef struct perf_origin {
    int rank;
    size_t element;
} perf_origin;
perf_origin perf_coll_origin(const perf_coll *coll, int block, size_t count, int ranks, int rank, int root);

/* --- types and operations --- */

enum { PERF_TYPES = 15, PERF_OPS = 8 };

typedef enum perf_kind { PERF_SIGNED, PERF_UNSIGNED, PERF_BOOL, PERF_FLOAT } perf_kind;

typedef struct perf_type {
    const char *name;
    hoop_dtype dtype;
    perf_kind kind;
    size_t size;
    int exponent_bits, fraction_bits; /* floats */
} perf_type;

/* A row by its place in the tables (-d all, -o all), and by name; NULL and -1 for an unknown one. */
const perf_type *perf_type_at(int index);
int perf_type_named(const char *name);
hoop_op perf_op_at(int index);
const char *perf_op_name(int index); /* "none" for an unknown one */
int perf_op_named(const char *name);

/* Whether the type has the operation: bits of floats and the mean of bools do not exist. */
int perf_op_applies(int op, const perf_type *type);

/* Writes a whole number (the low bits of it), or a finite number rounded to nearest even, as one element. */
void perf_put_integer(const perf_type *type, void *element, uint64_t value);
void perf_put_float(const perf_type *type, void *element, double value);

/*
 * The floats of 16 and 8 bits by their order: 1 is the smallest number above 0, 2 the next one, and so on to the
 * largest, to infinity where the type has one, and at the end the NaN that the library makes; -1 is the opposite of 1.
 */
int perf_type_is_small(const perf_type *type);
int perf_order(const perf_type *type, const void *element);
void perf_put_order(const perf_type *type, void *element, int order);
double perf_value_at(const perf_type *type, int order); /* finite ones only */
int perf_order_of_largest(const perf_type *type);
int perf_order_of_nan(const perf_type *type);
int perf_order_of_infinity(const perf_type *type); /* 0: it has none */

#endif
