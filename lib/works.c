/* SPDX-License-Identifier: MIT */
/*
 * works: see works.h. The lists are guarded by the driver's mutex, but for that of the operations in progress.
 * Operations start and complete in the order of their sequence numbers, on every rank the same.
 */
#include "lib/works.h"

#include "base/dtype.h"
#include "base/err.h"
#include "base/mem.h"
#include "gpu/gpu.h"
#include "lib/account.h"
#include "lib/baton.h"
#include "lib/registry.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* --- made, and used again --- */

/* Works with and without blocks have a free list each: so a steady program allocates neither. */
hoop_work *
hp_work_pool_take(hoop_comm *comm, int has_blocks)
{
    hp_driver *d = &comm->driver;
    hoop_work *work;
    pthread_mutex_lock(&d->mutex);
    work = d->free[has_blocks];
    if (work)
        d->free[has_blocks] = work->next;
    pthread_mutex_unlock(&d->mutex);
    if (work) {
        memset(work, 0, offsetof(hoop_work, waiter));
        return work;
    }
    work = hp_alloc(1, sizeof(*work));
    if (work && has_blocks)
        work->blocks = hp_alloc((size_t)comm->size, sizeof(*work->blocks));
    if (!work || (has_blocks && !work->blocks)) {
        free(work);
        return NULL;
    }
    pthread_mutex_lock(&d->mutex);
    work->made_before = d->made;
    d->made = work;
    pthread_mutex_unlock(&d->mutex);
    return work;
}

/* A copy of the caller's counts and displacements; the order of blocks is needed once, to find two that overlap. */
static hoop_result
copy_blocks(const hoop_comm *comm, hoop_work *work, const hp_request *r, hoop_error *error)
{
    int pair[2];
    hp_blocks_fill(work->blocks, r->counts, r->displs, comm->size);
    if (!r->displs)
        return HOOP_SUCCESS;
    if (hp_blocks_overlap(work->blocks, r->counts, r->displs, comm->size, pair)) {
        hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "displs lets the blocks of ranks %d and %d overlap", pair[0],
                   pair[1]);
        hp_form_name(r->form, r->call.kind, error);
        return error->code;
    }
    hp_blocks_fill(work->blocks, r->counts, r->displs, comm->size);
    return HOOP_SUCCESS;
}

void
hp_work_pool_give(hoop_comm *comm, hoop_work *work)
{
    hp_driver *d = &comm->driver;
    pthread_mutex_lock(&d->mutex);
    work->next = d->free[work->blocks != NULL];
    d->free[work->blocks != NULL] = work;
    pthread_mutex_unlock(&d->mutex);
}

/*
 * The work is done. `before`: its state until then, which tells whether its owner still has it. Threads that wait for the
 * communicator from elsewhere are woken.
 */
static void
settle(hoop_comm *comm, hoop_work *work, int before)
{
    atomic_fetch_sub(&comm->driver.outstanding, 1);
    if (before & HP_WORK_FREED)
        hp_work_pool_give(comm, work);
    if (before & HP_WORK_AWAITED)
        hp_baton_tell(comm, work);
}

void
hp_work_pool_plan(hoop_comm *comm, hoop_work *work)
{
    hp_plan_options options = comm->plan;
    work->comm = comm;
    work->signature = hp_call_signature(&work->call);
    work->channels = hp_plan_channels(&work->call, comm->size, &options);
    work->channels_left = work->channels;
    for (uint32_t c = 0; c < work->channels; c++)
        hp_plan_make(&work->plan[c], &work->call, work->blocks, comm->order, comm->size, &options, c, work->channels);
    work->place.direct = comm->device[work->device]->ops->addressable(comm->device[work->device]);
    work->piece = HP_PIECE_BYTES;
}

/* Appends so many, zeroed; NULL when memory runs out. The first one needs none. */
static hp_message *
add_messages(hoop_work *work, size_t count)
{
    size_t all = work->message_count + count, room = work->message_room ? work->message_room : 2;
    while (room < all)
        room *= 2;
    if (all > 1 && room != work->message_room) {
        hp_message *grown = reallocarray(work->message_array, room, sizeof(*grown));
        if (!grown)
            return NULL;
        work->message_array = grown;
        work->message_room = room;
    }
    if (all > 1 && work->messages == &work->one_message)
        work->message_array[0] = work->one_message;
    if (all > 1)
        work->messages = work->message_array;
    hp_message *first = work->messages + work->message_count;
    memset(first, 0, count * sizeof(*first));
    work->message_count = all;
    return first;
}

/* One message for each rank. `number` tells apart the alltoallvs of a group. */
static void
fill_blocks(hp_message *messages, const hp_request *r, int sending, int size, int number, int device)
{
    const uint8_t *buffer = sending ? r->send : r->recv;
    const size_t *counts = sending ? r->send_counts : r->counts, *displs = sending ? r->send_displs : r->displs;
    size_t elem = hp_dtype_size((hoop_dtype)r->call.dtype), next = 0;
    int on_device = device > 0 && hp_device_of(buffer) != &hp_host_ops;
    for (int rank = 0; rank < size; rank++) {
        size_t at = displs ? displs[rank] : next;
        hp_message *m = &messages[rank];
        m->peer = rank;
        m->sending = sending;
        m->call = r->call;
        m->call.root = number;
        m->call.count = counts[rank];
        m->bytes = counts[rank] * elem;
        m->on_device = on_device && m->bytes > 0;
        m->data = m->bytes ? (uint8_t *)(uintptr_t)buffer + at * elem : NULL;
        next = at + counts[rank];
    }
}

int
hp_work_pool_join(hoop_work *work, const hp_request *r, int device)
{
    int size = work->comm->size, blocks = r->call.kind == HP_ALLTOALLV;
    hp_message *first = add_messages(work, blocks ? 2 * (size_t)size : 1);
    if (!first)
        return 0;
    work->device = device > work->device ? device : work->device;
    if (blocks) { /* receives first, so that most blocks find theirs */
        fill_blocks(first, r, 0, size, work->alltoallvs, device);
        fill_blocks(first + size, r, 1, size, work->alltoallvs++, device);
        return 1;
    }
    first->peer = r->peer;
    first->sending = r->call.kind == HP_SEND;
    first->call = r->call;
    first->call.kind = HP_SEND;
    first->bytes = r->call.count * hp_dtype_size((hoop_dtype)r->call.dtype);
    first->data = first->sending ? (uint8_t *)(uintptr_t)r->send : r->recv;
    first->on_device = device > 0 && first->bytes > 0;
    return 1;
}

static hoop_work *
make_messages(hoop_comm *comm, const hp_request *request, int device, hoop_error *error)
{
    hoop_work *work = hp_work_pool_take(comm, 0);
    if (work) {
        work->comm = comm;
        work->call = request->call;
        work->messages = &work->one_message;
    }
    if (work && hp_work_pool_join(work, request, device))
        return work;
    if (work)
        hp_work_pool_give(comm, work);
    hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory for a message");
    return NULL;
}

hoop_work *
hp_work_pool_make(hoop_comm *comm, const hp_request *request, int device, hoop_error *error)
{
    if (hp_kind_is_message(request->call.kind))
        return make_messages(comm, request, device, error);
    hoop_work *work = hp_work_pool_take(comm, request->counts != NULL);
    if (!work) {
        hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory for an operation");
        return NULL;
    }
    if (request->counts && copy_blocks(comm, work, request, error) != HOOP_SUCCESS) {
        hp_work_pool_give(comm, work);
        return NULL;
    }
    work->call = request->call;
    work->calls = 1;
    work->device = device;
    work->place.in_place = request->in_place;
    work->residual = request->residual;
    work->place.residual = work->residual != NULL;
    hp_work_single(work, request->send, request->recv);
    return work;
}

/* The first segment of an array in the free list holds the next array (recv) and the room of this one (count). */
static hp_segment *
next_array(const hp_segment *array)
{
    return (hp_segment *)(void *)array->recv;
}

void
hp_work_pool_take_array(hoop_comm *comm, hoop_work *work)
{
    hp_segment *most = NULL, *before = NULL;
    hp_work_pool_give_array(comm, work); /* the work may have one from a group that was dropped */
    pthread_mutex_lock(&comm->driver.mutex);
    for (hp_segment *array = comm->driver.free_arrays, *last = NULL; array; last = array, array = next_array(array)) {
        if (most && most->count >= array->count)
            continue;
        most = array;
        before = last;
    }
    if (most && before)
        before->recv = most->recv;
    else if (most)
        comm->driver.free_arrays = next_array(most);
    pthread_mutex_unlock(&comm->driver.mutex);
    work->array = most;
    work->segment_room = most ? (size_t)most->count : 0;
}

void
hp_work_pool_give_array(hoop_comm *comm, hoop_work *work)
{
    if (!work->array)
        return;
    pthread_mutex_lock(&comm->driver.mutex);
    *work->array = (hp_segment){.count = work->segment_room, .recv = (uint8_t *)comm->driver.free_arrays};
    comm->driver.free_arrays = work->array;
    pthread_mutex_unlock(&comm->driver.mutex);
    work->array = NULL;
    work->segment_room = 0;
}

void
hp_work_pool_free(hoop_comm *comm)
{
    hp_driver *d = &comm->driver;
    while (d->made) {
        hoop_work *work = d->made;
        d->made = work->made_before;
        free(work->array);
        free(work->message_array);
        free(work->blocks);
        free(work);
    }
    while (comm->driver.free_arrays) {
        hp_segment *array = comm->driver.free_arrays;
        comm->driver.free_arrays = next_array(array);
        free(array);
    }
}

/* --- submitted --- */

void
hp_inbox_put(hp_driver *d, hoop_work *first, hoop_work *last)
{
    uint64_t works = 0;
    for (hoop_work *work = first; work; work = work == last ? NULL : work->next, works++) {
        d->sequence += (uint64_t)work->calls;
        work->sequence = d->sequence;
    }
    last->next = NULL;
    if (d->inbox)
        d->inbox_last->next = first;
    else
        d->inbox = first;
    d->inbox_last = last;
    atomic_fetch_add(&d->outstanding, works);
    atomic_store(&d->has_inbox, 1);
}

hoop_work *
hp_inbox_take(hoop_comm *comm, uint64_t *last, int *refused)
{
    hp_driver *d = &comm->driver;
    pthread_mutex_lock(&d->mutex);
    hoop_work *first = d->inbox;
    *last = first ? d->inbox_last->sequence : 0;
    *refused = d->refused;
    d->inbox = d->inbox_last = NULL;
    atomic_store_explicit(&d->has_inbox, 0, memory_order_relaxed);
    pthread_mutex_unlock(&d->mutex);
    return first;
}

uint64_t
hp_inbox_started(hoop_comm *comm)
{
    pthread_mutex_lock(&comm->driver.mutex);
    uint64_t started = comm->driver.sequence;
    pthread_mutex_unlock(&comm->driver.mutex);
    return started;
}

/* --- their functions --- */

static _Thread_local int inside; /* functions of this thread, one in the other: of different communicators */

int
hp_callback_inside(void)
{
    return inside > 0;
}

void
hp_callback_queue(hoop_comm *comm, hoop_work *work)
{
    hp_driver *d = &comm->driver;
    pthread_mutex_lock(&d->mutex);
    work->next = NULL;
    if (d->due)
        d->due_last->next = work;
    else
        d->due = work;
    d->due_last = work;
    atomic_store(&d->has_due, !d->calling);
    pthread_mutex_unlock(&d->mutex);
}

void
hp_callback_run(hoop_comm *comm)
{
    hp_driver *d = &comm->driver;
    if (!hp_callback_due(comm))
        return;
    pthread_mutex_lock(&d->mutex);
    if (!d->calling) {
        d->calling = 1;
        atomic_store(&d->has_due, 0);
        while (d->due) {
            hoop_work *work = d->due;
            d->due = work->next;
            pthread_mutex_unlock(&d->mutex);
            inside++;
            work->fn(work->fn_arg, work->result);
            inside--;
            settle(comm, work,
                   atomic_fetch_or(&work->state, HP_WORK_RETURNED)); /* it may be its owner's now, or free */
            pthread_mutex_lock(&d->mutex);
        }
        d->calling = 0;
        pthread_cond_broadcast(&d->changed);
        if (d->held) /* by a thread that may wait for one of these works */
            hp_loop_wake(comm->loop);
    }
    pthread_mutex_unlock(&d->mutex);
}

/* --- in progress --- */

void
hp_ops_release_stream(hoop_comm *comm, hoop_work *work, int failed)
{
    if (!work->gate)
        return;
    if (failed)
        atomic_store(&comm->fault.on_stream, 1);
    /* Counted before the gate opens: the stream's owner may next use the GPU for the first time with another
     * communicator, which is refused while any stream is blocked. */
    hp_registry_block(comm, -1);
    comm->device[work->device]->ops->gate_open(work->gate);
    work->gate = NULL;
}

void
hp_ops_complete(hoop_comm *comm, hoop_work *work, hoop_result result)
{
    work->result = result;
    hp_account_leave(comm, work);
    if (work->mark)
        comm->device[work->device]->ops->unmark(work->mark);
    work->mark = NULL;
    hp_ops_release_stream(comm, work, result != HOOP_SUCCESS);
    hp_work_pool_give_array(comm, work);
    int before = atomic_fetch_or(&work->state, HP_WORK_ENDED);
    if (before & HP_WORK_CALLS)
        hp_callback_queue(comm, work);
    else
        settle(comm, work, before);
}

void
hp_ops_start(hoop_comm *comm, hoop_work *work)
{
    if (atomic_load(&comm->fault.failed)) {
        hp_ops_complete(comm, work, comm->fault.error.code);
        return;
    }
    work->next = NULL;
    if (comm->running)
        comm->running_last->next = work;
    else
        comm->running = work;
    comm->running_last = work;
    for (uint32_t c = 0; c < work->channels; c++)
        hp_channel_append(comm->channel[c], work);
}

static hoop_work *
pop_running(hoop_comm *comm)
{
    hoop_work *work = comm->running;
    comm->running = work->next;
    if (!comm->running)
        comm->running_last = NULL;
    return work;
}

int
hp_ops_finish(hoop_comm *comm)
{
    int finished = 0;
    for (; comm->running && comm->running->channels_left == 0; finished++)
        hp_ops_complete(comm, pop_running(comm), HOOP_SUCCESS);
    return finished;
}

void
hp_ops_fail(hoop_comm *comm)
{
    while (comm->running)
        hp_ops_complete(comm, pop_running(comm), comm->fault.error.code);
}
