/* SPDX-License-Identifier: MIT */
/* job_key: see job_key.h. */
#include "top/job_key.h"

#include "base/err.h"
#include "base/secmem.h"
#include "lib/config.h"
#include "lib/secret_file.h"

#include <string.h>
#include <unistd.h>

static hoop_result
read_own(hp_secret *secret, hoop_error *error)
{
    char path[HP_SECRET_PATH];
    hoop_result result = hp_secret_file_own(path, 0, error);
    if (result != HOOP_SUCCESS)
        return result;
    if (access(path, F_OK) != 0)
        return hp_err_set(
            error, HOOP_ERR_AUTH,
            "a server answers only those who have the secret of the job: name its file with --secret-file "
            "FILE, or HOOP_SECRET_FILE");
    return hp_secret_from_file(secret, path, error);
}

static hoop_result
read_secret(hp_secret *secret, const char *file, hoop_error *error)
{
    char name[HP_VALUE_TEXT];
    int fd = (int)hp_config_glance_number(HP_SET_secret_fd);
    if (file)
        return hp_secret_from_file(secret, file, error);
    hp_config_glance(HP_SET_secret_file, name);
    if (fd >= 0)
        return hp_secret_from_fd(secret, fd, error);
    return name[0] ? hp_secret_from_file(secret, name, error) : read_own(secret, error);
}

/* The secret becomes the job's own key. */
static hoop_result
find_key(hp_secret *secret, uint8_t job_id[HP_JOB_ID_BYTES], const char *file, const char *job, hoop_error *error)
{
    hoop_result result = read_secret(secret, file, error);
    if (result == HOOP_SUCCESS && secret->of_job && !job)
        memcpy(job_id, secret->job_id, HP_JOB_ID_BYTES);
    return result == HOOP_SUCCESS ? hp_secret_of_job(secret, secret, job_id, error) : result;
}

hp_keys *
hp_top_job_keys(const char *secret_file, const char *job, hoop_error *error)
{
    char name[HP_VALUE_TEXT], security[HP_VALUE_TEXT];
    uint8_t job_id[HP_JOB_ID_BYTES];
    hp_keys *keys = NULL;
    hp_config_glance(HP_SET_job, name);
    hp_config_glance(HP_SET_security, security);
    int mode = strcmp(security, "none") == 0 && !secret_file ? HP_MODE_NONE : HP_MODE_AUTH;
    hp_secret *secret = hp_secmem_new(sizeof(*secret));
    if (!secret)
        hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory for the job's secret");
    else if (hp_job_id(job_id, job ? job : name, error) == HOOP_SUCCESS &&
             (mode == HP_MODE_NONE || find_key(secret, job_id, secret_file, job, error) == HOOP_SUCCESS))
        keys = hp_keys_new(secret->key, job_id, mode, error);
    hp_secmem_free(secret);
    return keys;
}
