/* SPDX-License-Identifier: MIT */
/* stays: the places in which one process waits: the one where it has been longest, and the next. Pure. */
#ifndef HP_STAYS_H
#define HP_STAYS_H

#include "rendezvous/events.h"

typedef struct hp_stay {
    hp_wait_place place; /* its ring NULL: it is nowhere */
    uint64_t since;      /* when the place stood still, or the process came there */
} hp_stay;

/* Two different places, all zero at the start. Of places since the same moment, that which was noted first comes first. */
typedef struct hp_stays {
    hp_stay longest, next;
} hp_stays;

int hp_stays_same(const hp_wait_place *one, const hp_wait_place *other);

void hp_stays_note(hp_stays *stays, const hp_wait_place *place, uint64_t since);

/* The longest one other than in this place. */
const hp_stay *hp_stays_except(const hp_stays *stays, const hp_wait_place *place);

#endif
