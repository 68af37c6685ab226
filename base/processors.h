/* SPDX-License-Identifier: MIT */
/* processors: those this process may run on, as its affinity mask says. */
#ifndef HP_PROCESSORS_H
#define HP_PROCESSORS_H

#include <stdint.h>

/* How many; at least 1. */
int hp_processors_count(void);

/* Equal for processes of one host that may run on the same processors. */
uint32_t hp_processors_id(void);

#endif
