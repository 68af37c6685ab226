/* SPDX-License-Identifier: MIT */
/*
 * cuda_queue: commands on a stream. A command is one kernel and one write of its ticket into host memory, so that
 * `done` is a load. A wake is an eventfd written by a host function on a stream aside. The first error of a queue is
 * kept: from then on nothing is submitted, and the commands that did not finish never will.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "gpu/cuda_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define HEALTH_INTERVAL (5 * HP_MS) /* a stream that does not advance is asked for errors that often */

enum { PAGE = 4096 };

static hp_cuda_queue *
as_cuda(hp_queue *queue)
{
    return (hp_cuda_queue *)queue;
}

static hoop_result
note(hp_cuda_queue *queue, hp_cu_result result, const char *call, const char *doing)
{
    if (result == HP_CU_SUCCESS || queue->status.code != HOOP_SUCCESS)
        return queue->status.code;
    return hp_cuda_check(&queue->status, result, call, doing);
}

/* After an error already kept, the context is entered all the same: there are things to let go of. */
static hoop_result
enter(hp_cuda_queue *queue, hp_cu_context *before)
{
    return hp_cuda_enter(queue->device, before, queue->status.code == HOOP_SUCCESS ? &queue->status : NULL);
}

/* --- submit --- */

static unsigned
grid_for(const hp_cuda_queue *queue, uint64_t units)
{
    uint64_t blocks = (units + HP_KERNEL_THREADS - 1) / HP_KERNEL_THREADS;
    uint64_t most = (uint64_t)queue->device->blocks;
    return (unsigned)(blocks > most ? most : blocks > 0 ? blocks : 1);
}

static hoop_result
run_kernel(hp_cuda_queue *queue, int kernel, unsigned blocks, unsigned threads, hp_kernel_args *args)
{
    void *parameters[] = {args};
    hp_cuda_device *device = queue->device;
    return note(queue,
                device->driver->launch_kernel(device->kernels[kernel], blocks, 1, 1, threads, 1, 1, 0, queue->stream,
                                              parameters, NULL),
                "cuLaunchKernel", "submitting a command");
}

static int
log2_of(size_t size)
{
    return size == 8 ? 3 : size == 4 ? 2 : size == 2 ? 1 : 0;
}

static hoop_dtype
type_of(const hp_command *command, const hp_operand *operand)
{
    return operand->wire ? command->wire : command->elem;
}

/* Whether every operand is of the type of the first. */
static int
one_type(const hp_command *command)
{
    hoop_dtype type = type_of(command, &command->src[0]);
    return (command->sources < 2 || type_of(command, &command->src[1]) == type) &&
           type_of(command, &command->dst[0]) == type &&
           (command->destinations < 2 || type_of(command, &command->dst[1]) == type);
}

/* A command that neither computes nor converts is a movement of bytes. */
static int
kernel_for(const hp_command *command)
{
    hoop_dtype type = type_of(command, &command->src[0]);
    int op = command->sources < 2 || command->op == HOOP_AVG ? HOOP_SUM : (int)command->op;
    if (!one_type(command))
        return HP_CUDA_WIRE;
    if (command->ranks[0] > 0)
        return HP_CUDA_MEAN + hp_narrow_index(type);
    if (command->exchange || (command->sources == 1 && command->divisor <= 1))
        return HP_CUDA_COPY + log2_of(hp_dtype_size(type));
    return HP_CUDA_REDUCE + 4 * (int)type + op;
}

hoop_result
hp_cuda_launch(hp_cuda_queue *queue, const hp_command *command, const hp_cu_pointer address[4])
{
    hp_kernel_args args = {
        .src = {(const void *)(uintptr_t)address[0], (const void *)(uintptr_t)address[1]},
        .dst = {(void *)(uintptr_t)address[2], (void *)(uintptr_t)address[3]},
        .count = command->count,
        .divisor = command->divisor,
        .ranks = {command->ranks[0], command->ranks[1]},
        .sources = (uint8_t)command->sources,
        .destinations = (uint8_t)command->destinations,
        .exchange = command->exchange != 0,
        .elem = (uint8_t)command->elem,
        .wire = (uint8_t)command->wire,
        .op = (uint8_t)(command->op == HOOP_AVG ? HOOP_SUM : command->op),
        .src_wire = {command->src[0].wire != 0, command->src[1].wire != 0},
        .dst_wire = {command->dst[0].wire != 0, command->dst[1].wire != 0},
    };
    int kernel = kernel_for(command);
    size_t at_once = kernel == HP_CUDA_WIRE ? 1 : 16 / hp_dtype_size(type_of(command, &command->src[0]));
    return run_kernel(queue, kernel, grid_for(queue, command->count / at_once + 1), HP_KERNEL_THREADS, &args);
}

static hoop_result
place_and_launch(hp_cuda_queue *queue, const hp_command *command)
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

/* The stream's last word on everything so far: the ticket, in host memory, after all writes before it. */
static hoop_result
stamp(hp_cuda_queue *queue, uint64_t ticket)
{
    hp_cuda_device *device = queue->device;
    hp_kernel_args args = {.dst = {(void *)(uintptr_t)queue->counter_device}, .value = ticket};
    if (!device->memory_ops)
        return run_kernel(queue, HP_CUDA_STAMP, 1, 1, &args);
    return note(queue, device->driver->stream_write_64(queue->stream, queue->counter_device, ticket, 0),
                "cuStreamWriteValue64", "submitting a command");
}

hoop_result
hp_cuda_may_submit(hp_cuda_queue *queue)
{
    if (queue->status.code == HOOP_SUCCESS && atomic_load_explicit(&queue->device->released, memory_order_acquire))
        hp_err_set(&queue->status, HOOP_ERR_ABORTED, "the callers' streams were let go while a command was submitted");
    return queue->status.code;
}

uint64_t
hp_cuda_submit(hp_queue *base, const hp_command *command)
{
    hp_cuda_queue *queue = as_cuda(base);
    hp_cu_context before;
    if (hp_cuda_may_submit(queue) != HOOP_SUCCESS)
        return 0;
    enter(queue, &before);
    if (queue->status.code == HOOP_SUCCESS && command->destinations > 0 && command->count > 0)
        place_and_launch(queue, command);
    if (queue->status.code == HOOP_SUCCESS)
        stamp(queue, queue->submitted + 1);
    hp_cuda_leave(queue->device, before);
    return queue->status.code == HOOP_SUCCESS ? ++queue->submitted : 0;
}

/* --- completion --- */

/* A kernel that fails never stamps: only the driver knows. Asked seldom, and only while nothing moves. */
void
hp_cuda_check_health(hp_cuda_queue *queue)
{
    uint64_t now = hp_now();
    hp_cu_context before;
    if (queue->status.code != HOOP_SUCCESS || now - queue->looked < HEALTH_INTERVAL)
        return;
    queue->looked = now;
    if (enter(queue, &before) == HOOP_SUCCESS) {
        hp_cu_result result = queue->device->driver->stream_query(queue->stream);
        if (result != HP_CU_NOT_READY)
            note(queue, result, "cuStreamQuery", "a command was running");
    }
    hp_cuda_leave(queue->device, before);
}

static void
take_wake(hp_cuda_queue *queue)
{
    uint64_t count;
    if (atomic_exchange(&queue->woken, 0)) {
        ssize_t got = read(queue->fd, &count, sizeof(count));
        (void)got; /* nothing to read: it was taken already */
    }
}

uint64_t
hp_cuda_done(hp_queue *base)
{
    hp_cuda_queue *queue = as_cuda(base);
    uint64_t done = atomic_load_explicit(queue->counter, memory_order_acquire);
    take_wake(queue);
    if (done < queue->submitted)
        hp_cuda_check_health(queue);
    queue->told = done;
    return done;
}

int
hp_cuda_wake_fd(hp_queue *base)
{
    return as_cuda(base)->fd;
}

/* Also the host function, on a thread of the driver's: the descriptor first, so that whoever sees the flag can read. */
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
    const char *doing = "asking for a wake";
    hp_cu_context before;
    enter(queue, &before);
    if (queue->status.code == HOOP_SUCCESS)
        note(queue, driver->event_record(queue->wake, queue->stream), "cuEventRecord", doing);
    if (queue->status.code == HOOP_SUCCESS)
        note(queue, driver->stream_wait_event(queue->aside, queue->wake, 0), "cuStreamWaitEvent", doing);
    if (queue->status.code == HOOP_SUCCESS)
        note(queue, driver->launch_host(queue->aside, wake, queue), "cuLaunchHostFunc", doing);
    hp_cuda_leave(queue->device, before);
    return queue->status.code;
}

/* A wake when all that is submitted now is done, if none is on its way. */
static void
expect(hp_cuda_queue *queue)
{
    if (queue->armed == queue->submitted)
        return;
    queue->armed = queue->submitted;
    if (order_wake(queue) != HOOP_SUCCESS)
        wake(queue);
}

/* A caller who knows already that all is done, or that all has failed, is not woken again. */
void
hp_cuda_wake_arm(hp_queue *base)
{
    hp_cuda_queue *queue = as_cuda(base);
    uint64_t done = atomic_load_explicit(queue->counter, memory_order_acquire);
    int ended = queue->status.code != HOOP_SUCCESS || done >= queue->submitted;
    if (!ended)
        expect(queue);
    else if (queue->status.code != queue->told_code || (queue->status.code == HOOP_SUCCESS && queue->told < done))
        wake(queue);
}

/* --- open, close --- */

static hoop_result
make_streams(hp_cuda_queue *queue)
{
    const hp_cuda_driver *driver = queue->device->driver;
    int priority = queue->device->priority;
    note(queue, driver->stream_create(&queue->stream, HP_CU_STREAM_NON_BLOCKING, priority),
         "cuStreamCreateWithPriority", "making a queue");
    if (queue->status.code == HOOP_SUCCESS)
        note(queue, driver->stream_create(&queue->aside, HP_CU_STREAM_NON_BLOCKING, priority),
             "cuStreamCreateWithPriority", "making a queue");
    if (queue->status.code == HOOP_SUCCESS)
        note(queue, driver->event_create(&queue->wake, HP_CU_EVENT_NO_TIMING), "cuEventCreate", "making a queue");
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
 * What commands and callers' streams will ask of the driver, once, with nothing to do. A driver that loads a kernel,
 * starts a thread or makes room when it is first needed may wait for every stream then, also for one that waits for us.
 */
static hoop_result
rehearse(hp_cuda_queue *queue)
{
    const hp_cuda_driver *driver = queue->device->driver;
    const char *doing = "trying a new queue";
    void *nothing = (void *)(uintptr_t)queue->counter_device; /* 0, and a stamp or a gate of 0 leaves it so */
    hp_kernel_args args = {.src = {nothing, nothing}, .dst = {nothing, nothing}, .sources = 1, .destinations = 1};
    for (int kernel = 0; kernel < HP_CUDA_KERNELS && queue->status.code == HOOP_SUCCESS; kernel++)
        run_kernel(queue, kernel, 1, 1, &args);
    if (queue->status.code == HOOP_SUCCESS)
        stamp(queue, 0);
    if (queue->status.code == HOOP_SUCCESS && queue->device->memory_ops)
        note(queue, driver->stream_wait_32(queue->stream, queue->counter_device, 0, HP_CU_WAIT_GEQ),
             "cuStreamWaitValue32", doing);
    if (queue->status.code == HOOP_SUCCESS)
        order_wake(queue);
    if (queue->status.code == HOOP_SUCCESS)
        note(queue, driver->stream_synchronize(queue->aside), "cuStreamSynchronize", doing);
    take_wake(queue);
    return queue->status.code;
}

static hoop_result
make_queue(hp_cuda_queue *queue)
{
    hp_cu_context before;
    queue->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (queue->fd < 0)
        return hp_err_sys(&queue->status, HOOP_ERR_SYSTEM, errno, "cannot make an eventfd for a GPU queue");
    /*
     * the stage too, though few commands need it: its pages may not be pinned while a caller's stream waits for a
     * command
     */
    if (make_counter(queue) != HOOP_SUCCESS || hp_cuda_bounce_new(queue) != HOOP_SUCCESS)
        return queue->status.code;
    enter(queue, &before);
    if (queue->status.code == HOOP_SUCCESS)
        make_streams(queue);
    if (queue->status.code == HOOP_SUCCESS)
        rehearse(queue);
    hp_cuda_leave(queue->device, before);
    return queue->status.code;
}

hoop_result
hp_cuda_queue_open(hp_device *device, hp_queue **out, hoop_error *error)
{
    hp_cuda_queue *queue = hp_alloc(1, sizeof(*queue));
    *out = NULL;
    if (!queue)
        return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory while making a GPU queue");
    queue->base.ops = &hp_cuda_ops;
    queue->device = (hp_cuda_device *)device;
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
        if (queue->aside) {
            (void)driver->stream_synchronize(queue->aside);
            (void)driver->stream_destroy(queue->aside);
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
    hp_cu_context before;
    if (!queue)
        return;
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

/* --- the end of all commands --- */

hoop_result
hp_cuda_drain(hp_queue *base)
{
    hp_cuda_queue *queue = as_cuda(base);
    hp_cu_context before;
    /* Also after an error: what was submitted before it may still be running. */
    if (enter(queue, &before) == HOOP_SUCCESS)
        note(queue, queue->device->driver->stream_synchronize(queue->stream), "cuStreamSynchronize",
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
    queue->told_code = queue->status.code;
    return queue->status.code;
}
