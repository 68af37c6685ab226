/* SPDX-License-Identifier: MIT */
/*
 * secret: what a server and its ranks share, as text, file and sealed memfd. Either the secret of a server, from which
 * each job's own key is made, or the key of one job, which says whose it is and is of no use for any other.
 */
#ifndef HP_SECRET_H
#define HP_SECRET_H

#include "net/auth.h"

typedef struct hp_secret {
    uint8_t key[HP_SECRET];
    uint8_t job_id[HP_JOB_ID]; /* whose own key it is, with of_job */
    int of_job;
} hp_secret;

/* "hoop-job J KEY": 32 and 64 digits; newline, NUL. A server's secret is the 64 digits and a newline. */
enum { HP_SECRET_TEXT = 9 + 2 * HP_JOB_ID + 1 + 2 * HP_SECRET + 2 };

/* The job's own key: HKDF of a server's secret and the job; a job's own key as it is, another job's is refused (AUTH). */
hoop_result hp_secret_of_job(hp_secret *out, const hp_secret *secret, const uint8_t job_id[HP_JOB_ID],
                             hoop_error *error);

/*
 * From a sealed memfd (seals checked, closed on exec from now on, read so that it can be read again) or from a file
 * (regular, own uid, mode & 077 == 0, O_NOFOLLOW). Errors are HOOP_ERR_AUTH with the reason and what to do.
 */
hoop_result hp_secret_from_fd(hp_secret *secret, int fd, hoop_error *error);
hoop_result hp_secret_from_file(hp_secret *secret, const char *path, hoop_error *error);
hoop_result hp_secret_parse(hp_secret *secret, const char *text, size_t n, hoop_error *error);
void hp_secret_format(char out[HP_SECRET_TEXT], const hp_secret *secret);
int hp_secret_memfd(const hp_secret *secret, hoop_error *error); /* a sealed memfd (not CLOEXEC), or -1 */

#endif
