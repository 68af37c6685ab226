/* SPDX-License-Identifier: MIT */
/* streams: descriptors of the launcher and its agents that a loop waits for: pipes, signals, and standard input. */
#ifndef HP_LAUNCH_STREAMS_H
#define HP_LAUNCH_STREAMS_H

#include "base/buffer.h"
#include "net/loop.h"

#include <sys/types.h>

/*
 * Bytes on their way into a pipe that must not block: written at once as far as the pipe has room, the rest by the loop. It
 * does not own the descriptor. SIGPIPE must be ignored.
 */
typedef struct hp_write_queue {
    int fd;
    int broken;       /* errno of the write that failed; later bytes are dropped */
    hp_buffer buffer; /* add here, then hp_write_queue_push */
    hp_watch *watch;
} hp_write_queue;

/* fd: made non-blocking. 0, or -1 with errno. */
int hp_write_queue_open(hp_write_queue *queue, hp_loop *loop, int fd);
void hp_write_queue_push(hp_write_queue *queue);  /* writes what the pipe takes now */
void hp_write_queue_close(hp_write_queue *queue); /* throws away what is left; zeroed memory is fine */

/*
 * Signals as events (signalfd). hp_signals_open blocks them; then one that comes ends a turn of the loop. A program that is
 * started must have them unblocked (spawn.c does).
 */
typedef struct hp_signals {
    int fd, by_terminal; /* whether the last one was a key at the terminal */
    hp_watch *watch;
} hp_signals;

/*
 * numbers: ended by 0; SIGHUP and SIGTSTP stay ignored if this process was started so. Returns 0, or -1 with errno.
 */
int hp_signals_open(hp_signals *signals, hp_loop *loop, const int *numbers);
int hp_signals_next(hp_signals *signals); /* one that has come; 0: none */
/*
 * After SIGTSTP: stops this process until SIGCONT. The kernel drops a terminal's Ctrl-Z where no shell could let the process go on,
 * as under ssh -t host hooprun: then this returns at once.
 */
void hp_signals_stop(const hp_signals *signals);
void hp_signals_close(hp_signals *signals); /* zeroed memory is fine */

/*
 * The launcher's standard input on its way to rank 0. It is read only as fast as rank 0 takes it, and not while the
 * launcher is a background job of a terminal. The descriptor's flags never change.
 */
typedef struct hp_stdin hp_stdin;

hp_stdin *hp_stdin_new(hp_loop *loop, int fd);
void hp_stdin_go(hp_stdin *in); /* before it nothing is read */

/* After each turn of the loop: at most 64 KiB of what has come, valid until the next call; 0: nothing now; -1: the end, once. */
ssize_t hp_stdin_read(hp_stdin *in, const uint8_t **bytes);
void hp_stdin_taken(hp_stdin *in, size_t n); /* rank 0 has taken so many bytes */
int hp_stdin_error(const hp_stdin *in);      /* why it ended: an errno; 0: it has not, or as it should */
void hp_stdin_free(hp_stdin *in);            /* NULL is fine */

#endif
