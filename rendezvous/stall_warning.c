/* SPDX-License-Identifier: MIT */
/*
 * stall_warning: see stall_warning.h. Where two are missed and one of them comes, something moves for a moment: that is no end, and the
 * next word, about the other one, tells how long it all has lasted.
 */
#include "rendezvous/stall_warning.h"

#include "base/clock.h"

enum { GOING_MS = 1000 };

static hp_nag_word
speak(hp_nag *nag, uint64_t now)
{
    nag->lasted = now - nag->since;
    while (nag->next <= nag->lasted)
        nag->next *= 2;
    return HP_NAG_SPEAK;
}

static hp_nag_word
begin(hp_nag *nag, uint64_t after, int waiting, uint64_t moved, uint64_t now)
{
    if (!after || !waiting || now < moved + after)
        return HP_NAG_QUIET;
    *nag = (hp_nag){.since = moved, .next = after, .moved = moved};
    return speak(nag, now);
}

/* Whether what moves again does so for good. */
static int
is_over(const hp_nag *nag, int waiting, uint64_t now)
{
    return nag->going && (!waiting || (now >= nag->going + GOING_MS * HP_MS && now < nag->moved + GOING_MS * HP_MS));
}

hp_nag_word
hp_nag_look(hp_nag *nag, uint64_t after, int waiting, uint64_t moved, uint64_t now)
{
    if (!nag->since)
        return begin(nag, after, waiting, moved, now);
    if (!nag->going && (moved != nag->moved || !waiting))
        nag->going = moved != nag->moved ? moved : now;
    nag->moved = moved;
    if (is_over(nag, waiting, now)) {
        nag->lasted = nag->going - nag->since;
        nag->since = 0;
        return HP_NAG_OVER;
    }
    if (now >= moved + GOING_MS * HP_MS)
        nag->going = 0;
    if (now < nag->since + nag->next || now < moved + after)
        return HP_NAG_QUIET;
    return speak(nag, now);
}
