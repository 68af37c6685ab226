/* SPDX-License-Identifier: MIT */
/*
 * control: the control frames (ABORT, LEAVE, ACK, TICK) of one ring connection: those that wait to be written, and the
 * reader of those that come. Bounded memory, no allocation. When one may be written between data frames is stripe.c's
 * affair, and what one means too.
 */
#ifndef HP_CONTROL_H
#define HP_CONTROL_H

#include "net/frame.h"

enum {
    HP_ACK_FRAME = HP_COMMON_BYTES + HP_ACK_BYTES + 4,
    /* a link has at most 64 posts in flight: so many acknowledgements, an ABORT, a LEAVE and a TICK always find room */
    HP_CONTROL_ROOM = 64 * HP_ACK_FRAME + 3 * (HP_COMMON_BYTES + 4) + HP_ABORT_BYTES + HP_HEARTBEATS_BYTES
};

typedef struct hp_control {
    hp_frame_reader in;
    uint8_t out[HP_CONTROL_ROOM];
    size_t out_n, out_at; /* bytes of frames, and of those the ones that are written */
} hp_control;

/* Puts a frame behind those that wait. 0 where there is no room, or for a TICK to a peer that does not read: what lies
 * before an ABORT may keep it from arriving. */
int hp_control_add(hp_control *control, int fd, hp_frame_type type, const void *payload, size_t n);

static inline int
hp_control_waits(const hp_control *control)
{
    return control->out_n > 0;
}

/* Writes what can be written. 1 where more would block. */
int hp_control_write(hp_control *control, int fd);

#endif
