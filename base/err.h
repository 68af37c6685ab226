/* SPDX-License-Identifier: MIT */
/*
 * err: one error, one sentence. The function that detects an error fills a hoop_error with its code and a sentence;
 * its callers pass the code on. Nothing here prints. `error` may be NULL if the sentence is not wanted.
 */
#ifndef HP_ERR_H
#define HP_ERR_H

#include "hoop.h"

/*
 * hoop_error.sequence of a cause in messages, between ranks and inside the library: no rank puts the number of its own
 * operation there, as it does for 0. The program sees 0.
 */
#define HP_NO_OPERATION UINT64_MAX

/* Resets all fields; rank and reporter are -1. */
void hp_err_clear(hoop_error *error);

/* Sets code and sentence, and resets the other fields. Returns code. */
hoop_result hp_err_set(hoop_error *error, hoop_result code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* As hp_err_set, with errno `number` recorded and ": strerror(number)" appended. */
hoop_result hp_err_sys(hoop_error *error, hoop_result code, int number, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
