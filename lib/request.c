/* SPDX-License-Identifier: MIT */
/* request: see request.h. */
#include "lib/request.h"

#include "base/dtype.h"
#include "base/err.h"
#include "base/mem.h"
#include "lib/blocks.h"
#include "lib/plan.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { NAME = 48 };
enum { OPTIONS_MOST = 4096 }; /* bytes that options may have: more is no size, but a struct that was not filled */

/* What a call does with its buffers on this rank, in bytes. */
typedef struct extent {
    size_t send, recv;             /* 0: the buffer is not used */
    size_t shift_send, shift_recv; /* in place means send + shift_send == recv + shift_recv */
} extent;

/* "hoop_ireduce: " */
static size_t
print_name(hp_form form, int kind, char out[NAME])
{
    static const char *const ends[HP_FORMS] = {[HP_FORM_I_WITH] = "_with", [HP_FORM_ON_STREAM] = "_on_stream"};
    int is_i = form == HP_FORM_I || form == HP_FORM_I_WITH;
    return (size_t)snprintf(out, NAME, "hoop_%s%s%s: ", is_i ? "i" : "", hp_kind_name(kind),
                            ends[form] ? ends[form] : "");
}

void
hp_form_name(hp_form form, int kind, hoop_error *error)
{
    char name[NAME];
    hoop_error bare = *error;
    print_name(form, kind, name);
    hp_err_set(error, bare.code, "%s%.200s", name, bare.text);
}

const char *
hp_form_skip(int kind, const char *text)
{
    char name[NAME];
    for (hp_form form = 0; form < HP_FORMS; form++) {
        size_t n = print_name(form, kind, name);
        if (strncmp(text, name, n) == 0)
            return text + n;
    }
    return text;
}

static hoop_result
refuse(hoop_error *error, const char *what)
{
    return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "%s", what);
}

static extent
extent_of_blocks(const hp_request *r, int rank, size_t elem)
{
    size_t own = r->counts[rank] * elem, all = (size_t)r->call.count * elem;
    /* Elements before a rank's block in the larger array. */
    size_t at = r->displs ? r->displs[rank] : 0;
    for (int i = 0; i < rank && !r->displs; i++)
        at += r->counts[i];
    size_t mine = own ? at * elem : 0;
    return r->call.kind == HP_ALLGATHERV ? (extent){own, all, 0, mine} : (extent){all, own, mine, 0};
}

static extent
extent_of(const hp_request *r, int rank, int size, size_t elem)
{
    if (hp_kind_has_counts(r->call.kind))
        return extent_of_blocks(r, rank, elem);
    size_t block = (size_t)r->call.count * elem, all = block * (size_t)size, mine = block * (size_t)rank;
    int root = r->call.root == rank;
    switch ((hp_kind)r->call.kind) {
    case HP_ALLREDUCE: return (extent){block, block, 0, 0};
    case HP_REDUCE_SCATTER: return (extent){all, block, mine, 0};
    case HP_ALLGATHER: return (extent){block, all, 0, mine};
    case HP_BROADCAST: return (extent){root ? block : 0, block, 0, 0};
    case HP_REDUCE: return (extent){block, root ? block : 0, 0, 0};
    case HP_GATHER: return (extent){block, root ? all : 0, 0, mine};
    case HP_SCATTER: return (extent){root ? all : 0, block, mine, 0};
    case HP_ALLTOALL: return (extent){all, all, 0, 0};
    default: return (extent){0};
    }
}

static hoop_result
check_op(const hp_request *r, hoop_error *error)
{
    hoop_dtype dtype = (hoop_dtype)r->call.dtype;
    hoop_op op = (hoop_op)r->call.op;
    if (!hp_op_is_valid(op))
        return refuse(error, "unknown op; see hoop_op in hoop.h");
    if (hp_op_applies(op, dtype))
        return HOOP_SUCCESS;
    if (dtype == HOOP_BOOL)
        return refuse(error, "a bool has no mean; to learn how many ranks have true, sum integers");
    return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "%s combines the bits of integers, and the elements are %s",
                      hp_op_name(op), hp_dtype_name(dtype));
}

/* elem: the bytes of an element, 0 for an unknown type. */
static hoop_result
check_numbers(const hp_request *r, size_t elem, int size, hoop_error *error)
{
    size_t bytes;
    int rooted = hp_kind_is_rooted(r->call.kind);
    if (elem == 0)
        return refuse(error, "unknown dtype; see hoop_dtype in hoop.h");
    if (hp_kind_reduces(r->call.kind) && check_op(r, error) != HOOP_SUCCESS)
        return error->code;
    if (rooted && (r->call.root < 0 || r->call.root >= size))
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "root %d is not a rank: the communicator has ranks 0 to %d",
                          r->call.root, size - 1);
    if (hp_kind_has_counts(r->call.kind))
        return HOOP_SUCCESS;
    if (!hp_mul(r->call.count, elem * (size_t)size, &bytes) || bytes > PTRDIFF_MAX)
        return refuse(error, "count times element size times ranks exceeds the address range");
    return HOOP_SUCCESS;
}

/* Each rank's count: the total and a checksum become the call's. */
static hoop_result
check_counts(hp_request *r, size_t elem, int rank, int size, hoop_error *error)
{
    if (!r->counts)
        return refuse(error, "recvcounts is NULL: it has the count of each rank");
    if (r->call.kind == HP_ALLGATHERV && r->call.count != r->counts[rank])
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "sendcount is %zu, but recvcounts[%d], the entry of this rank, is %zu", (size_t)r->call.count,
                          rank, r->counts[rank]);
    r->call.count = 0;
    for (int i = 0; i < size; i++) {
        size_t most = PTRDIFF_MAX / elem, count = r->counts[i], at = r->displs && count ? r->displs[i] : 0;
        if (count > most - r->call.count || at > most - count)
            return refuse(error, "recvcounts or displs, times element size, exceed the address range");
        r->call.count += count;
    }
    r->call.root = (int32_t)hp_blocks_checksum(r->counts, size);
    return HOOP_SUCCESS;
}

/* Whether the buffers share memory; gaps between blocks are no part of the larger one. */
static int
share_memory(const hp_request *r, const extent *e, int size, size_t elem)
{
    int gathers = r->call.kind == HP_ALLGATHERV, share = 0;
    const char *large = gathers ? r->recv : r->send;
    if (!r->displs)
        return hp_overlap(r->send, e->send, r->recv, e->recv);
    for (int i = 0; i < size && !share; i++)
        share = r->counts[i] && hp_overlap(gathers ? r->send : r->recv, gathers ? e->send : e->recv,
                                           large + r->displs[i] * elem, r->counts[i] * elem);
    return share;
}

static int
misaligned(const void *ptr, size_t elem)
{
    return (uintptr_t)ptr % elem != 0;
}

/* A program that was built with a later hoop.h may set more than this version knows; as long as it is 0 it says nothing. */
static hoop_result
check_options(const hp_request *r, hoop_error *error)
{
    const uint8_t *bytes = (const uint8_t *)r->options;
    if (!r->options)
        return HOOP_SUCCESS;
    if (r->options->size < sizeof(r->options->size) || r->options->size > OPTIONS_MOST)
        return refuse(error, "options->size must be sizeof(hoop_call_options)");
    size_t size = r->options->size;
    if (size < sizeof(hoop_call_options) && size != offsetof(hoop_call_options, order) &&
        size != offsetof(hoop_call_options, wire) && size != offsetof(hoop_call_options, residual))
        return refuse(error, "options->size ends in the middle of an option");
    for (size_t i = sizeof(hoop_call_options); i < r->options->size; i++)
        if (bytes[i])
            return hp_err_set(error, HOOP_ERR_UNSUPPORTED,
                              "byte %zu of the options is not 0, but this version (%s) knows no such option", i,
                              PACKAGE_VERSION);
    return HOOP_SUCCESS;
}

/* Integers and bools are the same in any order, and so is the data of one rank. */
static hoop_result
check_order(hp_request *r, int size, hoop_error *error)
{
    hoop_order order = HOOP_ORDER_SETTING;
    if (r->options && r->options->size >= offsetof(hoop_call_options, order) + sizeof(order))
        order = r->options->order;
    if ((unsigned)order > HOOP_ORDER_HOST)
        return refuse(error, "unknown options->order; see hoop_order in hoop.h");
    if (order == HOOP_ORDER_SETTING)
        order = r->order;
    if (order >= HOOP_ORDER_RANK && size > 1 && hp_kind_reduces(r->call.kind) &&
        hp_dtype_is_float((hoop_dtype)r->call.dtype))
        r->call.ordered = order == HOOP_ORDER_RANK ? HP_ORDER_RANK : HP_ORDER_HOST;
    if (!r->call.ordered || size <= HP_ORDERED_MOST)
        return HOOP_SUCCESS;
    return hp_err_set(error, HOOP_ERR_UNSUPPORTED,
                      "a reduction in the order of ranks or hosts (setting order) is for at most %d ranks, and the "
                      "communicator has %d",
                      HP_ORDERED_MOST, size);
}

/*
 * Sums and means of float32. The setting leaves all else as it is; an option that asks for what cannot be is an error. Who
 * owns a part has room for the parts of so many ranks.
 */
static hoop_result
check_wire(hp_request *r, int size, hoop_error *error)
{
    hoop_wire wire = HOOP_WIRE_SETTING;
    int fits =
        (r->call.kind == HP_ALLREDUCE || r->call.kind == HP_REDUCE_SCATTER || r->call.kind == HP_REDUCE_SCATTERV) &&
        r->call.dtype == HOOP_FLOAT32 && (r->call.op == HOOP_SUM || r->call.op == HOOP_AVG);
    if (r->options && r->options->size >= offsetof(hoop_call_options, wire) + sizeof(wire))
        wire = r->options->wire;
    if ((unsigned)wire > HOOP_WIRE_E4M3)
        return refuse(error, "unknown options->wire; see hoop_wire in hoop.h");
    if (wire > HOOP_WIRE_FLOAT32 && !fits)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "options->wire is for sums and means of float32, and this is a %s of %s",
                          hp_op_name((hoop_op)r->call.op), hp_dtype_name((hoop_dtype)r->call.dtype));
    if (wire == HOOP_WIRE_SETTING)
        wire = r->wire;
    if (r->options && r->options->size >= sizeof(hoop_call_options) && r->options->residual)
        r->residual = r->options->residual;
    if (r->residual && (wire <= HOOP_WIRE_FLOAT32 || !fits))
        return refuse(
            error, "options->residual is for sums and means of float32 that travel narrower: by options->wire, or the "
                   "setting wire_dtype");
    if (r->residual && r->options->residual_count != r->call.count)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "options->residual has %zu elements, and the arrays have %llu", r->options->residual_count,
                          (unsigned long long)r->call.count);
    r->call.wire = wire > HOOP_WIRE_FLOAT32 && fits && size > 1 ? (uint8_t)wire : 0;
    if (!r->call.wire || r->in_memory || size <= HP_ORDERED_MOST)
        return HOOP_SUCCESS;
    return hp_err_set(
        error, HOOP_ERR_UNSUPPORTED,
        "a narrower type on the wire (setting wire_dtype) is for at most %d ranks, and the communicator has "
        "%d",
        HP_ORDERED_MOST, size);
}

static hoop_result
check(hp_request *r, int rank, int size, hoop_error *error)
{
    size_t elem = hoop_dtype_size((hoop_dtype)r->call.dtype);
    hoop_result result = check_numbers(r, elem, size, error);
    if (result == HOOP_SUCCESS)
        result = check_options(r, error);
    if (result == HOOP_SUCCESS)
        result = check_order(r, size, error);
    if (result == HOOP_SUCCESS)
        result = check_wire(r, size, error);
    if (result == HOOP_SUCCESS && hp_kind_has_counts(r->call.kind))
        result = check_counts(r, elem, rank, size, error);
    if (result != HOOP_SUCCESS)
        return result;
    extent e = extent_of(r, rank, size, elem);
    if (e.send && !r->send)
        return refuse(error, "sendbuf is NULL");
    if (e.recv && !r->recv)
        return refuse(error, "recvbuf is NULL");
    if ((e.send && misaligned(r->send, elem)) || (e.recv && misaligned(r->recv, elem)) ||
        (e.send && misaligned(r->residual, elem)))
        return refuse(error, "a buffer is not aligned to its elements");
    if (r->residual &&
        (hp_overlap(r->residual, e.send, r->send, e.send) || hp_overlap(r->residual, e.recv, r->recv, e.recv)))
        return refuse(error, "options->residual overlaps another buffer");
    if (!e.send || !e.recv)
        return HOOP_SUCCESS;
    r->in_place = (const char *)r->send + e.shift_send == (const char *)r->recv + e.shift_recv;
    if (!r->in_place && share_memory(r, &e, size, elem))
        return refuse(error, "sendbuf and recvbuf overlap, and this is no in-place form; hoop_allreduce(3) lists them");
    return HOOP_SUCCESS;
}

/* --- messages --- */

static hoop_result
check_message(const hp_request *r, int size, hoop_error *error)
{
    size_t elem = hoop_dtype_size((hoop_dtype)r->call.dtype), bytes;
    const void *buffer = r->call.kind == HP_SEND ? r->send : r->recv;
    int any = r->peer == HOOP_ANY_RANK && r->call.kind == HP_RECV;
    if (any && r->form == HP_FORM_ON_STREAM)
        return hp_err_set(error, HOOP_ERR_UNSUPPORTED,
                          "a receive from any rank in the order of a stream: nothing could tell whose message came; "
                          "name the rank, or use hoop_irecv");
    if (!any && (r->peer < 0 || r->peer >= size))
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "peer %d is not a rank: the communicator has ranks 0 to %d",
                          r->peer, size - 1);
    if (r->call.root < 0)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "tag %d is negative: tags are 0 to %d", r->call.root,
                          INT32_MAX);
    if (elem == 0)
        return refuse(error, "unknown dtype; see hoop_dtype in hoop.h");
    if (!hp_mul(r->call.count, elem, &bytes) || bytes > PTRDIFF_MAX)
        return refuse(error, "count times element size exceeds the address range");
    if (bytes && !buffer)
        return refuse(error, r->call.kind == HP_SEND ? "sendbuf is NULL" : "recvbuf is NULL");
    if (bytes && misaligned(buffer, elem))
        return refuse(error, "the buffer is not aligned to its elements");
    return HOOP_SUCCESS;
}

/* One side of an alltoallv. */
typedef struct alltoallv_side {
    const void *buffer;
    const size_t *counts, *displs; /* displs NULL: one after the other */
    const char *buffer_name, *counts_name;
} alltoallv_side;

/* *bytes: the bytes from the buffer's beginning to the end of its last block. */
static hoop_result
check_side(const alltoallv_side *b, size_t elem, int size, size_t *bytes, hoop_error *error)
{
    size_t next = 0;
    *bytes = 0;
    if (!b->counts)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "%s is NULL", b->counts_name);
    for (int rank = 0; rank < size; rank++) {
        size_t at = b->displs && b->counts[rank] ? b->displs[rank] : next, end; /* an empty block has no place */
        if (b->counts[rank] > PTRDIFF_MAX || at > PTRDIFF_MAX || !hp_mul(at + b->counts[rank], elem, &end) ||
            end > PTRDIFF_MAX)
            return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "the block of rank %d in %s exceeds the address range",
                              rank, b->buffer_name);
        next = at + b->counts[rank];
        if (b->counts[rank] && end > *bytes)
            *bytes = end;
    }
    if (*bytes > 0 && !b->buffer)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "%s is NULL", b->buffer_name);
    if (*bytes > 0 && misaligned(b->buffer, elem))
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "%s is not aligned to its elements", b->buffer_name);
    return HOOP_SUCCESS;
}

static hoop_result
check_alltoallv(const hp_request *r, int rank, int size, hoop_error *error)
{
    const alltoallv_side send = {r->send, r->send_counts, r->send_displs, "sendbuf", "sendcounts"};
    const alltoallv_side recv = {r->recv, r->counts, r->displs, "recvbuf", "recvcounts"};
    size_t elem = hoop_dtype_size((hoop_dtype)r->call.dtype), sent, received;
    if (elem == 0)
        return refuse(error, "unknown dtype; see hoop_dtype in hoop.h");
    hoop_result result = check_side(&send, elem, size, &sent, error);
    if (result == HOOP_SUCCESS)
        result = check_side(&recv, elem, size, &received, error);
    if (result != HOOP_SUCCESS)
        return result;
    if (r->send_counts[rank] != r->counts[rank])
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "rank %d sends itself %zu elements, but receives %zu from itself", rank, r->send_counts[rank],
                          r->counts[rank]);
    if (hp_overlap(r->send, sent, r->recv, received))
        return refuse(error, "sendbuf and recvbuf overlap; there is no in-place form");
    return HOOP_SUCCESS;
}

hoop_result
hp_request_check(hp_request *r, int rank, int size, hoop_error *error)
{
    hoop_result result = r->call.kind == HP_ALLTOALLV       ? check_alltoallv(r, rank, size, error)
                         : hp_kind_is_message(r->call.kind) ? check_message(r, size, error)
                                                            : check(r, rank, size, error);
    if (result != HOOP_SUCCESS)
        hp_form_name(r->form, r->call.kind, error);
    return result;
}
