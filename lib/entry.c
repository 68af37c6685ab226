/* SPDX-License-Identifier: MIT */
/* entry: see entry.h. */
#include "lib/entry.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/thread.h"
#include "lib/baton.h"
#include "lib/comm.h"
#include "lib/devices.h"
#include "lib/progress.h"
#include "lib/registry.h"
#include "lib/standby.h"
#include "lib/visit.h"
#include "lib/works.h"

#include <stdio.h>
#include <string.h>

static _Thread_local struct {
    uint64_t serial; /* of its communicator; 0: it belongs to none */
    hoop_error error;
    int later; /* of a call that a failed communicator takes, too */
} latest;      /* this thread's last error */

static _Thread_local hp_receipt received; /* by the last receive whose end this thread has seen */

hoop_result
hp_entry_fail(const hoop_comm *comm, const hoop_error *error)
{
    latest.serial = comm ? comm->serial : 0;
    latest.error = *error;
    latest.later = 0;
    return error->code;
}

hoop_result
hp_entry_fail_later(const hoop_comm *comm, const hoop_error *error)
{
    hp_entry_fail(comm, error);
    latest.later = 1;
    return error->code;
}

hoop_result
hp_entry_refuse(const hoop_comm *comm, hoop_result code, const char *text)
{
    hoop_error error;
    hp_err_set(&error, code, "%s", text);
    hp_entry_fail(comm, &error);
    return code;
}

/* The kept error, as it is handed out: with the communicator's name. In a forked child its lock may be held for ever. */
static hoop_error
kept(const hoop_comm *comm)
{
    char prefix[HP_NAME_PREFIX];
    hoop_error error = comm->fault.error;
    atomic_store(&((hoop_comm *)(uintptr_t)comm)->fault.seen, 1);
    if (comm->forks == hp_forks())
        snprintf(error.text, sizeof(error.text), "%s%s", hp_name_prefix(comm, prefix), comm->fault.error.text);
    return error;
}

hoop_result
hp_entry_check(const hoop_comm *comm)
{
    if (!comm)
        return hp_entry_refuse(NULL, HOOP_ERR_INVALID_ARGUMENT,
                               "the communicator is NULL: was hoop_comm_create checked?");
    if (comm->forks != hp_forks())
        return hp_entry_refuse(comm, HOOP_ERR_FORKED,
                               "this communicator belongs to the parent process; a forked child must make its own");
    if (!atomic_load(&comm->fault.known))
        return HOOP_SUCCESS;
    hoop_error error = kept(comm);
    return hp_entry_fail(comm, &error);
}

void
hp_entry_error(const hoop_comm *comm, hoop_error *error)
{
    hp_err_clear(error);
    if (comm && atomic_load(&comm->fault.known) && !(comm->serial == latest.serial && latest.later))
        *error = kept(comm);
    else if (latest.error.code != HOOP_SUCCESS && (!comm || comm->serial == latest.serial))
        *error = latest.error;
    if (error->sequence == HP_NO_OPERATION)
        error->sequence = 0;
}

hoop_result
hp_entry_may_wait(const hoop_comm *comm, const char *call)
{
    hoop_error error;
    if (!hp_callback_inside())
        return HOOP_SUCCESS;
    hp_err_set(
        &error, HOOP_ERR_INVALID_USAGE,
        "%s inside a function of hoop_work_on_done: such a function must not wait, destroy or use a group, but it "
        "may start operations (hoop_iallreduce and its kin)",
        call);
    return hp_entry_fail(comm, &error);
}

hoop_result
hp_entry_unstarted(hoop_comm *comm, const hp_call *call, hoop_result result)
{
    int moment = result == HOOP_ERR_BUSY || result == HOOP_ERR_INVALID_USAGE || result == HOOP_ERR_FORKED;
    if (!comm || result == HOOP_SUCCESS || moment || hp_kind_is_message(call->kind) || atomic_load(&comm->fault.known))
        return result;
    hoop_error why;
    hp_entry_error(comm, &why);
    const char *bare = hp_form_skip(call->kind, why.text); /* the call names it */
    memmove(why.text, bare, strlen(bare) + 1);
    why.rank = why.reporter = comm->rank;
    hp_progress_unstarted(comm, call, &why);
    return result;
}

hoop_result
hp_entry_fail_start(hoop_comm *comm, hoop_error *error)
{
    if (error->code == HOOP_ERR_CUDA) {
        error->rank = error->reporter = comm->rank;
        error->phase = HOOP_PHASE_OPERATION;
        hp_progress_abort(comm, error);
    }
    return hp_entry_fail(comm, error);
}

hoop_result
hp_entry_order(hoop_comm *comm, hoop_work *first)
{
    hoop_error error = {.size = sizeof(error)};
    hoop_result result = HOOP_SUCCESS;
    for (hoop_work *work = first; work && result == HOOP_SUCCESS; work = work->next) {
        hp_device *device = comm->device[work->device];
        if (work->device > 0 && device->ops->mark)
            result = device->ops->mark(device, NULL, &work->mark, &error);
    }
    for (hoop_work *work = first, *next; work && result != HOOP_SUCCESS; work = next) {
        next = work->next;
        if (work->mark)
            comm->device[work->device]->ops->unmark(work->mark);
        hp_work_pool_give(comm, work);
    }
    return result == HOOP_SUCCESS ? result : hp_entry_fail_start(comm, &error);
}

int
hp_entry_receives(const hoop_work *work, hp_receipt *out)
{
    const hp_message *message = work->messages;
    if (work->grouped || work->message_count != 1 || message->sending || message->call.kind != HP_SEND)
        return 0;
    *out = (hp_receipt){.known = 1, .peer = message->peer, .count = (size_t)message->call.count};
    return 1;
}

void
hp_entry_note_received(const hoop_work *work)
{
    if (work->result == HOOP_SUCCESS)
        hp_entry_receives(work, &received);
}

const hp_receipt *
hp_entry_received(void)
{
    return &received;
}

/* --- in the order of a stream --- */

/* Marks what the stream holds now, then blocks it until the work is complete, also by an error. */
static hoop_result
block_stream(hoop_comm *comm, hoop_work *work, const void *send, const void *recv, void *stream, hoop_error *error)
{
    hp_device *device = comm->device[work->device];
    if (!device->ops->mark)
        return hp_err_set(
            error, HOOP_ERR_UNSUPPORTED,
            "a stream-ordered call needs device memory: these buffers are in host memory, use the other forms");
    hp_stream_watchdog_start(comm);
    hp_devices_block(comm, send, recv);
    /*
     * this may wait for room in the stream, so for an earlier operation: no lock is held that the driver needs for that
     */
    hoop_result result = device->ops->mark(device, stream, &work->mark, error);
    if (result == HOOP_SUCCESS) {
        result = device->ops->gate_close(device, stream, &work->gate, error);
        if (result != HOOP_SUCCESS)
            device->ops->unmark(work->mark);
    }
    if (result != HOOP_SUCCESS)
        hp_registry_block(comm, -1);
    return result;
}

hoop_result
hp_entry_on_stream(hoop_comm *comm, hoop_work *work, const void *send, const void *recv, void *stream)
{
    hoop_error error = {.size = sizeof(error)};
    if (!send && !recv) /* a barrier, or count 0: no array shows whose stream this is */
        work->device = hp_devices_of_stream(comm, &error);
    if (work->device > 0)
        hp_progress_pin(comm, work->device);
    hoop_result result = work->device < 0 ? hp_entry_fail_start(comm, &error) : hp_entry_check(comm);
    if (result == HOOP_SUCCESS && block_stream(comm, work, send, recv, stream, &error) != HOOP_SUCCESS)
        result = hp_entry_fail_start(comm, &error);
    if (result != HOOP_SUCCESS) {
        hp_work_pool_give(comm, work);
        return result;
    }
    atomic_store(&work->state, HP_WORK_FREED);
    return HOOP_SUCCESS;
}

/* --- waits --- */

/* The background thread drives while the program is asked, which may wait for its other threads. */
static int
is_interrupted(hoop_comm *comm)
{
    if (!hp_interrupt_is_due())
        return 0;
    hp_progress_depart(comm);
    hp_progress_leave(comm);
    hp_interrupt_asks();
    hp_progress_enter(comm);
    hp_progress_return(comm);
    return hp_interrupt_take();
}

int
hp_entry_wait(hp_waiter *waiter, uint64_t deadline, int interruptible)
{
    int looks = interruptible && hp_interrupt_is_set();
    uint64_t slice = looks ? HP_INTERRUPT_MS * HP_MS : hp_visit_slice(), visit = 0;
    for (;;) {
        uint64_t now = hp_now();
        int last = slice == HP_NEVER || (deadline != HP_NEVER && deadline <= now + slice);
        if (waiter->several)
            hp_baton_watch(waiter);
        if (hp_progress_until(waiter, last ? deadline : now + slice))
            return 1;
        if (last)
            return 0;
        hp_visit_others(waiter->comm, &visit);
        if (interruptible && is_interrupted(waiter->comm)) {
            hoop_error error;
            char me[96];
            hp_err_set(&error, HOOP_ERR_ABORTED, "%s aborted the job: rank %d was interrupted",
                       hp_comm_name(waiter->comm, waiter->comm->rank, me), waiter->comm->rank);
            error.rank = error.reporter = waiter->comm->rank;
            hp_progress_abort(waiter->comm, &error);
            slice = deadline = HP_NEVER;
        }
    }
}

hoop_result
hp_entry_wait_call(hoop_comm *comm, hoop_work *work)
{
    hp_waiter waiter = {.comm = comm, .works = &work, .count = 1};
    hp_progress_submit(comm, work, work, 1);
    hp_entry_wait(&waiter, HP_NEVER, 1);
    return work->result;
}
