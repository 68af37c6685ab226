/* SPDX-License-Identifier: MIT */
/*
 * text: see text.h. A byte from 0x80 to 0x9f is harmless only as a part of a whole UTF-8 character, in its shortest
 * form and above U+009F.
 */
#include "base/text.h"

#include <stdint.h>

static int
goes_on(uint8_t byte)
{
    return byte >= 0x80 && byte < 0xc0;
}

/* How many bytes the character has that begins here; 0: it is not one, or a control character. */
static size_t
character(const uint8_t *text, size_t n, char keep)
{
    uint8_t first = text[0];
    size_t length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (length == 1)
        return (first >= 0x20 && first != 0x7f) || (keep && first == (uint8_t)keep);
    if (first < 0xc2 || first > 0xf4 || length > n)
        return first >= 0xa0;
    for (size_t i = 1; i < length; i++)
        if (!goes_on(text[i]))
            return 1;
    if ((first == 0xc2 && text[1] < 0xa0) || (first == 0xe0 && text[1] < 0xa0) || (first == 0xf0 && text[1] < 0x90) ||
        (first == 0xed && text[1] >= 0xa0) || (first == 0xf4 && text[1] >= 0x90))
        return 0; /* a control character, a longer form than needed, a surrogate, or above U+10FFFF */
    return length;
}

void
hp_text_tame(char *text, size_t n, char keep)
{
    for (size_t i = 0; i < n;) {
        size_t length = character((const uint8_t *)text + i, n - i, keep);
        if (length == 0)
            text[i] = '?';
        i += length ? length : 1;
    }
}

int
hp_text_is_tame(const char *text, size_t n, char keep)
{
    for (size_t i = 0, length; i < n; i += length) {
        length = character((const uint8_t *)text + i, n - i, keep);
        if (length == 0)
            return 0;
    }
    return 1;
}

int
hp_text_is_name(const char *text, size_t n)
{
    for (size_t i = 0, length; i < n; i += length) {
        length = character((const uint8_t *)text + i, n - i, 0);
        if (length == 0 || (length == 1 && (uint8_t)text[i] >= 0x80))
            return 0;
    }
    return 1;
}

size_t
hp_text_width(const char *text)
{
    size_t width = 0;
    for (; *text; text++)
        width += !goes_on((uint8_t)*text);
    return width;
}

size_t
hp_text_first(const char *text, size_t columns)
{
    size_t n = 0;
    for (; text[n]; n++)
        if (!goes_on((uint8_t)text[n]) && columns-- == 0)
            break;
    return n;
}
