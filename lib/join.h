/* SPDX-License-Identifier: MIT */
/*
 * join: bring-up. Settings and secret, the rendezvous server, an entry at the listener, links to the neighbours, READY,
 * GO.
 */
#ifndef HP_JOIN_H
#define HP_JOIN_H

#include "lib/comm.h"

/* When bootstrap_timeout_ms is over, by hp_loop_now(); resolving names counts, too. */
uint64_t hp_join_deadline(const hoop_comm *comm);

/* The world: from settings alone. comm->config is resolved, comm->loop is made. */
hoop_result hp_join_world(hoop_comm *comm, uint64_t deadline, hoop_error *error);

/* A part of `parent`; comm->size is 0 afterwards when color was negative. */
hoop_result hp_join_split(hoop_comm *comm, hoop_comm *parent, int color, int key, hoop_error *error);

#endif
