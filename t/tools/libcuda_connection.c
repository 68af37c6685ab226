/* SPDX-License-Identifier: MIT */
/*
 * libcuda_connection: the stand-in driver's hardware queues. Each runs its operations in order; several streams may
 * share one, and its length may be limited. The legacy default stream and the blocking streams of its context wait for
 * operations that were appended to each other before.
 */
#include "t/tools/libcuda_internal.h"

#include <stdlib.h>
#include <unistd.h>

/* --- order --- */

static int
follows(const stream *s, const stream *other)
{
    return s->context == other->context &&
           ((s->kind == BLOCKING && other->kind == LEGACY) || (s->kind == LEGACY && other->kind == BLOCKING));
}

/* Whether a stream that this one waits for has an earlier operation that is not complete. */
static int
is_behind(const operation *o)
{
    for (const stream *s = fake.streams; s; s = s->next) {
        const operation *other = follows(o->stream, s) ? s->connection->first : NULL;
        for (; other && other->serial < o->serial; other = other->next) {
            if (other->stream == s)
                return 1;
        }
    }
    return 0;
}

int
fake_is_idle(const stream *s)
{
    int idle = s->done == s->submitted;
    for (const stream *other = fake.streams; other && s->kind == LEGACY; other = other->next)
        idle = idle && (!follows(s, other) || other->done == other->submitted);
    return idle;
}

/* --- the thread --- */

static operation *
next_operation(connection *c)
{
    pthread_mutex_lock(&fake.lock);
    while (!c->first ? !c->closing : is_behind(c->first) && !fake.dead)
        pthread_cond_wait(&fake.changed, &fake.lock);
    operation *o = c->first;
    pthread_mutex_unlock(&fake.lock);
    return o;
}

static void
take_off(connection *c, operation *o, int error)
{
    pthread_mutex_lock(&fake.lock);
    if (error != OK)
        fake.dead = 1;
    if (!(c->first = o->next))
        c->last = &c->first;
    c->under_way--;
    fake.under_way--;
    o->stream->done++;
    fake_let_go(o->event);
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
    free(o);
}

/* A failed context runs nothing, not even host functions. */
static void *
connection_main(void *arg)
{
    connection *c = arg;
    unsigned seed = (unsigned)(size_t)c;
    for (operation *o = next_operation(c); o; o = next_operation(c)) {
        unsigned most = __atomic_load_n(&fake.delay_us, __ATOMIC_RELAXED);
        if (most > 0)
            usleep((unsigned)rand_r(&seed) % (most + 1));
        take_off(c, o, fake_is_dead() ? OK : fake_perform(o));
    }
    return NULL;
}

/* --- making, filling, dropping --- */

static connection *
new_connection(connection **shared)
{
    connection *c = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    c->last = &c->first;
    c->shared = shared;
    if (pthread_create(&c->thread, NULL, connection_main, c) != 0) {
        free(c);
        return NULL;
    }
    if (shared)
        *shared = c;
    return c;
}

static connection *
connect_stream(context *owner)
{
    connection **shared = fake.connections > 0 ? &owner->shared[owner->made++ % (unsigned)fake.connections] : NULL;
    return shared && *shared ? *shared : new_connection(shared);
}

static void
drop_connection(connection *c)
{
    c->closing = 1;
    if (c->shared)
        *c->shared = NULL;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
    pthread_join(c->thread, NULL);
    pthread_mutex_lock(&fake.lock);
    free(c);
}

stream *
fake_new_stream(context *owner, int kind)
{
    stream *s = calloc(1, sizeof(*s));
    if (!s || !(s->connection = connect_stream(owner))) {
        free(s);
        return NULL;
    }
    s->connection->streams++;
    s->context = owner;
    s->kind = kind;
    s->next = fake.streams;
    fake.streams = s;
    return s;
}

void
fake_drop_stream(stream *s)
{
    stream **at = &fake.streams;
    while (s->done < s->submitted)
        pthread_cond_wait(&fake.changed, &fake.lock);
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    if (--s->connection->streams == 0)
        drop_connection(s->connection);
    free(s);
}

void
fake_wait_for_room(const stream *s)
{
    int alone = fake.jealous && fake.depth > 0;
    if (alone) {
        fake.draining = 1;
        fake.drainer = pthread_self();
    }
    while (fake.depth > 0 && s->connection->under_way >= (unsigned long)fake.depth && !fake.dead)
        pthread_cond_wait(&fake.changed, &fake.lock);
    if (alone) {
        fake.draining = 0;
        pthread_cond_broadcast(&fake.changed);
    }
}

void
fake_put(stream *s, operation *what)
{
    connection *c = s->connection;
    what->next = NULL;
    what->stream = s;
    what->serial = ++fake.serial;
    *c->last = what;
    c->last = &what->next;
    c->under_way++;
    fake.under_way++;
    s->submitted++;
    pthread_cond_broadcast(&fake.changed);
}
