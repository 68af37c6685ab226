/* SPDX-License-Identifier: MIT */
/*
 * counters: what the driver counts of a communicator for hoop_comm_stats: bytes, messages, the time that operations were
 * in progress and what they waited for. The baton's holder counts, and any thread may read; fields of one moment need
 * not agree. All times are by hp_now(), and those that others have read already: an operation that does not wait reads
 * no clock for this.
 */
#ifndef HP_COUNTERS_H
#define HP_COUNTERS_H

#include "base/call.h"
#include "base/count.h"
#include "lib/call_times.h"

enum { HP_COUNTERS_ENTRIES = 1024 }; /* of so many collectives, the time of one's call is added up */
enum { HP_TIMES_WORDS = 6 };         /* that any thread may read of hp_call_times */

typedef struct hp_counters {
    hp_count messages, bytes[2]; /* messages that ended well; payload received, and sent */
    hp_count plan;  /* of the last collective that ended well: 2 (1 + its algorithm), and 1 if in rank order; 0: none */
    hp_count ended; /* when the last operation ended; 0: one is in progress, or there was none */
    hp_stopwatch inside; /* operations were in progress */
    hp_stopwatch waited[HP_WAITS];
    hp_stopwatch *waited_for; /* by rank; NULL before the ring is known */
    int ranks;
    hp_count rtt_us, retransmits, delivery_rate, shares; /* to the next rank */
    atomic_uint shown;                                   /* in [shown % 2] is what `times` were */
    hp_count times_shown[2][HP_TIMES_WORDS];
    /* the baton holder's alone */
    hp_call_times times;
    uint64_t in_progress; /* operations */
    uint64_t left;        /* when the last one ended */
    uint64_t passed;      /* stations that steps had passed when the wait began */
    hp_awaited awaited;   /* HP_WAIT_NONE: no wait is open */
} hp_counters;

int hp_counters_open(hp_counters *counters, int ranks); /* 0: out of memory */
void hp_counters_close(hp_counters *counters);

/* A wait for this begins, and for this rank or -1. None is open. */
void hp_counters_wait(hp_counters *counters, hp_awaited awaited, uint64_t now);

/* It ends, if one is open. */
void hp_counters_end_wait(hp_counters *counters, uint64_t now);

/* An operation has moved: the wait is over. */
static inline void
hp_counters_moved(hp_counters *c)
{
    if (c->awaited.what)
        hp_counters_end_wait(c, hp_now());
}

/* A work that was called at `entered` starts; 0: no recorder took the time. */
static inline void
hp_counters_enter(hp_counters *c, uint64_t entered)
{
    if (c->in_progress++ > 0 || entered == 0)
        return;
    hp_stopwatch_start(&c->inside, entered > c->left ? entered : c->left);
    hp_count_set(&c->ended, 0);
}

void hp_counters_add_time(hp_counters *counters, uint64_t entered);

/* A collective, which fuses `calls` calls up to number `sequence`, starts: of some the time of the call is kept. */
static inline void
hp_counters_call(hp_counters *c, uint64_t sequence, uint64_t calls, uint64_t entered)
{
    if (sequence % HP_COUNTERS_ENTRIES < calls && entered != 0)
        hp_counters_add_time(c, entered);
}

/* A work ends at `left`; 0: no recorder took the time. */
static inline void
hp_counters_leave(hp_counters *c, uint64_t left)
{
    if (--c->in_progress > 0)
        return;
    if (c->awaited.what)
        hp_counters_end_wait(c, left ? left : hp_now());
    if (!left)
        return;
    c->left = left;
    hp_stopwatch_stop(&c->inside, left);
    hp_count_set(&c->ended, left);
}

/* ns since the last operation ended; 0: one is in progress, or none was called. Any thread. */
static inline uint64_t
hp_counters_outside(const hp_counters *c)
{
    uint64_t ended = hp_count_read(&c->ended);
    return ended ? hp_now() - ended : 0;
}

/* What is known of the server's clock now. */
void hp_counters_set_clock(hp_counters *counters, const hp_clock_offset *clock);

/*
 * The times of calls that were added, and what is known of the clock, with its error now: a reader, any thread, never
 * sees a part of a change, and does not wait for one to end.
 */
hp_entry_times hp_counters_times(const hp_counters *counters, int64_t *clock_offset, uint64_t *clock_error);

/* The rank that was waited for longest, and for how many ns; -1: none was. */
int hp_counters_slowest(hp_counters *counters, uint64_t *ns);

#endif
