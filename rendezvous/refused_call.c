/* SPDX-License-Identifier: MIT */
/* refused_call: see refused_call.h. A refusal is kept when it is withdrawn, because it tells what the rank did not call. */
#include "rendezvous/refused_call.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum {
    PATIENCE_MS = 1000,
    JUDGED = 64 /* at most so many at one look: where all ranks refuse a call nobody waits for it */
};

void
hp_refusals_note(hp_refusals *refusals, int size, int rank, const hp_unstarted *said)
{
    if (!refusals->of)
        refusals->of = hp_alloc((size_t)size, sizeof(*refusals->of));
    if (refusals->of && !refusals->of[rank])
        refusals->of[rank] = hp_alloc(1, sizeof(hp_refusal));
    hp_refusal *refusal = refusals->of ? refusals->of[rank] : NULL;
    if (!refusal)
        return;
    refusals->pending += !refusal->pending;
    *refusal = (hp_refusal){.said = *said, .pending = 1};
}

void
hp_refusals_withdraw(hp_refusals *refusals, int rank, uint64_t sequence)
{
    hp_refusal *refusal = refusals->pending ? refusals->of[rank] : NULL;
    if (!refusal || !refusal->pending || refusal->said.sequence > sequence)
        return;
    refusal->pending = 0;
    refusals->pending--;
}

/* Who has refused the number too and is in it now has made right the same call, or makes another. */
static int
is_same(const hp_call *a, const hp_call *b)
{
    return a->kind == b->kind && a->count == b->count && a->dtype == b->dtype;
}

/* Whether a rank waits in the operation that was refused, or in a later one. */
static int
waits_for(const hp_refusals *refusals, const hp_witness *w, int rank, const hp_unstarted *said)
{
    const hp_refusal *own = refusals->of[rank];
    if (!w->in_op || w->report.sequence < said->sequence)
        return 0;
    if (own && own->said.sequence == said->sequence)
        return !own->pending && w->report.sequence == said->sequence && is_same(&w->report.call, &said->call);
    return w->report.sequence > said->sequence || !w->report.call.kind || w->report.call.kind == said->call.kind;
}

/* Whether others have waited for the rank for long enough. */
static int
is_due(const hp_refusals *refusals, const hp_witness *w, int size, int rank, uint64_t now)
{
    hp_refusal *refusal = refusals->of[rank];
    int waited_for = 0;
    for (int i = 0; i < size && !waited_for; i++)
        waited_for = i != rank && waits_for(refusals, &w[i], i, &refusal->said);
    if (!waited_for)
        refusal->since = 0;
    else if (!refusal->since)
        refusal->since = now;
    return waited_for && now - refusal->since >= PATIENCE_MS * HP_MS;
}

int
hp_refusals_due(hp_refusals *refusals, const hp_witness *w, int size, uint64_t now)
{
    int looked = 0;
    if (!refusals->pending)
        return -1;
    for (int rank = 0; rank < size && looked < JUDGED; rank++) {
        if (!refusals->of[rank] || !refusals->of[rank]->pending)
            continue;
        looked++;
        if (is_due(refusals, w, size, rank, now))
            return rank;
    }
    return -1;
}

void
hp_refusals_print(const hp_refusals *refusals, const hp_member *who, hoop_error *error)
{
    const hp_unstarted *said = &refusals->of[who->rank]->said;
    char operation[HP_OPERATION_TEXT];
    hp_err_set(error, HOOP_ERR_MISMATCH, "rank %d (%s) could not start %s: %s", who->rank, who->host,
               hp_blame_operation(said->sequence, &said->call, operation), said->cause.text);
    error->rank = error->reporter = who->rank;
    error->sequence = said->sequence;
}

void
hp_refusals_free(hp_refusals *refusals, int size)
{
    for (int rank = 0; refusals->of && rank < size; rank++)
        free(refusals->of[rank]);
    free(refusals->of);
}
