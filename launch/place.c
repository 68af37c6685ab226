/* SPDX-License-Identifier: MIT */
/*
 * place: fills the hosts with ranks, by slots or so many per host. A host whose slots were not written offers one per
 * mention, as MPI hostfiles have it; only a run on this machine alone takes more ranks than that unasked.
 */
#include "launch/place.h"

#include "base/err.h"
#include "launch/xalloc.h"

#include <stdlib.h>

enum { RANKS_MAX = 65536 };

static int
slots_of(const hp_host *host)
{
    return host->slots + host->mentions;
}

static long
slots_in_all(const hp_hosts *hosts)
{
    long sum = 0;
    int i;
    for (i = 0; i < hosts->count; i++)
        sum += slots_of(&hosts->host[i]);
    return sum;
}

static int
slots_written(const hp_hosts *hosts)
{
    int i, written = 0;
    for (i = 0; i < hosts->count; i++)
        written |= hosts->host[i].slots > 0;
    return written;
}

static long
default_ranks(const hp_hosts *hosts, const hp_place_wish *wish)
{
    if (wish->per_host > 0)
        return (long)wish->per_host * hosts->count;
    if (wish->local && !slots_written(hosts) && hosts->mentions == 1)
        return wish->cores;
    return slots_in_all(hosts);
}

static hoop_result
too_many(const hp_hosts *hosts, const hp_place_wish *wish, long ranks, hoop_error *error)
{
    const char *hosts_word = hosts->count == 1 ? "host" : "hosts";
    long slots = slots_in_all(hosts);
    if (wish->per_host > 0)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "%ld ranks do not fit on %d %s with %d on each; list more hosts or write a larger -N", ranks,
                          hosts->count, hosts_word, wish->per_host);
    return hp_err_set(
        error, HOOP_ERR_INVALID_ARGUMENT,
        "%ld ranks do not fit: %d %s offer%s %ld slot%s; write slots=N (host:N) where more ranks may run, "
        "or -n %ld",
        ranks, hosts->count, hosts_word, hosts->count == 1 ? "s" : "", slots, slots == 1 ? "" : "s", slots);
}

/* With -N a host whose slots were written keeps to them; one whose slots were not takes what is asked. */
static hoop_result
check_per_host(const hp_hosts *hosts, const hp_place *place, int per_host, hoop_error *error)
{
    int i;
    for (i = 0; per_host > 0 && i < hosts->count; i++) {
        const hp_host *host = &hosts->host[i];
        if (host->slots > 0 && place->count[i] > slots_of(host))
            return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                              "-N %d puts %d ranks on %.80s, which has %d slot%s; write a smaller -N or slots=%d",
                              per_host, place->count[i], host->name, slots_of(host), slots_of(host) == 1 ? "" : "s",
                              place->count[i]);
    }
    return HOOP_SUCCESS;
}

/* How many of the ranks still to be placed host i takes. even: all hosts take the same, whatever their slots. */
static int
share(const hp_hosts *hosts, const hp_place_wish *wish, int i, int left, int even)
{
    int room = wish->per_host > 0 ? wish->per_host : slots_of(&hosts->host[i]);
    if (even)
        room = left / (hosts->count - i) + (left % (hosts->count - i) != 0);
    return room < left ? room : left;
}

hoop_result
hp_place_ranks(hp_place *place, const hp_hosts *hosts, const hp_place_wish *wish, hoop_error *error)
{
    long ranks = wish->ranks > 0 ? wish->ranks : default_ranks(hosts, wish);
    int even = wish->per_host == 0 && wish->local && !slots_written(hosts);
    int i, next = 0;
    if (ranks > RANKS_MAX)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "%ld ranks are more than hoop's limit of %d", ranks,
                          RANKS_MAX);
    *place = (hp_place){.size = (int)ranks};
    place->first = hp_must_alloc((size_t)hosts->count, sizeof(*place->first));
    place->count = hp_must_alloc((size_t)hosts->count, sizeof(*place->count));
    for (i = 0; i < hosts->count; i++) {
        place->first[i] = next;
        place->count[i] = share(hosts, wish, i, (int)ranks - next, even);
        next += place->count[i];
    }
    if (next < ranks)
        return too_many(hosts, wish, ranks, error);
    return check_per_host(hosts, place, wish->per_host, error);
}

void
hp_place_free(hp_place *place)
{
    free(place->first);
    free(place->count);
    *place = (hp_place){0};
}
