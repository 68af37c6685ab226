/* SPDX-License-Identifier: MIT */
/* attend: see attend.h. */
#include "lib/attend.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/thread.h"
#include "lib/progress.h"

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

static void
abort_interrupted(hoop_comm *comm)
{
    hoop_error error;
    char me[96];
    hp_err_set(&error, HOOP_ERR_ABORTED, "%s aborted the job: rank %d was interrupted",
               hp_comm_name(comm, comm->rank, me), comm->rank);
    error.rank = error.reporter = comm->rank;
    hp_progress_abort(comm, &error);
}

int
hp_attend(hp_waiter *waiter, uint64_t deadline)
{
    uint64_t slice = hp_interrupt_is_set() ? HP_INTERRUPT_MS * HP_MS : HP_NEVER;
    for (;;) {
        uint64_t now = hp_now();
        int last = slice == HP_NEVER || (deadline != HP_NEVER && deadline <= now + slice);
        if (hp_progress_until(waiter, last ? deadline : now + slice))
            return 1;
        if (last)
            return 0;
        if (is_interrupted(waiter->comm)) {
            abort_interrupted(waiter->comm);
            slice = deadline = HP_NEVER;
        }
    }
}

hoop_result
hp_attend_call(hoop_comm *comm, hoop_work *work)
{
    hp_waiter waiter = {.comm = comm, .works = &work, .count = 1};
    hp_progress_submit(comm, work, work, 1);
    hp_attend(&waiter, HP_NEVER);
    return work->result;
}
