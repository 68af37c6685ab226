/* SPDX-License-Identifier: MIT */
/* listener: see listener.h. */
#include "lib/listener.h"

#include "base/err.h"
#include "base/mem.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAST = 64 };

struct hp_listener {
    hp_door *door;
    hp_listener_options options;
    hp_listener_seat *seats;
    unsigned left;       /* communicators that have left so far, */
    uint64_t past[PAST]; /* and the numbers of the latest ones */
    struct hp_listener *next;
};

/* Whoever holds the lock logs nothing: the program's function for that may fork, which takes the lock. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static hp_listener *listeners;
static hp_remarks remarks; /* of all doors, */
static int saying;         /* and whether somebody says them: nobody else waits for that */

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

/* ---- the door's owner: all with the lock held ---- */

/* A seat of this job: the one of this communicator, or one that is not yet known. NULL: there is none. */
static hp_listener_seat *
find(const hp_listener *listener, const uint8_t job[HP_JOB], int named, uint64_t comm)
{
    for (hp_listener_seat *seat = listener->seats; seat; seat = seat->next)
        if (memcmp(seat->keys->job, job, HP_JOB) == 0 && !seat->retired && seat->named == named &&
            (!named || seat->comm == comm))
            return seat;
    return NULL;
}

static const hp_keys *
keys_for(void *arg, const uint8_t job[HP_JOB])
{
    const hp_listener *listener = arg;
    for (const hp_listener_seat *seat = listener->seats; seat; seat = seat->next)
        if (memcmp(seat->keys->job, job, HP_JOB) == 0)
            return seat->keys;
    return NULL;
}

static int
policy_for(void *arg, const hp_hello *hello, hp_conn_policy *policy)
{
    const hp_listener_seat *seat = find(arg, hello->job, 1, hello->comm);
    const hp_keys *keys = keys_for(arg, hello->job);
    if (!keys)
        return 0;
    *policy = (hp_conn_policy){.role = HP_ROLE_DATA, .mode = keys->mode, .features = HP_FEATURE_ACK};
    /* of a communicator that is not known nobody can say more: whoever judges does */
    policy->my_rank = seat ? seat->rank : hello->your_rank;
    policy->epoch = seat ? seat->epoch : hello->epoch;
    return seat || find(arg, hello->job, 0, 0) ? 1 : HP_DOOR_VAIN;
}

/* Who comes for a communicator that is not here. One that has left is as if nobody listened: why, its ring is told. */
static hp_status
judge(void *arg, const hp_hello *hello, const hp_addr *peer, uint32_t *assigned)
{
    const hp_listener *listener = arg;
    (void)peer;
    *assigned = hello->my_rank;
    if (find(listener, hello->job, 0, 0))
        return HP_LATE;
    for (unsigned i = 0; i < PAST && i < listener->left; i++)
        if (listener->past[i] == hello->comm)
            return HP_LATE;
    return HP_BAD_COMM;
}

static int
same_place(const hp_hello *a, const hp_hello *b)
{
    return a->my_rank == b->my_rank && a->channel == b->channel && a->stripe == b->stripe;
}

static void
call_driver(hp_listener_seat *seat)
{
    atomic_store(&seat->news, 1);
    hp_loop_wake(seat->loop);
}

/* Who dials again has given up what it dialled before: so no more of them wait here than there are connections. */
static int
take(void *arg, hp_caller *caller)
{
    hp_listener_seat *seat = find(arg, caller->conn.hello.job, 1, caller->conn.hello.comm);
    hp_caller **at;
    if (!seat)
        return 0;
    for (at = &seat->callers; *at;) {
        hp_caller *other = *at;
        if (!same_place(&other->conn.hello, &caller->conn.hello)) {
            at = &other->next;
            continue;
        }
        *at = other->next;
        hp_caller_free(other);
    }
    *at = caller;
    caller->next = NULL;
    call_driver(seat);
    return 1;
}

static void
starved(void *arg, int number)
{
    for (hp_listener_seat *seat = ((hp_listener *)arg)->seats; seat; seat = seat->next) {
        seat->number = number;
        call_driver(seat);
    }
}

/* ---- seats ---- */

/* With the lock, which it leaves meanwhile. */
static void
say(void)
{
    if (saying)
        return;
    saying = 1;
    while (remarks.count) {
        hp_remarks said = remarks;
        remarks.count = remarks.more = 0;
        hp_listener_unlock();
        hp_remarks_say(&said);
        hp_listener_lock();
    }
    saying = 0;
}

static void
on_knock(void *arg, int ready)
{
    hp_listener_seat *seat = arg;
    (void)ready;
    hp_listener_lock();
    hp_door_serve(seat->listener->door, &remarks);
    say();
    hp_listener_unlock();
}

static void
expect(const hp_listener *listener)
{
    int world = 0;
    for (const hp_listener_seat *seat = listener->seats; seat; seat = seat->next)
        world += world < HP_WORLD_MOST ? seat->size : 0;
    hp_door_expect(listener->door, world);
}

/* One secret a job: a greeting is compared with one key. */
static int
suits(const hp_listener *listener, const hp_listener_options *options, const hp_keys *keys)
{
    const hp_listener_options *o = &listener->options;
    const hp_keys *known = keys_for((void *)(uintptr_t)listener, keys->job);
    return hp_addr_same_host(&o->local, &options->local) && o->ports.first == options->ports.first &&
           o->ports.last == options->ports.last &&
           (!known || (known->mode == keys->mode && memcmp(known->hello, keys->hello, sizeof keys->hello) == 0));
}

static hp_listener *
open_listener(const hp_listener_options *options, int size, hoop_error *error)
{
    hp_door_owner owner = {.keys = keys_for, .policy = policy_for, .judge = judge, .starved = starved, .take = take};
    hp_listener *listener = hp_alloc(1, sizeof *listener);
    if (!listener) {
        hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory while opening a listener");
        return NULL;
    }
    owner.arg = listener;
    listener->options = *options;
    listener->door = hp_door_new(NULL, &options->local, &options->ports, &options->sock, &owner, size, error);
    if (!listener->door) {
        free(listener);
        return NULL;
    }
    listener->next = listeners;
    listeners = listener;
    return listener;
}

static void
close_if_empty(hp_listener *listener)
{
    hp_listener **at = &listeners;
    if (listener->seats)
        return;
    while (*at != listener)
        at = &(*at)->next;
    *at = listener->next;
    hp_door_free(listener->door);
    free(listener);
}

static void
sit(hp_listener_seat *seat, hp_listener *listener)
{
    seat->listener = listener;
    seat->addr = *hp_door_addr(listener->door);
    seat->next = listener->seats;
    seat->link = &listener->seats;
    if (seat->next)
        seat->next->link = &seat->next;
    listener->seats = seat;
    expect(listener);
}

static hoop_result
watch(hp_listener_seat *seat, hoop_error *error)
{
    seat->watch = hp_watch_new(seat->loop, hp_door_fd(seat->listener->door), on_knock, seat);
    if (seat->watch && hp_watch_set(seat->watch, HP_READ) == 0)
        return HOOP_SUCCESS;
    hp_listener_leave(seat);
    return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory while opening a listener");
}

hoop_result
hp_listener_join(hp_listener_seat *seat, const hp_listener_options *options, hp_loop *loop, const hp_keys *keys,
                 int size, hoop_error *error)
{
    hp_listener_lock();
    hp_listener *listener = listeners;
    while (listener && !suits(listener, options, keys))
        listener = listener->next;
    if (!listener)
        listener = open_listener(options, size, error);
    seat->loop = loop;
    seat->keys = keys;
    seat->size = size;
    if (listener)
        sit(seat, listener);
    hp_listener_unlock();
    if (!listener)
        return error->code;
    hp_door_tune(listener->door);
    return watch(seat, error);
}

void
hp_listener_name(hp_listener_seat *seat, uint64_t comm, int rank, uint32_t epoch, int size)
{
    if (!seat->listener)
        return;
    hp_listener_lock();
    seat->comm = comm;
    seat->rank = (uint32_t)rank;
    seat->epoch = epoch;
    seat->size = size;
    seat->named = 1;
    expect(seat->listener);
    hp_listener_unlock();
}

hp_caller *
hp_listener_next(hp_listener_seat *seat, int *number)
{
    hp_listener_lock();
    hp_caller *caller = seat->callers;
    if (caller) {
        seat->callers = caller->next;
        caller->next = NULL;
    } else {
        *number = seat->number;
        seat->number = 0;
        atomic_store(&seat->news, 0);
    }
    hp_listener_unlock();
    return caller;
}

static void
turn_away(hp_caller *callers)
{
    for (hp_caller *caller = callers, *following; caller; caller = following) {
        following = caller->next;
        hp_caller_free(caller);
    }
}

static void
forget(hp_listener_seat *seat)
{
    hp_listener *listener = seat->listener;
    if (seat->named && !seat->retired)
        listener->past[listener->left++ % PAST] = seat->comm;
    seat->retired = 1;
}

void
hp_listener_retire(hp_listener_seat *seat)
{
    hp_caller *callers;
    if (!seat->listener)
        return;
    hp_listener_lock();
    forget(seat);
    callers = seat->callers;
    seat->callers = NULL;
    hp_listener_unlock();
    turn_away(callers);
}

void
hp_listener_leave(hp_listener_seat *seat)
{
    hp_listener *listener = seat->listener;
    if (!listener)
        return;
    hp_watch_free(seat->watch);
    hp_listener_lock();
    *seat->link = seat->next;
    if (seat->next)
        seat->next->link = seat->link;
    forget(seat);
    if (listener->seats)
        expect(listener);
    close_if_empty(listener);
    hp_listener_unlock();
    turn_away(seat->callers);
    *seat = (hp_listener_seat){0};
}

void
hp_listener_abandon(void)
{
    for (const hp_listener *listener = listeners; listener; listener = listener->next) {
        hp_door_abandon(listener->door);
        for (const hp_listener_seat *seat = listener->seats; seat; seat = seat->next)
            for (const hp_caller *caller = seat->callers; caller; caller = caller->next)
                close(caller->visitor.fd);
    }
    listeners = NULL;
    remarks.count = remarks.more = saying = 0;
    mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
