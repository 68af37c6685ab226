/* SPDX-License-Identifier: MIT */
/*
 * listener: seats of several communicators at one acceptor: which seat gets a candidate, whichever communicator is
 * driven; which candidates are told to come again, and which are refused; when there are two acceptors. The seats have
 * no communicators here, and their drivers are this test's loops.
 */
#include "lib/listener.h"

#include "base/clock.h"
#include "lib/links.h"
#include "net/dial.h"
#include "net/sock.h"
#include "t/tap/tap.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { RANKS = 8, LATER = 600 };

static hp_listener_options options = {.rank = -1};
static hp_keys keys, others; /* of one job, with different secrets */

static void
make_keys(hp_keys *made, uint8_t first)
{
    uint8_t secret[HP_SECRET] = {first}, job_id[HP_JOB_ID_BYTES] = {7};
    if (hp_keys_derive(made, secret, job_id, HP_MODE_AUTH, NULL) != HOOP_SUCCESS)
        bail("no keys");
}

/* A communicator as far as the listener knows it. */
typedef struct member {
    hp_listener_entry entry;
    hp_loop *loop;
} member;

static void
sit(member *m, const hp_keys *its)
{
    hoop_error error;
    *m = (member){.loop = hp_loop_new()};
    if (!m->loop || hp_listener_join(&m->entry, &options, m->loop, its, RANKS, &error) != HOOP_SUCCESS)
        bail("no seat: %s", error.text);
}

static void
rise(member *m)
{
    hp_listener_leave(&m->entry);
    hp_loop_free(m->loop);
}

/* The user has chosen no address, and interfaces come and go. One port is enough. */
static void
test_interfaces(void)
{
    for (int first = 0; first < 2; first++) {
        member early, late;
        options.automatic = 1;
        options.all = first;
        sit(&early, &keys);
        options.all = !first;
        sit(&late, &keys);
        is_int(hp_addr_port(&early.entry.addr), hp_addr_port(&late.entry.addr), "an interface %s: the listener stays",
               first ? "goes" : "comes");
        is_int(first, hp_listener_is_everywhere(&late.entry), "and listens where it did");
        options.all = options.automatic = 0;
        member chosen;
        sit(&chosen, &keys);
        ok(hp_addr_port(&chosen.entry.addr) != hp_addr_port(&early.entry.addr), "an address of the user's has its own");
        rise(&early);
        rise(&late);
        rise(&chosen);
    }
}

/* The side that dials, in a loop of its own. */
typedef struct outside {
    hp_loop *loop;
    hp_dial *dial;
    int done;
    hp_dial_result result;
} outside;

static void
on_dialled(void *arg, const hp_dial_result *result)
{
    outside *o = arg;
    o->done = 1;
    o->result = *result;
}

static uint16_t stripe; /* of who dials next */

static hp_hello
greeting(uint64_t comm, uint32_t from, uint32_t to)
{
    hp_hello hello = {.comm = comm, .my_rank = from, .your_rank = to, .world = RANKS, .role = HP_ROLE_DATA};
    memcpy(hello.job_id, keys.job_id, HP_JOB_ID_BYTES);
    hello.mode = HP_MODE_AUTH;
    hello.stripe = stripe;
    hello.ver_min = HP_WIRE_MIN;
    hello.ver_max = HP_WIRE_MAX;
    return hello;
}

static void
dial(outside *o, const member *m, uint64_t comm, uint32_t from, uint32_t to)
{
    hp_hello hello = greeting(comm, from, to);
    *o = (outside){.loop = hp_loop_new(), .result.fd = -1};
    o->dial = hp_dial_new(o->loop, &m->entry.addr,
                          &(hp_dial_options){.what = "rank",
                                             .keys = m->entry.keys,
                                             .hello = hello,
                                             .deadline = hp_now() + 20 * HP_SEC,
                                             .fn = on_dialled,
                                             .arg = o});
}

static void
hang_up(outside *o)
{
    if (o->result.fd >= 0)
        close(o->result.fd);
    hp_dial_free(o->dial);
    hp_loop_free(o->loop);
}

#define SOON (60 * HP_SEC) /* so long as nothing that is awaited takes on any machine */

/* Runs the dial and one member's loop, until the dial is done, that member or `other` has a caller, or time is up. */
static void
run(outside *o, member *driven, const member *other, uint64_t ns)
{
    for (uint64_t end = hp_now() + ns; !o->done && !hp_listener_has_events(&other->entry) && hp_now() < end;) {
        hp_loop_run(o->loop, HP_MS);
        hp_loop_run(driven->loop, HP_MS);
    }
}

/* The one caller that waits at a seat; NULL: none does. */
static hp_candidate *
only_candidate(member *m)
{
    int number = 0;
    hp_candidate *candidate = hp_listener_next(&m->entry, &number), *more = hp_listener_next(&m->entry, &number);
    if (more)
        bail("two callers");
    return candidate;
}

/* --- what is tried --- */

static void
test_hand_over(void)
{
    member a, b;
    outside o;
    sit(&a, &keys);
    sit(&b, &keys);
    ok(hp_addr_port(&a.entry.addr) == hp_addr_port(&b.entry.addr), "two communicators, one port");
    hp_listener_name(&a.entry, 100, 2, 0, RANKS);
    hp_listener_name(&b.entry, 200, 5, 0, RANKS);
    dial(&o, &a, 200, 1, 5);
    run(&o, &a, &b, SOON);
    ok(hp_listener_has_events(&b.entry) && !hp_listener_has_events(&a.entry),
       "the driver of one accepts a candidate of the other");
    is_int(0, o.done, "the last message is not said yet");
    uint64_t begin = hp_now();
    hp_loop_run(b.loop, SOON);
    ok(hp_now() - begin < SOON, "the other's driver is woken");
    hp_candidate *candidate = only_candidate(&b);
    ok(candidate && candidate->handshake.hello.comm == 200 && candidate->handshake.hello.my_rank == 1,
       "its driver gets the HELLO");
    int fd = hp_candidate_answer(candidate, HP_OK, 1);
    run(&o, &a, &b, SOON);
    ok(fd >= 0 && o.result.fd >= 0, "and lets it in");
    close(fd);
    hang_up(&o);
    rise(&a);
    rise(&b);
}

static void
test_not_yet(void)
{
    member a, b;
    outside o, wrong;
    sit(&a, &keys);
    sit(&b, &keys);
    hp_listener_name(&a.entry, 100, 2, 0, RANKS);
    dial(&o, &b, 200, 1, 5);
    run(&o, &a, &b, 300 * HP_MS);
    ok(!o.done, "while a communicator is not named yet, a candidate for an unknown one is told to come again");
    hp_listener_name(&b.entry, 200, 5, 0, RANKS);
    run(&o, &a, &b, SOON);
    hp_candidate *candidate = only_candidate(&b);
    ok(candidate != NULL, "and comes, and is known then");
    if (candidate)
        hp_candidate_free(candidate);
    dial(&wrong, &a, 300, 1, 5);
    run(&wrong, &a, &b, SOON);
    ok(wrong.done && wrong.result.status == HP_BAD_COMM, "when all are known, an unknown one is refused");
    hang_up(&wrong);
    rise(&b);
    for (uint64_t comm = 1000; comm < 1000 + LATER; comm++) {
        sit(&b, &keys);
        hp_listener_name(&b.entry, comm, 5, 0, RANKS);
        rise(&b);
    }
    dial(&wrong, &a, 200, 1, 5);
    run(&wrong, &a, &a, 500 * HP_MS);
    ok(!wrong.done, "one that has left is not, %d communicators ago: what its ring is told counts", LATER);
    hang_up(&wrong);
    hang_up(&o);
    rise(&a);
}

/* The program of the driver computes; the other rank gives up and dials again. */
static void
test_again(void)
{
    member a, b;
    outside o[3];
    sit(&a, &keys);
    sit(&b, &keys);
    hp_listener_name(&a.entry, 100, 2, 0, RANKS);
    hp_listener_name(&b.entry, 200, 5, 0, RANKS);
    for (int i = 0; i < 3; i++) {
        dial(&o[i], &a, 200, 1, 5);
        for (int k = 0; k < 20; k++) {
            hp_loop_run(o[i].loop, HP_MS);
            hp_loop_run(a.loop, HP_MS);
        }
    }
    hp_candidate *candidate = only_candidate(&b);
    ok(candidate && !hp_candidate_is_stale(candidate), "of three that dialled for one place the last one waits");
    candidate->incoming.deadline -= 100 * HP_SEC;
    ok(!hp_candidate_is_stale(candidate), "also at an acceptor whose clock has lost some time");
    candidate->greeted -= 4 * HP_SEC;
    ok(hp_candidate_is_stale(candidate), "but no longer than the other side has patience");
    candidate->greeted += 4 * HP_SEC;
    hang_up(&o[2]);
    ok(candidate && hp_candidate_is_stale(candidate), "and whether it still does can be seen");
    hp_candidate_free(candidate);
    hang_up(&o[0]);
    hang_up(&o[1]);
    rise(&a);
    rise(&b);
}

/* A rank in error asks for more connections than a rank can have; the program computes. */
static void
test_greedy(void)
{
    enum { EACH = 2 };
    member a;
    outside o[EACH + 1], other;
    int number, waiting = 0;
    options.per_rank = EACH;
    sit(&a, &keys);
    options.per_rank = 0;
    hp_listener_name(&a.entry, 200, 5, 0, RANKS);
    for (stripe = 0; stripe <= EACH; stripe++)
        dial(&o[stripe], &a, 200, 1, 5);
    stripe = 0;
    dial(&other, &a, 200, 2, 5);
    for (uint64_t end = hp_now() + 20 * HP_SEC; !o[EACH].done && hp_now() < end; hp_loop_run(a.loop, HP_MS)) {
        for (int i = 0; i <= EACH; i++)
            hp_loop_run(o[i].loop, 0);
        hp_loop_run(other.loop, 0);
    }
    ok(o[EACH].result.status == HP_FULL && !o[0].done && !o[1].done && !other.done,
       "a rank that has its connections gets no more, and the others wait on: %s", o[EACH].result.error.text);
    for (hp_candidate *candidate; (candidate = hp_listener_next(&a.entry, &number)); hp_candidate_free(candidate))
        waiting++;
    is_int(EACH + 1, waiting, "and so many wait");
    for (int i = 0; i <= EACH; i++)
        hang_up(&o[i]);
    hang_up(&other);
    rise(&a);
}

/* A greeting that was answered before the roster was here: what the rank promised then was what it was asked for. */
static void
test_mistaken(uint32_t from, uint32_t to, uint32_t epoch, hp_status status, const char *what)
{
    static const uint8_t nonce[32] = {3};
    uint8_t m2[HP_M2], m4[HP_M4];
    hoop_comm comm = {.id = 200, .rank = 5, .size = RANKS, .epoch = 1, .channels = 1};
    member a;
    hp_handshake handshake;
    hp_hello hello = greeting(200, from, to);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sit(&a, &keys);
    hello.epoch = epoch;
    hp_handshake_start(&handshake, &keys, &hello, nonce, HP_NEVER);
    if (connect(fd, &a.entry.addr.u.any, a.entry.addr.length) != 0 || send(fd, handshake.m1, HP_M1, 0) != HP_M1)
        bail("no connection");
    hp_handshake_wrote(&handshake, HP_M1);
    for (int k = 0; k < 20; k++)
        hp_loop_run(a.loop, HP_MS);
    if (recv(fd, m2, sizeof(m2), MSG_DONTWAIT) == HP_M2)
        hp_handshake_feed(&handshake, m2, HP_M2, 0);
    is_int(HP_HANDSHAKE_WELCOME, handshake.state, "%s: before the roster, it is challenged", what);
    hp_listener_name(&a.entry, comm.id, comm.rank, comm.epoch, comm.size);
    if (send(fd, handshake.m3, HP_M3, MSG_NOSIGNAL) != HP_M3)
        bail("no connection any more");
    hp_handshake_wrote(&handshake, HP_M3);
    for (int k = 0; k < 20; k++)
        hp_loop_run(a.loop, HP_MS);
    hp_candidate *candidate = only_candidate(&a);
    ok(candidate != NULL, "%s: and proven", what);
    hp_status said = candidate ? hp_links_judge(&comm, &candidate->handshake.hello) : HP_OK;
    if (candidate)
        hp_candidate_answer(candidate, said, from);
    if (recv(fd, m4, sizeof(m4), MSG_DONTWAIT) == HP_M4)
        hp_handshake_feed(&handshake, m4, HP_M4, 0);
    ok(said == status && handshake.state == HP_HANDSHAKE_REFUSED && handshake.status == status, "%s: %s", what,
       handshake.why);
    close(fd);
    rise(&a);
}

/* No thread drives a communicator that has failed. */
static void
test_failed(void)
{
    member a;
    outside o, late;
    sit(&a, &keys);
    hp_listener_name(&a.entry, 200, 5, 0, RANKS);
    dial(&o, &a, 200, 1, 5);
    run(&o, &a, &a, SOON);
    ok(hp_listener_has_events(&a.entry) && !o.done, "one waits for the last message");
    hp_listener_retire(&a.entry);
    dial(&late, &a, 200, 2, 5);
    for (int k = 0; k < 100; k++) {
        hp_loop_run(late.loop, HP_MS);
        hp_loop_run(o.loop, HP_MS);
        hp_loop_run(a.loop, HP_MS);
    }
    int number;
    ok(!hp_listener_next(&a.entry, &number), "no candidate waits for a communicator that has failed, old or new");
    ok(!late.done && !o.done, "a candidate is told to come again");
    hang_up(&o);
    hang_up(&late);
    rise(&a);
}

/* What an ordinary user may not have, whichever user runs this test. */
int
bind(int fd, const struct sockaddr *addr, socklen_t length)
{
    int port = addr->sa_family == AF_INET ? ntohs(((const struct sockaddr_in *)(const void *)addr)->sin_port) : 0;
    if (port > 0 && port < 1024) {
        errno = EACCES;
        return -1;
    }
    return (int)syscall(SYS_bind, fd, addr, length);
}

static void
test_low_ports(void)
{
    const hp_ports mixed = {.first = 1000, .last = 1200}, low = {.first = 1000, .last = 1001};
    hoop_error error;
    int fd = hp_ports_listen(&mixed, &options.local, 1, &error);
    ok(fd >= 0, "ports that are not for this user are passed over");
    close(fd);
    ok(hp_ports_listen(&low, &options.local, 1, &error) < 0 && error.sys_errno == EACCES &&
           strstr(error.text, "not allowed to listen on any port of HOOP_PORT_RANGE=1000-1001: use ports above 1023"),
       "%s", error.text);
}

static void
test_acceptors(void)
{
    member a, b, c;
    hoop_error error;
    hp_ports one;
    sit(&a, &keys);
    sit(&b, &others);
    ok(hp_addr_port(&a.entry.addr) != hp_addr_port(&b.entry.addr),
       "a job of the same name with another secret has an acceptor of its own");
    rise(&b);
    hp_listener_options before = options;
    options.ports = one = (hp_ports){.first = hp_addr_port(&a.entry.addr), .last = hp_addr_port(&a.entry.addr)};
    c = (member){.loop = hp_loop_new()};
    ok(hp_listener_join(&c.entry, &options, c.loop, &keys, RANKS, &error) == HOOP_ERR_SYSTEM,
       "a range that is used up");
    char range[64];
    snprintf(range, sizeof(range), "HOOP_PORT_RANGE=%u-%u", one.first, one.last);
    ok(strstr(error.text, range) != NULL, "%s", error.text);
    rise(&a);
    ok(hp_listener_join(&c.entry, &options, c.loop, &keys, RANKS, &error) == HOOP_SUCCESS,
       "the last one closes the acceptor");
    is_int(one.first, hp_addr_port(&c.entry.addr), "and its port is free again");
    rise(&c);
    options = before;
}

static void
test_ranges(void)
{
    static const struct {
        const char *text;
        int first, last; /* 0: refused */
    } rows[] = {
        {"", 0, 0}, {"5800-5900", 5800, 5900}, {"5800", 5800, 5800}, {"1-65535", 1, 65535}, {"5800-5800", 5800, 5800}};
    static const char *const wrong[] = {"5900-5800", "0-5",        "5800-", "-5", "5800-70000",
                                        "a",         "5800-5900x", "5800 ", " 5", "1-99999999999999999999"};
    hp_ports ports;
    hoop_error error;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        ok(hp_ports_parse(&ports, rows[i].text, &error) == HOOP_SUCCESS && ports.first == rows[i].first &&
               ports.last == rows[i].last,
           "\"%s\" is a range", rows[i].text);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        ok(hp_ports_parse(&ports, wrong[i], &error) == HOOP_ERR_INVALID_ARGUMENT &&
               strstr(error.text, "such as 5800-5900"),
           "\"%s\" is none", wrong[i]);
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    make_keys(&keys, 1);
    make_keys(&others, 2);
    if (hp_addr_parse(&options.local, "127.0.0.1:0", NULL) != HOOP_SUCCESS)
        bail("no address");
    test_interfaces();
    test_hand_over();
    test_not_yet();
    test_again();
    test_greedy();
    test_mistaken(1, 2, 1, HP_BAD_RANK, "a rank that was led to another one");
    test_mistaken(5, 2, 1, HP_BAD_RANK, "a rank that says it is this one");
    test_mistaken(1, 5, 0, HP_BAD_EPOCH, "a rank of another epoch");
    test_failed();
    test_low_ports();
    test_acceptors();
    test_ranges();
    return 0;
}
