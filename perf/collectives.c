/* SPDX-License-Identifier: MIT */
/* collectives: three tables; the functions below each of them only read it. */
#include "perf/collectives.h"

#include <math.h>
#include <string.h>

/* --- collectives --- */

enum {
    ALLREDUCE,
    REDUCE_SCATTER,
    ALLGATHER,
    BROADCAST,
    REDUCE,
    GATHER,
    SCATTER,
    ALLTOALL,
    REDUCE_SCATTERV,
    ALLGATHERV,
    ALLTOALLV,
    SENDRECV,
    BARRIER
};

static const perf_coll colls[PERF_COLLS] = {
    [ALLREDUCE] = {"allreduce", 1, 0, PERF_ONE, PERF_ONE, 2, 0, 0},
    [REDUCE_SCATTER] = {"reduce_scatter", 1, 0, PERF_MANY, PERF_ONE, 1, 0, 0},
    [ALLGATHER] = {"allgather", 0, 0, PERF_ONE, PERF_MANY, 1, 0, 0},
    [BROADCAST] = {"broadcast", 0, 1, PERF_ONE, PERF_ONE, 0, 0, 0},
    [REDUCE] = {"reduce", 1, 1, PERF_ONE, PERF_ONE, 0, 0, 0},
    [GATHER] = {"gather", 0, 1, PERF_ONE, PERF_MANY, 1, 0, 0},
    [SCATTER] = {"scatter", 0, 1, PERF_MANY, PERF_ONE, 1, 0, 0},
    [ALLTOALL] = {"alltoall", 0, 0, PERF_MANY, PERF_MANY, 1, 0, 0},
    [REDUCE_SCATTERV] = {"reduce_scatterv", 1, 0, PERF_MANY, PERF_ONE, 1, 1, 0},
    [ALLGATHERV] = {"allgatherv", 0, 0, PERF_ONE, PERF_MANY, 1, 1, 0},
    [ALLTOALLV] = {"alltoallv", 0, 0, PERF_MANY, PERF_MANY, 1, 0, 1},
    [SENDRECV] = {"sendrecv", 0, 0, PERF_ONE, PERF_ONE, 0, 0, 1},
    [BARRIER] = {"barrier", 0, 0, PERF_NOTHING, PERF_NOTHING, 0, 0, 0},
};

hoop_result
perf_coll_run(const perf_coll *coll, const perf_call *c)
{
    hoop_result result;
    int rank, size;
    switch (coll - colls) {
    case ALLREDUCE: return hoop_allreduce(c->send, c->recv, c->count, c->dtype, c->op, c->comm);
    case REDUCE_SCATTER: return hoop_reduce_scatter(c->send, c->recv, c->count, c->dtype, c->op, c->comm);
    case ALLGATHER: return hoop_allgather(c->send, c->recv, c->count, c->dtype, c->comm);
    case BROADCAST: return hoop_broadcast(c->send, c->recv, c->count, c->dtype, c->root, c->comm);
    case REDUCE: return hoop_reduce(c->send, c->recv, c->count, c->dtype, c->op, c->root, c->comm);
    case GATHER: return hoop_gather(c->send, c->recv, c->count, c->dtype, c->root, c->comm);
    case SCATTER: return hoop_scatter(c->send, c->recv, c->count, c->dtype, c->root, c->comm);
    case ALLTOALL: return hoop_alltoall(c->send, c->recv, c->count, c->dtype, c->comm);
    case REDUCE_SCATTERV: return hoop_reduce_scatterv(c->send, c->recv, c->counts, NULL, c->dtype, c->op, c->comm);
    case ALLGATHERV:
        return hoop_allgatherv(c->send, c->recv, c->counts[hoop_comm_rank(c->comm)], c->counts, NULL, c->dtype,
                               c->comm);
    case ALLTOALLV: /* equal blocks */
        return hoop_alltoallv(c->send, c->recv, c->counts, NULL, c->counts, NULL, c->dtype, c->comm);
    case SENDRECV: /* to the next rank, from the previous one */
        rank = hoop_comm_rank(c->comm);
        size = hoop_comm_size(c->comm);
        result = hoop_group_start(c->comm);
        if (result != HOOP_SUCCESS)
            return result;
        hoop_send(c->send, c->count, c->dtype, (rank + 1) % size, 0, c->comm);
        hoop_recv(c->recv, c->count, c->dtype, (rank + size - 1) % size, 0, c->comm);
        return hoop_group_end(c->comm); /* with the error of either */
    default: return hoop_barrier(c->comm);
    }
}

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

/* total * r(r+1) / (n(n+1)), which does not overflow for n < 65536. */
static size_t
ramp(size_t total, uint64_t n, uint64_t r)
{
    uint64_t all = n * (n + 1), part = r * (r + 1);
    return (size_t)(total / all * part + total % all * part / all);
}

perf_block
perf_coll_block(const perf_coll *coll, size_t count, int ranks, int rank)
{
    size_t total = count * (size_t)ranks, first = (size_t)rank * count;
    if (!coll->uneven)
        return (perf_block){first, count};
    first = ramp(total, (uint64_t)ranks, (uint64_t)rank);
    return (perf_block){first, ramp(total, (uint64_t)ranks, (uint64_t)rank + 1) - first};
}

static size_t
elements(const perf_coll *coll, perf_layout layout, size_t count, int ranks, int rank)
{
    if (layout == PERF_ONE)
        return perf_coll_block(coll, count, ranks, rank).count;
    return layout == PERF_MANY ? count * (size_t)ranks : 0;
}

size_t
perf_coll_send_count(const perf_coll *coll, size_t count, int ranks, int rank)
{
    return elements(coll, coll->send, count, ranks, rank);
}

size_t
perf_coll_recv_count(const perf_coll *coll, size_t count, int ranks, int rank)
{
    return elements(coll, coll->recv, count, ranks, rank);
}

size_t
perf_coll_total(const perf_coll *coll, size_t count, int ranks)
{
    size_t send = perf_coll_send_count(coll, count, ranks, 0), recv = perf_coll_recv_count(coll, count, ranks, 0);
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
perf_coll_in_place(const perf_coll *coll, perf_call *call, void *big, size_t element, int ranks, int rank)
{
    char *own = (char *)big + perf_coll_block(coll, call->count, ranks, rank).first * element;
    call->send = coll->send == PERF_ONE && coll->recv == PERF_MANY ? own : big;
    call->recv = coll->send == PERF_MANY && coll->recv == PERF_ONE ? own : big;
}

int
perf_coll_receives(const perf_coll *coll, int rank, int root)
{
    int at_root_only = coll == &colls[REDUCE] || coll == &colls[GATHER];
    return coll->recv != PERF_NOTHING && (!at_root_only || rank == root);
}

int
perf_coll_sends(const perf_coll *coll, int rank, int root)
{
    int from_root_only = coll == &colls[BROADCAST] || coll == &colls[SCATTER];
    return coll->send != PERF_NOTHING && (!from_root_only || rank == root);
}

perf_origin
perf_coll_origin(const perf_coll *coll, int block, size_t count, int ranks, int rank, int root)
{
    size_t own = coll->send == PERF_MANY ? perf_coll_block(coll, count, ranks, rank).first : 0;
    if (coll->reduces)
        return (perf_origin){-1, own};
    if (coll->rooted && coll->recv == PERF_ONE)
        return (perf_origin){root, own};
    if (coll->send == PERF_ONE && coll->recv == PERF_ONE)
        return (perf_origin){(rank + ranks - 1) % ranks, 0};
    return (perf_origin){block, own};
}

/* --- types and operations --- */

static const perf_type types[PERF_TYPES] = {
    {"int8", HOOP_INT8, PERF_SIGNED, 1, 0, 0},        {"uint8", HOOP_UINT8, PERF_UNSIGNED, 1, 0, 0},
    {"int32", HOOP_INT32, PERF_SIGNED, 4, 0, 0},      {"uint32", HOOP_UINT32, PERF_UNSIGNED, 4, 0, 0},
    {"int64", HOOP_INT64, PERF_SIGNED, 8, 0, 0},      {"uint64", HOOP_UINT64, PERF_UNSIGNED, 8, 0, 0},
    {"half", HOOP_FLOAT16, PERF_FLOAT, 2, 5, 10},     {"float", HOOP_FLOAT32, PERF_FLOAT, 4, 8, 23},
    {"double", HOOP_FLOAT64, PERF_FLOAT, 8, 11, 52},  {"bfloat16", HOOP_BFLOAT16, PERF_FLOAT, 2, 8, 7},
    {"f8e4m3", HOOP_FLOAT8E4M3, PERF_FLOAT, 1, 4, 3}, {"f8e5m2", HOOP_FLOAT8E5M2, PERF_FLOAT, 1, 5, 2},
    {"int16", HOOP_INT16, PERF_SIGNED, 2, 0, 0},      {"uint16", HOOP_UINT16, PERF_UNSIGNED, 2, 0, 0},
    {"bool", HOOP_BOOL, PERF_BOOL, 1, 0, 0},
};

/* Other common names of the types. */
static const struct {
    const char *other, *name;
} names[] = {{"float16", "half"},    {"fp16", "half"},         {"float32", "float"},  {"fp32", "float"},
             {"float64", "double"},  {"fp64", "double"},       {"bf16", "bfloat16"},  {"float8e4m3", "f8e4m3"},
             {"fp8_e4m3", "f8e4m3"}, {"float8e5m2", "f8e5m2"}, {"fp8_e5m2", "f8e5m2"}};

static const struct {
    const char *name;
    hoop_op op;
} ops[PERF_OPS] = {{"sum", HOOP_SUM}, {"prod", HOOP_PROD}, {"max", HOOP_MAX}, {"min", HOOP_MIN},
                   {"avg", HOOP_AVG}, {"band", HOOP_BAND}, {"bor", HOOP_BOR}, {"bxor", HOOP_BXOR}};

const perf_type *
perf_type_at(int index)
{
    return index >= 0 && index < PERF_TYPES ? &types[index] : NULL;
}

int
perf_type_named(const char *name)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i].other) == 0)
            name = names[i].name;
    for (int i = 0; i < PERF_TYPES; i++)
        if (strcmp(name, types[i].name) == 0)
            return i;
    return -1;
}

hoop_op
perf_op_at(int index)
{
    return ops[index].op;
}

const char *
perf_op_name(int index)
{
    return index >= 0 && index < PERF_OPS ? ops[index].name : "none";
}

int
perf_op_applies(int op, const perf_type *type)
{
    if (perf_op_at(op) >= HOOP_BAND)
        return type->kind != PERF_FLOAT;
    return perf_op_at(op) != HOOP_AVG || type->kind != PERF_BOOL;
}

int
perf_op_named(const char *name)
{
    for (int i = 0; i < PERF_OPS; i++)
        if (strcmp(name, ops[i].name) == 0)
            return i;
    return -1;
}

void
perf_put_integer(const perf_type *type, void *element, uint64_t value)
{
    for (size_t i = 0; i < type->size; i++) /* little-endian, as the wire and all supported hosts are */
        ((uint8_t *)element)[i] = (uint8_t)(value >> (8 * i));
}

/* Bits of a 16- or 8-bit float: the number is fraction * 2^(exponent - fraction_bits), its top bit left out. */
static uint64_t
small_float_bits(const perf_type *type, double value)
{
    int bias = (1 << (type->exponent_bits - 1)) - 1, exponent;
    uint64_t sign = signbit(value) ? UINT64_C(1) << (type->exponent_bits + type->fraction_bits) : 0;
    frexp(value, &exponent); /* value = 0.5 to 1 times 2^exponent */
    exponent = exponent - 1 < 1 - bias || value == 0 ? 1 - bias : exponent - 1;
    double fraction = nearbyint(ldexp(fabs(value), type->fraction_bits - exponent));
    /* A subnormal has no top bit and exponent field 0; rounding up to the next power carries into the field by itself.
     */
    uint64_t field = (uint64_t)(exponent + bias - 1) << type->fraction_bits;
    return sign | (field + (uint64_t)fraction);
}

void
perf_put_float(const perf_type *type, void *element, double value)
{
    float single = (float)value;
    if (type->dtype == HOOP_FLOAT64)
        memcpy(element, &value, sizeof(value));
    else if (type->dtype == HOOP_FLOAT32)
        memcpy(element, &single, sizeof(single));
    else
        perf_put_integer(type, element, small_float_bits(type, value));
}

int
perf_type_is_small(const perf_type *type)
{
    return type->kind == PERF_FLOAT && type->size <= 2;
}

/* The sign's bit; below it numbers are in their order. */
static int
sign_of(const perf_type *type)
{
    return 1 << (8 * type->size - 1);
}

int
perf_order(const perf_type *type, const void *element)
{
    const uint8_t *bytes = element;
    int code = type->size == 2 ? bytes[0] | bytes[1] << 8 : bytes[0], sign = sign_of(type);
    return code & sign ? -(code - sign) : code;
}

void
perf_put_order(const perf_type *type, void *element, int order)
{
    perf_put_integer(type, element, (uint64_t)(order < 0 ? sign_of(type) - order : order));
}

double
perf_value_at(const perf_type *type, int order)
{
    int code = order < 0 ? -order : order, bias = (1 << (type->exponent_bits - 1)) - 1;
    int exponent = code >> type->fraction_bits, fraction = code & ((1 << type->fraction_bits) - 1);
    if (exponent > 0)
        fraction |= 1 << type->fraction_bits;
    else
        exponent = 1;
    double value = ldexp(fraction, exponent - bias - type->fraction_bits);
    return order < 0 ? -value : value;
}

int
perf_order_of_nan(const perf_type *type)
{
    return sign_of(type) - 1;
}

int
perf_order_of_infinity(const perf_type *type)
{
    return type->dtype == HOOP_FLOAT8E4M3 ? 0 : ((1 << type->exponent_bits) - 1) << type->fraction_bits;
}

int
perf_order_of_largest(const perf_type *type)
{
    return (type->dtype == HOOP_FLOAT8E4M3 ? perf_order_of_nan(type) : perf_order_of_infinity(type)) - 1;
}
