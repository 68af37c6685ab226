/* SPDX-License-Identifier: MIT */
/*
 * interrupt: a program may call off what its main thread waits for inside hoop (hoop_interrupt_by is here): languages
 * whose handlers of signals run between two calls of C only, as Python's, ask for Ctrl-C this way.
 */
#ifndef HP_INTERRUPT_H
#define HP_INTERRUPT_H

#include "hoop.h"

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
