/* SPDX-License-Identifier: MIT */
/*
 * auth: HMAC-SHA256, HKDF and a job's keys, on libcrypto of OpenSSL 3; no other file includes its headers. Random
 * bytes come from the kernel, because libcrypto's own generator would cost every rank 200 KiB for a few nonces. This
 * file keeps no secret: callers own what they get, and wipe it.
 */
#include "net/auth.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/*
 * Both are fetched once for the life of the process, because a fetch costs more than a MAC. NULL: libcrypto refused this
 * time.
 */
static EVP_MAC *
hmac(void)
{
    static _Atomic(EVP_MAC *) kept;
    EVP_MAC *mine, *other = NULL;
    if (atomic_load(&kept))
        return atomic_load(&kept);
    mine = EVP_MAC_fetch(NULL, "HMAC", NULL);
    if (!mine || atomic_compare_exchange_strong(&kept, &other, mine))
        return mine;
    EVP_MAC_free(mine); /* another thread was faster */
    return other;
}

static EVP_KDF *
hkdf(void)
{
    static _Atomic(EVP_KDF *) kept;
    EVP_KDF *mine, *other = NULL;
    if (atomic_load(&kept))
        return atomic_load(&kept);
    mine = EVP_KDF_fetch(NULL, "HKDF", NULL);
    if (!mine || atomic_compare_exchange_strong(&kept, &other, mine))
        return mine;
    EVP_KDF_free(mine);
    return other;
}

/*
 * libcrypto puts errors into a queue that it shares with the program's own use of it. What a call of ours adds there
 * is removed again (the caller has called ERR_set_mark). These functions fail for want of memory, or because
 * libcrypto's configuration switches them off.
 */
static hoop_result
judge(int right, const char *what, hoop_error *error)
{
    unsigned long last = right ? 0 : ERR_peek_last_error();
    ERR_pop_to_mark();
    if (right)
        return HOOP_SUCCESS;
    if (!last || ERR_GET_REASON(last) == ERR_R_MALLOC_FAILURE)
        return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory: libcrypto could not %s", what);
    return hp_err_set(error, HOOP_ERR_SYSTEM,
                      "libcrypto could not %s: out of memory, or its configuration does not allow it", what);
}

hoop_result
hp_random(void *out, size_t n, hoop_error *error)
{
    if (getentropy(out, n) == 0)
        return HOOP_SUCCESS;
    return hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot get random bytes from the kernel");
}

hoop_result
hp_job_id(uint8_t job_id[HP_JOB_ID_BYTES], const char *name, hoop_error *error)
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    ERR_set_mark();
    int right = EVP_Digest(name, strlen(name), digest, NULL, EVP_sha256(), NULL) == 1;
    if (right)
        memcpy(job_id, digest, HP_JOB_ID_BYTES);
    return judge(right, "compute SHA-256", error);
}

hoop_result
hp_mac(uint8_t out[HP_MAC], const uint8_t key[32], const void *bytes, size_t n)
{
    char digest[] = "SHA256";
    OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                           OSSL_PARAM_construct_end()};
    size_t written = 0;
    ERR_set_mark();
    EVP_MAC *mac = hmac();
    EVP_MAC_CTX *ctx = mac ? EVP_MAC_CTX_new(mac) : NULL;
    int right = ctx && EVP_MAC_init(ctx, key, 32, params) == 1 && EVP_MAC_update(ctx, bytes, n) == 1 &&
                EVP_MAC_final(ctx, out, &written, HP_MAC) == 1;
    EVP_MAC_CTX_free(ctx);
    return judge(right && written == HP_MAC, "compute HMAC-SHA256", NULL);
}

int
hp_mac_equal(const uint8_t a[HP_MAC], const uint8_t b[HP_MAC])
{
    return CRYPTO_memcmp(a, b, HP_MAC) == 0;
}

hoop_result
hp_hkdf(uint8_t out[32], const uint8_t secret[32], const void *salt, size_t salt_n, const void *info, size_t info_n)
{
    char digest[] = "SHA256";
    OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
                           OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)(uintptr_t)secret, 32),
                           OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, (void *)(uintptr_t)salt, salt_n),
                           OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, (void *)(uintptr_t)info, info_n),
                           OSSL_PARAM_construct_end()};
    ERR_set_mark();
    EVP_KDF *kdf = hkdf();
    EVP_KDF_CTX *ctx = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
    int right = ctx && EVP_KDF_derive(ctx, out, 32, params) == 1;
    EVP_KDF_CTX_free(ctx);
    return judge(right, "compute HKDF-SHA256", NULL);
}

hoop_result
hp_keys_derive(hp_keys *keys, const uint8_t secret[HP_SECRET], const uint8_t job_id[HP_JOB_ID_BYTES], int mode,
               hoop_error *error)
{
    static const uint8_t no_secret[HP_SECRET];
    uint8_t *const key[] = {keys->hello, keys->resp, keys->init, keys->welcome};
    static const char *const info[] = {"hoop1 hello", "hoop1 resp", "hoop1 init", "hoop1 welcome"};
    uint8_t salt[7 + HP_JOB_ID_BYTES] = {'h', 'o', 'o', 'p', '-', 'v', '1'};
    hoop_result result = HOOP_SUCCESS;
    memset(keys, 0, sizeof(*keys));
    atomic_store(&keys->holders, 1);
    memcpy(keys->job_id, job_id, HP_JOB_ID_BYTES);
    keys->mode = (uint8_t)mode;
    memcpy(salt + 7, job_id, HP_JOB_ID_BYTES);
    for (int i = 0; i < 4 && result == HOOP_SUCCESS; i++)
        result =
            hp_hkdf(key[i], mode == HP_MODE_NONE ? no_secret : secret, salt, sizeof(salt), info[i], strlen(info[i]));
    if (result == HOOP_SUCCESS)
        return result;
    hp_keys_wipe(keys);
    return hp_err_set(error, result, "libcrypto could not derive the job's keys (HKDF-SHA256): out of memory?");
}

void
hp_keys_wipe(hp_keys *keys)
{
    hp_wipe(keys, sizeof(*keys));
}

hp_keys *
hp_keys_new(const uint8_t secret[HP_SECRET], const uint8_t job_id[HP_JOB_ID_BYTES], int mode, hoop_error *error)
{
    hp_keys *keys = hp_secmem_new(sizeof(*keys));
    if (keys && hp_keys_derive(keys, secret, job_id, mode, error) == HOOP_SUCCESS)
        return keys;
    if (!keys)
        hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory for the job's keys");
    hp_secmem_free(keys);
    return NULL;
}

hp_keys *
hp_keys_hold(const hp_keys *keys)
{
    hp_keys *held = (hp_keys *)(uintptr_t)keys; /* the counter is the only part that changes */
    atomic_fetch_add(&held->holders, 1);
    return held;
}

void
hp_keys_drop(hp_keys *keys)
{
    if (keys && atomic_fetch_sub(&keys->holders, 1) == 1)
        hp_secmem_free(keys);
}
