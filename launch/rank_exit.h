/* SPDX-License-Identifier: MIT */
/*
 * rank_exit: the end of a rank's process, in words, and why the kernel has killed it or its child, where it tells: the
 * out-of-memory killer counts in the control group of the process (memory.events of version 2, memory.oom_control of
 * version 1) and for the whole host (/proc/vmstat), and a process under a limit of processor time (ulimit -t) has used that
 * time. And which of the ranks' ends is the cause of the
 * others, and the report about it, for which the end of every rank's standard error is kept.
 */
#ifndef HP_LAUNCH_RANK_EXIT_H
#define HP_LAUNCH_RANK_EXIT_H

#include "base/buffer.h"
#include "launch/output.h"

#include <sys/types.h>

typedef enum hp_exit_cause {
    HP_EXIT_UNKNOWN,
    HP_EXIT_MEMORY,
    HP_EXIT_CPU_TIME,
    HP_EXIT_PERHAPS_MEMORY /* of another control group */
} hp_exit_cause;

enum { HP_EXIT_NOTE = 64 };

/* The end of a rank's process. */
typedef struct hp_rank_exit {
    int rank, pid;
    const char *host, *program;
    int status; /* as wait returns it */
    hp_exit_cause cause;
    uint64_t ms;
    char note[HP_EXIT_NOTE]; /* what follows from it for this rank, as the next part of a sentence; "": nothing */
} hp_rank_exit;

int hp_exit_status(int wait_status); /* the exit status of hooprun for it: 128 + signal for a signal */

/*
 * "rank 3 (node2, pid 811, ./train) killed by signal 9 (SIGKILL) after 12.4 s; stopping 7 others", or "; 7 others go on",
 * with its note before that; free() it.
 */
char *hp_rank_exit_sentence(const hp_rank_exit *ended, int others, int go_on);

/* Whether the first of two exits that came together caused the other: a signal rather than an exit status. */
int hp_rank_exit_precedes(int wait_status, int other);

/* How many processes were killed for memory: of this control group, and of all. */
typedef struct hp_oom_kills {
    uint64_t group, host;
} hp_oom_kills;

/* What was killed long ago explains no end now; but a process may take seconds to give much memory back, and ends then. */
typedef struct hp_exit_watch {
    hp_oom_kills old; /* 5 to 10 s ago, and those that are explained */
    hp_oom_kills next;
    uint64_t looked; /* when `next` was counted */
} hp_exit_watch;

void hp_exit_watch_open(hp_exit_watch *watch, uint64_t now);
void hp_exit_watch_look(hp_exit_watch *watch, uint64_t now); /* to be called each second or so */

/*
 * The next child that has ended; 0: none has; -1: there is none, or errno. A shell's status for a child of its own tells of
 * a signal, too.
 */
pid_t hp_exit_reap(hp_exit_watch *watch, int *status, hp_exit_cause *cause);

/* How many processes of a control group were killed for memory. /proc/self/cgroup and /sys/fs/cgroup, but for tests. */
uint64_t hp_exit_oom_kills(const char *groups, const char *root);

/* --- which end is the cause --- */

typedef struct hp_failure_rank {
    int running;
    int spared; /* its last process that has failed, or was on a lost host, and the others go on; -1: its pid is unknown */
    hp_rank_exit end; /* .status 0: it has not failed */
    uint64_t shown;   /* hp_output_shown after its last standard error */
    hp_buffer tail;   /* the end of its standard error */
} hp_failure_rank;

typedef struct hp_failure {
    hp_failure_rank *rank; /* by rank */
    int size, running;
    int well;           /* so many have ended with status 0 */
    int last;           /* the exit status of hooprun for the last one that has failed, or is lost */
    int spare;          /* so many ranks may fail, and the others go on (--elastic); -1: none may */
    hp_rank_exit first; /* of the rank that failed first; .rank is -1: none has */
    char *ring;         /* why the ring failed, in the rendezvous server's words; NULL: it has not */
    char *split;        /* which ring: 'split 1 colour 0 "dp"', whose ranks have other numbers; NULL: the job's */
    int ring_worked;    /* the ring was up and failed in an operation */
    int ring_rank;      /* whom the sentence is about, as the job's ring numbers it; -1: nobody, or it is a split's */
    int ring_lost;      /* the ring has lost this rank, */
    uint32_t ring_pid;  /* which is this process; 0: unknown */
    int ring_judged;    /* the server judged by the ranks' calls: its sentence names the culprit and stays */
    int reported;
} hp_failure;

void hp_failure_open(hp_failure *failure, int size);
void hp_failure_started(hp_failure *failure, int rank, int pid); /* its process */
void hp_failure_again(hp_failure *failure, int rank);            /* it has another process */

/* Bytes of a rank's standard error. shown: hp_output_shown after them. */
void hp_failure_stderr(hp_failure *failure, int rank, const uint8_t *bytes, size_t n, uint64_t shown);

/*
 * A ring failed. If several communicators fail, the first sentence that blames a rank for a late or a different call
 * stays. A rank that vanishes or aborts after another failure is a consequence. Otherwise the last sentence counts.
 * One that several rings share is about the job's ring, if that is among them. split: which ring; NULL: the job's.
 * pid: the process of cause->rank, which a split numbers in its own way; 0: unknown.
 */
void hp_failure_ring_failed(hp_failure *failure, const char *split, const hoop_error *cause, uint32_t pid);

/* What follows from the end of a rank. */
typedef enum hp_failure_word {
    HP_FAILURE_NONE,  /* nothing: it ended well, or after another */
    HP_FAILURE_FIRST, /* the job has failed. Others may fail at the same moment, so report a moment later */
    HP_FAILURE_SPARED /* the others go on without it */
} hp_failure_word;

/* again: its rank is started again, and so counts as one that has not failed. */
hp_failure_word hp_failure_exited(hp_failure *failure, const hp_rank_exit *ended, int again);

/* The host of this rank is lost. 1: it had not ended. Nothing more is heard of it. */
int hp_failure_lost(hp_failure *failure, int rank);

/* 1: the others go on without `lost` ranks, those of lost hosts. 0: too many have failed, or the job has. */
int hp_failure_spare(hp_failure *failure, int lost);

/*
 * Reports the failure that caused the others, and makes it the first, once. That is the one of the rank that the ring has
 * lost, if its end is known, because a rank that fails for this reason may end before it; else the first one. The report
 * is the sentence, the rank's last lines if they are not on the screen (hidden: they went to a file), and why the ring failed. The reason comes last because the rank
 * that exits first is often not to blame; it is left out where it only repeats what the rank itself said while joining.
 */
void hp_failure_report(hp_failure *failure, hp_output *output, int hidden);
void hp_failure_close(hp_failure *failure);

#endif
