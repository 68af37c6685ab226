/* SPDX-License-Identifier: MIT */
/*
 * auth: keys, MACs and random bytes; the only file that uses libcrypto. The key schedule is HKDF (RFC 5869) with
 * HMAC-SHA256 (RFC 2104); hoop_protocol(7) has the layout.
 */
#ifndef HP_AUTH_H
#define HP_AUTH_H

#include "hoop.h"

#include <stdatomic.h>

enum { HP_MAC = 32, HP_JOB_ID_BYTES = 16, HP_SECRET = 32 };
enum { HP_MODE_AUTH = 0, HP_MODE_TLS = 1, HP_MODE_NONE = 2 };

/* The keys of one job. They never change. A holder (hp_keys_hold) may use them for longer than a call. */
typedef struct hp_keys {
    _Atomic unsigned holders;
    uint8_t job_id[HP_JOB_ID_BYTES];
    uint8_t hello[32], resp[32], init[32], welcome[32];
    uint8_t mode;
} hp_keys;

/* At most 256 random bytes. */
hoop_result hp_random(void *out, size_t n, hoop_error *error);
hoop_result hp_job_id(uint8_t job_id[HP_JOB_ID_BYTES], const char *name,
                      hoop_error *error); /* first 16 bytes of SHA-256(name) */
/*
 * Derives the keys from the job's own key (mode none: from 32 zero bytes) into the caller's memory, which the caller
 * wipes.
 */
hoop_result hp_keys_derive(hp_keys *keys, const uint8_t secret[HP_SECRET], const uint8_t job_id[HP_JOB_ID_BYTES],
                           int mode, hoop_error *error);
void hp_keys_wipe(hp_keys *keys);

/* The same in secret memory (mem.h), with one holder. NULL with the error filled. */
hp_keys *hp_keys_new(const uint8_t secret[HP_SECRET], const uint8_t job_id[HP_JOB_ID_BYTES], int mode,
                     hoop_error *error);
hp_keys *hp_keys_hold(const hp_keys *keys); /* one more holder */
void hp_keys_drop(hp_keys *keys);           /* one holder less; the last one wipes and frees them; NULL is fine */

/* HMAC-SHA256 (RFC 2104, FIPS 180-4). */
hoop_result hp_mac(uint8_t out[HP_MAC], const uint8_t key[32], const void *bytes, size_t n);
/* HKDF-SHA256 (RFC 5869), 32 bytes of it. */
hoop_result hp_hkdf(uint8_t out[32], const uint8_t secret[32], const void *salt, size_t salt_n, const void *info,
                    size_t info_n);
int hp_mac_equal(const uint8_t a[HP_MAC], const uint8_t b[HP_MAC]); /* constant time */

#endif
