/* SPDX-License-Identifier: MIT */
/*
 * straggler: which rank, and which link, slows down a ring that makes progress, by what the server keeps of the ranks'
 * counters (STATS): their differences tell of the last moment, of the last minute, and of the whole time. Pure. In a
 * collective all ranks wait for the one that comes last, and that one waits least: so a rank is late by what the others wait
 * more than it does, and no clocks need to agree. Since the start it is late by the times of its calls, if clocks tell more
 * than their error.
 */
#ifndef HP_STRAGGLER_H
#define HP_STRAGGLER_H

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
    double wire;            /* of what is sent, over TCP */
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

typedef struct hp_straggler {
    int rank;     /* -1: none stands out */
    double late;  /* seconds an operation, on average */
    double share; /* of the time that the others have waited for it, 0 to 1 */
} hp_straggler;

/*
 * In the last minute. histories: of n ranks; NULL: none has reported. A rank that is late by less than a twentieth of the
 * time is not named, and none is while not all ranks are heard of.
 */
hp_straggler hp_straggler_in_minute(const hp_history *histories, int n, uint64_t now);

/* Since the start: `late` is by the ranks' clocks where they tell (lateness.h). */
hp_straggler hp_straggler_since_start(const hp_history *histories, int n);

typedef struct hp_slow_link {
    int from, to;         /* ranks; from -1: none stands out */
    double share;         /* of the time that `from` has waited for it to take data */
    uint64_t rate;        /* bytes/s as TCP has delivered last; 0: unknown */
    uint64_t retransmits; /* since the beginning */
    uint32_t rtt;         /* us; 0: unknown */
    int measured;         /* 1: rate, retransmits and rtt are of this link; */
    int shares;           /* 1: it leads through memory */
} hp_slow_link;

/*
 * The link of the sender that waits most, to where most of its bytes go over TCP, or, if these are few, to the next rank of the
 * ring. If none waits a tenth of the time, it is one that delivers less than half of what every other one does.
 */
hp_slow_link hp_straggler_link(const hp_history *histories, const hp_ring *ring, hp_span span, uint64_t now);

/* What is known of the link between these two. */
hp_slow_link hp_straggler_link_of(const hp_history *histories, int from, int to, hp_span span, uint64_t now);

#endif
