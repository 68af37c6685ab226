/* SPDX-License-Identifier: MIT */
/* sendrecv: the public calls for messages between two ranks. */
#include "base/dtype.h"
#include "base/err.h"
#include "lib/comm.h"
#include "lib/message_call.h"

typedef struct message_args {
    hp_request of;
    int peer, device;
} message_args;

static message_args
request_of(hp_kind kind, const void *send, void *recv, size_t count, hoop_dtype dtype, int peer, int tag)
{
    message_args r = {.of = {.send = send, .recv = recv}, .peer = peer};
    r.of.call = (hp_call){.kind = (uint8_t)kind, .op = HOOP_SUM, .root = tag, .count = count};
    r.of.call.dtype = (unsigned)dtype < 255 ? (uint8_t)dtype : 255;
    return r;
}

static hoop_result
check(hoop_comm *comm, message_args *r, hp_form form, int blocks)
{
    hoop_error error;
    r->of.form = form;
    hoop_result result = hp_entry_check(comm);
    if (result != HOOP_SUCCESS)
        return result;
    hp_name_call(comm, &r->of.call);
    result = hp_request_check_message(&r->of, r->peer, comm->size, &error);
    size_t bytes = result == HOOP_SUCCESS ? (size_t)r->of.call.count * hp_dtype_size((hoop_dtype)r->of.call.dtype) : 0;
    if (result == HOOP_SUCCESS && blocks && r->of.call.kind == HP_SEND && r->peer == comm->rank &&
        bytes > HP_EAGER_MOST)
        result = hp_err_set(&error, HOOP_ERR_INVALID_ARGUMENT,
                            "hoop_send: more than %d bytes to oneself wait for their receive, which this call keeps "
                            "from being called; use hoop_isend, or a group",
                            HP_EAGER_MOST);
    if (result != HOOP_SUCCESS)
        return hp_entry_fail(comm, &error);
    return hp_message_call_device(comm, r->of.send, r->of.recv, &r->device);
}

/* Adds the request's message to the work. */
static int
add(hoop_work *work, const message_args *r)
{
    hp_message *message = hp_work_pool_add_messages(work, 1);
    if (!message)
        return 0;
    message->peer = r->peer;
    message->sending = r->of.call.kind == HP_SEND;
    message->call = r->of.call;
    message->call.kind = HP_SEND;
    message->bytes = r->of.call.count * hp_dtype_size((hoop_dtype)r->of.call.dtype);
    message->data = message->sending ? (uint8_t *)(uintptr_t)r->of.send : r->of.recv;
    message->on_device = r->device > 0 && message->bytes > 0;
    work->device = r->device > work->device ? r->device : work->device;
    return 1;
}

static hoop_work *
make(hoop_comm *comm, const void *arg)
{
    const message_args *r = arg;
    hoop_work *work = hp_work_pool_make_messages(comm, &r->of.call);
    if (work)
        add(work, r); /* the first one needs no memory */
    return work;
}

static int
join(hoop_work *work, const void *arg)
{
    return add(work, arg);
}

static const hp_message_call calls = {.make = make, .join = join};

/* --- public --- */

static hoop_result
run(hoop_comm *comm, message_args *r)
{
    return hp_message_call_run(comm, &calls, &r->of.call, r, check(comm, r, HP_FORM_BLOCKING, !hp_group_open()));
}

static hoop_result
start(hoop_comm *comm, message_args *r, hoop_work **work)
{
    return hp_message_call_start(comm, &calls, r, check(comm, r, HP_FORM_I, 0), work);
}

static hoop_result
start_on_stream(hoop_comm *comm, message_args *r, void *stream)
{
    return hp_message_call_on_stream(comm, &calls, r, check(comm, r, HP_FORM_ON_STREAM, 0), r->of.send, r->of.recv,
                                     stream);
}

hoop_result
hoop_send(const void *sendbuf, size_t count, hoop_dtype dtype, int peer, int tag, hoop_comm *comm)
{
    message_args r = request_of(HP_SEND, sendbuf, NULL, count, dtype, peer, tag);
    return run(comm, &r);
}

hoop_result
hoop_recv(void *recvbuf, size_t count, hoop_dtype dtype, int peer, int tag, hoop_comm *comm)
{
    message_args r = request_of(HP_RECV, NULL, recvbuf, count, dtype, peer, tag);
    return run(comm, &r);
}

hoop_result
hoop_isend(const void *sendbuf, size_t count, hoop_dtype dtype, int peer, int tag, hoop_comm *comm, hoop_work **work)
{
    message_args r = request_of(HP_SEND, sendbuf, NULL, count, dtype, peer, tag);
    return start(comm, &r, work);
}

hoop_result
hoop_irecv(void *recvbuf, size_t count, hoop_dtype dtype, int peer, int tag, hoop_comm *comm, hoop_work **work)
{
    message_args r = request_of(HP_RECV, NULL, recvbuf, count, dtype, peer, tag);
    return start(comm, &r, work);
}

hoop_result
hoop_send_on_stream(const void *sendbuf, size_t count, hoop_dtype dtype, int peer, int tag, hoop_comm *comm,
                    void *cuda_stream)
{
    message_args r = request_of(HP_SEND, sendbuf, NULL, count, dtype, peer, tag);
    return start_on_stream(comm, &r, cuda_stream);
}

hoop_result
hoop_recv_on_stream(void *recvbuf, size_t count, hoop_dtype dtype, int peer, int tag, hoop_comm *comm,
                    void *cuda_stream)
{
    message_args r = request_of(HP_RECV, NULL, recvbuf, count, dtype, peer, tag);
    return start_on_stream(comm, &r, cuda_stream);
}

/* --- what has come --- */

static void
hand_out(const hp_receipt *received, int *peer, size_t *count)
{
    if (peer)
        *peer = received->peer;
    if (count)
        *count = received->count;
}

hoop_result
hoop_received(int *peer, size_t *count)
{
    const hp_receipt *received = hp_entry_received();
    if (!received->known)
        return hp_entry_refuse(NULL, HOOP_ERR_INVALID_USAGE,
                               "hoop_received: this thread has seen the end of no receive yet, by hoop_recv outside a "
                               "group, or by a wait for hoop_irecv");
    hand_out(received, peer, count);
    return HOOP_SUCCESS;
}

hoop_result
hoop_work_received(const hoop_work *work, int *peer, size_t *count)
{
    hp_receipt received;
    if (!work)
        return hp_entry_refuse(NULL, HOOP_ERR_INVALID_ARGUMENT, "hoop_work_received: work is NULL");
    if (!(atomic_load(&work->state) & HP_WORK_ENDED) || work->result != HOOP_SUCCESS ||
        !hp_entry_receives(work, &received))
        return hp_entry_refuse(work->comm, HOOP_ERR_INVALID_USAGE,
                               "hoop_work_received: the work is not of hoop_irecv, has not ended, or has failed");
    hand_out(&received, peer, count);
    return HOOP_SUCCESS;
}
