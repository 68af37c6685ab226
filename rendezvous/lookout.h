/* SPDX-License-Identifier: MIT */
/*
 * lookout: looks once a second whether the hosts of a server's members acknowledge what was sent to them, and asks absent
 * processes by a connection to their data listener: those whose control connection broke and that have not dialled again,
 * and those whose host has acknowledged nothing for half of peer_timeout. Each is alive, has ended, or is cut off: the job is
 * told (hp_job_probed, hp_job_unreached), and judges.
 */
#ifndef HP_LOOKOUT_H
#define HP_LOOKOUT_H

#include "rendezvous/control_conn.h"
#include "rendezvous/job_state.h"

/* Fills out[] with at most `most` absent processes, each process once; returns how many. They are valid until the job's next event. */
int hp_absence_list(const hp_job *job, const hp_member **out, int most);

/* For how many ns the other host of a connection has acknowledged nothing; 0: it does. About once a second. */
void hp_absence_see(const hp_job_conn *conn, uint64_t silence);

/* Whether that host was silent at the last look: then the end of this connection is no proof that its process has ended. */
int hp_absence_was_silent(const hp_job_conn *conn);

/*
 * For how many ns the host of a process has acknowledged nothing on any of its connections; 0: on one it acknowledges. Those that
 * broke while it was silent count on only if none is left: a process that computes does not dial again.
 */
uint64_t hp_absence_silence(const hp_job *job, const hp_member *who, uint64_t now);

/*
 * A probe had no answer. A host that hears nothing still sends, again and again what it has sent before, and each segment counts
 * as a sign of life where it was sent nothing: so in each ring it gets something to acknowledge.
 */
void hp_absence_ping(const hp_job *job, const hp_member *who);

enum { HP_LOOK_MS = 1000 };

typedef struct hp_enquiry hp_enquiry;

/* All 0 at first. */
typedef struct hp_lookout {
    hp_enquiry *enquiries;
    uint64_t looked; /* by the loop, at the connections */
} hp_lookout;

void hp_lookout_forget(hp_lookout *lookout, const hp_job *job); /* it is freed, or none of its processes is absent */
void hp_lookout_clear(hp_lookout *lookout);

/* Whether a second has passed: then hp_lookout_see is due for each connection. */
int hp_lookout_due(hp_lookout *lookout, uint64_t now);

/* At one connection. */
void hp_lookout_see(hp_control_conn *control, hp_job_conn *conn, uint64_t now);

/* About the absent processes of a job: to be called every 50 ms while it returns 1. May end rings. */
int hp_lookout_ask(hp_lookout *lookout, hp_job *job, uint64_t now);

#endif
