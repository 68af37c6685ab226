/* SPDX-License-Identifier: MIT */
/*
 * fake_loop: net/loop.h for tests, linked instead of net/loop.c. Time stands still unless the test moves it, hp_now()
 * included (link with FAKES); descriptors are real, and looked at without waiting. One loop at a time.
 */
#ifndef T_LAUNCH_FAKE_LOOP_H
#define T_LAUNCH_FAKE_LOOP_H

#include "net/loop.h"

/* Runs what is ready until nothing is; how many callbacks that were. */
int fake_loop_settle(hp_loop *loop);

/* Moves the time on, step by step, so that every timer fires at its own time; settles after each. */
void fake_loop_advance(hp_loop *loop, uint64_t ns);

/*
 * What happens next while a program's own loop runs: hp_loop_run calls it if nothing is ready. It makes something happen;
 * 0 if it knows of nothing more. The time moves on to the next timer then, and without a timer the test has failed.
 */
extern int (*fake_loop_next)(void);

#endif
