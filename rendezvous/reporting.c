/* SPDX-License-Identifier: MIT */
/*
 * reporting: what a member tells its server; see membership.h. While there is none, what the server must not miss is kept
 * for when it is back.
 */
#include "base/clock.h"
#include "base/wire.h"
#include "rendezvous/membership.h"

enum {
    ASLEEP_MS = 1000,       /* reports leave every quarter of a second, unless this process was stopped */
    REPORT_QUEUE = 16 << 10 /* above this reports are dropped, verdicts are not */
};

/* What it must not miss is kept while there is none, or it does not answer. */
static int
keeps(const hp_membership *m)
{
    return m->state == HP_CLIENT_GO || hp_membership_is_lost(m);
}

static void
send_report(hp_membership *m, hp_frame_type type, const hp_report *report)
{
    uint8_t payload[HP_REPORT_BYTES];
    hp_report_put(payload, report);
    if (!hp_membership_send(m, type, payload, sizeof(payload)))
        return;
    m->in_op = 1;
    m->owes_out = 0;
}

void
hp_membership_in_op(hp_membership *m, const hp_report *report, uint64_t now)
{
    if (m->state != HP_CLIENT_GO || !hp_membership_outlet(m))
        return;
    if (!m->in_op || now - m->reported > ASLEEP_MS * HP_MS)
        m->last_seen = now;
    m->reported = now;
    if (m->outlet.queued(m->outlet.arg) <= REPORT_QUEUE)
        send_report(m, m->in_op || m->refused ? HP_PROGRESS : HP_IN_OP, report);
}

void
hp_membership_unstarted(hp_membership *m, const hp_unstarted *unstarted)
{
    if (!keeps(m))
        return;
    m->refused = 1;
    hp_resend_unstarted(&m->resend, hp_membership_outlet(m), unstarted);
}

void
hp_membership_started(hp_membership *m, const hp_report *report, uint64_t now)
{
    m->refused = 0;
    m->resend.unstarted.sequence = 0;
    if (m->state != HP_CLIENT_GO || !hp_membership_outlet(m))
        return;
    m->last_seen = m->in_op ? m->last_seen : now;
    m->reported = now;
    send_report(m, HP_IN_OP, report);
}

int
hp_membership_may_ask(const hp_membership *m)
{
    return m->state == HP_CLIENT_GO && hp_membership_outlet(m);
}

/* The server must not take this rank to be in an operation for ever, so an OUT that was dropped is sent later. */
static void
pay_out(hp_membership *m)
{
    if (m->owes_out && m->state == HP_CLIENT_GO && hp_membership_outlet(m))
        m->owes_out = !hp_membership_count(m, HP_OUT, m->owed_out);
}

void
hp_membership_out(hp_membership *m, uint64_t completed)
{
    m->owed_out = completed;
    m->owes_out |= m->in_op && m->state == HP_CLIENT_GO;
    m->in_op = 0;
    pay_out(m);
}

void
hp_membership_room(hp_membership *m)
{
    const hp_outlet *outlet = m->state == HP_CLIENT_GO ? hp_membership_outlet(m) : NULL;
    hp_membership_tell(m);
    pay_out(m);
    if (outlet)
        hp_resend_dropped(&m->resend, outlet);
}

int
hp_membership_inform(hp_membership *m, uint64_t feature, hp_frame_type type, const void *payload, size_t n)
{
    const hp_outlet *outlet = m->features & feature ? hp_membership_outlet(m) : NULL;
    if (m->state != HP_CLIENT_GO || !outlet || outlet->queued(outlet->arg) > REPORT_QUEUE)
        return 0;
    return outlet->send(outlet->arg, type, payload, n);
}

void
hp_membership_abort(hp_membership *m, const hoop_error *cause)
{
    if (m->state >= HP_CLIENT_ROSTER && m->state < HP_CLIENT_LEFT)
        hp_resend_abort(&m->resend, hp_membership_outlet(m), m->resend.cause.code ? &m->resend.cause : cause);
    else if (m->state == HP_CLIENT_JOINING && m->line == HP_LINE_UP && cause->code == HOOP_ERR_ABORTED)
        hp_resend_abort(&m->resend, &m->outlet, cause);
}

void
hp_membership_lost(hp_membership *m, const hp_loss *loss)
{
    if (keeps(m))
        hp_resend_lost(&m->resend, hp_membership_outlet(m), m->resend.loss.peer < 0 ? loss : &m->resend.loss);
}

void
hp_membership_found(hp_membership *m)
{
    uint8_t payload[HP_FOUND_BYTES];
    hp_put32(payload, (uint32_t)m->resend.loss.peer);
    if (m->resend.loss.peer >= 0 && hp_membership_outlet(m) && (m->features & HP_FEATURE_COMEBACK))
        hp_membership_send(m, HP_FOUND, payload, sizeof(payload));
    m->resend.loss.peer = -1;
}

void
hp_membership_refuse(hp_membership *m, uint32_t split, const hoop_error *cause)
{
    if (keeps(m))
        hp_resend_refuse(&m->resend, hp_membership_outlet(m), split, cause);
}

int
hp_membership_name(hp_membership *m, int number, const char *name)
{
    int takes = keeps(m) && (!number || m->state == HP_CLIENT_GONE || (m->features & HP_FEATURE_CALL_NAMES));
    if (takes)
        hp_resend_name(&m->resend, hp_membership_outlet(m), number, name);
    return takes;
}
