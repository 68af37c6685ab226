/* SPDX-License-Identifier: MIT */
/* host: the host backend's arithmetic with a given set of loops, for tests and measurements. */
#ifndef HP_HOST_H
#define HP_HOST_H

#include "gpu/gpu.h"
#include "gpu/reduce.h"

void hp_host_run_with(const hp_arith *arith, const hp_command *command);

#endif
