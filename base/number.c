/* SPDX-License-Identifier: MIT */
/* number: see number.h. */
#include "base/number.h"

#include <ctype.h>
#include <string.h>

/* The value of n digits. 0: there is no digit, or another character, or the value is above `most`. */
static int
magnitude(const char *text, size_t n, uint64_t most, uint64_t *value)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned digit = (unsigned)(text[i] - '0');
        if (digit > 9 || sum > (most - digit) / 10 || digit > most)
            return 0;
        sum = sum * 10 + digit;
    }
    *value = sum;
    return n > 0;
}

/* The number, times its unit, is the whole text but for blanks around it. */
static int
parse(const char *text, int with_unit, int64_t least, int64_t most, int64_t *value)
{
    static const char units[] = "kmg", blanks[] = " \t\n\v\f\r";
    text += strspn(text, blanks);
    int negative = *text == '-';
    text += *text == '-' || *text == '+';
    size_t digits = strspn(text, "0123456789");
    const char *end = text + digits, *unit = *end ? strchr(units, tolower((unsigned char)*end)) : NULL;
    int shift = 0;
    if (with_unit && unit) {
        shift = 10 * (int)(unit - units + 1);
        end += tolower((unsigned char)end[1]) == 'b' ? 2 : 1;
    }
    end += strspn(end, blanks);
    uint64_t size;
    if (*end || !magnitude(text, digits, ((uint64_t)INT64_MAX >> shift) + (uint64_t)negative, &size))
        return 0;
    size <<= shift;
    int64_t number = negative ? (int64_t)(0 - size) : (int64_t)size;
    if (number < least || number > most)
        return 0;
    *value = number;
    return 1;
}

int
hp_number_parse(const char *text, int64_t least, int64_t most, int64_t *value)
{
    return parse(text, 0, least, most, value);
}

int
hp_number_parse_int(const char *text, int least, int most, int *value)
{
    int64_t number;
    if (!parse(text, 0, least, most, &number))
        return 0;
    *value = (int)number;
    return 1;
}

int
hp_number_parse_bytes(const char *text, int64_t least, int64_t most, int64_t *value)
{
    return parse(text, 1, least, most, value);
}

int
hp_number_parse_digits(const char *text, size_t n, int most, int *value)
{
    uint64_t number;
    if (most < 0 || !magnitude(text, n, (uint64_t)most, &number))
        return 0;
    *value = (int)number;
    return 1;
}
