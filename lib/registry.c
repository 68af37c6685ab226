/* SPDX-License-Identifier: MIT */
/* registry: see registry.h. */
#include "lib/registry.h"

#include "base/log.h"

atomic_uint hp_registry_forks;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static hoop_comm *first;
static atomic_int blocked; /* callers' streams that wait for an operation */

/* --- forks --- */

static void
before_fork(void)
{
    hp_registry_lock();
    hp_listener_lock();
}

static void
after_fork(void)
{
    hp_listener_unlock();
    hp_registry_unlock();
}

/* The child closes descriptors and frees nothing. Its locks are made anew: the threads that held them are not in the
 * child, and a lock that knows its owner knows the parent's thread. */
static void
in_child(void)
{
    atomic_fetch_add(&hp_registry_forks, 1);
    for (const hoop_comm *comm = first; comm; comm = comm->next_registered) {
        for (uint32_t c = 0; c < comm->channels; c++)
            for (int i = 0; i < comm->channel[c]->links; i++)
                hp_link_abandon(comm->channel[c]->link[i]);
        for (const hp_dialing *d = comm->dialing; d; d = d->next)
            hp_dial_abandon(d->dial);
        if (comm->client)
            hp_client_abandon(comm->client);
        hp_probe_abandon(&comm->fault.probe);
    }
    hp_listener_abandon();
    first = NULL;
    atomic_store(&blocked, 0);
    mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
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
    hp_registry_unlock();
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
