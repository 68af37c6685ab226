/* SPDX-License-Identifier: MIT */
/*
 * ranks: the ranks of one host: started, listened to, reaped, stopped. Knows nothing of the launcher. A rank is a
 * session and process group of its own; what it starts belongs to it and ends with it at the latest.
 */
#ifndef HP_LAUNCH_RANKS_H
#define HP_LAUNCH_RANKS_H

#include "launch/start_error.h"
#include "net/loop.h"

typedef struct hp_ranks hp_ranks;

typedef struct hp_ranks_owner {
    void *arg;
    void (*started)(void *arg, int rank, int pid);
    void (*output)(void *arg, int rank, int stream, const uint8_t *bytes, size_t n); /* stream 1 or 2 */
    void (*exited)(void *arg, int rank, int pid, int status, uint64_t ms);           /* after all its output so far */
    void (*taken)(void *arg, size_t n); /* so many bytes of input have gone to rank 0, or nowhere */
    void (*ended)(void *arg);           /* nothing is left, last call */
} hp_ranks_owner;

/*
 * Changes into the folder, adopts the variables, starts every rank with `secret_fd` as descriptor 3. NULL and *start_error
 * when one cannot be started; those that were have then been killed. The spec must outlive the ranks. The process must
 * be a child subreaper. also_dir: where else the program may be found; NULL: nowhere.
 */
hp_ranks *hp_ranks_start(hp_loop *loop, hp_spec *spec, int secret_fd, const char *also_dir, const hp_ranks_owner *owner,
                         hp_start_error *start_error);

void hp_ranks_reap(hp_ranks *ranks);             /* after SIGCHLD */
void hp_ranks_pause(hp_ranks *ranks, int pause); /* 1: take no more output for now */
void hp_ranks_stdin(hp_ranks *ranks, const uint8_t *bytes, size_t n);
void hp_ranks_stdin_end(hp_ranks *ranks);
void hp_ranks_signal(hp_ranks *ranks, int signal);      /* to every living rank's group */
void hp_ranks_resize(hp_ranks *ranks, hp_winsize size); /* the ranks' terminals have this size from now on */
void hp_ranks_stop(hp_ranks *ranks, uint64_t grace_ns); /* TERM now, KILL then; a second call may shorten it */
void hp_ranks_free(hp_ranks *ranks);                    /* after ended */

#endif
