/* SPDX-License-Identifier: MIT */
/*
 * refused_call: see refused_call.h. A refused call is kept after the rank has corrected it, because it tells what the
 * rank did not call.
 */
#include "rendezvous/refused_call.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum {
    PATIENCE_MS = 1000,
    JUDGED = 64 /* at most so many in one look: if all ranks refuse a call, no rank waits for it */
};

void
hp_refused_calls_note(hp_refused_calls *refused_calls, int size, int rank, const hp_unstarted *said)
{
    if (!refused_calls->of)
        refused_calls->of = hp_alloc((size_t)size, sizeof(*refused_calls->of));
    if (refused_calls->of && !refused_calls->of[rank])
        refused_calls->of[rank] = hp_alloc(1, sizeof(hp_refused_call));
    hp_refused_call *refusal = refused_calls->of ? refused_calls->of[rank] : NULL;
    if (!refusal)
        return;
    refused_calls->pending += !refusal->pending;
    *refusal = (hp_refused_call){.said = *said, .pending = 1};
}

void
hp_refused_calls_withdraw(hp_refused_calls *refused_calls, int rank, uint64_t sequence)
{
    hp_refused_call *refusal = refused_calls->pending ? refused_calls->of[rank] : NULL;
    if (!refusal || !refusal->pending || refusal->said.sequence > sequence)
        return;
    refusal->pending = 0;
    refused_calls->pending--;
}

/* Whether a rank that had refused the same number, and is in it now, has corrected the same call or makes another. */
static int
is_same(const hp_call *a, const hp_call *b)
{
    return a->kind == b->kind && a->count == b->count && a->dtype == b->dtype;
}

/* Whether a rank waits in the refused operation, or in a later one. */
static int
waits_for(const hp_refused_calls *refused_calls, const hp_witness *w, int rank, const hp_unstarted *said)
{
    const hp_refused_call *own = refused_calls->of[rank];
    if (!w->in_op || w->report.sequence < said->sequence)
        return 0;
    if (own && own->said.sequence == said->sequence)
        return !own->pending && w->report.sequence == said->sequence && is_same(&w->report.call, &said->call);
    return w->report.sequence > said->sequence || !w->report.call.kind || w->report.call.kind == said->call.kind;
}

/* Whether other ranks have waited for this one for long enough. */
static int
is_due(const hp_refused_calls *refused_calls, const hp_witness *w, int size, int rank, uint64_t now)
{
    hp_refused_call *refusal = refused_calls->of[rank];
    int waited_for = 0;
    for (int i = 0; i < size && !waited_for; i++)
        waited_for = i != rank && waits_for(refused_calls, &w[i], i, &refusal->said);
    if (!waited_for)
        refusal->since = 0;
    else if (!refusal->since)
        refusal->since = now;
    return waited_for && now - refusal->since >= PATIENCE_MS * HP_MS;
}

int
hp_refused_calls_due(hp_refused_calls *refused_calls, const hp_witness *w, int size, uint64_t now)
{
    int looked = 0;
    if (!refused_calls->pending)
        return -1;
    for (int rank = 0; rank < size && looked < JUDGED; rank++) {
        if (!refused_calls->of[rank] || !refused_calls->of[rank]->pending)
            continue;
        looked++;
        if (is_due(refused_calls, w, size, rank, now))
            return rank;
    }
    return -1;
}

void
hp_refused_calls_print(const hp_refused_calls *refused_calls, const hp_member *who, hoop_error *error)
{
    const hp_unstarted *said = &refused_calls->of[who->rank]->said;
    char operation[HP_OPERATION_TEXT];
    hp_err_set(error, HOOP_ERR_MISMATCH, "rank %d (%s) could not start %s: %s", who->rank, who->host,
               hp_blame_operation(said->sequence, &said->call, operation), said->cause.text);
    error->rank = error->reporter = who->rank;
    error->sequence = said->sequence;
}

void
hp_refused_calls_free(hp_refused_calls *refused_calls, int size)
{
    for (int rank = 0; refused_calls->of && rank < size; rank++)
        free(refused_calls->of[rank]);
    free(refused_calls->of);
}
