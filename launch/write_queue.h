/* SPDX-License-Identifier: MIT */
/*
 * write_queue: bytes on their way into a pipe that must not block: written at once as far as the pipe has room, the
 * rest later. It does not own the descriptor. SIGPIPE must be ignored.
 */
#ifndef HP_LAUNCH_WRITE_QUEUE_H
#define HP_LAUNCH_WRITE_QUEUE_H

#include "base/buffer.h"
#include "net/loop.h"

typedef struct hp_write_queue {
    int fd;
    int broken;       /* errno of the write that failed; later bytes are dropped */
    hp_buffer buffer; /* add here, then hp_write_queue_push */
    hp_watch *watch;
    void (*moved)(void *arg); /* bytes were written, or it broke; called by the loop only, not by hp_write_queue_push */
    void *arg;
} hp_write_queue;

/* fd: made non-blocking. 0, or -1 with errno. */
int hp_write_queue_open(hp_write_queue *queue, hp_loop *loop, int fd, void (*moved)(void *arg), void *arg);
size_t hp_write_queue_push(hp_write_queue *queue); /* returns how many bytes left */
void hp_write_queue_close(hp_write_queue *queue);  /* throws away what is left; zeroed memory is fine */

#endif
