/* SPDX-License-Identifier: MIT */
/* server_thread: see server_thread.h. */
#include "lib/server_thread.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/thread.h"

#include <errno.h>
#include <stdlib.h>

enum { CLOSE_MS = 1000, LOOK_MS = 10, DELIVER_MS = 1 }; /* no event tells that a host has the last bytes */
enum { REST_MS = 1000 }; /* a fork waits no longer: the program's own log function may wait for the fork */

typedef struct server_thread {
    pthread_t thread;
    hp_loop *loop;
    hp_server *server;
    hp_addr announced, own;
    pthread_mutex_t mutex; /* of the fields below */
    pthread_cond_t changed;
    int stop, pause;
    int rests;      /* the thread is in no event */
    int delivering; /* a thread waits until the hosts of the ranks have all */
} server_thread;

static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;
/* Of the pointer, behind `changing`. A fork takes it, so a thread that holds it does not wait for the server's to end. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static server_thread *current;

void
hp_server_thread_lock(void)
{
    pthread_mutex_lock(&changing);
}

void
hp_server_thread_unlock(void)
{
    pthread_mutex_unlock(&changing);
}

/* --- the thread --- */

static void *
run(void *arg)
{
    server_thread *t = arg;
    pthread_mutex_lock(&t->mutex);
    while (!t->stop) {
        if (t->pause) {
            t->rests = 1;
            pthread_cond_broadcast(&t->changed);
            while (t->pause && !t->stop)
                pthread_cond_wait(&t->changed, &t->mutex);
            t->rests = 0;
        }
        int delivering = t->delivering; /* then this turn reads what was sent to the server before */
        pthread_mutex_unlock(&t->mutex);
        hp_loop_run(t->loop, delivering ? DELIVER_MS * HP_MS : HP_NEVER);
        pthread_mutex_lock(&t->mutex);
        if (delivering && hp_server_is_closed(t->server)) {
            t->delivering = 0;
            pthread_cond_broadcast(&t->changed);
        }
    }
    pthread_mutex_unlock(&t->mutex);
    /* What the ranks were sent last reaches them, unless their hosts do not answer. */
    uint64_t until = hp_loop_now(t->loop) + CLOSE_MS * HP_MS;
    hp_server_close(t->server);
    while (!hp_server_is_closed(t->server) && hp_loop_now(t->loop) < until)
        hp_loop_run(t->loop, LOOK_MS * HP_MS);
    pthread_mutex_lock(&t->mutex);
    t->rests = 1;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->mutex);
    return NULL;
}

static void
take_down(server_thread *t)
{
    hp_server_free(t->server);
    if (t->loop)
        hp_loop_free(t->loop);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->mutex);
    free(t);
}

hoop_result
hp_server_thread_start(const hp_server_options *options, hoop_error *error)
{
    server_thread *t = hp_alloc(1, sizeof(*t));
    if (!t)
        return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory for a rendezvous server");
    pthread_mutex_init(&t->mutex, NULL);
    hp_thread_cond_init(&t->changed);
    t->loop = hp_loop_new();
    if (!t->loop)
        hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot make an event loop for the rendezvous server");
    else
        t->server = hp_server_new(t->loop, options, error);
    if (t->server && hp_thread_start(&t->thread, run, t)) {
        pthread_mutex_lock(&lock);
        current = t;
        pthread_mutex_unlock(&lock);
        return HOOP_SUCCESS;
    }
    if (t->server)
        hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot start a thread for the rendezvous server");
    take_down(t);
    return error->code;
}

const hp_addr *
hp_server_thread_addr(void)
{
    return current ? hp_server_addr(current->server) : NULL;
}

int
hp_server_thread_is_here(void)
{
    pthread_mutex_lock(&lock);
    int here = current != NULL;
    pthread_mutex_unlock(&lock);
    return here;
}

void
hp_server_thread_announce(const hp_addr *announced, const hp_addr *own)
{
    pthread_mutex_lock(&lock);
    current->announced = *announced;
    current->own = *own;
    pthread_mutex_unlock(&lock);
}

void
hp_server_thread_come_home(hp_addr *server)
{
    pthread_mutex_lock(&lock);
    if (current && hp_addr_same(server, &current->announced))
        *server = current->own;
    pthread_mutex_unlock(&lock);
}

void
hp_server_thread_stop(void)
{
    server_thread *t = current;
    if (!t)
        return;
    pthread_mutex_lock(&t->mutex);
    t->stop = 1;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->mutex);
    hp_loop_wake(t->loop);
    pthread_join(t->thread, NULL); /* it may be in the program's log function, which may wait for a thread that forks */
    pthread_mutex_lock(&lock);
    current = NULL;
    pthread_mutex_unlock(&lock);
    take_down(t);
}

/* --- forks --- */

void
hp_server_thread_before_fork(void)
{
    server_thread *t;
    pthread_mutex_lock(&lock);
    t = current;
    if (!t)
        return;
    pthread_mutex_lock(&t->mutex);
    t->pause = 1;
    hp_loop_wake(t->loop);
    uint64_t until = hp_now() + REST_MS * HP_MS;
    while (!t->rests && hp_thread_wait(&t->changed, &t->mutex, until))
        continue;
}

void
hp_server_thread_after_fork(void)
{
    server_thread *t = current;
    if (t) {
        t->pause = 0;
        pthread_cond_broadcast(&t->changed);
        pthread_mutex_unlock(&t->mutex);
    }
    pthread_mutex_unlock(&lock);
}

void
hp_server_thread_deliver(void)
{
    pthread_mutex_lock(&lock);
    server_thread *t = current;
    if (t) {
        uint64_t until = hp_now() + CLOSE_MS * HP_MS;
        pthread_mutex_lock(&t->mutex);
        t->delivering = 1;
        hp_loop_wake(t->loop);
        while (t->delivering && hp_thread_wait(&t->changed, &t->mutex, until))
            continue;
        t->delivering = 0;
        pthread_mutex_unlock(&t->mutex);
    }
    pthread_mutex_unlock(&lock);
}

void
hp_server_thread_forked(void)
{
    if (current)
        pthread_mutex_unlock(&current->mutex);
    current = NULL;
    pthread_mutex_unlock(&lock);
    changing = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; /* a thread of the parent may have held it */
}
