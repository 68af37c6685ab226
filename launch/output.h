/* SPDX-License-Identifier: MIT */
/*
 * output: the output of the ranks, merged (screen.c) into the launcher's standard output and error, or written to
 * files of their own, DIR/rank.3/stdout and DIR/rank.3/stderr, or both; and the launcher's own messages. It never blocks
 * on a pipe or a terminal, and never changes their flags.
 */
#ifndef HP_LAUNCH_OUTPUT_H
#define HP_LAUNCH_OUTPUT_H

#include "base/buffer.h"
#include "hoop.h"
#include "net/loop.h"

typedef struct hp_output hp_output;

typedef struct hp_output_options {
    int size;        /* ranks */
    int label;       /* 1: "[3] " in front of every line */
    int lazy_labels; /* 1: only once a second rank has written */
    const char *dir; /* NULL: to standard output and error; else to files there */
    int force;       /* 1: overwrites the files of a former run */
    int tee;         /* 1: to files, and to standard output and error as well */
} hp_output_options;

/* HOOP_ERR_INVALID_ARGUMENT: a folder or file cannot be made. */
hp_output *hp_output_new(hp_loop *loop, const hp_output_options *options, hoop_error *error);
void hp_output_keep(hp_output *output); /* a rank runs: without this call the files are removed in the end */
void hp_output_rank(hp_output *output, int rank, int stream, const uint8_t *bytes, size_t n); /* stream 1 or 2 */
void hp_output_ended(hp_output *output, int rank); /* shows its unfinished lines */
void hp_output_all_ended(hp_output *output);
void hp_output_say(hp_output *output, const char *line); /* a line of no rank, to standard error; newline added */

size_t hp_output_backlog(const hp_output *output); /* bytes that wait for a slow reader */
int hp_output_broken(const hp_output *output);     /* errno of the first write that failed; 0: none */
uint64_t hp_output_shown(const hp_output *output); /* chunks of ranks shown on standard error so far */
void hp_output_free(hp_output *output);            /* throws away the backlog */

/* A message of the launcher to the user: "hooprun: ...". */
void hp_diag(hp_output *output, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Text that a host has sent, as "HOST| ..." a line each. */
void hp_diag_quote(hp_output *output, const char *host, const hp_buffer *text);

#endif
