/* SPDX-License-Identifier: MIT */
/*
 * peer_heartbeat: what the ranks of a ring tell each other where the server is not heard, and who holds up the ring by that; pure.
 * A rank in a long operation says every heartbeat where it is and whom it waits for. That travels against the data: each
 * rank passes on to the previous one what it has newly heard from the next. A rank that stands still, or rests because
 * it has done its part, hides those behind it. So the first one, looking downstream, of whom nothing is heard is at
 * fault if the waits lead to it: one rank at least sees that, the one that waits for it, and tells the others.
 *
 *   TICK      1 to 16 times: rank 4 | waits for 4 | 1: it does not hear the server 4 | beat 8 | operation 8, 0: in none |
 *             completed 8 | step 8 | bytes 8
 */
#ifndef HP_PEER_HEARTBEAT_H
#define HP_PEER_HEARTBEAT_H

#include "net/frame.h"
#include "rendezvous/blame.h"

typedef struct hp_heartbeats {
    int size, position;
    const int *order; /* position -> rank; outlives this */
    hp_witness *of;   /* by rank: what it said last, and when that was heard here */
    uint64_t *beat;   /* by rank: which of its ticks that was; 0: none yet */
    uint8_t *fresh;   /* by rank: not passed on yet */
    uint8_t *alone;   /* by rank: it does not hear the server */
    int fresh_n;
    int next, put;  /* places downstream: where the next frame begins, and how many the last one went through */
    uint64_t since; /* when this rank began to tick; 0: it does not */
    uint64_t asked; /* when one that does not hear the server was last heard; 0: never */
    uint64_t moved; /* when a rank was last heard to have moved */
} hp_heartbeats;

hp_heartbeats *hp_heartbeats_new(int size, int position, const int *order); /* NULL: out of memory */
void hp_heartbeats_free(hp_heartbeats *ticks);                              /* NULL is fine */

/* This rank's own tick. report NULL: it is in no operation any more; alone: it does not hear the server. */
void hp_heartbeats_say(hp_heartbeats *ticks, const hp_report *report, uint64_t completed, int alone, uint64_t now);

/* Takes the payloads of TICK frames, one behind the other. 0: malformed. */
int hp_heartbeats_hear(hp_heartbeats *ticks, const uint8_t *in, size_t n, uint64_t now);

/*
 * As many ticks to pass on as a frame holds; those of rank `to` itself are not for it. 0: none are left. They stay to be
 * passed on until the frame was taken, and the next frame begins where it ended: a way too narrow for all carries each
 * in turn.
 */
size_t hp_heartbeats_put(hp_heartbeats *ticks, int to, uint8_t out[HP_HEARTBEATS_BYTES]);
void hp_heartbeats_taken(hp_heartbeats *ticks);

/*
 * Who holds up operation `sequence`, in which this rank has said that it is: the first rank downstream that was not heard
 * since `alive`, if this rank waits for it; where all were heard, whoever the waits lead to. HP_GUILT_NONE: it cannot be
 * told from here.
 */
hp_blame hp_heartbeats_blame(const hp_heartbeats *ticks, uint64_t sequence, uint64_t alive);

/*
 * Of all ranks that find somebody to blame so, whether this one is to tell people: where one rank is not heard, the
 * nearest before it that sees this; where all are, the lowest of those that wait.
 */
int hp_heartbeats_speaks(const hp_heartbeats *ticks, uint64_t alive);

/* What a rank judges by: its clock, its own last progress, the time-out, and the time between two ticks, in ns. */
typedef struct hp_heartbeat_clock {
    uint64_t now, moved, limit, beat;
} hp_heartbeat_clock;

/* Whether this rank has told and been told long enough to know who is alive. */
int hp_heartbeats_listened(const hp_heartbeats *ticks, uint64_t beat, uint64_t now);

/*
 * Who is to be named now for `sequence`; HP_GUILT_NONE: nobody, or not yet. Who sees the culprit says so at the time-out;
 * the others leave that rank a moment, and then guess. may_rest: some ranks may be done with the operation while others
 * wait in it.
 */
hp_blame hp_heartbeats_judge(const hp_heartbeats *ticks, uint64_t sequence, int may_rest,
                             const hp_heartbeat_clock *clock);
uint64_t hp_heartbeats_moved(const hp_heartbeats *ticks,
                             const hp_heartbeat_clock *clock); /* when anybody last has, as far as known */
int hp_heartbeats_late(const hp_heartbeats *ticks, const hp_heartbeat_clock *clock); /* that moment is over too */

#endif
