/* SPDX-License-Identifier: MIT */
/* processors: those on which this process may run, by its affinity mask. */
#ifndef HP_PROCESSORS_H
#define HP_PROCESSORS_H

#include <stdint.h>

/* Their number; at least 1. */
int hp_processors_count(void);

/* A hash of the mask: equal for processes of one host that may run on the same processors. */
uint32_t hp_processors_id(void);

#endif
