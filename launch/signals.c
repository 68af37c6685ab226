/* SPDX-License-Identifier: MIT */
/* signals: see signals.h. A program that is started must have them unblocked (spawn.c does). */
#include "launch/signals.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* SIGHUP is ignored under nohup, SIGTSTP under a shell without job control. */
static int
stays_ignored(int number)
{
    struct sigaction old;
    return (number == SIGHUP || number == SIGTSTP) && sigaction(number, NULL, &old) == 0 && old.sa_handler == SIG_IGN;
}

static void
readable(void *arg, int ready)
{
    hp_signals *signals = arg;
    struct signalfd_siginfo info;
    (void)ready;
    while (read(signals->fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        signals->fn(signals->arg, (int)info.ssi_signo);
}

int
hp_signals_open(hp_signals *signals, hp_loop *loop, const int *numbers, void (*fn)(void *arg, int number), void *arg)
{
    sigset_t set;
    *signals = (hp_signals){.fn = fn, .arg = arg};
    sigemptyset(&set);
    for (; *numbers != 0; numbers++) {
        if (stays_ignored(*numbers))
            continue;
        signal(*numbers, SIG_DFL);
        sigaddset(&set, *numbers);
    }
    sigprocmask(SIG_BLOCK, &set, NULL);
    signals->fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (signals->fd < 0)
        return -1;
    signals->watch = hp_watch_new(loop, signals->fd, readable, signals);
    return !signals->watch ? -1 : hp_watch_set(signals->watch, HP_READ);
}

void
hp_signals_close(hp_signals *signals)
{
    if (!signals->watch)
        return;
    hp_watch_free(signals->watch);
    close(signals->fd);
    signals->watch = NULL;
}
