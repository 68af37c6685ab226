/* SPDX-License-Identifier: MIT */
/* message_works: see message_works.h. */
#include "lib/message_works.h"

#include "lib/works.h"

/* --- until a message may start --- */

static int
are_alike(const hp_message *a, const hp_message *b)
{
    int same = a->peer == b->peer || a->peer == HOOP_ANY_RANK || b->peer == HOOP_ANY_RANK;
    return same && a->sending == b->sending && a->call.kind == b->call.kind && a->call.root == b->call.root;
}

/* Whether a message of the queue must start before this one. */
static int
has_alike(const hp_message_queue *queue, const hp_message *message)
{
    const hp_message *before = queue->first;
    while (before && !are_alike(before, message))
        before = before->next;
    return before != NULL;
}

void
hp_held_release(hoop_comm *comm, hp_message_queue *ready)
{
    hp_message_queue left = {0}, *held = &comm->messages.held;
    while (held->first) {
        hp_message *message = hp_message_pop(held);
        hoop_work *work = message->owner;
        int reached = hp_work_is_reached(work, comm->channel[0]->queue[work->device]);
        message->held = !reached || has_alike(&left, message);
        hp_message_append(message->held ? &left : ready, message);
    }
    *held = left;
}

/* --- until all of a work are complete --- */

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

/* A group's collectives and messages are one work for its caller. */
static void
complete(hoop_comm *comm, hoop_work *work, hoop_result result)
{
    if (work->next)
        work->next->previous = work->previous;
    else
        comm->messages.running_last = work->previous;
    if (work->previous)
        work->previous->next = work->next;
    else
        comm->messages.running = work->next;
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
