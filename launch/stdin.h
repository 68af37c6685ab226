/* SPDX-License-Identifier: MIT */
/*
 * input: the launcher's standard input on its way to rank 0: read only as fast as rank 0 takes it, and not at all while
 * the launcher is a terminal's background job. Never changes the descriptor's flags.
 */
#ifndef HP_INPUT_H
#define HP_INPUT_H

#include "net/loop.h"

#include <stddef.h>

typedef struct hp_input hp_input;

typedef struct hp_input_owner {
    void *arg;
    void (*bytes)(void *arg, const uint8_t *bytes, size_t n); /* at most 64 KiB */
    void (*end)(void *arg);                                   /* last call */
} hp_input_owner;

hp_input *hp_input_new(hp_loop *loop, int fd, const hp_input_owner *owner); /* call hp_input_go to begin */
void hp_input_go(hp_input *input);                                          /* begins; or goes on after SIGCONT */
void hp_input_taken(hp_input *input, size_t n); /* rank 0 has taken so much of what was given */
void hp_input_free(hp_input *input);            /* NULL is fine */

#endif
