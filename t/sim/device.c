/* SPDX-License-Identifier: MIT */
/* device: see sim.h. The arithmetic is the host's; the test decides when it happens and when `done` reports it. */
#include "base/err.h"
#include "t/sim/sim.h"

#include <stdlib.h>

enum { QUEUE_ROOM = 4096 };

typedef struct sim_device {
    hp_device device;
    sim_device_options o;
    int pinned, held;
} sim_device;

typedef struct sim_queue {
    hp_queue queue;
    sim_device *device;
    hp_command *commands;
    uint64_t submitted, done, told;
    int failed;
} sim_queue;

static const hp_device_ops sim_ops;

hp_device *
sim_device_new(const sim_device_options *options)
{
    sim_device *d = calloc(1, sizeof(*d));
    d->device.ops = &sim_ops;
    d->o = *options;
    return &d->device;
}

void
sim_device_free(hp_device *device)
{
    free(device);
}

int
sim_device_finish(hp_queue *queue, uint64_t commands)
{
    sim_queue *q = (sim_queue *)queue;
    uint64_t before = q->done;
    while (commands-- > 0 && q->done < q->submitted && q->done + 1 != q->device->o.stick) {
        if (!q->device->o.early)
            hp_host_run(&q->commands[q->done % QUEUE_ROOM]);
        q->done++;
    }
    return q->done > before;
}

static int
sim_owns(const void *ptr)
{
    (void)ptr;
    return 0;
}

static hoop_result
sim_open(hp_device **device, const void *ptr, hoop_error *error)
{
    (void)ptr;
    *device = NULL;
    return hp_err_set(error, HOOP_ERR_INTERNAL, "the simulated device is made by its test");
}

static void
sim_close(hp_device *device)
{
    sim_device_free(device);
}

static int
sim_addressable(hp_device *device)
{
    return ((sim_device *)device)->o.addressable;
}

static hoop_result
sim_pin(hp_device *device, void *pages, size_t bytes, hoop_error *error)
{
    (void)pages, (void)bytes, (void)error;
    ((sim_device *)device)->pinned++;
    return HOOP_SUCCESS;
}

static void
sim_unpin(hp_device *device, void *pages)
{
    (void)pages;
    ((sim_device *)device)->pinned--;
}

static hoop_result
sim_queue_open(hp_device *device, hp_queue **queue, hoop_error *error)
{
    sim_queue *q = calloc(1, sizeof(*q));
    (void)error;
    q->queue.ops = &sim_ops;
    q->device = (sim_device *)device;
    q->commands = calloc(QUEUE_ROOM, sizeof(*q->commands));
    *queue = &q->queue;
    return HOOP_SUCCESS;
}

static hoop_result
sim_drain(hp_queue *queue)
{
    sim_device_finish(queue, UINT64_MAX);
    return ((sim_queue *)queue)->failed ? HOOP_ERR_CUDA : HOOP_SUCCESS;
}

static void
sim_queue_close(hp_queue *queue)
{
    sim_drain(queue);
    free(((sim_queue *)queue)->commands);
    free(queue);
}

static uint64_t
sim_submit(hp_queue *queue, const hp_command *command)
{
    sim_queue *q = (sim_queue *)queue;
    if (q->submitted + 1 == q->device->o.refuse || q->failed || q->submitted - q->done == QUEUE_ROOM) {
        q->failed = 1;
        return 0;
    }
    q->commands[q->submitted % QUEUE_ROOM] = *command;
    if (q->device->o.early && q->submitted + 1 != q->device->o.stick)
        hp_host_run(command);
    return ++q->submitted;
}

/* Some commands end after the answer is fixed: only the next call reports them. */
static uint64_t
sim_done(hp_queue *queue)
{
    sim_queue *q = (sim_queue *)queue;
    if (q->device->held)
        return q->told;
    q->told = q->done;
    if (q->device->o.on_ask)
        sim_device_finish(queue, 1 + q->told % 4);
    return q->told;
}

void
sim_device_hold(hp_device *device, int held)
{
    ((sim_device *)device)->held = held;
}

static int
sim_wake_fd(hp_queue *queue)
{
    (void)queue;
    return -1;
}

static void
sim_wake_arm(hp_queue *queue)
{
    (void)queue;
}

static hoop_result
sim_status(hp_queue *queue, hoop_error *error)
{
    if (!((sim_queue *)queue)->failed)
        return HOOP_SUCCESS;
    return hp_err_set(error, HOOP_ERR_CUDA, "the simulated device was told to refuse this command");
}

static hoop_result
sim_gate_close(hp_device *device, void *stream, hp_gate **gate, hoop_error *error)
{
    (void)device, (void)stream;
    *gate = NULL;
    return hp_err_set(error, HOOP_ERR_UNSUPPORTED, "the simulated device has no streams");
}

static void
sim_gate_open(hp_gate *gate)
{
    (void)gate;
}

static const hp_device_ops sim_ops = {
    .name = "simulated",
    .owns = sim_owns,
    .open = sim_open,
    .close = sim_close,
    .addressable = sim_addressable,
    .pin = sim_pin,
    .unpin = sim_unpin,
    .queue_open = sim_queue_open,
    .queue_close = sim_queue_close,
    .submit = sim_submit,
    .done = sim_done,
    .wake_fd = sim_wake_fd,
    .wake_arm = sim_wake_arm,
    .drain = sim_drain,
    .status = sim_status,
    .gate_close = sim_gate_close,
    .gate_open = sim_gate_open,
};
