/* SPDX-License-Identifier: MIT */
/* zerocopy: see zerocopy.h. */
#include "net/zerocopy.h"

#include "base/log.h"

#include <errno.h>
#include <string.h>

enum { PIPE_ROOM = 256 << 10 };

void
hp_flight_init(hp_flight *flight)
{
    *flight = (hp_flight){.pipe = {.in = -1, .out = -1}};
}

void
hp_flight_free(hp_flight *flight)
{
    hp_pipe_close(&flight->pipe);
}

int
hp_flight_boards(hp_flight *flight, const hp_link *link, const hp_post *post)
{
    if (!post->pages || !link->zerocopy || post->bytes < link->zerocopy)
        return 0;
    if (flight->state == 0) {
        flight->state = hp_pipe_open(&flight->pipe, post->bytes < PIPE_ROOM ? PIPE_ROOM : post->bytes) == 0 ? 1 : -1;
        if (flight->state < 0)
            hp_log_class("pipe", HP_LOG_WARN,
                         "slices to rank %d are copied on sending: no pipe to be had (%s); see "
                         "/proc/sys/fs/pipe-user-pages-soft",
                         link->peer, strerror(errno));
    }
    return flight->state > 0;
}

void
hp_flight_depart(hp_flight *flight, uint64_t number)
{
    if (flight->flown == flight->landed)
        flight->oldest = number;
    flight->flown++;
}

int
hp_flight_land(hp_flight *flight, hp_link *link, uint64_t count, uint64_t next)
{
    uint64_t mask = link->capacity - 1;
    if (count > flight->flown || count < flight->landed)
        return 0;
    for (; flight->landed < count; flight->landed++) {
        link->posts[flight->oldest & mask].done = 1;
        /* on to the next one in flight now: the places of copied posts before it may be used again before it lands */
        do
            flight->oldest += (uint64_t)link->stripes;
        while (flight->oldest < next && link->posts[flight->oldest & mask].done);
    }
    return 1;
}
