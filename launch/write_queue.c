/* SPDX-License-Identifier: MIT */
/*
 * outbox: a byte queue with a pipe behind it. Who fills it also bounds it: it stops reading its own source while the
 * queue is long.
 */
#include "launch/write_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static void
writable(void *arg, int ready)
{
    hp_outbox *outbox = arg;
    (void)ready;
    hp_outbox_push(outbox);
    if (outbox->moved)
        outbox->moved(outbox->arg);
}

int
hp_outbox_open(hp_outbox *outbox, hp_loop *loop, int fd, void (*moved)(void *arg), void *arg)
{
    int flags = fcntl(fd, F_GETFL);
    *outbox = (hp_outbox){.fd = fd, .moved = moved, .arg = arg};
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return -1;
    outbox->watch = hp_watch_new(loop, fd, writable, outbox);
    return !outbox->watch ? -1 : 0;
}

size_t
hp_outbox_push(hp_outbox *outbox)
{
    size_t before = hp_bytes_size(&outbox->bytes);
    size_t size;
    while ((size = hp_bytes_size(&outbox->bytes)) > 0 && outbox->broken == 0) {
        ssize_t n = write(outbox->fd, hp_bytes_first(&outbox->bytes), size);
        if (n > 0)
            hp_bytes_drop(&outbox->bytes, (size_t)n);
        else if (errno == EAGAIN)
            break;
        else if (errno != EINTR)
            outbox->broken = errno;
    }
    if (outbox->broken)
        hp_bytes_drop(&outbox->bytes, size);
    if (outbox->watch && hp_watch_set(outbox->watch, hp_bytes_size(&outbox->bytes) ? HP_WRITE : 0) < 0)
        outbox->broken = errno;
    return before - hp_bytes_size(&outbox->bytes);
}

void
hp_outbox_close(hp_outbox *outbox)
{
    hp_watch_free(outbox->watch);
    outbox->watch = NULL;
    hp_bytes_free(&outbox->bytes);
}
