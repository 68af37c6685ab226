/* SPDX-License-Identifier: MIT */
/* folder: where ranks run on a host, and where their program is, when homes differ from host to host. */
#ifndef HP_LAUNCH_FOLDER_H
#define HP_LAUNCH_FOLDER_H

#include "launch/spec.h"

/*
 * Changes into the spec' folder. When that cannot be done and --wdir did not ask for it: the one of the same name in
 * our home, if it lies in the launching user's home. 0, or -1 with errno.
 */
int hp_rank_env_enter_folder(const hp_spec *spec);

/* A program in the launching user's home that is not there, but is in ours, is replaced by that. */
void hp_rank_env_find_program(hp_spec *spec);

#endif
