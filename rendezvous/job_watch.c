/* SPDX-License-Identifier: MIT */
/*
 * job_watch: see job_watch.h. To its user a job with several rings that wait for each other is one stall: the ring
 * that was named first is named until it makes progress or fails, then the next one is.
 */
#include "rendezvous/job_watch.h"

#include "base/clock.h"
#include "base/err.h"
#include "rendezvous/hold_up.h"
#include "rendezvous/shrink.h"

#include <stdio.h>
#include <string.h>

enum {
    CERTAIN_MS = 500, /* a report that explains it may be on its way */
    AWAIT_MS = 5000
};

/* " (node2)" if all missing ranks were started on one host and the owner knows it; else "". */
static void
place_missing(const hp_join_group *m, char *out, size_t size)
{
    const hp_starter *starter = &m->events->starter;
    char text[HP_HOST_TEXT + 4];
    out[0] = 0;
    if (!starter->host_of)
        return;
    for (int rank = 0; rank < m->size; rank++) {
        const char *host = hp_join_group_has(m, rank) ? NULL : starter->host_of(starter->arg, rank);
        snprintf(text, sizeof(text), " (%.*s)", HP_HOST_TEXT - 1, host ? host : "");
        if (host && !*out)
            snprintf(out, size, "%s", text);
        else if (!hp_join_group_has(m, rank) && (!host || strcmp(text, out) != 0)) {
            out[0] = 0;
            return;
        }
    }
}

/* "rank 1 (node2, pid 811) has", or "ranks 1 and 3 have"; and what is known of the process of one, as an end of its sentence. */
static const char *
name_missing(const hp_whereabouts *where, const hp_join_group *m, const hp_roster *parent, uint64_t waited, char *out,
             size_t size)
{
    int rank = 0;
    while (rank < m->size - 1 && hp_join_group_has(m, rank))
        rank++;
    const hp_member *who = &parent->ring.members[rank];
    if (m->size - m->joined_n > 1)
        snprintf(out, size, "%s have", hp_say_ranks(m->has_joined, m->size, 0).text);
    else
        snprintf(out, size, "%s has", hp_member_process(who).text);
    return m->size - m->joined_n > 1 ? "" : hp_blame_process(hp_whereabouts_process(where, who, waited));
}

static void
print_split(const hp_whereabouts *where, const hp_join_group *m, const hp_roster *parent, uint64_t now, char *out,
            size_t size)
{
    uint64_t waited = now - m->opened;
    char who[200];
    const char *process = name_missing(where, m, parent, waited, who, sizeof(who));
    snprintf(out, size, "%s not called %s %u of %s%s; %s", who, hp_join_group_call(m), m->split,
             hp_say_ring(parent->label, parent->name).text, process, hp_say_waited(m->joined_n, waited).text);
    hp_hold_up_add_away(parent, -1, out, size);
}

static void
print_world(const hp_join_group *m, char *out, size_t size)
{
    char where[HP_HOST_TEXT + 4];
    int given = 0, left = m->size - m->joined_n;
    const char *are = left == 1 ? "is" : "are";
    for (int i = 0; i < m->joined_n; i++)
        given += m->joined[i].member.rank >= 0;
    place_missing(m, where, sizeof(where));
    if (given < m->joined_n)
        snprintf(out, size, "%d %s missing", left, are);
    else
        snprintf(out, size, "%s%s %s missing", hp_say_ranks(m->has_joined, m->size, 0).text, where, are);
}

const char *
hp_job_watch_missing(const hp_whereabouts *where, const hp_join_group *m, uint64_t now, char *out, size_t size)
{
    const hp_wait_place here = {.split = m, .rank = -1};
    const hp_roster *parent = hp_job_ring(where->job->rosters, m->parent);
    int guilty;
    if (m->shrink && parent) {
        hp_shrink_print(parent, m, now, out, size);
        return out;
    }
    if (hp_wait_chain_print(where, &here, now - m->opened, &guilty, out, size))
        return out;
    if (parent && parent->ring.size == m->size)
        print_split(where, m, parent, now, out, size);
    else
        print_world(m, out, size);
    return out;
}

void
hp_job_watch_overdue(const hp_job *job, hp_join_group *m, uint64_t now)
{
    const hp_wait_place here = {.split = m, .rank = -1};
    hp_whereabouts where = hp_whereabouts_take(job, NULL, now);
    hoop_error error;
    char text[256];
    int guilty = -1;
    hp_join_group_missing(m, &error);
    if (hp_wait_chain_print(&where, &here, m->deadline - m->opened, &guilty, text, sizeof(text))) {
        hp_err_set(&error, HOOP_ERR_RENDEZVOUS, "%s", text);
        error.rank = guilty;
        error.phase = HOOP_PHASE_BRINGUP;
    }
    hp_whereabouts_free(&where);
    hp_join_group_fail(m, &error, now);
    m->deadline = now; /* A rank that joins a world later begins a new one: this sentence may name that very rank. */
}

void
hp_job_watch_start(const hp_job *job, hp_join_group *m, uint64_t now)
{
    char line[500], missing[300];
    uint64_t after = m->parent ? m->warn_after : m->warn_after ? AWAIT_MS * HP_MS : 0;
    if (m->failure.code || !m->joined_n)
        return;
    int awaits = m->shrink ? !hp_join_group_is_known(m) : m->joined_n < m->size;
    hp_stall_word word = hp_stall_warning_due(&m->warning, after, awaits, m->opened, now);
    double seconds = (double)m->warning.lasted / 1e9;
    if (word == HP_STALL_WARN) {
        hp_whereabouts where = hp_whereabouts_take(job, NULL, now);
        hp_job_watch_missing(&where, m, now, missing, sizeof(missing));
        hp_whereabouts_free(&where);
    }
    if (word == HP_STALL_WARN && m->parent)
        snprintf(line, sizeof(line), "%s: %s", m->label, missing);
    else if (word == HP_STALL_WARN)
        snprintf(line, sizeof(line), "%s: %d of %d ranks %s here after %.1f s; %s%s", m->label, m->joined_n, m->size,
                 m->joined_n == 1 ? "is" : "are", seconds, missing, m->mistrusted);
    else if (word == HP_STALL_OVER && m->shrink)
        snprintf(line, sizeof(line), "%s: hoop_comm_shrink goes on after %.1f s", m->label, seconds);
    else if (word == HP_STALL_OVER && m->parent)
        snprintf(line, sizeof(line), "%s: %s %u goes on after %.1f s", m->label, hp_join_group_call(m), m->split,
                 seconds);
    else if (word == HP_STALL_OVER)
        snprintf(line, sizeof(line), "%s: all %d ranks are here after %.1f s", m->label, m->size, seconds);
    if (word != HP_STALL_QUIET)
        hp_events_say(m->events, HP_NOTICE_WARNING, line);
}

void
hp_job_watch_links(hp_roster *r, uint64_t now)
{
    char line[500];
    int linking = r->state == HP_ROSTER_LINKING;
    uint64_t after = r->warn_after ? AWAIT_MS * HP_MS : 0;
    if (!linking && r->state != HP_ROSTER_RUNNING)
        return;
    hp_stall_word word = hp_stall_warning_due(&r->linking, after, linking, r->moved, now);
    double seconds = (double)r->linking.lasted / 1e9;
    if (word == HP_STALL_WARN)
        snprintf(line, sizeof(line),
                 "%s: all %d ranks are here, but after %.1f s the connections of %s are not up: can the hosts "
                 "reach each other, or does a firewall close their ports, see hoop_launch(7)?",
                 r->label, r->ring.size, seconds, hp_say_ranks(r->ready, r->ring.size, 0).text);
    else if (word == HP_STALL_OVER)
        snprintf(line, sizeof(line), "%s: the connections of all %d ranks are up after %.1f s", r->label, r->ring.size,
                 seconds);
    if (word != HP_STALL_QUIET)
        hp_events_say(r->events, HP_NOTICE_WARNING, line);
}

static const hp_roster *
longest_stalled(const hp_roster *rosters)
{
    const hp_roster *longest = NULL;
    for (const hp_roster *r = rosters; r; r = r->next)
        if (r->state == HP_ROSTER_RUNNING && r->in_op_n && r->warn_after && (!longest || r->moved < longest->moved))
            longest = r;
    return longest;
}

void
hp_job_watch_stall(hp_job *job, uint64_t now)
{
    hp_job_watch *watch = &job->watch;
    char line[HP_NOUN + 404], text[400];
    const hp_roster *r = watch->warning.since ? job->rosters : NULL;
    while (r && (r->ring.comm != watch->ring || r->state == HP_ROSTER_FAILED)) /* which was named last */
        r = r->next;
    if (!r) {
        watch->warning.since = 0; /* its failure was logged */
        r = longest_stalled(job->rosters);
    }
    if (!r)
        return;
    hp_stall_word word = hp_stall_warning_due(&watch->warning, r->warn_after, r->in_op_n > 0, r->moved, now);
    double seconds = (double)watch->warning.lasted / 1e9;
    watch->ring = r->ring.comm;
    if (word == HP_STALL_WARN) {
        hp_whereabouts where = hp_whereabouts_take(job, NULL, now);
        hp_hold_up_find(&where, r, watch->warning.lasted, text, sizeof(text));
        hp_whereabouts_free(&where);
        snprintf(line, sizeof(line), "%s: %s", hp_say_title(r->label, r->name).text, text);
    } else if (word == HP_STALL_OVER) {
        snprintf(line, sizeof(line), "%s: goes on after %.1f s", hp_say_title(r->label, r->name).text, seconds);
    }
    if (word != HP_STALL_QUIET)
        hp_events_say(job->owner, HP_NOTICE_WARNING, line);
}

/*
 * How many operations a rank in a split has started, as far as its frames show; another of its threads may start
 * more.
 */
static uint64_t
started_by(const hp_roster *r, const hp_joined *member)
{
    const hp_witness *w = &r->witnesses[member->member.rank];
    uint64_t seen = w->in_op && w->report.sequence > w->completed ? w->report.sequence : w->completed;
    return seen > member->started ? seen : member->started;
}

/* Of the ranks that have joined the split, the one that has started fewest operations; NULL: none has joined. */
static const hp_joined *
furthest_back(const hp_roster *r, const hp_join_group *m)
{
    const hp_joined *back = NULL;
    for (int i = 0; i < m->joined_n; i++)
        if (!back || started_by(r, &m->joined[i]) < started_by(r, back))
            back = &m->joined[i];
    return back;
}

/*
 * Of the ranks that have not joined the split and are in an operation above this number, the one in the oldest; -1:
 * none.
 */
static int
one_above(const hp_roster *r, const hp_join_group *m, uint64_t number)
{
    int found = -1;
    for (int rank = 0; rank < r->ring.size; rank++) {
        const hp_witness *w = &r->witnesses[rank];
        if (!w->in_op || w->report.sequence <= number || hp_join_group_has(m, rank))
            continue;
        if (found < 0 || w->report.sequence < r->witnesses[found].report.sequence)
            found = rank;
    }
    return found;
}

static void
fail_crossed(const hp_join_group *m, hp_roster *r, const hp_joined *member, int rank)
{
    const hp_report *report = &r->witnesses[rank].report;
    hoop_error error;
    hp_err_set(&error, HOOP_ERR_MISMATCH, "%s is in %s after %s, but %s is in %s, which rank %d has not started",
               hp_member_name(&member->member).text, hp_join_group_call(m),
               hp_say_count(started_by(r, member), "operation").text, hp_member_name(&r->ring.members[rank]).text,
               hp_say_operation(report->sequence, &report->call).text, member->member.rank);
    error.rank = member->member.rank;
    error.reporter = rank;
    error.sequence = report->sequence;
    hp_roster_fail(r, &error);
}

static void
cross(hp_join_group *m, hp_roster *r, uint64_t now)
{
    const hp_joined *member = furthest_back(r, m);
    int rank = member ? one_above(r, m, started_by(r, member)) : -1;
    if (rank < 0)
        m->crossed = 0;
    else if (!m->crossed)
        m->crossed = now;
    else if (now - m->crossed >= CERTAIN_MS * HP_MS)
        fail_crossed(m, r, member, rank);
}

void
hp_job_watch_cross(hp_job *job, uint64_t now)
{
    for (hp_join_group *m = job->join_groups; m; m = m->next)
        for (hp_roster *r = job->rosters; r && m->parent && !m->failure.code; r = r->next)
            if (r->ring.comm == m->parent && r->ring.size == m->size && r->state == HP_ROSTER_RUNNING && r->in_op_n)
                cross(m, r, now);
}
