/* SPDX-License-Identifier: MIT */
/*
 * rank_exit: the end of a rank's process, in words, and why the kernel has killed it, where it tells: the out-of-memory
 * killer counts in the control group of the process (memory.events of version 2, memory.oom_control of version 1), and
 * a process under a limit of processor time (ulimit -t) has used that time.
 */
#ifndef HP_LAUNCH_RANK_EXIT_H
#define HP_LAUNCH_RANK_EXIT_H

#include <stdint.h>

typedef enum hp_exit_cause { HP_EXIT_UNKNOWN, HP_EXIT_MEMORY, HP_EXIT_CPU_TIME } hp_exit_cause;

/* The end of a rank's process. */
typedef struct hp_rank_exit {
    int rank, pid;
    const char *host, *program;
    int status; /* as wait returns it */
    hp_exit_cause cause;
    uint64_t ms;
} hp_rank_exit;

int hp_exit_status(int wait_status); /* the exit status of hooprun for it: 128 + signal for a signal */

/* "rank 3 (node2, pid 811, ./train) killed by signal 9 (SIGKILL) after 12.4 s; stopping 7 others"; free() it. */
char *hp_rank_exit_sentence(const hp_rank_exit *ended, int others);

/* Whether the first of two exits that came together caused the other: a signal rather than an exit status. */
int hp_rank_exit_precedes(int wait_status, int other);

typedef struct hp_exit_watch {
    uint64_t oom_kills; /* of this control group, which the ranks are in too; those that are explained */
    double cpu;         /* seconds of all children that were waited for */
} hp_exit_watch;

void hp_exit_watch_open(hp_exit_watch *watch);

/* Of a child that has just been waited for, with this wait status. */
hp_exit_cause hp_exit_cause_of(hp_exit_watch *watch, int status);

/* How many processes of a control group were killed for memory. /proc/self/cgroup and /sys/fs/cgroup, but for tests. */
uint64_t hp_exit_oom_kills(const char *groups, const char *root);

#endif
