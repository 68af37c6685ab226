/* SPDX-License-Identifier: MIT */
/* request: see request.h. */
#include "lib/request.h"

#include "base/dtype.h"
#include "base/err.h"
#include "base/mem.h"

/* What a call does with its buffers on this rank, in bytes. */
typedef struct extent {
    size_t send, recv;             /* 0: the buffer is not used */
    size_t shift_send, shift_recv; /* in place means send + shift_send == recv + shift_recv */
} extent;

static hoop_result
refuse(const hp_request *r, hoop_error *error, const char *what)
{
    return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "hoop_%s: %s", hp_kind_name(r->call.kind), what);
}

static extent
extent_of(const hp_call *call, int rank, int size, size_t block)
{
    size_t all = block * (size_t)size, mine = block * (size_t)rank;
    int root = call->root == rank;
    switch ((hp_kind)call->kind) {
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

/* elem: the bytes of an element, 0 for an unknown type. */
static hoop_result
check_numbers(const hp_request *r, size_t elem, int size, hoop_error *error)
{
    size_t bytes;
    int reduces = r->call.kind == HP_ALLREDUCE || r->call.kind == HP_REDUCE_SCATTER || r->call.kind == HP_REDUCE;
    int rooted = hp_kind_is_rooted(r->call.kind);
    if (elem == 0)
        return refuse(r, error, "unknown dtype; see hoop_dtype in hoop.h");
    if (reduces && r->call.op >= HP_OPS)
        return refuse(r, error, "unknown op; see hoop_op in hoop.h");
    if (rooted && (r->call.root < 0 || r->call.root >= size))
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "hoop_%s: root %d is not a rank: the communicator has ranks 0 to %d",
                          hp_kind_name(r->call.kind), r->call.root, size - 1);
    if (!hp_mul(r->call.count, elem * (size_t)size, &bytes) || bytes > PTRDIFF_MAX)
        return refuse(r, error, "count times element size times ranks exceeds the address range");
    return HOOP_SUCCESS;
}

static int
misaligned(const void *ptr, size_t elem)
{
    return (uintptr_t)ptr % elem != 0;
}

hoop_result
hp_request_check(hp_request *r, int rank, int size, hoop_error *error)
{
    size_t elem = hoop_dtype_size((hoop_dtype)r->call.dtype);
    hoop_result result = check_numbers(r, elem, size, error);
    if (result != HOOP_SUCCESS)
        return result;
    extent e = extent_of(&r->call, rank, size, (size_t)r->call.count * elem);
    if (e.send && !r->send)
        return refuse(r, error, "sendbuf is NULL");
    if (e.recv && !r->recv)
        return refuse(r, error, "recvbuf is NULL");
    if ((e.send && misaligned(r->send, elem)) || (e.recv && misaligned(r->recv, elem)))
        return refuse(r, error, "a buffer is not aligned to its elements");
    if (!e.send || !e.recv)
        return HOOP_SUCCESS;
    r->in_place = (const char *)r->send + e.shift_send == (const char *)r->recv + e.shift_recv;
    if (!r->in_place && hp_overlap(r->send, e.send, r->recv, e.recv))
        return refuse(r, error, "sendbuf and recvbuf overlap without being the in-place form; see hoop(3)");
    return HOOP_SUCCESS;
}
