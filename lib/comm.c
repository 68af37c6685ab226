/* SPDX-License-Identifier: MIT */
/* comm: see comm.h. */
#include "lib/comm.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

const char *
hp_comm_name(const hoop_comm *comm, int rank, char out[96])
{
    if (comm->ring && rank >= 0 && rank < comm->size)
        snprintf(out, 96, "%.95s", hp_member_name(&comm->ring->members[rank]).text);
    else if (rank == HOOP_ANY_RANK)
        snprintf(out, 96, "any rank");
    else
        snprintf(out, 96, "rank %d", rank);
    return out;
}

uint64_t
hp_comm_limit(hoop_comm *comm)
{
    return atomic_load_explicit(&comm->driver.op_timeout, memory_order_relaxed);
}

uint64_t
hp_comm_heartbeat(const hoop_comm *comm)
{
    return hp_heartbeat((uint64_t)hp_config_number(&comm->config, HP_SET_op_timeout_ms) * HP_MS);
}

uint64_t
hp_comm_own_heartbeat(hoop_comm *comm)
{
    uint64_t agreed = hp_comm_heartbeat(comm), own = hp_heartbeat(hp_comm_limit(comm));
    return own < agreed ? own : agreed;
}

hp_link_walk
hp_comm_links(const hoop_comm *comm)
{
    return (hp_link_walk){.comm = comm, .peer = comm->messages.first};
}

hp_link *
hp_link_next(hp_link_walk *at)
{
    hp_link *link = NULL;
    for (; at->channel < at->comm->channels; at->channel++, at->link = 0)
        if (at->link < at->comm->channel[at->channel]->links)
            return at->comm->channel[at->channel]->link[at->link++];
    while (!link && at->peer) {
        link = at->taken == 0 ? at->peer->in : at->peer->out;
        if (++at->taken == 2) {
            at->peer = at->peer->next;
            at->taken = 0;
        }
    }
    return link;
}

/* --- names --- */

enum { RENAMED = 1, CALLS_NAMED = 2 }; /* bits of `renamed` */

void
hp_name_set(hoop_comm *comm, const char *name)
{
    pthread_mutex_lock(&comm->driver.mutex);
    int changes = strcmp(comm->name, name) != 0;
    snprintf(comm->name, sizeof(comm->name), "%s", name);
    if (comm->recorder.file.words)
        hp_flight_put_name(comm->recorder.file.words, comm->name);
    pthread_mutex_unlock(&comm->driver.mutex);
    if (changes)
        atomic_fetch_or(&comm->renamed, RENAMED);
}

/* A name stays where it is, so the calls that have it need no lock. */
int
hp_name_set_calls(hoop_comm *comm, const char *name)
{
    pthread_mutex_lock(&comm->driver.mutex);
    int before = comm->call_names.count, number = *name ? hp_call_names_add(&comm->call_names, name) : 0;
    if (number > before && comm->recorder.file.words)
        hp_flight_put_call_name(comm->recorder.file.words, number, name);
    atomic_store_explicit(&comm->calls_name, hp_call_names_get(&comm->call_names, number), memory_order_relaxed);
    pthread_mutex_unlock(&comm->driver.mutex);
    if (number > before)
        atomic_fetch_or(&comm->renamed, CALLS_NAMED);
    return number > 0 || !*name;
}

/* The caller's own copy. */
static void
get(const hoop_comm *comm, char name[HP_NAME_TEXT])
{
    pthread_mutex_t *mutex = (pthread_mutex_t *)(uintptr_t)&comm->driver.mutex;
    pthread_mutex_lock(mutex);
    snprintf(name, HP_NAME_TEXT, "%s", comm->name);
    pthread_mutex_unlock(mutex);
}

const char *
hp_name_prefix(const hoop_comm *comm, char out[HP_NAME_PREFIX])
{
    char name[HP_NAME_TEXT];
    get(comm, name);
    snprintf(out, HP_NAME_PREFIX, name[0] ? "\"%s\": " : "%s", name);
    return out;
}

void
hp_name_report(hoop_comm *comm)
{
    char name[HP_NAME_TEXT];
    int changed = atomic_load_explicit(&comm->renamed, memory_order_relaxed);
    if (changed)
        changed = atomic_exchange(&comm->renamed, 0);
    if (!changed || !comm->client)
        return;
    get(comm, name);
    if (changed & RENAMED)
        hp_membership_name(hp_client_membership(comm->client), 0, name);
    for (const char *call = name; (changed & CALLS_NAMED) && call;) {
        pthread_mutex_lock(&comm->driver.mutex);
        call = hp_call_names_get(&comm->call_names, comm->told_names + 1); /* what is in its place stays there */
        pthread_mutex_unlock(&comm->driver.mutex);
        if (!call || !hp_membership_name(hp_client_membership(comm->client), comm->told_names + 1, call))
            break;
        comm->told_names++;
    }
}

int
hp_name_number(const hoop_comm *comm, const hp_call *call)
{
    int number = hp_call_names_number(&comm->call_names, call->name);
    return number <= comm->told_names ? number : 0;
}
