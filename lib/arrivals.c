/* SPDX-License-Identifier: MIT */
/*
 * arrivals: see arrivals.h. What is free is kept by its size, and as much as may be in use: before more is allocated,
 * free memory of other sizes goes back.
 */
#include "lib/arrivals.h"

#include "base/mem.h"

#include <stdlib.h>

enum { KEEP_BYTES = HP_EAGER_ROOM + HP_EAGER_ROOM / HP_EAGER_LEAST * sizeof(hp_arrival) };

uint32_t
hp_arrival_cost(uint64_t bytes)
{
    uint32_t cost = HP_EAGER_LEAST;
    while (cost < bytes)
        cost *= 2;
    return cost;
}

static int
class_of(uint32_t cost)
{
    int class = 0;
    for (uint32_t least = HP_EAGER_LEAST; cost >= least; least *= 2)
        class ++;
    return class;
}

static void
let_go(hp_arrivals *a, hp_arrival *arrival)
{
    a->allocated -= sizeof(*arrival) + arrival->cost;
    free(arrival);
}

static void
let_go_free(hp_arrivals *a, uint64_t bytes)
{
    for (int i = 0; i < HP_EAGER_CLASSES; i++)
        while (a->free[i] && a->allocated + bytes > KEEP_BYTES) {
            hp_arrival *arrival = a->free[i];
            a->free[i] = arrival->next_free;
            let_go(a, arrival);
        }
}

hp_arrival *
hp_arrivals_take(hp_arrivals *a, uint32_t cost)
{
    int class = class_of(cost);
    hp_arrival *arrival = a->free[class];
    if (arrival) {
        a->free[class] = arrival->next_free;
    } else {
        let_go_free(a, sizeof(*arrival) + cost);
        arrival = hp_alloc(1, sizeof(*arrival) + cost);
        if (!arrival)
            return NULL;
        a->allocated += sizeof(*arrival) + cost;
    }
    arrival->receive = NULL;
    arrival->here = 0;
    arrival->cost = cost;
    a->unread += cost;
    a->offers += cost == 0;
    return arrival;
}

void
hp_arrivals_give(hp_arrivals *a, hp_arrival *arrival)
{
    int class = class_of(arrival->cost);
    a->unread -= arrival->cost;
    a->offers -= arrival->cost == 0;
    arrival->next_free = a->free[class];
    a->free[class] = arrival;
    let_go_free(a, 0);
}

void
hp_arrivals_free(hp_arrivals *a)
{
    for (int i = 0; i < HP_EAGER_CLASSES; i++)
        while (a->free[i]) {
            hp_arrival *arrival = a->free[i];
            a->free[i] = arrival->next_free;
            let_go(a, arrival);
        }
}
