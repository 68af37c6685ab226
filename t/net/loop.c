/* SPDX-License-Identifier: MIT */
/*
 * loop: watches, timers in order, wake-ups from threads and signal handlers, freeing inside callbacks, the mirrored
 * descriptor, forked children, and a program that has closed 0 to 2.
 */
#include "net/loop.h"

#include "base/clock.h"
#include "t/tap/tap.h"
#include "t/tools/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIMERS = 300 };

struct end {
    int fd, calls, ready;
    hp_watch *watch, *victim;
};

static void
make_pair(int fds[2])
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0)
        bail("socketpair: %s", strerror(errno));
}

static void
on_end(void *arg, int ready)
{
    struct end *end = arg;
    char bytes[64];
    end->calls++;
    end->ready |= ready;
    if (ready & HP_READ)
        (void)!read(end->fd, bytes, sizeof(bytes));
}

static void
count(void *arg)
{
    ++*(int *)arg;
}

static int
readable(int fd)
{
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    return poll(&poller, 1, 0) == 1;
}

static void
test_watches(void)
{
    int fds[2];
    hp_loop *loop = hp_loop_new();
    make_pair(fds);
    struct end end = {.fd = fds[0]};
    end.watch = hp_watch_new(loop, fds[0], on_end, &end);
    ok(write(fds[1], "x", 1) == 1, "a byte is there");
    hp_loop_run(loop, 0);
    is_int(0, end.calls, "no interest, no call");
    is_int(0, hp_watch_set(end.watch, HP_READ), "interest in reading");
    is_int(0, hp_watch_set(end.watch, HP_READ), "the same interest again");
    hp_loop_run(loop, HP_NEVER);
    ok(end.calls == 1 && end.ready == HP_READ, "one call, to read");
    hp_loop_run(loop, 0);
    is_int(1, end.calls, "no call without bytes");
    ok(write(fds[1], "xy", 2) == 2, "two more bytes");
    hp_watch_set(end.watch, HP_READ | HP_WRITE);
    hp_loop_run(loop, 0);
    is_int(HP_READ | HP_WRITE, end.ready, "both in one run");
    end.ready = 0;
    hp_watch_set(end.watch, HP_WRITE);
    (void)!write(fds[1], "z", 1);
    hp_loop_run(loop, 0);
    is_int(HP_WRITE, end.ready, "only what was asked for");
    hp_watch_set(end.watch, 0);
    end.calls = 0;
    hp_loop_run(loop, 5 * HP_MS);
    is_int(0, end.calls, "interest taken away");
    hp_watch_free(end.watch);
    hp_watch_free(NULL);
    hp_loop_free(loop);
    close(fds[0]);
    close(fds[1]);
}

static void
on_end_free(void *arg, int ready)
{
    struct end *end = arg;
    end->calls++;
    hp_watch_free(end->watch);
    hp_watch_free(end->victim);
    close(end->fd);
}

/* Two watches are ready in one run; whichever comes first frees both. The other's call would touch freed memory. */
static void
test_free_inside(void)
{
    hp_loop *loop = hp_loop_new();
    struct end *ends[2];
    int fds[2][2];
    for (int i = 0; i < 2; i++) {
        make_pair(fds[i]);
        ends[i] = calloc(1, sizeof(struct end));
        ends[i]->fd = fds[i][0];
        ends[i]->watch = hp_watch_new(loop, fds[i][0], on_end_free, ends[i]);
        hp_watch_set(ends[i]->watch, HP_READ | HP_WRITE);
        (void)!write(fds[i][1], "x", 1);
    }
    ends[0]->victim = ends[1]->watch;
    ends[1]->victim = ends[0]->watch;
    hp_loop_run(loop, 0);
    is_int(1, ends[0]->calls + ends[1]->calls, "one of two ready watches freed both: one call");
    hp_loop_run(loop, 5 * HP_MS);
    is_int(1, ends[0]->calls + ends[1]->calls, "and no call later");
    close(fds[ends[0]->calls][0]);
    for (int i = 0; i < 2; i++) {
        close(fds[i][1]);
        free(ends[i]);
    }
    hp_loop_free(loop);
}

/* Between two readings of the clock lies what a timer goes by. */
typedef struct span {
    uint64_t least, most;
} span;

static struct {
    span due[TIMERS];
    uint64_t last;
    int fired, late, wrong;
} order;

static void
on_ordered(void *arg)
{
    const span *due = arg;
    uint64_t now = hp_now();
    order.wrong += due->most < order.last || now < due->least;
    order.late += now > due->most + (uint64_t)tap_room() * HP_SEC;
    order.last = due->least;
    order.fired++;
}

static void
test_timers(void)
{
    hp_loop *loop = hp_loop_new();
    hp_timer *timers[TIMERS];
    memset(&order, 0, sizeof(order));
    for (int i = 0; i < TIMERS; i++) {
        uint64_t after = tap_random() % (80 * HP_MS);
        timers[i] = hp_timer_new(loop, on_ordered, &order.due[i]);
        hp_timer_set(timers[i], 1000 * HP_SEC); /* and again: only the last setting counts */
        order.due[i].least = hp_now() + after;
        hp_timer_set(timers[i], after);
        order.due[i].most = hp_now() + after;
    }
    for (int i = 0; i < TIMERS; i += 10)
        hp_timer_set(timers[i], HP_NEVER);
    for (int i = 1; i < TIMERS; i += 10) {
        hp_timer_free(timers[i]);
        timers[i] = NULL;
    }
    for (tap_wait w = {0}; order.fired < TIMERS - TIMERS / 5 && tap_waits(&w);)
        hp_loop_run(loop, HP_SEC);
    is_int(TIMERS - TIMERS / 5, order.fired, "all timers but the freed and the stopped have fired");
    is_int(0, order.wrong, "in order and never early");
    is_int(0, order.late, "nor late");
    hp_loop_run(loop, 2 * HP_MS);
    is_int(TIMERS - TIMERS / 5, order.fired, "each once");
    for (int i = 0; i < TIMERS; i++)
        hp_timer_free(timers[i]);
    hp_loop_free(loop);
}

struct again {
    hp_timer *timer, *other;
    int calls;
};

static void
on_again(void *arg)
{
    struct again *again = arg;
    again->calls++;
    hp_timer_free(again->other);
    again->other = NULL;
    hp_timer_set(again->timer, 0);
}

static void
test_timer_inside(void)
{
    hp_loop *loop = hp_loop_new();
    int other = 0;
    struct again again = {0};
    again.timer = hp_timer_new(loop, on_again, &again);
    again.other = hp_timer_new(loop, count, &other);
    hp_timer_set(again.timer, 0);
    hp_timer_set(again.other, 1);
    hp_loop_run(loop, HP_MS);
    ok(again.calls >= 1 && again.calls <= 2, "a timer that sets itself to now does not hold the run");
    is_int(0, other, "a timer freed by another one does not fire");
    hp_timer_free(again.timer);
    hp_loop_free(loop);
}

static void
test_timeout(void)
{
    hp_loop *loop = hp_loop_new();
    uint64_t begin = hp_now();
    hp_loop_run(loop, 30 * HP_MS);
    uint64_t took = hp_now() - begin, best = HP_NEVER;
    ok(took >= 30 * HP_MS && (double)took / 1e9 < 2 + tap_room(), "a run of 30 ms takes 30 ms, not less (%.3f)",
       (double)took / 1e6);
    for (tap_wait w = {0}; best >= HP_MS && tap_waits(&w);) {
        begin = hp_now();
        hp_loop_run(loop, HP_MS / 5);
        took = hp_now() - begin;
        best = took < best ? took : best;
    }
    ok(best < HP_MS, "the best run of 0.2 ms takes less than 1 ms (%.3f)", (double)best / 1e6);
    begin = hp_now();
    for (int i = 0; i < 10000; i++)
        hp_loop_run(loop, 0);
    took = hp_now() - begin;
    diag("a run that does not wait takes %.0f ns", (double)took / 1e4);
    hp_loop_free(loop);
}

static void *
wake_soon(void *arg)
{
    usleep(20000);
    hp_loop_wake(arg);
    return NULL;
}

static struct {
    hp_loop *loop;
    int pushed, stop, seen; /* pushed and stop: atomic */
} hammer;

static void *
push(void *arg)
{
    for (int i = 0; i < 20000; i++) {
        __atomic_add_fetch(&hammer.pushed, 1, __ATOMIC_RELEASE);
        hp_loop_wake(hammer.loop);
        if (i % 512 == 0)
            usleep(100);
    }
    return NULL;
}

/* Runs until something wakes the loop, but a minute at most; whether it was woken. */
static int
woken(hp_loop *loop)
{
    uint64_t begin = hp_now();
    hp_loop_run(loop, 60 * HP_SEC);
    return hp_now() - begin < 50 * HP_SEC;
}

static hp_loop *signalled;

static void
on_signal(int number)
{
    hp_loop_wake(signalled);
}

static void
test_wake(void)
{
    hp_loop *loop = hp_loop_new();
    pthread_t threads[2];
    hp_loop_wake(loop);
    hp_loop_wake(loop);
    ok(woken(loop), "a wake-up before the run is not lost");
    uint64_t begin = hp_now();
    hp_loop_run(loop, 10 * HP_MS);
    ok(hp_now() - begin >= 10 * HP_MS, "two of them count once");
    pthread_create(&threads[0], NULL, wake_soon, loop);
    ok(woken(loop), "another thread wakes a running loop");
    pthread_join(threads[0], NULL);
    hammer.loop = loop;
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, push, NULL);
    /* Each run must return for what was pushed since the last look, however the two interleave. */
    while (hammer.seen < 40000) {
        hp_loop_run(loop, HP_NEVER);
        hammer.seen = __atomic_load_n(&hammer.pushed, __ATOMIC_ACQUIRE);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    is_int(40000, hammer.seen, "no wake-up of two busy threads was lost");
    hp_loop_run(loop, 0);
    struct sigaction action = {.sa_handler = on_signal};
    signalled = loop;
    sigaction(SIGALRM, &action, NULL);
    alarm(1);
    ok(woken(loop), "a signal handler wakes the loop that its signal interrupts");
    hp_loop_free(loop);
}

static void
test_mirror(void)
{
    int fds[2], fired = 0;
    hp_loop *loop = hp_loop_new();
    make_pair(fds);
    struct end end = {.fd = fds[0]};
    end.watch = hp_watch_new(loop, fds[0], on_end, &end);
    hp_timer *timer = hp_timer_new(loop, count, &fired);
    hp_watch_set(end.watch, HP_READ);
    int fd = hp_loop_fd(loop);
    ok(fd >= 3 && (fcntl(fd, F_GETFD) & FD_CLOEXEC), "a descriptor, closed on exec");
    is_int(fd, hp_loop_fd(loop), "always the same");
    ok(!readable(fd), "nothing to do: not readable");
    (void)!write(fds[1], "x", 1);
    ok(readable(fd), "a watch made before the first call");
    hp_loop_run(loop, 0);
    ok(end.calls == 1 && !readable(fd), "served, not readable any more");
    hp_watch_set(end.watch, HP_READ | HP_WRITE);
    ok(readable(fd), "a change of interest is mirrored");
    hp_watch_set(end.watch, 0);
    (void)!write(fds[1], "x", 1);
    ok(!readable(fd), "no interest is mirrored");
    hp_watch_set(end.watch, HP_READ);
    ok(readable(fd), "and interest again");
    hp_watch_free(end.watch);
    ok(!readable(fd), "a freed watch is gone");
    hp_loop_wake(loop);
    ok(readable(fd), "a wake-up");
    hp_loop_run(loop, 0);
    ok(!readable(fd), "taken");
    hp_timer_set(timer, 100 * HP_SEC);
    ok(!readable(fd), "a timer that is far away");
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    hp_timer_set(timer, 20 * HP_MS);
    ok(poll(&poller, 1, 30000) == 1, "the next timer");
    hp_loop_run(loop, 0);
    ok(fired == 1 && !readable(fd), "fired once, nothing to do");
    hp_timer_set(timer, HP_MS);
    hp_timer_set(timer, HP_NEVER);
    usleep(5000);
    ok(!readable(fd), "a timer that was stopped");
    hp_loop_run(loop, 3 * HP_MS);
    usleep(5000);
    ok(!readable(fd), "the alarm of a run leaves nothing behind");
    hp_timer_set(timer, 0);
    ok(readable(fd), "a timer that is due at once");
    hp_loop_fd_close(loop);
    hp_loop_fd_close(loop);
    ok(fcntl(fd, F_GETFD) < 0, "closed");
    hp_loop_run(loop, 0);
    is_int(2, fired, "the loop goes on without it");
    hp_loop_wake(loop);
    fd = hp_loop_fd(loop);
    ok(fd >= 3 && readable(fd), "a new one knows what is due");
    hp_timer_free(timer);
    hp_loop_free(loop);
    close(fds[0]);
    close(fds[1]);
}

/* A child that takes its copy down must not take anything out of the parent's epoll sets. */
static void
test_fork(void)
{
    int fds[2], status = -1;
    hp_loop *loop = hp_loop_new();
    make_pair(fds);
    struct end end = {.fd = fds[0]};
    end.watch = hp_watch_new(loop, fds[0], on_end, &end);
    hp_watch_set(end.watch, HP_READ);
    int mirror = hp_loop_fd(loop);
    pid_t child = fork();
    if (child == 0) {
        hp_watch_free(end.watch);
        hp_loop_free(loop);
        _exit(0);
    }
    waitpid(child, &status, 0);
    is_int(0, status, "a forked child frees its copy");
    (void)!write(fds[1], "x", 1);
    ok(readable(mirror), "the parent's mirror still sees its watch");
    hp_loop_run(loop, 2 * HP_SEC);
    is_int(1, end.calls, "the parent's watch still works");
    hp_loop_wake(loop);
    ok(woken(loop), "and so do its wake-ups");
    hp_watch_free(end.watch);
    hp_loop_free(loop);
    close(fds[0]);
    close(fds[1]);
}

/* Run in a child: 0 to 2 are closed while the loop makes its descriptors. */
static void
test_low(void)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        close_low();
        hp_loop *loop = hp_loop_new();
        int fd = loop ? hp_loop_fd(loop) : -1, good = low_is_closed();
        good &= case_ok(fd >= 3, "the loop's descriptor is %d", fd);
        hp_loop_free(loop);
        _exit(!good);
    }
    waitpid(child, &status, 0);
    is_int(0, status, "no descriptor below 3, and none left there");
}

static void
test_no_descriptors(void)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        int bad = 0, made = 0;
        close_range(3, ~0U, 0);
        for (unsigned limit = 3; limit < 12; limit++) {
            allow_descriptors(limit);
            errno = 0;
            hp_loop *loop = hp_loop_new();
            bad |= !case_ok(loop || (errno == EMFILE && !made), "%u descriptors: %s, after %d loops", limit,
                            strerror(errno), made);
            made += loop != NULL;
            hp_loop_free(loop);
        }
        _exit(bad || !case_ok(made >= 2 && made <= 5, "3 to 11 descriptors: %d loops", made));
    }
    waitpid(child, &status, 0);
    is_int(0, status, "with too few descriptors there is no loop, and errno says EMFILE");
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    test_watches();
    test_free_inside();
    test_timers();
    test_timer_inside();
    test_timeout();
    test_wake();
    test_mirror();
    test_fork();
    test_low();
    test_no_descriptors();
    return 0;
}
