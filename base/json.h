/* SPDX-License-Identifier: MIT */
/*
 * json: writes JSON as the caller adds it, without a tree in memory, through a function of the caller's. It needs
 * nothing else of the project. Whatever it is given, the output is valid UTF-8 and valid JSON: bytes that are no UTF-8
 * become U+FFFD, numbers that JSON has no words for (NaN, infinities) become null, a decimal comma of the locale
 * becomes a point.
 *
 * Errors stay: after a failed write, or after a call at the wrong place (a key in a list, no key in an object, a second
 * value at the top, more than HP_JSON_DEPTH open containers), nothing more is written, and hp_json_end returns -1.
 */
#ifndef HP_JSON_H
#define HP_JSON_H

#include <stddef.h>
#include <stdint.h>

enum { HP_JSON_DEPTH = 32 };

typedef int hp_json_write_fn(void *arg, const char *bytes, size_t size); /* 0, or -1: not all was written */

typedef struct hp_json {
    hp_json_write_fn *write;
    void *arg;
    uint32_t objects; /* bit d: the container at depth d is an object, else it is a list */
    uint32_t filled;  /* bit d: it has a member */
    int depth;        /* open containers */
    int started;      /* the value at the top has begun */
    int failed;
} hp_json;

void hp_json_begin(hp_json *json, hp_json_write_fn *write, void *arg);
int hp_json_end(hp_json *json); /* 0: one complete value was written; -1 */

int hp_json_to_file(void *file, const char *bytes, size_t size); /* a hp_json_write_fn; arg is a FILE */

/* In an object every value has a key; in a list and at the top it has none: key is NULL. */
void hp_json_object(hp_json *json, const char *key);
void hp_json_list(hp_json *json, const char *key);
void hp_json_close(hp_json *json);                                    /* the innermost container */
void hp_json_text(hp_json *json, const char *key, const char *value); /* NULL: null */
void hp_json_integer(hp_json *json, const char *key, int64_t value);
void hp_json_count(hp_json *json, const char *key, uint64_t value);
void hp_json_decimal(hp_json *json, const char *key, double value, int decimals); /* as %.*f */
void hp_json_boolean(hp_json *json, const char *key, int value);
void hp_json_null(hp_json *json, const char *key);

#endif
