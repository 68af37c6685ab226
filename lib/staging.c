/* SPDX-License-Identifier: MIT */
/* staging: see staging.h. */
#include "lib/staging.h"

enum { GPU = 1 }; /* a communicator's one device beside the host */

uint32_t
hp_staging_room_bytes(const hoop_comm *comm)
{
    return comm->plan.slice_bytes > HP_EAGER_MOST ? comm->plan.slice_bytes : HP_EAGER_MOST;
}

static uint8_t *
memory_of(const hoop_comm *comm, int sending, int i)
{
    return comm->channel[0]->rooms + (size_t)(sending * HP_ROOMS + i) * comm->channel[0]->o.room_bytes;
}

hp_room *
hp_staging_take(hoop_comm *comm, int sending)
{
    for (int i = 0; i < HP_ROOMS; i++) {
        hp_room *room = &comm->messages.room[sending][i];
        if (room->held || !hp_staging_done(comm, room->ticket))
            continue;
        *room = (hp_room){.memory = memory_of(comm, sending, i), .held = 1};
        return room;
    }
    return NULL;
}

uint64_t
hp_staging_copy(hoop_comm *comm, const hp_call *call, void *to, const void *from, uint64_t bytes)
{
    hp_queue *queue = comm->channel[0]->queue[GPU];
    hoop_dtype dtype = (hoop_dtype)call->dtype;
    hp_command command = {.elem = dtype, .wire = dtype, .op = HOOP_SUM, .sources = 1, .destinations = 1};
    command.src[0].ptr = (void *)(uintptr_t)from;
    command.dst[0].ptr = to;
    command.count = (size_t)(bytes / hp_dtype_size(dtype));
    uint64_t ticket = queue->ops->submit(queue, &command);
    if (!ticket)
        return UINT64_MAX;
    comm->messages.copied = ticket;
    return ticket;
}

int
hp_staging_done(hoop_comm *comm, uint64_t ticket)
{
    return !ticket || hp_channel_done(comm->channel[0], GPU, ticket);
}

int
hp_staging_settled(hoop_comm *comm)
{
    hp_queue *queue = comm->channel[0]->queue[GPU];
    return hp_staging_done(comm, comm->messages.copied) || queue->ops->status(queue, NULL) != HOOP_SUCCESS;
}
