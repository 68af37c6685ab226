/* SPDX-License-Identifier: MIT */
/* baton: see baton.h. */
#include "lib/baton.h"

#include "base/clock.h"
#include "base/thread.h"

/* Why a sleeper was woken. */
enum { ASLEEP, TO_DRIVE, DONE };

void
hp_baton_init(hp_driver *d)
{
    pthread_mutex_init(&d->mutex, NULL);
    pthread_mutex_init(&d->splitting, NULL);
    hp_thread_cond_init(&d->changed);
}

/* --- threads that sleep --- */

static void
wake(hp_waiter *w, int why)
{
    pthread_mutex_lock(&w->mutex);
    if (atomic_load(&w->wake) < why)
        atomic_store(&w->wake, why);
    pthread_cond_signal(&w->woken);
    pthread_mutex_unlock(&w->mutex);
}

/*
 * Under the driver's mutex: if the baton is free, the sleeper that came first is to drive. One that was woken for that
 * and has not run yet takes it, or calls this. A thread that asks for the baton comes before, and then gives it back.
 */
static void
call_next(const hp_driver *d)
{
    if (d->held || atomic_load(&d->yield))
        return;
    for (hp_waiter *w = atomic_load(&d->sleepers); w; w = w->next) {
        int why = atomic_load(&w->wake);
        if (why == ASLEEP)
            wake(w, TO_DRIVE);
        if (why != DONE)
            return;
    }
}

/* If it is in the list still. It may have been the one to drive. */
static void
leave(hp_driver *d, const hp_waiter *w)
{
    hp_waiter *before = atomic_load(&d->sleepers);
    if (before == w)
        atomic_store(&d->sleepers, w->next);
    while (before && before->next != w)
        before = before->next;
    if (before)
        before->next = w->next;
    call_next(d);
}

/* Under the driver's mutex. */
static int
take_free(hp_driver *d, const hp_waiter *w)
{
    if (d->held || atomic_load(&d->yield) || hp_baton_state(w) != HP_WAIT_PENDING)
        return 0;
    d->held = HP_BATON_HELD;
    return 1;
}

/*
 * Under the driver's mutex. `wake` is cleared before the works are looked at, since one of another communicator may end
 * between the two.
 */
static int
await_turn(hp_waiter *w, uint64_t deadline)
{
    hp_driver *d = &w->comm->driver;
    int taken, in_time = 1;
    hp_waiter *last = atomic_load(&d->sleepers);
    while (last && last->next)
        last = last->next;
    w->next = NULL;
    if (last)
        last->next = w;
    else
        atomic_store(&d->sleepers, w);
    if (d->held == HP_BATON_BACKGROUND)
        hp_loop_wake(w->comm->loop); /* that thread rests while others want to drive */
    for (;;) {
        atomic_store(&w->wake, ASLEEP);
        taken = take_free(d, w);
        hp_wait_state state = hp_baton_state(w);
        if (taken || state == HP_WAIT_OVER || !in_time)
            break;
        if (state == HP_WAIT_CALLED)
            leave(d, w);
        pthread_mutex_unlock(&d->mutex);
        pthread_mutex_lock(&w->mutex);
        while (!atomic_load(&w->wake) && hp_thread_wait(&w->woken, &w->mutex, deadline))
            continue;
        in_time = atomic_load(&w->wake) != ASLEEP;
        pthread_mutex_unlock(&w->mutex);
        pthread_mutex_lock(&d->mutex);
    }
    leave(d, w);
    return taken;
}

int
hp_baton_await(hp_waiter *w, uint64_t deadline)
{
    hp_driver *d = &w->comm->driver;
    pthread_mutex_lock(&d->mutex);
    int taken = take_free(d, w);
    pthread_mutex_unlock(&d->mutex);
    if (taken || hp_now() >= deadline)
        return taken;
    hp_baton_watch(w);
    pthread_mutex_lock(&d->mutex);
    taken = await_turn(w, deadline);
    pthread_mutex_unlock(&d->mutex);
    return taken;
}

static void
set_waiter(const hp_waiter *w, hp_waiter *to)
{
    for (size_t i = 0; i < w->count; i++) {
        hoop_work *work = w->works[i];
        if (!work)
            continue;
        pthread_mutex_lock(&work->comm->driver.mutex);
        work->waiter = to;
        pthread_mutex_unlock(&work->comm->driver.mutex);
        if (to)
            atomic_fetch_or(&work->state, HP_WORK_AWAITED); /* whoever sets the bit that ends it sees this one, */
    }                                                       /* or the thread sees that bit before it sleeps */
}

void
hp_baton_watch(hp_waiter *w)
{
    if (w->known)
        return;
    pthread_mutex_init(&w->mutex, NULL);
    hp_thread_cond_init(&w->woken);
    set_waiter(w, w);
    w->known = 1;
}

void
hp_baton_forget(hp_waiter *w)
{
    if (!w->known)
        return;
    set_waiter(w, NULL);
    pthread_cond_destroy(&w->woken);
    pthread_mutex_destroy(&w->mutex);
    w->known = 0;
}

/* The work may be free again, or another operation already: then its waiter looks, and sleeps on. */
void
hp_baton_tell(hoop_comm *comm, const hoop_work *work)
{
    pthread_mutex_lock(&comm->driver.mutex);
    hp_waiter *w = work->waiter;
    if (w)
        wake(w, DONE);
    if (w && w->comm != comm)
        hp_loop_wake(w->comm->loop);
    pthread_mutex_unlock(&comm->driver.mutex);
}

/* --- threads that want it for something else --- */

/* `yield` counts the threads that ask. No thread takes the baton in order to drive while one does. */
static void
ask(hoop_comm *comm, uint64_t deadline)
{
    hp_driver *d = &comm->driver;
    atomic_fetch_add(&d->yield, 1);
    do
        hp_loop_wake(comm->loop);
    while (hp_thread_wait(&d->changed, &d->mutex, deadline) && d->held);
    if (atomic_fetch_sub(&d->yield, 1) == 1 && d->held)
        pthread_cond_broadcast(&d->changed);
}

int
hp_baton_take(hoop_comm *comm, uint64_t deadline)
{
    hp_driver *d = &comm->driver;
    int taken;
    pthread_mutex_lock(&d->mutex);
    if (d->held && hp_now() < deadline)
        ask(comm, deadline);
    taken = !d->held;
    if (taken)
        d->held = HP_BATON_HELD;
    pthread_mutex_unlock(&d->mutex);
    return taken;
}

int
hp_baton_try(hoop_comm *comm)
{
    return hp_baton_take(comm, 0);
}

void
hp_baton_give(hoop_comm *comm)
{
    hp_driver *d = &comm->driver;
    pthread_mutex_lock(&d->mutex);
    d->held = HP_BATON_FREE;
    if (atomic_load(&d->yield) || (d->has_thread && !atomic_load(&d->here)))
        pthread_cond_broadcast(&d->changed);
    call_next(d);
    pthread_mutex_unlock(&d->mutex);
}
