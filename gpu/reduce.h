/* SPDX-License-Identifier: MIT */
/* reduce: which of the sets of loops this CPU can run. host.c decides what runs through them. */
#ifndef HP_REDUCE_H
#define HP_REDUCE_H

#include "gpu/arith.h"

/* From the fastest to the plainest, which every CPU can run; NULL at the end. */
extern const hp_arith *const hp_ariths[];

/* The fastest that this CPU can run. */
const hp_arith *hp_arith_best(void);

#endif
