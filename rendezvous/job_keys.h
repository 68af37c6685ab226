/* SPDX-License-Identifier: MIT */
/*
 * job_keys: the keys of the jobs that a server was last asked for. Deriving them costs more than the rest of a stranger's
 * connection, and a stranger may name any job. A job with a proven rank holds its keys itself, so strangers cannot
 * make the server derive those again.
 */
#ifndef HP_JOB_KEYS_H
#define HP_JOB_KEYS_H

#include "net/secret.h"

enum { HP_JOB_KEYS = 8 };

/* Zeroed memory is an empty cache. */
typedef struct hp_job_keys {
    hp_keys *keys[HP_JOB_KEYS]; /* the one that was asked for last is first */
} hp_job_keys;

/*
 * The keys of a job, derived from the server's secret unless they are here; they replace those that were not asked for
 * the longest. NULL: the secret is another job's own key, or memory has run out. Valid until the next call.
 */
const hp_keys *hp_job_keys_find(hp_job_keys *cache, const hp_secret *secret, const uint8_t job_id[HP_JOB_ID_BYTES],
                                int mode);
void hp_job_keys_clear(hp_job_keys *cache);

#endif
