/* SPDX-License-Identifier: MIT */
/*
 * group: see group.h. A fused operation is an allreduce over the concatenation of its tensors, which exists only as a
 * list of segments: packing happens inside the reductions and the system calls, no byte is copied for it. A call that
 * joins costs a segment; only the first of its kind costs a work.
 */
#include "lib/group.h"

#include "base/dtype.h"
#include "base/wire.h"
#include "lib/callback.h"
#include "lib/entry.h"
#include "lib/work_pool.h"

#include <stdlib.h>

static _Thread_local const hoop_comm *open_on; /* this thread's open group */

const hoop_comm *
hp_group_open(void)
{
    return hp_callback_inside() ? NULL : open_on;
}

int
hp_group_begin(hoop_comm *comm)
{
    int taken;
    uint64_t small = (uint64_t)hp_config_number(&comm->config, HP_SET_fuse_bytes);
    pthread_mutex_lock(&comm->driver.mutex);
    taken = comm->group.open;
    if (!taken)
        comm->group = (hp_group){.open = 1, .small = small};
    pthread_mutex_unlock(&comm->driver.mutex);
    if (!taken)
        open_on = comm;
    return !taken;
}

/* The entry of g->alike for calls like this one: its work is the one that they join. NULL: the call is not fused. */
static hoop_work **
alike(hp_group *g, const hp_call *call, int device)
{
    if (call->kind != HP_ALLREDUCE || call->count * hp_dtype_size((hoop_dtype)call->dtype) > g->small)
        return NULL;
    return &g->alike[hp_dtype_index((hoop_dtype)call->dtype)][hp_op_index((hoop_op)call->op)][device];
}

/* A tensor directly behind the last one, in both arrays, extends that segment. */
static int
continues(const hoop_work *to, const hp_segment *s)
{
    const hp_segment *last = &to->segments[to->segment_count - 1];
    size_t bytes = (size_t)last->count * hp_dtype_size((hoop_dtype)to->call.dtype);
    return last->count > 0 && last->send + bytes == s->send && last->recv + bytes == s->recv;
}

static int
grow(hoop_work *work)
{
    size_t room = work->segment_room ? 2 * work->segment_room : 64;
    hp_segment *grown = reallocarray(work->array, room, sizeof(*grown));
    if (!grown)
        return 0;
    work->segments = work->array = grown;
    work->segment_room = room;
    return 1;
}

/* The tensors' sizes are part of what ranks must agree on: their checksum takes the place of a root. */
static int
append_segment(hoop_work *to, const void *send, void *recv, uint64_t count)
{
    hp_segment s = {to->call.count, count, send, recv};
    uint8_t bytes[8];
    if (to->segment_count == to->segment_room && !grow(to))
        return 0;
    if (to->segment_count > 0 && continues(to, &s))
        to->segments[to->segment_count - 1].count += count;
    else
        to->segments[to->segment_count++] = s;
    hp_put64(bytes, count);
    to->call.root = (int32_t)hp_crc32c_more((uint32_t)to->call.root, bytes, sizeof(bytes));
    to->call.count += count;
    return 1;
}

/* A queued work gets an array of segments, its own buffers as the first. */
static int
make_fused(hoop_comm *comm, hoop_work *work)
{
    uint64_t count = work->call.count;
    hp_work_pool_take_array(comm, work);
    work->call.fused = 1;
    work->call.count = 0;
    work->call.root = 0;
    work->place.in_place = 0; /* some tensors are in place, others not; no step of an allreduce depends on it */
    work->segments = work->array;
    work->segment_count = 0;
    return append_segment(work, work->one.send, work->one.recv, count);
}

int
hp_group_join(hoop_comm *comm, const hp_request *request, int device)
{
    hoop_work **at = alike(&comm->group, &request->call, device), *to = at ? *at : NULL;
    if (!to)
        return 0;
    if ((!to->call.fused && !make_fused(comm, to)) ||
        !append_segment(to, request->send, request->recv, request->call.count))
        return -1;
    to->calls++;
    return 1;
}

void
hp_group_add(hoop_comm *comm, hoop_work *work)
{
    hp_group *g = &comm->group;
    hoop_work **at = alike(g, &work->call, work->device);
    work->next = NULL;
    if (g->tail)
        g->tail->next = work;
    else
        g->head = work;
    g->tail = work;
    if (at && !*at)
        *at = work;
}

hoop_work *
hp_group_messages(hoop_comm *comm, const hp_call *call)
{
    hp_group *g = &comm->group;
    if (!g->messages)
        g->messages = hp_work_pool_make_messages(comm, call);
    return g->messages;
}

hoop_result
hp_group_spoil(hoop_comm *comm, const hp_call *call)
{
    hoop_error error;
    hp_entry_error(comm, &error);
    if (comm->group.result == HOOP_SUCCESS) {
        comm->group.call = *call;
        comm->group.result = error.code;
        comm->group.error = error;
    }
    return error.code;
}

static void
drop(hoop_comm *comm, hoop_work *list)
{
    while (list) {
        hoop_work *next = list->next;
        hp_work_pool_give(comm, list);
        list = next;
    }
}

/* The messages' work comes last: it is complete when the collectives are, too. */
static void
append_messages(hp_group *g)
{
    if (!g->messages)
        return;
    g->messages->next = NULL;
    g->messages->after = g->tail;
    if (g->tail) {
        atomic_store(&g->tail->state, 0); /* that one gives it back */
        g->tail->next = g->messages;
    } else {
        g->head = g->messages;
    }
    g->tail = g->messages;
}

hoop_result
hp_group_close(hoop_comm *comm, hoop_work **first, hoop_work **last, hoop_error *error)
{
    hp_group *g = &comm->group;
    hoop_result result = g->result;
    *first = *last = NULL;
    open_on = NULL;
    if (result != HOOP_SUCCESS) {
        drop(comm, g->head);
        drop(comm, g->messages);
        *error = g->error;
    } else {
        for (hoop_work *work = g->head; work; work = work->next) {
            hp_work_pool_plan(comm, work);
            atomic_store(&work->state, work->next ? HP_WORK_FREED : 0);
        }
        append_messages(g);
        *first = g->head;
        *last = g->tail;
    }
    pthread_mutex_lock(&comm->driver.mutex);
    g->open = 0;
    pthread_mutex_unlock(&comm->driver.mutex);
    return result;
}
