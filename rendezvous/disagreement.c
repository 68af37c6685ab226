/* SPDX-License-Identifier: MIT */
/* disagreement: see disagreement.h. A rank's word counts for the operation of the report, never for another one. */
#include "rendezvous/disagreement.h"

#include "base/clock.h"
#include "base/err.h"

#include <stdio.h>
#include <string.h>

enum { TELL_MS = 200, PARTY_TEXT = 96, OTHERS = 64 /* calls that are compared */ };

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

/* The ranks that made the call of this one. */
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

/* The ranks that made the call which most made, other than this one; first -1: there is no other. */
static party
largest_other(const hp_witness *witnesses, int n, uint64_t sequence, const hp_call *call)
{
    party found = {.first = -1};
    for (int i = 0, others = 0; i < n && others < OTHERS; i++) {
        if (!is_in(&witnesses[i], sequence) || hp_call_equal(&witnesses[i].report.call, call) ||
            (found.call && hp_call_equal(&witnesses[i].report.call, found.call)))
            continue;
        party p = party_of(witnesses, n, sequence, i);
        found = p.count > found.count ? p : found;
        others++;
    }
    return found;
}

/* "rank 0 (node1) and 2 others called "; without the host if it is to be brief. */
static void
print_party(const party *p, const hp_member *members, int brief, char out[PARTY_TEXT])
{
    const hp_member *who = &members[p->first];
    int at = brief ? snprintf(out, PARTY_TEXT, "rank %d", who->rank)
                   : snprintf(out, PARTY_TEXT, "%.60s", hp_member_name(who).text);
    if (p->count > 1)
        snprintf(out + at, PARTY_TEXT - (size_t)at, " and %.24s", hp_say_count((uint64_t)p->count - 1, "other").text);
}

/* A brief one has no hosts, and a name that both calls have once only. Returns the length of the whole sentence. */
static size_t
print_both(const party *a, const party *b, const hp_member *members, uint64_t sequence, int brief, hoop_error *error)
{
    char few[PARTY_TEXT], many[PARTY_TEXT], call[HP_NOUN], other[HP_NOUN];
    hp_call first = *a->call, second = *b->call;
    if (brief > 1)
        first.name = NULL;
    if (brief > 1 || (brief && first.name && second.name && strcmp(first.name, second.name) == 0))
        second.name = NULL;
    print_party(a, members, brief, few);
    print_party(b, members, brief, many);
    int n = snprintf(error->text, sizeof(error->text), "%s called %s as operation %llu, but %s called %s%s", few,
                     hp_call_print(&first, call, sizeof(call)), (unsigned long long)sequence, many,
                     hp_call_print(&second, other, sizeof(other)), hp_call_other_counts(&first, &second));
    return (size_t)n;
}

void
hp_disagreement_error(const hp_disagreement *disagreement, const hp_witness *witnesses, const hp_member *members, int n,
                      hoop_error *error)
{
    const hoop_error *cause = &disagreement->cause;
    *error = *cause;
    if (!is_in(&witnesses[cause->rank], cause->sequence) || !is_in(&witnesses[cause->reporter], cause->sequence) ||
        hp_call_equal(&witnesses[cause->rank].report.call, &witnesses[cause->reporter].report.call))
        return;
    party a = party_of(witnesses, n, cause->sequence, cause->rank);
    party b = largest_other(witnesses, n, cause->sequence, a.call);
    if (a.count > b.count) {
        party larger = a;
        a = b;
        b = larger;
    }
    for (int brief = 0; brief < 3; brief++) /* what differs is at the end */
        if (print_both(&a, &b, members, cause->sequence, brief, error) < sizeof(error->text))
            break;
    error->rank = a.first;
}
