/* SPDX-License-Identifier: MIT */
/* terminal: pseudo-terminals for the ranks' standard output, and the size of the launcher's own. */
#ifndef HP_LAUNCH_TERMINAL_H
#define HP_LAUNCH_TERMINAL_H

#include "launch/spec.h"

/* The words of --pty, in the order of options.def. */
enum { HP_PTY_AUTO, HP_PTY_ALWAYS, HP_PTY_NEVER };

/*
 * A terminal that changes no byte: pair[0] is read, pair[1] written, as a pipe's. A read after the last writer has gone
 * fails with EIO. 0, or -1 with errno.
 */
int hp_terminal_open(int pair[2], hp_winsize winsize);

hp_winsize hp_terminal_size(int fd); /* zeroes: it is no terminal */
void hp_terminal_resize(int fd, hp_winsize winsize);

#endif
