/* SPDX-License-Identifier: MIT */
/*
 * files: one folder for a run's output, DIR/rank.3/stdout and DIR/rank.3/stderr. Nothing of a former run is written
 * over unless that is wanted; no symbolic link is followed and no other user's folder is used, for in a shared folder
 * somebody else could have laid them out.
 */
#ifndef HP_LAUNCH_FILES_H
#define HP_LAUNCH_FILES_H

#include "hoop.h"

#include <stddef.h>
#include <stdint.h>

typedef struct hp_files hp_files;

/* For so many ranks. force: over what is there. HOOP_ERR_INVALID_ARGUMENT: they cannot be made. */
hp_files *hp_files_open(const char *dir, int ranks, int force, hoop_error *error);
int hp_files_write(hp_files *files, int rank, int stream, const uint8_t *bytes, size_t n); /* 0, or -1 with errno */
void hp_files_close(hp_files *files);

#endif
