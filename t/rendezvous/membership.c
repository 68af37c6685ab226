/* SPDX-License-Identifier: MIT */
/*
 * membership: what a rank takes from a control connection that is closed in order. Without a proxy it is the end of the
 * server; with one it is none, and neither is a proxy that refuses or closes while the rank dials again.
 */
#include "rendezvous/membership.h"

#include "base/clock.h"
#include "base/err.h"
#include "t/tap/tap.h"

#include <errno.h>
#include <string.h>

static const uint64_t NOW = 1000 * HP_SEC;

static hp_frame_type last_sent;

static int
send_nothing(void *arg, hp_frame_type type, const void *payload, size_t n)
{
    last_sent = type;
    return 1;
}

static size_t
queue_nothing(void *arg)
{
    return 0;
}

/* Of a ring of two that is up, or being linked, whose connection is then closed in order. */
static hp_membership
closed(int proxied, hp_client_state state)
{
    static const hp_outlet outlet = {.send = send_nothing, .queued = queue_nothing};
    const hp_client_options options = {.size = 2, .proxied = proxied, .deadline = NOW + 60 * HP_SEC, .agree = ""};
    hp_membership m;
    hoop_error orderly;
    hp_err_clear(&orderly);
    hp_membership_open(&m, &options, &outlet, NOW);
    m.state = state;
    m.line = HP_LINE_UP;
    m.ring.size = 2;
    if (state == HP_CLIENT_LEFT) {
        m.state = HP_CLIENT_GO;
        hp_membership_leave(&m, 1);
    }
    hp_membership_closed(&m, &orderly, NOW);
    return m;
}

/* It dials, in vain. Returns whether it is still away, as it was before. */
static int
dials(hp_membership *m, hoop_result code, int number)
{
    hp_dial_result result = {.fd = -1};
    uint64_t deadline;
    hp_err_set(&result.error, code, "nobody");
    result.error.sys_errno = number;
    hp_membership_return(m, 1, 1, NOW);
    if (!hp_membership_wants_dial(m, NOW))
        return 0;
    hp_membership_dial(m, NOW, &deadline);
    hp_membership_dialled(m, &result, NOW + HP_RETURN_MS * HP_MS);
    return m->state == HP_CLIENT_GO && hp_membership_is_away(m);
}

/* A communicator gets its name while the server is dead. */
static void
names(void)
{
    hp_membership m = closed(0, HP_CLIENT_GO);
    ok(!hp_membership_name(&m, 0, "trainer"), "a server that does not come back needs no names");
    m.comes_back = 1;
    ok(hp_membership_name(&m, 0, "trainer") && hp_membership_name(&m, 1, "gradients"), "one that does");
    ok(m.resend.named && strcmp(m.resend.name, "trainer") == 0 && m.resend.call_names.count == 1, "gets them then");
}

/* Its connection is reset two minutes after it has joined, and its bring-up had one. */
static void
newcomer(void)
{
    static const hp_outlet outlet = {.send = send_nothing, .queued = queue_nothing};
    const hp_client_options options = {.rank = -1, .size = 1, .grow = 1, .deadline = NOW + 60 * HP_SEC, .agree = ""};
    const hp_dial_result connected = {.fd = 5};
    const uint64_t later = NOW + 120 * HP_SEC;
    hp_membership m;
    hoop_error reset;
    uint64_t deadline, again;
    hp_membership_open(&m, &options, &outlet, NOW);
    hp_membership_dial(&m, NOW, &deadline);
    is_uint(NOW + 60 * HP_SEC, deadline, "a newcomer dials until its bring-up is over");
    hp_membership_dialled(&m, &connected, NOW);
    hp_err_sys(&reset, HOOP_ERR_SYSTEM, ECONNRESET, "reset");
    hp_membership_closed(&m, &reset, later);
    again = m.dial_at;
    ok(hp_membership_wants_dial(&m, again) && again < later + HP_SEC, "when it has waited for longer it dials again");
    hp_membership_dial(&m, again, &deadline);
    is_uint(again + 60 * HP_SEC, deadline, "for as long as at first");
}

int
main(void)
{
    tap_limit(60);
    plan_lazy();
    hp_membership m = closed(0, HP_CLIENT_GO);
    is_int(HP_CLIENT_GONE, m.state, "an orderly close is the end of the server");
    m = closed(1, HP_CLIENT_GO);
    ok(hp_membership_is_away(&m) && !hp_membership_has_server(&m, NOW), "behind a proxy the rank is away");
    ok(dials(&m, HOOP_ERR_AUTH, 0), "and stays so while the proxy closes");
    ok(dials(&m, HOOP_ERR_RENDEZVOUS, ECONNREFUSED), "or refuses");
    ok(dials(&m, HOOP_ERR_RENDEZVOUS, 0), "or says nothing");
    hp_membership_leave(&m, 1);
    ok(!hp_membership_is_leaving(&m), "it leaves without a word");
    m = closed(1, HP_CLIENT_GO);
    hp_member members[2] = {{.rank = 0}, {.rank = 1}};
    int order[2] = {0, 1};
    m.ring.members = members;
    m.ring.order = order;
    hp_membership_return(&m, 1, 1, NOW);
    hp_dial_result connected = {.fd = 5};
    uint64_t deadline;
    hp_membership_dial(&m, NOW, &deadline);
    hp_membership_dialled(&m, &connected, NOW);
    is_int(HP_JOIN, last_sent, "it is connected, and says who it is");
    hp_membership_leave(&m, 1);
    ok(last_sent == HP_LEAVE && !m.away, "it leaves without awaiting the answer, and says so");
    m = closed(1, HP_CLIENT_READY);
    ok(m.state == HP_CLIENT_READY && hp_membership_wants_dial(&m, NOW), "while the ring is linked it dials at once");
    m = closed(0, HP_CLIENT_READY);
    is_int(HP_CLIENT_FAILED, m.state, "without a proxy that fails");
    m = closed(1, HP_CLIENT_LEFT);
    ok(!hp_membership_is_leaving(&m), "after LEAVE the close is the server's answer");
    newcomer();
    names();
    return tap_failures() != 0;
}
