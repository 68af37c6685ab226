/* SPDX-License-Identifier: MIT */
/* dial: when it gets in, and when and why it gives up. The acceptor is real, or a listener that behaves badly. */
#include "net/dial.h"

#include "base/clock.h"
#include "base/log.h"
#include "net/acceptor.h"
#include "net/socket.h"
#include "t/tap/tap.h"
#include "t/tools/descriptors.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MANY = 64, TURNS = 50 };

/* One who calls, and what became of it. */
struct candidate {
    hp_dial *dial;
    uint64_t begun;
    int done, free_inside;
    hp_dial_result result;
};

/* An acceptor and its owner. */
static struct {
    hp_acceptor *acceptor;
    hp_keys keys;
    hp_handshake_policy policy;
    hp_status verdicts[4]; /* of the first, second, ... judged; the last one for all that follow */
    int judged, entered;
    hp_addr peer;
} house;

/* A listener that accepts, reads, perhaps says something, and closes, or does not even accept. */
static struct {
    int fd, accepted, guest;
    const char *says;
    hp_watch *watch, *guest_watch;
    hp_addr addr;
} lout;

static hp_loop *loop;
static hp_keys keys, others;
static char home[24]; /* an address of this scene's own: no other one takes a port that it has closed */

static void
on_dialled(void *arg, const hp_dial_result *result)
{
    struct candidate *candidate = arg;
    candidate->done++;
    candidate->result = *result;
    if (candidate->free_inside) {
        hp_dial_free(candidate->dial);
        candidate->dial = NULL;
    }
}

static hp_hello
greeting(void)
{
    hp_hello hello = {.comm = 5, .my_rank = 3, .your_rank = 4, .world = 8, .role = HP_ROLE_DATA};
    memcpy(hello.job_id, keys.job_id, HP_JOB_ID_BYTES);
    hello.ver_min = hello.ver_max = HP_WIRE_MAX;
    return hello;
}

static void
dial_from(struct candidate *candidate, const hp_addr *to, const hp_addr *from, const hp_hello *hello,
          const hp_keys *with, uint64_t limit)
{
    hp_dial_options options = {
        .what = "rank 4 (node3)", .keys = with, .hello = *hello, .from = *from, .fn = on_dialled, .arg = candidate};
    *candidate = (struct candidate){.begun = hp_now()};
    options.deadline = candidate->begun + limit;
    candidate->dial = hp_dial_new(loop, to, &options);
}

static void
dial(struct candidate *candidate, const hp_addr *to, const hp_hello *hello, const hp_keys *with, uint64_t limit)
{
    dial_from(candidate, to, &(hp_addr){.length = 0}, hello, with, limit);
}

/* Runs until the caller has its answer; returns the time since it dialled. */
static uint64_t
wait_for(const struct candidate *candidate)
{
    for (tap_wait w = {0}; !candidate->done && tap_waits(&w);)
        hp_loop_run(loop, 10 * HP_MS);
    return hp_now() - candidate->begun;
}

/* Whether that took as many seconds as it should: not less, and not so much more that it did something else. */
static int
took_about(uint64_t took, double least, double most)
{
    return (double)took / 1e9 >= least && (double)took / 1e9 < most + tap_room();
}

static void
hang_up(struct candidate *candidate)
{
    hp_dial_free(candidate->dial);
    if (candidate->result.fd > 0)
        hp_socket_close(candidate->result.fd);
}

static void
run_for(uint64_t ns)
{
    for (uint64_t end = hp_now() + ns; hp_now() < end;)
        hp_loop_run(loop, end - hp_now());
    for (int i = 0; i < TURNS; i++) /* as many as what is ready may need, if the time passed while nothing ran */
        hp_loop_run(loop, 0);
}

static const hp_keys *
on_keys(void *arg, const uint8_t job_id[HP_JOB_ID_BYTES])
{
    return memcmp(job_id, house.keys.job_id, HP_JOB_ID_BYTES) == 0 ? &house.keys : NULL;
}

static int
on_policy(void *arg, const hp_hello *hello, hp_handshake_policy *policy)
{
    *policy = house.policy;
    return 1;
}

static hp_status
on_judge(void *arg, const hp_hello *hello, const hp_addr *peer, uint32_t *assigned)
{
    house.peer = *peer;
    *assigned = 3;
    int turn = house.judged++;
    return house.verdicts[turn < 3 ? turn : 3];
}

static void
on_enter(void *arg, int fd, const hp_hello *hello, uint64_t features, const hp_addr *peer)
{
    house.entered++;
    hp_socket_close(fd);
}

static void
build(const hp_addr *where)
{
    hoop_error error;
    hp_addr addr;
    hp_addr_parse(&addr, home, NULL);
    memset(&house, 0, sizeof(house));
    house.keys = keys;
    house.policy = (hp_handshake_policy){.my_rank = 4, .world = 8, .comm = 5, .role = HP_ROLE_DATA};
    hp_acceptor_owner owner = {NULL, on_keys, on_policy, on_judge, on_enter, NULL, NULL, NULL};
    house.acceptor = hp_acceptor_new(loop, where ? where : &addr, NULL, NULL, &owner, 8, &error);
    if (!house.acceptor)
        bail("no door: %s", error.text);
}

static void
build_later(void *arg)
{
    build(arg);
}

/* Reads the greeting first: unread bytes would make the close a reset. */
static void
on_lout_guest(void *arg, int ready)
{
    char bytes[512];
    (void)!recv(lout.guest, bytes, sizeof(bytes), 0);
    if (lout.says)
        (void)!send(lout.guest, lout.says, strlen(lout.says), MSG_NOSIGNAL);
    hp_watch_free(lout.guest_watch);
    hp_socket_close(lout.guest);
    lout.guest_watch = NULL;
}

static void
on_lout(void *arg, int ready)
{
    hp_addr peer;
    lout.guest = hp_sock_accept(lout.fd, &peer);
    if (lout.guest < 0)
        return;
    lout.accepted++;
    lout.guest_watch = hp_watch_new(loop, lout.guest, on_lout_guest, NULL);
    hp_watch_set(lout.guest_watch, HP_READ);
}

static void
bring_lout(const char *says, int mute)
{
    hp_addr addr;
    memset(&lout, 0, sizeof(lout));
    lout.says = says;
    hp_addr_parse(&addr, home, NULL);
    lout.fd = hp_sock_listen(&addr, 16, NULL);
    hp_sock_name(lout.fd, &lout.addr, NULL);
    if (mute)
        return;
    lout.watch = hp_watch_new(loop, lout.fd, on_lout, NULL);
    hp_watch_set(lout.watch, HP_READ);
}

static void
send_lout_away(void)
{
    hp_watch_free(lout.watch);
    hp_socket_close(lout.fd);
}

static void
test_wrong_secret(void)
{
    struct candidate candidate;
    hp_hello hello = greeting();
    build(NULL);
    dial(&candidate, hp_acceptor_addr(house.acceptor), &hello, &others, 2 * HP_SEC);
    uint64_t took = wait_for(&candidate);
    is_int(HOOP_ERR_AUTH, candidate.result.error.code, "a wrong secret");
    const char *text = candidate.result.error.text;
    ok(strstr(text, "rank 4 (node3) at 127.0.0.") && strstr(text, "without an answer within"), "%s", text);
    ok(took >= 1900 * HP_MS, "is an error at the deadline, since a proxy may do that (%.2f)", (double)took / 1e9);
    ok(candidate.result.error.rank == 4 && !house.judged, "it names the rank; the acceptor's owner was not asked");
    hang_up(&candidate);
    others = keys;
    hello.job_id[0] = others.job_id[0] ^= 1;
    dial(&candidate, hp_acceptor_addr(house.acceptor), &hello, &others, HP_SEC / 2);
    wait_for(&candidate);
    is_int(HOOP_ERR_AUTH, candidate.result.error.code, "a job that is unknown there");
    hang_up(&candidate);
    hp_acceptor_free(house.acceptor);
}

static void
test_silent(void)
{
    struct candidate candidate;
    hp_hello hello = greeting();
    bring_lout(NULL, 0);
    dial(&candidate, &lout.addr, &hello, &keys, 30 * HP_SEC);
    hp_dial_limit_closed(candidate.dial, 5);
    ok(wait_for(&candidate) > 100 * HP_MS && lout.accepted == 5, "closed five times, with pauses: the dial's limit");
    is_int(HOOP_ERR_AUTH, candidate.result.error.code, "is an error");
    hang_up(&candidate);
    send_lout_away();
    bring_lout("SSH-2.0-OpenSSH_9.2p1 Debian\r\n", 0);
    dial(&candidate, &lout.addr, &hello, &keys, 30 * HP_SEC);
    hp_dial_limit_closed(candidate.dial, 5);
    wait_for(&candidate);
    is_int(HOOP_ERR_AUTH, candidate.result.error.code, "another program answers");
    ok(lout.accepted == 5 && strstr(candidate.result.error.text, "it answers \"SSH-2.0"), "five times, and is quoted");
    hang_up(&candidate);
    send_lout_away();
}

/* Ranks listen before they register: one that refuses is blocked. A server may yet come, unless the ring is its. */
static void
test_refusing(void)
{
    struct candidate candidate;
    hp_hello hello = greeting();
    bring_lout(NULL, 1);
    send_lout_away();
    dial(&candidate, &lout.addr, &hello, &keys, 60 * HP_SEC);
    uint64_t took = wait_for(&candidate);
    is_int(HOOP_ERR_RENDEZVOUS, candidate.result.error.code, "a rank refuses");
    ok(took_about(took, 2, 5), "for long: it is given up (%.3f)", (double)took / 1e9);
    ok(strstr(candidate.result.error.text, "rank 4 (node3) refuses connections at 127.0.0.") &&
           strstr(candidate.result.error.text, "firewall"),
       "%s", candidate.result.error.text);
    hang_up(&candidate);
    hello.your_rank = HP_RANK_SERVER;
    dial(&candidate, &lout.addr, &hello, &keys, 60 * HP_SEC);
    took = wait_for(&candidate);
    ok(took_about(took, 2, 5), "so is the server of a ring (%.3f)", (double)took / 1e9);
    ok(strstr(candidate.result.error.text, "no longer listens at 127.0.0."), "%s", candidate.result.error.text);
    hang_up(&candidate);
    hello.comm = 0;
    dial(&candidate, &lout.addr, &hello, &keys, 5 * HP_SEC);
    took = wait_for(&candidate);
    ok(took >= 5 * HP_SEC, "a first server is waited for until the deadline (%.3f)", (double)took / 1e9);
    hang_up(&candidate);
}

static void
test_deadline(void)
{
    struct candidate candidate;
    hp_hello hello = greeting();
    bring_lout(NULL, 1);
    dial(&candidate, &lout.addr, &hello, &keys, 300 * HP_MS);
    uint64_t took = wait_for(&candidate);
    const char *text = candidate.result.error.text;
    is_int(HOOP_ERR_RENDEZVOUS, candidate.result.error.code, "nobody accepts");
    ok(took_about(took, 0.3, 3), "at the deadline (%.3f)", (double)took / 1e9);
    ok(strstr(text, "reach rank 4 (node3) at 127") && strstr(text, " s: no answer to the greeting"), "%s", text);
    hang_up(&candidate);
    send_lout_away();
    dial(&candidate, &lout.addr, &hello, &keys, 400 * HP_MS);
    took = wait_for(&candidate);
    is_int(HOOP_ERR_RENDEZVOUS, candidate.result.error.code, "nobody listens");
    ok(took_about(took, 0.4, 3), "at the deadline and not before (%.3f)", (double)took / 1e9);
    ok(strstr(text, " s: Connection refused (nothing listens there") != NULL, "%s", text);
    hang_up(&candidate);
    dial(&candidate, &lout.addr, &hello, &keys, 0);
    run_for(2 * HP_MS);
    ok(candidate.result.error.code == HOOP_ERR_RENDEZVOUS &&
           strstr(candidate.result.error.text, "within 0 s: there was no time to try"),
       "%s", candidate.result.error.text);
    hang_up(&candidate);
}

/* The server comes after the ranks. */
static void
test_server_late(void)
{
    struct candidate candidate;
    hp_hello hello = greeting();
    bring_lout(NULL, 1);
    send_lout_away();
    hp_timer *timer = hp_timer_new(loop, build_later, &lout.addr);
    dial(&candidate, &lout.addr, &hello, &keys, 20 * HP_SEC);
    hp_timer_set(timer, 600 * HP_MS);
    uint64_t took = wait_for(&candidate);
    ok(candidate.result.fd >= 3 && !candidate.result.error.code, "an acceptor that opens after 0.6 s is found");
    ok(took_about(took, 0.6, 4), "soon (%.2f)", (double)took / 1e9);
    run_for(5 * HP_MS);
    is_int(1, house.entered, "and entered once");
    hang_up(&candidate);
    hp_timer_free(timer);
    hp_acceptor_free(house.acceptor);
}

static void
check_refusal(hp_status status, hoop_result code, const char *says)
{
    struct candidate candidate;
    hp_hello hello = greeting();
    hello.your_rank = house.policy.my_rank;
    for (int i = 0; i < 4; i++)
        house.verdicts[i] = status;
    dial(&candidate, hp_acceptor_addr(house.acceptor), &hello, &keys, 20 * HP_SEC);
    uint64_t took = wait_for(&candidate);
    is_int(code, candidate.result.error.code, "refused: %s", hp_status_text((int)status));
    is_int(status, candidate.result.status, "the status is handed on");
    ok(strstr(candidate.result.error.text, says) && strstr(candidate.result.error.text, "rank 4 (node3)"), "%s",
       candidate.result.error.text);
    ok(took_about(took, 0, 10), "and not at the deadline (%.2f)", (double)took / 1e9);
    hang_up(&candidate);
}

static void
test_refusals(void)
{
    struct candidate candidate;
    hp_hello hello = greeting();
    build(NULL);
    check_refusal(HP_DUPLICATE, HOOP_ERR_RENDEZVOUS, "refuses rank 3 of 8: another rank of that number");
    check_refusal(HP_BAD_WORLD, HOOP_ERR_MISMATCH, "set the same size everywhere");
    check_refusal(HP_BAD_EPOCH, HOOP_ERR_STALE_EPOCH, "the others are at another epoch");
    check_refusal(HP_BAD_MODE, HOOP_ERR_RENDEZVOUS, "security modes");
    check_refusal(HP_BAD_COMM, HOOP_ERR_RENDEZVOUS, "another communicator");
    check_refusal(HP_FULL, HOOP_ERR_RENDEZVOUS, "refuses rank 3 of 8: there is no room");
    house.policy.my_rank = HP_RANK_SERVER;
    check_refusal(HP_FULL, HOOP_ERR_RENDEZVOUS, "256 communicators at a time");
    house.policy.my_rank = hello.your_rank;
    hello.ver_min = HP_WIRE_MAX + 1;
    hello.ver_max = HP_WIRE_MAX + 2;
    dial(&candidate, hp_acceptor_addr(house.acceptor), &hello, &keys, 20 * HP_SEC);
    wait_for(&candidate);
    is_int(HOOP_ERR_VERSION, candidate.result.error.code, "no common version");
    ok(strstr(candidate.result.error.text, "speaks version 5 of hoop's protocol, this rank version 6 to 7") != NULL,
       "%s", candidate.result.error.text);
    hang_up(&candidate);
    is_int(0, house.entered, "nobody entered");
    hp_acceptor_free(house.acceptor);
}

static void
test_for_now(void)
{
    struct candidate candidate;
    hp_hello hello = greeting();
    build(NULL);
    house.verdicts[0] = HP_FULL;
    house.verdicts[1] = HP_LATE;
    house.verdicts[2] = HP_BUSY;
    dial(&candidate, hp_acceptor_addr(house.acceptor), &hello, &keys, 20 * HP_SEC);
    wait_for(&candidate);
    ok(candidate.result.fd >= 3 && house.judged == 4, "full, late and busy are asked again: the fourth answer was yes");
    hang_up(&candidate);
    for (int i = 0; i < 4; i++)
        house.verdicts[i] = HP_BUSY;
    dial(&candidate, hp_acceptor_addr(house.acceptor), &hello, &keys, 700 * HP_MS);
    wait_for(&candidate);
    is_int(HOOP_ERR_RENDEZVOUS, candidate.result.error.code, "busy until the deadline");
    ok(strstr(candidate.result.error.text, "within 0.7 s: there is no room") != NULL, "%s",
       candidate.result.error.text);
    hang_up(&candidate);
    hp_acceptor_free(house.acceptor);
}

static void
test_from(void)
{
    struct candidate candidate;
    hp_addr from;
    hp_hello hello = greeting();
    char text[HP_ADDR_TEXT];
    build(NULL);
    hp_addr_parse(&from, "127.0.0.5:99", NULL);
    dial_from(&candidate, hp_acceptor_addr(house.acceptor), &from, &hello, &keys, 60 * HP_SEC);
    wait_for(&candidate);
    is_string("127.0.0.5", hp_addr_host(&house.peer, text), "the source address that was asked for");
    hang_up(&candidate);
    hp_addr_parse(&from, "192.0.2.77:0", NULL); /* RFC 5737: nobody's */
    dial_from(&candidate, hp_acceptor_addr(house.acceptor), &from, &hello, &keys, 60 * HP_SEC);
    wait_for(&candidate);
    is_int(HOOP_ERR_INVALID_ARGUMENT, candidate.result.error.code, "one that is not ours is not tried again");
    ok(strstr(candidate.result.error.text, "77 is not an address of this"), "%s", candidate.result.error.text);
    hang_up(&candidate);
    hp_acceptor_free(house.acceptor);
}

static void
test_free(void)
{
    struct candidate candidate;
    hp_hello hello = greeting();
    build(NULL);
    dial(&candidate, hp_acceptor_addr(house.acceptor), &hello, &keys, 20 * HP_SEC);
    candidate.free_inside = 1;
    wait_for(&candidate);
    ok(candidate.done == 1 && !candidate.dial, "freed inside its own answer");
    hang_up(&candidate);
    hello.ver_min = hello.ver_max = 9;
    dial(&candidate, hp_acceptor_addr(house.acceptor), &hello, &keys, 20 * HP_SEC);
    candidate.free_inside = 1;
    wait_for(&candidate);
    ok(candidate.done == 1 && !candidate.dial && candidate.result.fd < 0, "and inside a refusal");
    hang_up(&candidate);
    hello = greeting();
    int answered = 0;
    for (int turns = 0; turns < 12; turns++) {
        dial(&candidate, hp_acceptor_addr(house.acceptor), &hello, &keys, 20 * HP_SEC);
        for (int i = 0; i < turns; i++)
            hp_loop_run(loop, 0);
        answered += candidate.done;
        hang_up(&candidate);
        run_for(2 * HP_MS);
    }
    ok(answered < 12, "freed at any moment before (%d of 12 had their answer)", answered);
    hp_dial_free(NULL);
    hp_acceptor_free(house.acceptor);
}

static void
test_many(void)
{
    static struct candidate candidates[MANY];
    int proven = 0;
    hp_hello hello = greeting();
    build(NULL);
    for (int i = 0; i < MANY; i++)
        dial(&candidates[i], hp_acceptor_addr(house.acceptor), &hello, &keys, 20 * HP_SEC);
    for (int i = 0; i < MANY; i++)
        wait_for(&candidates[i]);
    for (int i = 0; i < MANY; i++) {
        proven += candidates[i].result.fd >= 3 && candidates[i].done == 1;
        hang_up(&candidates[i]);
    }
    run_for(5 * HP_MS);
    ok(proven == MANY && house.entered == MANY, "%d dials at once: all in", MANY);
    hp_acceptor_free(house.acceptor);
}

/* Whether fd is closed by its other end, after whatever that has said. */
static int
ends(int fd)
{
    char bytes[512];
    struct pollfd seen = {.fd = fd, .events = POLLIN};
    while (poll(&seen, 1, 30000) == 1)
        if (recv(fd, bytes, sizeof(bytes), 0) <= 0)
            return 1;
    return 0;
}

/* A child that lives on lets go of the connection: when the parent gives up, the other side hears so. */
static void
test_fork(void)
{
    struct candidate candidate;
    hp_hello hello = greeting();
    hp_addr peer;
    char byte;
    int let_go[2];
    bring_lout(NULL, 1);
    dial(&candidate, &lout.addr, &hello, &keys, 20 * HP_SEC);
    run_for(20 * HP_MS);
    int fd = hp_sock_accept(lout.fd, &peer);
    if (fd < 0 || pipe(let_go) != 0)
        bail("nobody has called, or no pipe");
    pid_t child = fork();
    if (child == 0) {
        alarm(30);
        hp_socket_forked();
        (void)!write(let_go[1], "", 1);
        for (;;)
            pause();
    }
    is_int(1, read(let_go[0], &byte, 1), "a forked child closes its sockets");
    hang_up(&candidate);
    ok(ends(fd), "and does not hold the connection when its parent hangs up");
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    hp_socket_close(fd);
    close(let_go[0]);
    close(let_go[1]);
    send_lout_away();
}

/* In a child, with a loop of its own: the parent's epoll set is shared. */
static int
lack(void)
{
    struct candidate candidate;
    hp_hello hello = greeting();
    const hoop_error *error = &candidate.result.error;
    alarm(20);
    loop = hp_loop_new();
    build(NULL);
    allow_descriptors(3);
    dial(&candidate, hp_acceptor_addr(house.acceptor), &hello, &keys, 20 * HP_SEC);
    uint64_t took = wait_for(&candidate);
    int good = case_ok(error->code == HOOP_ERR_SYSTEM && error->sys_errno == EMFILE && strstr(error->text, "ulimit -n"),
                       "without descriptors: error %d, errno %d: %s", error->code, error->sys_errno, error->text);
    good &= case_ok(took_about(took, 0.5, 3), "it gives up after %.0f ms", (double)took / 1e6);
    hang_up(&candidate);
    dial(&candidate, hp_acceptor_addr(house.acceptor), &hello, &keys, 20 * HP_SEC);
    run_for(100 * HP_MS);
    good &= case_ok(!candidate.done, "the second dial ends before it has a descriptor");
    allow_descriptors(64);
    wait_for(&candidate);
    return !case_ok(candidate.result.fd >= 0, "with descriptors: %s", error->text) || !good;
}

static void
test_no_descriptors(void)
{
    int status = -1;
    if (fork() == 0)
        _exit(lack());
    wait(&status);
    is_int(0, status, "without descriptors a dial tries for half a second (EMFILE), or until it has one");
}

static void
make_keys(hp_keys *made, uint8_t first)
{
    uint8_t secret[HP_SECRET], job_id[HP_JOB_ID_BYTES] = "the job of test";
    for (size_t i = 0; i < sizeof(secret); i++)
        secret[i] = (uint8_t)(first + i);
    if (hp_keys_derive(made, secret, job_id, HP_MODE_AUTH, NULL) != HOOP_SUCCESS)
        bail("no keys");
}

static void (*const tests[])(void) = {test_wrong_secret, test_silent,   test_deadline, test_refusing,
                                      test_server_late,  test_refusals, test_for_now,  test_from,
                                      test_free,         test_fork,     test_many,     test_no_descriptors};

static void
play(int scene)
{
    snprintf(home, sizeof(home), "127.0.0.%d:0", 11 + scene);
    make_keys(&keys, 0);
    make_keys(&others, 1);
    hp_log_level(HP_LOG_NONE);
    loop = hp_loop_new();
    tests[scene]();
    hp_loop_free(loop);
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    tap_scenes(sizeof(tests) / sizeof(tests[0]), play);
    return tap_failures() != 0;
}
