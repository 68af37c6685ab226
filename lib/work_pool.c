/* SPDX-License-Identifier: MIT */
/* work_pool: see work_pool.h. The three lists are guarded by the driver's mutex. */
#include "lib/work_pool.h"

#include "base/mem.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static hoop_work *
allocate(hp_driver *d)
{
    hoop_work *work = hp_alloc(1, sizeof(*work));
    if (!work)
        return NULL;
    pthread_mutex_lock(&d->mutex);
    work->made_before = d->made;
    d->made = work;
    pthread_mutex_unlock(&d->mutex);
    return work;
}

hoop_work *
hp_work_pool_take(hoop_comm *comm)
{
    hp_driver *d = &comm->driver;
    hoop_work *work;
    pthread_mutex_lock(&d->mutex);
    work = d->free;
    if (work)
        d->free = work->next;
    pthread_mutex_unlock(&d->mutex);
    if (!work)
        return allocate(d);
    memset(work, 0, offsetof(hoop_work, array));
    return work;
}

hoop_work *
hp_work_pool_make(hoop_comm *comm, const hp_request *request, int device)
{
    hoop_work *work = hp_work_pool_take(comm);
    if (!work)
        return NULL;
    work->call = request->call;
    work->calls = 1;
    work->device = device;
    work->place.in_place = request->in_place;
    hp_work_single(work, request->send, request->recv);
    return work;
}

void
hp_work_pool_give(hoop_comm *comm, hoop_work *work)
{
    hp_driver *d = &comm->driver;
    pthread_mutex_lock(&d->mutex);
    work->next = d->free;
    d->free = work;
    pthread_mutex_unlock(&d->mutex);
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
        hp_plan_make(&work->plan[c], &work->call, comm->order, comm->size, &options, c, work->channels);
    work->place.direct = comm->device[work->device]->ops->addressable(comm->device[work->device]);
    work->piece = HP_PIECE_BYTES;
    work->place.slots = hp_config_number(&comm->config, HP_SET_zerocopy_bytes) > 0;
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
        free(work);
    }
    while (comm->driver.free_arrays) {
        hp_segment *array = comm->driver.free_arrays;
        comm->driver.free_arrays = next_array(array);
        free(array);
    }
}
