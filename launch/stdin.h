/* SPDX-License-Identifier: MIT */
/*
 * stdin: the launcher's standard input on its way to rank 0. It is read only as fast as rank 0 takes it, and not while
 * the launcher is a background job of a terminal. The descriptor's flags never change.
 */
#ifndef HP_LAUNCH_STDIN_H
#define HP_LAUNCH_STDIN_H

#include "net/loop.h"

#include <stddef.h>

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
