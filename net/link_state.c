/* SPDX-License-Identifier: MIT */
/* link_state: see link_state.h. */
#include "net/link_state.h"

#include "base/err.h"

void
hp_link_lost(hp_link *l, int left, int number)
{
    if (!l || l->state == HP_LINK_FAULT || l->state == HP_LINK_ABORT)
        return;
    l->state = left ? HP_LINK_LEFT : HP_LINK_LOST;
    if (number)
        hp_err_sys(&l->error, HOOP_ERR_PEER_LOST, number, "rank %d lost its connection to rank %d", l->self, l->peer);
    else
        hp_err_set(&l->error, HOOP_ERR_PEER_LOST,
                   left ? "rank %d: rank %d has left the communicator" : "rank %d: rank %d closed its connection",
                   l->self, l->peer);
    l->error.rank = l->peer;
    l->error.reporter = l->self;
}

void
hp_link_aborted(hp_link *l, const hoop_error *cause)
{
    if (!l)
        return;
    l->error = *cause;
    if (l->size > 0)
        hp_abort_confine(&l->error, l->size);
    l->state = HP_LINK_ABORT;
}

void
hp_link_fault(hp_link *l, const hp_post *post)
{
    l->error.rank = l->peer;
    l->error.reporter = l->self;
    if (l->owner)
        l->error.sequence = HP_NO_OPERATION;
    else if (!l->error.sequence && post)
        l->error.sequence = hp_frame_operation(&post->frame);
    l->state = HP_LINK_FAULT;
}

void
hp_link_unexpected(hp_link *l, const hp_post *post, int type)
{
    hp_err_set(&l->error, HOOP_ERR_PROTOCOL, "rank %d sent rank %d an unexpected frame of type %d", l->peer, l->self,
               type);
    hp_link_fault(l, post);
}

void
hp_link_give_up(hp_link *link, int tell)
{
    link->repaired = 0;
    link->gave_up |= tell;
    if (link->twin)
        link->twin->repaired = 0;
}
