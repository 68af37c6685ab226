/* SPDX-License-Identifier: MIT */
/* ring_names: see ring_names.h. Mostly all ranks have the same few names, but need not give them the same numbers. */
#include "rendezvous/ring_names.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 255 }; /* names of a ring: the place of one fits into a byte */

struct hp_ring_names {
    int count;
    char text[MOST][HP_CALL_NAME_TEXT];
    uint8_t of[][HP_CALL_NAMES]; /* by rank, and number - 1: the name's place, from 1; 0: there is none */
};

/* 0: there is no room for it. */
static int
place_of(hp_ring_names *all, const char *name)
{
    int i = 0;
    while (i < all->count && strcmp(all->text[i], name) != 0)
        i++;
    if (i == MOST)
        return 0;
    if (i == all->count)
        snprintf(all->text[all->count++], HP_CALL_NAME_TEXT, "%s", name);
    return i + 1;
}

int
hp_ring_names_take(hp_ring_names **all, int size, int rank, const uint8_t *payload, size_t n)
{
    char name[HP_CALL_NAME_TEXT];
    int number;
    if (!hp_call_name_get(&number, name, payload, n))
        return 0;
    if (!*all)
        *all = hp_alloc(1, sizeof(**all) + (size_t)size * sizeof((*all)->of[0]));
    if (*all && !(*all)->of[rank][number - 1])
        (*all)->of[rank][number - 1] = (uint8_t)place_of(*all, name);
    return 1;
}

void
hp_ring_names_fill(const hp_ring_names *all, int rank, int number, hp_call *call)
{
    int place = all && number > 0 && number <= HP_CALL_NAMES ? all->of[rank][number - 1] : 0;
    call->name = place ? all->text[place - 1] : NULL;
}
