/* SPDX-License-Identifier: MIT */
/*
 * history: what the server keeps of a rank's counters (STATS), and what their differences say of the last moment, of the
 * last minute, and of the whole time. Pure. A rank has one slot, however often it reports.
 */
#ifndef HP_HISTORY_H
#define HP_HISTORY_H

#include "rendezvous/message.h"

enum { HP_MILESTONES = 6 }; /* of the last minute, ten seconds apart */

/* The counters by which a rank is late, at some time. */
typedef struct hp_milestone {
    uint64_t at, calls, waited; /* calls: operations and messages; waited: ns for other ranks and the network */
} hp_milestone;

/* Of one rank. All zero at the start. */
typedef struct hp_history {
    uint64_t seen; /* when the last report came, by the server's loop; 0: none has */
    hp_vitals last;
    hp_vitals before; /* a report about a second older, or the same */
    hp_milestone mark[HP_MILESTONES];
    int marks, next_mark;
} hp_history;

typedef enum hp_span { HP_SPAN_MOMENT, HP_SPAN_MINUTE, HP_SPAN_ALL } hp_span;

/* Of one rank. All zero in the last moment if it has not reported for three seconds. */
typedef struct hp_rates {
    double sent, received;  /* bytes/s */
    double waited;          /* share of the time, 0 to 1 */
    double share[HP_WAITS]; /* its parts */
    hp_wait most;           /* the reason with the largest share */
} hp_rates;

/*
 * Takes a STATS frame of this rank of `size`. *all, the ranks' slots, is allocated at the first one, and the owner's to
 * free; without memory for it the frame is forgotten. 0: the frame is malformed.
 */
int hp_history_take(hp_history **all, int size, int rank, const uint8_t *payload, size_t n, uint64_t now);

/* The span is the last moment or the whole time. */
hp_rates hp_history_rates(const hp_history *history, hp_span span, uint64_t now);

/* What was added to the mark's counters within the span, the last minute or the whole time; all zero: nothing is known. */
hp_milestone hp_history_added(const hp_history *history, hp_span span, uint64_t now);

#endif
