/* SPDX-License-Identifier: MIT */
/* interrupt: see interrupt.h. */
#include "base/interrupt.h"

#include "base/clock.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

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
