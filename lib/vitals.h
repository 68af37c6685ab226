/* SPDX-License-Identifier: MIT */
/*
 * vitals: what the server hears of this rank once a second while it calls, however short its operations are: its
 * counters (STATS). Baton holder only.
 */
#ifndef HP_VITALS_H
#define HP_VITALS_H

#include "lib/recorder.h"

enum { HP_REPORT_TURNS = 2 }; /* of the loop after a report: the first may come before its answer */

/*
 * Measures (stats.h), and sends them now: the ring is up, or this rank leaves. Nothing in a ring of one without a server,
 * where they are never due.
 */
void hp_vitals_send(hoop_comm *comm);

/*
 * Asks what time it is at the server. A rank asks only while it drives, after a report, so that it reads the answer: if its
 * process ended while one is unread, the server would see a reset, and think that the network failed.
 */
void hp_vitals_ask(hoop_comm *comm);

/* Whether a second has passed since the last time, by the clock as the loop or the recorder has read it last. */
static inline int
hp_vitals_are_due(const hoop_comm *comm)
{
    return hp_recorder_clock(comm) >= comm->reports.vitals_due;
}

/* Sends them if they are due. */
static inline void
hp_vitals_poll(hoop_comm *comm)
{
    if (hp_vitals_are_due(comm))
        hp_vitals_send(comm);
}

#endif
