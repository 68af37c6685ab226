/* SPDX-License-Identifier: MIT */
/* write_queue: see write_queue.h. Its user bounds it: it stops reading its own source while the queue is long. */
#include "launch/write_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static void
writable(void *arg, int ready)
{
    hp_write_queue *queue = arg;
    (void)ready;
    hp_write_queue_push(queue);
    if (queue->moved)
        queue->moved(queue->arg);
}

int
hp_write_queue_open(hp_write_queue *queue, hp_loop *loop, int fd, void (*moved)(void *arg), void *arg)
{
    int flags = fcntl(fd, F_GETFL);
    *queue = (hp_write_queue){.fd = fd, .moved = moved, .arg = arg};
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return -1;
    queue->watch = hp_watch_new(loop, fd, writable, queue);
    return !queue->watch ? -1 : 0;
}

size_t
hp_write_queue_push(hp_write_queue *queue)
{
    size_t before = hp_buffer_size(&queue->buffer);
    size_t size;
    while ((size = hp_buffer_size(&queue->buffer)) > 0 && queue->broken == 0) {
        ssize_t n = write(queue->fd, hp_buffer_first(&queue->buffer), size);
        if (n > 0)
            hp_buffer_drop(&queue->buffer, (size_t)n);
        else if (errno == EAGAIN)
            break;
        else if (errno != EINTR)
            queue->broken = errno;
    }
    if (queue->broken)
        hp_buffer_drop(&queue->buffer, size);
    if (queue->watch && hp_watch_set(queue->watch, hp_buffer_size(&queue->buffer) ? HP_WRITE : 0) < 0)
        queue->broken = errno;
    return before - hp_buffer_size(&queue->buffer);
}

void
hp_write_queue_close(hp_write_queue *queue)
{
    hp_watch_free(queue->watch);
    queue->watch = NULL;
    hp_buffer_free(&queue->buffer);
}
