/* SPDX-License-Identifier: MIT */
/*
 * files: one folder for a run's output, DIR/rank.3/stdout and DIR/rank.3/stderr. Files of a former run are overwritten
 * only if that is asked for. Symbolic links are not followed and another user's folder is not used, because in a
 * shared folder anyone could have put them there.
 */
#ifndef HP_LAUNCH_FILES_H
#define HP_LAUNCH_FILES_H

#include "hoop.h"

#include <stddef.h>
#include <stdint.h>

typedef struct hp_files hp_files;

/* force: overwrites existing files. HOOP_ERR_INVALID_ARGUMENT: they cannot be made. */
hp_files *hp_files_open(const char *dir, int ranks, int force, hoop_error *error);
int hp_files_write(hp_files *files, int rank, int stream, const uint8_t *bytes, size_t n); /* 0, or -1 with errno */
void hp_files_close(hp_files *files);
void hp_files_remove(hp_files *files); /* the files too, and folders that are empty then: no rank has run */

#endif
