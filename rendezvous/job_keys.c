/* SPDX-License-Identifier: MIT */
/* job_keys: see job_keys.h. */
#include "rendezvous/job_keys.h"

#include "base/mem.h"

#include <string.h>

static hp_keys *
derive(const hp_secret *secret, const uint8_t job_id[HP_JOB_ID_BYTES], int mode)
{
    hp_secret *own = hp_secmem_new(sizeof(*own));
    hp_keys *keys = NULL;
    if (own && !hp_secret_of_job(own, secret, job_id, NULL))
        keys = hp_keys_new(own->key, job_id, mode, NULL);
    hp_secmem_free(own);
    return keys;
}

static int
are_of(const hp_keys *keys, const uint8_t job_id[HP_JOB_ID_BYTES])
{
    return memcmp(keys->job_id, job_id, HP_JOB_ID_BYTES) == 0;
}

const hp_keys *
hp_job_keys_find(hp_job_keys *cache, const hp_secret *secret, const uint8_t job_id[HP_JOB_ID_BYTES], int mode)
{
    int at = 0;
    while (at < HP_JOB_KEYS - 1 && cache->keys[at] && !are_of(cache->keys[at], job_id))
        at++;
    hp_keys *found = cache->keys[at];
    if (!found || !are_of(found, job_id)) {
        found = derive(secret, job_id, mode);
        if (!found)
            return NULL;
        hp_keys_drop(cache->keys[at]);
    }
    memmove(cache->keys + 1, cache->keys, (size_t)at * sizeof(cache->keys[0]));
    cache->keys[0] = found;
    return found;
}

void
hp_job_keys_clear(hp_job_keys *cache)
{
    for (int i = 0; i < HP_JOB_KEYS; i++) {
        hp_keys_drop(cache->keys[i]);
        cache->keys[i] = NULL;
    }
}
