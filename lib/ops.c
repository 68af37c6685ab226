/* SPDX-License-Identifier: MIT */
/* ops: see ops.h. Operations start and complete in the order of their sequence numbers, on every rank the same. */
#include "lib/ops.h"

#include "lib/callback.h"
#include "lib/recorder.h"
#include "lib/registry.h"
#include "lib/work_pool.h"

void
hp_ops_release_stream(hoop_comm *comm, hoop_work *work)
{
    if (!work->gate)
        return;
    /* Counted before the gate opens: the stream's owner may next use the GPU for the first time with another
     * communicator, which is refused while any stream is blocked. */
    hp_registry_block(comm, -1);
    comm->device[work->device]->ops->gate_open(work->gate);
    work->gate = NULL;
}

/* A work has ended well. */
static void
count(hoop_comm *comm, const hoop_work *work)
{
    atomic_fetch_add_explicit(&comm->completed, (uint64_t)work->calls, memory_order_relaxed);
    if (work->message_count > 0)
        hp_count_add(&comm->counters.messages, work->message_count);
    if (work->channels > 0)
        hp_count_set(&comm->counters.plan, 2 * (1 + (uint64_t)work->plan[0].algorithm) + work->call.ordered);
}

void
hp_ops_complete(hoop_comm *comm, hoop_work *work, hoop_result result)
{
    work->result = result;
    hp_recorder_leave(comm, work);
    if (result == HOOP_SUCCESS)
        count(comm, work);
    hp_counters_leave(&comm->counters, work->record.left);
    if (work->mark)
        comm->device[work->device]->ops->unmark(work->mark);
    work->mark = NULL;
    hp_ops_release_stream(comm, work);
    hp_work_pool_give_array(comm, work);
    int before = atomic_fetch_or(&work->state, HP_WORK_ENDED);
    if (before & HP_WORK_CALLS)
        hp_callback_queue(comm, work);
    else
        hp_work_pool_settle(comm, work, before);
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
