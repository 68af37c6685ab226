/* SPDX-License-Identifier: MIT */
/* departure: the sentences about ranks that are gone while others need them, and about the end of a ring. Pure. */
#ifndef HP_DEPARTURE_H
#define HP_DEPARTURE_H

#include "rendezvous/blame.h"

/*
 * PEER_LOST: "rank 3 (node2) left the communicator after 16 operations while rank 1 (node1) waits in operation 17
 * (barrier)". sequence: HP_NO_OPERATION for a message.
 */
void hp_departure_left(const hp_ring_view *view, int rank, int waiter, uint64_t sequence, hoop_error *error);

/*
 * The operation in which a vanished rank was. If it has not reported one: that in which a link loss was reported, or the
 * oldest that another rank is in. lost_in: of a link loss, 0: none. 0: none is known.
 */
uint64_t hp_departure_operation(const hp_ring_view *view, int rank, uint64_t lost_in);

/*
 * PEER_LOST: "rank 3 (node2, pid 811) vanished during operation 17 (barrier): its process ended or its connection
 * broke". sequence: 0 for none; linking: during bring-up; why: instead of the last part, or NULL.
 */
void hp_departure_vanished(const hp_ring_view *view, int rank, uint64_t sequence, int linking, const char *why,
                           hoop_error *error);

/*
 * PEER_LOST: "rank 3 (node2, pid 811) is cut off during operation 17 (barrier): its host has acknowledged nothing for 31.0 s;
 * look at its cable, its switch and its firewall". If most hosts are as silent, the sentence is about the server's. rank
 * -1 then.
 */
void hp_departure_cut_off(const hp_ring_view *view, int rank, uint64_t sequence, int linking, hoop_error *error);

/*
 * "over: all 4 ranks left after 80 operations", or "over: 3 of 4 ranks left after 80 operations; rank 1 (node2, pid 811)
 * did not come back after its control connection broke".
 */
void hp_departure_over(const hp_ring_view *view, char *out, size_t size);

/*
 * RENDEZVOUS: "all 4 ranks joined, but the links of 2 of them are not up (ranks 1, 3); ...". ready: a bit for each of the
 * ready_n ranks whose links are. rank: the one whose are not, if it is one.
 */
void hp_departure_unlinked(const uint64_t *ready, int size, int ready_n, hoop_error *error);

#endif
