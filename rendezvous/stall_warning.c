/* SPDX-License-Identifier: MIT */
/*
 * stall_warning: see stall_warning.h. If two ranks are missing and one of them joins, there is progress for a moment.
 * That does not end the stall: the next warning, about the other rank, gives the time since its beginning.
 */
#include "rendezvous/stall_warning.h"

#include "base/clock.h"

enum { GOING_MS = 1000 };

static hp_stall_word
speak(hp_stall_warning *warning, uint64_t now)
{
    warning->lasted = now - warning->since;
    while (warning->next <= warning->lasted)
        warning->next *= 2;
    return HP_STALL_WARN;
}

static hp_stall_word
begin(hp_stall_warning *warning, uint64_t after, int waiting, uint64_t moved, uint64_t now)
{
    if (!after || !waiting || now < moved + after)
        return HP_STALL_QUIET;
    *warning = (hp_stall_warning){.since = moved, .next = after, .moved = moved};
    return speak(warning, now);
}

/* Whether the progress that was seen lasts. */
static int
is_over(const hp_stall_warning *warning, int waiting, uint64_t now)
{
    return warning->going &&
           (!waiting || (now >= warning->going + GOING_MS * HP_MS && now < warning->moved + GOING_MS * HP_MS));
}

hp_stall_word
hp_stall_warning_due(hp_stall_warning *warning, uint64_t after, int waiting, uint64_t moved, uint64_t now)
{
    if (!warning->since)
        return begin(warning, after, waiting, moved, now);
    if (!warning->going && (moved != warning->moved || !waiting))
        warning->going = moved != warning->moved ? moved : now;
    warning->moved = moved;
    if (is_over(warning, waiting, now)) {
        warning->lasted = warning->going - warning->since;
        warning->since = 0;
        return HP_STALL_OVER;
    }
    if (now >= moved + GOING_MS * HP_MS)
        warning->going = 0;
    if (now < warning->since + warning->next || now < moved + after)
        return HP_STALL_QUIET;
    return speak(warning, now);
}
