/* SPDX-License-Identifier: MIT */
/* devices: see devices.h. */
#include "lib/devices.h"

#include "base/err.h"
#include "lib/channel.h"
#include "lib/registry.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

/* The GPU that was prepared is another one than the first call wants. Under the driver's mutex. */
static int
is_wrong(const hoop_comm *comm, const void *ptr)
{
    hp_device *device = comm->device[1];
    return device && !comm->gpu.chosen && device->ops->serves && !device->ops->serves(device, ptr);
}

/*
 * Takes the lock of registry.c, unless this communicator's GPU is prepared. Another thread holds that lock while it
 * prepares the GPU of communicators, which may take long; it leaves one that is prepared alone, so its own thread need
 * not wait.
 */
static int
lock_unless_ready(hoop_comm *comm)
{
    if (atomic_load(&comm->gpu.prepared))
        return 0;
    hp_registry_lock();
    return 1;
}

/*
 * Whether it is too late to open or prepare a GPU: its driver may make this thread wait for a blocked stream, which
 * waits for an operation of this library.
 */
static int
comes_too_late(hoop_comm *comm, const void *ptr)
{
    int late, locked;
    if (atomic_load(&comm->gpu.pinned) & 1 << 1)
        return 0;
    locked = lock_unless_ready(comm);
    pthread_mutex_lock(&comm->driver.mutex);
    late = hp_registry_blocked() && (!atomic_load(&comm->gpu.prepared) || !comm->device[1] || is_wrong(comm, ptr));
    pthread_mutex_unlock(&comm->driver.mutex);
    if (locked)
        hp_registry_unlock();
    return late;
}

/* Opened when it is first needed. 1, or -1 with the error filled. */
static int
open_device(hoop_comm *comm, const hp_device_ops *ops, const void *ptr, hoop_error *error)
{
    hp_device *device;
    if (comes_too_late(comm, ptr)) {
        hp_err_set(
            error, HOOP_ERR_INVALID_USAGE,
            "the first use of the GPU by this communicator could deadlock, because a stream is blocked by another one: "
            "synchronise that stream first, or create this communicator before that operation");
        return -1;
    }
    pthread_mutex_lock(&comm->driver.mutex);
    while (is_wrong(comm, ptr)) {
        pthread_mutex_unlock(&comm->driver.mutex);
        hp_registry_lock();
        pthread_mutex_lock(&comm->driver.mutex);
        if (is_wrong(comm, ptr)) {
            for (uint32_t c = 0; c < comm->channels; c++)
                hp_channel_detach(comm->channel[c], 1);
            comm->device[1]->ops->close(comm->device[1]);
            comm->device[1] = NULL;
            atomic_store(&comm->gpu.prepared, 0);
        }
        pthread_mutex_unlock(&comm->driver.mutex);
        hp_registry_unlock();
        pthread_mutex_lock(&comm->driver.mutex);
    }
    device = comm->device[1];
    if (!device && ops->open(&device, ptr, error) == HOOP_SUCCESS)
        comm->device[1] = device;
    comm->gpu.chosen |= device != NULL;
    pthread_mutex_unlock(&comm->driver.mutex);
    if (!device || (device->ops->admit && device->ops->admit(device, ptr, error) != HOOP_SUCCESS))
        return -1;
    return 1;
}

static int
device_of(hoop_comm *comm, const void *ptr, hoop_error *error)
{
    const hp_device_ops *ops = ptr ? hp_device_of(ptr) : &hp_host_ops;
    return ops == &hp_host_ops ? 0 : open_device(comm, ops, ptr, error);
}

int
hp_devices_of(hoop_comm *comm, const void *send, const void *recv, hoop_error *error)
{
    int first = device_of(comm, send, error);
    int second = first < 0 || recv == send ? first : device_of(comm, recv, error);
    return second < 0 || second > first ? second : first;
}

int
hp_devices_of_stream(hoop_comm *comm, hoop_error *error)
{
    return open_device(comm, &hp_cuda_ops, NULL, error);
}

/* Opening takes long, and the driver needs the mutex, so it is not held: a call may have opened the device meanwhile. */
static void
prepare(hoop_comm *comm, const void *ptr)
{
    hoop_error error = {.size = sizeof(error)};
    hoop_result result = HOOP_SUCCESS;
    hp_device *fresh = NULL;
    if (atomic_load(&comm->fault.failed))
        return;
    pthread_mutex_lock(&comm->driver.mutex);
    hp_device *device = comm->device[1];
    pthread_mutex_unlock(&comm->driver.mutex);
    if (!device && hp_cuda_ops.open(&fresh, ptr, &error) == HOOP_SUCCESS) {
        pthread_mutex_lock(&comm->driver.mutex);
        if (!comm->device[1])
            comm->device[1] = fresh;
        device = comm->device[1];
        pthread_mutex_unlock(&comm->driver.mutex);
        if (device != fresh)
            fresh->ops->close(fresh);
    }
    for (uint32_t c = 0; device && result == HOOP_SUCCESS && c < comm->channels; c++)
        result = hp_channel_attach(comm->channel[c], 1, device, &error);
    atomic_store(&comm->gpu.prepared, device && result == HOOP_SUCCESS); /* otherwise it is tried again */
}

void
hp_devices_block(hoop_comm *comm, const void *send, const void *recv)
{
    hp_registry_lock();
    const void *ptr = hp_device_of(send) == &hp_cuda_ops ? send : recv;
    for (hoop_comm *other = hp_registry_first(); other && !hp_registry_blocked(); other = other->next_registered)
        if (other != comm && !atomic_load(&other->gpu.prepared))
            prepare(other, ptr);
    hp_registry_block(comm, 1);
    hp_registry_unlock();
}

hoop_result
hp_devices_pin(hoop_comm *comm, int index, hoop_error *error)
{
    hoop_result result = HOOP_SUCCESS;
    if (atomic_load(&comm->gpu.pinned) & (1 << index))
        return HOOP_SUCCESS;
    *error = (hoop_error){.size = sizeof(*error)};
    int locked = lock_unless_ready(comm);
    atomic_store(&comm->gpu.prepared, 1);
    for (uint32_t c = 0; c < comm->channels && result == HOOP_SUCCESS; c++)
        result = hp_channel_pin(comm->channel[c], index, comm->device[index], error);
    if (locked)
        hp_registry_unlock();
    if (result == HOOP_SUCCESS)
        atomic_fetch_or(&comm->gpu.pinned, 1 << index);
    else
        error->rank = error->reporter = comm->rank;
    return result;
}

static void
on_queue(void *arg, int ready)
{
    int fd = *(int *)arg;
    uint64_t count;
    (void)ready;
    /* the belt polls the queue next; this only takes the wake-up away */
    while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR)
        ;
}

void
hp_devices_await(hoop_comm *comm, int index, int ms)
{
    struct pollfd wakes[HP_CHANNELS_MAX];
    nfds_t n = 0;
    for (uint32_t c = 0; c < comm->channels; c++) {
        hp_queue *queue = comm->channel[c]->queue[index];
        if (!queue || queue->ops->wake_fd(queue) < 0)
            continue;
        queue->ops->wake_arm(queue);
        wakes[n++] = (struct pollfd){.fd = queue->ops->wake_fd(queue), .events = POLLIN};
    }
    poll(wakes, n, ms);
    for (nfds_t i = 0; i < n; i++)
        if (wakes[i].revents & POLLIN)
            on_queue(&wakes[i].fd, HP_READ);
}

void
hp_devices_watch(hoop_comm *comm, int device)
{
    for (uint32_t c = 0; c < comm->channels; c++) {
        hp_queue *queue = comm->channel[c]->queue[device];
        int fd = queue->ops->wake_fd(queue);
        if (fd < 0 || comm->gpu.queue_watch[c])
            continue;
        comm->gpu.queue_fd[c] = fd;
        comm->gpu.queue_watch[c] = hp_watch_new(comm->loop, fd, on_queue, &comm->gpu.queue_fd[c]);
        if (comm->gpu.queue_watch[c])
            hp_watch_set(comm->gpu.queue_watch[c], HP_READ);
    }
}

/* --- copies of messages --- */

enum { GPU = 1 }; /* a communicator's one device beside the host */

hp_room *
hp_devices_take(hoop_comm *comm, int sending)
{
    for (int i = 0; i < HP_ROOMS; i++) {
        hp_room *room = &comm->messages.room[sending][i];
        if (room->held || !hp_devices_done(comm, room->ticket))
            continue;
        *room = (hp_room){.held = 1};
        room->memory = comm->channel[0]->rooms + (size_t)(sending * HP_ROOMS + i) * comm->channel[0]->o.room_bytes;
        return room;
    }
    return NULL;
}

uint64_t
hp_devices_copy(hoop_comm *comm, const hp_call *call, void *to, const void *from, uint64_t bytes)
{
    hp_queue *queue = comm->channel[0]->queue[GPU];
    hoop_dtype dtype = (hoop_dtype)call->dtype;
    hp_command command = {.elem = dtype, .wire = dtype, .op = HOOP_SUM, .sources = 1, .destinations = 1};
    command.src[0].ptr = (void *)(uintptr_t)from;
    command.dst[0].ptr = to;
    command.count = (size_t)(bytes / hp_dtype_size(dtype));
    uint64_t ticket = queue->ops->submit(queue, &command);
    if (!ticket)
        return UINT64_MAX;
    comm->messages.copied = ticket;
    return ticket;
}

int
hp_devices_done(hoop_comm *comm, uint64_t ticket)
{
    return !ticket || hp_channel_done(comm->channel[0], GPU, ticket);
}

int
hp_devices_settled(hoop_comm *comm)
{
    hp_queue *queue = comm->channel[0]->queue[GPU];
    return hp_devices_done(comm, comm->messages.copied) || queue->ops->status(queue, NULL) != HOOP_SUCCESS;
}
