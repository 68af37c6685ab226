/* SPDX-License-Identifier: MIT */
/*
 * calls: the public collectives and messages in their three forms. Each form is one function here (run, start,
 * start_on_stream); each public function only fills in its call. Other ranks learn nothing of a message that was refused.
 */
#include "base/dtype.h"
#include "base/err.h"
#include "lib/comm.h"
#include "lib/devices.h"
#include "lib/entry.h"
#include "lib/group.h"
#include "lib/progress.h"
#include "lib/request.h"
#include "lib/works.h"

#include <stdio.h>
#include <string.h>

/* The call as the ranks must agree on it. */
static hp_request
request_of(hp_kind kind, const void *send, void *recv, size_t count, hoop_dtype dtype, hoop_op op, int root)
{
    hp_request r = {.send = send, .recv = recv};
    r.call.kind = (uint8_t)kind;
    /* an enum from a caller may hold anything: what does not fit its bits is as unknown as the greatest that does */
    r.call.dtype = (unsigned)dtype < 127 ? (uint8_t)dtype : 127;
    r.call.op = (unsigned)op < 127 ? (uint8_t)op : 127;
    r.call.root = root;
    r.call.count = count;
    return r;
}

/* Likewise, of a call whose ranks have counts of their own. sendcount: of an allgatherv, else 0. */
static hp_request
request_of_blocks(hp_kind kind, const void *send, void *recv, size_t sendcount, const size_t *counts,
                  const size_t *displs, hoop_dtype dtype, hoop_op op)
{
    hp_request r = request_of(kind, send, recv, sendcount, dtype, op, -1);
    r.counts = counts;
    r.displs = displs;
    return r;
}

static hp_request
request_of_message(hp_kind kind, const void *send, void *recv, size_t count, hoop_dtype dtype, int peer, int tag)
{
    hp_request r = request_of(kind, send, recv, count, dtype, HOOP_SUM, tag);
    r.peer = peer;
    return r;
}

static hp_request
request_of_alltoallv(const void *send, void *recv, const size_t *sendcounts, const size_t *senddispls,
                     const size_t *recvcounts, const size_t *recvdispls, hoop_dtype dtype)
{
    hp_request r = request_of_blocks(HP_ALLTOALLV, send, recv, 0, recvcounts, recvdispls, dtype, HOOP_SUM);
    r.send_counts = sendcounts;
    r.send_displs = senddispls;
    return r;
}

/*
 * The index of the device whose memory a checked request names; -1 with this thread's error set, its code in *result.
 */
static int
device_of(hoop_comm *comm, const hp_request *request, hoop_result *result)
{
    hoop_error error;
    int device = hp_devices_of(comm, request->send, request->recv, &error);
    int left = device;
    if (device >= 0 && request->residual)
        left = hp_devices_of(comm, request->residual, request->residual, &error);
    device = left < 0 || left > device ? left : device;
    if (device < 0)
        *result = hp_entry_fail_start(comm, &error);
    return device;
}

/* A work made of a checked request on its device (see device_of); NULL likewise. */
static hoop_work *
make_work(hoop_comm *comm, const hp_request *request, int device, hoop_result *result)
{
    hoop_error error = {.size = sizeof(error)};
    hoop_work *work = device < 0 ? NULL : hp_work_pool_make(comm, request, device, &error);
    if (!work && device >= 0)
        *result = hp_entry_fail(comm, &error);
    return work;
}

/* A work that can be submitted: it has its place behind the GPU's default stream, and its plan. NULL likewise. */
static hoop_work *
make_ready(hoop_comm *comm, const hp_request *request, hoop_result *result)
{
    int device = device_of(comm, request, result);
    hoop_work *work = make_work(comm, request, device, result);
    if (!work)
        return NULL;
    *result = device > 0 ? hp_entry_order(comm, work) : HOOP_SUCCESS;
    if (*result != HOOP_SUCCESS)
        return NULL;
    if (!work->messages)
        hp_work_pool_plan(comm, work);
    return work;
}

static hoop_result
check(hoop_comm *comm, hp_request *request)
{
    hoop_error error;
    hoop_result result = hp_entry_check(comm);
    if (!comm || result != HOOP_SUCCESS)
        return result;
    hp_name_call(comm, &request->call);
    request->order = HOOP_ORDER_AUTO + (hoop_order)hp_config_number(&comm->config, HP_SET_order);
    request->wire = HOOP_WIRE_FLOAT32 + (hoop_wire)hp_config_number(&comm->config, HP_SET_wire_dtype);
    request->in_memory = comm->plan.in_memory;
    result = hp_request_check(request, comm->rank, comm->size, &error);
    return result == HOOP_SUCCESS ? result : hp_entry_fail(comm, &error);
}

/* Programs call thousands of small allreduces in a group: nothing is allocated for one that joins an earlier one. */
static hoop_result
queue_in_group(hoop_comm *comm, const hp_request *request)
{
    hoop_result result;
    hoop_work *work;
    int device = device_of(comm, request, &result);
    int joined = device < 0 ? 0 : hp_group_join(comm, request, device);
    if (joined > 0)
        return HOOP_SUCCESS;
    if (joined < 0) {
        hp_entry_refuse(comm, HOOP_ERR_NO_MEMORY,
                        hp_kind_is_message(request->call.kind) ? "out of memory for a message"
                                                               : "out of memory for a group's fused operation");
        return hp_group_spoil(comm, &request->call);
    }
    work = make_work(comm, request, device, &result);
    if (!work)
        return hp_group_spoil(comm, &request->call);
    hp_group_add(work);
    return HOOP_SUCCESS;
}

/* A blocking send to oneself must not wait for a receive that this thread cannot call meanwhile. */
static hoop_result
check_self(const hoop_comm *comm, const hp_request *r)
{
    hoop_error error;
    if (r->call.kind != HP_SEND || r->peer != comm->rank ||
        r->call.count * hp_dtype_size((hoop_dtype)r->call.dtype) <= HP_EAGER_MOST)
        return HOOP_SUCCESS;
    hp_err_set(&error, HOOP_ERR_INVALID_ARGUMENT,
               "hoop_send: more than %d bytes to oneself wait for their receive, which this call keeps from being "
               "called; use hoop_isend, or a group",
               HP_EAGER_MOST);
    return hp_entry_fail(comm, &error);
}

/*
 * Blocking form. By address: passed by value the request would be copied before its bytes have left the CPU's stores.
 */
static hoop_result
run(hoop_comm *comm, hp_request *request)
{
    hoop_result result = check(comm, request);
    const hoop_comm *group = hp_group_open();
    if (comm && comm == group)
        return result == HOOP_SUCCESS ? queue_in_group(comm, request) : hp_group_spoil(comm, &request->call);
    if (result != HOOP_SUCCESS)
        return hp_entry_unstarted(comm, &request->call, result);
    int message = hp_kind_is_message(request->call.kind);
    if (group)
        return hp_entry_refuse(comm, HOOP_ERR_INVALID_USAGE,
                               message ? "a message of another communicator inside a group"
                                       : "a collective of another communicator inside a group");
    if (check_self(comm, request) != HOOP_SUCCESS)
        return HOOP_ERR_INVALID_ARGUMENT;
    if (hp_entry_may_wait(comm, message ? "a blocking send or receive" : "a blocking collective") != HOOP_SUCCESS)
        return HOOP_ERR_INVALID_USAGE;
    hp_progress_enter(comm);
    hoop_work *work = make_ready(comm, request, &result);
    if (!work) {
        hp_progress_leave(comm);
        return hp_entry_unstarted(comm, &request->call, result);
    }
    result = hp_entry_wait_call(comm, work) == HOOP_SUCCESS ? HOOP_SUCCESS : hp_entry_check(comm);
    hp_progress_leave(comm);
    if (message)
        hp_entry_note_received(work);
    hp_work_pool_give(comm, work);
    return result;
}

/* Non-blocking form. */
static hoop_result
start(hoop_comm *comm, hp_request request, hoop_work **out)
{
    if (out)
        *out = NULL;
    request.form = request.form ? request.form : HP_FORM_I;
    hoop_result result = check(comm, &request);
    if (result == HOOP_SUCCESS && hp_group_open())
        return hp_entry_refuse(comm, HOOP_ERR_INVALID_USAGE,
                               "a non-blocking call inside a group: use the blocking form there, it is only queued");
    if (result == HOOP_SUCCESS && !out)
        result = hp_entry_refuse(comm, HOOP_ERR_INVALID_ARGUMENT, "work is NULL: pass a pointer for the handle");
    if (result != HOOP_SUCCESS)
        return hp_group_open() ? result : hp_entry_unstarted(comm, &request.call, result);
    hoop_work *work = make_ready(comm, &request, &result);
    if (!work)
        return hp_entry_unstarted(comm, &request.call, result);
    hp_progress_submit(comm, work, work, 0);
    *out = work;
    return HOOP_SUCCESS;
}

/* Stream-ordered form: returns at once; there is no handle. */
static hoop_result
start_on_stream(hoop_comm *comm, hp_request request, void *stream)
{
    hoop_work *work;
    request.form = HP_FORM_ON_STREAM;
    hoop_result result = check(comm, &request);
    if (result != HOOP_SUCCESS)
        return hp_group_open() ? result : hp_entry_unstarted(comm, &request.call, result);
    if (hp_group_open())
        return hp_entry_refuse(comm, HOOP_ERR_INVALID_USAGE, "a stream-ordered call inside a group");
    work = make_work(comm, &request, device_of(comm, &request, &result), &result);
    if (!work)
        return hp_entry_unstarted(comm, &request.call, result);
    result = hp_entry_on_stream(comm, work, request.send, request.recv, stream);
    if (result != HOOP_SUCCESS)
        return hp_entry_unstarted(comm, &request.call, result);
    if (!work->messages)
        hp_work_pool_plan(comm, work);
    hp_progress_submit(comm, work, work, 0);
    return HOOP_SUCCESS;
}

/* --- blocking --- */

hoop_result
hoop_allreduce(const void *sendbuf, void *recvbuf, size_t count, hoop_dtype dtype, hoop_op op, hoop_comm *comm)
{
    hp_request r = request_of(HP_ALLREDUCE, sendbuf, recvbuf, count, dtype, op, -1);
    return run(comm, &r);
}

hoop_result
hoop_reduce_scatter(const void *sendbuf, void *recvbuf, size_t recvcount, hoop_dtype dtype, hoop_op op, hoop_comm *comm)
{
    hp_request r = request_of(HP_REDUCE_SCATTER, sendbuf, recvbuf, recvcount, dtype, op, -1);
    return run(comm, &r);
}

hoop_result
hoop_allgather(const void *sendbuf, void *recvbuf, size_t sendcount, hoop_dtype dtype, hoop_comm *comm)
{
    hp_request r = request_of(HP_ALLGATHER, sendbuf, recvbuf, sendcount, dtype, HOOP_SUM, -1);
    return run(comm, &r);
}

hoop_result
hoop_broadcast(const void *sendbuf, void *recvbuf, size_t count, hoop_dtype dtype, int root, hoop_comm *comm)
{
    hp_request r = request_of(HP_BROADCAST, sendbuf, recvbuf, count, dtype, HOOP_SUM, root);
    return run(comm, &r);
}

hoop_result
hoop_reduce(const void *sendbuf, void *recvbuf, size_t count, hoop_dtype dtype, hoop_op op, int root, hoop_comm *comm)
{
    hp_request r = request_of(HP_REDUCE, sendbuf, recvbuf, count, dtype, op, root);
    return run(comm, &r);
}

hoop_result
hoop_gather(const void *sendbuf, void *recvbuf, size_t sendcount, hoop_dtype dtype, int root, hoop_comm *comm)
{
    hp_request r = request_of(HP_GATHER, sendbuf, recvbuf, sendcount, dtype, HOOP_SUM, root);
    return run(comm, &r);
}

hoop_result
hoop_scatter(const void *sendbuf, void *recvbuf, size_t recvcount, hoop_dtype dtype, int root, hoop_comm *comm)
{
    hp_request r = request_of(HP_SCATTER, sendbuf, recvbuf, recvcount, dtype, HOOP_SUM, root);
    return run(comm, &r);
}

hoop_result
hoop_alltoall(const void *sendbuf, void *recvbuf, size_t count, hoop_dtype dtype, hoop_comm *comm)
{
    hp_request r = request_of(HP_ALLTOALL, sendbuf, recvbuf, count, dtype, HOOP_SUM, -1);
    return run(comm, &r);
}

hoop_result
hoop_barrier(hoop_comm *comm)
{
    hp_request r = request_of(HP_BARRIER, NULL, NULL, 0, HOOP_UINT8, HOOP_SUM, -1);
    return run(comm, &r);
}

hoop_result
hoop_allgatherv(const void *sendbuf, void *recvbuf, size_t sendcount, const size_t *recvcounts, const size_t *displs,
                hoop_dtype dtype, hoop_comm *comm)
{
    hp_request r = request_of_blocks(HP_ALLGATHERV, sendbuf, recvbuf, sendcount, recvcounts, displs, dtype, HOOP_SUM);
    return run(comm, &r);
}

hoop_result
hoop_reduce_scatterv(const void *sendbuf, void *recvbuf, const size_t *recvcounts, const size_t *displs,
                     hoop_dtype dtype, hoop_op op, hoop_comm *comm)
{
    hp_request r = request_of_blocks(HP_REDUCE_SCATTERV, sendbuf, recvbuf, 0, recvcounts, displs, dtype, op);
    return run(comm, &r);
}

hoop_result
hoop_send(const void *sendbuf, size_t count, hoop_dtype dtype, int peer, int tag, hoop_comm *comm)
{
    hp_request r = request_of_message(HP_SEND, sendbuf, NULL, count, dtype, peer, tag);
    return run(comm, &r);
}

hoop_result
hoop_recv(void *recvbuf, size_t count, hoop_dtype dtype, int peer, int tag, hoop_comm *comm)
{
    hp_request r = request_of_message(HP_RECV, NULL, recvbuf, count, dtype, peer, tag);
    return run(comm, &r);
}

hoop_result
hoop_alltoallv(const void *sendbuf, void *recvbuf, const size_t *sendcounts, const size_t *senddispls,
               const size_t *recvcounts, const size_t *recvdispls, hoop_dtype dtype, hoop_comm *comm)
{
    hp_request r = request_of_alltoallv(sendbuf, recvbuf, sendcounts, senddispls, recvcounts, recvdispls, dtype);
    return run(comm, &r);
}

/* --- non-blocking --- */

hoop_result
hoop_iallreduce(const void *sendbuf, void *recvbuf, size_t count, hoop_dtype dtype, hoop_op op, hoop_comm *comm,
                hoop_work **work)
{
    return start(comm, request_of(HP_ALLREDUCE, sendbuf, recvbuf, count, dtype, op, -1), work);
}

hoop_result
hoop_iallreduce_with(const void *sendbuf, void *recvbuf, size_t count, hoop_dtype dtype, hoop_op op, hoop_comm *comm,
                     const hoop_call_options *options, hoop_work **work)
{
    hp_request r = request_of(HP_ALLREDUCE, sendbuf, recvbuf, count, dtype, op, -1);
    r.form = HP_FORM_I_WITH;
    r.options = options;
    return start(comm, r, work);
}

hoop_result
hoop_ireduce_scatter(const void *sendbuf, void *recvbuf, size_t recvcount, hoop_dtype dtype, hoop_op op,
                     hoop_comm *comm, hoop_work **work)
{
    return start(comm, request_of(HP_REDUCE_SCATTER, sendbuf, recvbuf, recvcount, dtype, op, -1), work);
}

hoop_result
hoop_iallgather(const void *sendbuf, void *recvbuf, size_t sendcount, hoop_dtype dtype, hoop_comm *comm,
                hoop_work **work)
{
    return start(comm, request_of(HP_ALLGATHER, sendbuf, recvbuf, sendcount, dtype, HOOP_SUM, -1), work);
}

hoop_result
hoop_ibroadcast(const void *sendbuf, void *recvbuf, size_t count, hoop_dtype dtype, int root, hoop_comm *comm,
                hoop_work **work)
{
    return start(comm, request_of(HP_BROADCAST, sendbuf, recvbuf, count, dtype, HOOP_SUM, root), work);
}

hoop_result
hoop_ireduce(const void *sendbuf, void *recvbuf, size_t count, hoop_dtype dtype, hoop_op op, int root, hoop_comm *comm,
             hoop_work **work)
{
    return start(comm, request_of(HP_REDUCE, sendbuf, recvbuf, count, dtype, op, root), work);
}

hoop_result
hoop_igather(const void *sendbuf, void *recvbuf, size_t sendcount, hoop_dtype dtype, int root, hoop_comm *comm,
             hoop_work **work)
{
    return start(comm, request_of(HP_GATHER, sendbuf, recvbuf, sendcount, dtype, HOOP_SUM, root), work);
}

hoop_result
hoop_iscatter(const void *sendbuf, void *recvbuf, size_t recvcount, hoop_dtype dtype, int root, hoop_comm *comm,
              hoop_work **work)
{
    return start(comm, request_of(HP_SCATTER, sendbuf, recvbuf, recvcount, dtype, HOOP_SUM, root), work);
}

hoop_result
hoop_ialltoall(const void *sendbuf, void *recvbuf, size_t count, hoop_dtype dtype, hoop_comm *comm, hoop_work **work)
{
    return start(comm, request_of(HP_ALLTOALL, sendbuf, recvbuf, count, dtype, HOOP_SUM, -1), work);
}

hoop_result
hoop_ibarrier(hoop_comm *comm, hoop_work **work)
{
    return start(comm, request_of(HP_BARRIER, NULL, NULL, 0, HOOP_UINT8, HOOP_SUM, -1), work);
}

hoop_result
hoop_iallgatherv(const void *sendbuf, void *recvbuf, size_t sendcount, const size_t *recvcounts, const size_t *displs,
                 hoop_dtype dtype, hoop_comm *comm, hoop_work **work)
{
    return start(
        comm, request_of_blocks(HP_ALLGATHERV, sendbuf, recvbuf, sendcount, recvcounts, displs, dtype, HOOP_SUM), work);
}

hoop_result
hoop_ireduce_scatterv(const void *sendbuf, void *recvbuf, const size_t *recvcounts, const size_t *displs,
                      hoop_dtype dtype, hoop_op op, hoop_comm *comm, hoop_work **work)
{
    return start(comm, request_of_blocks(HP_REDUCE_SCATTERV, sendbuf, recvbuf, 0, recvcounts, displs, dtype, op), work);
}

hoop_result
hoop_isend(const void *sendbuf, size_t count, hoop_dtype dtype, int peer, int tag, hoop_comm *comm, hoop_work **work)
{
    return start(comm, request_of_message(HP_SEND, sendbuf, NULL, count, dtype, peer, tag), work);
}

hoop_result
hoop_irecv(void *recvbuf, size_t count, hoop_dtype dtype, int peer, int tag, hoop_comm *comm, hoop_work **work)
{
    return start(comm, request_of_message(HP_RECV, NULL, recvbuf, count, dtype, peer, tag), work);
}

hoop_result
hoop_ialltoallv(const void *sendbuf, void *recvbuf, const size_t *sendcounts, const size_t *senddispls,
                const size_t *recvcounts, const size_t *recvdispls, hoop_dtype dtype, hoop_comm *comm, hoop_work **work)
{
    return start(comm, request_of_alltoallv(sendbuf, recvbuf, sendcounts, senddispls, recvcounts, recvdispls, dtype),
                 work);
}

/* --- stream-ordered --- */

hoop_result
hoop_allreduce_on_stream(const void *sendbuf, void *recvbuf, size_t count, hoop_dtype dtype, hoop_op op,
                         hoop_comm *comm, void *cuda_stream)
{
    return start_on_stream(comm, request_of(HP_ALLREDUCE, sendbuf, recvbuf, count, dtype, op, -1), cuda_stream);
}

hoop_result
hoop_reduce_scatter_on_stream(const void *sendbuf, void *recvbuf, size_t recvcount, hoop_dtype dtype, hoop_op op,
                              hoop_comm *comm, void *cuda_stream)
{
    return start_on_stream(comm, request_of(HP_REDUCE_SCATTER, sendbuf, recvbuf, recvcount, dtype, op, -1),
                           cuda_stream);
}

hoop_result
hoop_allgather_on_stream(const void *sendbuf, void *recvbuf, size_t sendcount, hoop_dtype dtype, hoop_comm *comm,
                         void *cuda_stream)
{
    return start_on_stream(comm, request_of(HP_ALLGATHER, sendbuf, recvbuf, sendcount, dtype, HOOP_SUM, -1),
                           cuda_stream);
}

hoop_result
hoop_broadcast_on_stream(const void *sendbuf, void *recvbuf, size_t count, hoop_dtype dtype, int root, hoop_comm *comm,
                         void *cuda_stream)
{
    return start_on_stream(comm, request_of(HP_BROADCAST, sendbuf, recvbuf, count, dtype, HOOP_SUM, root), cuda_stream);
}

hoop_result
hoop_reduce_on_stream(const void *sendbuf, void *recvbuf, size_t count, hoop_dtype dtype, hoop_op op, int root,
                      hoop_comm *comm, void *cuda_stream)
{
    return start_on_stream(comm, request_of(HP_REDUCE, sendbuf, recvbuf, count, dtype, op, root), cuda_stream);
}

hoop_result
hoop_gather_on_stream(const void *sendbuf, void *recvbuf, size_t sendcount, hoop_dtype dtype, int root, hoop_comm *comm,
                      void *cuda_stream)
{
    return start_on_stream(comm, request_of(HP_GATHER, sendbuf, recvbuf, sendcount, dtype, HOOP_SUM, root),
                           cuda_stream);
}

hoop_result
hoop_scatter_on_stream(const void *sendbuf, void *recvbuf, size_t recvcount, hoop_dtype dtype, int root,
                       hoop_comm *comm, void *cuda_stream)
{
    return start_on_stream(comm, request_of(HP_SCATTER, sendbuf, recvbuf, recvcount, dtype, HOOP_SUM, root),
                           cuda_stream);
}

hoop_result
hoop_alltoall_on_stream(const void *sendbuf, void *recvbuf, size_t count, hoop_dtype dtype, hoop_comm *comm,
                        void *cuda_stream)
{
    return start_on_stream(comm, request_of(HP_ALLTOALL, sendbuf, recvbuf, count, dtype, HOOP_SUM, -1), cuda_stream);
}

hoop_result
hoop_barrier_on_stream(hoop_comm *comm, void *cuda_stream)
{
    return start_on_stream(comm, request_of(HP_BARRIER, NULL, NULL, 0, HOOP_UINT8, HOOP_SUM, -1), cuda_stream);
}

hoop_result
hoop_allgatherv_on_stream(const void *sendbuf, void *recvbuf, size_t sendcount, const size_t *recvcounts,
                          const size_t *displs, hoop_dtype dtype, hoop_comm *comm, void *cuda_stream)
{
    return start_on_stream(
        comm, request_of_blocks(HP_ALLGATHERV, sendbuf, recvbuf, sendcount, recvcounts, displs, dtype, HOOP_SUM),
        cuda_stream);
}

hoop_result
hoop_reduce_scatterv_on_stream(const void *sendbuf, void *recvbuf, const size_t *recvcounts, const size_t *displs,
                               hoop_dtype dtype, hoop_op op, hoop_comm *comm, void *cuda_stream)
{
    return start_on_stream(
        comm, request_of_blocks(HP_REDUCE_SCATTERV, sendbuf, recvbuf, 0, recvcounts, displs, dtype, op), cuda_stream);
}

hoop_result
hoop_send_on_stream(const void *sendbuf, size_t count, hoop_dtype dtype, int peer, int tag, hoop_comm *comm,
                    void *cuda_stream)
{
    return start_on_stream(comm, request_of_message(HP_SEND, sendbuf, NULL, count, dtype, peer, tag), cuda_stream);
}

hoop_result
hoop_recv_on_stream(void *recvbuf, size_t count, hoop_dtype dtype, int peer, int tag, hoop_comm *comm,
                    void *cuda_stream)
{
    return start_on_stream(comm, request_of_message(HP_RECV, NULL, recvbuf, count, dtype, peer, tag), cuda_stream);
}

hoop_result
hoop_alltoallv_on_stream(const void *sendbuf, void *recvbuf, const size_t *sendcounts, const size_t *senddispls,
                         const size_t *recvcounts, const size_t *recvdispls, hoop_dtype dtype, hoop_comm *comm,
                         void *cuda_stream)
{
    return start_on_stream(
        comm, request_of_alltoallv(sendbuf, recvbuf, sendcounts, senddispls, recvcounts, recvdispls, dtype),
        cuda_stream);
}
