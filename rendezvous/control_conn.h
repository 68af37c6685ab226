/* SPDX-License-Identifier: MIT */
/*
 * control_conn: one proven control connection, the same on both sides: control frames in, a bounded queue of frames out. Never
 * blocks (but for hp_line_finish, which says how long). Knows nothing of what the frames mean. Owns the descriptor.
 */
#ifndef HP_LINE_H
#define HP_LINE_H

#include "net/frame.h"
#include "net/loop.h"

enum { HP_LINE_QUEUE = 64 << 10 };

typedef struct hp_line hp_line;

typedef struct hp_line_owner {
    void *arg;
    /* One whole frame. Not 0: the owner wants no more, the error is filled; closed() follows. */
    int (*frame)(void *arg, int type, const uint8_t *payload, size_t n, hoop_error *error);
    /* Everything queued has been written: there is room for more. */
    void (*room)(void *arg);
    /* The other side has closed (code HOOP_SUCCESS), or the line broke. The last call; the line may be freed in it, and
       in no other. */
    void (*closed)(void *arg, const hoop_error *error);
} hp_line_owner;

void hp_line_abandon(const hp_line *line); /* in a forked child: closes the descriptor, touches nothing else */
hp_line *hp_line_new(hp_loop *loop, int fd,
                     const hp_line_owner *owner); /* NULL: errno; the descriptor stays the caller's */
int hp_line_send(hp_line *line, hp_frame_type type, const void *payload, size_t n); /* 0: the queue is full */
size_t hp_line_queued(const hp_line *line);
int
hp_line_arrived(const hp_line *line); /* everything sent lies at the other side's kernel, as far as this one knows */
uint64_t hp_line_blocked_since(const hp_line *line); /* when the output last moved; HP_NEVER: nothing waits */

/* No more is sent; once the queue is written the other side sees the end. What still comes is thrown away. */
void hp_line_shut(hp_line *line);
/* For a good end without the loop: writes what is queued and waits until the other side has closed, up to `limit` ns.
 */
void hp_line_finish(hp_line *line, uint64_t limit);
void hp_line_free(hp_line *line); /* closes; NULL is fine */

#endif
