/* SPDX-License-Identifier: MIT */
/* unacked: see unacked.h. */
#include "net/unacked.h"

#include "base/mem.h"

static const hp_sent_frame *
at(const hp_unacked *u, uint64_t i)
{
    return &u->frames[i % HP_UNACKED_FRAMES];
}

hp_unacked *
hp_unacked_new(uint32_t size)
{
    hp_unacked *u = hp_alloc(1, sizeof(*u) + size);
    if (u)
        u->size = size;
    return u;
}

uint8_t *
hp_unacked_add(hp_unacked *u, uint64_t number, uint32_t bytes)
{
    uint32_t place = 0;
    if (u->next - u->first == HP_UNACKED_FRAMES)
        return NULL;
    if (u->next > u->first) {
        uint32_t oldest = at(u, u->first)->at, end = at(u, u->next - 1)->at + at(u, u->next - 1)->bytes;
        int behind = end > oldest; /* free memory is behind the frames and in front of them; else between them */
        place = behind && u->size - end < bytes ? 0 : end;
        if (place + bytes > (behind && place == end ? u->size : oldest))
            return NULL;
    } else if (bytes > u->size) {
        return NULL;
    }
    u->frames[u->next++ % HP_UNACKED_FRAMES] = (hp_sent_frame){number, place, bytes};
    return u->memory + place;
}

const hp_sent_frame *
hp_unacked_find(const hp_unacked *u, uint64_t number)
{
    uint64_t i = u->first;
    if (u->next == u->first || at(u, u->next - 1)->number < number)
        return NULL;
    while (at(u, i)->number < number)
        i++;
    return at(u, i)->number == number ? at(u, i) : NULL;
}

void
hp_unacked_drop(hp_unacked *u, uint64_t number)
{
    while (u->first < u->next && at(u, u->first)->number < number)
        u->first++;
}
