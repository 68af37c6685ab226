/* SPDX-License-Identifier: MIT */
/* folder: where ranks run on a host, and where their program is, when homes differ from host to host. */
#ifndef HP_FOLDER_H
#define HP_FOLDER_H

#include "launch/spec.h"

/*
 * Changes into the orders' folder. When that cannot be done and --wdir did not ask for it: the one of the same name in
 * our home, if it lies in the launching user's home. 0, or -1 with errno.
 */
int hp_folder_enter(const hp_orders *orders);

/* A program in the launching user's home that is not there, but is in ours, is replaced by that. */
void hp_folder_find_program(hp_orders *orders);

#endif
