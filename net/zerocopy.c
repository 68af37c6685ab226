/* SPDX-License-Identifier: MIT */
/* zerocopy: see zerocopy.h. */
#include "net/zerocopy.h"

#include "base/log.h"

#include <errno.h>
#include <string.h>

enum { PIPE_ROOM = 256 << 10 };

void
hp_zerocopy_init(hp_zerocopy *zerocopy)
{
    *zerocopy = (hp_zerocopy){.pipe = {.in = -1, .out = -1}};
}

void
hp_zerocopy_free(hp_zerocopy *zerocopy)
{
    hp_pipe_close(&zerocopy->pipe);
}

int
hp_zerocopy_wanted(hp_zerocopy *zerocopy, const hp_link *link, const hp_post *post)
{
    if (!post->pages || !link->zerocopy || post->bytes < link->zerocopy)
        return 0;
    if (zerocopy->state == 0) {
        zerocopy->state =
            hp_pipe_open(&zerocopy->pipe, post->bytes < PIPE_ROOM ? PIPE_ROOM : post->bytes) == 0 ? 1 : -1;
        if (zerocopy->state < 0)
            hp_log_class("pipe", HP_LOG_WARN,
                         "slices to rank %d are copied on sending: no pipe is available (%s); see "
                         "/proc/sys/fs/pipe-user-pages-soft",
                         link->peer, strerror(errno));
    }
    return zerocopy->state > 0;
}

void
hp_zerocopy_sent(hp_zerocopy *zerocopy, uint64_t number)
{
    if (zerocopy->sent == zerocopy->acknowledged)
        zerocopy->oldest = number;
    zerocopy->sent++;
}

int
hp_zerocopy_acknowledged(hp_zerocopy *zerocopy, hp_link *link, uint64_t count, uint64_t next)
{
    uint64_t mask = link->capacity - 1;
    if (count > zerocopy->sent || count < zerocopy->acknowledged)
        return 0;
    for (; zerocopy->acknowledged < count; zerocopy->acknowledged++) {
        link->posts[zerocopy->oldest & mask].done = 1;
        /*
         * on to the next unacknowledged one now: the places of copied posts before it may be used again before its
         * ACK arrives
         */
        do
            zerocopy->oldest += (uint64_t)link->stripes;
        while (zerocopy->oldest < next && link->posts[zerocopy->oldest & mask].done);
    }
    return 1;
}
