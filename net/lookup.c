/* SPDX-License-Identifier: MIT */
/*
 * lookup: see lookup.h. Not getaddrinfo_a: it cannot be cancelled either, and after a fork its threads are gone while
 * its bookkeeping is not. Not libevent's resolver: it asks DNS only, and ignores nsswitch.conf. The waiting thread
 * owns the lookup until it gives up; then the resolving thread does.
 */
#include "net/lookup.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "net/socket.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

typedef struct lookup {
    pthread_mutex_t mutex;
    pthread_cond_t over;
    char *host;
    int done, abandoned;
    int reason, number; /* number: errno */
    struct addrinfo *found;
} lookup;

static int
resolve(const char *host, int flags, struct addrinfo **found)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags};
    *found = NULL;
    return getaddrinfo(host, NULL, &hints, found);
}

static void
discard(lookup *l)
{
    if (l->found)
        freeaddrinfo(l->found);
    pthread_mutex_destroy(&l->mutex);
    pthread_cond_destroy(&l->over);
    free(l->host);
    free(l);
}

static void *
run(void *arg)
{
    lookup *l = arg;
    struct addrinfo *found;
    int reason = resolve(l->host, 0, &found), number = errno;
    pthread_mutex_lock(&l->mutex);
    l->found = found;
    l->reason = reason;
    l->number = number;
    l->done = 1;
    int abandoned = l->abandoned;
    pthread_cond_signal(&l->over);
    pthread_mutex_unlock(&l->mutex);
    if (abandoned)
        discard(l);
    return NULL;
}

static lookup *
make(const char *host)
{
    lookup *l = hp_alloc(1, sizeof(*l));
    if (!l)
        return NULL;
    pthread_mutex_init(&l->mutex, NULL);
    hp_thread_cond_init(&l->over);
    l->host = hp_strdup(host);
    if (l->host)
        return l;
    discard(l);
    return NULL;
}

/* 1: the answer is there; 0: the time is up, or the call is off, and the resolving thread owns the lookup. */
static int
await(lookup *l, hp_loop *loop, uint64_t deadline)
{
    int off = 0;
    pthread_mutex_lock(&l->mutex);
    while (!l->done && !off && hp_loop_now(loop) < deadline) {
        hp_thread_wait(&l->over, &l->mutex, hp_now() + HP_INTERRUPT_MS * HP_MS);
        pthread_mutex_unlock(&l->mutex);
        off = hp_interrupt_asks();
        pthread_mutex_lock(&l->mutex);
    }
    int done = l->done;
    l->abandoned = !done;
    pthread_mutex_unlock(&l->mutex);
    return done;
}

/* The resolving thread still has to return into this code, even if the program unloads the library first. */
static void
stay_loaded(void)
{
    Dl_info here;
    if (dladdr((void *)(uintptr_t)run, &here) && here.dli_fname)
        dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

int
hp_lookup(const char *host, hp_loop *loop, uint64_t deadline, struct addrinfo **found)
{
    pthread_t thread;
    hp_socket_lock(); /* for the interface of an address it opens a socket */
    int numeric = resolve(host, AI_NUMERICHOST, found);
    hp_socket_unlock();
    if (numeric != EAI_NONAME)
        return numeric; /* an address; or, as for want of memory, not even known to be a name */
    if (!loop)
        return resolve(host, 0, found);
    lookup *l = make(host);
    if (!l)
        return EAI_MEMORY;
    int number = hp_thread_start(&thread, run, l) ? 0 : errno;
    if (number == 0 && !await(l, loop, deadline)) {
        pthread_detach(thread);
        stay_loaded();
        return HP_LOOKUP_LATE;
    }
    if (number == 0)
        pthread_join(thread, NULL);
    int reason = number ? EAI_SYSTEM : l->reason;
    int kept = number ? number : l->number;
    *found = l->found;
    l->found = NULL;
    discard(l);
    errno = kept;
    return reason;
}
