/* SPDX-License-Identifier: MIT */
/* streams: descriptors of the launcher and its agents that a loop waits for: pipes, signals, and standard input. */
#ifndef HP_LAUNCH_STREAMS_H
#define HP_LAUNCH_STREAMS_H

#include "base/buffer.h"
#include "net/loop.h"

/*
 * Bytes on their way into a pipe that must not block: written at once as far as the pipe has room, the rest later. It does
 * not own the descriptor. SIGPIPE must be ignored.
 */
typedef struct hp_write_queue {
    int fd;
    int broken;       /* errno of the write that failed; later bytes are dropped */
    hp_buffer buffer; /* add here, then hp_write_queue_push */
    hp_watch *watch;
    void (*moved)(void *arg); /* bytes were written, or it broke; called by the loop only, not by hp_write_queue_push */
    void *arg;
} hp_write_queue;

/* fd: made non-blocking. 0, or -1 with errno. */
int hp_write_queue_open(hp_write_queue *queue, hp_loop *loop, int fd, void (*moved)(void *arg), void *arg);
void hp_write_queue_push(hp_write_queue *queue);  /* writes what the pipe takes now */
void hp_write_queue_close(hp_write_queue *queue); /* throws away what is left; zeroed memory is fine */

/*
 * Signals as events (signalfd). hp_signals_open blocks them; then they come one by one. A program that is started must have
 * them unblocked (spawn.c does).
 */
typedef struct hp_signals {
    int fd;
    hp_watch *watch;
    void (*fn)(void *arg, int number);
    void *arg;
} hp_signals;

/*
 * numbers: ended by 0; SIGHUP and SIGTSTP stay ignored if this process was started so. Returns 0, or -1 with errno.
 */
int hp_signals_open(hp_signals *signals, hp_loop *loop, const int *numbers, void (*fn)(void *arg, int number),
                    void *arg);
void hp_signals_close(hp_signals *signals); /* zeroed memory is fine */

/*
 * The launcher's standard input on its way to rank 0. It is read only as fast as rank 0 takes it, and not while the
 * launcher is a background job of a terminal. The descriptor's flags never change.
 */
typedef struct hp_stdin hp_stdin;

typedef struct hp_stdin_owner {
    void *arg;
    void (*bytes)(void *arg, const uint8_t *bytes, size_t n); /* at most 64 KiB */
    void (*end)(void *arg);                                   /* last call */
} hp_stdin_owner;

hp_stdin *hp_stdin_new(hp_loop *loop, int fd, const hp_stdin_owner *owner); /* call hp_stdin_go to begin */
void hp_stdin_go(hp_stdin *in);                                             /* begins; or goes on after SIGCONT */
void hp_stdin_taken(hp_stdin *in, size_t n);                                /* rank 0 has taken so many bytes */
void hp_stdin_free(hp_stdin *in);                                           /* NULL is fine */

#endif
