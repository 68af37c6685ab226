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

/* Elements in a rank's send buffer, receive buffer, and the larger of the two; on every rank as at the root. */
size_t perf_coll_send_count(const perf_coll *coll, size_t count, int ranks);
size_t perf_coll_recv_count(const perf_coll *coll, size_t count, int ranks);
size_t perf_coll_total(const perf_coll *coll, size_t count, int ranks);

double perf_coll_bus_factor(const perf_coll *coll, int ranks);

/* Makes the call in place: call->send and call->recv point into `big`, which has room for all elements. */
void perf_coll_in_place(const perf_coll *coll, perf_call *call, void *big, size_t element, int rank);

/* Whether a rank has a result, and whether it has data to send. */
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

/* --- types and operations --- */

enum { PERF_TYPES = 12, PERF_OPS = 5 };

typedef enum perf_kind { PERF_SIGNED, PERF_UNSIGNED, PERF_FLOAT } perf_kind;

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
const char *perf_op_name(int op);
int perf_op_named(const char *name);

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
