/* SPDX-License-Identifier: MIT */
/*
 * group: see group.h. A fused operation is an allreduce over the concatenation of its tensors, which exists only as a
 * list of segments: packing happens inside the reductions, no byte is copied for it.
 */
#include "lib/group.h"

#include "lib/base/dtype.h"
#include "lib/base/err.h"
#include "lib/base/wire.h"
#include "lib/progress.h"

#include <stdlib.h>
#include <string.h>

static _Thread_local const hoop_comm *open_on; /* this thread's open group */

int
hp_group_is_mine(const hoop_comm *comm)
{
    return open_on == comm;
}

int
hp_group_any(void)
{
    return open_on != NULL;
}

int
hp_group_begin(hoop_comm *comm)
{
    int taken;
    pthread_mutex_lock(&comm->driver.mutex);
    taken = comm->group.open;
    if (!taken)
        comm->group = (hp_group){.open = 1};
    pthread_mutex_unlock(&comm->driver.mutex);
    if (!taken)
        open_on = comm;
    return !taken;
}

void
hp_group_add(hoop_comm *comm, hoop_work *work)
{
    hp_group *g = &comm->group;
    work->next = NULL;
    if (g->tail)
        g->tail->next = work;
    else
        g->head = work;
    g->tail = work;
}

void
hp_group_spoil(hoop_comm *comm, const hoop_error *error)
{
    if (comm->group.result == HOOP_SUCCESS) {
        comm->group.result = error->code;
        comm->group.error = *error;
    }
}

static void
drop(hoop_comm *comm, hoop_work *list)
{
    while (list) {
        hoop_work *next = list->next;
        hp_progress_recycle(comm, list);
        list = next;
    }
}

static int
is_small(const hoop_comm *comm, const hoop_work *work)
{
    uint64_t most = (uint64_t)hp_config_number(&comm->config, HP_SET_fuse_bytes);
    size_t elem = hp_dtype_size((hoop_dtype)work->call.dtype);
    return work->call.kind == HP_ALLREDUCE && work->call.count * elem <= most;
}

static int
alike(const hoop_work *a, const hoop_work *b)
{
    return a->call.dtype == b->call.dtype && a->call.op == b->call.op && a->device == b->device;
}

static int
append_segment(hoop_work *to, const hoop_work *from)
{
    if (to->segment_count == to->segment_room) {
        size_t room = to->segment_room ? 2 * to->segment_room : 64;
        hp_segment *grown = reallocarray(to->array, room, sizeof *grown);
        if (!grown)
            return 0;
        to->array = grown;
        to->segment_room = room;
    }
    to->segments = to->array;
    to->segments[to->segment_count++] = (hp_segment){to->call.count, from->call.count, from->one.send, from->one.recv};
    to->call.count += from->call.count;
    to->calls += from->calls;
    return 1;
}

/* The tensors' sizes are part of what ranks must agree on: their checksum takes the place of a root. */
static void
sign(hoop_work *fused)
{
    uint32_t crc = 0;
    for (size_t i = 0; i < fused->segment_count; i++) {
        uint8_t bytes[8];
        hp_put64(bytes, fused->segments[i].count);
        crc = hp_crc32c_more(crc, bytes, sizeof bytes);
    }
    fused->call.root = (int32_t)crc;
}

/* Takes `head` and every later small allreduce like it out of the list into one work. NULL: out of memory. */
static hoop_work *
fuse(hoop_comm *comm, hoop_work *head)
{
    hoop_work *fused = hp_progress_work(comm), **at = &head->next;
    if (!fused)
        return NULL;
    fused->call = head->call;
    fused->call.count = 0;
    fused->call.fused = 1;
    fused->device = head->device;
    hp_comm_unshelve(comm, fused);
    if (!append_segment(fused, head))
        goto no_memory;
    while (*at) {
        hoop_work *work = *at;
        if (!is_small(comm, work) || !alike(head, work)) {
            at = &work->next;
            continue;
        }
        if (!append_segment(fused, work))
            goto no_memory;
        *at = work->next;
        hp_progress_recycle(comm, work);
    }
    fused->next = head->next;
    hp_progress_recycle(comm, head);
    sign(fused);
    return fused;
no_memory:
    hp_progress_recycle(comm, fused);
    return NULL;
}

static int
has_partner(const hoop_comm *comm, const hoop_work *head)
{
    for (const hoop_work *work = head->next; work; work = work->next)
        if (is_small(comm, work) && alike(head, work))
            return 1;
    return 0;
}

hoop_result
hp_group_close(hoop_comm *comm, hoop_work **first, hoop_work **last, hoop_error *error)
{
    hp_group g = comm->group;
    hoop_work **at = &g.head;
    *first = *last = NULL;
    open_on = NULL;
    pthread_mutex_lock(&comm->driver.mutex);
    comm->group = (hp_group){0};
    pthread_mutex_unlock(&comm->driver.mutex);
    if (g.result != HOOP_SUCCESS) {
        drop(comm, g.head);
        *error = g.error;
        return g.result;
    }
    for (; *at; at = &(*at)->next) {
        if (is_small(comm, *at) && has_partner(comm, *at)) {
            hoop_work *fused = fuse(comm, *at);
            if (!fused) {
                drop(comm, g.head);
                return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory for a group's fused operation");
            }
            *at = fused;
        }
        hp_comm_plan(comm, *at);
        (*at)->detached = (*at)->next != NULL;
        *last = *at;
    }
    *first = g.head;
    return HOOP_SUCCESS;
}
