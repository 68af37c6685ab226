/* SPDX-License-Identifier: MIT */
/*
 * statement: what a rank says of a ring to a server that was started again, and knows none: where the ring comes from, and
 * how far this rank has got in it. Pure.
 *
 *   RECALL    from the server: 1: with the roster 1
 *             to it: lineage 8 | parent 8 | split 4 | colour 4 | epoch 4 | standing 4 | patience 4 | placed 4;
 *             with the roster: ROSTER frames follow
 */
#ifndef HP_STATEMENT_H
#define HP_STATEMENT_H

#include "rendezvous/message.h"

/* Where a ring comes from. */
typedef struct hp_origin {
    uint64_t lineage; /* the ring of whose ranks it is what shrinks have left; its own number if there were none */
    uint64_t parent;  /* the ring that it was split off, before all shrinks and grows; 0: it is the whole job's */
    uint32_t split;   /* the number of that split; 0: likewise */
    int color;        /* there */
} hp_origin;

/* How far a rank has got: it has the roster, then its links, then GO. */
typedef enum hp_standing { HP_STANDS_ASSIGNED, HP_STANDS_LINKED, HP_STANDS_RUNNING } hp_standing;

typedef struct hp_statement {
    hp_origin origin;
    uint32_t epoch;
    hp_standing standing;
    uint32_t
        patience; /* ms for which it waits yet, for GO or for what it makes of the ring; 0: for as long as it takes */
    uint32_t placed; /* of a member: the last split, or grow, of the ring that is over for it; 0: none is */
} hp_statement;

void hp_statement_put(uint8_t out[HP_RECALL_BYTES], const hp_statement *statement);
int hp_statement_get(hp_statement *statement, const uint8_t *in, size_t n);

#endif
