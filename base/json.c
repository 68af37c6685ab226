/* SPDX-License-Identifier: MIT */
/* json: one function puts the comma and the key before every value; all the others write what follows. */
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- bytes --- */

static void
put(hp_json *json, const char *bytes, size_t size)
{
    if (!json->failed && size > 0 && json->write(json->arg, bytes, size) != 0)
        json->failed = 1;
}

static void
put_text(hp_json *json, const char *text)
{
    put(json, text, strlen(text));
}

/*
 * The length of the UTF-8 sequence that text begins with; 0 if it begins with none: a stray or missing continuation, a
 * longer form than needed, a surrogate, a code point above U+10FFFF.
 */
static size_t
sequence(const unsigned char *text)
{
    size_t length = text[0] < 0x80 ? 1 : text[0] < 0xC2 ? 0 : text[0] < 0xE0 ? 2 : text[0] < 0xF0 ? 3 : 4;
    unsigned char least = text[0] == 0xE0 ? 0xA0 : text[0] == 0xF0 ? 0x90 : 0x80;
    unsigned char most = text[0] == 0xED ? 0x9F : text[0] == 0xF4 ? 0x8F : 0xBF;
    if (text[0] > 0xF4)
        return 0;
    for (size_t i = 1; i < length; i++) {
        if (text[i] < least || text[i] > most) /* the final '\0' is below, so nothing behind it is read */
            return 0;
        least = 0x80;
        most = 0xBF;
    }
    return length;
}

static void
put_escaped(hp_json *json, unsigned char byte)
{
    char escape[8];
    if (byte >= 0x80)
        snprintf(escape, sizeof(escape), "\\ufffd");
    else if (byte == '"' || byte == '\\')
        snprintf(escape, sizeof(escape), "\\%c", byte);
    else
        snprintf(escape, sizeof(escape), "\\u%04x", (unsigned)byte);
    put_text(json, escape);
}

static void
put_string(hp_json *json, const char *text)
{
    put_text(json, "\"");
    while (*text != '\0') {
        size_t plain = 0, length;
        while ((unsigned char)text[plain] >= 0x20 && text[plain] != '"' && text[plain] != '\\' &&
               (length = sequence((const unsigned char *)text + plain)) > 0)
            plain += length;
        put(json, text, plain);
        text += plain;
        if (*text != '\0')
            put_escaped(json, (unsigned char)*text++);
    }
    put_text(json, "\"");
}

/* --- places --- */

static int
has(uint32_t bits, int depth)
{
    return depth > 0 && (bits >> (depth - 1) & 1);
}

/* The comma and the key of a value. 0: no value may be written here. */
static int
begin_value(hp_json *json, const char *key)
{
    int in_object = has(json->objects, json->depth);
    if (in_object != !!key || (json->depth == 0 && json->started))
        json->failed = 1;
    if (has(json->filled, json->depth))
        put_text(json, ",");
    if (json->depth > 0)
        json->filled |= UINT32_C(1) << (json->depth - 1);
    json->started = 1;
    if (!json->failed && in_object) {
        put_string(json, key);
        put_text(json, ":");
    }
    return !json->failed;
}

static void
open_container(hp_json *json, const char *key, int is_object)
{
    if (json->depth == HP_JSON_DEPTH)
        json->failed = 1;
    if (!begin_value(json, key))
        return;
    uint32_t bit = UINT32_C(1) << json->depth++;
    json->objects = is_object ? json->objects | bit : json->objects & ~bit;
    json->filled &= ~bit;
    put_text(json, is_object ? "{" : "[");
}

void
hp_json_begin(hp_json *json, hp_json_write_fn *write, void *arg)
{
    *json = (hp_json){.write = write, .arg = arg};
}

int
hp_json_end(hp_json *json)
{
    return json->failed || json->depth > 0 || !json->started ? -1 : 0;
}

int
hp_json_to_file(void *file, const char *bytes, size_t size)
{
    return fwrite(bytes, 1, size, file) == size ? 0 : -1;
}

void
hp_json_object(hp_json *json, const char *key)
{
    open_container(json, key, 1);
}

void
hp_json_list(hp_json *json, const char *key)
{
    open_container(json, key, 0);
}

void
hp_json_close(hp_json *json)
{
    if (json->depth == 0)
        json->failed = 1;
    if (json->failed)
        return;
    put_text(json, has(json->objects, json->depth) ? "}" : "]");
    json->depth--;
}

/* --- values --- */

static void
literal(hp_json *json, const char *key, const char *text)
{
    if (begin_value(json, key))
        put_text(json, text);
}

void
hp_json_text(hp_json *json, const char *key, const char *value)
{
    if (!value)
        literal(json, key, "null");
    else if (begin_value(json, key))
        put_string(json, value);
}

void
hp_json_integer(hp_json *json, const char *key, int64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%lld", (long long)value);
    literal(json, key, text);
}

void
hp_json_count(hp_json *json, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    literal(json, key, text);
}

/* The locale's decimal point, which may be any byte or several, becomes JSON's. */
static void
make_point(char *text)
{
    char *point = text + strspn(text, "-0123456789"), *rest = point + strcspn(point, "0123456789");
    if (*rest == '\0' || rest == point)
        return;
    *point = '.';
    memmove(point + 1, rest, strlen(rest) + 1);
}

enum { NUMBER_TEXT = 352, MOST_DECIMALS = 32 }; /* the largest double has 309 digits before the point */

void
hp_json_decimal(hp_json *json, const char *key, double value, int decimals)
{
    char text[NUMBER_TEXT];
    int shown = decimals < 0 ? 0 : decimals > MOST_DECIMALS ? MOST_DECIMALS : decimals;
    snprintf(text, sizeof(text), "%.*f", shown, value);
    make_point(text);
    literal(json, key, isfinite(value) ? text : "null");
}

void
hp_json_boolean(hp_json *json, const char *key, int value)
{
    literal(json, key, value ? "true" : "false");
}

void
hp_json_null(hp_json *json, const char *key)
{
    literal(json, key, "null");
}
