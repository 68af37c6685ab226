/* SPDX-License-Identifier: MIT */
/* levels: the row table of operations over hosts of several ranks each; pure. levels.c's head has the table. */
#ifndef HP_LEVELS_H
#define HP_LEVELS_H

#include "lib/plan.h"
#include "lib/step.h"

hp_step hp_levels_step(const hp_plan *plan, const int *order, int position, uint64_t i);

#endif
