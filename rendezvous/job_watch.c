/* SPDX-License-Identifier: MIT */
/*
 * job_watch: see job_watch.h. A job with several rings that wait for each other is one standstill to its user: the ring
 * that was spoken of first is spoken of until it goes on or fails, then the next one has its turn.
 */
#include "rendezvous/job_watch.h"

#include "base/clock.h"
#include "base/err.h"

#include <stdio.h>
#include <string.h>

enum {
    CERTAIN_MS = 500, /* a report may be on its way that explains it */
    AWAIT_MS = 5000
};

/* " (node2)" where all who are missing were started on one host, and the owner knows it; else nothing. */
static void
place_missing(const hp_meeting *m, char *out, size_t size)
{
    char text[HP_HOST_TEXT + 4];
    out[0] = 0;
    for (int rank = 0; rank < m->size; rank++) {
        const char *host = hp_meeting_has(m, rank) ? NULL : m->outlet->host_of(m->outlet->arg, rank);
        snprintf(text, sizeof(text), " (%.*s)", HP_HOST_TEXT - 1, host ? host : "");
        if (host && !*out)
            snprintf(out, size, "%s", text);
        else if (!hp_meeting_has(m, rank) && (!host || strcmp(text, out) != 0)) {
            out[0] = 0;
            return;
        }
    }
}

/* "rank 1 (node2) is missing", "2 are missing" where the server gives the ranks. */
static void
tell_missing(const hp_meeting *m, char *out, size_t size)
{
    char ranks[128], where[HP_HOST_TEXT + 4];
    int given = 0, left = m->size - m->came;
    const char *are = left == 1 ? "is" : "are";
    for (int i = 0; i < m->came; i++)
        given += m->seats[i].who.rank >= 0;
    place_missing(m, where, sizeof(where));
    if (given < m->came)
        snprintf(out, size, "%d %s missing", left, are);
    else
        snprintf(out, size, "rank%s %s%s %s missing", left == 1 ? "" : "s",
                 hp_rank_list(m->told, m->size, 0, ranks, sizeof(ranks)), where, are);
}

void
hp_overseer_await(hp_hall *hall, hp_meeting *m, uint64_t now)
{
    char line[400], missing[300];
    uint64_t after = m->warn_after ? AWAIT_MS * HP_MS : 0;
    if (m->parent || m->failure.code || !m->came)
        return;
    hp_nag_word word = hp_nag_look(&m->nag, after, m->came < m->size, m->opened, now);
    double seconds = (double)m->nag.lasted / 1e9;
    if (word == HP_NAG_SPEAK)
        tell_missing(m, missing, sizeof(missing));
    if (word == HP_NAG_SPEAK)
        snprintf(line, sizeof(line), "%s: %d of %d ranks %s here after %.1f s; %s", m->label, m->came, m->size,
                 m->came == 1 ? "is" : "are", seconds, missing);
    else if (word == HP_NAG_OVER)
        snprintf(line, sizeof(line), "%s: all %d ranks are here after %.1f s", m->label, m->size, seconds);
    if (word != HP_NAG_QUIET)
        hall->outlet.warn(hall->outlet.arg, line);
}

/* The ring that is spoken of, unless it has failed. */
static const hp_roster *
spoken_of(const hp_hall *hall)
{
    for (const hp_roster *r = hall->rosters; r; r = r->next)
        if (r->ring.comm == hall->nag_ring && r->state != HP_ROSTER_FAILED)
            return r;
    return NULL;
}

static const hp_roster *
longest_standing(const hp_hall *hall)
{
    const hp_roster *longest = NULL;
    for (const hp_roster *r = hall->rosters; r; r = r->next)
        if (r->state == HP_ROSTER_RUNNING && r->in_op_n && r->warn_after && (!longest || r->moved < longest->moved))
            longest = r;
    return longest;
}

void
hp_overseer_nag(hp_hall *hall, uint64_t now)
{
    char line[400], text[256];
    const hp_roster *r = hall->nag.since ? spoken_of(hall) : NULL;
    if (!r) {
        hall->nag.since = 0; /* that was said in other words */
        r = longest_standing(hall);
    }
    if (!r)
        return;
    hp_nag_word word = hp_nag_look(&hall->nag, r->warn_after, r->in_op_n > 0, r->moved, now);
    double seconds = (double)hall->nag.lasted / 1e9;
    hall->nag_ring = r->ring.comm;
    if (word == HP_NAG_SPEAK)
        snprintf(line, sizeof(line), "%s: %s", r->label, hp_roster_late(r, hall->nag.lasted, text, sizeof(text)));
    else if (word == HP_NAG_OVER)
        snprintf(line, sizeof(line), "%s: goes on after %.1f s", r->label, seconds);
    if (word != HP_NAG_QUIET)
        hall->outlet.warn(hall->outlet.arg, line);
}

/* Operations that a rank in a split has started, as far as anything tells: another of its threads may start some. */
static uint64_t
started_by(const hp_roster *r, const hp_seat *seat)
{
    const hp_witness *w = &r->witnesses[seat->who.rank];
    uint64_t seen = w->in_op && w->report.sequence > w->completed ? w->report.sequence : w->completed;
    return seen > seat->started ? seen : seat->started;
}

/* The one who is here and has started least; NULL: nobody is here. */
static const hp_seat *
furthest_back(const hp_roster *r, const hp_meeting *m)
{
    const hp_seat *back = NULL;
    for (int i = 0; i < m->came; i++)
        if (!back || started_by(r, &m->seats[i]) < started_by(r, back))
            back = &m->seats[i];
    return back;
}

/* A rank that has not come, and is in an operation above this number: the oldest of those; -1: none is. */
static int
one_above(const hp_roster *r, const hp_meeting *m, uint64_t number)
{
    int found = -1;
    for (int rank = 0; rank < r->ring.size; rank++) {
        const hp_witness *w = &r->witnesses[rank];
        if (!w->in_op || w->report.sequence <= number || hp_meeting_has(m, rank))
            continue;
        if (found < 0 || w->report.sequence < r->witnesses[found].report.sequence)
            found = rank;
    }
    return found;
}

static void
fail_crossed(hp_roster *r, const hp_seat *seat, int rank)
{
    const hp_report *report = &r->witnesses[rank].report;
    unsigned long long started = started_by(r, seat);
    char operation[HP_OPERATION_TEXT];
    hoop_error error;
    hp_err_set(
        &error, HOOP_ERR_MISMATCH,
        "rank %d (%s) is in hoop_comm_split after %llu operation%s, but rank %d (%s) is in %s, which rank %d has "
        "not started",
        seat->who.rank, seat->who.host, started, started == 1 ? "" : "s", rank, r->ring.members[rank].host,
        hp_blame_operation(report->sequence, &report->call, operation), seat->who.rank);
    error.rank = seat->who.rank;
    error.reporter = rank;
    error.sequence = report->sequence;
    hp_roster_fail(r, &error);
}

static void
cross(hp_meeting *m, hp_roster *r, uint64_t now)
{
    const hp_seat *seat = furthest_back(r, m);
    int rank = seat ? one_above(r, m, started_by(r, seat)) : -1;
    if (rank < 0)
        m->crossed = 0;
    else if (!m->crossed)
        m->crossed = now;
    else if (now - m->crossed >= CERTAIN_MS * HP_MS)
        fail_crossed(r, seat, rank);
}

void
hp_overseer_cross(hp_hall *hall, uint64_t now)
{
    for (hp_meeting *m = hall->meetings; m; m = m->next)
        for (hp_roster *r = hall->rosters; r && m->parent && !m->failure.code; r = r->next)
            if (r->ring.comm == m->parent && r->ring.size == m->size && r->state == HP_ROSTER_RUNNING && r->in_op_n)
                cross(m, r, now);
}
