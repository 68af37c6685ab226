/* SPDX-License-Identifier: MIT */
/* hash: see hash.h. */
#include "base/hash.h"

#include <string.h>

uint64_t
hp_hash_bytes(uint64_t hash, const void *bytes, size_t n)
{
    const uint8_t *byte = bytes;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
    return hash;
}

uint64_t
hp_hash_text(uint64_t hash, const char *text)
{
    return hp_hash_bytes(hash, text, strlen(text));
}
