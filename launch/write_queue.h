/* SPDX-License-Identifier: MIT */
/*
 * outbox: bytes on their way into a pipe that may not block: written at once as far as they go, the rest when the pipe
 * has room. Does not own the descriptor. SIGPIPE must be ignored.
 */
#ifndef HP_OUTBOX_H
#define HP_OUTBOX_H

#include "launch/bytes.h"
#include "net/loop.h"

typedef struct hp_outbox {
    int fd;
    int broken;     /* errno of the write that failed; what is added from then on is thrown away */
    hp_bytes bytes; /* add here, then hp_outbox_push */
    hp_watch *watch;
    void (*moved)(void *arg); /* after bytes have left, or it broke; from the loop only, not from hp_outbox_push */
    void *arg;
} hp_outbox;

/* fd: made non-blocking. 0, or -1 with errno. */
int hp_outbox_open(hp_outbox *outbox, hp_loop *loop, int fd, void (*moved)(void *arg), void *arg);
size_t hp_outbox_push(hp_outbox *outbox); /* returns how many bytes left */
void hp_outbox_close(hp_outbox *outbox);  /* throws away what is left; zeroed memory is fine */

#endif
