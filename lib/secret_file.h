/* SPDX-License-Identifier: MIT */
/* secret_file: files with secrets: how a new one is made, and where hoop's own are. */
#ifndef HP_SECRET_FILE_H
#define HP_SECRET_FILE_H

#include "net/secret.h"

enum { HP_SECRET_PATH = 512 };

/* Writes the whole secret to a new file of mode 0600, or leaves no file; an existing file is never changed. */
hoop_result hp_secret_file_new(const char *path, const hp_secret *secret, hoop_error *error);

/*
 * The user's own: $XDG_CONFIG_HOME/hoop/secret, or ~/.config/hoop/secret. With `make` its folder is made (0700), too.
 */
hoop_result hp_secret_file_own(char path[HP_SECRET_PATH], int make, hoop_error *error);

/* The user's on this host, until it is started again: the first process that asks makes it. */
hoop_result hp_secret_file_of_host(hp_secret *secret, hoop_error *error);

#endif
