/* SPDX-License-Identifier: MIT */
/*
 * unacked: the small frames that were sent over a stripe, as long as the peer has not said that it has taken them. A new
 * connection sends them again. Pure. The caller writes each frame into the memory that it is given, in one piece.
 */
#ifndef HP_UNACKED_H
#define HP_UNACKED_H

#include <stddef.h>
#include <stdint.h>

/*
 * Where both directions share a stripe, only data frames tell what was taken, and all that are untold must find room. An end
 * that begins operation k has the peer's frame of k - 4, since four operations are in progress at most (HACKING, section 3);
 * when that was made, the peer had this end's frame of k - 8. So at most eight are untold, twice that if one operation has
 * two, and the place that is lost where the memory ends.
 */
enum {
    HP_UNACKED_LARGE = 64 << 10, /* a payload above this is not copied: its post waits until the peer has taken it */
    HP_UNACKED_SHARED = 18 * HP_UNACKED_LARGE,
    HP_UNACKED_ONE_WAY = 5 * HP_UNACKED_LARGE,
    HP_UNACKED_FRAMES = 4096
};

typedef struct hp_sent_frame {
    uint64_t number;
    uint32_t at, bytes;
} hp_sent_frame;

typedef struct hp_unacked {
    uint64_t first, next; /* of `frames`, modulo HP_UNACKED_FRAMES; equal: it is empty */
    hp_sent_frame frames[HP_UNACKED_FRAMES];
    uint32_t size;
    uint8_t memory[]; /* of `size` bytes */
} hp_unacked;

hp_unacked *hp_unacked_new(uint32_t size); /* NULL: out of memory. free() frees it. */

/* Room for a frame of so many bytes, the latest of all. NULL: there is none until the peer has taken more. */
uint8_t *hp_unacked_add(hp_unacked *unacked, uint64_t number, uint32_t bytes);
const hp_sent_frame *hp_unacked_find(const hp_unacked *unacked, uint64_t number); /* NULL: it is not there */
/* The peer has all frames below this number. */
void hp_unacked_drop(hp_unacked *unacked, uint64_t number);

/* How much a peer may take before it must say so: the sender then always has room again. */
static inline int
hp_unacked_is_due(uint64_t frames, uint64_t bytes)
{
    return frames >= HP_UNACKED_FRAMES / 4 || bytes >= HP_UNACKED_LARGE;
}

#endif
