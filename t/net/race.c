/* SPDX-License-Identifier: MIT */
/* race: which of several addresses wins, and what is said when none does. Bounds of time are lower ones alone. */
#include "net/race.h"

#include "base/clock.h"
#include "net/acceptor.h"
#include "net/socket.h"
#include "t/tap/tap.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HOUSES = 2 };

/* One who listens at an address and is a rank. */
typedef struct house {
    hp_acceptor *acceptor;
    uint32_t rank;
    int late; /* so many are told to dial again */
    int asked;
    hp_addr addr;
} house;

static hp_loop *loop;
static hp_keys keys;
static house houses[HOUSES];
static int done;
static hp_dial_result got;

static const hp_keys *
on_keys(void *arg, const uint8_t job_id[HP_JOB_ID_BYTES])
{
    return &keys;
}

static int
on_policy(void *arg, const hp_hello *hello, hp_handshake_policy *policy)
{
    house *h = arg;
    h->asked++;
    *policy = (hp_handshake_policy){.my_rank = h->rank, .world = 8, .role = HP_ROLE_DATA};
    return 1;
}

static hp_status
on_judge(void *arg, const hp_hello *hello, const hp_addr *peer, uint32_t *assigned)
{
    house *h = arg;
    *assigned = hello->my_rank;
    return h->late-- > 0 ? HP_LATE : HP_OK;
}

static void
on_enter(void *arg, int fd, const hp_hello *hello, uint64_t features, const hp_addr *peer)
{
    hp_socket_close(fd);
}

static void
open_house(int i, uint32_t rank, int late)
{
    house *h = &houses[i];
    hp_acceptor_owner owner = {.arg = h, .keys = on_keys, .policy = on_policy, .judge = on_judge, .enter = on_enter};
    hp_addr at;
    hoop_error error;
    *h = (house){.rank = rank, .late = late};
    hp_addr_parse(&at, "127.0.0.1:0", NULL);
    h->acceptor = hp_acceptor_new(loop, &at, NULL, NULL, &owner, 8, &error);
    if (!h->acceptor)
        bail("%s", error.text);
    h->addr = *hp_acceptor_addr(h->acceptor);
}

static void
close_houses(void)
{
    for (int i = 0; i < HOUSES; i++)
        hp_acceptor_free(houses[i].acceptor);
    memset(houses, 0, sizeof(houses));
}

static void
on_dialled(void *arg, const hp_dial_result *result)
{
    done++;
    got = *result;
}

static hp_race *
start(const hp_addr *first, const hp_addr *second, int limit_s)
{
    hp_addr_list to = {.n = 2, .addr = {*first, *second}};
    hp_hello hello = {.comm = 5, .my_rank = 3, .your_rank = 4, .world = 8, .role = HP_ROLE_DATA};
    memcpy(hello.job_id, keys.job_id, HP_JOB_ID_BYTES);
    hello.ver_min = hello.ver_max = HP_WIRE_MAX;
    done = 0;
    return hp_race_new(loop, &to,
                       &(hp_dial_options){.what = "rank 4 (node3)",
                                          .keys = &keys,
                                          .hello = hello,
                                          .deadline = hp_now() + (uint64_t)limit_s * HP_SEC,
                                          .fn = on_dialled});
}

/* Returns how long it took. */
static uint64_t
end(hp_race *race)
{
    uint64_t began = hp_now();
    for (tap_wait w = {0}; !done && tap_waits(&w);)
        hp_loop_run(loop, 10 * HP_MS);
    uint64_t took = hp_now() - began;
    hp_race_free(race);
    if (done && got.fd >= 0)
        hp_socket_close(got.fd);
    return took;
}

static void
wins(const hp_addr *first, const hp_addr *second, const hp_addr *winner, uint64_t least, const char *text)
{
    char want[HP_ADDR_TEXT], at[HP_ADDR_TEXT];
    uint64_t took = end(start(first, second, 60));
    is_int(1, done, "%s: one answer", text);
    ok(got.fd >= 0 && took >= least, "%s: proven after %.2f s%s%s", text, (double)took / 1e9, got.fd < 0 ? ": " : "",
       got.fd < 0 ? got.error.text : "");
    is_string(hp_addr_print(winner, want), hp_addr_print(&got.to, at), "%s: the winner", text);
}

/* An address that refuses, until the test ends: a socket has it, so that nobody else gets it, and does not listen. */
static hp_addr
refuses(int *fd)
{
    const struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    hp_addr at;
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd < 0 || bind(*fd, (const struct sockaddr *)&any, sizeof(any)) != 0)
        bail("no socket");
    hp_sock_name(*fd, &at, NULL);
    return at;
}

static hp_addr
nobody(void)
{
    int fd;
    return refuses(&fd);
}

/* A listener that never accepts; `full`: and has no room in its queue, so that connection requests are not answered. */
static hp_addr
mute(int *listener, int full[4])
{
    hp_addr at;
    hp_addr_parse(&at, "127.0.0.1:0", NULL);
    *listener = hp_sock_listen(&at, full ? 0 : 8, NULL);
    hp_sock_name(*listener, &at, NULL);
    for (int i = 0; full && i < 4; i++)
        full[i] = hp_sock_connect(&at, NULL, NULL, NULL);
    return at;
}

static void
test_starts(void)
{
    is_uint(1250 * HP_MS, hp_race_next(1000 * HP_MS, HP_DIAL_ASKING), "a host that is not heard: 250 ms");
    is_uint(3000 * HP_MS, hp_race_next(1000 * HP_MS, HP_DIAL_GREETING), "one that accepts: 2 s");
    is_uint(HP_NEVER, hp_race_next(1000 * HP_MS, HP_DIAL_MET), "the peer itself: no other address is dialled");
    is_uint(1000 * HP_MS, hp_race_next(1000 * HP_MS, HP_DIAL_FAILED), "one that has failed: at once");
}

static void
test_winners(void)
{
    hp_addr none = nobody();
    open_house(0, 4, 0);
    open_house(1, 4, 0);
    wins(&houses[0].addr, &houses[1].addr, &houses[0].addr, 0, "two good addresses");
    is_int(0, houses[1].asked, "the second one is not asked");
    wins(&none, &houses[1].addr, &houses[1].addr, 0, "the first one refuses connections");
    close_houses();
    open_house(0, 7, 0);
    open_house(1, 4, 0);
    wins(&houses[0].addr, &houses[1].addr, &houses[1].addr, 0, "the first one is another rank");
    wins(&houses[1].addr, &houses[0].addr, &houses[1].addr, 0, "the second one is another rank");
    close_houses();
}

static void
test_late(void)
{
    open_house(0, 4, 5);
    open_house(1, 7, 0);
    wins(&houses[0].addr, &houses[1].addr, &houses[0].addr, 0, "the peer is late");
    is_int(0, houses[1].asked, "then no other address is asked");
    close_houses();
}

static void
test_silence(void)
{
    int listener, full[4];
    open_house(1, 4, 0);
    hp_addr silent = mute(&listener, NULL);
    wins(&silent, &houses[1].addr, &houses[1].addr, 1900 * HP_MS, "the first one accepts and says nothing");
    hp_socket_close(listener);
    hp_addr hole = mute(&listener, full);
    wins(&hole, &houses[1].addr, &houses[1].addr, 240 * HP_MS, "the first one is not heard");
    hp_race *race = start(&hole, &hole, 60);
    for (uint64_t until = hp_now() + HP_SEC; hp_now() < until;)
        hp_loop_run(loop, 10 * HP_MS);
    hoop_error error = {.text = ""};
    char where[HP_ADDR_TEXT], wanted[256];
    hp_addr_print(&hole, where);
    snprintf(wanted, sizeof(wanted), "%s: no answer to the connection request; %s: no answer to the connection request",
             where, where);
    is_int(1, hp_race_explain(race, &error), "what is waited for can be said");
    is_string(wanted, error.text, "in words");
    ok(hp_race_silent_since(race) && !hp_race_absent_since(race), "both are silent, and that is no absence");
    hp_race_free(race);
    for (int i = 0; i < 4; i++)
        hp_socket_close(full[i]);
    hp_socket_close(listener);
    close_houses();
}

/* One that refuses, and then accepts and says nothing yet. */
static void
test_absence(void)
{
    int listener;
    hp_addr at = refuses(&listener);
    hp_race *race = start(&at, &at, 60);
    for (tap_wait w = {0}; !hp_race_absent_since(race) && tap_waits(&w);)
        hp_loop_run(loop, 10 * HP_MS);
    ok(hp_race_absent_since(race) != 0, "where nobody listens the peer is absent");
    int listens = listen(listener, 16) == 0;
    struct pollfd comes = {.fd = listener, .events = POLLIN};
    for (tap_wait w = {0}; poll(&comes, 1, 0) == 0 && tap_waits(&w);)
        hp_loop_run(loop, 10 * HP_MS);
    for (int i = 0; i < 50; i++)
        hp_loop_run(loop, 0);
    ok(listens && !hp_race_absent_since(race), "and where somebody does, it is not, also before it has answered");
    hp_race_free(race);
    hp_socket_close(listener);
}

static void
test_losers(void)
{
    hp_addr none = nobody();
    char other[HP_ADDR_TEXT];
    open_house(0, 7, 0);
    end(start(&houses[0].addr, &none, 60));
    hp_addr_print(&none, other);
    ok(done == 1 && got.fd < 0 && got.error.rank == 4, "both fail");
    ok(strstr(got.error.text, "a CHALLENGE from another rank than the one that was dialled") &&
           strstr(got.error.text, "; and at ") && strstr(got.error.text, other),
       "the sentence of the first one, and the answer of the other: %s", got.error.text);
    hp_race *race = start(&none, &none, 60);
    hp_loop_run(loop, 10 * HP_MS);
    hp_race_free(race);
    is_int(0, done, "a race that is freed says nothing");
    close_houses();
}

static void
play(int scene)
{
    static void (*const tests[])(void) = {test_starts,  test_winners, test_late,
                                          test_silence, test_absence, test_losers};
    loop = hp_loop_new();
    tests[scene]();
    hp_loop_free(loop);
}

int
main(void)
{
    static const uint8_t secret[HP_SECRET] = {1}, job_id[HP_JOB_ID_BYTES] = {2};
    plan(4 + 17 + 9 + 2 + 3);
    if (hp_keys_derive(&keys, secret, job_id, HP_MODE_AUTH, NULL) != HOOP_SUCCESS)
        bail("no keys");
    tap_scenes(6, play);
    return 0;
}
