/* SPDX-License-Identifier: MIT */
/*
 * control: the control frames (ABORT, LEAVE, TICK, CREDIT) of one ring connection: a queue of those to write, and the
 * reader of those received. Bounded memory, no allocation. The stripe decides when one may be written between data
 * frames, and acts on those received.
 */
#ifndef HP_CONTROL_H
#define HP_CONTROL_H

#include "net/frame.h"

/* An ABORT, a LEAVE and a TICK. */
enum { HP_CONTROL_ROOM = 3 * (HP_COMMON_BYTES + 4) + HP_ABORT_BYTES + HP_HEARTBEATS_BYTES };

typedef struct hp_control {
    hp_frame_reader in;
    uint8_t out[HP_CONTROL_ROOM];
    size_t out_n, out_at; /* bytes of frames, and how many of them are written */
} hp_control;

/*
 * Queues a frame. Returns 0 if there is no room (for a CREDIT: less than half), and for a TICK to a peer that does not
 * read: bytes in front of an ABORT may keep it from arriving.
 */
int hp_control_add(hp_control *control, int fd, hp_frame_type type, const void *payload, size_t n);

static inline int
hp_control_waits(const hp_control *control)
{
    return control->out_n > 0;
}

/* Writes what the socket takes. Returns 1 if more would block. */
int hp_control_write(hp_control *control, int fd);

#endif
