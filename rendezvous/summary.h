/* SPDX-License-Identifier: MIT */
/* summary: what a ring has done from its ranks' counters, and what slowed it down, in sentences. Pure. */
#ifndef HP_SUMMARY_H
#define HP_SUMMARY_H

#include "rendezvous/columns.h"
#include "rendezvous/roster.h"
#include "rendezvous/straggler.h"

/*
 * A few lines about a ring from its beginning on: operations, bytes, bandwidth, time waited by reason, the slowest rank and
 * link. None if no rank has reported counters.
 */
void hp_summary_print(const hp_roster *roster, const hp_line_sink *lines);

/* "slowest link: rank 2 (node1) to rank 3 (node2), which rank 2 has awaited 45% of the time; ...". Returns out. */
const char *hp_summary_link(const hp_roster *roster, const hp_slow_link *link, char *out, size_t size);

/*
 * "slowest rank in the last minute: rank 3 (node2), late by 20.3 ms an operation on average; the others wait 40% of the time
 * for it". when: "in the last minute". Returns out.
 */
const char *hp_summary_straggler(const hp_roster *roster, const hp_straggler *straggler, const char *when, char *out,
                                 size_t size);

#endif
