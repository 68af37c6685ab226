/* SPDX-License-Identifier: MIT */
/*
 * jury: keeps the ranks' last words and finds which rank's end is the cause of the job's. Says it once. Stops nobody:
 * that is job.c's part.
 */
#ifndef HP_JURY_H
#define HP_JURY_H

#include "launch/output.h"
#include "launch/verdict.h"

typedef struct hp_seat {
    int running;
    uint64_t shown; /* hp_output_shown after its last error output */
    hp_bytes last_words;
} hp_seat;

typedef struct hp_jury {
    hp_seat *seat; /* by rank */
    int size, running;
    hp_ending verdict; /* of the rank that failed first; rank -1: none has */
    char *ring;        /* why the ring failed, in the rendezvous server's words; NULL: it has not */
    int ring_worked;   /* it had stood, and failed in an operation */
    int ring_judged;   /* by what its ranks have done: the sentence names who is to blame, whatever follows */
    int spoken;
} hp_jury;

void hp_jury_open(hp_jury *jury, int size);
void hp_jury_started(hp_jury *jury, int rank);
void hp_jury_heard(hp_jury *jury, int rank, const uint8_t *bytes, size_t n, uint64_t shown); /* on standard error */
/*
 * Where several communicators fail: who is late, or calls something else, is to blame, and the first such sentence stays;
 * ranks that vanish or abort after another failure follow from it. Else the last one counts.
 */
void hp_jury_ring_failed(hp_jury *jury, const hoop_error *cause);

/* 1 when this is the first that failed: others may fail at the same moment, so speak a moment later. */
int hp_jury_ended(hp_jury *jury, const hp_ending *ending);

/*
 * Says the verdict once, with the last words when they are not on the screen (hidden: they went to a file), and why the
 * ring failed: the one that failed first is often not the one to blame. Last, so that the last line names the one that
 * is; only where ranks did not meet, and this one has said why, it is not said again.
 */
void hp_jury_speak(hp_jury *jury, hp_output *output, int hidden);
void hp_jury_close(hp_jury *jury);

#endif
