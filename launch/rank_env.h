/* SPDX-License-Identifier: MIT */
/*
 * variables: the environment that ranks get: what is handed on from the launching shell, and each rank's own HOOP_* and
 * RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE.
 */
#ifndef HP_LAUNCH_RANK_ENV_H
#define HP_LAUNCH_RANK_ENV_H

#include "launch/spec.h"

/*
 * Adds every HOOP_* of our environment that is a setting; those that belong to one job or one rank stay behind. And
 * HOOPRUN_TTY: where ranks write into pipes, it tells which of our descriptors 1 and 2 behind them are terminals ("12").
 */
void hp_rank_env_settings(hp_strings *words);

/* "NAME=value", or "NAME" for our own value. HOOP_ERR_INVALID_ARGUMENT for a bad name; 0 words when it is not set. */
hoop_result hp_rank_env_option(hp_strings *words, const char *wish, hoop_error *error);

/*
 * Puts the spec' variables into this process's environment and takes out what an outer job may have left there. And
 * PYTHONUNBUFFERED=1 where it is not set.
 */
void hp_rank_env_adopt(const hp_spec *spec);

/* Where hoop is installed in `prefix`, LD_LIBRARY_PATH begins with the folder of its library. */
void hp_rank_env_add_library(const char *prefix);

/* The environment of the spec' i-th rank, on top of ours. Free with hp_rank_env_free. */
char **hp_rank_env_new(const hp_spec *spec, int i, int secret_fd);
void hp_rank_env_free(char **variables);

#endif
