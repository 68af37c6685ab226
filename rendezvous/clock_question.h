/* SPDX-License-Identifier: MIT */
/* clock_question: HP_CLOCK on a control connection: a rank asks what time it is, the server answers. */
#ifndef HP_CLOCK_QUESTION_H
#define HP_CLOCK_QUESTION_H

#include "rendezvous/clock_offset.h"
#include "rendezvous/control_conn.h"

/* Both do nothing while earlier frames are not sent: an answer would be late, and a rank that does not read gets none. */
void hp_clock_ask(hp_control_conn *control);
void hp_clock_answer(hp_control_conn *control, const uint8_t *question);

/* The answer, which has just come. */
void hp_clock_take(hp_clock_offset *clock, const uint8_t *answer);

#endif
