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
put(hp_resend *resend, const hp_outlet *outlet, hp_frame_type type, const void *payload, size_t n)
{
    resend->dropped |= !outlet->send(outlet->arg, type, payload, n);
}

static void
send_abort(hp_resend *resend, const hp_outlet *outlet)
{
    uint8_t payload[HP_ABORT_BYTES];
    if (outlet && resend->cause.code)
        put(resend, outlet, HP_ABORT, payload, hp_abort_put(payload, &resend->cause));
}

static void
send_lost(hp_resend *resend, const hp_outlet *outlet)
{
    uint8_t payload[HP_LOSS_BYTES];
    if (!outlet || resend->loss.peer < 0)
        return;
    hp_loss_put(payload, &resend->loss);
    put(resend, outlet, HP_LOST, payload, sizeof(payload));
}

static void
send_unstarted(hp_resend *resend, const hp_outlet *outlet)
{
    uint8_t payload[HP_UNSTARTED_BYTES];
    if (outlet && resend->unstarted.sequence)
        put(resend, outlet, HP_UNSTARTED, payload, hp_unstarted_put(payload, &resend->unstarted));
}

static void
send_refused(hp_resend *resend, const hp_outlet *outlet)
{
    uint8_t payload[HP_REFUSAL_BYTES];
    if (outlet && resend->absence.code)
        put(resend, outlet, HP_REFUSED, payload, hp_refusal_put(payload, resend->split, &resend->absence));
}

static void
send_name(hp_resend *resend, const hp_outlet *outlet)
{
    uint8_t payload[HP_NAME_TEXT];
    if (outlet && resend->named)
        put(resend, outlet, HP_NAME, payload, hp_name_put(payload, resend->name));
}

static void
send_call_name(hp_resend *resend, const hp_outlet *outlet, int number)
{
    uint8_t payload[HP_CALL_NAME_BYTES];
    size_t n = hp_call_name_put(payload, number, hp_call_names_get(&resend->call_names, number));
    if (outlet)
        put(resend, outlet, HP_CALL_NAME, payload, n);
}

void
hp_resend_abort(hp_resend *resend, const hp_outlet *outlet, const hoop_error *cause)
{
    resend->cause = *cause;
    send_abort(resend, outlet);
}

void
hp_resend_lost(hp_resend *resend, const hp_outlet *outlet, const hp_loss *loss)
{
    resend->loss = *loss;
    send_lost(resend, outlet);
}

void
hp_resend_unstarted(hp_resend *resend, const hp_outlet *outlet, const hp_unstarted *unstarted)
{
    resend->unstarted = *unstarted;
    send_unstarted(resend, outlet);
}

void
hp_resend_refuse(hp_resend *resend, const hp_outlet *outlet, uint32_t split, const hoop_error *cause)
{
    resend->split = split;
    resend->absence = *cause;
    send_refused(resend, outlet);
}

void
hp_resend_name(hp_resend *resend, const hp_outlet *outlet, int number, const char *name)
{
    if (number) {
        send_call_name(resend, outlet, hp_call_names_add(&resend->call_names, name));
        return;
    }
    resend->named = 1;
    snprintf(resend->name, sizeof(resend->name), "%s", name);
    send_name(resend, outlet);
}

void
hp_resend_all(hp_resend *resend, const hp_outlet *outlet)
{
    resend->dropped = 0;
    send_name(resend, outlet);
    for (int number = 1; number <= resend->call_names.count; number++)
        send_call_name(resend, outlet, number);
    send_unstarted(resend, outlet);
    send_refused(resend, outlet);
    send_lost(resend, outlet);
    send_abort(resend, outlet);
}

void
hp_resend_dropped(hp_resend *resend, const hp_outlet *outlet)
{
    if (resend->dropped)
        hp_resend_all(resend, outlet);
}
