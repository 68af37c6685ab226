/* SPDX-License-Identifier: MIT */
/* signals: signals as events of a loop (signalfd). hp_signals_open blocks them; then they come one by one. */
#ifndef HP_LAUNCH_SIGNALS_H
#define HP_LAUNCH_SIGNALS_H

#include "net/loop.h"

typedef struct hp_signals {
    int fd;
    hp_watch *watch;
    void (*fn)(void *arg, int number);
    void *arg;
} hp_signals;

/*
 * numbers: ended by 0; SIGHUP and SIGTSTP stay ignored if this process was started so. Returns 0, or -1 with errno.
 */
int hp_signals_open(hp_signals *signals, hp_loop *loop, const int *numbers, void (*fn)(void *arg, int number),
                    void *arg);
void hp_signals_close(hp_signals *signals); /* zeroed memory is fine */

#endif
