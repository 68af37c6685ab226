/* SPDX-License-Identifier: MIT */
/* thread: see thread.h. */
#include "base/thread.h"

#include "base/clock.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

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
hp_thread_pin(void)
{
    Dl_info here;
    if (dladdr((void *)(uintptr_t)hp_thread_pin, &here) && here.dli_fname)
        dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
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

/* --- interrupts --- */

static _Atomic(hoop_interrupt_fn *) function;
static _Atomic(void *) argument;

static _Thread_local struct {
    uint64_t asked;
    int inside; /* the function itself has called hoop */
    int off;
} here;

void
hoop_interrupt_by(hoop_interrupt_fn *fn, void *arg)
{
    atomic_store(&argument, arg);
    atomic_store(&function, fn);
}

int
hp_interrupt_is_set(void)
{
    return atomic_load_explicit(&function, memory_order_acquire) != NULL;
}

int
hp_interrupt_is_due(void)
{
    return hp_interrupt_is_set() && !here.inside && hp_now() - here.asked >= HP_INTERRUPT_MS * HP_MS &&
           syscall(SYS_gettid) == (long)getpid();
}

int
hp_interrupt_asks(void)
{
    hoop_interrupt_fn *fn = atomic_load(&function);
    if (here.off || !fn || !hp_interrupt_is_due())
        return here.off;
    here.asked = hp_now();
    here.inside = 1;
    here.off = fn(atomic_load(&argument)) != 0;
    here.inside = 0;
    return here.off;
}

int
hp_interrupt_take(void)
{
    int off = here.off;
    here.off = 0;
    return off;
}
