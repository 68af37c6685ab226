/* SPDX-License-Identifier: MIT */
/* held: see held.h. */
#include "lib/held.h"

void
hp_held_add(hoop_comm *comm, hp_message *message)
{
    message->held = 1;
    hp_message_append(&comm->messages.held, message);
}

/* Whether the stream of the message's work has reached it. */
static int
is_reached(const hoop_comm *comm, const hp_message *message)
{
    hoop_work *work = message->owner;
    return hp_work_is_reached(work, comm->channel[0]->queue[work->device]);
}

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
        message->held = !is_reached(comm, message) || has_alike(&left, message);
        hp_message_append(message->held ? &left : ready, message);
    }
    *held = left;
}

int
hp_held_await_stream(const hoop_comm *comm)
{
    return comm->messages.held.first != NULL;
}
