/* SPDX-License-Identifier: MIT */
/* job_events: what a job's join groups and rosters cause: the connection's state is noted, then the owner is called. Pure. */
#ifndef HP_JOB_EVENTS_H
#define HP_JOB_EVENTS_H

#include "rendezvous/job_state.h"

hp_events hp_job_events(hp_job *job); /* the job has its owner */

#endif
