/* SPDX-License-Identifier: MIT */
/*
 * loop: libevent's event base behind a few functions: watches, timers, and wake-ups from other threads. One thread at
 * a time uses it; only hp_loop_wake may be called from others, and from signal handlers.
 */
#ifndef HP_LOOP_H
#define HP_LOOP_H

#include <stdint.h>

typedef struct hp_loop hp_loop;
typedef struct hp_watch hp_watch;
typedef struct hp_timer hp_timer;

enum { HP_READ = 1, HP_WRITE = 2 };
typedef void hp_watch_fn(void *arg, int ready); /* ready: HP_READ | HP_WRITE */
typedef void hp_timer_fn(void *arg);

/*
 * The time for limits and timers. It does not count time in which no thread ran the loop or asked for the time, for
 * example because the process was stopped (hp_awake). Code that has a loop uses no other clock.
 */
uint64_t hp_loop_now(hp_loop *loop);

/* CLOCK_MONOTONIC when that time was last asked for. It may be some time ago; asking costs nothing. */
uint64_t hp_loop_looked(const hp_loop *loop);

hp_loop *hp_loop_new(void); /* NULL: memory or descriptors ran out (errno) */
void hp_loop_free(hp_loop *loop);

/* Serves what is ready; waits for that up to timeout_ns (0: does not wait, HP_NEVER: for ever). */
void hp_loop_run(hp_loop *loop, uint64_t timeout_ns);
int hp_loop_is_running(const hp_loop *loop); /* 1 inside its callbacks, where hp_loop_run must not be called */
void hp_loop_wake(hp_loop *loop);            /* makes the running or next hp_loop_run return soon */

/*
 * Level-triggered. The interest is empty at first; setting the same interest again costs nothing. May be freed in
 * callbacks.
 */
hp_watch *hp_watch_new(hp_loop *loop, int fd, hp_watch_fn *fn, void *arg);
int hp_watch_set(hp_watch *watch, int interest); /* 0, or -1 with errno */
void hp_watch_free(hp_watch *watch);             /* NULL is fine; does not close the descriptor */

hp_timer *hp_timer_new(hp_loop *loop, hp_timer_fn *fn, void *arg);
void hp_timer_set(hp_timer *timer, uint64_t after_ns); /* one shot; HP_NEVER: off */
void hp_timer_free(hp_timer *timer);

/*
 * Returns an epoll descriptor that is readable whenever hp_loop_run(loop, 0) has work. From the first call on all
 * watches and the next timer are mirrored into it. -1 with errno.
 */
int hp_loop_fd(hp_loop *loop);
void hp_loop_fd_close(hp_loop *loop); /* and the next hp_loop_fd makes a new one */

#endif
