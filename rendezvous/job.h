/* SPDX-License-Identifier: MIT */
/*
 * job: all state of one job: its join groups, its rings, and what each control connection awaits. Pure: no I/O, no
 * clock of its own. Each job has one, so jobs cannot mix. server.c adds the sockets; tests and the fuzzer add none.
 */
#ifndef HP_JOB_H
#define HP_JOB_H

#include "rendezvous/job_state.h"

/*
 * name: as lines and tables have it; NULL: the first bytes of job_id. comm_seed: random, so that communicators of
 * different jobs, or after a restart of the server, differ. NULL: out of memory.
 */
hp_job *hp_job_new(const hp_events *owner, const uint8_t job_id[HP_JOB_ID_BYTES], const char *name, uint64_t comm_seed);
void hp_job_free(hp_job *job);       /* sends nothing */
int hp_job_idle(const hp_job *job);  /* 1: no connection, no ring, nothing to remember: it may be freed */
int hp_job_timed(const hp_job *job); /* whether it needs hp_job_tick */

/*
 * The process of rank `rank` of the job's `size` ranks has ended with status 0 and will not join any more. Worlds
 * that wait for it fail now, and those that are opened later fail at once; the job is remembered for that.
 */
void hp_job_ended(hp_job *job, int rank, int size, const char *host, uint64_t now);

/* A process at this address has named the job, but has another secret: sentences about missing ranks say so. */
void hp_job_mistrust(hp_job *job, const char *address);

void hp_job_enter(hp_job *job, hp_job_conn *conn, const hp_hello *hello);

/*
 * One control frame. Returns 0, or -1 with the error filled: the peer broke the protocol; the owner closes the
 * connection and calls hp_job_lost.
 */
int hp_job_message(hp_job_conn *conn, const hp_control_frame *frame, uint64_t now, hoop_error *error);
/*
 * The connection is closed. `why` is as for hp_roster_lost, and used for members only. NULL: in order, which the proxy of
 * a rank that has one may have done, and is then as hp_job_broke.
 */
void hp_job_lost(hp_job_conn *conn, const char *why, uint64_t now);
/* The connection broke in a way that need not be its process's end: the rank may be alive and dial again. */
void hp_job_broke(hp_job_conn *conn, uint64_t now);
void hp_job_tick(hp_job *job, uint64_t now);
/*
 * What a probe of an absent process (lookout.h) has shown: it has ended, so no other rank waits for it any more; or it is
 * alive, so it may still dial. `who` may be of an earlier moment.
 */
void hp_job_probed(hp_job *job, const hp_member *who, int ended, uint64_t now);
/*
 * The probe got no answer: a member whose host has been silent for peer_timeout is cut off. silence: hp_absence_silence.
 */
void hp_job_unreached(hp_job *job, const hp_member *who, uint64_t silence, uint64_t now);
/* The server ends: whoever is not in a running ring gets the cause. Rings that are up notice nothing. */
void hp_job_close(hp_job *job, const hoop_error *cause, uint64_t now);

#endif
