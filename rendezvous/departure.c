/* SPDX-License-Identifier: MIT */
/* departure: see departure.h. The ranks that remain have told which call the operation is. */
#include "rendezvous/departure.h"

#include "base/err.h"
#include "base/say.h"

#include <stdio.h>

static hp_noun
name_operation(const hp_ring_view *view, uint64_t sequence)
{
    static const hp_call unknown;
    const hp_call *call = &unknown;
    for (int i = 0; i < view->size; i++)
        if (view->witnesses[i].report.sequence == sequence && view->witnesses[i].report.call.kind)
            call = &view->witnesses[i].report.call;
    return hp_say_operation(sequence, call);
}

void
hp_departure_left(const hp_ring_view *view, int rank, int waiter, uint64_t sequence, hoop_error *error)
{
    hp_noun operation = {"a message"};
    if (sequence != HP_NO_OPERATION)
        operation = name_operation(view, sequence);
    hp_err_set(error, HOOP_ERR_PEER_LOST, "%s left the communicator after %s while %s waits in %s",
               hp_member_name(&view->members[rank]).text,
               hp_say_count(view->witnesses[rank].completed, "operation").text,
               hp_member_name(&view->members[waiter]).text, operation.text);
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

/* " during operation 17 (barrier)", or nothing. */
static hp_noun
name_time(const hp_ring_view *view, uint64_t sequence, int linking)
{
    hp_noun during = {""};
    if (linking)
        snprintf(during.text, HP_NOUN, " during bring-up");
    else if (sequence)
        snprintf(during.text, HP_NOUN, " during %.145s", name_operation(view, sequence).text);
    return during;
}

void
hp_departure_vanished(const hp_ring_view *view, int rank, uint64_t sequence, int linking, const char *why,
                      hoop_error *error)
{
    hp_err_set(error, HOOP_ERR_PEER_LOST, "%s vanished%s: %s", hp_member_process(&view->members[rank]).text,
               name_time(view, sequence, linking).text, why ? why : "its process ended or its connection broke");
    error->rank = rank;
    error->sequence = sequence;
}

static int
is_silent(const hp_ring_view *view, int rank, uint64_t least)
{
    return view->witnesses[rank].silence >= least && !view->witnesses[rank].left;
}

/* Whether the ranks that are silent for so long are on more than one host, and the others on one at most. */
static int
are_most_silent(const hp_ring_view *view, int rank, uint64_t least)
{
    int hosts = 1, others = 0, other = -1;
    for (int i = 0; i < view->size; i++) {
        if (is_silent(view, i, least)) {
            hosts += view->members[i].host_id != view->members[rank].host_id;
        } else if (other < 0 || view->members[i].host_id != view->members[other].host_id) {
            others++;
            other = i;
        }
    }
    return hosts > 1 && others <= 1;
}

void
hp_departure_cut_off(const hp_ring_view *view, int rank, uint64_t sequence, int linking, hoop_error *error)
{
    const hp_member *who = &view->members[rank];
    uint64_t silence = view->witnesses[rank].silence;
    double seconds = (double)silence / 1e9;
    hp_noun during = name_time(view, sequence, linking);
    int most = are_most_silent(view, rank, silence / 2);
    if (most)
        hp_err_set(error, HOOP_ERR_PEER_LOST,
                   "%s and all ranks on other hosts are cut off from the rendezvous server%s: their hosts have "
                   "acknowledged nothing for %.1f s; look at the cable, switch and firewall of the server's host",
                   hp_member_name(who).text, during.text, seconds);
    else
        hp_err_set(error, HOOP_ERR_PEER_LOST,
                   "%s is cut off%s: its host has acknowledged nothing for %.1f s; look at its cable, its switch and "
                   "its firewall",
                   hp_member_process(who).text, during.text, seconds);
    error->rank = most ? -1 : rank;
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
        snprintf(out, size, "; %s did not come back after its control connection broke", hp_member_process(first).text);
    else
        snprintf(out, size, "; %s and %s did not come back after their control connections broke",
                 hp_member_process(first).text, hp_say_count((uint64_t)missing - 1, "other").text);
    return missing;
}

void
hp_departure_over(const hp_ring_view *view, char *out, size_t size)
{
    char missing[400], left[32];
    uint64_t most = 0;
    int n = view->size - name_missing(view, missing, sizeof(missing));
    for (int i = 0; i < view->size; i++)
        if (view->witnesses[i].completed > most)
            most = view->witnesses[i].completed;
    if (n == view->size)
        snprintf(left, sizeof(left), "%s%d", n == 1 ? "its " : "all ", n);
    else
        snprintf(left, sizeof(left), "%d of %d", n, view->size);
    snprintf(out, size, "over: %s rank%s left after %s%s", left, view->size == 1 ? "" : "s",
             hp_say_count(most, "operation").text, missing);
}

void
hp_departure_unlinked(const uint64_t *ready, int size, int ready_n, hoop_error *error)
{
    hp_err_set(
        error, HOOP_ERR_RENDEZVOUS,
        "all %d ranks joined, but the links of %d of them are not up (%s); can the hosts reach each other, or does a "
        "firewall close their ports?",
        size, size - ready_n, hp_say_ranks(ready, size, 0).text);
    for (int i = 0; size - ready_n == 1 && i < size; i++)
        if (!hp_rank_set_has(ready, i))
            error->rank = i;
}
