/* SPDX-License-Identifier: MIT */
/* terminal: pseudo-terminals for ranks' standard output, and the size of the window behind ours. */
#ifndef HP_LAUNCH_TERMINAL_H
#define HP_LAUNCH_TERMINAL_H

#include "launch/spec.h"

/* The words of --pty, in options.def's order. */
enum { HP_PTY_AUTO, HP_PTY_ALWAYS, HP_PTY_NEVER };

/*
 * A terminal that changes no byte: pair[0] is read, pair[1] written, as a pipe's. A read after the last writer has gone
 * fails with EIO. 0, or -1 with errno.
 */
int hp_terminal_open(int pair[2], hp_winsize window);

hp_winsize hp_terminal_size(int fd); /* zeroes when it is no terminal */
void hp_terminal_resize(int fd, hp_winsize window);

#endif
