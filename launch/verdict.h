/* SPDX-License-Identifier: MIT */
/* verdict: how a rank ended, in words and as an exit status; and its last words. Pure. */
#ifndef HP_LAUNCH_VERDICT_H
#define HP_LAUNCH_VERDICT_H

#include "launch/bytes.h"

/* The end of a rank. */
typedef struct hp_rank_exit {
    int rank, pid;
    const char *host, *program;
    int status; /* as wait gives it */
    uint64_t ms;
} hp_rank_exit;

int hp_exit_status(int wait_status); /* exit status of the job: 128 + signal for a signal */

/* "rank 3 (node2, pid 811, ./train) killed by signal 9 (SIGKILL) after 12.4 s; stopping 7 others"; free() it. */
char *hp_rank_exit_sentence(const hp_rank_exit *ending, int others);

/* Which of two failures that came together is the cause: a signal rather than an exit that followed from it. */
int hp_rank_exit_precedes(int wait_status, int than);

/* The last lines of a stream, bounded. */
enum { HP_TAIL_BYTES = 2048, HP_TAIL_LINES = 10 };
void hp_tail_add(hp_buffer *words, const uint8_t *bytes, size_t n);
/* Calls fn with each of the last lines, without its newline, NUL-terminated and with control bytes made harmless. */
void hp_tail_each_line(const hp_buffer *words, void (*fn)(void *arg, const char *line), void *arg);

#endif
