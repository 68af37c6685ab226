/* SPDX-License-Identifier: MIT */
/*
 * client: see client.h. membership.c decides; this file has the dial, the control connection and one timer, and does after
 * each event what the membership wants.
 */
#include "rendezvous/client.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "net/socket.h"
#include "net/tcp.h"
#include "rendezvous/control_conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FLUSH_MS = 100 };

struct hp_client {
    hp_loop *loop;
    hp_keys *keys;
    char *agree;
    hp_membership membership;
    hp_dial *dial;
    hp_control_conn *control;
    hp_timer *timer;
    hp_clock_offset clock; /* against the server's */
    hp_probe probe;        /* of a server that is silent */
    uint64_t asked;        /* 0: it is not */
};

/* A rank's last words have room of their own. */
static int
on_send(void *arg, hp_frame_type type, const void *payload, size_t n)
{
    const hp_client *c = arg;
    if (type != HP_ABORT && type != HP_LEAVE && hp_control_conn_queued(c->control) > HP_CONTROL_QUEUE / 2)
        return 0;
    return hp_control_conn_send(c->control, type, payload, n);
}

static void
on_room(void *arg)
{
    hp_client *c = arg;
    hp_membership_room(&c->membership);
}

static size_t
on_queued(void *arg)
{
    const hp_client *c = arg;
    return hp_control_conn_queued(c->control);
}

static void
disconnect(hp_client *c)
{
    hp_control_conn_free(c->control);
    hp_dial_free(c->dial);
    c->control = NULL;
    c->dial = NULL;
}

static void on_dialled(void *arg, const hp_dial_result *result);

static void
dial_server(hp_client *c)
{
    const hp_client_options *o = &c->membership.options;
    hp_dial_result none = {.fd = -1};
    uint64_t deadline;
    hp_hello hello = hp_membership_dial(&c->membership, hp_loop_now(c->loop), &deadline);
    hello.mode = c->keys->mode;
    memcpy(hello.job_id, c->keys->job_id, HP_JOB_ID_BYTES);
    c->dial = hp_dial_new(c->loop, &o->server,
                          &(hp_dial_options){.what = "the rendezvous server",
                                             .keys = c->keys,
                                             .hello = hello,
                                             .sock = o->sock,
                                             .deadline = deadline,
                                             .fn = on_dialled,
                                             .arg = c});
    if (c->dial && o->comes_back && c->membership.state == HP_CLIENT_JOINING)
        hp_dial_await_server(c->dial);
    if (c->dial)
        return;
    hp_err_set(&none.error, HOOP_ERR_NO_MEMORY, "out of memory for the control connection");
    hp_membership_dialled(&c->membership, &none, hp_loop_now(c->loop));
}

/* Does what the membership wants after an event. */
static void
obey(hp_client *c)
{
    uint64_t now = hp_loop_now(c->loop);
    if (c->membership.line == HP_LINE_NONE)
        disconnect(c);
    if (hp_membership_wants_dial(&c->membership, now))
        dial_server(c);
    uint64_t next = hp_membership_next(&c->membership);
    hp_timer_set(c->timer, next == HP_NEVER ? HP_NEVER : next > now ? next - now : 0);
}

static int
on_frame(void *arg, const hp_control_frame *frame, hoop_error *error)
{
    hp_client *c = arg;
    int result = hp_membership_frame(&c->membership, frame, hp_loop_now(c->loop), error);
    if (result == 0 && frame->type == HP_CLOCK) {
        uint64_t asked, server;
        hp_answer_get(frame->payload, &asked, &server);
        hp_clock_offset_take(&c->clock, asked, server, hp_now());
    }
    obey(c);
    return result;
}

static void
on_closed(void *arg, const hoop_error *why)
{
    hp_client *c = arg;
    hp_membership_closed(&c->membership, why, hp_loop_now(c->loop));
    obey(c);
}

static void
on_dialled(void *arg, const hp_dial_result *result)
{
    hp_client *c = arg;
    hp_control_conn_owner owner = {c, on_frame, on_room, on_closed};
    hp_dial_result got = *result;
    hp_dial *dial = c->dial;
    c->dial = NULL;
    if (got.fd < 0 && hp_dial_absent_since(dial))
        got.error.sys_errno = ECONNREFUSED;
    if (got.fd >= 0)
        c->control = hp_control_conn_new(c->loop, got.fd, &owner);
    if (got.fd >= 0 && !c->control) {
        hp_socket_close(got.fd);
        got.fd = -1;
        hp_err_set(&got.error, HOOP_ERR_NO_MEMORY, "out of memory or descriptors for the control connection");
    }
    hp_membership_dialled(&c->membership, &got, hp_loop_now(c->loop));
    if (c->membership.state == HP_CLIENT_LEFT && c->control)
        hp_control_conn_shut(c->control);
    hp_dial_free(dial);
    obey(c);
}

/* Whether the server's host acknowledges, as long as this rank cannot go on without the server. */
static void
look(hp_client *c, uint64_t now)
{
    hp_membership *m = &c->membership;
    uint64_t silence = c->control ? hp_control_conn_silence(c->control, now) : 0;
    if (c->control)
        hp_membership_silence(m, silence ? now - silence : 0, now);
    else
        hp_membership_silence(
            m, c->dial && hp_dial_has_asked(c->dial) ? hp_dial_silent_since(c->dial) : m->silent_since, now);
    if (!hp_membership_wants_probe(m, now)) {
        hp_probe_stop(&c->probe);
        c->asked = 0;
        return;
    }
    if (!c->asked) {
        hp_probe_start(&c->probe, &m->options.server, &m->options.sock);
        c->asked = now;
    }
    hp_probe_state state = hp_probe_poll(&c->probe);
    if (state == HP_PROBE_ASKED && now - c->asked < HP_TCP_ANSWER_MS * HP_MS)
        return;
    hp_probe_stop(&c->probe);
    c->asked = 0;
    hp_membership_probed(m, state != HP_PROBE_ASKED && state != HP_PROBE_UNREACHED, now);
}

static void
on_time(void *arg)
{
    hp_client *c = arg;
    uint64_t now = hp_loop_now(c->loop);
    if (now >= c->membership.look_at)
        look(c, now);
    hp_membership_time(&c->membership, now);
    obey(c);
}

hp_client *
hp_client_new(hp_loop *loop, const hp_client_options *options)
{
    hp_client *c = hp_alloc(1, sizeof(*c));
    hp_client_options own = *options;
    const hp_outlet outlet = {c, on_send, on_queued};
    if (!c)
        return NULL;
    c->loop = loop;
    c->keys = hp_keys_hold(options->keys);
    c->agree = hp_strdup(options->agree ? options->agree : "");
    c->timer = hp_timer_new(loop, on_time, c);
    own.agree = c->agree;
    own.keys = NULL;
    hp_membership_open(&c->membership, &own, &outlet, hp_loop_now(loop));
    if (!c->agree || !c->timer) {
        hp_client_free(c);
        return NULL;
    }
    hp_timer_set(c->timer, 0);
    return c;
}

hp_membership *
hp_client_membership(hp_client *c)
{
    return &c->membership;
}

hp_client_state
hp_client_status(const hp_client *c)
{
    return c->membership.state;
}

const hoop_error *
hp_client_error(const hp_client *c)
{
    return &c->membership.error;
}

const hp_addr *
hp_client_awaits(const hp_client *c, const hp_dial **dial)
{
    const hp_membership *m = &c->membership;
    *dial = c->dial;
    return m->state == HP_CLIENT_JOINING && m->line != HP_LINE_UP && !m->error.code ? &m->options.server : NULL;
}

const hp_ring *
hp_client_ring(const hp_client *c)
{
    return &c->membership.ring;
}

void
hp_client_in_op(hp_client *c, const hp_report *report)
{
    hp_membership_in_op(&c->membership, report, hp_loop_now(c->loop));
}

void
hp_client_started(hp_client *c, const hp_report *report)
{
    hp_membership_started(&c->membership, report, hp_loop_now(c->loop));
}

const hp_clock_offset *
hp_client_compare_clocks(hp_client *c, int asks)
{
    uint8_t question[HP_QUESTION_BYTES];
    if (asks && hp_membership_may_ask(&c->membership) &&
        !hp_control_conn_queued(c->control)) { /* behind other frames it would be late */
        hp_question_put(question, hp_now());
        hp_control_conn_send(c->control, HP_CLOCK, question, sizeof(question));
    }
    return &c->clock;
}

void
hp_client_return(hp_client *c, uint64_t started, uint64_t completed)
{
    hp_membership_return(&c->membership, started, completed, hp_loop_now(c->loop));
    obey(c);
}

int
hp_client_is_heard(const hp_client *c, uint64_t within)
{
    return c->control && hp_control_conn_is_heard(c->control, within);
}

int
hp_client_lags(const hp_client *c)
{
    return c->membership.owes_out || (c->control && hp_control_conn_queued(c->control) > 0);
}

void
hp_client_leave(hp_client *c, uint64_t completed)
{
    hp_membership_leave(&c->membership, completed);
    if (c->membership.state == HP_CLIENT_LEFT && c->control)
        hp_control_conn_shut(c->control);
    obey(c);
}

int
hp_client_deliver_leave(hp_client *c, int redials)
{
    hp_membership *m = &c->membership;
    hoop_error why;
    int again = 0;
    if (!hp_membership_is_leaving(m))
        return 0;
    int owed = m->away || !c->control || hp_control_conn_is_owed(c->control, &again);
    if (!again || !redials)
        return owed;
    hp_err_set(&why, HOOP_ERR_SYSTEM, "the rendezvous server has not acknowledged that this rank leaves");
    hp_membership_closed(m, &why, hp_loop_now(c->loop));
    obey(c);
    return 1;
}

void
hp_client_free(hp_client *c)
{
    if (!c)
        return;
    if (c->control && (c->membership.state == HP_CLIENT_LEFT || hp_control_conn_queued(c->control)))
        hp_control_conn_finish(c->control, FLUSH_MS * HP_MS);
    disconnect(c);
    hp_probe_stop(&c->probe);
    hp_timer_free(c->timer);
    hp_keys_drop(c->keys);
    free(c->agree);
    hp_membership_close(&c->membership);
    free(c);
}
