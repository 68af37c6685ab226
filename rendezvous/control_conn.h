/* SPDX-License-Identifier: MIT */
/*
 * control_conn: one proven control connection, the same on both sides: control frames in, a bounded queue of frames out. Never
 * blocks (but for hp_control_conn_finish, which says how long). Knows nothing of what the frames mean. Owns the descriptor.
 */
#ifndef HP_CONTROL_CONN_H
#define HP_CONTROL_CONN_H

#include "net/frame.h"
#include "net/loop.h"

enum { HP_CONTROL_QUEUE = 64 << 10 };

typedef struct hp_control_conn hp_control_conn;

typedef struct hp_control_conn_owner {
    void *arg;
    /* One whole frame. Not 0: the owner wants no more, the error is filled; closed() follows. */
    int (*frame)(void *arg, int type, const uint8_t *payload, size_t n, hoop_error *error);
    /* Everything queued has been written: there is room for more. */
    void (*room)(void *arg);
    /* The other side has closed (code HOOP_SUCCESS), or the line broke. The last call; the line may be freed in it, and
       in no other. */
    void (*closed)(void *arg, const hoop_error *error);
} hp_control_conn_owner;

void hp_control_conn_abandon(
    const hp_control_conn *control); /* in a forked child: closes the descriptor, touches nothing else */
hp_control_conn *
hp_control_conn_new(hp_loop *loop, int fd,
                    const hp_control_conn_owner *owner); /* NULL: errno; the descriptor stays the caller's */
int hp_control_conn_send(hp_control_conn *control, hp_frame_type type, const void *payload,
                         size_t n); /* 0: the queue is full */
size_t hp_control_conn_queued(const hp_control_conn *control);
int hp_control_conn_arrived(
    const hp_control_conn *control); /* everything sent lies at the other side's kernel, as far as this one knows */
uint64_t
hp_control_conn_blocked_since(const hp_control_conn *control); /* when the output last moved; HP_NEVER: nothing waits */

/* No more is sent; once the queue is written the other side sees the end. What still comes is thrown away. */
void hp_control_conn_shut(hp_control_conn *control);
/* For a good end without the loop: writes what is queued and waits until the other side has closed, up to `limit` ns.
 */
void hp_control_conn_finish(hp_control_conn *control, uint64_t limit);
void hp_control_conn_free(hp_control_conn *control); /* closes; NULL is fine */

#endif
