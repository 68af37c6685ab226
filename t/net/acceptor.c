/* SPDX-License-Identifier: MIT */
/*
 * acceptor: genuine ranks get in, others are refused or closed with the right line in the log, and the owner may free
 * the acceptor anywhere. Loopback sockets only. acceptor_attack.c has what pending connections do to it.
 */
#include "net/acceptor.h"

#include "base/clock.h"
#include "base/log.h"
#include "net/socket.h"
#include "t/net/test_acceptor.h"
#include "t/tap/tap.h"
#include "t/tools/descriptors.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void
test_genuine(const char *where)
{
    struct house house;
    struct candidate candidate;
    char byte = 0, text[HP_ADDR_TEXT];
    if (!build(&house, where)) {
        skip(1, "%s cannot be used here: ip link set lo up, or sysctl net.ipv6.conf.lo.disable_ipv6=0", where);
        hp_loop_free(house.loop);
        return;
    }
    hp_hello hello = greeting(&house);
    hp_dial *dial = call(&house, &candidate, &house.keys, &hello);
    is_int(0, candidate.done, "%s: nothing is called before the loop runs",
           hp_addr_print(hp_acceptor_addr(house.acceptor), text));
    ok(settle(&house, &candidate.done, 1) && candidate.result.fd >= 3, "the dial ends with a descriptor");
    ok(settle(&house, &house.entered, 1) && house.fd >= 3, "and so does the acceptor");
    is_int(1, house.judged, "judged once");
    is_uint(0x0f, candidate.result.features, "both know the features of both: the dialler");
    is_uint(0x0f, house.features, "and the acceptor");
    is_uint(103, candidate.result.assigned_rank, "the assigned rank");
    ok(house.hello.my_rank == 3 && house.hello.channel == 2 && house.hello.stripe == 1 && house.hello.comm == 5,
       "the owner sees the whole greeting");
    ok(hp_addr_same_host(&house.peer, hp_acceptor_addr(house.acceptor)), "and the peer's address");
    ok(write(house.fd, "d", 1) == 1 && write(candidate.result.fd, "u", 1) == 1, "they write");
    run_for(&house, 5 * HP_MS);
    ok(read(candidate.result.fd, &byte, 1) == 1 && byte == 'd', "and read, down");
    ok(read(house.fd, &byte, 1) == 1 && byte == 'u', "and up");
    close(candidate.result.fd);
    hp_dial_free(dial);
    raze(&house);
}

/* M3 and the owner's first bytes in one packet: the acceptor must leave the latter where they are. */
static void
test_what_follows(void)
{
    struct house house;
    uint8_t packet[HP_M3 + 5], m2[HP_M2], nonce[32] = {9};
    char bytes[16];
    hp_handshake handshake;
    build(&house, "127.0.0.1:0");
    hp_hello hello = greeting(&house);
    hp_handshake_start(&handshake, &house.keys, &hello, nonce, HP_NEVER);
    int fd = visit(&house, handshake.m1, HP_M1);
    hp_handshake_wrote(&handshake, HP_M1);
    run_for(&house, 20 * HP_MS);
    is_int(HP_M2, recv(fd, m2, sizeof(m2), MSG_WAITALL), "a challenge");
    is_int(HP_HANDSHAKE_WELCOME, hp_handshake_feed(&handshake, m2, sizeof(m2), 0), "is proven");
    memcpy(packet, handshake.m3, HP_M3);
    memcpy(packet + HP_M3, "after", 5);
    (void)!send(fd, packet, sizeof(packet), MSG_NOSIGNAL);
    ok(settle(&house, &house.entered, 1), "entered");
    ok(recv(house.fd, bytes, sizeof(bytes), 0) == 5 && memcmp(bytes, "after", 5) == 0, "what follows is the owner's");
    close(fd);
    raze(&house);
}

static void
test_log(void)
{
    struct house house;
    hp_keys others;
    struct candidate candidate;
    build(&house, "127.0.0.1:0");
    hp_hello hello = greeting(&house);
    make_keys(&others, 1, 0xa0);
    house_log_lines = 0;
    hp_dial *dial = call(&house, &candidate, &others, &hello);
    ok(settle(&house, &house_log_lines, 1), "a line about a wrong secret");
    hp_dial_free(dial);
    ok(strstr(house_log_text, "closed 127.0.0.1:") && strstr(house_log_text, "its secret is not this job's"), "%s",
       house_log_text);
    make_keys(&others, 0, 0xb0);
    memcpy(hello.job_id, others.job_id, HP_JOB_ID_BYTES);
    house_log_lines = 0;
    dial = call(&house, &candidate, &others, &hello);
    ok(settle(&house, &house_log_lines, 1), "a line about an unknown job");
    hp_dial_free(dial);
    ok(strstr(house_log_text, "it belongs to a job that is unknown here (b0 b1 b2") != NULL, "%s", house_log_text);
    house_log_lines = 0;
    hp_log_level(HP_LOG_INFO);
    int fd = visit(&house, "GET /", 5);
    answer(&house, fd, 30 * HP_SEC);
    hp_log_level(HP_LOG_WARN);
    ok(house_log_lines == 1 && strstr(house_log_text, "it does not speak hoop's protocol (47 45 54 20 2f)"), "%s",
       house_log_text);
    for (int i = 0; i < 300; i++)
        close(visit(&house, "GET /", 5));
    run_for(&house, 20 * HP_MS);
    is_int(1, house_log_lines, "not a line about pending connections unless INFO is asked for");
    close(fd);
    raze(&house);
}

static void
test_refusals(void)
{
    struct house house;
    struct candidate candidate;
    build(&house, "127.0.0.1:0");
    hp_hello hello = greeting(&house);
    house.verdict = HP_DUPLICATE;
    hp_dial *dial = call(&house, &candidate, &house.keys, &hello);
    settle(&house, &candidate.done, 1);
    hp_dial_free(dial);
    ok(candidate.result.fd < 0 && candidate.result.status == HP_DUPLICATE, "the owner's refusal reaches the dialler");
    hello.epoch = 9;
    dial = call(&house, &candidate, &house.keys, &hello);
    settle(&house, &candidate.done, 1);
    hp_dial_free(dial);
    is_int(HP_BAD_EPOCH, candidate.result.status, "and so does the policy's");
    is_int(1, house.judged, "which is not for the owner to judge");
    is_int(0, house.entered, "no connection was handed over");
    raze(&house);
}

/* Brings a raw incoming connection to the moment where its confirmation is on the way. */
static int
confirm(struct house *house)
{
    uint8_t nonce[32] = {7}, m2[HP_M2];
    hp_handshake handshake;
    hp_hello hello = greeting(house);
    hp_handshake_start(&handshake, &house->keys, &hello, nonce, HP_NEVER);
    int fd = visit(house, handshake.m1, HP_M1);
    hp_handshake_wrote(&handshake, HP_M1);
    for (tap_wait w = {0}; tap_waits(&w);) {
        struct pollfd poller = {.fd = fd, .events = POLLIN};
        hp_loop_run(house->loop, HP_MS);
        if (!house->acceptor || poll(&poller, 1, 0) == 1)
            break;
    }
    if (house->acceptor && recv(fd, m2, sizeof(m2), MSG_WAITALL) == HP_M2) {
        hp_handshake_feed(&handshake, m2, sizeof(m2), 0);
        (void)!send(fd, handshake.m3, HP_M3, MSG_NOSIGNAL);
    }
    return fd;
}

static void
test_broken(void)
{
    struct house house;
    uint64_t took;
    build(&house, "127.0.0.1:0");
    house.kill = confirm(&house);
    ok(settle(&house, &house.judged, 1), "a connection is judged well and breaks before its WELCOME");
    run_for(&house, 20 * HP_MS);
    is_int(1, house.judged, "it is judged once");
    is_int(0, house.entered, "it is not handed over");
    house.kill = 0;
    ok(gets_in(&house, &took) && house.entered == 1, "the next one gets in");
    raze(&house);
}

static void
test_free_inside(void)
{
    static const char *const names[] = {"nowhere", "keys", "policy", "judge", "enter"};
    for (enum free_in where = IN_KEYS; where <= IN_ENTER; where++) {
        struct house house;
        build(&house, "127.0.0.1:0");
        hp_addr addr = *hp_acceptor_addr(house.acceptor);
        int bystander = visit(&house, "HOOP", 4);
        run_for(&house, 5 * HP_MS);
        house.free_in = where;
        int fd = confirm(&house);
        for (tap_wait w = {0}; house.acceptor && tap_waits(&w);)
            hp_loop_run(house.loop, 5 * HP_MS);
        ok(!house.acceptor, "the owner may free the acceptor in its function %s", names[where]);
        is_int(where == IN_ENTER, house.entered, "entered");
        char byte;
        struct pollfd poller = {.fd = bystander, .events = POLLIN};
        ok(poll(&poller, 1, 30000) == 1 && recv(bystander, &byte, 1, 0) <= 0,
           "the connections that the acceptor holds are closed");
        ok(!listens_at(hp_addr_port(&addr)), "nobody listens any more");
        close(bystander);
        close(fd);
        raze(&house);
    }
}

static void
test_low(void)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        struct house house;
        uint64_t took;
        alarm(40);
        close_low();
        int in = build(&house, "127.0.0.1:0") && gets_in(&house, &took), good = low_is_closed();
        good &= case_ok(in && house.fd >= 3, "the rank %s, its socket is %d", in ? "is in" : "stays outside", house.fd);
        _exit(!good);
    }
    waitpid(child, &status, 0);
    is_int(0, status, "with 0 to 2 closed, the acceptor and what enters stay above");
}

/* A child takes its copy of everything down; the parent's acceptor and those in it must not notice. */
static void
test_fork(void)
{
    struct house house;
    uint64_t took;
    int status = -1;
    build(&house, "127.0.0.1:0");
    int bystander = visit(&house, "HOOP", 4);
    run_for(&house, 5 * HP_MS);
    pid_t child = fork();
    if (child == 0) {
        raze(&house);
        _exit(0);
    }
    waitpid(child, &status, 0);
    is_int(0, status, "a forked child frees its copy");
    ok(gets_in(&house, &took), "the parent's acceptor is still open");
    is_int(-1, answer(&house, bystander, 50 * HP_MS), "and who was in it still is");
    (void)!send(bystander, "X", 1, MSG_NOSIGNAL);
    is_int(0, answer(&house, bystander, 2 * HP_SEC), "and is heard");
    close(bystander);
    raze(&house);
}

/* A child that lives on lets go of the acceptor: when the parent closes it, whoever is in it hears so. */
static void
test_forked(void)
{
    struct house house;
    uint8_t m1[HP_M1];
    char byte;
    int let_go[2];
    build(&house, "127.0.0.1:0");
    hp_addr addr = *hp_acceptor_addr(house.acceptor);
    make_m1(&house, m1);
    int pending = visit(&house, "HOOP", 4), guest = visit(&house, m1, sizeof(m1));
    run_for(&house, 20 * HP_MS);
    if (pipe(let_go) != 0)
        bail("no pipe");
    pid_t child = fork();
    if (child == 0) {
        alarm(30);
        hp_socket_forked();
        (void)!write(let_go[1], "", 1);
        for (;;)
            pause();
    }
    is_int(1, read(let_go[0], &byte, 1), "a forked child closes its sockets");
    is_int(-1, answer(&house, pending, 50 * HP_MS), "a pending connection stays in the parent's acceptor");
    hp_acceptor_free(house.acceptor);
    house.acceptor = NULL;
    is_int(0, answer(&house, pending, 2 * HP_SEC), "the child does not hold the pending connection");
    ok(answer(&house, guest, 2 * HP_SEC) > 0, "nor a guest's");
    int late = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ok(connect(late, &addr.u.any, addr.length) != 0 && errno == ECONNREFUSED, "nor the listener");
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    int fds[] = {late, pending, guest, let_go[0], let_go[1]};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        close(fds[i]);
    raze(&house);
}

static void
test_port_in_use(void)
{
    struct house house;
    hoop_error error;
    build(&house, "127.0.0.1:0");
    hp_acceptor_owner owner = {0};
    ok(!hp_acceptor_new(house.loop, hp_acceptor_addr(house.acceptor), NULL, NULL, &owner, 0, &error),
       "a port has one acceptor");
    ok(strstr(error.text, "in use by another program") != NULL, "%s", error.text);
    raze(&house);
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    hoop_log_to(house_log, NULL);
    test_genuine("127.0.0.1:0");
    test_genuine("[::1]:0");
    test_what_follows();
    test_log();
    test_refusals();
    test_broken();
    test_free_inside();
    test_low();
    test_fork();
    test_forked();
    test_port_in_use();
    return 0;
}
