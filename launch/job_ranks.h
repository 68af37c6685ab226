/* SPDX-License-Identifier: MIT */
/*
 * job_ranks: what the launcher knows of each rank and its server must know, too. The launcher puts a rank into a message
 * whenever that changes, and again for a server that was started again; the server's process takes it. Pure.
 */
#ifndef HP_LAUNCH_JOB_RANKS_H
#define HP_LAUNCH_JOB_RANKS_H

#include "launch/agent_msg.h"
#include "rendezvous/events.h"

typedef struct hp_job_rank {
    uint32_t pid; /* 0: nothing is known */
    hp_process state;
    uint64_t told;    /* when the launcher said so; set by hp_job_rank_take */
    int ended;        /* its process; 0 again once another one is started */
    const char *host; /* the name of the host where it runs */
} hp_job_rank;

void hp_job_rank_put(hp_buffer *out, int rank, const hp_job_rank *r);

/*
 * Takes an HP_MSG_SERVED_RANK into one of `size` ranks. Returns which one, if it has ended and had not before; else -1.
 * hp_job_ranks_free: frees them and their names.
 */
int hp_job_rank_take(hp_job_rank *ranks, int size, const hp_agent_msg *msg, uint64_t now);
void hp_job_ranks_free(hp_job_rank *ranks, int size);

/*
 * Whether the process `pid` of this rank is stopped. The launcher's word counts for five seconds: its agents repeat it each
 * second, unless one is stopped or cut off. A ring that was shrunk has other numbers for its ranks, so the process counts.
 */
hp_process hp_job_rank_process(const hp_job_rank *ranks, int size, int rank, uint32_t pid, uint64_t now);

#endif
