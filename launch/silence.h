/* SPDX-License-Identifier: MIT */
/*
 * silence: hosts that do not answer: what the user hears about them while the start waits for them, and while their
 * ranks run; when they are lost; at the end of the run those that have not confirmed it.
 */
#ifndef HP_LAUNCH_SILENCE_H
#define HP_LAUNCH_SILENCE_H

#include "launch/host.h"
#include "rendezvous/stall_warning.h"

typedef struct hp_silence {
    hp_hosts *hosts;
    hp_failure *failure; /* which ranks have failed, and how many more may (--elastic) */
    hp_output *output;
    hp_timer *timer; /* at the start */
    uint64_t line;   /* after so long the next line is due, ns */
    uint64_t
        limit; /* for a host to answer once it is called, ns: as long as ranks have to join (bootstrap_timeout_ms) */
    hp_timer *look;          /* while ranks run */
    hp_stall_warning *quiet; /* likewise, by host */
    int reported;
    int gave_up; /* the time to answer is over, or too many ranks are lost; their hosts have been named */
} hp_silence;

void hp_silence_open(hp_silence *s, hp_hosts *hosts, hp_failure *failure, hp_output *output);
void hp_silence_close(hp_silence *s); /* zeroed memory is fine */

void hp_silence_begin(hp_silence *s); /* the first agents are being started */
void hp_silence_watch(hp_silence *s); /* all have answered, and their ranks run */
void hp_silence_end(hp_silence *s);   /* the run ends */

/* The job's ring has failed because it lost this rank, -1: for another reason. A host that is silent, too, is lost now. */
void hp_silence_ring_failed(hp_silence *s, int rank);

/* The last lines of a run: hosts whose agents have not said that their ranks have ended. Once. */
void hp_silence_report(hp_silence *s);

#endif
