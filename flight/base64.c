/* SPDX-License-Identifier: MIT */
/* base64: see base64.h. */
#include "flight/base64.h"

#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void
hp_base64_put(char *out, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i += 3) {
        uint32_t three = (uint32_t)bytes[i] << 16;
        three |= i + 1 < n ? (uint32_t)bytes[i + 1] << 8 : 0;
        three |= i + 2 < n ? bytes[i + 2] : 0;
        *out++ = digits[three >> 18];
        *out++ = digits[three >> 12 & 63];
        *out++ = i + 1 < n ? digits[three >> 6 & 63] : '=';
        *out++ = i + 2 < n ? digits[three & 63] : '=';
    }
    *out = '\0';
}

ptrdiff_t
hp_base64_get(uint8_t *out, size_t room, const char *text, size_t n)
{
    size_t used = 0;
    uint32_t bits = 0;
    int held = 0; /* bits that are held */
    while (n > 0 && text[n - 1] == '=')
        n--;
    for (size_t i = 0; i < n; i++) {
        const char *digit = text[i] ? strchr(digits, text[i]) : NULL;
        if (!digit)
            return -1;
        bits = bits << 6 | (uint32_t)(digit - digits);
        held += 6;
        if (held < 8)
            continue;
        held -= 8;
        if (used == room)
            return -1;
        out[used++] = (uint8_t)(bits >> held);
    }
    return (ptrdiff_t)used;
}
