/* SPDX-License-Identifier: MIT */
/* listener: see listener.h. */
#include "lib/listener.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { RECENT = 1024, DISPUTED_MS = 3000 }; /* a rank is in 256 communicators at a time */

struct hp_listener {
    hp_acceptor *acceptor;
    hp_listener_options options;
    hp_listener_entry *entries;
    unsigned left;           /* communicators that have left so far, */
    uint64_t recent[RECENT]; /* and the numbers of the latest ones */
    struct hp_listener *next;
};

/* A thread that holds the lock logs nothing: the program's log function may fork, which takes the lock. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static hp_listener *listeners;
/* The last job of which threads of this process asked to be two ranks: a third may ask when both have given up. */
static struct {
    uint8_t hello[sizeof(((hp_keys *)0)->hello)];
    hp_addr server;
    int rank;       /* which this process is to those that ask */
    uint64_t until; /* by hp_now(); after that a program may have begun anew */
} disputed;
static hp_log_queue log_queue; /* messages of all acceptors, */
static int logging;            /* and whether a thread is logging them: no other thread waits for that */

void
hp_listener_lock(void)
{
    pthread_mutex_lock(&mutex);
}

void
hp_listener_unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

/* --- the acceptor's owner: all with the lock held --- */

/* An entry of this job: the named one of this communicator, or one that has no name yet. NULL: there is none. */
static hp_listener_entry *
find(const hp_listener *listener, const uint8_t job_id[HP_JOB_ID_BYTES], int named, uint64_t comm)
{
    for (hp_listener_entry *entry = listener->entries; entry; entry = entry->next)
        if (memcmp(entry->keys->job_id, job_id, HP_JOB_ID_BYTES) == 0 && !entry->retired && entry->named == named &&
            (!named || entry->comm == comm))
            return entry;
    return NULL;
}

static const hp_keys *
keys_for(void *arg, const uint8_t job_id[HP_JOB_ID_BYTES])
{
    const hp_listener *listener = arg;
    for (const hp_listener_entry *entry = listener->entries; entry; entry = entry->next)
        if (memcmp(entry->keys->job_id, job_id, HP_JOB_ID_BYTES) == 0)
            return entry->keys;
    return NULL;
}

static int
on_policy(void *arg, const hp_hello *hello, hp_handshake_policy *policy)
{
    const hp_listener_entry *entry = find(arg, hello->job_id, 1, hello->comm);
    const hp_keys *keys = keys_for(arg, hello->job_id);
    if (!keys)
        return 0;
    *policy = (hp_handshake_policy){.role = HP_ROLE_DATA, .mode = keys->mode};
    /* of a communicator that is not named yet this process knows no more; on_judge() refuses */
    policy->my_rank = entry ? entry->rank : hello->your_rank;
    policy->epoch = entry ? entry->epoch : hello->epoch;
    return entry || find(arg, hello->job_id, 0, 0) ? 1 : HP_ACCEPTOR_EXPENDABLE;
}

/*
 * Refuses a candidate for a communicator that is not here. If that has left, the candidate's rank dials again, as if no
 * process listened: it gets the reason from the server.
 */
static hp_status
on_judge(void *arg, const hp_hello *hello, const hp_addr *peer, uint32_t *assigned)
{
    const hp_listener *listener = arg;
    (void)peer;
    *assigned = hello->my_rank;
    if (find(listener, hello->job_id, 0, 0))
        return HP_LATE;
    for (unsigned i = 0; i < RECENT && i < listener->left; i++)
        if (listener->recent[i] == hello->comm)
            return HP_LATE;
    return HP_BAD_COMM;
}

static void
wake_driver(hp_listener_entry *entry)
{
    atomic_store(&entry->has_events, 1);
    hp_loop_wake(entry->loop);
}

/*
 * A rank that dials again has given up its earlier connection, which is dropped: so no more candidates wait here than a
 * ring has connections. A rank in error may ask for channels and stripes that there are not, and gets no place for them.
 */
static int
on_take(void *arg, hp_candidate *candidate)
{
    hp_listener_entry *entry = find(arg, candidate->handshake.hello.job_id, 1, candidate->handshake.hello.comm);
    const hp_hello *hello = &candidate->handshake.hello;
    hp_candidate **at;
    int waiting = 0;
    if (!entry)
        return 0;
    for (at = &entry->candidates; *at;) {
        hp_candidate *other = *at;
        const hp_hello *its = &other->handshake.hello;
        if (its->my_rank != hello->my_rank || its->channel != hello->channel || its->stripe != hello->stripe) {
            waiting += its->my_rank == hello->my_rank;
            at = &other->next;
            continue;
        }
        *at = other->next;
        hp_candidate_free(other);
    }
    if (entry->per_rank && waiting >= entry->per_rank) {
        hp_candidate_answer(candidate, HP_FULL, hello->my_rank);
        return 1;
    }
    *at = candidate;
    candidate->next = NULL;
    wake_driver(entry);
    return 1;
}

static void
on_starved(void *arg, int number)
{
    for (hp_listener_entry *entry = ((hp_listener *)arg)->entries; entry; entry = entry->next) {
        entry->number = number;
        wake_driver(entry);
    }
}

/* --- entries --- */

/* With the lock held, which is released while messages are logged. */
static void
write_log_queue(void)
{
    if (logging)
        return;
    logging = 1;
    while (log_queue.count) {
        hp_log_queue lines = log_queue;
        log_queue.count = log_queue.more = 0;
        hp_listener_unlock();
        hp_log_queue_write(&lines);
        hp_listener_lock();
    }
    logging = 0;
}

static void
on_connection(void *arg, int ready)
{
    hp_listener_entry *entry = arg;
    (void)ready;
    hp_listener_lock();
    hp_acceptor_serve(entry->listener->acceptor, &log_queue);
    write_log_queue();
    hp_listener_unlock();
}

static void
expect(const hp_listener *listener)
{
    int world = 0, at_once = 0;
    for (const hp_listener_entry *entry = listener->entries; entry; entry = entry->next) {
        world += world < HP_WORLD_MOST ? entry->size : 0;
        at_once = entry->per_rank > at_once ? entry->per_rank : at_once; /* a neighbour dials all its stripes at once */
    }
    hp_acceptor_expect(listener->acceptor, world, at_once);
}

/* An acceptor has one secret for each job, because a HELLO is compared with one key. */
static int
suits(const hp_listener *listener, const hp_listener_options *options, const hp_keys *keys)
{
    const hp_listener_options *o = &listener->options;
    const hp_keys *known = keys_for((void *)(uintptr_t)listener, keys->job_id);
    return o->automatic == options->automatic && (o->automatic || o->all == options->all) &&
           (o->all || hp_addr_same_host(&o->local, &options->local)) && o->ports.first == options->ports.first &&
           o->ports.last == options->ports.last &&
           (!known || (known->mode == keys->mode && memcmp(known->hello, keys->hello, sizeof(keys->hello)) == 0));
}

static hp_listener *
open_listener(const hp_listener_options *options, int size, hoop_error *error)
{
    hp_acceptor_owner owner = {
        .keys = keys_for, .policy = on_policy, .judge = on_judge, .starved = on_starved, .take = on_take};
    hp_listener *listener = hp_alloc(1, sizeof(*listener));
    if (!listener) {
        hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory while opening a listener");
        return NULL;
    }
    owner.arg = listener;
    listener->options = *options;
    hp_addr all = {.u.v6 = {.sin6_family = AF_INET6}, .length = sizeof(all.u.v6)};
    const hp_addr *at = options->all ? &all : &options->local;
    listener->acceptor = hp_acceptor_new(NULL, at, &options->ports, &options->sock, &owner, size, error);
    if (!listener->acceptor) {
        free(listener);
        return NULL;
    }
    listener->next = listeners;
    listeners = listener;
    return listener;
}

static hoop_result
watch(hp_listener_entry *entry, hoop_error *error)
{
    entry->watch = hp_watch_new(entry->loop, hp_acceptor_fd(entry->listener->acceptor), on_connection, entry);
    if (entry->watch && hp_watch_set(entry->watch, HP_READ) == 0)
        return HOOP_SUCCESS;
    hp_listener_leave(entry);
    return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory while opening a listener");
}

static int
is_job(const uint8_t *hello, const hp_addr *server, const hp_listener_options *options, const hp_keys *keys)
{
    return memcmp(hello, keys->hello, sizeof(keys->hello)) == 0 && hp_addr_same(server, &options->server);
}

/* A communicator of the same job, at the same server, by which this process is another rank. */
static hp_listener_entry *
find_rival(const hp_listener_options *options, const hp_keys *keys)
{
    for (hp_listener *listener = listeners; listener; listener = listener->next)
        for (hp_listener_entry *entry = listener->entries; entry; entry = entry->next)
            if (!entry->retired && entry->claimed >= 0 && entry->claimed != options->rank &&
                is_job(entry->keys->hello, &entry->server, options, keys))
                return entry;
    return NULL;
}

/* The other rank that this process is of this job; -1: none. */
static int
other_rank(const hp_listener_options *options, const hp_keys *keys)
{
    if (options->rank < 0)
        return -1;
    hp_listener_entry *rival = find_rival(options, keys);
    if (rival) {
        atomic_store(&rival->rival, options->rank + 1);
        hp_loop_wake(rival->loop);
        memcpy(disputed.hello, keys->hello, sizeof(disputed.hello));
        disputed.server = options->server;
        disputed.rank = rival->claimed;
        disputed.until = hp_now() + DISPUTED_MS * HP_MS;
    }
    int is_disputed = hp_now() < disputed.until && disputed.rank != options->rank &&
                      is_job(disputed.hello, &disputed.server, options, keys);
    return is_disputed ? disputed.rank : -1;
}

hoop_result
hp_listener_rival(const hp_listener_entry *entry, const char *job, hoop_error *error)
{
    int rank = atomic_load(&entry->rival) - 1;
    if (rank < 0)
        return HOOP_SUCCESS;
    hp_err_set(error, HOOP_ERR_INVALID_USAGE,
               "this process is rank %d of job %.63s, and another thread of it asked to be rank %d: one process is one "
               "rank; start a process for each rank",
               entry->claimed, job, rank);
    error->rank = rank;
    return error->code;
}

int
hp_listener_is_everywhere(const hp_listener_entry *entry)
{
    return entry->listener->options.all;
}

hoop_result
hp_listener_join(hp_listener_entry *entry, const hp_listener_options *options, hp_loop *loop, const hp_keys *keys,
                 int size, hoop_error *error)
{
    hp_listener_lock();
    int other = other_rank(options, keys);
    if (other >= 0) {
        hp_err_set(
            error, HOOP_ERR_INVALID_USAGE,
            "this process is rank %d of job %.63s already, and a thread of it asks to be rank %d: one process is "
            "one rank; start a process for each rank",
            other, options->job, options->rank);
        error->rank = options->rank;
        hp_listener_unlock();
        return error->code;
    }
    hp_listener *listener = listeners;
    while (listener && !suits(listener, options, keys))
        listener = listener->next;
    if (!listener)
        listener = open_listener(options, size, error);
    entry->loop = loop;
    entry->keys = keys;
    entry->size = size;
    entry->per_rank = options->per_rank;
    entry->claimed = options->rank;
    entry->server = options->server;
    if (listener) {
        entry->listener = listener;
        entry->addr = options->local;
        hp_addr_set_port(&entry->addr, hp_addr_port(hp_acceptor_addr(listener->acceptor)));
        entry->next = listener->entries;
        entry->link = &listener->entries;
        if (entry->next)
            entry->next->link = &entry->next;
        listener->entries = entry;
        expect(listener);
    }
    hp_listener_unlock();
    if (!listener)
        return error->code;
    hp_acceptor_tune(listener->acceptor);
    return watch(entry, error);
}

void
hp_listener_name(hp_listener_entry *entry, uint64_t comm, int rank, uint32_t epoch, int size)
{
    if (!entry->listener)
        return;
    hp_listener_lock();
    entry->comm = comm;
    entry->rank = (uint32_t)rank;
    entry->epoch = epoch;
    entry->size = size;
    entry->named = 1;
    expect(entry->listener);
    hp_listener_unlock();
}

hp_candidate *
hp_listener_next(hp_listener_entry *entry, int *number)
{
    hp_listener_lock();
    hp_candidate *candidate = entry->candidates;
    if (candidate) {
        entry->candidates = candidate->next;
        candidate->next = NULL;
    } else {
        *number = entry->number;
        entry->number = 0;
        atomic_store(&entry->has_events, 0);
    }
    hp_listener_unlock();
    return candidate;
}

static void
free_candidates(hp_candidate *candidates)
{
    for (hp_candidate *candidate = candidates, *following; candidate; candidate = following) {
        following = candidate->next;
        hp_candidate_free(candidate);
    }
}

static void
forget(hp_listener_entry *entry)
{
    hp_listener *listener = entry->listener;
    if (entry->named && !entry->retired)
        listener->recent[listener->left++ % RECENT] = entry->comm;
    entry->retired = 1;
}

void
hp_listener_retire(hp_listener_entry *entry)
{
    hp_candidate *candidates;
    if (!entry->listener)
        return;
    hp_listener_lock();
    forget(entry);
    candidates = entry->candidates;
    entry->candidates = NULL;
    hp_listener_unlock();
    free_candidates(candidates);
}

void
hp_listener_leave(hp_listener_entry *entry)
{
    hp_listener *listener = entry->listener;
    if (!listener)
        return;
    hp_watch_free(entry->watch);
    hp_listener_lock();
    *entry->link = entry->next;
    if (entry->next)
        entry->next->link = entry->link;
    forget(entry);
    if (listener->entries) {
        expect(listener);
    } else {
        hp_listener **at = &listeners;
        while (*at != listener)
            at = &(*at)->next;
        *at = listener->next;
        hp_acceptor_free(listener->acceptor);
        free(listener);
    }
    hp_listener_unlock();
    free_candidates(entry->candidates);
    *entry = (hp_listener_entry){0};
}

void
hp_listener_forked(void)
{
    listeners = NULL;
    disputed.until = 0;
    log_queue.count = log_queue.more = logging = 0;
    hp_listener_unlock();
}
