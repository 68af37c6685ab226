/* SPDX-License-Identifier: MIT */
/* stays: see stays.h. Whoever asks leaves out one place at most, so two are enough. */
#include "rendezvous/stays.h"

int
hp_stays_same(const hp_wait_place *a, const hp_wait_place *b)
{
    return a->ring == b->ring && a->split == b->split && a->rank == b->rank;
}

static int
is_longer(const hp_stay *a, const hp_stay *b)
{
    return !b->place.ring || a->since < b->since;
}

void
hp_stays_note(hp_stays *stays, const hp_wait_place *place, uint64_t since)
{
    const hp_stay stay = {*place, since};
    int same = hp_stays_same(place, &stays->longest.place);
    if (is_longer(&stay, &stays->longest)) {
        if (!same)
            stays->next = stays->longest;
        stays->longest = stay;
    } else if (!same && is_longer(&stay, &stays->next)) {
        stays->next = stay;
    }
}

const hp_stay *
hp_stays_except(const hp_stays *stays, const hp_wait_place *place)
{
    return hp_stays_same(&stays->longest.place, place) ? &stays->next : &stays->longest;
}
