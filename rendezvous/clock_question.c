/* SPDX-License-Identifier: MIT */
/* clock_question: see clock_question.h. */
#include "rendezvous/clock_question.h"

#include "base/clock.h"
#include "rendezvous/message.h"

void
hp_clock_ask(hp_control_conn *control)
{
    uint8_t payload[HP_QUESTION_BYTES];
    if (hp_control_conn_queued(control) > 0)
        return;
    hp_question_put(payload, hp_now());
    hp_control_conn_send(control, HP_CLOCK, payload, sizeof(payload));
}

void
hp_clock_answer(hp_control_conn *control, const uint8_t *question)
{
    uint8_t payload[HP_ANSWER_BYTES];
    if (hp_control_conn_queued(control) > 0)
        return;
    hp_answer_put(payload, question, hp_now());
    hp_control_conn_send(control, HP_CLOCK, payload, sizeof(payload));
}

void
hp_clock_take(hp_clock_offset *clock, const uint8_t *answer)
{
    uint64_t asked, server;
    hp_answer_get(answer, &asked, &server);
    hp_clock_offset_take(clock, asked, server, hp_now());
}
