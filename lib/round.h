/* SPDX-License-Identifier: MIT */
/*
 * round: one round of the driver over everything that a communicator has: what was submitted, connections, belts,
 * operations that are complete; and what comes between two rounds: reports, faults, how long to sleep. Baton holder
 * only.
 */
#ifndef HP_ROUND_H
#define HP_ROUND_H

#include "lib/comm.h"

/* Moves everything that can move without waiting. 1 if anything moved. */
int hp_round_step(hoop_comm *comm);

/* The same; 1 if a step got on. A few bytes of a payload do not count. */
int hp_round_pass(hoop_comm *comm);

/* Nothing has moved since then, by hp_now(): notes that it waits, and for what. */
void hp_round_wait(hoop_comm *comm, uint64_t since);

/*
 * The slow part, when nothing moved: faults, reports, connecting. 1 if it read something from a link after all: what
 * was read is read, no descriptor will announce it again, so the driver must step before it sleeps.
 */
int hp_round_idle(hoop_comm *comm, uint64_t now);

uint64_t hp_round_timeout(hoop_comm *comm, uint64_t now); /* ns the driver may sleep at most */
int hp_round_awaits_stream(const hoop_comm *comm);        /* 1 if a channel waits for a caller's stream */
void hp_round_arm(hoop_comm *comm);                       /* before a sleep: everything awaited wakes the loop */

#endif
