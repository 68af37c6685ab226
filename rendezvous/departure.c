/* SPDX-License-Identifier: MIT */
/* departure: see departure.h. The ranks that remain have told which call the operation is. */
#include "rendezvous/departure.h"

#include "base/err.h"

#include <stdio.h>

static const char *
name_operation(const hp_ring_view *view, uint64_t sequence, char out[HP_OPERATION_TEXT])
{
    static const hp_call unknown;
    const hp_call *call = &unknown;
    for (int i = 0; i < view->size; i++)
        if (view->witnesses[i].report.sequence == sequence && view->witnesses[i].report.call.kind)
            call = &view->witnesses[i].report.call;
    return hp_blame_operation(sequence, call, out);
}

void
hp_departure_left(const hp_ring_view *view, int rank, int waiter, uint64_t sequence, hoop_error *error)
{
    const hp_member *who = &view->members[rank];
    unsigned long long completed = view->witnesses[rank].completed;
    char operation[HP_OPERATION_TEXT] = "a message";
    if (sequence != HP_NO_OPERATION)
        name_operation(view, sequence, operation);
    hp_err_set(error, HOOP_ERR_PEER_LOST,
               "rank %d (%.40s) left the communicator after %llu operation%s while rank %d (%.40s) waits in %s", rank,
               who->host, completed, completed == 1 ? "" : "s", waiter, view->members[waiter].host, operation);
    error->rank = rank;
    error->sequence = sequence;
}

uint64_t
hp_departure_operation(const hp_ring_view *view, int rank, uint64_t lost_in)
{
    uint64_t oldest = lost_in;
    if (view->witnesses[rank].in_op)
        return view->witnesses[rank].report.sequence;
    for (int i = 0; !lost_in && i < view->size; i++)
        if (view->witnesses[i].in_op && (!oldest || view->witnesses[i].report.sequence < oldest))
            oldest = view->witnesses[i].report.sequence;
    return oldest;
}

void
hp_departure_vanished(const hp_ring_view *view, int rank, uint64_t sequence, int linking, const char *why,
                      hoop_error *error)
{
    const hp_member *who = &view->members[rank];
    char operation[HP_OPERATION_TEXT], during[HP_OPERATION_TEXT + 16] = "";
    if (linking)
        snprintf(during, sizeof(during), " during bring-up");
    else if (sequence)
        snprintf(during, sizeof(during), " during %s", name_operation(view, sequence, operation));
    hp_err_set(error, HOOP_ERR_PEER_LOST, "rank %d (%s, pid %u) vanished%s: %s", rank, who->host, who->pid, during,
               why ? why : "its process ended or its connection broke");
    error->rank = rank;
    error->sequence = sequence;
}

/* The ranks that have not left. Returns their number. */
static int
name_missing(const hp_ring_view *view, char *out, size_t size)
{
    int missing = 0;
    const hp_member *first = NULL;
    for (int i = view->size - 1; i >= 0; i--)
        if (!view->witnesses[i].left) {
            first = &view->members[i];
            missing++;
        }
    if (missing == 0)
        snprintf(out, size, "%s", "");
    else if (missing == 1)
        snprintf(out, size, "; rank %d (%s, pid %u) did not come back after its control connection broke", first->rank,
                 first->host, first->pid);
    else
        snprintf(out, size,
                 "; rank %d (%s, pid %u) and %d other%s did not come back after their control connections broke",
                 first->rank, first->host, first->pid, missing - 1, missing == 2 ? "" : "s");
    return missing;
}

void
hp_departure_over(const hp_ring_view *view, char *out, size_t size)
{
    char missing[192], left[32];
    unsigned long long most = 0;
    int n = view->size - name_missing(view, missing, sizeof(missing));
    for (int i = 0; i < view->size; i++)
        if (view->witnesses[i].completed > most)
            most = view->witnesses[i].completed;
    if (n == view->size)
        snprintf(left, sizeof(left), "%s%d", n == 1 ? "its " : "all ", n);
    else
        snprintf(left, sizeof(left), "%d of %d", n, view->size);
    snprintf(out, size, "over: %s rank%s left after %llu operation%s%s", left, view->size == 1 ? "" : "s", most,
             most == 1 ? "" : "s", missing);
}
