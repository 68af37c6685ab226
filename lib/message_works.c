/* SPDX-License-Identifier: MIT */
/* message_works: see message_works.h. */
#include "lib/message_works.h"

#include "lib/ops.h"
#include "lib/work_pool.h"

void
hp_message_works_add(hoop_comm *comm, hoop_work *work)
{
    hp_messages *m = &comm->messages;
    work->messages_left = work->message_count;
    m->joining += work->after != NULL;
    work->next = NULL;
    work->previous = m->running_last;
    if (m->running)
        m->running_last->next = work;
    else
        m->running = work;
    m->running_last = work;
}

static void
take(hp_messages *m, const hoop_work *work)
{
    if (work->next)
        work->next->previous = work->previous;
    else
        m->running_last = work->previous;
    if (work->previous)
        work->previous->next = work->next;
    else
        m->running = work->next;
}

/* A group's collectives and messages are one work for its caller. */
static void
complete(hoop_comm *comm, hoop_work *work, hoop_result result)
{
    take(&comm->messages, work);
    if (work->after) {
        comm->messages.joining--;
        hp_work_pool_give(comm, work->after);
        work->after = NULL;
    }
    hp_ops_complete(comm, work, result);
}

static int
is_complete(const hoop_work *work)
{
    return work->messages_left == 0 && (!work->after || hp_work_is_done(atomic_load(&work->after->state)));
}

void
hp_message_works_finish(hp_peer *peer, hp_message *message)
{
    hoop_work *work = message->owner;
    peer->unfinished--;
    peer->finished++;
    message->done = 1;
    work->messages_left--;
    if (is_complete(work))
        complete(peer->comm, work, HOOP_SUCCESS);
}

int
hp_message_works_join(hoop_comm *comm)
{
    int joined = 0;
    for (hoop_work *work = comm->messages.joining ? comm->messages.running : NULL, *next; work; work = next) {
        next = work->next;
        if (!work->after || !is_complete(work))
            continue;
        complete(comm, work, HOOP_SUCCESS);
        joined = 1;
    }
    return joined;
}

void
hp_message_works_fail(hoop_comm *comm)
{
    while (comm->messages.running)
        complete(comm, comm->messages.running, comm->fault.error.code);
}
