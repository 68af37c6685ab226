/* SPDX-License-Identifier: MIT */
/* resend: see resend.h. */
#include "rendezvous/resend.h"

#include "base/err.h"

void
hp_resend_clear(hp_resend *d)
{
    *d = (hp_resend){.loss.peer = -1};
    hp_err_clear(&d->cause);
    hp_err_clear(&d->absence);
}

static void
say_abort(const hp_resend *d, hp_control_conn *control)
{
    uint8_t payload[HP_ABORT_BYTES];
    if (control && d->cause.code)
        hp_control_conn_send(control, HP_ABORT, payload, hp_abort_put(payload, &d->cause));
}

static void
say_lost(const hp_resend *d, hp_control_conn *control)
{
    uint8_t payload[HP_LOSS_BYTES];
    if (!control || d->loss.peer < 0)
        return;
    hp_loss_put(payload, &d->loss);
    hp_control_conn_send(control, HP_LOST, payload, sizeof(payload));
}

static void
say_unstarted(const hp_resend *d, hp_control_conn *control)
{
    uint8_t payload[HP_UNSTARTED_BYTES];
    if (control && d->refusal.sequence)
        hp_control_conn_send(control, HP_UNSTARTED, payload, hp_unstarted_put(payload, &d->refusal));
}

static void
say_refused(const hp_resend *d, hp_control_conn *control)
{
    uint8_t payload[HP_REFUSAL_BYTES];
    if (control && d->absence.code)
        hp_control_conn_send(control, HP_REFUSED, payload, hp_refusal_put(payload, d->split, &d->absence));
}

void
hp_resend_abort(hp_resend *d, hp_control_conn *control, const hoop_error *cause)
{
    d->cause = *cause;
    say_abort(d, control);
}

void
hp_resend_lost(hp_resend *d, hp_control_conn *control, const hp_loss *loss)
{
    d->loss = *loss;
    say_lost(d, control);
}

void
hp_resend_unstarted(hp_resend *d, hp_control_conn *control, const hp_unstarted *unstarted)
{
    d->refusal = *unstarted;
    say_unstarted(d, control);
}

void
hp_resend_refuse(hp_resend *d, hp_control_conn *control, uint32_t split, const hoop_error *cause)
{
    d->split = split;
    d->absence = *cause;
    say_refused(d, control);
}

void
hp_resend_all(const hp_resend *d, hp_control_conn *control)
{
    say_unstarted(d, control);
    say_refused(d, control);
    say_lost(d, control);
    say_abort(d, control);
}
