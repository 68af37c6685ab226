/* SPDX-License-Identifier: MIT */
/*
 * report: recorders for people and for programs: the sentence with the ranks and the last operations below it, or JSON;
 * and the file with the recorders of many hosts, hoop-JOB.flight.json, which hoop_flight(5) describes.
 */
#ifndef HP_FLIGHT_REPORT_H
#define HP_FLIGHT_REPORT_H

#include "flight/story.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The length of the text of n bytes, without the zero at its end. */
#define HP_BASE64_LENGTH(n) (((n) + 2) / 3 * 4)

void hp_base64_put(char *out, const uint8_t *bytes, size_t n); /* with a zero at the end */

/* Up to `room` bytes of a text of n characters. Returns how many; -1: it is no such text, or longer. */
ptrdiff_t hp_base64_get(uint8_t *out, size_t room, const char *text, size_t n);

enum { HP_FLIGHT_FILE_VERSION = 2 }; /* of the JSON, in both forms */

void hp_flight_print(FILE *to, const hp_flight_story *story);

typedef enum hp_flight_form {
    HP_FLIGHT_DECODED, /* every operation with its times, for programs */
    HP_FLIGHT_PACKED   /* the recorders' bytes, which hp_flight_add_archive reads again */
} hp_flight_form;

/* 0, or -1: not all was written (errno). */
int hp_flight_write_json(FILE *to, const hp_flight_collection *all, const hp_flight_story *story, hp_flight_form form);

/* Adds what HP_FLIGHT_PACKED has written. HOOP_ERR_CORRUPT, HOOP_ERR_UNSUPPORTED of another version,
 * HOOP_ERR_SYSTEM, HOOP_ERR_NO_MEMORY: error is filled. */
hoop_result hp_flight_add_archive(hp_flight_collection *all, const char *path, hoop_error *error);

#endif
