/* SPDX-License-Identifier: MIT */
/* message_call: see message_call.h. */
#include "lib/message_call.h"

#include "lib/devices.h"
#include "lib/entry.h"
#include "lib/progress.h"

hoop_result
hp_message_call_device(hoop_comm *comm, const void *send, const void *recv, int *device)
{
    hoop_error error;
    *device = hp_devices_of(comm, send, recv, &error);
    return *device < 0 ? hp_entry_fail_start(comm, &error) : HOOP_SUCCESS;
}

static hoop_result
no_memory(const hoop_comm *comm)
{
    return hp_entry_refuse(comm, HOOP_ERR_NO_MEMORY, "out of memory for a message");
}

/* A work that can be submitted: it has its place behind the GPU's default stream. NULL with this thread's error set. */
static hoop_work *
make_ready(hoop_comm *comm, const hp_message_call *how, const void *arguments, hoop_result *result)
{
    hoop_work *work = how->make(comm, arguments);
    *result = work ? hp_entry_order(comm, work) : no_memory(comm);
    return *result == HOOP_SUCCESS ? work : NULL;
}

static hoop_result
queue(hoop_comm *comm, const hp_message_call *how, const hp_call *call, const void *arguments, hoop_result checked)
{
    hoop_work *work = checked == HOOP_SUCCESS ? hp_group_messages(comm, call) : NULL;
    if (work && how->join(work, arguments))
        return HOOP_SUCCESS;
    if (checked == HOOP_SUCCESS)
        no_memory(comm);
    return hp_group_spoil(comm, call);
}

hoop_result
hp_message_call_run(hoop_comm *comm, const hp_message_call *how, const hp_call *call, const void *arguments,
                    hoop_result checked)
{
    if (comm && hp_group_open() == comm)
        return queue(comm, how, call, arguments, checked);
    if (checked != HOOP_SUCCESS)
        return checked;
    if (hp_group_open())
        return hp_entry_refuse(comm, HOOP_ERR_INVALID_USAGE, "a message of another communicator inside a group");
    if (hp_entry_may_wait(comm, "a blocking send or receive") != HOOP_SUCCESS)
        return HOOP_ERR_INVALID_USAGE;
    hp_progress_enter(comm);
    hoop_result result;
    hoop_work *work = make_ready(comm, how, arguments, &result);
    if (work && hp_entry_wait_call(comm, work) != HOOP_SUCCESS)
        result = hp_entry_check(comm);
    hp_progress_leave(comm);
    if (work) {
        hp_entry_note_received(work);
        hp_work_pool_give(comm, work);
    }
    return result;
}

hoop_result
hp_message_call_start(hoop_comm *comm, const hp_message_call *how, const void *arguments, hoop_result checked,
                      hoop_work **out)
{
    if (out)
        *out = NULL;
    if (checked == HOOP_SUCCESS && hp_group_open())
        return hp_entry_refuse(comm, HOOP_ERR_INVALID_USAGE,
                               "a non-blocking call inside a group: use the blocking form there, it is only queued");
    if (checked == HOOP_SUCCESS && !out)
        return hp_entry_refuse(comm, HOOP_ERR_INVALID_ARGUMENT, "work is NULL: pass a pointer for the handle");
    if (checked != HOOP_SUCCESS)
        return checked;
    hoop_result result;
    hoop_work *work = make_ready(comm, how, arguments, &result);
    if (!work)
        return result;
    hp_progress_submit(comm, work, work, 0);
    *out = work;
    return HOOP_SUCCESS;
}

hoop_result
hp_message_call_on_stream(hoop_comm *comm, const hp_message_call *how, const void *arguments, hoop_result checked,
                          const void *send, const void *recv, void *stream)
{
    if (checked != HOOP_SUCCESS)
        return checked;
    if (hp_group_open())
        return hp_entry_refuse(comm, HOOP_ERR_INVALID_USAGE, "a stream-ordered call inside a group");
    hoop_work *work = how->make(comm, arguments);
    if (!work)
        return no_memory(comm);
    hoop_result result = hp_entry_on_stream(comm, work, send, recv, stream);
    if (result == HOOP_SUCCESS)
        hp_progress_submit(comm, work, work, 0);
    return result;
}
