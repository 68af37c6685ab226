/* SPDX-License-Identifier: MIT */
/*
 * hold_up: the sentence about the rank for which ranks of a job wait, wherever it waits itself: in operations of its rings,
 * splits, messages; and the errors that end such waits. Pure. The last of a chain waits for nobody. Or the places wait for
 * each other in a circle, because they were called in different orders: no error before the time-out, as other threads may
 * yet make the calls.
 */
#ifndef HP_HOLD_UP_H
#define HP_HOLD_UP_H

#include "rendezvous/whereabouts.h"

typedef struct hp_wait_chain {
    hp_wait_place from, last; /* the first place and the last one; of a circle the oldest of its places */
    hp_blame first, blame;    /* whom the first place and the last one await */
    const hp_member *waiter;  /* who is in the last place, on the way */
    hp_wait_place second;     /* of a circle: where the one waits that the oldest place awaits */
    int hops;                 /* places behind the first; 0: the awaited rank waits in no other place */
    int circle;               /* places in the circle to which it leads; 0: it ends */
} hp_wait_chain;

hp_wait_chain hp_wait_chain_find(const hp_whereabouts *where, const hp_wait_place *from);

/* The rank of the first place's ring that is to blame; -1: none is, it is not a member of that ring. */
int hp_wait_chain_guilty(const hp_wait_chain *chain);

/* Of a chain of some hops, from a place where nothing has moved for `stalled` ns. That of a circle is the same for all places. */
void hp_wait_chain_say(const hp_whereabouts *where, const hp_wait_chain *chain, uint64_t stalled, char *out,
                       size_t size);

/* If the chain from this place leads to another place: its sentence, the guilty rank, and 1. Else 0. */
int hp_wait_chain_print(const hp_whereabouts *where, const hp_wait_place *from, uint64_t stalled, int *guilty,
                        char *out, size_t size);

/*
 * The sentence of the message in which a rank of this ring has waited for longest, wherever its chain leads, and for how
 * many ns; 0: none waits, and there is no sentence.
 */
uint64_t hp_wait_chain_message(const hp_whereabouts *where, const hp_roster *ring, uint64_t now, char *out,
                               size_t size);

/*
 * After a time-out in one place, rings whose chains end where its chain ends, and whose own time-out is due, too, end with
 * it: else a rank that fails in one of them, and exits, would be blamed in the others.
 */
void hp_wait_chain_fail_others(const hp_job *job, const hp_wait_place *failed, uint64_t now);

/*
 * The rank to which "waits for" leads from those that wait, and a sentence; nothing has moved for `stalled` ns. If that rank
 * waits in another ring, the one that is to blame there; rank -1: it is not in this ring.
 */
hp_blame hp_hold_up_find(const hp_whereabouts *where, const hp_roster *r, uint64_t stalled, char *out, size_t size);

/* The sentence alone, of a ring of which it is known that the rank waits in no other. */
void hp_hold_up_here(const hp_whereabouts *where, const hp_roster *r, uint64_t stalled, char *out, size_t size);

/*
 * The error TIMEOUT of a ring whose time is up (hp_roster_tick). If nothing has moved for too long, it names the rank for
 * which the others wait. If the wait of one rank is overdue, it names that rank where none is missing, because such a limit
 * ends also an operation that progresses.
 */
void hp_hold_up_timeout(const hp_whereabouts *where, const hp_roster *r, uint64_t now, hoop_error *error);

/*
 * A message of error->reporter has timed out, and it asks for the cause: if the rank that it awaits waits elsewhere itself,
 * the error has the whole chain. Otherwise the rank knows best.
 */
void hp_hold_up_message(const hp_whereabouts *where, const hp_roster *r, uint64_t now, hoop_error *error);

/* Adds to a sentence which connections are made again: "; the connection between rank 0 and rank 2 is being made again". */
void hp_hold_up_add_mends(const hp_roster *r, char *text, size_t size);

/* Adds to a sentence which ranks are unreachable, "; rank 2 is unreachable", unless `named`, whom it is about, is one; -1: nobody. */
void hp_hold_up_add_away(const hp_roster *r, int named, char *text, size_t size);

#endif
