/* SPDX-License-Identifier: MIT */
/*
 * lookup: see lookup.h. Not getaddrinfo_a: it cannot be cancelled either, and after a fork its threads are gone while
 * its bookkeeping is not. Not libevent's resolver: it asks DNS only, and ignores nsswitch.conf. The waiting thread
 * owns the lookup until it gives up; then the resolving thread does.
 */
#include "net/lookup.h"

#include "base/clock.h"
#include "base/mem.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

enum { POLL_MS = 100 };

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
    pthread_condattr_t monotonic;
    if (!l)
        return NULL;
    pthread_mutex_init(&l->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&l->over, &monotonic);
    pthread_condattr_destroy(&monotonic);
    l->host = hp_strdup(host);
    if (l->host)
        return l;
    discard(l);
    return NULL;
}

/* All signals are blocked in the resolving thread. */
static int
start(lookup *l, pthread_t *thread)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    int number = pthread_create(thread, NULL, run, l);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return number;
}

/* 1: the answer is there; 0: the time is up, and the resolving thread owns the lookup. */
static int
await(lookup *l, hp_loop *loop, uint64_t deadline)
{
    pthread_mutex_lock(&l->mutex);
    while (!l->done && hp_loop_now(loop) < deadline) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += POLL_MS * (long)HP_MS;
        until.tv_sec += until.tv_nsec / (long)HP_SEC;
        until.tv_nsec %= (long)HP_SEC;
        pthread_cond_timedwait(&l->over, &l->mutex, &until);
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
    int numeric = resolve(host, AI_NUMERICHOST, found);
    if (numeric != EAI_NONAME)
        return numeric; /* an address; or, as for want of memory, not even known to be a name */
    if (!loop)
        return resolve(host, 0, found);
    lookup *l = make(host);
    if (!l)
        return EAI_MEMORY;
    int number = start(l, &thread);
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
