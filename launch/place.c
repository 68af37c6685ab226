/* SPDX-License-Identifier: MIT */
/*
 * map: fills the hosts with ranks, by slots or so many per host. A host whose slots were not written offers one per
 * mention, as MPI hostfiles have it; only a run on this machine alone takes more ranks than that unasked.
 */
#include "launch/place.h"

#include "base/err.h"
#include "launch/xalloc.h"

#include <stdlib.h>

enum { RANKS_MAX = 65536 };

static int
slots_of(const hp_host_entry *host)
{
    return host->slots + host->mentions;
}

static long
slots_in_all(const hp_host_list *hosts)
{
    long sum = 0;
    int i;
    for (i = 0; i < hosts->count; i++)
        sum += slots_of(&hosts->entry[i]);
    return sum;
}

static int
slots_written(const hp_host_list *hosts)
{
    int i, written = 0;
    for (i = 0; i < hosts->count; i++)
        written |= hosts->entry[i].slots > 0;
    return written;
}

static long
default_ranks(const hp_host_list *hosts, const hp_rank_map_request *request)
{
    if (request->per_host > 0)
        return (long)request->per_host * hosts->count;
    if (request->local && !slots_written(hosts) && hosts->mentions == 1)
        return request->cores;
    return slots_in_all(hosts);
}

static hoop_result
too_many(const hp_host_list *hosts, const hp_rank_map_request *request, long ranks, hoop_error *error)
{
    const char *hosts_word = hosts->count == 1 ? "host" : "hosts";
    long slots = slots_in_all(hosts);
    if (request->per_host > 0)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "%ld ranks do not fit on %d %s with %d on each; list more hosts or write a larger -N", ranks,
                          hosts->count, hosts_word, request->per_host);
    return hp_err_set(
        error, HOOP_ERR_INVALID_ARGUMENT,
        "%ld ranks do not fit: %d %s offer%s %ld slot%s; write slots=N (host:N) where more ranks may run, "
        "or -n %ld",
        ranks, hosts->count, hosts_word, hosts->count == 1 ? "s" : "", slots, slots == 1 ? "" : "s", slots);
}

/* With -N a host whose slots were written keeps to them; one whose slots were not takes what is asked. */
static hoop_result
check_per_host(const hp_host_list *hosts, const hp_rank_map *map, int per_host, hoop_error *error)
{
    int i;
    for (i = 0; per_host > 0 && i < hosts->count; i++) {
        const hp_host_entry *host = &hosts->entry[i];
        if (host->slots > 0 && map->count[i] > slots_of(host))
            return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                              "-N %d puts %d ranks on %.80s, which has %d slot%s; write a smaller -N or slots=%d",
                              per_host, map->count[i], host->name, slots_of(host), slots_of(host) == 1 ? "" : "s",
                              map->count[i]);
    }
    return HOOP_SUCCESS;
}

/* How many of the ranks still to be placed host i takes. even: all hosts take the same, whatever their slots. */
static int
share(const hp_host_list *hosts, const hp_rank_map_request *request, int i, int left, int even)
{
    int room = request->per_host > 0 ? request->per_host : slots_of(&hosts->entry[i]);
    if (even)
        room = left / (hosts->count - i) + (left % (hosts->count - i) != 0);
    return room < left ? room : left;
}

hoop_result
hp_rank_map_fill(hp_rank_map *map, const hp_host_list *hosts, const hp_rank_map_request *request, hoop_error *error)
{
    long ranks = request->ranks > 0 ? request->ranks : default_ranks(hosts, request);
    int even = request->per_host == 0 && request->local && !slots_written(hosts);
    int i, next = 0;
    if (ranks > RANKS_MAX)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "%ld ranks are more than hoop's limit of %d", ranks,
                          RANKS_MAX);
    *map = (hp_rank_map){.size = (int)ranks};
    map->first = hp_xcalloc((size_t)hosts->count, sizeof(*map->first));
    map->count = hp_xcalloc((size_t)hosts->count, sizeof(*map->count));
    for (i = 0; i < hosts->count; i++) {
        map->first[i] = next;
        map->count[i] = share(hosts, request, i, (int)ranks - next, even);
        next += map->count[i];
    }
    if (next < ranks)
        return too_many(hosts, request, ranks, error);
    return check_per_host(hosts, map, request->per_host, error);
}

void
hp_rank_map_free(hp_rank_map *map)
{
    free(map->first);
    free(map->count);
    *map = (hp_rank_map){0};
}
