/* SPDX-License-Identifier: MIT */
/*
 * lookout: looks once a second whether the hosts of a server's members acknowledge what was sent to them, and asks absent
 * processes (absence.h) by a connection to their data listener. The jobs judge by what it sees.
 */
#ifndef HP_LOOKOUT_H
#define HP_LOOKOUT_H

#include "rendezvous/control_conn.h"
#include "rendezvous/job_state.h"

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
