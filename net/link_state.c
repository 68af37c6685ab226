/* SPDX-License-Identifier: MIT */
/* link_state: see link_state.h. */
#include "net/link_state.h"

#include "base/err.h"

#include <string.h>

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
hp_link_lost(hp_link *l, int left, int number)
{
    if (l->state == HP_LINK_FAULT || l->state == HP_LINK_ABORT)
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
hp_link_keep_heartbeats(hp_link *l, const uint8_t *heartbeats, size_t n)
{
    if (!l->heartbeats)
        return;
    if (l->heartbeats_n + n > HP_HEARTBEATS_ROOM)
        l->heartbeats_n = 0;
    memcpy(l->heartbeats + l->heartbeats_n, heartbeats, n);
    l->heartbeats_n += n;
}
