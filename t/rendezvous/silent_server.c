/* SPDX-License-Identifier: MIT */
/*
 * silent_server: what a rank makes of a server whose host acknowledges nothing, before GO: after peer_timeout and a moment it
 * asks once more, and fails if there is no answer. The clock and the kernel's answers are the test's.
 */
#include "base/clock.h"
#include "base/err.h"
#include "t/rendezvous/control_sim.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <string.h>

enum { N = 2, START = 1000, AWAY = 30, LIMIT = AWAY + 5, BRINGUP = 3600 };

static control_sim s;
static seat seats[N];

static uint64_t
at(int seconds)
{
    return (uint64_t)(START + seconds) * HP_SEC;
}

/* The memberships of a world, or of a split; nothing is dialled yet. */
static void
start(uint64_t parent)
{
    control_open(&s, 7);
    s.time = s.server_clock = at(0);
    s.slow = 1;
    s.queue = 16 << 10;
    for (int i = 0; i < N; i++) {
        hp_client_options o = {.rank = i, .size = N, .agree = "slice=1\n", .parent_rank = -1, .pid = 800 + (uint32_t)i};
        o.deadline = at(BRINGUP);
        o.sock.peer_timeout = AWAY * HP_SEC;
        o.parent = parent;
        snprintf(o.host, sizeof(o.host), "node%d", i + 1);
        if (hp_addr_parse(&o.server, "10.0.0.9:29400", NULL) || hp_addr_parse(&o.listen, "10.0.0.1:4000", NULL))
            bail("no address");
        seat_open(&s, &seats[i], &o, at(0));
    }
}

static void
finish(void)
{
    for (int i = 0; i < N; i++)
        seat_close(&seats[i], 1);
    control_close(&s);
}

static void
play(hp_client_state until)
{
    for (int turn = 0; turn < 500 && (seats[0].m.state < until || seats[1].m.state < until); turn++) {
        s.time += 10 * HP_MS;
        control_serve(&s, 10 * HP_MS);
        for (int i = 0; i < N; i++) {
            seat_accept(&seats[i]);
            seat_turn(&seats[i], s.time);
            if (seats[i].m.state == HP_CLIENT_ROSTER && until > HP_CLIENT_ROSTER)
                hp_membership_ready(&seats[i].m);
        }
    }
}

/* A look in each second: the host has been silent since second `since`; 0: it acknowledges. */
static int
looks(hp_membership *m, int since, int first, int last)
{
    int asks = 0;
    for (int second = first; second <= last; second++) {
        hp_membership_silence(m, since ? at(since) : 0, at(second));
        asks |= hp_membership_wants_probe(m, at(second));
    }
    return asks;
}

static void
check_silence(const char *where)
{
    hp_membership *m = &seats[0].m;
    hp_client_state before = m->state;
    ok(!looks(m, 100, 100, 100 + LIMIT - 1), "%s: nothing is said before peer_timeout and a moment", where);
    ok(!looks(m, 0, 134, 134) && !looks(m, 135, 135, 135 + LIMIT - 1), "%s: one acknowledgement ends the silence",
       where);
    ok(looks(m, 168, 169, 170), "%s: a broken connection, and another dial, do not", where);
    hp_membership_probed(m, 1, at(171));
    ok(m->state == before && !hp_membership_wants_probe(m, at(171)), "%s: the host answers when it is asked", where);
    ok(looks(m, 172, 173, 172 + LIMIT), "%s: it is silent again", where);
    hp_membership_probed(m, 0, at(172 + LIMIT));
    ok(m->state == HP_CLIENT_FAILED && m->line == HP_LINE_NONE && m->error.code == HOOP_ERR_RENDEZVOUS &&
           strstr(m->error.text, "server at 10.0.0.9:29400 has acknowledged nothing for 35 s") &&
           strstr(m->error.text, "cables, the switches and the firewalls"),
       "%s: %s", where, m->error.text);
}

/*
 * The server's host hears nothing, and still sends again what it has sent: its kernel seems to acknowledge. But its PINGs end. So
 * do those of a server that is stopped, whose kernel answers a probe.
 */
static void
check_pings(void)
{
    hp_membership *m = &seats[0].m;
    hp_control_frame ping = {.type = HP_PING};
    hoop_error error;
    ok(!looks(m, 0, 1, 100), "a server that sends no PINGs in a split is of an older version");
    for (int second = 101; second <= 110; second++)
        if (hp_membership_frame(m, &ping, at(second), &error))
            bail("a PING is refused: %s", error.text);
    ok(!looks(m, 0, 111, 110 + LIMIT - 1) && looks(m, 0, 110 + LIMIT, 110 + LIMIT), "no PING for %d s: it is asked",
       LIMIT);
    hp_membership_probed(m, 1, at(146));
    ok(m->state == HP_CLIENT_JOINING && !looks(m, 0, 147, 146 + LIMIT - 1), "it answers, so it has as long again");
    ok(looks(m, 0, 146 + LIMIT, 146 + LIMIT), "... then it is asked again");
    hp_membership_probed(m, 0, at(146 + LIMIT));
    ok(m->state == HP_CLIENT_FAILED && strstr(m->error.text, "has acknowledged nothing for 35 s"), "no answer: %s",
       m->error.text);
}

int
main(void)
{
    plan_lazy();
    tap_limit(30);
    start(7);
    check_silence("a split that dials");
    finish();
    start(7);
    check_pings();
    finish();
    start(0);
    ok(!looks(&seats[0].m, 1, 1, BRINGUP - 1), "a server that has never answered may start as late as the limit says");
    finish();
    start(0);
    play(HP_CLIENT_ROSTER);
    is_int(HP_CLIENT_ROSTER, seats[0].m.state, "the rank links its ring");
    check_silence("a rank that links its ring");
    finish();
    start(0);
    play(HP_CLIENT_READY);
    check_silence("a rank that awaits the others' links");
    finish();
    start(0);
    play(HP_CLIENT_GO);
    is_int(HP_CLIENT_GO, seats[0].m.state, "the ring is up");
    ok(!looks(&seats[0].m, 100, 101, BRINGUP), "a ring that is up needs no server");
    finish();
    return tap_failures() != 0;
}
