/* SPDX-License-Identifier: MIT */
/* resend: see resend.h. */
#include "rendezvous/resend.h"

#include "base/err.h"

#include <stdio.h>

void
hp_resend_clear(hp_resend *resend)
{
    *resend = (hp_resend){.loss.peer = -1};
    hp_err_clear(&resend->cause);
    hp_err_clear(&resend->absence);
}

static void
send_abort(const hp_resend *resend, hp_control_conn *control)
{
    uint8_t payload[HP_ABORT_BYTES];
    if (control && resend->cause.code)
        hp_control_conn_send(control, HP_ABORT, payload, hp_abort_put(payload, &resend->cause));
}

static void
send_lost(const hp_resend *resend, hp_control_conn *control)
{
    uint8_t payload[HP_LOSS_BYTES];
    if (!control || resend->loss.peer < 0)
        return;
    hp_loss_put(payload, &resend->loss);
    hp_control_conn_send(control, HP_LOST, payload, sizeof(payload));
}

static void
send_unstarted(const hp_resend *resend, hp_control_conn *control)
{
    uint8_t payload[HP_UNSTARTED_BYTES];
    if (control && resend->unstarted.sequence)
        hp_control_conn_send(control, HP_UNSTARTED, payload, hp_unstarted_put(payload, &resend->unstarted));
}

static void
send_refused(const hp_resend *resend, hp_control_conn *control)
{
    uint8_t payload[HP_REFUSAL_BYTES];
    if (control && resend->absence.code)
        hp_control_conn_send(control, HP_REFUSED, payload, hp_refusal_put(payload, resend->split, &resend->absence));
}

static void
send_name(const hp_resend *resend, hp_control_conn *control)
{
    uint8_t payload[HP_NAME_TEXT];
    if (control && resend->named)
        hp_control_conn_send(control, HP_NAME, payload, hp_name_put(payload, resend->name));
}

static void
send_call_name(const hp_resend *resend, hp_control_conn *control, int number)
{
    uint8_t payload[HP_CALL_NAME_BYTES];
    size_t n = hp_call_name_put(payload, number, hp_call_names_get(&resend->call_names, number));
    if (control)
        hp_control_conn_send(control, HP_CALL_NAME, payload, n);
}

void
hp_resend_abort(hp_resend *resend, hp_control_conn *control, const hoop_error *cause)
{
    resend->cause = *cause;
    send_abort(resend, control);
}

void
hp_resend_lost(hp_resend *resend, hp_control_conn *control, const hp_loss *loss)
{
    resend->loss = *loss;
    send_lost(resend, control);
}

void
hp_resend_unstarted(hp_resend *resend, hp_control_conn *control, const hp_unstarted *unstarted)
{
    resend->unstarted = *unstarted;
    send_unstarted(resend, control);
}

void
hp_resend_refuse(hp_resend *resend, hp_control_conn *control, uint32_t split, const hoop_error *cause)
{
    resend->split = split;
    resend->absence = *cause;
    send_refused(resend, control);
}

void
hp_resend_name(hp_resend *resend, hp_control_conn *control, int number, const char *name)
{
    if (number) {
        send_call_name(resend, control, hp_call_names_add(&resend->call_names, name));
        return;
    }
    resend->named = 1;
    snprintf(resend->name, sizeof(resend->name), "%s", name);
    send_name(resend, control);
}

void
hp_resend_all(const hp_resend *resend, hp_control_conn *control)
{
    send_name(resend, control);
    for (int number = 1; number <= resend->call_names.count; number++)
        send_call_name(resend, control, number);
    send_unstarted(resend, control);
    send_refused(resend, control);
    send_lost(resend, control);
    send_abort(resend, control);
}
