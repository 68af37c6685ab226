/* SPDX-License-Identifier: MIT */
/* fake_loop: see fake_loop.h. Watches and timers are two lists; a callback may free any of them. */
#include "t/launch/fake_loop.h"

#include "base/clock.h"
#include "t/tap/tap.h"

#include <poll.h>
#include <stdlib.h>

struct hp_watch {
    hp_watch *next;
    int fd, interest, dead;
    hp_watch_fn *fn;
    void *arg;
};

struct hp_timer {
    hp_timer *next;
    uint64_t due;
    int dead;
    hp_timer_fn *fn;
    void *arg;
};

struct hp_loop {
    hp_watch *watches;
    hp_timer *timers;
};

int (*fake_loop_next)(void);

static uint64_t now = 1000 * HP_SEC;
static hp_loop *the_loop;

uint64_t __wrap_hp_now(void);

uint64_t
__wrap_hp_now(void)
{
    return now;
}

uint64_t
hp_loop_now(hp_loop *loop)
{
    (void)loop;
    return now;
}

hp_loop *
hp_loop_new(void)
{
    the_loop = calloc(1, sizeof(*the_loop));
    return the_loop;
}

/* What is dead is kept until here, so that a callback may free it while the lists are gone through. */
void
hp_loop_free(hp_loop *loop)
{
    for (hp_watch *w = loop->watches, *next; w; w = next) {
        next = w->next;
        free(w);
    }
    for (hp_timer *t = loop->timers, *next; t; t = next) {
        next = t->next;
        free(t);
    }
    free(loop);
}

void
hp_loop_wake(hp_loop *loop)
{
    (void)loop;
}

int
hp_loop_fd(hp_loop *loop)
{
    (void)loop;
    return -1;
}

/* --- watches --- */

hp_watch *
hp_watch_new(hp_loop *loop, int fd, hp_watch_fn *fn, void *arg)
{
    hp_watch *watch = calloc(1, sizeof(*watch));
    *watch = (hp_watch){.next = loop->watches, .fd = fd, .fn = fn, .arg = arg};
    loop->watches = watch;
    return watch;
}

int
hp_watch_set(hp_watch *watch, int interest)
{
    watch->interest = interest;
    return 0;
}

void
hp_watch_free(hp_watch *watch)
{
    if (watch)
        watch->dead = 1;
}

static int
run_watch(hp_watch *watch)
{
    struct pollfd p = {.fd = watch->fd};
    p.events = (short)((watch->interest & HP_READ ? POLLIN : 0) | (watch->interest & HP_WRITE ? POLLOUT : 0));
    if (watch->dead || p.events == 0 || poll(&p, 1, 0) <= 0)
        return 0;
    watch->fn(watch->arg, watch->interest);
    return 1;
}

/* --- timers --- */

hp_timer *
hp_timer_new(hp_loop *loop, hp_timer_fn *fn, void *arg)
{
    hp_timer *timer = calloc(1, sizeof(*timer));
    *timer = (hp_timer){.next = loop->timers, .due = HP_NEVER, .fn = fn, .arg = arg};
    loop->timers = timer;
    return timer;
}

void
hp_timer_set(hp_timer *timer, uint64_t after_ns)
{
    timer->due = after_ns == HP_NEVER ? HP_NEVER : now + after_ns;
}

void
hp_timer_free(hp_timer *timer)
{
    if (timer)
        timer->dead = 1;
}

static uint64_t
next_due(const hp_loop *loop)
{
    uint64_t due = HP_NEVER;
    for (const hp_timer *t = loop->timers; t; t = t->next)
        if (!t->dead && t->due < due)
            due = t->due;
    return due;
}

static int
run_timers(hp_loop *loop)
{
    int ran = 0;
    for (hp_timer *t = loop->timers; t; t = t->next)
        if (!t->dead && t->due <= now) {
            t->due = HP_NEVER;
            t->fn(t->arg);
            ran++;
        }
    return ran;
}

/* --- running --- */

static int
run_once(hp_loop *loop)
{
    int ran = run_timers(loop);
    for (hp_watch *w = loop->watches; w; w = w->next)
        ran += run_watch(w);
    return ran;
}

int
fake_loop_settle(hp_loop *loop)
{
    int all = 0;
    for (int ran = 1, rounds = 0; ran > 0; rounds++) {
        if (rounds > 100000)
            bail("a callback is called again and again");
        ran = run_once(loop);
        all += ran;
    }
    return all;
}

void
fake_loop_advance(hp_loop *loop, uint64_t ns)
{
    uint64_t end = now + ns;
    fake_loop_settle(loop);
    for (uint64_t due; (due = next_due(loop)) <= end;) {
        now = due > now ? due : now;
        fake_loop_settle(loop);
    }
    now = end;
}

void
hp_loop_run(hp_loop *loop, uint64_t timeout_ns)
{
    if (run_once(loop) > 0 || timeout_ns == 0 || (fake_loop_next && fake_loop_next()))
        return;
    uint64_t due = next_due(loop);
    if (due == HP_NEVER)
        bail("the program waits for nothing");
    now = due;
}
