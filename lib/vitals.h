/* SPDX-License-Identifier: MIT */
/*
 * vitals: what the server hears of this rank once a second: its counters (STATS). Baton holder only.
 */
#ifndef HP_VITALS_H
#define HP_VITALS_H

#include "lib/comm.h"

/* Sends them if a second has passed since the last time. The time is what the loop has looked at last, so it costs nothing. */
void hp_vitals_poll(hoop_comm *comm);

/* Sends them now: the ring is up, or this rank leaves. Nothing in a ring of one. */
void hp_vitals_send(hoop_comm *comm);

#endif
