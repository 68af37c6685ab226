/* SPDX-License-Identifier: MIT */
/*
 * refused_call: see refused_call.h. A refused call is kept after the rank has corrected it, because it shows what the
 * rank did not call.
 */
#include "rendezvous/refused_call.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_WAIT_MS = 1000,
    JUDGED = 64 /* at most so many at a time: if all ranks refuse a call, no rank waits for it */
};

void
hp_refused_calls_note(hp_refused_calls *calls, int size, int rank, const hp_unstarted *unstarted)
{
    if (!calls->of)
        calls->of = hp_alloc((size_t)size, sizeof(*calls->of));
    if (calls->of && !calls->of[rank])
        calls->of[rank] = hp_alloc(1, sizeof(hp_refused_call));
    hp_refused_call *call = calls->of ? calls->of[rank] : NULL;
    if (!call)
        return;
    calls->pending += !call->pending;
    *call = (hp_refused_call){.unstarted = *unstarted, .pending = 1};
}

void
hp_refused_calls_withdraw(hp_refused_calls *calls, int rank, uint64_t sequence)
{
    hp_refused_call *call = calls->pending ? calls->of[rank] : NULL;
    if (!call || !call->pending || call->unstarted.sequence > sequence)
        return;
    call->pending = 0;
    calls->pending--;
}

/* Whether a rank that had refused the same number, and is in it now, has corrected the same call or makes another. */
static int
is_same(const hp_call *a, const hp_call *b)
{
    return a->kind == b->kind && a->count == b->count && a->dtype == b->dtype;
}

/* Whether a rank waits in the refused operation, or in a later one. */
static int
waits_for(const hp_refused_calls *calls, const hp_witness *w, int rank, const hp_unstarted *unstarted)
{
    const hp_refused_call *own = calls->of[rank];
    if (!w->in_op || w->report.sequence < unstarted->sequence)
        return 0;
    if (own && own->unstarted.sequence == unstarted->sequence)
        return !own->pending && w->report.sequence == unstarted->sequence && is_same(&w->report.call, &unstarted->call);
    return w->report.sequence > unstarted->sequence || !w->report.call.kind ||
           w->report.call.kind == unstarted->call.kind;
}

/* Whether other ranks have waited for this one for long enough. */
static int
is_due(const hp_refused_calls *calls, const hp_witness *w, int size, int rank, uint64_t now)
{
    hp_refused_call *call = calls->of[rank];
    int waited_for = 0;
    for (int i = 0; i < size && !waited_for; i++)
        waited_for = i != rank && waits_for(calls, &w[i], i, &call->unstarted);
    if (!waited_for)
        call->since = 0;
    else if (!call->since)
        call->since = now;
    return waited_for && now - call->since >= MOST_WAIT_MS * HP_MS;
}

int
hp_refused_calls_due(hp_refused_calls *calls, const hp_witness *w, int size, uint64_t now)
{
    int judged = 0;
    if (!calls->pending)
        return -1;
    for (int rank = 0; rank < size && judged < JUDGED; rank++) {
        if (!calls->of[rank] || !calls->of[rank]->pending)
            continue;
        judged++;
        if (is_due(calls, w, size, rank, now))
            return rank;
    }
    return -1;
}

void
hp_refused_calls_print(const hp_refused_calls *calls, const hp_member *who, hoop_error *error)
{
    const hp_unstarted *unstarted = &calls->of[who->rank]->unstarted;
    hp_err_set(error, HOOP_ERR_MISMATCH, "%s could not start %s: %s", hp_member_name(who).text,
               hp_say_operation(unstarted->sequence, &unstarted->call).text, unstarted->cause.text);
    error->rank = error->reporter = who->rank;
    error->sequence = unstarted->sequence;
}

void
hp_refused_calls_free(hp_refused_calls *calls, int size)
{
    for (int rank = 0; calls->of && rank < size; rank++)
        free(calls->of[rank]);
    free(calls->of);
}
