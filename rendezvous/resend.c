/* SPDX-License-Identifier: MIT */
/* resend: see resend.h. */
#include "rendezvous/resend.h"

#include "base/err.h"

void
hp_debts_clear(hp_debts *d)
{
    *d = (hp_debts){.loss.peer = -1};
    hp_err_clear(&d->cause);
    hp_err_clear(&d->absence);
}

static void
say_abort(const hp_debts *d, hp_line *line)
{
    uint8_t payload[HP_ABORT_BYTES];
    if (line && d->cause.code)
        hp_line_send(line, HP_ABORT, payload, hp_abort_put(payload, &d->cause));
}

static void
say_lost(const hp_debts *d, hp_line *line)
{
    uint8_t payload[HP_LOSS_BYTES];
    if (!line || d->loss.peer < 0)
        return;
    hp_loss_put(payload, &d->loss);
    hp_line_send(line, HP_LOST, payload, sizeof(payload));
}

static void
say_unstarted(const hp_debts *d, hp_line *line)
{
    uint8_t payload[HP_UNSTARTED_BYTES];
    if (line && d->refusal.sequence)
        hp_line_send(line, HP_UNSTARTED, payload, hp_unstarted_put(payload, &d->refusal));
}

static void
say_refused(const hp_debts *d, hp_line *line)
{
    uint8_t payload[HP_REFUSAL_BYTES];
    if (line && d->absence.code)
        hp_line_send(line, HP_REFUSED, payload, hp_refusal_put(payload, d->split, &d->absence));
}

void
hp_debts_abort(hp_debts *d, hp_line *line, const hoop_error *cause)
{
    d->cause = *cause;
    say_abort(d, line);
}

void
hp_debts_lost(hp_debts *d, hp_line *line, const hp_loss *loss)
{
    d->loss = *loss;
    say_lost(d, line);
}

void
hp_debts_unstarted(hp_debts *d, hp_line *line, const hp_unstarted *unstarted)
{
    d->refusal = *unstarted;
    say_unstarted(d, line);
}

void
hp_debts_refuse(hp_debts *d, hp_line *line, uint32_t split, const hoop_error *cause)
{
    d->split = split;
    d->absence = *cause;
    say_refused(d, line);
}

void
hp_debts_pay(const hp_debts *d, hp_line *line)
{
    say_unstarted(d, line);
    say_refused(d, line);
    say_lost(d, line);
    say_abort(d, line);
}
