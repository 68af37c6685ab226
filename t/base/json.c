/* SPDX-License-Identifier: MIT */
/*
 * json: containers and commas, every byte in a text, numbers at their limits; calls at a wrong place, and a json_sink that
 * fails after each possible number of bytes, end in an error and in nothing more written.
 */
#include "base/json.h"

#include "t/tap/tap.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct json_sink {
    char text[4096];
    size_t used, room; /* a write that does not fit into `room` is cut off, and fails */
    int writes_after;  /* how often something came after a failure */
    int failed;
} json_sink;

static int
collect(void *arg, const char *bytes, size_t size)
{
    json_sink *s = arg;
    size_t fits = size < s->room - s->used ? size : s->room - s->used;
    s->writes_after += s->failed;
    memcpy(s->text + s->used, bytes, fits);
    s->used += fits;
    s->text[s->used] = '\0';
    s->failed = fits < size;
    return s->failed ? -1 : 0;
}

static hp_json
start(json_sink *s)
{
    hp_json json;
    *s = (json_sink){.room = sizeof(s->text) - 1};
    hp_json_begin(&json, collect, s);
    return json;
}

static void
text_is(const char *wanted, const char *value, const char *what)
{
    json_sink s;
    hp_json json = start(&s);
    char *copy = strdup(value); /* a read too far is seen */
    hp_json_text(&json, NULL, copy);
    free(copy);
    is_int(0, hp_json_end(&json), "%s", what);
    is_string(wanted, s.text, "... as %s", wanted);
}

static void
texts(void)
{
    text_is("\"\"", "", "an empty text");
    text_is("\"a\\\"b\\\\c/d\"", "a\"b\\c/d", "quotes and backslashes");
    text_is("\"\\u0001\\u0009\\u000a\\u001f\x7f\"", "\x01\t\n\x1f\x7f", "control characters");
    text_is("\"\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80 \xF4\x8F\xBF\xBF\"",
            "\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80 \xF4\x8F\xBF\xBF", "UTF-8 of two, three and four bytes");
    text_is("\"a\\ufffdb\"",
            "a\x80"
            "b",
            "a stray continuation");
    text_is("\"\\ufffd\"", "\xC3", "a sequence that ends too early");
    text_is("\"\\ufffd\\ufffdx\"", "\xE2\x82x", "... in the middle");
    text_is("\"\\ufffd\\ufffd\"", "\xC0\xAF", "a longer form than needed");
    text_is("\"\\ufffd\\ufffd\\ufffd\"", "\xE0\x9F\xBF", "... of three bytes");
    text_is("\"\\ufffd\\ufffd\\ufffd\"", "\xED\xA0\x80", "a surrogate");
    text_is("\"\\ufffd\\ufffd\\ufffd\\ufffd\"", "\xF4\x90\x80\x80", "a code point above U+10FFFF");
    text_is("\"\\ufffd\\ufffd\"", "\xFF\xFE", "bytes that no UTF-8 has");
}

/* Each byte alone between letters leaves ASCII, and both letters. */
static void
every_byte(void)
{
    int right = 0;
    for (int byte = 1; byte < 256; byte++) {
        char value[] = {'a', (char)byte, 'b', 0};
        json_sink s;
        hp_json json = start(&s);
        hp_json_text(&json, NULL, value);
        int ascii = 1;
        for (size_t i = 0; i < s.used; i++)
            ascii &= s.text[i] >= 0x20;
        right += hp_json_end(&json) == 0 && ascii && s.text[1] == 'a' && s.text[s.used - 2] == 'b';
    }
    is_int(255, right, "every byte alone between letters");
}

static void
numbers(void)
{
    json_sink s;
    hp_json json = start(&s);
    hp_json_list(&json, NULL);
    hp_json_integer(&json, NULL, INT64_MIN);
    hp_json_count(&json, NULL, UINT64_MAX);
    hp_json_decimal(&json, NULL, 1.0 / 3, 6);
    hp_json_decimal(&json, NULL, 2.5e9, 0);
    hp_json_decimal(&json, NULL, -0.5, 2);
    hp_json_close(&json);
    is_int(0, hp_json_end(&json), "numbers");
    is_string("[-9223372036854775808,18446744073709551615,0.333333,2500000000,-0.50]", s.text,
              "... with as many digits as were asked for");
    json = start(&s);
    hp_json_list(&json, NULL);
    hp_json_decimal(&json, NULL, NAN, 0);
    hp_json_decimal(&json, NULL, INFINITY, 1);
    hp_json_decimal(&json, NULL, -INFINITY, 3);
    hp_json_close(&json);
    is_int(0, hp_json_end(&json), "NaN and infinities");
    is_string("[null,null,null]", s.text, "... are null");
    json = start(&s);
    hp_json_decimal(&json, NULL, -DBL_MAX, 99);
    ok(hp_json_end(&json) == 0 && s.used == 1 + 309 + 1 + 32, "the longest number fits");
}

static void
locales(void)
{
    json_sink s;
    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "fr_FR.UTF-8")) {
        skip(1, "there is no locale with a decimal comma");
        return;
    }
    hp_json json = start(&s);
    hp_json_list(&json, NULL);
    hp_json_decimal(&json, NULL, 1234.5, 1);
    hp_json_decimal(&json, NULL, -2, 0);
    hp_json_close(&json);
    is_string("[1234.5,-2]", s.text, "a decimal comma becomes a point");
    setlocale(LC_NUMERIC, "C");
}

static void
document(hp_json *json)
{
    hp_json_object(json, NULL);
    hp_json_object(json, "empty");
    hp_json_close(json);
    hp_json_list(json, "list");
    hp_json_list(json, NULL);
    hp_json_close(json);
    hp_json_object(json, NULL);
    hp_json_boolean(json, "yes", 1);
    hp_json_boolean(json, "no", 0);
    hp_json_close(json);
    hp_json_null(json, NULL);
    hp_json_close(json);
    hp_json_text(json, "a \"key\"\xFF", "value");
    hp_json_text(json, "", NULL);
    hp_json_integer(json, "last", -1);
    hp_json_close(json);
}

static const char whole[] = "{\"empty\":{},\"list\":[[],{\"yes\":true,\"no\":false},null],"
                            "\"a \\\"key\\\"\\ufffd\":\"value\",\"\":null,\"last\":-1}";

static void
containers(void)
{
    json_sink s;
    hp_json json = start(&s);
    document(&json);
    is_int(0, hp_json_end(&json), "objects and lists in each other");
    is_string(whole, s.text, "... with their commas and keys");
}

/* A json_sink that takes so many bytes and no more. */
static void
truncated(void)
{
    int right = 0;
    for (size_t room = 0; room < strlen(whole); room++) {
        json_sink s;
        hp_json json = start(&s);
        s.room = room;
        document(&json);
        right += hp_json_end(&json) == -1 && s.used == room && memcmp(s.text, whole, room) == 0 && s.writes_after == 0;
    }
    is_uint(strlen(whole), (uintmax_t)right, "a write that fails is kept, and nothing is written after it");
    FILE *full = fopen("/dev/full", "w");
    if (!full) {
        skip(1, "there is no /dev/full");
        return;
    }
    setvbuf(full, NULL, _IONBF, 0);
    hp_json json;
    hp_json_begin(&json, hp_json_to_file, full);
    document(&json);
    is_int(-1, hp_json_end(&json), "a full disk, too");
    fclose(full);
}

static void
wrong(const char *what, const char *before, const char *calls)
{
    json_sink s;
    hp_json json = start(&s);
    for (const char *call = calls; *call != '\0'; call++)
        switch (*call) {
        case '{': hp_json_object(&json, NULL); break;
        case '[': hp_json_list(&json, NULL); break;
        case 'o': hp_json_object(&json, "k"); break;
        case '.': hp_json_close(&json); break;
        case 'k': hp_json_integer(&json, "k", 1); break;
        default: hp_json_integer(&json, NULL, 1);
        }
    is_int(-1, hp_json_end(&json), "wrong: %s", what);
    is_string(before, s.text, "... and nothing more is written");
}

static void
misuse(void)
{
    char deep[HP_JSON_DEPTH + 2] = "", open[HP_JSON_DEPTH + 1] = "";
    memset(deep, '[', HP_JSON_DEPTH + 1);
    memset(open, '[', HP_JSON_DEPTH);
    wrong("nothing at all", "", "");
    wrong("an object that stays open", "{\"k\":1", "{k");
    wrong("a close too many", "{}", "{..");
    wrong("a second value at the top", "1", "11");
    wrong("a key at the top", "", "k");
    wrong("a key in a list", "[1", "[1k.");
    wrong("no key in an object", "{", "{1.");
    wrong("no key for an object in an object", "{\"k\":1", "{k{k..");
    wrong("a key for an object in a list", "[", "[o..");
    wrong("too many open containers", open, deep);
    json_sink s;
    hp_json json = start(&s);
    for (int i = 0; i < HP_JSON_DEPTH; i++)
        hp_json_object(&json, i == 0 ? NULL : "k");
    hp_json_integer(&json, "k", 1);
    for (int i = 0; i < HP_JSON_DEPTH; i++)
        hp_json_close(&json);
    is_int(0, hp_json_end(&json), "as many as are allowed");
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    texts();
    every_byte();
    numbers();
    locales();
    containers();
    truncated();
    misuse();
    return 0;
}
