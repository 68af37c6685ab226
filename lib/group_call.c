/* SPDX-License-Identifier: MIT */
/* group_call: the public calls of groups. */
#include "base/err.h"
#include "lib/entry.h"
#include "lib/group.h"
#include "lib/progress.h"
#include "lib/works.h"

hoop_result
hoop_group_start(hoop_comm *comm)
{
    hoop_result result = hp_entry_check(comm);
    if (result != HOOP_SUCCESS)
        return result;
    if (hp_entry_may_wait(comm, "hoop_group_start") != HOOP_SUCCESS)
        return HOOP_ERR_INVALID_USAGE;
    if (hp_group_open())
        return hp_entry_refuse(comm, HOOP_ERR_INVALID_USAGE, "hoop_group_start inside a group: groups do not nest");
    hp_group_begin(comm);
    return HOOP_SUCCESS;
}

static hoop_result
close_group(hoop_comm *comm, hoop_work **first, hoop_work **last)
{
    hoop_error error;
    hoop_result result;
    *first = *last = NULL;
    if (!comm || hp_group_open() != comm) { /* in a communicator that has failed no group was opened */
        result = hp_entry_check(comm);
        return result == HOOP_SUCCESS ? hp_entry_refuse(comm, HOOP_ERR_INVALID_USAGE,
                                                        "hoop_group_end without hoop_group_start by this thread")
                                      : result;
    }
    hp_call refused;
    result = hp_group_close(comm, first, last, &refused, &error);
    if (result != HOOP_SUCCESS)
        return hp_entry_unstarted(comm, &refused, hp_entry_fail(comm, &error));
    result = hp_entry_check(comm);
    for (hoop_work *work = *first, *next; work && result != HOOP_SUCCESS; work = next) {
        next = work->next;
        hp_work_pool_give(comm, work);
    }
    return result;
}

/* Starts what the group holds; *work is the last of it, which completes last. */
static hoop_result
start_group(hoop_comm *comm, int blocking, hoop_work **work)
{
    hoop_work *first, *last;
    hoop_result result = close_group(comm, &first, &last);
    hp_call call = first ? first->call : (hp_call){0};
    if (result == HOOP_SUCCESS && first)
        result = hp_entry_unstarted(comm, &call, hp_entry_order(comm, first));
    if (result != HOOP_SUCCESS)
        return result;
    if (!first) { /* an empty group is done before it starts */
        last = hp_work_pool_take(comm, 0);
        if (!last)
            return hp_entry_refuse(comm, HOOP_ERR_NO_MEMORY, "out of memory for a group");
        last->comm = comm;
        atomic_store(&last->state, HP_WORK_ENDED);
    } else {
        hp_progress_submit(comm, first, last, blocking);
    }
    *work = last;
    return HOOP_SUCCESS;
}

hoop_result
hoop_igroup_end(hoop_comm *comm, hoop_work **work)
{
    if (!work)
        return hp_entry_refuse(comm, HOOP_ERR_INVALID_ARGUMENT, "hoop_igroup_end: work is NULL");
    *work = NULL;
    if (hp_entry_may_wait(comm, "hoop_igroup_end") != HOOP_SUCCESS)
        return HOOP_ERR_INVALID_USAGE;
    return start_group(comm, 0, work);
}

hoop_result
hoop_group_end(hoop_comm *comm)
{
    hoop_work *work = NULL;
    hoop_result result;
    int mine = comm && hp_group_open() == comm;
    if (hp_entry_may_wait(comm, "hoop_group_end") != HOOP_SUCCESS)
        return HOOP_ERR_INVALID_USAGE;
    if (mine)
        hp_progress_enter(comm);
    result = start_group(comm, 1, &work);
    if (result == HOOP_SUCCESS) {
        hp_waiter waiter = {.comm = comm, .works = &work, .count = 1};
        hp_entry_wait(&waiter, HP_NEVER);
        result = work->result == HOOP_SUCCESS ? HOOP_SUCCESS : hp_entry_check(comm);
        hp_work_pool_give(comm, work);
    }
    if (mine)
        hp_progress_leave(comm);
    return result;
}
