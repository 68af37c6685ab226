/* SPDX-License-Identifier: MIT */
/*
 * comeback: a rank whose control connection was reset has dialled again. Pure. A member of the ring sends JOIN with the
 * ring's number; one that has not heard of its ring yet sends its first JOIN once more, with the same number of its own.
 * The server may not have noticed the end of the connection before.
 */
#ifndef HP_COMEBACK_H
#define HP_COMEBACK_H

#include "rendezvous/roster.h"

/* The rank of this ring that sends this JOIN again, connected or away; -1: none. */
int hp_comeback_find(const hp_roster *roster, const hp_join *join);
/* It is connected again, and gets what it may have missed: its roster, GO or the verdict. */
void hp_comeback_take(hp_roster *roster, int rank, void *peer, const hp_join *join, uint64_t now);

#endif
