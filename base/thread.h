/* SPDX-License-Identifier: MIT */
/*
 * thread: the library's own threads, which take no signals of the program's; what threads wait on: conditions by the clock
 * of hp_now(), which setting the host's time does not move; and how the program calls off what its main thread waits for.
 */
#ifndef HP_THREAD_H
#define HP_THREAD_H

#include "hoop.h"

#include <pthread.h>
#include <stdint.h>

/* 1: it runs; 0: the system has no room for another thread (errno). */
int hp_thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);

/*
 * This library stays in memory until the process ends, also if the program unloads it: a thread that is left behind in a call
 * of another library has to return here.
 */
void hp_thread_pin(void);

void hp_thread_cond_init(pthread_cond_t *cond);

/* Waits on the condition until `deadline`, by hp_now(); HP_NEVER: without an end. 0: the deadline has passed. */
int hp_thread_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t deadline);

/* --- interrupts --- */

/*
 * A program may call off what its main thread waits for inside hoop (hoop_interrupt_by is here): languages whose handlers
 * of signals run between two calls of C only, as Python's, ask for Ctrl-C this way.
 */
enum { HP_INTERRUPT_MS = 100 };

/* Whether the program has such a function: then a thread that waits asks at least every HP_INTERRUPT_MS. */
int hp_interrupt_is_set(void);

/* This is the main thread, and HP_INTERRUPT_MS have passed since the program was asked last. */
int hp_interrupt_is_due(void);

/*
 * Asks the program if that is due. 1: the call of this thread is off, also for who asks again, until that is taken. The
 * function may use hoop, or wait for other threads: no lock may be held.
 */
int hp_interrupt_asks(void);

/* 1: the call of this thread was off; the next one is not. */
int hp_interrupt_take(void);

#endif
