/* SPDX-License-Identifier: MIT */
/* refusal: why the ranks of a host could not be started, in a sentence that says what to do about it. */
#ifndef HP_REFUSAL_H
#define HP_REFUSAL_H

#include "launch/spawn.h"
#include "launch/spec.h"

typedef struct hp_refusal {
    int status; /* exit status for the whole job: 126, 127 or 1 */
    char text[1200];
} hp_refusal;

/* All by errno, in the ranks' folder and with their PATH. */
void hp_refusal_of_folder(hp_refusal *refusal, const hp_orders *orders);
void hp_refusal_of_terminal(hp_refusal *refusal);
void hp_refusal_of_program(hp_refusal *refusal, const hp_orders *orders, hp_spawn_step step);

#endif
