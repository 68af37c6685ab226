/* SPDX-License-Identifier: MIT */
/*
 * wire: numbers of byte strings that are the same on every machine: little-endian integers at any alignment, the checksum
 * CRC32C (Castagnoli, RFC 3720 appendix B.4), the hash FNV-1a with 64 bits (Fowler, Noll, Vo). Pure.
 */
#ifndef HP_WIRE_H
#define HP_WIRE_H

#include <stddef.h>
#include <stdint.h>

static inline void
hp_put16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static inline void
hp_put32(uint8_t *p, uint32_t v)
{
    hp_put16(p, (uint16_t)v);
    hp_put16(p + 2, (uint16_t)(v >> 16));
}

static inline void
hp_put64(uint8_t *p, uint64_t v)
{
    hp_put32(p, (uint32_t)v);
    hp_put32(p + 4, (uint32_t)(v >> 32));
}

static inline uint16_t
hp_get16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t
hp_get32(const uint8_t *p)
{
    return hp_get16(p) | (uint32_t)hp_get16(p + 2) << 16;
}

static inline uint64_t
hp_get64(const uint8_t *p)
{
    return hp_get32(p) | (uint64_t)hp_get32(p + 4) << 32;
}

/* CRC32C of `bytes`; hp_crc32c("123456789", 9) == 0xE3069283. */
uint32_t hp_crc32c(const void *bytes, size_t length);

/* The same for a payload in parts: start with 0, and pass each result on. */
uint32_t hp_crc32c_more(uint32_t crc, const void *bytes, size_t length);

/* The same without the CPU's CRC instruction, so that tests can compare the two. */
uint32_t hp_crc32c_by_table(uint32_t crc, const void *bytes, size_t length);

/*
 * FNV-1a. Ranks compare such numbers, so it is the same in every release. It is no defence against an attacker who chooses
 * the bytes.
 */
#define HP_HASH_START UINT64_C(0xcbf29ce484222325)

/* Continues `hash` (HP_HASH_START, or an earlier result) with n bytes. */
uint64_t hp_hash_bytes(uint64_t hash, const void *bytes, size_t n);

/* The same with the characters of a string, without its 0. */
uint64_t hp_hash_text(uint64_t hash, const char *text);

#endif
