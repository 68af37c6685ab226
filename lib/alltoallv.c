/* SPDX-License-Identifier: MIT */
/*
 * alltoallv: each rank sends a block of its own size to each rank: n receives and n sends, this rank's own block among
 * them. The counts need not be agreed: each block is a message whose count is compared where it arrives.
 */
#include "base/dtype.h"
#include "base/err.h"
#include "base/mem.h"
#include "gpu/gpu.h"
#include "lib/comm.h"
#include "lib/message_call.h"

typedef struct blocks {
    const void *buffer;
    const size_t *counts, *displs; /* displs NULL: one after the other */
    const char *buffer_name, *counts_name;
    int on_device;
} blocks;

typedef struct blocks_args {
    blocks send, recv;
    hp_call call;
    size_t elem;
    int device;
} blocks_args;

static blocks_args
request_of(const void *sendbuf, void *recvbuf, const size_t *sendcounts, const size_t *senddispls,
           const size_t *recvcounts, const size_t *recvdispls, hoop_dtype dtype)
{
    blocks_args r = {.call = {.kind = HP_ALLTOALLV, .op = HOOP_SUM, .root = -1}, .elem = hoop_dtype_size(dtype)};
    r.call.dtype = (unsigned)dtype < 255 ? (uint8_t)dtype : 255;
    r.send = (blocks){sendbuf, sendcounts, senddispls, "sendbuf", "sendcounts", 0};
    r.recv = (blocks){recvbuf, recvcounts, recvdispls, "recvbuf", "recvcounts", 0};
    return r;
}

/* --- arguments --- */

/* The bytes from the buffer's beginning to the end of its last block. */
static hoop_result
extent_of(const blocks *b, size_t elem, int size, size_t *extent, hoop_error *error)
{
    size_t next = 0;
    *extent = 0;
    for (int rank = 0; rank < size; rank++) {
        size_t at = b->displs && b->counts[rank] ? b->displs[rank] : next, end; /* an empty block has no place */
        if (b->counts[rank] > PTRDIFF_MAX || at > PTRDIFF_MAX || !hp_mul(at + b->counts[rank], elem, &end) ||
            end > PTRDIFF_MAX)
            return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "the block of rank %d in %s exceeds the address range",
                              rank, b->buffer_name);
        next = at + b->counts[rank];
        if (b->counts[rank] && end > *extent)
            *extent = end;
    }
    return HOOP_SUCCESS;
}

static hoop_result
check_blocks(const blocks *b, size_t elem, int size, size_t *extent, hoop_error *error)
{
    if (!b->counts)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "%s is NULL", b->counts_name);
    hoop_result result = extent_of(b, elem, size, extent, error);
    if (result != HOOP_SUCCESS || *extent == 0)
        return result;
    if (!b->buffer)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "%s is NULL", b->buffer_name);
    if ((uintptr_t)b->buffer % elem != 0)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "%s is not aligned to its elements", b->buffer_name);
    return HOOP_SUCCESS;
}

static hoop_result
check_arguments(const blocks_args *r, int rank, int size, hoop_error *error)
{
    size_t sent, received;
    if (r->elem == 0)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "unknown dtype; see hoop_dtype in hoop.h");
    hoop_result result = check_blocks(&r->send, r->elem, size, &sent, error);
    if (result == HOOP_SUCCESS)
        result = check_blocks(&r->recv, r->elem, size, &received, error);
    if (result != HOOP_SUCCESS)
        return result;
    if (r->send.counts[rank] != r->recv.counts[rank])
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "rank %d sends itself %zu elements, but receives %zu from itself", rank, r->send.counts[rank],
                          r->recv.counts[rank]);
    if (hp_overlap(r->send.buffer, sent, r->recv.buffer, received))
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "sendbuf and recvbuf overlap; there is no in-place form");
    return HOOP_SUCCESS;
}

static int
is_on_device(const void *buffer)
{
    return buffer && hp_device_of(buffer) != &hp_host_ops;
}

static hoop_result
check(hoop_comm *comm, blocks_args *r, hp_form form)
{
    hoop_error error;
    hoop_result result = hp_entry_check(comm);
    if (result != HOOP_SUCCESS)
        return result;
    hp_name_call(comm, &r->call);
    if (check_arguments(r, comm->rank, comm->size, &error) != HOOP_SUCCESS) {
        hp_form_name(form, HP_ALLTOALLV, &error);
        return hp_entry_fail(comm, &error);
    }
    result = hp_message_call_device(comm, r->send.buffer, r->recv.buffer, &r->device);
    if (result != HOOP_SUCCESS || r->device == 0)
        return result;
    r->send.on_device = is_on_device(r->send.buffer);
    r->recv.on_device = is_on_device(r->recv.buffer);
    return HOOP_SUCCESS;
}

/* --- messages --- */

/* Fills one message for each rank. `number` tells apart the alltoallvs of a group. */
static void
fill(hp_message *messages, const blocks_args *r, int sending, int size, int number)
{
    const blocks *b = sending ? &r->send : &r->recv;
    size_t next = 0;
    for (int rank = 0; rank < size; rank++) {
        size_t at = b->displs ? b->displs[rank] : next;
        hp_message *m = &messages[rank];
        m->peer = rank;
        m->sending = sending;
        m->call = r->call;
        m->call.root = number;
        m->call.count = b->counts[rank];
        m->bytes = b->counts[rank] * r->elem;
        m->on_device = b->on_device && m->bytes > 0;
        m->data = m->bytes ? (uint8_t *)(uintptr_t)b->buffer + at * r->elem : NULL;
        next = at + b->counts[rank];
    }
}

/* Receives first, so that most blocks find theirs. */
static int
join(hoop_work *work, const void *arg)
{
    const blocks_args *r = arg;
    int size = work->comm->size;
    hp_message *first = hp_work_pool_add_messages(work, 2 * (size_t)size);
    if (!first)
        return 0;
    fill(first, r, 0, size, work->alltoallvs);
    fill(first + size, r, 1, size, work->alltoallvs);
    work->alltoallvs++;
    work->device = r->device > work->device ? r->device : work->device;
    return 1;
}

static hoop_work *
make(hoop_comm *comm, const void *arg)
{
    const blocks_args *r = arg;
    hoop_work *work = hp_work_pool_make_messages(comm, &r->call);
    if (!work || join(work, r))
        return work;
    hp_work_pool_give(comm, work);
    return NULL;
}

static const hp_message_call calls = {.make = make, .join = join};

/* --- public --- */

hoop_result
hoop_alltoallv(const void *sendbuf, void *recvbuf, const size_t *sendcounts, const size_t *senddispls,
               const size_t *recvcounts, const size_t *recvdispls, hoop_dtype dtype, hoop_comm *comm)
{
    blocks_args r = request_of(sendbuf, recvbuf, sendcounts, senddispls, recvcounts, recvdispls, dtype);
    return hp_message_call_run(comm, &calls, &r.call, &r, check(comm, &r, HP_FORM_BLOCKING));
}

hoop_result
hoop_ialltoallv(const void *sendbuf, void *recvbuf, const size_t *sendcounts, const size_t *senddispls,
                const size_t *recvcounts, const size_t *recvdispls, hoop_dtype dtype, hoop_comm *comm, hoop_work **work)
{
    blocks_args r = request_of(sendbuf, recvbuf, sendcounts, senddispls, recvcounts, recvdispls, dtype);
    return hp_message_call_start(comm, &calls, &r, check(comm, &r, HP_FORM_I), work);
}

hoop_result
hoop_alltoallv_on_stream(const void *sendbuf, void *recvbuf, const size_t *sendcounts, const size_t *senddispls,
                         const size_t *recvcounts, const size_t *recvdispls, hoop_dtype dtype, hoop_comm *comm,
                         void *cuda_stream)
{
    blocks_args r = request_of(sendbuf, recvbuf, sendcounts, senddispls, recvcounts, recvdispls, dtype);
    return hp_message_call_on_stream(comm, &calls, &r, check(comm, &r, HP_FORM_ON_STREAM), sendbuf, recvbuf,
                                     cuda_stream);
}
