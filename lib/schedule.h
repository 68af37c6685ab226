/* SPDX-License-Identifier: MIT */
/*
 * schedule: what one ring position does at step i of an operation: pure, O(1), no sockets, no memory. schedule.c's head
 * has the row tables.
 *
 * Two laws hold for every algorithm and carry the proofs:
 *   lag       what a rank sends as step i, the rank `to` positions further receives as its step i + S;
 *   announce  step 0 sends to the next rank unconditionally, step S receives it. So every rank sees its neighbour's
 *             call at once, and ranks that disagree never wait for each other in silence.
 *
 * Exchanges do not announce. Let some ranks call a small allreduce that is an exchange, and others something else. If that
 * announces itself, somewhere on the ring such a rank sends to one that exchanges, and that one finds a head which it does
 * not await (lib/fault.c). If it is another exchange, there is a first round in which a rank of one kind is the
 * partner of one of the other kind; both reach it, and compare their frames.
 *
 * Nor do the levels. No rank has the result before it has something of all ranks. So if other ranks call what announces
 * itself, or an exchange, one of those sends to a rank that is still over its levels, and that one finds a head which it does
 * not await. If both are over levels, and the ranks of one host differ, its first owner receives from all of them; else
 * hosts differ, and their first owners meet. An allgather first sends its block to the same rank of each other host. It uses no
 * exchange's connections, which both ranks have to want. A peer that calls something else finds that head. If none does, the
 * ranks hand the blocks on in their hosts, and a rank there finds it.
 */
#ifndef HP_SCHEDULE_H
#define HP_SCHEDULE_H

#include "lib/plan.h"
#include "lib/step.h"

/* Step i of plan at ring position `position`; order[position] = rank (n entries). */
hp_step hp_schedule_at(const hp_plan *plan, const int *order, int position, uint64_t i);

/* Halves: ranks whose data is in part i of the stage's vector when `round` rounds have been reduced; i < s(round). */
uint32_t hp_halves_ranks(int size, uint32_t round, uint64_t i);

/* The furthest distance of the k-th exchange of an alltoall, k = 0 ... n-2: 1, n-1, 2, n-2 ... */
int hp_pair_distance(int size, uint32_t k);

#endif
