/* SPDX-License-Identifier: MIT */
/*
 * secret: what a server and its ranks share, as text, file and sealed memfd. It is either a server's secret, from
 * which each job's own key is derived, or the key of one job, which names that job and fits no other.
 */
#ifndef HP_SECRET_H
#define HP_SECRET_H

#include "net/auth.h"

typedef struct hp_secret {
    uint8_t key[HP_SECRET];
    uint8_t job_id[HP_JOB_ID_BYTES]; /* with of_job: the job whose key this is */
    int of_job;
} hp_secret;

/*
 * A job's key is "hoop-job J KEY" (32 and 64 digits), newline, NUL. A server's secret is the 64 digits, newline, NUL.
 */
enum { HP_SECRET_TEXT = 9 + 2 * HP_JOB_ID_BYTES + 1 + 2 * HP_SECRET + 2 };

/*
 * The job's own key: HKDF of a server's secret and the job. A secret that is a job's key already is copied if it is
 * this job's, and HOOP_ERR_AUTH otherwise.
 */
hoop_result hp_secret_of_job(hp_secret *out, const hp_secret *secret, const uint8_t job_id[HP_JOB_ID_BYTES],
                             hoop_error *error);

/*
 * From a sealed memfd (its seals are checked; it is close-on-exec from now on; it can be read again) or from a file
 * (regular, own uid, mode & 077 == 0, no symbolic link). Errors are HOOP_ERR_AUTH with the reason and the remedy.
 */
hoop_result hp_secret_from_fd(hp_secret *secret, int fd, hoop_error *error);
hoop_result hp_secret_from_file(hp_secret *secret, const char *path, hoop_error *error);
hoop_result hp_secret_parse(hp_secret *secret, const char *text, size_t n, hoop_error *error);
void hp_secret_format(char out[HP_SECRET_TEXT], const hp_secret *secret);
int hp_secret_memfd(const hp_secret *secret, hoop_error *error); /* a sealed memfd (not CLOEXEC), or -1 */

#endif
