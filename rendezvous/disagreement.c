/* SPDX-License-Identifier: MIT */
/* disagreement: see disagreement.h. A rank's word counts for the operation of the report, never for another one. */
#include "rendezvous/disagreement.h"

#include "base/clock.h"
#include "base/err.h"

#include <stdio.h>

enum { TELL_MS = 200 };

/* The ranks that made one call. */
typedef struct party {
    const hp_call *call;
    int first, count;
} party;

int
hp_disagreement_note(hp_disagreement *disagreement, const hoop_error *cause, uint64_t now)
{
    if (cause->code != HOOP_ERR_MISMATCH || cause->rank < 0 || cause->rank == cause->reporter || !cause->sequence ||
        cause->sequence == HP_NO_OPERATION)
        return 0;
    if (!hp_disagreement_is_open(disagreement))
        *disagreement = (hp_disagreement){.cause = *cause, .since = now};
    return 1;
}

int
hp_disagreement_is_open(const hp_disagreement *disagreement)
{
    return disagreement->cause.code != HOOP_SUCCESS;
}

static int
is_in(const hp_witness *w, uint64_t sequence)
{
    return w->in_op && w->report.sequence == sequence && w->report.call.kind;
}

int
hp_disagreement_is_due(const hp_disagreement *disagreement, const hp_witness *witnesses, int n, uint64_t now)
{
    uint64_t sequence = disagreement->cause.sequence;
    int told = 1;
    if (!hp_disagreement_is_open(disagreement))
        return 0;
    for (int i = 0; i < n && told; i++)
        told = is_in(&witnesses[i], sequence) || witnesses[i].completed >= sequence || witnesses[i].left;
    return told || now - disagreement->since >= TELL_MS * HP_MS;
}

static party
party_of(const hp_witness *witnesses, int n, uint64_t sequence, int rank)
{
    party p = {.call = &witnesses[rank].report.call, .first = -1};
    for (int i = 0; i < n; i++) {
        if (!is_in(&witnesses[i], sequence) || !hp_call_equal(&witnesses[i].report.call, p.call))
            continue;
        p.first = p.first < 0 ? i : p.first;
        p.count++;
    }
    return p;
}

/* "rank 0 (node1) and 2 others" */
static const char *
print_party(const party *p, const hp_member *members, char out[96])
{
    const hp_member *who = &members[p->first];
    int at = snprintf(out, 96, "rank %d (%.40s)", who->rank, who->host);
    if (p->count > 1)
        snprintf(out + at, (size_t)(96 - at), " and %d other%s", p->count - 1, p->count == 2 ? "" : "s");
    return out;
}

void
hp_disagreement_error(const hp_disagreement *disagreement, const hp_witness *witnesses, const hp_member *members, int n,
                      hoop_error *error)
{
    const hoop_error *cause = &disagreement->cause;
    char few[96], many[96], call[HP_OPERATION_TEXT], other[HP_OPERATION_TEXT];
    *error = *cause;
    if (!is_in(&witnesses[cause->rank], cause->sequence) || !is_in(&witnesses[cause->reporter], cause->sequence))
        return;
    party a = party_of(witnesses, n, cause->sequence, cause->rank);
    party b = party_of(witnesses, n, cause->sequence, cause->reporter);
    if (hp_call_equal(a.call, b.call))
        return;
    if (a.count > b.count) {
        party larger = a;
        a = b;
        b = larger;
    }
    snprintf(error->text, sizeof(error->text), "%s called %s as operation %llu, but %s called %s%s",
             print_party(&a, members, few), hp_call_print(a.call, call, sizeof(call)),
             (unsigned long long)cause->sequence, print_party(&b, members, many),
             hp_call_print(b.call, other, sizeof(other)), hp_call_other_counts(a.call, b.call));
    error->rank = a.first;
}
