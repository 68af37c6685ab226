/* SPDX-License-Identifier: MIT */
/*
 * peer_heartbeat: the heartbeats that ranks of a ring send each other while the server is lost, and which rank holds up
 * the ring by them; pure. A rank in a long operation reports at regular times its step and the rank it waits for.
 * Heartbeats travel against the data: each rank passes on to the previous one the new ones that it has received from
 * the next. A rank that is stalled, or rests because it has done its part, hides the ranks behind it. So the first
 * silent rank downstream is at fault if the waits lead to it: at least the rank that waits for it sees that, and names
 * it.
 *
 *   TICK      1 to 16 times: rank 4 | waits for 4 | 1: it has lost the server 4 | number 8 | operation 8, 0: in none |
 *             completed 8 | step 8 | bytes 8
 */
#ifndef HP_PEER_HEARTBEAT_H
#define HP_PEER_HEARTBEAT_H

#include "net/frame.h"
#include "rendezvous/blame.h"

typedef struct hp_heartbeats {
    int size, position;
    const int *order; /* position -> rank; outlives this */
    hp_witness *of;   /* by rank: its last heartbeat, and when that arrived here */
    uint64_t *number; /* by rank: that heartbeat's number; 0: none yet */
    uint8_t *fresh;   /* by rank: not passed on yet */
    uint8_t *alone;   /* by rank: it has lost the server */
    int fresh_n;
    int next, put;  /* places downstream: where the next frame begins, and how many the last one went through */
    uint64_t since; /* when this rank began to send heartbeats; 0: it does not */
    uint64_t asked; /* when a heartbeat of a rank that has lost the server last arrived; 0: never */
    uint64_t moved; /* when a heartbeat last showed progress */
    uint64_t sees;  /* since when this rank has seen which one is to blame; 0: it does not */
} hp_heartbeats;

hp_heartbeats *hp_heartbeats_new(int size, int position, const int *order); /* NULL: out of memory */
void hp_heartbeats_free(hp_heartbeats *heartbeats);                         /* NULL is fine */

/* Makes this rank's own heartbeat. report NULL: it is in no operation any more; alone: it has lost the server. */
void hp_heartbeats_make(hp_heartbeats *heartbeats, const hp_report *report, uint64_t completed, int alone,
                        uint64_t now);

/* Takes the payloads of TICK frames, one behind the other. 0: malformed. */
int hp_heartbeats_receive(hp_heartbeats *heartbeats, const uint8_t *in, size_t n, uint64_t now);

/*
 * Writes as many heartbeats as a frame holds, for rank `to`, without its own. 0: none are left. They count as passed on
 * when hp_heartbeats_taken says that the frame was sent; the next frame begins where it ended, so that a connection too
 * slow for all carries each in turn.
 */
size_t hp_heartbeats_put(hp_heartbeats *heartbeats, int to, uint8_t out[HP_HEARTBEATS_BYTES]);
void hp_heartbeats_taken(hp_heartbeats *heartbeats);

/*
 * The rank that holds up operation `sequence`, in which this rank is: the first rank downstream that has sent no
 * heartbeat since `alive`, if this rank's waits lead to it; if all have, the rank that the waits lead to.
 * HP_GUILT_NONE: this rank cannot tell.
 */
hp_blame hp_heartbeats_blame(const hp_heartbeats *heartbeats, uint64_t sequence, uint64_t alive);

/*
 * Of all ranks that can blame one so, whether this rank is to log it: where one rank is silent, the nearest before it
 * that sees this; if none is silent, the lowest of those that wait.
 */
int hp_heartbeats_should_warn(const hp_heartbeats *heartbeats, uint64_t alive);

/*
 * Notes whether this rank is to log a blame now. 1: for a whole interval nothing has spoken against it. A heartbeat
 * that is late makes two ranks see different things for a moment: a rank that wakes up passes on those of others before
 * its own.
 */
int hp_heartbeats_is_sure(hp_heartbeats *heartbeats, int sees, uint64_t interval, uint64_t now);

/* What a rank judges by: its clock, its own last progress, the time-out, and the time between two heartbeats, in ns. */
typedef struct hp_heartbeat_clock {
    uint64_t now, moved, limit, interval;
} hp_heartbeat_clock;

/* Whether this rank has sent and received heartbeats for long enough to know which ranks are alive. */
int hp_heartbeats_has_listened(const hp_heartbeats *heartbeats, uint64_t interval, uint64_t now);

/*
 * The rank to be blamed now for `sequence`; HP_GUILT_NONE: none, or not yet. A rank that sees which one is stalled
 * names it at the time-out; the others wait a moment for that, and then guess. may_rest: some ranks may be done with
 * the operation while others wait in it.
 */
hp_blame hp_heartbeats_judge(const hp_heartbeats *heartbeats, uint64_t sequence, int may_rest,
                             const hp_heartbeat_clock *clock);
uint64_t hp_heartbeats_moved(const hp_heartbeats *heartbeats,
                             const hp_heartbeat_clock *clock); /* when any rank last moved, as far as known */
int hp_heartbeats_late(const hp_heartbeats *heartbeats, const hp_heartbeat_clock *clock); /* that moment is over too */

#endif
