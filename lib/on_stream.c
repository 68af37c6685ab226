/* SPDX-License-Identifier: MIT */
/* on_stream: see on_stream.h. */
#include "lib/on_stream.h"

#include "base/err.h"
#include "lib/devices.h"
#include "lib/progress.h"
#include "lib/registry.h"
#include "lib/stream_watchdog.h"
#include "lib/work_pool.h"

/* Marks what the stream holds now, then blocks it until the work is complete, also by an error. */
static hoop_result
close_gate(const hoop_comm *comm, hoop_work *work, void *stream, hoop_error *error)
{
    hp_device *device = comm->device[work->device];
    hoop_result result = device->ops->mark(device, stream, &work->mark, error);
    if (result != HOOP_SUCCESS)
        return result;
    result = device->ops->gate_close(device, stream, &work->gate, error);
    if (result != HOOP_SUCCESS)
        device->ops->unmark(work->mark);
    return result;
}

static hoop_result
block_stream(hoop_comm *comm, hoop_work *work, const void *send, const void *recv, void *stream, hoop_error *error)
{
    hoop_result result;
    if (!comm->device[work->device]->ops->mark)
        return hp_err_set(
            error, HOOP_ERR_UNSUPPORTED,
            "a stream-ordered call needs device memory: these buffers are in host memory, use the other forms");
    hp_stream_watchdog_start(comm);
    hp_devices_block(comm, send, recv);
    /*
     * this may wait for room in the stream, so for an earlier operation: no lock is held that the driver needs for that
     */
    result = close_gate(comm, work, stream, error);
    if (result != HOOP_SUCCESS)
        hp_registry_block(comm, -1);
    return result;
}

/* HOOP_SUCCESS if the communicator's queues are open on the device of the work. */
static hoop_result
open_queues(hoop_comm *comm, hoop_work *work, const void *send, const void *recv)
{
    hoop_error error = {.size = sizeof(error)};
    if (!send && !recv) /* a barrier, or count 0: no array shows whose stream this is */
        work->device = hp_devices_of_stream(comm, &error);
    if (work->device < 0)
        return hp_entry_fail_start(comm, &error);
    if (work->device > 0)
        hp_progress_pin(comm, work->device);
    return hp_entry_check(comm);
}

hoop_result
hp_on_stream(hoop_comm *comm, hoop_work *work, const void *send, const void *recv, void *stream)
{
    hoop_error error = {.size = sizeof(error)};
    hoop_result result = open_queues(comm, work, send, recv);
    if (result == HOOP_SUCCESS && block_stream(comm, work, send, recv, stream, &error) != HOOP_SUCCESS)
        result = hp_entry_fail_start(comm, &error);
    if (result != HOOP_SUCCESS) {
        hp_work_pool_give(comm, work);
        return result;
    }
    atomic_store(&work->state, HP_WORK_FREED);
    return HOOP_SUCCESS;
}
