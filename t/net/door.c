/* SPDX-License-Identifier: MIT */
/*
 * door: genuine ranks get in; garbage, wrong secrets, slow ones and floods get no byte, no memory and no owner's
 * function; the owner may free the door anywhere; without descriptors it neither spins nor dies. Loopback sockets only.
 */
#include "net/door.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "net/dial.h"
#include "t/tap/tap.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CROWD = 300, FRESH = 700, FEATURES = 0xff };

enum free_in { NOWHERE, IN_KEYS, IN_POLICY, IN_JUDGE, IN_ENTER, IN_GONE };

/* The owner of a door, and what it has been asked. */
struct house {
    hp_loop *loop;
    hp_door *door;
    hp_keys keys;
    hp_conn_policy policy;
    hp_status verdict;
    enum free_in free_in;
    int asked_keys, asked_policy, judged, entered, gone;
    int fd;         /* who entered last; closed by the next one */
    int kill;       /* judge resets this connection: it dies before WELCOME */
    hp_hello hello; /* and its greeting */
    uint64_t features;
    hp_addr peer;
};

static int log_lines;
static char log_text[512];

static void
on_log(void *arg, int level, const char *line)
{
    (void)arg, (void)level;
    log_lines++;
    snprintf(log_text, sizeof(log_text), "%s", line);
}

static void
make_keys(hp_keys *keys, uint8_t first, uint8_t job_first)
{
    uint8_t secret[HP_SECRET], job[HP_JOB];
    for (size_t i = 0; i < sizeof(secret); i++)
        secret[i] = (uint8_t)(first + i);
    for (size_t i = 0; i < sizeof(job); i++)
        job[i] = (uint8_t)(job_first + i);
    if (hp_keys_derive(keys, secret, job, HP_MODE_AUTH, NULL) != HOOP_SUCCESS)
        bail("no keys");
}

static void
maybe_free(struct house *house, enum free_in here)
{
    if (house->free_in != here)
        return;
    hp_door_free(house->door);
    house->door = NULL;
}

static const hp_keys *
on_keys(void *arg, const uint8_t job[HP_JOB])
{
    struct house *house = arg;
    house->asked_keys++;
    maybe_free(house, IN_KEYS);
    return memcmp(job, house->keys.job, HP_JOB) == 0 ? &house->keys : NULL;
}

static int
on_policy(void *arg, const hp_hello *hello, hp_conn_policy *policy)
{
    struct house *house = arg;
    (void)hello;
    house->asked_policy++;
    *policy = house->policy;
    maybe_free(house, IN_POLICY);
    return 1;
}

static void
reset(int fd)
{
    struct linger hard = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    close(fd);
}

static hp_status
on_judge(void *arg, const hp_hello *hello, const hp_addr *peer, uint32_t *assigned)
{
    struct house *house = arg;
    (void)peer;
    house->judged++;
    *assigned = hello->my_rank + 100;
    if (house->kill > 0)
        reset(house->kill);
    maybe_free(house, IN_JUDGE);
    return house->verdict;
}

static void
on_enter(void *arg, int fd, const hp_hello *hello, uint64_t features, const hp_addr *peer)
{
    struct house *house = arg;
    house->entered++;
    if (house->fd > 0)
        close(house->fd);
    house->fd = fd;
    house->hello = *hello;
    house->features = features;
    house->peer = *peer;
    maybe_free(house, IN_ENTER);
}

static void
on_gone(void *arg, const hp_hello *hello)
{
    struct house *house = arg;
    (void)hello;
    house->gone++;
    maybe_free(house, IN_GONE);
}

/* A house at `where`: rank 4 of 8, epoch 0, waiting for data connections. */
static int
build(struct house *house, const char *where)
{
    hp_addr addr;
    hoop_error error;
    memset(house, 0, sizeof(*house));
    make_keys(&house->keys, 0, 0xa0);
    house->policy = (hp_conn_policy){
        .my_rank = 4, .world = 8, .comm = 5, .role = HP_ROLE_DATA, .mode = HP_MODE_AUTH, .features = FEATURES};
    house->loop = hp_loop_new();
    hp_addr_parse(&addr, where, NULL);
    hp_door_owner owner = {house, on_keys, on_policy, on_judge, on_enter, on_gone};
    house->door = hp_door_new(house->loop, &addr, NULL, &owner, 8, &error);
    if (!house->door)
        diag("%s", error.text);
    return house->door != NULL;
}

static void
raze(struct house *house)
{
    hp_door_free(house->door);
    hp_loop_free(house->loop);
    if (house->fd > 0)
        close(house->fd);
}

static void
run_for(struct house *house, uint64_t ns)
{
    for (uint64_t end = hp_now() + ns; hp_now() < end;)
        hp_loop_run(house->loop, end - hp_now());
}

static int
settle(struct house *house, const int *value, int wanted)
{
    for (uint64_t end = hp_now() + 20 * HP_SEC; *value < wanted && hp_now() < end;)
        hp_loop_run(house->loop, 10 * HP_MS);
    return *value == wanted;
}

static hp_hello
greeting(const struct house *house)
{
    hp_hello hello = {.comm = 5, .my_rank = 3, .your_rank = 4, .world = 8, .role = HP_ROLE_DATA, .channel = 2};
    memcpy(hello.job, house->keys.job, HP_JOB);
    hello.stripe = 1;
    hello.ver_min = hello.ver_max = 1;
    hello.features = 0xf0f;
    return hello;
}

/* A visitor of the plainest kind: a blocking socket with a limit. */
static int
visit_fd(const struct house *house)
{
    const hp_addr *addr = hp_door_addr(house->door);
    struct timeval limit = {.tv_sec = 10};
    int fd = socket(addr->u.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, &addr->u.any, addr->length) != 0)
        bail("no connection to the door: %s", strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    return fd;
}

static int
visit(const struct house *house, const void *bytes, size_t n)
{
    int fd = visit_fd(house);
    if (n > 0 && send(fd, bytes, n, MSG_NOSIGNAL) != (ssize_t)n)
        bail("could not send to the door: %s", strerror(errno));
    return fd;
}

/* Runs the door until it has closed fd; returns the number of bytes that it answered, -1 when it does not close. */
static int
answer(struct house *house, int fd, uint64_t limit)
{
    char bytes[512];
    int got = 0;
    for (uint64_t end = hp_now() + limit; hp_now() < end;) {
        hp_loop_run(house->loop, 2 * HP_MS);
        ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return got;
        got += n > 0 ? (int)n : 0;
    }
    return -1;
}

static void
make_m1(const struct house *house, uint8_t m1[HP_M1])
{
    static const uint8_t nonce[32] = {1, 2, 3};
    hp_hello hello = greeting(house);
    hp_conn conn;
    hp_conn_start(&conn, &house->keys, &hello, nonce, HP_NEVER);
    memcpy(m1, conn.m1, HP_M1);
}

/* A dial in the same loop. */

struct caller {
    int done;
    hp_dial_result result;
};

static void
on_dialled(void *arg, const hp_dial_result *result)
{
    struct caller *caller = arg;
    caller->done++;
    caller->result = *result;
}

static hp_dial *
call(struct house *house, struct caller *caller, const hp_keys *keys, const hp_hello *hello)
{
    memset(caller, 0, sizeof(*caller));
    return hp_dial_new(house->loop, hp_door_addr(house->door), NULL, NULL, keys, hello, "rank 4 (node3)",
                       hp_now() + 20 * HP_SEC, on_dialled, caller);
}

/* Whether a genuine rank gets in now; says how long it took. */
static int
gets_in(struct house *house, uint64_t *took)
{
    struct caller caller;
    hp_hello hello = greeting(house);
    uint64_t begin = hp_now();
    hp_dial *dial = call(house, &caller, &house->keys, &hello);
    settle(house, &caller.done, 1);
    *took = hp_now() - begin;
    hp_dial_free(dial);
    if (caller.result.fd >= 0)
        close(caller.result.fd);
    else
        diag("%s", caller.result.error.text);
    return caller.result.fd >= 0;
}

static void
test_genuine(const char *where)
{
    struct house house;
    struct caller caller;
    char byte = 0, text[HP_ADDR_TEXT];
    if (!build(&house, where)) {
        skip(1, "%s cannot be used here", where);
        hp_loop_free(house.loop);
        return;
    }
    hp_hello hello = greeting(&house);
    hp_dial *dial = call(&house, &caller, &house.keys, &hello);
    is_int(0, caller.done, "%s: nothing is called before the loop runs", hp_addr_print(hp_door_addr(house.door), text));
    ok(settle(&house, &caller.done, 1) && caller.result.fd >= 3, "the dial ends with a descriptor");
    ok(settle(&house, &house.entered, 1) && house.fd >= 3, "and so does the door");
    is_int(1, house.judged, "judged once");
    is_uint(0x0f, caller.result.features, "both know the features of both: the dialler");
    is_uint(0x0f, house.features, "and the door");
    is_uint(103, caller.result.assigned_rank, "the assigned rank");
    ok(house.hello.my_rank == 3 && house.hello.channel == 2 && house.hello.stripe == 1 && house.hello.comm == 5,
       "the owner sees the whole greeting");
    ok(hp_addr_same_host(&house.peer, hp_door_addr(house.door)), "and the peer's address");
    ok(write(house.fd, "d", 1) == 1 && write(caller.result.fd, "u", 1) == 1, "they write");
    run_for(&house, 5 * HP_MS);
    ok(read(caller.result.fd, &byte, 1) == 1 && byte == 'd', "and read, down");
    ok(read(house.fd, &byte, 1) == 1 && byte == 'u', "and up");
    close(caller.result.fd);
    hp_dial_free(dial);
    raze(&house);
}

/* M3 and the owner's first bytes in one packet: the door must leave the latter where they are. */
static void
test_what_follows(void)
{
    struct house house;
    uint8_t packet[HP_M3 + 5], m2[HP_M2], nonce[32] = {9};
    char bytes[16];
    hp_conn conn;
    build(&house, "127.0.0.1:0");
    hp_hello hello = greeting(&house);
    hp_conn_start(&conn, &house.keys, &hello, nonce, HP_NEVER);
    int fd = visit(&house, conn.m1, HP_M1);
    hp_conn_wrote(&conn, HP_M1);
    run_for(&house, 20 * HP_MS);
    is_int(HP_M2, recv(fd, m2, sizeof(m2), MSG_WAITALL), "a challenge");
    is_int(HP_CONN_WELCOME, hp_conn_feed(&conn, m2, sizeof(m2), 0), "is proven");
    memcpy(packet, conn.m3, HP_M3);
    memcpy(packet + HP_M3, "after", 5);
    (void)!send(fd, packet, sizeof(packet), MSG_NOSIGNAL);
    ok(settle(&house, &house.entered, 1), "entered");
    ok(recv(house.fd, bytes, sizeof(bytes), 0) == 5 && memcmp(bytes, "after", 5) == 0, "what follows is the owner's");
    close(fd);
    raze(&house);
}

static void
test_garbage(void)
{
    static const char *const protocols[] = {
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n",
        "*1\r\n$4\r\nPING\r\n",
        "\x16\x03\x01\x02\x01\x01",
        "\xffSMB\x72",
        "X",
        "HOOQ",
        "HOOP\x01\x02",
        "HOOP\x01\x01\x01",
    };
    struct house house;
    uint8_t m1[HP_M1];
    build(&house, "127.0.0.1:0");
    make_m1(&house, m1);
    for (size_t i = 0; i < sizeof(protocols) / sizeof(protocols[0]); i++) {
        int fd = visit(&house, protocols[i], strlen(protocols[i]));
        is_int(0, answer(&house, fd, 2 * HP_SEC), "garbage %zu is cut without a byte", i);
        close(fd);
    }
    int cut = 0;
    for (size_t i = 0; i < HP_M1; i++) {
        m1[i] ^= (uint8_t)(1U << i % 8);
        int fd = visit(&house, m1, HP_M1);
        cut += answer(&house, fd, 2 * HP_SEC) == 0;
        m1[i] ^= (uint8_t)(1U << i % 8);
        close(fd);
    }
    is_int(HP_M1, cut, "a flipped bit in any byte of a greeting: cut without a byte");
    is_int(HP_M1 - 16, house.asked_keys, "no owner's function before the header was right");
    is_int(0, house.asked_policy + house.judged + house.entered, "and none but keys before the tag was");
    raze(&house);
}

static void
test_log(void)
{
    struct house house;
    hp_keys others;
    struct caller caller;
    build(&house, "127.0.0.1:0");
    hp_hello hello = greeting(&house);
    make_keys(&others, 1, 0xa0);
    log_lines = 0;
    hp_dial *dial = call(&house, &caller, &others, &hello);
    ok(settle(&house, &log_lines, 1), "a line about a wrong secret");
    hp_dial_free(dial);
    ok(strstr(log_text, "closed 127.0.0.1:") && strstr(log_text, "its secret is not this job's"), "%s", log_text);
    make_keys(&others, 0, 0xb0);
    memcpy(hello.job, others.job, HP_JOB);
    log_lines = 0;
    dial = call(&house, &caller, &others, &hello);
    ok(settle(&house, &log_lines, 1), "a line about an unknown job");
    hp_dial_free(dial);
    ok(strstr(log_text, "it belongs to a job that is unknown here (b0 b1 b2") != NULL, "%s", log_text);
    log_lines = 0;
    hp_log_level(HP_LOG_INFO);
    int fd = visit(&house, "GET /", 5);
    answer(&house, fd, 2 * HP_SEC);
    hp_log_level(HP_LOG_WARN);
    ok(log_lines == 1 && strstr(log_text, "it does not speak hoop's protocol (47 45 54 20 2f)"), "%s", log_text);
    for (int i = 0; i < CROWD; i++)
        close(visit(&house, "GET /", 5));
    run_for(&house, 20 * HP_MS);
    is_int(1, log_lines, "not a line about strangers unless INFO is asked for");
    close(fd);
    raze(&house);
}

static void
test_truncated(void)
{
    struct house house;
    uint8_t m1[HP_M1];
    uint64_t took;
    int held[HP_M1], cut = 0;
    build(&house, "127.0.0.1:0");
    make_m1(&house, m1);
    for (size_t n = 0; n < HP_M1; n++) {
        close(visit(&house, m1, n));
        hp_loop_run(house.loop, 0);
    }
    run_for(&house, 20 * HP_MS);
    hp_door_patience(house.door, 800 * HP_MS);
    uint64_t begin = hp_now();
    for (size_t n = 0; n < HP_M1; n++) {
        held[n] = visit(&house, m1, n);
        hp_loop_run(house.loop, 0);
    }
    char byte;
    ok(recv(held[0], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN, "one that says nothing is given time");
    for (size_t n = 0; n < HP_M1; n++) {
        cut += answer(&house, held[n], 5 * HP_SEC) == 0;
        close(held[n]);
    }
    ok(hp_now() - begin >= 800 * HP_MS && hp_now() - begin < 10 * HP_SEC, "but no longer than the door has patience");
    is_int(HP_M1, cut, "a greeting cut short at any byte is closed without a byte");
    is_int(0, house.asked_keys, "and asks for nothing");
    ok(gets_in(&house, &took), "a genuine rank gets in");
    raze(&house);
}

/* A byte now and then does not move the deadline, which runs from accept. 5 s unless set. */
static void
test_slow(void)
{
    struct house house;
    uint8_t m1[HP_M1];
    build(&house, "127.0.0.1:0");
    make_m1(&house, m1);
    uint64_t begin = hp_now();
    int fd = visit(&house, m1, 1), result = -1;
    for (size_t i = 1; i < 70 && result < 0; i++) {
        result = answer(&house, fd, 100 * HP_MS);
        (void)!send(fd, m1 + i, 1, MSG_NOSIGNAL);
    }
    uint64_t took = hp_now() - begin;
    is_int(0, result, "one byte at a time is cut without a byte");
    ok(took >= 5 * HP_SEC && took < 6 * HP_SEC, "after 5 s (%.2f)", (double)took / 1e9);
    close(fd);
    raze(&house);
}

static void
test_replay(void)
{
    struct house house;
    uint8_t m1[HP_M1], junk[HP_M3] = "HOOP\x01\x03";
    build(&house, "127.0.0.1:0");
    hp_door_patience(house.door, 150 * HP_MS);
    make_m1(&house, m1);
    for (int i = 0; i < 3; i++) {
        int fd = visit(&house, m1, HP_M1);
        is_int(HP_M2, answer(&house, fd, 3 * HP_SEC), "a replayed greeting earns a challenge and nothing more");
        close(fd);
    }
    int fd = visit(&house, m1, HP_M1);
    run_for(&house, 10 * HP_MS);
    (void)!send(fd, junk, sizeof(junk), MSG_NOSIGNAL);
    is_int(HP_M2, answer(&house, fd, 3 * HP_SEC), "and so does one with an invented confirmation");
    is_int(0, house.judged + house.entered, "nobody is judged before the confirmation is right");
    close(fd);
    raze(&house);
}

static void
test_refusals(void)
{
    struct house house;
    struct caller caller;
    build(&house, "127.0.0.1:0");
    hp_hello hello = greeting(&house);
    house.verdict = HP_DUPLICATE;
    hp_dial *dial = call(&house, &caller, &house.keys, &hello);
    settle(&house, &caller.done, 1);
    hp_dial_free(dial);
    ok(caller.result.fd < 0 && caller.result.status == HP_DUPLICATE, "the owner's refusal reaches the dialler");
    hello.epoch = 9;
    dial = call(&house, &caller, &house.keys, &hello);
    settle(&house, &caller.done, 1);
    hp_dial_free(dial);
    is_int(HP_BAD_EPOCH, caller.result.status, "and so does the policy's");
    is_int(1, house.judged, "which is not for the owner to judge");
    is_int(0, house.entered + house.gone, "nobody entered, nobody is missed");
    raze(&house);
}

/* Brings a raw visitor to the moment where its confirmation is on the way. */
static int
confirm(struct house *house)
{
    uint8_t nonce[32] = {7}, m2[HP_M2];
    hp_conn conn;
    hp_hello hello = greeting(house);
    hp_conn_start(&conn, &house->keys, &hello, nonce, HP_NEVER);
    int fd = visit(house, conn.m1, HP_M1);
    hp_conn_wrote(&conn, HP_M1);
    for (uint64_t end = hp_now() + 5 * HP_SEC; hp_now() < end;) {
        struct pollfd poller = {.fd = fd, .events = POLLIN};
        hp_loop_run(house->loop, HP_MS);
        if (!house->door || poll(&poller, 1, 0) == 1)
            break;
    }
    if (house->door && recv(fd, m2, sizeof(m2), MSG_WAITALL) == HP_M2) {
        hp_conn_feed(&conn, m2, sizeof(m2), 0);
        (void)!send(fd, conn.m3, HP_M3, MSG_NOSIGNAL);
    }
    return fd;
}

static void
test_gone(void)
{
    struct house house;
    uint64_t took;
    build(&house, "127.0.0.1:0");
    house.kill = confirm(&house);
    ok(settle(&house, &house.gone, 1), "judged well, dead before its welcome: the owner is told");
    is_int(1, house.judged, "judged once");
    is_int(0, house.entered, "not entered");
    house.kill = 0;
    ok(gets_in(&house, &took) && house.gone == 1, "the next one gets in");
    raze(&house);
}

static void
test_free_inside(void)
{
    static const char *const names[] = {"nowhere", "keys", "policy", "judge", "enter", "gone"};
    for (enum free_in where = IN_KEYS; where <= IN_GONE; where++) {
        struct house house;
        build(&house, "127.0.0.1:0");
        hp_addr addr = *hp_door_addr(house.door);
        int bystander = visit(&house, "HOOP", 4);
        run_for(&house, 5 * HP_MS);
        house.free_in = where;
        int fd = confirm(&house);
        house.kill = where == IN_GONE ? fd : 0;
        for (uint64_t end = hp_now() + 5 * HP_SEC; house.door && hp_now() < end;)
            hp_loop_run(house.loop, 5 * HP_MS);
        ok(house.door == NULL, "the owner may free the door in its function %s", names[where]);
        is_int(where == IN_ENTER, house.entered, "entered");
        char byte;
        struct pollfd poller = {.fd = bystander, .events = POLLIN};
        ok(poll(&poller, 1, 5000) == 1 && recv(bystander, &byte, 1, 0) <= 0, "those in the door are closed");
        int late = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ok(connect(late, &addr.u.any, addr.length) != 0, "nobody listens any more");
        close(late);
        close(bystander);
        if (where != IN_GONE)
            close(fd);
        raze(&house);
    }
}

/* More than the pool holds, sending garbage, greeting slowly or saying nothing, while a genuine rank comes. */
static void
test_crowd(void)
{
    static int fds[CROWD];
    struct house house;
    uint8_t m1[HP_M1];
    uint64_t took;
    build(&house, "127.0.0.1:0");
    hp_door_patience(house.door, 60 * HP_SEC);
    make_m1(&house, m1);
    ok(gets_in(&house, &took), "a first one gets in");
    size_t before = mallinfo2().uordblks;
    for (int i = 0; i < CROWD; i++) {
        fds[i] = visit_fd(&house);
        if (i % 3 == 0)
            (void)!send(fds[i], "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL);
        else if (i % 3 == 1)
            (void)!send(fds[i], m1, 1 + (size_t)i % 143, MSG_NOSIGNAL);
        if (i % 50 == 0)
            run_for(&house, HP_MS);
    }
    run_for(&house, 50 * HP_MS);
    is_uint(before, mallinfo2().uordblks, "%d strangers cost no memory", CROWD);
    ok(gets_in(&house, &took) && took < 2 * HP_SEC, "a genuine rank gets in past %d strangers, after %.1f ms", CROWD,
       (double)took / 1e6);
    /* Nobody greets: now all of the pool is taken, and the oldest have to go. */
    for (int i = 0; i < FRESH; i++) {
        close(fds[i % CROWD]);
        fds[i % CROWD] = visit(&house, m1, 1);
        if (i % 50 == 0)
            run_for(&house, HP_MS);
    }
    run_for(&house, 20 * HP_MS);
    ok(gets_in(&house, &took) && took < 2 * HP_SEC, "and past %d that greet slowly, after %.1f ms", FRESH,
       (double)took / 1e6);
    int open = 0;
    for (int i = 0; i < CROWD; i++) {
        char byte;
        open += recv(fds[i], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
        close(fds[i]);
    }
    ok(open > 200 && open <= HP_M1 + 112, "%d of %d were kept waiting: what the pool holds", open, CROWD);
    is_int(3, house.entered, "three entered in all");
    raze(&house);
}

static double
cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* The soft limit alone: it can be raised again. */
static void
allow_descriptors(rlim_t n)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = n;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        bail("setrlimit: %s", strerror(errno));
}

/* In a child that has no descriptor left: the queue is full of connections, and the door waits without spinning. */
static int
starve(void)
{
    enum { VISITORS = 20 };
    struct house house;
    int fds[VISITORS], bad = 0;
    uint64_t took;
    build(&house, "127.0.0.1:0");
    for (int i = 0; i < VISITORS; i++)
        fds[i] = visit_fd(&house);
    int next = dup(0);
    close(next);
    allow_descriptors((rlim_t)next);
    double cpu = cpu_seconds();
    log_lines = 0;
    run_for(&house, HP_SEC);
    cpu = cpu_seconds() - cpu;
    diag("%.1f ms of processor time in 1 s without descriptors, %d lines", cpu * 1e3, log_lines);
    bad |= cpu > 0.2 || log_lines < 1 || log_lines > 12 || !strstr(log_text, "ulimit -n");
    for (int i = 0; i < VISITORS; i++)
        close(fds[i]);
    allow_descriptors((rlim_t)next + 100);
    bad |= !gets_in(&house, &took);
    raze(&house);
    return bad;
}

static void
test_no_descriptors(void)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        alarm(40);
        _exit(starve());
    }
    waitpid(child, &status, 0);
    is_int(0, status, "without descriptors the door neither spins nor dies, and opens again");
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
        for (int fd = 0; fd < 3; fd++)
            close(fd);
        int bad = !build(&house, "127.0.0.1:0") || !gets_in(&house, &took) || house.fd < 3;
        struct pollfd low[3] = {{.fd = 0}, {.fd = 1}, {.fd = 2}};
        poll(low, 3, 0);
        for (int fd = 0; fd < 3; fd++)
            bad |= !(low[fd].revents & POLLNVAL);
        _exit(bad);
    }
    waitpid(child, &status, 0);
    is_int(0, status, "with 0 to 2 closed, the door and what enters stay above");
}

static void
test_port_in_use(void)
{
    struct house house;
    hoop_error error;
    build(&house, "127.0.0.1:0");
    hp_door_owner owner = {&house, on_keys, on_policy, on_judge, on_enter, NULL};
    ok(!hp_door_new(house.loop, hp_door_addr(house.door), NULL, &owner, 0, &error), "a port has one door");
    ok(strstr(error.text, "in use by another program") != NULL, "%s", error.text);
    raze(&house);
}

int
main(void)
{
    tap_limit(120);
    plan_lazy();
    hoop_log_to(on_log, NULL);
    test_genuine("127.0.0.1:0");
    test_genuine("[::1]:0");
    test_what_follows();
    test_log(); /* before the others use up what may be said in a second */
    test_garbage();
    test_truncated();
    test_slow();
    test_replay();
    test_refusals();
    test_gone();
    test_free_inside();
    test_crowd();
    test_no_descriptors();
    test_low();
    test_port_in_use();
    return 0;
}
