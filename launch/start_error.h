/* SPDX-License-Identifier: MIT */
/* start_error: why the ranks of a host could not be started, in a sentence that says what to do about it. */
#ifndef HP_LAUNCH_START_ERROR_H
#define HP_LAUNCH_START_ERROR_H

#include "launch/spawn.h"
#include "launch/spec.h"

typedef struct hp_start_error {
    int status; /* exit status for the whole job: 126, 127, 1 or 2 */
    char text[1200];
} hp_start_error;

void hp_start_error_say(hp_start_error *e, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The program was not started. Called with the errno of the failure, in the ranks' folder and with their PATH. */
void hp_start_error_program(hp_start_error *e, const hp_spec *spec, hp_spawn_step step);

#endif
