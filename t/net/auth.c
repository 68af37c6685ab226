/* SPDX-License-Identifier: MIT */
/*
 * auth: MACs against RFC 4231, and the key schedule against an independent program (Python's hmac).
 */
#include "net/auth.h"

#include "t/tap/tap.h"

#include <stdio.h>
#include <string.h>

static uint8_t secret[HP_SECRET]; /* 00 01 02 ... 1f */

static void
is_hex(const char *wanted, const uint8_t *bytes, size_t n, const char *what)
{
    char hex[2 * 64 + 1] = "";
    for (size_t k = 0; k < n; k++)
        snprintf(hex + 2 * k, 3, "%02x", bytes[k]);
    is_string(wanted, hex, "%s", what);
}

static void
macs(void)
{
    uint8_t key[32] = {0}, mac[HP_MAC], again[HP_MAC];
    const char *data = "what do ya want for nothing?";
    memset(key, 0x0b, 20);
    is_int(HOOP_SUCCESS, hp_mac(mac, key, "Hi There", 8), "a MAC");
    is_hex("b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7", mac, 32, "RFC 4231, case 1");
    memset(key, 0, sizeof(key));
    memcpy(key, "Jefe", 4);
    hp_mac(mac, key, data, strlen(data));
    is_hex("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843", mac, 32, "RFC 4231, case 2");
    int differ = 0;
    for (int bit = 0; bit < HP_MAC * 8; bit++) {
        memcpy(again, mac, sizeof(mac));
        again[bit / 8] ^= (uint8_t)(1 << bit % 8);
        differ += case_ok(!hp_mac_equal(mac, again), "bit %d", bit);
    }
    is_int(HP_MAC * 8, differ, "a MAC with any one bit flipped is another");
}

static void
key_schedule(void)
{
    uint8_t job_id[HP_JOB_ID_BYTES], zeros[HP_SECRET] = {0}, prk[32], salt[32] = "hoop-v1";
    hp_keys keys, none, wanted;
    for (size_t k = 0; k < sizeof(job_id); k++)
        job_id[k] = (uint8_t)(0xa0 + k);
    is_int(HOOP_SUCCESS, hp_keys_derive(&keys, secret, job_id, HP_MODE_AUTH, NULL), "keys");
    memcpy(salt + 7, job_id, sizeof(job_id));
    hp_mac(prk, salt, secret, sizeof(secret));
    is_hex("39f49a0a49802bf7d5a786c3650f52366b591e6eca054b88b319a40ec67befd5", prk, 32, "PRK");
    is_hex("05e94c69d8d23b1ef447ce3dfba999cb92303c6e31ac4d4a862fe8b7bd9aa05c", keys.hello, 32, "K_hello");
    is_hex("12567c45fa67a4f46d3fa4e7072191eaffc692a58d2e64995d5fd774216df5d3", keys.resp, 32, "K_resp");
    is_hex("871828a3a91de5314b749480a8773937b1747bcb0c2531a0179ff6075cc0d49b", keys.init, 32, "K_init");
    is_hex("e9afd3037f2d58fc2ec47217607d005b1d793ca2cbce04f012474f1a22b1f435", keys.welcome, 32, "K_welcome");
    is_blob(job_id, keys.job_id, HP_JOB_ID_BYTES, "the keys know their job");
    hp_keys_derive(&none, secret, job_id, HP_MODE_NONE, NULL);
    hp_keys_derive(&wanted, zeros, job_id, HP_MODE_AUTH, NULL);
    is_blob(wanted.hello, none.hello, 4 * 32, "mode none is the secret of 32 zero bytes");
    is_int(HP_MODE_NONE, none.mode, "and says so");
    hp_keys_wipe(&keys);
    memset(&none, 0, sizeof(none));
    is_blob(&none, &keys, sizeof(keys), "wiped keys are gone");
}

static void
numbers(void)
{
    uint8_t job_id[HP_JOB_ID_BYTES], a[64] = {0}, b[64] = {0};
    is_int(HOOP_SUCCESS, hp_job_id(job_id, "abc", NULL), "a job's id");
    is_hex("ba7816bf8f01cfea414140de5dae2223", job_id, HP_JOB_ID_BYTES, "is the beginning of its name's SHA-256");
    ok(hp_random(a, sizeof(a), NULL) == HOOP_SUCCESS && hp_random(b, sizeof(b), NULL) == HOOP_SUCCESS, "random bytes");
    ok(memcmp(a, b, sizeof(a)) != 0, "are others each time");
    int seen[4] = {0};
    for (size_t k = 0; k < sizeof(a); k++)
        seen[k / 16] |= a[k];
    ok(seen[0] && seen[1] && seen[2] && seen[3], "and fill all of the buffer");
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    for (size_t k = 0; k < sizeof(secret); k++)
        secret[k] = (uint8_t)k;
    macs();
    key_schedule();
    numbers();
    return 0;
}
