/* SPDX-License-Identifier: MIT */
/* thread: see thread.h. */
#include "base/thread.h"

#include "base/clock.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

int
hp_thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    int number = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = number;
    return number == 0;
}

void
hp_thread_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

int
hp_thread_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t deadline)
{
    struct timespec until = {.tv_sec = (time_t)(deadline / HP_SEC), .tv_nsec = (long)(deadline % HP_SEC)};
    if (deadline == HP_NEVER)
        return pthread_cond_wait(cond, mutex) == 0;
    return pthread_cond_timedwait(cond, mutex, &until) != ETIMEDOUT;
}
