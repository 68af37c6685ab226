/* SPDX-License-Identifier: MIT */
/* rank_row: what one rank of a ring is doing, as a row of a table for a person, and as JSON. Pure. */
#ifndef HP_RANK_ROW_H
#define HP_RANK_ROW_H

#include "base/json.h"
#include "rendezvous/columns.h"
#include "rendezvous/hold_up.h"
#include "rendezvous/straggler.h"
#include "rendezvous/whereabouts.h"

/* What the ring waits for; all rows are seen by its light. */
typedef struct hp_table_view {
    const hp_roster *ring;
    const hp_whereabouts *where;
    hp_blame blame;
    hp_wait_chain chain;    /* of one that does not stand still: of no hops */
    int guilty;             /* the rank that holds it up, by both; -1: none, or it is no member */
    hp_straggler straggler; /* of the last minute */
    hp_slow_link link;      /* now */
    uint64_t now, silent_before;
} hp_table_view;

/* HOST and OPERATION are cut on a narrow terminal. Those from COUNTERS on come from counters: a ring without them has no such. */
enum { HP_ROW_HOST = 1, HP_ROW_OPERATION = 3, HP_ROW_COUNTERS = 6, HP_ROW_COLUMNS = 10 };
extern const char *const hp_rank_row_titles[HP_ROW_COLUMNS];

/*
 * In front of all others, with the least weight, come the blamed rank, then those that are silent or missing, then the
 * straggler and the slowest link's, then those that wait.
 */
int hp_rank_row_weigh(const hp_table_view *view, int rank);

void hp_rank_row_fill(const hp_table_view *view, int rank, hp_row *row);

/* An object in an open list. */
void hp_rank_row_json(const hp_table_view *view, int rank, hp_json *json);

#endif
