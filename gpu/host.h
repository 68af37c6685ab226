/* SPDX-License-Identifier: MIT */
/* host: the CPU as a device, and its arithmetic alone, for tests, measurements and the stand-in driver. */
#ifndef HP_HOST_H
#define HP_HOST_H

#include "gpu/arith.h"
#include "gpu/device.h"

extern const hp_device_ops hp_host_ops;

/* Runs a command without a queue, with the fastest loops or with the given ones. */
void hp_host_run(const hp_command *command);
void hp_host_run_with(const hp_arith *arith, const hp_command *command);

#endif
