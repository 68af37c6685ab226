/* SPDX-License-Identifier: MIT */
/*
 * crew: the ranks of one host: started, listened to, reaped, stopped. Knows nothing of the launcher. A rank is a
 * session and process group of its own; what it starts belongs to it and ends with it at the latest.
 */
#ifndef HP_CREW_H
#define HP_CREW_H

#include "launch/start_error.h"
#include "net/loop.h"

typedef struct hp_crew hp_crew;

typedef struct hp_crew_owner {
    void *arg;
    void (*started)(void *arg, int rank, int pid);
    void (*output)(void *arg, int rank, int stream, const uint8_t *bytes, size_t n); /* stream 1 or 2 */
    void (*exited)(void *arg, int rank, int pid, int status, uint64_t ms);           /* after all its output so far */
    void (*taken)(void *arg, size_t n); /* so many bytes of input have gone to rank 0, or nowhere */
    void (*ended)(void *arg);           /* nothing is left, last call */
} hp_crew_owner;

/*
 * Changes into the folder, adopts the variables, starts every rank with `secret_fd` as descriptor 3. NULL and *refusal
 * when one cannot be started; those that were have then been killed. The orders must outlive the crew. The process must
 * be a child subreaper. also_dir: where else the program may be found; NULL: nowhere.
 */
hp_crew *hp_crew_start(hp_loop *loop, hp_orders *orders, int secret_fd, const char *also_dir,
                       const hp_crew_owner *owner, hp_refusal *refusal);

void hp_crew_reap(hp_crew *crew);             /* after SIGCHLD */
void hp_crew_pause(hp_crew *crew, int pause); /* 1: take no more output for now */
void hp_crew_input(hp_crew *crew, const uint8_t *bytes, size_t n);
void hp_crew_input_end(hp_crew *crew);
void hp_crew_signal(hp_crew *crew, int signal);       /* to every living rank's group */
void hp_crew_window(hp_crew *crew, hp_window window); /* the ranks' terminals have this size from now on */
void hp_crew_stop(hp_crew *crew, uint64_t grace_ns);  /* TERM now, KILL then; a second call may shorten it */
void hp_crew_free(hp_crew *crew);                     /* after ended */

#endif
