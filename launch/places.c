/* SPDX-License-Identifier: MIT */
/* places: see places.h. A process that fails again and again is started at growing intervals. */
#include "launch/places.h"

#include "base/clock.h"
#include "launch/xalloc.h"

#include <stdio.h>
#include <stdlib.h>

#define LONG_LIFE (10 * HP_SEC) /* who has lived so long is started again at once */
#define FIRST_PAUSE HP_SEC
#define LAST_PAUSE (30 * HP_SEC)

void
hp_places_open(hp_places *p, const hp_mapping *mapping)
{
    const hp_rank_map *map = &mapping->ranks;
    *p = (hp_places){.size = map->size, .hosts = mapping->list->count};
    p->most = mapping->options->agent.max_restarts;
    p->rank = hp_xcalloc((size_t)p->size, sizeof(*p->rank));
    p->room = hp_xcalloc((size_t)p->hosts, sizeof(*p->room));
    for (int i = 0; i < p->hosts; i++) {
        p->room[i] = map->room[i];
        for (int rank = map->first[i]; rank < map->first[i] + map->count[i]; rank++)
            p->rank[rank].host = i;
    }
}

void
hp_places_close(hp_places *p)
{
    free(p->rank);
    free(p->room);
    *p = (hp_places){0};
}

void
hp_places_ended(hp_places *p, int rank)
{
    p->rank[rank].state = HP_PLACE_EMPTY;
}

/* The first host with a free slot; -1: there is none. */
static int
free_host(const hp_places *p)
{
    for (int i = 0; i < p->hosts; i++) {
        int room = p->room[i];
        for (int rank = 0; rank < p->size && room > 0; rank++) {
            const hp_place *at = &p->rank[rank];
            room -= at->state != HP_PLACE_EMPTY && (at->state == HP_PLACE_DUE ? at->next : at->host) == i;
        }
        if (room > 0)
            return i;
    }
    return -1;
}

/* It is started as soon as `at->due`. 0: nowhere. */
static int
find_place(hp_places *p, hp_place *at)
{
    at->state = HP_PLACE_EMPTY; /* its own slot is free */
    at->next = p->room[at->host] > 0 ? at->host : free_host(p);
    if (at->next < 0)
        return 0;
    at->state = HP_PLACE_DUE;
    return 1;
}

int
hp_places_failed(hp_places *p, int rank, int others, uint64_t lived, uint64_t now)
{
    hp_place *at = &p->rank[rank];
    at->state = HP_PLACE_EMPTY;
    if (others == 0 || p->used == p->most || !find_place(p, at))
        return 0;
    uint64_t pause = at->pause == 0 ? FIRST_PAUSE : 2 * at->pause;
    at->pause = at->restart == 0 || lived >= LONG_LIFE ? 0 : pause < LAST_PAUSE ? pause : LAST_PAUSE;
    at->due = now + at->pause;
    at->restart = ++p->used;
    return 1;
}

int
hp_places_lost(hp_places *p, int host, uint64_t now)
{
    int lost = 0;
    p->room[host] = 0;
    for (int rank = 0; rank < p->size; rank++) {
        hp_place *at = &p->rank[rank];
        if (at->state == HP_PLACE_TAKEN && at->host == host)
            lost += !hp_places_failed(p, rank, 1, LONG_LIFE, now);
        else if ((at->state == HP_PLACE_DUE || at->state == HP_PLACE_STARTING) && at->next == host)
            lost += !find_place(p, at);
    }
    return lost;
}

void
hp_places_note(const hp_places *p, int others, hp_rank_exit *ended)
{
    const hp_place *at = &p->rank[ended->rank];
    char when[24] = "";
    if (at->pause > 0)
        snprintf(when, sizeof(when), " in %d s", (int)(at->pause / HP_SEC));
    if (at->state == HP_PLACE_DUE)
        snprintf(ended->note, sizeof(ended->note), "; it is started again%s (restart %d of %d)", when, at->restart,
                 p->most);
    else if (p->most > 0)
        snprintf(ended->note, sizeof(ended->note), "; %s",
                 others == 0          ? "nobody is left to take it in"
                 : p->used == p->most ? "no restart is left"
                                      : "no host has a free slot");
}

int
hp_places_next(hp_places *p, uint64_t now)
{
    for (int rank = 0; rank < p->size; rank++) {
        hp_place *at = &p->rank[rank];
        if (at->state != HP_PLACE_DUE || at->due > now)
            continue;
        at->state = HP_PLACE_STARTING;
        at->moved = at->host != at->next;
        at->host = at->next;
        return rank;
    }
    return -1;
}

void
hp_places_started(hp_places *p, int rank)
{
    p->rank[rank].state = HP_PLACE_TAKEN;
}

uint64_t
hp_places_wait(const hp_places *p, uint64_t now, uint64_t most)
{
    for (int rank = 0; rank < p->size; rank++)
        if (p->rank[rank].state == HP_PLACE_DUE && p->rank[rank].due < now + most)
            most = p->rank[rank].due > now ? p->rank[rank].due - now : 0;
    return most;
}
