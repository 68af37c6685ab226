/* SPDX-License-Identifier: MIT */
/* registry: see registry.h. */
#include "lib/registry.h"

#include "base/log.h"
#include "lib/server_thread.h"
#include "net/socket.h"

atomic_uint hp_registry_forks;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static hoop_comm *first;
static atomic_int several; /* they are more than one */
static atomic_int blocked; /* callers' streams that wait for an operation */

/* --- forks --- */

static void
before_fork(void)
{
    hp_registry_lock();
    hp_listener_lock();
    hp_server_thread_before_fork();
    hp_socket_lock();
}

static void
after_fork(void)
{
    hp_socket_unlock();
    hp_server_thread_after_fork();
    hp_listener_unlock();
    hp_registry_unlock();
}

/*
 * The child closes all sockets and frees nothing: threads that are not in the child may have been changing all else. The
 * thread that has forked holds the locks in the child as in the parent, and unlocks them there, too. No lock here knows
 * its owner: that would be the parent's thread.
 */
static void
in_child(void)
{
    atomic_fetch_add(&hp_registry_forks, 1);
    hp_socket_forked();
    hp_listener_forked();
    hp_server_thread_forked();
    first = NULL;
    atomic_store(&several, 0);
    atomic_store(&blocked, 0);
    hp_registry_unlock();
    hp_log_forked();
}

static void
watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
}

unsigned
hp_registry_watch_forks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    return hp_forks();
}

/* --- the list --- */

void
hp_registry_lock(void)
{
    pthread_mutex_lock(&mutex);
}

int
hp_registry_try(void)
{
    return pthread_mutex_trylock(&mutex) == 0;
}

void
hp_registry_unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

void
hp_registry_add(hoop_comm *comm)
{
    hp_registry_lock();
    comm->next_registered = first;
    if (first)
        first->previous_registered = comm;
    first = comm;
    atomic_store(&several, comm->next_registered != NULL);
    hp_registry_unlock();
}

void
hp_registry_remove(hoop_comm *comm)
{
    hp_registry_lock();
    if (comm->next_registered)
        comm->next_registered->previous_registered = comm->previous_registered;
    if (comm->previous_registered)
        comm->previous_registered->next_registered = comm->next_registered;
    else if (first == comm)
        first = comm->next_registered;
    atomic_store(&several, first && first->next_registered);
    hp_registry_unlock();
}

int
hp_registry_has_several(void)
{
    return atomic_load_explicit(&several, memory_order_relaxed);
}

hoop_comm *
hp_registry_first(void)
{
    return first;
}

/* --- streams --- */

void
hp_registry_block(hoop_comm *comm, int change)
{
    atomic_fetch_add(&comm->gpu.blocked, change);
    atomic_fetch_add(&blocked, change);
}

int
hp_registry_blocked(void)
{
    return atomic_load(&blocked) > 0;
}
