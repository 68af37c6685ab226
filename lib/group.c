/* SPDX-License-Identifier: MIT */
/*
 * group: see group.h. A fused operation is an allreduce over the concatenation of its tensors, which exists only as a
 * list of segments: packing happens inside the reductions and the system calls, no byte is copied for it. A call that
 * joins costs a segment; only the first of its kind costs a work.
 */
#include "lib/group.h"

#include "base/dtype.h"
#include "base/err.h"
#include "base/wire.h"
#include "lib/entry.h"
#include "lib/progress.h"
#include "lib/registry.h"
#include "lib/works.h"

#include <stdlib.h>
#include <string.h>

enum { ORDERS = HP_ORDER_HOST + 1, ALIKE = ORDERS * (1 + HOOP_WIRE_E4M3) }; /* in which order, and in which type */

/* This thread's group. */
static _Thread_local struct {
    const hoop_comm *comm; /* NULL: none is open */
    hoop_result result;    /* first argument error inside, */
    hp_call call;          /* the call that it is of, */
    hoop_error error;
    uint64_t small;                             /* bytes of an allreduce that is fused with others like it */
    hoop_work *messages;                        /* all messages of the group; NULL: there are none */
    hoop_work *head, *tail;                     /* queued works, in the order of their first calls */
    hoop_work *alike[ALIKE][HP_DTYPES][HP_OPS]; /* which small allreduces of one kind join */
} group;

const hoop_comm *
hp_group_open(void)
{
    return hp_callback_inside() ? NULL : group.comm;
}

void
hp_group_begin(hoop_comm *comm)
{
    memset(&group, 0, sizeof(group));
    group.comm = comm;
    group.small = (uint64_t)hp_config_number(&comm->config, HP_SET_fuse_bytes);
}

/*
 * The entry of group.alike for calls like this one: its work is the one that they join. NULL: the call is not fused. It does
 * not depend on where this rank has its arrays, of which others know nothing.
 */
static hoop_work **
alike(const hp_call *call)
{
    if (call->kind != HP_ALLREDUCE || call->count * hp_dtype_size((hoop_dtype)call->dtype) > group.small)
        return NULL;
    unsigned dtype = hp_dtype_index((hoop_dtype)call->dtype), op = hp_op_index((hoop_op)call->op);
    return &group.alike[ORDERS * call->wire + call->ordered][dtype][op];
}

/* A tensor directly behind the last one, in both arrays, extends that segment. */
static int
continues(const hoop_work *to, const hp_segment *s)
{
    const hp_segment *last = &to->segments[to->segment_count - 1];
    size_t bytes = (size_t)last->count * hp_dtype_size((hoop_dtype)to->call.dtype);
    return last->count > 0 && last->send + bytes == s->send && last->recv + bytes == s->recv;
}

/*
 * The tensors' sizes are part of what ranks must agree on: their checksum takes the place of a root. A work with arrays in a
 * GPU runs there, and a segment lies in one kind of memory.
 */
static int
append_segment(hoop_work *to, const void *send, void *recv, uint64_t count, int device)
{
    hp_segment s = {to->call.count, count, send, recv};
    uint8_t bytes[8];
    if (to->segment_count == to->segment_room) {
        size_t room = to->segment_room ? 2 * to->segment_room : 64;
        hp_segment *grown = reallocarray(to->array, room, sizeof(*grown));
        if (!grown)
            return 0;
        to->segments = to->array = grown;
        to->segment_room = room;
    }
    if (to->segment_count > 0 && device == to->device && continues(to, &s))
        to->segments[to->segment_count - 1].count += count;
    else
        to->segments[to->segment_count++] = s;
    hp_put64(bytes, count);
    to->call.root = (int32_t)hp_crc32c_more((uint32_t)to->call.root, bytes, sizeof(bytes));
    to->call.count += count;
    to->device = device > to->device ? device : to->device;
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
    return append_segment(work, work->one.send, work->one.recv, count, work->device);
}

int
hp_group_join(hoop_comm *comm, const hp_request *request, int device)
{
    if (hp_kind_is_message(request->call.kind))
        return !group.messages ? 0 : hp_work_pool_join(group.messages, request, device) ? 1 : -1;
    hoop_work **at = alike(&request->call), *to = at ? *at : NULL;
    if (!to)
        return 0;
    if ((!to->call.fused && !make_fused(comm, to)) ||
        !append_segment(to, request->send, request->recv, request->call.count, device))
        return -1;
    to->calls++;
    return 1;
}

void
hp_group_add(hoop_work *work)
{
    if (work->messages) {
        work->grouped = 1;
        group.messages = work;
        return;
    }
    hoop_work **at = alike(&work->call);
    work->next = NULL;
    if (group.tail)
        group.tail->next = work;
    else
        group.head = work;
    group.tail = work;
    if (at && !*at)
        *at = work;
}

hoop_result
hp_group_spoil(hoop_comm *comm, const hp_call *call)
{
    hoop_error error;
    hp_entry_error(comm, &error);
    if (group.result == HOOP_SUCCESS) {
        group.call = *call;
        group.result = error.code;
        group.error = error;
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
append_messages(void)
{
    if (!group.messages)
        return;
    group.messages->next = NULL;
    group.messages->after = group.tail;
    if (group.tail) {
        atomic_store(&group.tail->state, 0); /* that one gives it back */
        group.tail->next = group.messages;
    } else {
        group.head = group.messages;
    }
    group.tail = group.messages;
}

hoop_result
hp_group_close(hoop_comm *comm, hoop_work **first, hoop_work **last, hp_call *refused, hoop_error *error)
{
    *first = *last = NULL;
    group.comm = NULL;
    if (group.result != HOOP_SUCCESS) {
        *refused = group.head ? group.head->call : group.call;
        drop(comm, group.head);
        drop(comm, group.messages);
        *error = group.error;
        return group.result;
    }
    for (hoop_work *work = group.head; work; work = work->next) {
        hp_work_pool_plan(comm, work);
        atomic_store(&work->state, work->next ? HP_WORK_FREED : 0);
    }
    append_messages();
    *first = group.head;
    *last = group.tail;
    return HOOP_SUCCESS;
}

/* --- the public calls --- */

hoop_result
hoop_group_start(hoop_comm *comm)
{
    hoop_result result = hp_entry_check(comm);
    if (result != HOOP_SUCCESS)
        return result;
    if (hp_entry_may_wait(comm, "hoop_group_start") != HOOP_SUCCESS)
        return HOOP_ERR_INVALID_USAGE;
    if (hp_group_open())
        return hp_entry_refuse(comm, HOOP_ERR_INVALID_USAGE, "hoop_group_start inside a group: groups do not nest");
    hp_group_begin(comm);
    return HOOP_SUCCESS;
}

static hoop_result
close_group(hoop_comm *comm, hoop_work **first, hoop_work **last)
{
    hoop_error error;
    hoop_result result;
    *first = *last = NULL;
    if (comm && comm->forks != hp_forks()) { /* what the group holds is the parent's */
        group.comm = NULL;
        return hp_entry_check(comm);
    }
    if (!comm || hp_group_open() != comm) { /* in a communicator that has failed no group was opened */
        result = hp_entry_check(comm);
        return result == HOOP_SUCCESS ? hp_entry_refuse(comm, HOOP_ERR_INVALID_USAGE,
                                                        "hoop_group_end without hoop_group_start by this thread")
                                      : result;
    }
    hp_call refused;
    result = hp_group_close(comm, first, last, &refused, &error);
    if (result != HOOP_SUCCESS)
        return hp_entry_unstarted(comm, &refused, hp_entry_fail(comm, &error));
    result = hp_entry_check(comm);
    if (result != HOOP_SUCCESS)
        drop(comm, *first);
    return result;
}

/* Starts what the group holds; *work is the last of it, which completes last. */
static hoop_result
start_group(hoop_comm *comm, int blocking, hoop_work **work)
{
    hoop_work *first, *last;
    hoop_result result = close_group(comm, &first, &last);
    hp_call call = first ? first->call : (hp_call){0};
    if (result == HOOP_SUCCESS && first)
        result = hp_entry_unstarted(comm, &call, hp_entry_order(comm, first));
    if (result != HOOP_SUCCESS)
        return result;
    if (!first) { /* an empty group is done before it starts */
        last = hp_work_pool_take(comm, 0);
        if (!last)
            return hp_entry_refuse(comm, HOOP_ERR_NO_MEMORY, "out of memory for a group");
        last->comm = comm;
        atomic_store(&last->state, HP_WORK_ENDED);
    } else {
        hp_progress_submit(comm, first, last, blocking);
    }
    *work = last;
    return HOOP_SUCCESS;
}

hoop_result
hoop_igroup_end(hoop_comm *comm, hoop_work **work)
{
    if (!work)
        return hp_entry_refuse(comm, HOOP_ERR_INVALID_ARGUMENT, "hoop_igroup_end: work is NULL");
    *work = NULL;
    if (hp_entry_may_wait(comm, "hoop_igroup_end") != HOOP_SUCCESS)
        return HOOP_ERR_INVALID_USAGE;
    return start_group(comm, 0, work);
}

hoop_result
hoop_group_end(hoop_comm *comm)
{
    hoop_work *work = NULL;
    hoop_result result;
    int mine = comm && hp_group_open() == comm && comm->forks == hp_forks();
    if (hp_entry_may_wait(comm, "hoop_group_end") != HOOP_SUCCESS)
        return HOOP_ERR_INVALID_USAGE;
    if (mine)
        hp_progress_enter(comm);
    result = start_group(comm, 1, &work);
    if (result == HOOP_SUCCESS) {
        hp_waiter waiter = {.comm = comm, .works = &work, .count = 1};
        hp_entry_wait(&waiter, HP_NEVER, 1);
        result = work->result == HOOP_SUCCESS ? HOOP_SUCCESS : hp_entry_check(comm);
        hp_work_pool_give(comm, work);
    }
    if (mine)
        hp_progress_leave(comm);
    return result;
}
