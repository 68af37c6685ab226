/* SPDX-License-Identifier: MIT */
/*
 * loop: libevent's event base for descriptors, and a heap of our own for timers. libevent's precise timers cost a
 * system call in every dispatch, and its others are as coarse as the kernel's tick. Here a timerfd is armed only
 * before a sleep, and a run that does not wait costs one epoll_wait. A watch has two events, so that a change of
 * interest is one epoll_ctl. Owners free their watches and timers before the loop. The loop never closes an owner's
 * descriptor.
 */
#include "net/loop.h"

#include "base/clock.h"
#include "base/mem.h"
#include "net/socket.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { FIRST_TIMERS = 16, LOW_FDS = 3, OWN_FDS = 5 };

struct hp_loop {
    struct event_base *base;
    pid_t pid;             /* a forked child must not change the epoll sets that it shares with its parent */
    int wake_fd, timer_fd; /* eventfd, timerfd: both watched in the base */
    int mirror_fd;         /* hp_loop_fd's epoll; -1 before its first call */
    struct event wake_event, timer_event;
    atomic_int woken; /* wake_fd has been written and not yet read */
    unsigned served;  /* callbacks and wake-ups so far */
    int running;      /* in libevent: callbacks are called */
    hp_awake clock;   /* the timers' clock */
    uint64_t looked;  /* when it was read for hp_loop_now, by hp_now() */
    uint64_t armed;   /* what timer_fd is set to, by hp_now(); HP_NEVER: nothing */
    uint64_t pass;    /* while timers are fired: those due up to this time; else 0 */
    hp_timer **heap;  /* by due time; set timers only */
    size_t set, timers, room;
    hp_watch *watches; /* all of them, for the mirror */
};

struct hp_watch {
    hp_loop *loop;
    struct event read, write;
    int fd, interest;
    hp_watch_fn *fn;
    void *arg;
    hp_watch *next, **link;
};

struct hp_timer {
    hp_loop *loop;
    uint64_t due; /* HP_NEVER: not in the heap */
    size_t place; /* in the heap */
    hp_timer_fn *fn;
    void *arg;
};

/* Occupies descriptors 0 to 2, which the program may have closed, while others are made. */
static void
plug(int plugs[LOW_FDS])
{
    for (int i = 0; i < LOW_FDS; i++)
        plugs[i] = -1;
    for (int i = 0; i < LOW_FDS; i++) {
        plugs[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (plugs[i] < LOW_FDS)
            continue;
        close(plugs[i]);
        plugs[i] = -1;
        return;
    }
}

static void
unplug(const int plugs[LOW_FDS])
{
    int kept = errno;
    for (int i = 0; i < LOW_FDS; i++)
        if (plugs[i] >= 0)
            close(plugs[i]);
    errno = kept;
}

/*
 * libevent exits the process when it cannot make its signal pipe, so the descriptors that a loop needs are tried
 * first.
 */
static int
descriptors_left(void)
{
    int fds[OWN_FDS], n = 0;
    while (n < OWN_FDS && (fds[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        n++;
    int enough = n == OWN_FDS, kept = errno;
    while (n > 0)
        close(fds[--n]);
    errno = kept;
    return enough;
}

/* --- the timerfd --- */

static void
arm(hp_loop *loop, uint64_t when)
{
    if (when != loop->armed && hp_timerfd_set(loop->timer_fd, when))
        loop->armed = when;
}

uint64_t
hp_loop_now(hp_loop *loop)
{
    loop->looked = hp_now();
    return hp_awake_time(&loop->clock, loop->looked);
}

uint64_t
hp_loop_looked(const hp_loop *loop)
{
    return loop->looked;
}

/* By hp_now(). */
static uint64_t
next_due(const hp_loop *loop)
{
    return loop->set ? hp_awake_when(&loop->clock, loop->heap[0]->due) : HP_NEVER;
}

/* With a mirror the timerfd must always be right, because its owner sleeps in a poll of its own. */
static void
mirror_timer(hp_loop *loop)
{
    if (loop->mirror_fd >= 0)
        arm(loop, next_due(loop));
}

/* --- timers --- */

/* A binary heap. Creating a timer makes room for it, so setting one cannot fail. */
static void
heap_put(hp_loop *loop, size_t place, hp_timer *timer)
{
    loop->heap[place] = timer;
    timer->place = place;
}

static void
heap_up(hp_loop *loop, size_t place, hp_timer *timer)
{
    while (place > 0 && loop->heap[(place - 1) / 2]->due > timer->due) {
        heap_put(loop, place, loop->heap[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    heap_put(loop, place, timer);
}

static void
heap_down(hp_loop *loop, size_t place, hp_timer *timer)
{
    for (size_t child; (child = 2 * place + 1) < loop->set; place = child) {
        if (child + 1 < loop->set && loop->heap[child + 1]->due < loop->heap[child]->due)
            child++;
        if (timer->due <= loop->heap[child]->due)
            break;
        heap_put(loop, place, loop->heap[child]);
    }
    heap_put(loop, place, timer);
}

static void
heap_remove(hp_loop *loop, hp_timer *timer)
{
    size_t place = timer->place;
    hp_timer *last = loop->heap[--loop->set];
    timer->due = HP_NEVER;
    if (last == timer)
        return;
    if (place > 0 && loop->heap[(place - 1) / 2]->due > last->due)
        heap_up(loop, place, last);
    else
        heap_down(loop, place, last);
}

/* Fires what is due now. A timer that a callback sets waits for the next pass, so that this one ends. */
static void
fire_timers(hp_loop *loop)
{
    if (loop->set == 0)
        return;
    uint64_t now = hp_loop_now(loop);
    loop->pass = now;
    while (loop->set && loop->heap[0]->due <= now) {
        hp_timer *timer = loop->heap[0];
        heap_remove(loop, timer);
        loop->served++;
        timer->fn(timer->arg);
    }
    loop->pass = 0;
}

hp_timer *
hp_timer_new(hp_loop *loop, hp_timer_fn *fn, void *arg)
{
    if (loop->timers == loop->room) {
        size_t room = loop->room ? 2 * loop->room : FIRST_TIMERS;
        hp_timer **heap = realloc(loop->heap, room * sizeof(hp_timer *));
        if (!heap)
            return NULL;
        loop->heap = heap;
        loop->room = room;
    }
    hp_timer *timer = hp_alloc(1, sizeof(*timer));
    if (!timer)
        return NULL;
    *timer = (hp_timer){.loop = loop, .due = HP_NEVER, .fn = fn, .arg = arg};
    loop->timers++;
    return timer;
}

void
hp_timer_set(hp_timer *timer, uint64_t after_ns)
{
    hp_loop *loop = timer->loop;
    if (timer->due != HP_NEVER)
        heap_remove(loop, timer);
    uint64_t due;
    if (after_ns != HP_NEVER && !__builtin_add_overflow(hp_loop_now(loop), after_ns, &due) && due != HP_NEVER) {
        timer->due = due > loop->pass ? due : loop->pass + 1;
        heap_up(loop, loop->set++, timer);
    }
    mirror_timer(loop);
}

void
hp_timer_free(hp_timer *timer)
{
    if (!timer)
        return;
    hp_loop *loop = timer->loop;
    if (timer->due != HP_NEVER)
        heap_remove(loop, timer);
    loop->timers--;
    free(timer);
}

/* --- watches --- */

/* Of one of its two events. */
static void
on_ready(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    hp_watch *watch = arg;
    watch->loop->served++;
    watch->fn(watch->arg, what & EV_READ ? HP_READ : HP_WRITE);
}

/* After a fork: gives the child epoll sets of its own, so that its changes do not reach the parent. */
static void
part_from_parent(hp_loop *loop)
{
    if (loop->pid == getpid())
        return;
    loop->pid = getpid();
    hp_loop_fd_close(loop);
    event_reinit(loop->base);
}

hp_watch *
hp_watch_new(hp_loop *loop, int fd, hp_watch_fn *fn, void *arg)
{
    hp_watch *watch = hp_alloc(1, sizeof(*watch));
    if (!watch)
        return NULL;
    watch->loop = loop;
    watch->fd = fd;
    watch->fn = fn;
    watch->arg = arg;
    event_assign(&watch->read, loop->base, fd, EV_READ | EV_PERSIST, on_ready, watch);
    event_assign(&watch->write, loop->base, fd, EV_WRITE | EV_PERSIST, on_ready, watch);
    watch->next = loop->watches;
    watch->link = &loop->watches;
    if (watch->next)
        watch->next->link = &watch->next;
    loop->watches = watch;
    return watch;
}

static int
mirror_watch(const hp_watch *watch, int before, int after)
{
    struct epoll_event event = {.data.fd = watch->fd};
    event.events = (after & HP_READ ? EPOLLIN : 0U) | (after & HP_WRITE ? EPOLLOUT : 0U);
    int action = !before ? EPOLL_CTL_ADD : !after ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
    if (before == after)
        return 0;
    return epoll_ctl(watch->loop->mirror_fd, action, watch->fd, &event);
}

/* Adds before it removes: a descriptor that stays watched is modified, not removed and added. */
static int
change(hp_watch *watch, int interest)
{
    int add = interest & ~watch->interest, drop = watch->interest & ~interest;
    if ((add & HP_READ) && event_add(&watch->read, NULL) != 0)
        return -1;
    watch->interest |= add & HP_READ;
    if ((add & HP_WRITE) && event_add(&watch->write, NULL) != 0)
        return -1;
    watch->interest |= add & HP_WRITE;
    if (drop & HP_READ)
        event_del(&watch->read);
    if (drop & HP_WRITE)
        event_del(&watch->write);
    watch->interest &= ~drop;
    return 0;
}

int
hp_watch_set(hp_watch *watch, int interest)
{
    if (interest == watch->interest)
        return 0;
    int before = watch->interest;
    int result = change(watch, interest);
    if (watch->loop->mirror_fd >= 0 && mirror_watch(watch, before, watch->interest) != 0 && interest)
        result = -1;
    return result;
}

void
hp_watch_free(hp_watch *watch)
{
    if (!watch)
        return;
    part_from_parent(watch->loop);
    hp_watch_set(watch, 0);
    *watch->link = watch->next;
    if (watch->next)
        watch->next->link = watch->link;
    free(watch);
}

/* --- the loop itself --- */

static void
on_wake(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    hp_loop *loop = arg;
    uint64_t count;
    if (read(fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
        return;
    /* The eventfd is read first: the run that is about to return serves a thread that wakes between the two. */
    atomic_exchange(&loop->woken, 0);
    loop->served++;
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    hp_loop *loop = arg;
    uint64_t count;
    if (read(fd, &count, sizeof(count)) > 0)
        loop->armed = HP_NEVER;
}

static struct event_base *
make_base(void)
{
    struct event_config *config = event_config_new();
    if (!config)
        return NULL;
    int flags = EVENT_BASE_FLAG_NOLOCK | EVENT_BASE_FLAG_IGNORE_ENV | EVENT_BASE_FLAG_NO_CACHE_TIME;
    struct event_base *base = NULL;
    if (event_config_set_flag(config, flags) == 0 && event_config_avoid_method(config, "select") == 0 &&
        event_config_avoid_method(config, "poll") == 0)
        base = event_base_new_with_config(config);
    event_config_free(config);
    return base;
}

static int
make_descriptors(hp_loop *loop)
{
    int plugs[LOW_FDS];
    plug(plugs);
    if (descriptors_left()) {
        loop->base = make_base();
        loop->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        loop->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    }
    unplug(plugs);
    if (!loop->base || loop->wake_fd < 0 || loop->timer_fd < 0)
        return -1;
    event_assign(&loop->wake_event, loop->base, loop->wake_fd, EV_READ | EV_PERSIST, on_wake, loop);
    event_assign(&loop->timer_event, loop->base, loop->timer_fd, EV_READ | EV_PERSIST, on_timer, loop);
    return event_add(&loop->wake_event, NULL) == 0 && event_add(&loop->timer_event, NULL) == 0 ? 0 : -1;
}

hp_loop *
hp_loop_new(void)
{
    hp_loop *loop = hp_alloc(1, sizeof(*loop));
    if (!loop)
        return NULL;
    loop->pid = getpid();
    loop->wake_fd = loop->timer_fd = loop->mirror_fd = -1;
    loop->armed = HP_NEVER;
    hp_awake_sleep(&loop->clock, hp_now());
    atomic_init(&loop->woken, 0);
    if (make_descriptors(loop) == 0)
        return loop;
    int number = errno ? errno : ENOMEM;
    hp_loop_free(loop);
    errno = number;
    return NULL;
}

void
hp_loop_free(hp_loop *loop)
{
    if (!loop)
        return;
    if (loop->base) {
        part_from_parent(loop);
        event_base_free(loop->base);
    }
    int fds[] = {loop->wake_fd, loop->timer_fd, loop->mirror_fd};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(loop->heap);
    free(loop);
}

/* One turn of libevent: what is ready now, or, with EVLOOP_ONCE alone, after waiting for it. */
static int
turn(hp_loop *loop, int flags)
{
    loop->running = 1;
    int result = event_base_loop(loop->base, flags);
    loop->running = 0;
    return result;
}

int
hp_loop_is_running(const hp_loop *loop)
{
    return loop->running;
}

void
hp_loop_run(hp_loop *loop, uint64_t timeout_ns)
{
    if (timeout_ns == 0) {
        turn(loop, EVLOOP_ONCE | EVLOOP_NONBLOCK);
        fire_timers(loop);
        mirror_timer(loop);
        return;
    }
    uint64_t deadline;
    if (timeout_ns == HP_NEVER || __builtin_add_overflow(hp_now(), timeout_ns, &deadline))
        deadline = HP_NEVER;
    for (unsigned before = loop->served; loop->served == before;) {
        /* The timerfd may still be armed for an earlier sleep and ring too soon; then this goes round once more. */
        uint64_t until = next_due(loop) < deadline ? next_due(loop) : deadline;
        if (until < loop->armed)
            arm(loop, until);
        hp_awake_sleep(&loop->clock, until);
        if (turn(loop, EVLOOP_ONCE) < 0)
            break;
        fire_timers(loop);
        if (deadline != HP_NEVER && hp_now() >= deadline)
            break;
    }
    mirror_timer(loop);
}

void
hp_loop_wake(hp_loop *loop)
{
    if (atomic_exchange(&loop->woken, 1))
        return;
    int kept = errno;
    uint64_t one = 1;
    while (write(loop->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        continue;
    errno = kept;
}

int
hp_loop_fd(hp_loop *loop)
{
    if (loop->mirror_fd >= 0)
        return loop->mirror_fd;
    loop->mirror_fd = hp_socket_raise(epoll_create1(EPOLL_CLOEXEC));
    if (loop->mirror_fd < 0)
        return -1;
    struct epoll_event wake = {.events = EPOLLIN, .data.fd = loop->wake_fd};
    struct epoll_event timer = {.events = EPOLLIN, .data.fd = loop->timer_fd};
    int bad = epoll_ctl(loop->mirror_fd, EPOLL_CTL_ADD, loop->wake_fd, &wake) != 0 ||
              epoll_ctl(loop->mirror_fd, EPOLL_CTL_ADD, loop->timer_fd, &timer) != 0;
    for (const hp_watch *watch = loop->watches; watch && !bad; watch = watch->next)
        bad = mirror_watch(watch, 0, watch->interest) != 0;
    if (bad) {
        int number = errno;
        hp_loop_fd_close(loop);
        errno = number;
        return -1;
    }
    mirror_timer(loop);
    return loop->mirror_fd;
}

void
hp_loop_fd_close(hp_loop *loop)
{
    if (loop->mirror_fd >= 0)
        close(loop->mirror_fd);
    loop->mirror_fd = -1;
}
