/* SPDX-License-Identifier: MIT */
/* jobs: what the servers of this user on this machine answer, one below the other. */
#ifndef HP_TOP_JOBS_H
#define HP_TOP_JOBS_H

#include "base/buffer.h"

/*
 * Adds a line for each server ("hooprun, pid 4711") and its table, of at most `rows` ranks a ring, in lines of at most
 * `width` characters (0: any). Returns how many servers there are; -1: out of memory.
 */
int hp_top_jobs_text(hp_buffer *out, int rows, int width);

/* Adds a list of objects with the members version, server, pid and rings; hoop-top(1) has the format. Returns likewise. */
int hp_top_jobs_json(hp_buffer *out);

#endif
