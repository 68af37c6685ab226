/* SPDX-License-Identifier: MIT */
/*
 * text: each control character of ASCII and of ISO 8859, alone, in UTF-8 and in longer forms than it needs; and letters,
 * which stay.
 */
#include "base/text.h"

#include "t/tap/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void
becomes(const char *wanted, const char *said, const char *what)
{
    char *text = malloc(strlen(said) + 1); /* a read too far is seen */
    if (!text)
        bail("no memory");
    strcpy(text, said);
    int tame = hp_text_is_tame(text, strlen(text), 0);
    hp_text_tame(text, strlen(text), 0);
    ok(strcmp(text, wanted) == 0 && tame == (strcmp(said, wanted) == 0) && hp_text_is_tame(text, strlen(text), 0),
       "%s: \"%s\"", what, text);
    free(text);
}

static void
every_byte(void)
{
    int right = 1;
    for (int byte = 1; byte < 256; byte++) {
        char text[4] = {'a', (char)byte, 'b', 0};
        int control = byte < 0x20 || (byte >= 0x7f && byte < 0xa0);
        hp_text_tame(text, 3, 0);
        right &= case_ok(text[0] == 'a' && text[2] == 'b' && text[1] == (control ? '?' : (char)byte),
                         "byte %#x becomes %#x", (unsigned)byte, (unsigned)(unsigned char)text[1]);
    }
    ok(right, "each byte alone between letters");
    right = 1;
    for (int point = 0x80; point < 0x100; point++) {
        char text[3] = {(char)(0xc0 | point >> 6), (char)(0x80 | (point & 63)), 0};
        hp_text_tame(text, 2, 0);
        right &= case_int(point < 0xa0, text[1] == '?', "U+%04X is replaced", (unsigned)point);
    }
    ok(right, "U+0080 to U+00FF in UTF-8");
}

static void
names(void)
{
    ok(hp_text_is_name("", 0) && hp_text_is_name("dp, caf\xc3\xa9 \xf0\x9f\x98\x80", 14), "names");
    ok(!hp_text_is_name("a\nb", 3) && !hp_text_is_name("a\tb", 3) && !hp_text_is_name("\x1b[31m", 5),
       "none with control characters");
    ok(!hp_text_is_name("a\0b", 3), "nor with a zero");
    ok(!hp_text_is_name("\xed\xa0\x80", 3) && !hp_text_is_name("\xf4\x90\x80\x80", 4) &&
           hp_text_is_name("\xed\x9f\xbf\xf4\x8f\xbf\xbf", 7),
       "nor with a surrogate, nor above U+10FFFF");
    ok(!hp_text_is_name("a\xe9", 2) && !hp_text_is_name("\xc3", 1) && !hp_text_is_name("\xc2\x9b", 2),
       "nor what is no whole UTF-8");
}

/* A character is a column. */
static void
widths(void)
{
    const char *text = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z";
    static const size_t bytes[] = {0, 1, 3, 6, 10, 11, 11};
    is_int(5, (intmax_t)hp_text_width(text), "five characters");
    for (size_t n = 0; n < sizeof(bytes) / sizeof(bytes[0]); n++)
        is_int((intmax_t)bytes[n], (intmax_t)hp_text_first(text, n), "the first %d of them", (int)n);
}

int
main(void)
{
    char two[] = "a\nb\tc";
    tap_limit(240);
    plan_lazy();
    every_byte();
    names();
    widths();
    becomes("plain", "plain", "ASCII");
    becomes("\xc3\xa9 \xc3\x87 \xe2\x82\xac \xe4\xb8\x80 \xf0\x9f\x98\x80",
            "\xc3\xa9 \xc3\x87 \xe2\x82\xac \xe4\xb8\x80 \xf0\x9f\x98\x80",
            "letters, with bytes from 0x80 to 0x9f among them");
    becomes("?[31m", "\x1b[31m", "ESC");
    becomes("?31m",
            "\x9b"
            "31m",
            "CSI");
    becomes("??31m",
            "\xc2\x9b"
            "31m",
            "CSI in UTF-8");
    becomes("???x", "\xe0\x82\x9bx", "CSI in three bytes");
    becomes("????x", "\xf0\x80\x82\x9bx", "CSI in four bytes");
    becomes("\xe2?x", "\xe2\x9bx", "a character that is cut");
    becomes("\xe2?", "\xe2\x9b", "a character that is cut by the end");
    hp_text_tame(two, 5, '\n');
    is_string("a\nb?c", two, "the one that may stay stays");
    return 0;
}
