/* SPDX-License-Identifier: MIT */
/*
 * absence: the processes of a job whose control connection broke and that have not dialled again, and those whose host has
 * acknowledged nothing for peer_timeout: each is alive, has ended, or is cut off. Pure. The owner of the job can find out
 * which, by a connection to the process's data listener, and tells the job (hp_job_probed, hp_job_unreached).
 */
#ifndef HP_ABSENCE_H
#define HP_ABSENCE_H

#include "rendezvous/job_state.h"

/* Fills out[] with at most `most` of them, each process once; returns how many. They are valid until the job's next event. */
int hp_absence_list(const hp_job *job, const hp_member **out, int most);

/* As hp_job_probed and hp_job_unreached, which job.c has for the owner. */
void hp_absence_probed(hp_job *job, const hp_member *who, int ended, uint64_t now);
void hp_absence_unreached(hp_job *job, const hp_member *who, uint64_t now);

/* For how many ns the other host of a connection has acknowledged nothing; 0: it does. About once a second. */
void hp_absence_see(const hp_job_conn *conn, uint64_t silence);

/* For how many ns a host of this connection's ring may be away; 0: it is in none yet. */
uint64_t hp_absence_limit(const hp_job_conn *conn);

#endif
