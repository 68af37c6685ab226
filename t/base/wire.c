/* SPDX-License-Identifier: MIT */
/* wire: byte order at any alignment; CRC32C against RFC 3720's vectors and a bit-by-bit reference. */
#include "base/wire.h"

#include "t/tap/tap.h"

#include <string.h>

static uint8_t data[4096];

static uint32_t
crc_bit_by_bit(const uint8_t *p, size_t length)
{
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < length * 8; i++) {
        uint32_t bit = (uint32_t)(p[i / 8] >> (i % 8) & 1);
        uint32_t low = (crc ^ bit) & 1;
        crc = crc >> 1 ^ (low ? 0x82f63b78 : 0);
    }
    return ~crc;
}

static void
check_integers(void)
{
    static const uint8_t wanted[14] = {0x34, 0x12, 0xef, 0xcd, 0xab, 0x89, 0x08,
                                       0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x81};
    uint8_t bytes[32];
    int wrong = 0;
    for (size_t shift = 0; shift < 9; shift++) {
        memset(bytes, 0x55, sizeof(bytes));
        hp_put16(bytes + shift, 0x1234);
        hp_put32(bytes + shift + 2, UINT32_C(0x89abcdef));
        hp_put64(bytes + shift + 6, UINT64_C(0x8102030405060708));
        wrong += memcmp(bytes + shift, wanted, sizeof(wanted)) != 0 || bytes[shift + 14] != 0x55;
        wrong += hp_get16(bytes + shift) != 0x1234;
        wrong += hp_get32(bytes + shift + 2) != UINT32_C(0x89abcdef);
        wrong += hp_get64(bytes + shift + 6) != UINT64_C(0x8102030405060708);
    }
    is_int(0, wrong, "integers are little-endian at every alignment and come back");
}

static void
check_vectors(void)
{
    uint8_t bytes[32];
    is_uint(0xe3069283, hp_crc32c("123456789", 9), "crc32c of 123456789");
    is_uint(0, hp_crc32c(NULL, 0), "crc32c of nothing");
    memset(bytes, 0, sizeof(bytes));
    is_uint(0x8a9136aa, hp_crc32c(bytes, sizeof(bytes)), "RFC 3720: 32 bytes of zeros");
    memset(bytes, 0xff, sizeof(bytes));
    is_uint(0x62a8ab43, hp_crc32c(bytes, sizeof(bytes)), "RFC 3720: 32 bytes of ones");
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)i;
    is_uint(0x46dd794e, hp_crc32c(bytes, sizeof(bytes)), "RFC 3720: 32 bytes counting up");
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(31 - i);
    is_uint(0x113fdb5c, hp_crc32c(bytes, sizeof(bytes)), "RFC 3720: 32 bytes counting down");
}

static void
check_lengths(void)
{
    int wrong = 0, table_wrong = 0;
    for (size_t shift = 0; shift < 9; shift++) {
        for (size_t length = 0; length < 130; length++) {
            uint32_t wanted = crc_bit_by_bit(data + shift, length);
            wrong += !case_int(wanted, hp_crc32c(data + shift, length), "%zu bytes from %zu on", length, shift);
            table_wrong += !case_int(wanted, hp_crc32c_by_table(0, data + shift, length),
                                     "by table, %zu bytes from %zu on", length, shift);
        }
    }
    is_int(0, wrong, "0 to 129 bytes at 9 alignments, as the bit-by-bit reference has them");
    is_int(0, table_wrong, "the same without the CPU's instruction");
    is_uint(crc_bit_by_bit(data, sizeof(data)), hp_crc32c(data, sizeof(data)), "4096 bytes");
    is_uint(crc_bit_by_bit(data, sizeof(data)), hp_crc32c_by_table(0, data, sizeof(data)), "4096 bytes by table");
}

static void
check_parts(void)
{
    uint32_t whole = hp_crc32c(data, 1000);
    int wrong = 0;
    for (size_t cut = 0; cut <= 1000; cut++) {
        uint32_t crc = hp_crc32c_more(0, data, cut);
        wrong += !case_int(whole, hp_crc32c_more(crc, data + cut, 1000 - cut), "cut at byte %zu", cut);
        wrong += !case_int(whole, hp_crc32c_by_table(crc, data + cut, 1000 - cut), "cut at byte %zu, by table", cut);
    }
    is_int(0, wrong, "a payload in two parts, cut anywhere, also half by instruction and half by table");
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)tap_random();
    check_integers();
    check_vectors();
    check_lengths();
    check_parts();
    return 0;
}
