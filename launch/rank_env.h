/* SPDX-License-Identifier: MIT */
/*
 * rank_env: what a rank finds when it starts: the variables handed on from the launching shell, its own HOOP_* and
 * RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, the folder it runs in, and its program where homes differ between
 * hosts.
 */
#ifndef HP_LAUNCH_RANK_ENV_H
#define HP_LAUNCH_RANK_ENV_H

#include "launch/spec.h"

/* --- on the launcher's side --- */

/*
 * Adds every HOOP_* of our environment that is a setting; those that belong to one job or one rank stay behind. Adds
 * HOOPRUN_TTY, too: ranks write into pipes, and it tells which of our descriptors 1 and 2 are terminals ("12").
 */
void hp_rank_env_settings(hp_strings *variables);

/*
 * The value of -x: "NAME=value", or "NAME" for our own value; adds nothing if that is not set.
 * HOOP_ERR_INVALID_ARGUMENT for a bad name.
 */
hoop_result hp_rank_env_option(hp_strings *variables, const char *value, hoop_error *error);

/* --- on the agent's side --- */

/*
 * Puts the spec's variables into this process's environment, removes what an outer job may have left there, and sets
 * PYTHONUNBUFFERED=1 unless it is set.
 */
void hp_rank_env_adopt(const hp_spec *spec);

/* Puts the folder of hoop's library, installed in `prefix`, in front of LD_LIBRARY_PATH. */
void hp_rank_env_add_library(const char *prefix);

/*
 * Changes into the spec's folder. If that fails and --wdir did not ask for it, tries the folder of the same name in our
 * home, provided that it lies in the launching user's home. 0, or -1 with errno.
 */
int hp_rank_env_enter_folder(const hp_spec *spec);

/* Replaces a program in the launching user's home that is not here by the same path in our home, if it is there. */
void hp_rank_env_find_program(hp_spec *spec);

/* The environment of the spec's i-th rank, on top of ours. Free with hp_rank_env_free. */
char **hp_rank_env_new(const hp_spec *spec, int i, int secret_fd);
void hp_rank_env_free(char **variables);

#endif
