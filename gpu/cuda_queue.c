/* SPDX-License-Identifier: MIT */
/*
 * cuda_queue: a command is one kernel on the queue's stream, and one write of the command's ticket into host memory, so
 * that `done` is a load. The wake is an eventfd; a host function on a second stream writes it. The queue keeps its
 * first error: then nothing more is submitted, and the commands that were not complete never will be.
 */
#include "gpu/cuda_queue.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "gpu/cuda_bounce.h"
#include "gpu/cuda_context.h"
#include "gpu/cuda_launch.h"
#include "gpu/cuda_memtype.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define HEALTH_INTERVAL (5 * HP_MS)

enum { PAGE = 4096 };

static hp_cuda_queue *
as_cuda(hp_queue *queue)
{
    return (hp_cuda_queue *)queue;
}

/* After an error already kept, the context is entered all the same, so that the caller can free. */
static hoop_result
enter(hp_cuda_queue *queue, hp_cu_context *before)
{
    return hp_cuda_enter(queue->device, before, queue->status.code == HOOP_SUCCESS ? &queue->status : NULL);
}

/* --- submit --- */

static hoop_result
launch(hp_cuda_queue *queue, const hp_command *command)
{
    const void *memory[4] = {command->src[0].ptr, command->src[1].ptr, command->dst[0].ptr, command->dst[1].ptr};
    int used[4] = {1, command->sources > 1, 1, command->destinations > 1};
    hp_cu_pointer address[4] = {0};
    hp_cuda_memtype memtype[4] = {HP_CUDA_MEM_DIRECT, HP_CUDA_MEM_DIRECT, HP_CUDA_MEM_DIRECT, HP_CUDA_MEM_DIRECT};
    int direct = 1;
    for (int i = 0; i < 4; i++) {
        if (used[i])
            memtype[i] = hp_cuda_memtype_of(queue->device, memory[i], &address[i], &queue->status);
        if (memtype[i] == HP_CUDA_MEM_REFUSED)
            return queue->status.code;
        direct = direct && memtype[i] == HP_CUDA_MEM_DIRECT;
    }
    return direct ? hp_cuda_launch(queue, command, address) : hp_cuda_bounce_run(queue, command, memtype, address);
}

/* The GPU writes the ticket into host memory, after all writes of the commands before. */
static hoop_result
write_ticket(hp_cuda_queue *queue, uint64_t ticket, const char *doing)
{
    return hp_cuda_write_value(queue->device, queue->stream, queue->counter_device, ticket, doing, &queue->status);
}

uint64_t
hp_cuda_submit(hp_queue *base, const hp_command *command)
{
    hp_cuda_queue *queue = as_cuda(base);
    if (hp_cuda_may_submit(queue) != HOOP_SUCCESS)
        return 0;
    hp_cu_context before;
    enter(queue, &before);
    if (queue->status.code == HOOP_SUCCESS && command->destinations > 0 && command->count > 0)
        launch(queue, command);
    if (queue->status.code == HOOP_SUCCESS)
        write_ticket(queue, queue->submitted + 1, "submitting a command");
    hp_cuda_leave(queue->device, before);
    return queue->status.code == HOOP_SUCCESS ? ++queue->submitted : 0;
}

/* --- completion --- */

void
hp_cuda_check_health(hp_queue *base)
{
    hp_cuda_queue *queue = as_cuda(base);
    uint64_t now = hp_now();
    if (queue->status.code != HOOP_SUCCESS || now - queue->asked < HEALTH_INTERVAL)
        return;
    queue->asked = now;
    hp_cu_context before;
    if (enter(queue, &before) == HOOP_SUCCESS) {
        hp_cu_result result = queue->device->driver->stream_query(queue->stream);
        if (result != HP_CU_NOT_READY)
            hp_cuda_keep_error(queue, result, "cuStreamQuery", "a command was running");
    }
    hp_cuda_leave(queue->device, before);
}

static void
take_wake(hp_cuda_queue *queue)
{
    uint64_t count;
    if (atomic_exchange(&queue->woken, 0)) {
        ssize_t got = read(queue->fd, &count, sizeof(count));
        (void)got; /* an earlier call has read it */
    }
}

uint64_t
hp_cuda_done(hp_queue *base)
{
    hp_cuda_queue *queue = as_cuda(base);
    uint64_t done = atomic_load_explicit(queue->counter, memory_order_acquire);
    take_wake(queue);
    if (done < queue->submitted)
        hp_cuda_check_health(base);
    queue->reported = done;
    return done;
}

int
hp_cuda_wake_fd(hp_queue *base)
{
    return as_cuda(base)->fd;
}

/* Also a host function, on the driver's thread. The write comes first: a thread that sees the flag can then read. */
static void
wake(void *arg)
{
    hp_cuda_queue *queue = arg;
    uint64_t one = 1;
    ssize_t put = write(queue->fd, &one, sizeof(one));
    (void)put; /* full: readable already */
    atomic_store(&queue->woken, 1);
}

static hoop_result
order_wake(hp_cuda_queue *queue)
{
    const hp_cuda_driver *driver = queue->device->driver;
    const char *doing = "asking for a wake-up";
    hp_cu_context before;
    enter(queue, &before);
    if (queue->status.code == HOOP_SUCCESS)
        hp_cuda_keep_error(queue, driver->event_record(queue->wake, queue->stream), "cuEventRecord", doing);
    if (queue->status.code == HOOP_SUCCESS)
        hp_cuda_keep_error(queue, driver->stream_wait_event(queue->wake_stream, queue->wake, 0), "cuStreamWaitEvent",
                           doing);
    if (queue->status.code == HOOP_SUCCESS)
        hp_cuda_keep_error(queue, driver->launch_host(queue->wake_stream, wake, queue), "cuLaunchHostFunc", doing);
    hp_cuda_leave(queue->device, before);
    return queue->status.code;
}

/* A wake for the last submitted command, unless one is ordered already. */
static void
expect_wake(hp_cuda_queue *queue)
{
    if (queue->armed == queue->submitted)
        return;
    queue->armed = queue->submitted;
    if (order_wake(queue) != HOOP_SUCCESS)
        wake(queue);
}

/* `done` and `status` have returned to some callers that all is complete, or has failed: those are not woken again. */
void
hp_cuda_wake_arm(hp_queue *base)
{
    hp_cuda_queue *queue = as_cuda(base);
    uint64_t done = atomic_load_explicit(queue->counter, memory_order_acquire);
    int ended = queue->status.code != HOOP_SUCCESS || done >= queue->submitted;
    if (!ended)
        expect_wake(queue);
    else if (queue->status.code != queue->reported_code ||
             (queue->status.code == HOOP_SUCCESS && queue->reported < done))
        wake(queue);
}

/* Also after an error: commands that were submitted before it may still be running. */
hoop_result
hp_cuda_drain(hp_queue *base)
{
    hp_cuda_queue *queue = as_cuda(base);
    hp_cu_context before;
    if (enter(queue, &before) == HOOP_SUCCESS)
        hp_cuda_keep_error(queue, queue->device->driver->stream_synchronize(queue->stream), "cuStreamSynchronize",
                           "waiting for the last commands");
    hp_cuda_leave(queue->device, before);
    return queue->status.code;
}

hoop_result
hp_cuda_status(hp_queue *base, hoop_error *error)
{
    hp_cuda_queue *queue = as_cuda(base);
    if (queue->status.code != HOOP_SUCCESS && error)
        *error = queue->status;
    queue->reported_code = queue->status.code;
    return queue->status.code;
}

/* --- open, close --- */

static hoop_result
make_streams(hp_cuda_queue *queue)
{
    const hp_cuda_driver *driver = queue->device->driver;
    const char *doing = "making a queue";
    int priority = queue->device->priority;
    hp_cuda_keep_error(queue, driver->stream_create(&queue->stream, HP_CU_STREAM_NON_BLOCKING, priority),
                       "cuStreamCreateWithPriority", doing);
    if (queue->status.code == HOOP_SUCCESS)
        hp_cuda_keep_error(queue, driver->stream_create(&queue->wake_stream, HP_CU_STREAM_NON_BLOCKING, priority),
                           "cuStreamCreateWithPriority", doing);
    if (queue->status.code == HOOP_SUCCESS)
        hp_cuda_keep_error(queue, driver->event_create(&queue->wake, HP_CU_EVENT_NO_TIMING), "cuEventCreate", doing);
    return queue->status.code;
}

static hoop_result
make_counter(hp_cuda_queue *queue)
{
    hp_cuda_device *device = queue->device;
    queue->counter = hp_pages(PAGE);
    if (!queue->counter)
        return hp_err_set(&queue->status, HOOP_ERR_NO_MEMORY, "out of memory while making a GPU queue");
    if (hp_cuda_pin(&device->base, queue->counter, PAGE, &queue->status) != HOOP_SUCCESS) {
        hp_pages_free(queue->counter, PAGE);
        queue->counter = NULL;
        return queue->status.code;
    }
    queue->counter_device = hp_cuda_page(device, queue->counter);
    return HOOP_SUCCESS;
}

/*
 * Calls everything that commands and callers' streams will need of the driver, once, with no elements. A driver that
 * loads a kernel, starts a thread or allocates on first use may then wait for every stream, also for a stream that is
 * waiting for hoop.
 */
static hoop_result
warm_up(hp_cuda_queue *queue)
{
    const hp_cuda_driver *driver = queue->device->driver;
    const char *doing = "trying a new queue";
    hp_cuda_launch_all(queue, queue->counter_device);
    if (queue->status.code == HOOP_SUCCESS)
        write_ticket(queue, 0, doing);
    if (queue->status.code == HOOP_SUCCESS)
        hp_cuda_wait_value(queue->device, queue->stream, queue->counter_device, 0, doing, &queue->status);
    if (queue->status.code == HOOP_SUCCESS)
        order_wake(queue);
    if (queue->status.code == HOOP_SUCCESS)
        hp_cuda_keep_error(queue, driver->stream_synchronize(queue->wake_stream), "cuStreamSynchronize", doing);
    take_wake(queue);
    return queue->status.code;
}

/*
 * The bounce buffer too is made here, though few commands need it: pinning its pages may wait for a caller's stream
 * that waits for a command.
 */
static hoop_result
make_queue(hp_cuda_queue *queue)
{
    queue->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (queue->fd < 0)
        return hp_err_sys(&queue->status, HOOP_ERR_SYSTEM, errno, "cannot make an eventfd for a GPU queue");
    if (make_counter(queue) != HOOP_SUCCESS || hp_cuda_bounce_new(queue) != HOOP_SUCCESS)
        return queue->status.code;
    hp_cu_context before;
    enter(queue, &before);
    if (queue->status.code == HOOP_SUCCESS)
        make_streams(queue);
    if (queue->status.code == HOOP_SUCCESS)
        warm_up(queue);
    hp_cuda_leave(queue->device, before);
    return queue->status.code;
}

hoop_result
hp_cuda_queue_open(hp_device *device, hp_queue **out, hoop_error *error)
{
    *out = NULL;
    hp_cuda_queue *queue = hp_alloc(1, sizeof(*queue));
    if (!queue)
        return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory while making a GPU queue");
    queue->base.ops = device->ops;
    queue->device = hp_cuda_device_of(device);
    queue->status.size = sizeof(queue->status);
    hp_err_clear(&queue->status);
    hoop_result result = make_queue(queue);
    if (result != HOOP_SUCCESS) {
        if (error)
            *error = queue->status;
        hp_cuda_queue_close(&queue->base);
        return result;
    }
    *out = &queue->base;
    return HOOP_SUCCESS;
}

static void
close_streams(hp_cuda_queue *queue)
{
    const hp_cuda_driver *driver = queue->device->driver;
    if (queue->stream) {
        (void)driver->stream_synchronize(queue->stream);
        if (queue->wake_stream) {
            (void)driver->stream_synchronize(queue->wake_stream);
            (void)driver->stream_destroy(queue->wake_stream);
        }
        (void)driver->stream_destroy(queue->stream);
    }
    if (queue->wake)
        (void)driver->event_destroy(queue->wake);
}

void
hp_cuda_queue_close(hp_queue *base)
{
    hp_cuda_queue *queue = as_cuda(base);
    if (!queue)
        return;
    hp_cu_context before;
    (void)hp_cuda_enter(queue->device, &before, NULL);
    close_streams(queue);
    hp_cuda_bounce_free(queue);
    if (queue->counter) {
        hp_cuda_unpin(&queue->device->base, queue->counter);
        hp_pages_free(queue->counter, PAGE);
    }
    hp_cuda_leave(queue->device, before);
    if (queue->fd >= 0)
        close(queue->fd);
    free(queue);
}
