/* SPDX-License-Identifier: MIT */
/* job_key: the key of the job that a server is asked about, found as the job's ranks find it. */
#ifndef HP_TOP_JOB_KEY_H
#define HP_TOP_JOB_KEY_H

#include "net/auth.h"

/*
 * secret_file NULL: HOOP_SECRET_FD, else HOOP_SECRET_FILE, else the user's own file. job NULL: HOOP_JOB; a secret that is
 * one job's key names that job itself. With HOOP_SECURITY=none no secret is needed. NULL with the error filled; the caller
 * drops the keys.
 */
hp_keys *hp_top_job_keys(const char *secret_file, const char *job, hoop_error *error);

#endif
