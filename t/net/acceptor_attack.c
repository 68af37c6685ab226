/* SPDX-License-Identifier: MIT */
/*
 * acceptor_attack: what pending connections do to an acceptor: garbage, flipped bits, half greetings, replays, slow
 * ones, crowds, and more connections than there are descriptors. They get no byte, no memory and no owner's function.
 * Loopback sockets only. accept4 is replaced for the whole program, so that the machine may be short of something.
 */
#include "base/clock.h"
#include "net/acceptor.h"
#include "t/net/test_acceptor.h"
#include "t/tap/tap.h"
#include "t/tools/descriptors.h"

#include <errno.h>
#include <malloc.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CROWD = 300, FRESH = 700 };

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
    hp_acceptor_timeout(house.acceptor, 800 * HP_MS);
    uint64_t begin = hp_now();
    for (size_t n = 0; n < HP_M1; n++) {
        held[n] = visit(&house, m1, n);
        hp_loop_run(house.loop, 0);
    }
    char byte;
    ok(recv(held[0], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN, "one that says nothing is given time");
    for (size_t n = 0; n < HP_M1; n++) {
        cut += answer(&house, held[n], 30 * HP_SEC) == 0;
        close(held[n]);
    }
    ok(hp_now() - begin >= 800 * HP_MS, "but no longer than the acceptor has patience");
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
    for (size_t i = 1; i < HP_M1 && result < 0; i++) {
        result = answer(&house, fd, 100 * HP_MS);
        (void)!send(fd, m1 + i, 1, MSG_NOSIGNAL);
    }
    uint64_t took = hp_now() - begin;
    is_int(0, result, "one byte at a time is cut without a byte");
    ok(took >= 5 * HP_SEC && (double)took / 1e9 < 6 + tap_room(), "after 5 s (%.2f)", (double)took / 1e9);
    close(fd);
    raze(&house);
}

/* A genuine incoming connection that has its challenge and lets time pass; later.m3 is what it will say. */
static hp_handshake later;

static int
confirm_later(struct house *house, uint8_t first)
{
    const uint8_t nonce[32] = {first};
    uint8_t m2[HP_M2];
    hp_hello hello = greeting(house);
    hp_handshake_start(&later, &house->keys, &hello, nonce, HP_NEVER);
    int fd = visit(house, later.m1, HP_M1);
    hp_handshake_wrote(&later, HP_M1);
    run_for(house, 20 * HP_MS);
    if (recv(fd, m2, sizeof(m2), MSG_WAITALL) != HP_M2 ||
        hp_handshake_feed(&later, m2, HP_M2, 0) != HP_HANDSHAKE_WELCOME)
        bail("no challenge");
    return fd;
}

static void
test_replay(void)
{
    struct house house;
    uint8_t m1[HP_M1], junk[HP_M3] = "HOOP\x01\x03";
    build(&house, "127.0.0.1:0");
    hp_acceptor_timeout(house.acceptor, HP_SEC);
    make_m1(&house, m1);
    for (int i = 0; i < 3; i++) {
        int fd = visit(&house, m1, HP_M1);
        is_int(i ? 0 : HP_M2, answer(&house, fd, 30 * HP_SEC), "a greeting that is sent again, time %d: %s", i,
               i ? "cut without a byte" : "a challenge and nothing more");
        close(fd);
    }
    make_another_m1(&house, m1, 9);
    int fd = visit(&house, m1, HP_M1);
    run_for(&house, 10 * HP_MS);
    (void)!send(fd, junk, sizeof(junk), MSG_NOSIGNAL);
    is_int(HP_M2, answer(&house, fd, 30 * HP_SEC), "nor does one with an invented confirmation earn more");
    is_int(0, house.judged + house.entered, "nobody is judged before the confirmation is right");
    close(fd);
    raze(&house);
}

/* Three greetings that somebody has recorded, again and again: three places, and nobody has to go for them. */
static void
test_replays(void)
{
    enum { RECORDED = 3, COPIES = 1500 };
    static int fds[COPIES];
    struct house house;
    uint8_t m1[RECORDED][HP_M1];
    uint64_t took;
    char byte;
    build(&house, "127.0.0.1:0");
    hp_acceptor_timeout(house.acceptor, 60 * HP_SEC);
    for (int k = 0; k < RECORDED; k++)
        make_another_m1(&house, m1[k], (uint8_t)(10 + k));
    int slow = confirm_later(&house, 20);
    size_t before = mallinfo2().uordblks;
    for (int i = 0; i < COPIES; i++) {
        fds[i] = visit(&house, m1[i % RECORDED], HP_M1);
        run_for(&house, i % 50 ? 0 : HP_MS);
    }
    run_for(&house, 50 * HP_MS);
    size_t cost = mallinfo2().uordblks - before;
    int open = 0;
    for (int i = 0; i < COPIES; i++) {
        uint8_t m2[HP_M2];
        open += recv(fds[i], m2, sizeof(m2), MSG_DONTWAIT) == HP_M2 && recv(fds[i], &byte, 1, MSG_DONTWAIT) < 0;
        close(fds[i]);
    }
    is_int(RECORDED, open, "%d copies of %d greetings: one place for each greeting", COPIES, RECORDED);
    ok(cost < (size_t)(RECORDED + 1) * 2 * sizeof(hp_candidate), "and %zu bytes of memory", cost);
    int in = gets_in(&house, &took);
    ok(in && (double)took / 1e9 < 2 + tap_room(), "a genuine rank gets in meanwhile, after %.1f ms",
       (double)took / 1e6);
    (void)!send(slow, later.m3, HP_M3, MSG_NOSIGNAL);
    ok(settle(&house, &house.entered, 2), "and so does one that was in the middle of its handshake before them");
    close(slow);
    raze(&house);
}

/* Runs until the acceptor has answered HELLO; returns the status, -1: no answer. */
static int
status_of(struct house *house, int fd)
{
    uint8_t m2[HP_M2];
    for (uint64_t end = hp_now() + 20 * HP_SEC; hp_now() < end; hp_loop_run(house->loop, HP_MS)) {
        ssize_t n = recv(fd, m2, sizeof(m2), MSG_DONTWAIT);
        if (n != -1 || errno != EAGAIN)
            return n == HP_M2 ? m2[26] | m2[27] << 8 : -1;
    }
    return -1;
}

static int
send_recorded(struct house *house, int i)
{
    const uint8_t nonce[32] = {(uint8_t)i, (uint8_t)(i >> 8), 8};
    hp_handshake handshake;
    hp_hello hello = greeting(house);
    hp_handshake_start(&handshake, &house->keys, &hello, nonce, HP_NEVER);
    return visit(house, handshake.m1, HP_M1);
}

/* More different greetings than there is room for: each gets an answer; when they come a second time each is known. */
static void
test_recorded(void)
{
    enum { RECORDED = 1100, HELD = 200 };
    static int fds[HELD];
    struct house house;
    uint64_t took;
    int answered = 0, copies = 0;
    build(&house, "127.0.0.1:0");
    hp_acceptor_timeout(house.acceptor, 60 * HP_SEC);
    for (int i = 0; i < RECORDED; i++) {
        if (i >= HELD)
            close(fds[i % HELD]);
        fds[i % HELD] = send_recorded(&house, i);
        int status = status_of(&house, fds[i % HELD]);
        answered += status == HP_OK || status == HP_BUSY;
    }
    is_int(RECORDED, answered, "many greetings: each is answered, if only by a request to wait");
    int in = gets_in(&house, &took);
    ok(in, "a genuine rank waits with them and gets in, after %.1f s", (double)took / 1e9);
    for (int i = 0; i < RECORDED; i++) {
        close(fds[i % HELD]);
        fds[i % HELD] = send_recorded(&house, i);
        copies += answer(&house, fds[i % HELD], 20 * HP_SEC) == 0;
    }
    is_int(RECORDED, copies, "when they are sent again each is known");
    for (int i = 0; i < HELD; i++)
        close(fds[i]);
    raze(&house);
}

/* As many as may be in the middle of their handshake, and some more, who are told to wait. */
static void
test_full(void)
{
    enum { MOST = 8 + 64, MORE = 10 };
    static int fds[MOST + MORE];
    struct house house;
    uint64_t took;
    int told[2] = {0};
    build(&house, "127.0.0.1:0");
    hp_acceptor_timeout(house.acceptor, 60 * HP_SEC);
    uint64_t began = hp_now();
    for (int i = 0; i < MOST + MORE; i++) {
        fds[i] = send_recorded(&house, i);
        told[status_of(&house, fds[i]) == HP_BUSY] += 1;
    }
    if (hp_now() - began < HP_SEC) /* else the first may have had to go */
        ok(told[0] == MOST && told[1] == MORE, "of %d different greetings %d stay, and %d are told to wait",
           MOST + MORE, told[0], told[1]);
    int in = gets_in(&house, &took);
    ok(in, "a genuine rank gets in, after %.1f s", (double)took / 1e9);
    for (int i = 0; i < MOST + MORE; i++)
        close(fds[i]);
    raze(&house);
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
    hp_acceptor_timeout(house.acceptor, 60 * HP_SEC);
    make_m1(&house, m1);
    ok(gets_in(&house, &took), "a first one gets in");
    size_t before = mallinfo2().uordblks;
    for (int i = 0; i < CROWD; i++) {
        fds[i] = visit(&house, NULL, 0);
        if (i % 3 == 0)
            (void)!send(fds[i], "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL);
        else if (i % 3 == 1)
            (void)!send(fds[i], m1, 1 + (size_t)i % 143, MSG_NOSIGNAL);
        if (i % 50 == 0)
            run_for(&house, HP_MS);
    }
    run_for(&house, 50 * HP_MS);
    is_uint(before, mallinfo2().uordblks, "%d pending connections cost no memory", CROWD);
    ok(gets_in(&house, &took) && (double)took / 1e9 < 2 + tap_room(),
       "a genuine rank gets in past %d pending connections, after %.1f ms", CROWD, (double)took / 1e6);
    /* Nobody greets: now all of the pool is taken, and the oldest have to go. */
    for (int i = 0; i < FRESH; i++) {
        close(fds[i % CROWD]);
        fds[i % CROWD] = visit(&house, m1, 1);
        if (i % 50 == 0)
            run_for(&house, HP_MS);
    }
    run_for(&house, 20 * HP_MS);
    ok(gets_in(&house, &took) && (double)took / 1e9 < 2 + tap_room(), "and past %d that greet slowly, after %.1f ms",
       FRESH, (double)took / 1e6);
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

/* In a child that has no descriptor left: the queue is full of connections, and the acceptor waits without spinning. */
static int
starve(void)
{
    enum { VISITORS = 20 };
    struct house house;
    int fds[VISITORS], bad = 0;
    uint64_t took;
    build(&house, "127.0.0.1:0");
    for (int i = 0; i < VISITORS; i++)
        fds[i] = visit(&house, NULL, 0);
    int next = dup(0);
    close(next);
    allow_descriptors((unsigned)next);
    double cpu = cpu_seconds();
    house_log_lines = 0;
    run_for(&house, HP_SEC);
    cpu = cpu_seconds() - cpu;
    diag("%.1f ms of processor time in 1 s without descriptors, %d lines", cpu * 1e3, house_log_lines);
    bad |= !case_ok(cpu <= 0.2, "%.0f ms of processor time", cpu * 1e3);
    bad |= !case_ok(house_log_lines == 1 && strstr(house_log_text, "ulimit -n"), "%d lines, the last: %s",
                    house_log_lines, house_log_text);
    for (int i = 0; i < VISITORS; i++)
        close(fds[i]);
    allow_descriptors((unsigned)next + 100);
    bad |= !case_ok(gets_in(&house, &took), "no rank gets in when there are descriptors again");
    raze(&house);
    return bad;
}

/* A genuine rank by hand, over a socket that it has already: one who dials would need a descriptor just now. */
static int
gets_in_over(struct house *house, int fd, uint8_t first)
{
    const uint8_t nonce[32] = {first, 7};
    uint8_t m2[HP_M2];
    const hp_addr *addr = hp_acceptor_addr(house->acceptor);
    hp_hello hello = greeting(house);
    int before = house->entered;
    hp_handshake_start(&later, &house->keys, &hello, nonce, HP_NEVER);
    if (connect(fd, &addr->u.any, addr->length) != 0 || send(fd, later.m1, HP_M1, MSG_NOSIGNAL) != HP_M1)
        return 0;
    hp_handshake_wrote(&later, HP_M1);
    for (tap_wait w = {0}; recv(fd, m2, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && tap_waits(&w);)
        run_for(house, HP_MS);
    if (recv(fd, m2, sizeof(m2), MSG_DONTWAIT) != HP_M2 ||
        hp_handshake_feed(&later, m2, HP_M2, 0) != HP_HANDSHAKE_WELCOME ||
        send(fd, later.m3, HP_M3, MSG_NOSIGNAL) != HP_M3)
        return 0;
    for (tap_wait w = {0}; house->entered == before && tap_waits(&w);)
        run_for(house, HP_MS);
    return house->entered > before;
}

/*
 * In a child with few descriptors and ten times as many pending connections: those make room, and the owner is not
 * told.
 */
static int
crowd_out(void)
{
    enum { STRANGERS = 200, LEFT = 6, RANKS = 5 };
    static int fds[STRANGERS], mine[RANKS];
    struct house house;
    build(&house, "127.0.0.1:0");
    hp_acceptor_timeout(house.acceptor, 60 * HP_SEC);
    int bad = 0, next = dup(0);
    close(next);
    allow_descriptors((unsigned)next + STRANGERS + RANKS + LEFT);
    for (int k = 0; k < RANKS; k++)
        mine[k] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    for (int i = 0; i < STRANGERS; i++)
        fds[i] = visit(&house, NULL, 0);
    run_for(&house, 100 * HP_MS);
    bad |= !case_ok(dup(0) < 0 && errno == EMFILE, "the connections leave a descriptor");
    for (int k = 0; k < RANKS; k++) {
        uint64_t begin = hp_now();
        bad |= !case_ok(gets_in_over(&house, mine[k], (uint8_t)k), "rank %d does not get in", k);
        diag("rank %d gets in after %.1f ms", k, (double)(hp_now() - begin) / 1e6);
        for (int i = k; i < STRANGERS; i += 3) {
            close(fds[i]);
            fds[i] = visit(&house, NULL, 0);
        }
    }
    diag("%d entered; the owner heard of it %d times", house.entered, house.starved);
    bad |= !case_ok(house.starved == 0 && house.entered == RANKS,
                    "%d of %d ranks entered; the owner lacked something %d times", house.entered, RANKS, house.starved);
    raze(&house);
    return bad;
}

/* In a child: likewise where recorded greetings with right tags come, for a communicator that is not here. */
static int
crowd_with_tags(void)
{
    enum { RECORDED = 60, LEFT = 20, RANKS = 5 };
    static int fds[RECORDED], mine[RANKS];
    struct house house;
    build(&house, "127.0.0.1:0");
    hp_acceptor_timeout(house.acceptor, 60 * HP_SEC);
    int bad = 0, next = dup(0);
    close(next);
    allow_descriptors((unsigned)next + RECORDED + RANKS + LEFT);
    for (int k = 0; k < RANKS; k++)
        mine[k] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    for (int i = 0; i < RECORDED; i++) {
        const uint8_t nonce[32] = {(uint8_t)i, 9};
        hp_handshake handshake;
        hp_hello hello = greeting(&house);
        hello.comm++;
        hp_handshake_start(&handshake, &house.keys, &hello, nonce, HP_NEVER);
        fds[i] = visit(&house, handshake.m1, HP_M1);
    }
    run_for(&house, 100 * HP_MS);
    for (int k = 0; k < RANKS; k++)
        bad |= !case_ok(gets_in_over(&house, mine[k], (uint8_t)k), "rank %d does not get in past the tags", k);
    diag("%d entered past %d recorded greetings; the owner heard of it %d times", house.entered, RECORDED,
         house.starved);
    bad |= !case_ok(house.starved == 0 && house.entered == RANKS,
                    "%d of %d ranks entered; the owner lacked something %d times", house.entered, RANKS, house.starved);
    for (int i = 0; i < RECORDED; i++)
        close(fds[i]);
    raze(&house);
    return bad;
}

/* In a child: how many of n pending connections stay. */
static int
count_open(const int *fds, int n)
{
    int open = 0;
    char byte;
    for (int i = 0; i < n; i++)
        open += recv(fds[i], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
    return open;
}

/*
 * In a child: the program keeps three quarters of the free descriptors. When it takes more, pending connections are
 * closed.
 */
static int
leave_some(void)
{
    enum { STRANGERS = 100, LEFT = 80, MORE = 45 };
    static int fds[STRANGERS];
    struct house house;
    build(&house, "127.0.0.1:0");
    hp_acceptor_timeout(house.acceptor, 60 * HP_SEC);
    int bad = 0, next = dup(0), stay;
    close(next);
    allow_descriptors((unsigned)next + STRANGERS + LEFT);
    for (int i = 0; i < STRANGERS - 1; i++)
        fds[i] = visit(&house, NULL, 0);
    run_for(&house, 50 * HP_MS);
    stay = count_open(fds, STRANGERS - 1);
    diag("of %d strangers %d stay where %d descriptors were left", STRANGERS - 1, stay, LEFT);
    bad |= !case_ok(stay >= LEFT / 8 && stay <= LEFT / 4 + 1, "%d stay, not %d to %d", stay, LEFT / 8, LEFT / 4 + 1);
    for (int i = 0; i < MORE; i++)
        bad |= !case_ok(dup(0) >= 0, "the program gets no descriptor %d", i);
    fds[STRANGERS - 1] = visit(&house, NULL, 0);
    run_for(&house, 50 * HP_MS);
    stay = count_open(fds, STRANGERS);
    diag("%d where the program has taken %d more", stay, MORE);
    bad |= !case_ok(stay <= (LEFT - MORE) / 3 && stay >= HP_PLACES_LEAST, "%d stay, not %d to %d", stay,
                    HP_PLACES_LEAST, (LEFT - MORE) / 3);
    raze(&house);
    return bad;
}

static void
test_no_descriptors(void)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        alarm(120);
        _exit(starve());
    }
    waitpid(child, &status, 0);
    is_int(0, status, "without descriptors the acceptor neither spins nor dies, and opens again");
    child = fork();
    if (child == 0) {
        alarm(120);
        _exit(crowd_out());
    }
    waitpid(child, &status, 0);
    is_int(0, status,
           "with few descriptors pending connections make room for genuine ranks, and the owner hears nothing");
    child = fork();
    if (child == 0) {
        alarm(120);
        _exit(leave_some());
    }
    waitpid(child, &status, 0);
    is_int(0, status, "and leave most of them to the program");
    child = fork();
    if (child == 0) {
        alarm(120);
        _exit(crowd_with_tags());
    }
    waitpid(child, &status, 0);
    is_int(0, status, "so do those with a right tag for whom nobody is here");
}

/* What accept4 says instead of working, and how often. */
static int refusal, refusals;

int
accept4(int fd, struct sockaddr *addr, socklen_t *length, int flags)
{
    if (refusals > 0) {
        refusals--;
        errno = refusal;
        return -1;
    }
    return (int)syscall(SYS_accept4, fd, addr, length, flags);
}

/* The whole machine is short of something, once: nobody hears of that. For longer: the owner does. */
static void
test_short_machine(void)
{
    static const int numbers[] = {EMFILE, ENFILE, ENOMEM, ENOBUFS};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        struct house house;
        uint64_t took;
        build(&house, "127.0.0.1:0");
        refusal = numbers[i];
        refusals = 1;
        ok(gets_in(&house, &took) && house.starved == 0, "accept says %s once: a rank gets in", strerror(refusal));
        refusals = 3;
        ok(gets_in(&house, &took), "three times: so it does");
        ok(house.starved == 2 && house.number == refusal, "and the owner hears of it from the second time on");
        int fds[3];
        hp_acceptor_timeout(house.acceptor, 60 * HP_SEC);
        for (int k = 0; k < 3; k++)
            fds[k] = visit(&house, NULL, 0);
        run_for(&house, 50 * HP_MS);
        refusals = 2;
        house.starved = 0;
        ok(gets_in(&house, &took) && !house.starved,
           "where pending connections wait they go for it, without a pause, of which the owner would hear");
        for (int k = 0; k < 3; k++)
            close(fds[k]);
        raze(&house);
    }
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    hoop_log_to(house_log, NULL);
    test_garbage();
    test_truncated();
    test_slow();
    test_replay();
    test_replays();
    test_full();
    test_recorded();
    test_crowd();
    test_no_descriptors();
    test_short_machine();
    return 0;
}
