/* SPDX-License-Identifier: MIT */
/*
 * allocation: the hosts that a batch system has given to this job, as its variables show them: Slurm, PBS, LSF, OAR,
 * Flux. hooprun(1) says what each needs.
 */
#ifndef HP_LAUNCH_ALLOCATION_H
#define HP_LAUNCH_ALLOCATION_H

#include "launch/hostfile.h"

typedef struct hp_allocation {
    char name[80];      /* "Slurm job 7"; "": this process is in no job of a batch system */
    const char *lacks;  /* the variable that would lead to the job's hosts, but is not set; else NULL */
    const char *reach;  /* the command that reaches the hosts, as --rsh takes it; NULL where the hosts are unknown */
    hp_host_list hosts; /* each with its slots */
} hp_allocation;

/*
 * Reads the environment into zeroed memory. A rank of hooprun has its hosts from there, so it is in no allocation of
 * its own. HOOP_ERR_INVALID_ARGUMENT: the batch system's variables or its file cannot be understood.
 */
hoop_result hp_allocation_find(hp_allocation *allocation, hoop_error *error);

/*
 * Hosts that the user has listed: each must be in the allocation, and has the slots that it has there unless some are
 * written. HOOP_ERR_INVALID_ARGUMENT names the first one that is elsewhere.
 */
hoop_result hp_allocation_narrow(const hp_allocation *allocation, hp_host_list *hosts, hoop_error *error);
void hp_allocation_free(hp_allocation *allocation);

#endif
