/* SPDX-License-Identifier: MIT */
/*
 * recorders: the flight recorders of a job's ranks (hoop_flight(5)). Each agent reads those of its host before the ranks
 * are stopped, or when they have ended, and whenever the user asks; the launcher explains those of a job that failed, or
 * that the user asks about, and writes them to a file.
 */
#ifndef HP_LAUNCH_RECORDERS_H
#define HP_LAUNCH_RECORDERS_H

#include "base/buffer.h"
#include "flight/collection.h"
#include "launch/output.h"

/* The launcher's, as far as agents have sent them. */
typedef struct hp_recorders {
    hp_flight_collection all;
    hp_flight_collection earlier; /* an earlier reading */
    int written;                  /* 1: the file is this run's */
} hp_recorders;

/* The agent: appends this host's recorders of the job to `out`, a HP_MSG_FLIGHT each. */
void hp_recorders_put(hp_buffer *out, const char *job);

/* The launcher: whether the folder of --flight-dir (NULL: none) can take the file; else the error names it. */
hoop_result hp_recorders_check(const char *dir, hoop_error *error);

/* The launcher: takes a HP_MSG_FLIGHT; bytes that are no recorder are dropped. */
void hp_recorders_take(hp_recorders *recorders, const uint8_t *payload, size_t n);

/* What was taken is an earlier reading from now on, with which the next one is compared before it is reported. */
void hp_recorders_again(hp_recorders *recorders);
void hp_recorders_forget(hp_recorders *recorders); /* there is none */

/*
 * Writes DIR/hoop-JOB.flight.json, and the sentence to the user, and frees the recorders. Nothing where there are none. A
 * file that this run has written before is written anew; another's is never changed.
 */
void hp_recorders_report(hp_recorders *recorders, const char *dir, const char *job, hp_output *output);

#endif
