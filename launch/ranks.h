/* SPDX-License-Identifier: MIT */
/*
 * ranks: the ranks of one host: started, read, reaped, stopped. What the launcher should hear of it is added to a buffer as
 * messages. A rank is a session and process group of its own; the processes it starts end with it, or soon after.
 */
#ifndef HP_LAUNCH_RANKS_H
#define HP_LAUNCH_RANKS_H

#include "launch/agent_msg.h"
#include "launch/rank_exit.h"
#include "launch/spawn.h"
#include "net/loop.h"

typedef struct hp_ranks hp_ranks;

/*
 * Changes into the folder, starts every rank with `secret_fd` as descriptor 3. The caller has adopted the variables
 * (rank_env.h). If a rank cannot be started, the others are killed: NULL and *start_error. The spec, also_dir and, with
 * --max-restarts, secret_fd must outlive the ranks. The process must be a child subreaper. also_dir: another folder that
 * may have the program; NULL: none. Messages of HP_MSG_STARTED to HP_MSG_TAKEN and HP_MSG_STOPPED are added to `out`.
 */
hp_ranks *hp_ranks_start(hp_loop *loop, hp_spec *spec, int secret_fd, const char *also_dir, hp_buffer *out,
                         hp_start_error *start_error);

/*
 * After each turn of the loop. 1: no process is left, and none is started again; nothing more is added. With --max-restarts
 * only after hp_ranks_stop.
 */
int hp_ranks_ended(hp_ranks *ranks);

/*
 * Starts a process for this rank of the job that waits for a place in the ring. The last one has ended, here or on another
 * host. If it cannot be started, its output says why, and it exits with a status.
 */
void hp_ranks_again(hp_ranks *ranks, int rank);

void hp_ranks_reap(hp_ranks *ranks);             /* after SIGCHLD */
void hp_ranks_look(hp_ranks *ranks, int tell);   /* tells which processes are stopped: each change, and each second */
void hp_ranks_pause(hp_ranks *ranks, int pause); /* 1: read no output for now */
void hp_ranks_stdin(hp_ranks *ranks, const uint8_t *bytes, size_t n);
void hp_ranks_stdin_end(hp_ranks *ranks);
/* To the group of every rank, and TERM, STOP and CONT to the other groups of its session, too. Returns how many have processes. */
int hp_ranks_signal(hp_ranks *ranks, int signal);
void hp_ranks_resize(hp_ranks *ranks, hp_winsize size); /* of the ranks' terminals */
void hp_ranks_stop(hp_ranks *ranks, uint64_t grace_ns); /* TERM now, KILL then; a second call may shorten it */
void hp_ranks_free(hp_ranks *ranks);                    /* after hp_ranks_ended */

#endif
