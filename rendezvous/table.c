/* SPDX-License-Identifier: MIT */
/* table: see table.h. */
#include "rendezvous/table.h"

#include "base/clock.h"
#include "base/mem.h"
#include "rendezvous/blame.h"
#include "rendezvous/columns.h"
#include "rendezvous/hold_up.h"
#include "rendezvous/straggler.h"
#include "rendezvous/summary.h"
#include "rendezvous/wait_chain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALL = 96, RING_SHOWN = 12 };
enum { RANK, HOST, PID, OPERATION, LASTED, WAITS, OUT, IN, WAITED, RESENT, COLUMNS };

#define OUTSIDE_AFTER (2 * HP_SEC) /* a rank that drives is heard of each second */

/* Those from OUT on come from counters: a ring without them has no such columns. */
static const char *const titles[COLUMNS] = {"rank",      "host", "pid",     "operation", "for",
                                            "waits for", "out",  "in GB/s", "waited",    "resent"};
static const char *const waits[HP_WAITS] = {"data", "link", "stream", "device"};

/* --- one rank --- */

/* What the ring waits for; all rows are seen by its light. */
typedef struct view {
    const hp_roster *ring, *all; /* all: of the job */
    hp_blame blame;
    hp_wait_chain chain;    /* of one that does not stand still: of no hops */
    hp_straggler straggler; /* of the last minute */
    hp_slow_link link;      /* now */
    uint64_t now, silent_before;
} view;

typedef struct weighed_rank {
    int rank, weight; /* the least weight comes first */
} weighed_rank;

static int
is_blamed(const view *v, int rank)
{
    int guilty = v->chain.hops ? hp_wait_chain_guilty(&v->chain) : v->blame.rank;
    return v->blame.guilt != HP_GUILT_NONE && guilty == rank;
}

/* The other ring in which the rank waits, while ranks of this one wait for it; NULL: none. */
static const hp_roster *
elsewhere(const view *v, int rank)
{
    const hp_witness *w = &v->ring->witnesses[rank];
    if (v->chain.hops > 0 && v->blame.rank == rank)
        return v->chain.next;
    if (w->in_op || w->left || v->blame.sequence <= w->completed || v->ring->state != HP_ROSTER_RUNNING)
        return NULL;
    return hp_wait_chain_elsewhere(v->all, v->ring, rank, v->blame.sequence);
}

/* Whether the host of a rank in no operation has not taken what was sent to it a second ago (hp_roster_tick). */
static int
is_unreachable(const view *v, int rank)
{
    const hp_roster *r = v->ring;
    return r->asked == r->moved && v->now >= r->moved + 2 * HP_ASK_AFTER && r->peers[rank] &&
           !r->witnesses[rank].in_op && !r->events->reached(r->events->arg, r->peers[rank]);
}

static int
is_silent(const view *v, const hp_witness *w)
{
    return w->in_op && w->last_seen < v->silent_before;
}

static int
is_stopped(const view *v, int rank)
{
    const hp_events *events = v->ring->events;
    return events->process(events->arg, &v->ring->ring.members[rank]) == HP_PROCESS_STOPPED;
}

/* Of a rank in no operation: ns for which it has been outside hoop; 0: it is not, or that is not known. */
static uint64_t
outside(const view *v, int rank)
{
    const hp_witness *w = &v->ring->witnesses[rank];
    const hp_history *h = v->ring->histories ? &v->ring->histories[rank] : NULL;
    if (!h || !h->seen || w->in_op || w->left || !v->ring->peers[rank] || v->ring->state != HP_ROSTER_RUNNING ||
        elsewhere(v, rank) || is_stopped(v, rank))
        return 0;
    uint64_t word = h->seen > w->last_seen ? h->seen : w->last_seen;
    return v->now > word + OUTSIDE_AFTER ? v->now - word : 0;
}

/*
 * In front of all others come the blamed rank, then those that are silent or missing, then the straggler and the slowest
 * link's, then those that wait.
 */
static int
weigh(const view *v, int rank)
{
    const hp_witness *w = &v->ring->witnesses[rank];
    if (is_blamed(v, rank))
        return 0;
    if (!v->ring->peers[rank] || is_silent(v, w))
        return 1;
    if (w->left)
        return 5;
    if (rank == v->straggler.rank || rank == v->link.from || rank == v->link.to)
        return 2;
    return w->in_op ? 3 : v->blame.sequence > w->completed ? 1 : 4;
}

static void
fill_operation(const view *v, int rank, char cell[HP_CELL])
{
    const hp_roster *r = v->ring;
    const hp_witness *w = &r->witnesses[rank];
    const char *where = is_stopped(v, rank)       ? "stopped"
                        : is_unreachable(v, rank) ? "unreachable"
                        : outside(v, rank)        ? "outside hoop"
                                                  : "";
    const hp_roster *other = elsewhere(v, rank);
    char call[CALL], name[HP_RING_TEXT];
    const hp_call *current = &w->report.call;
    if (w->left)
        snprintf(cell, HP_CELL, "left after %llu", (unsigned long long)w->completed);
    else if (!r->peers[rank])
        snprintf(cell, HP_CELL, "its connection is lost");
    else if (r->state == HP_ROSTER_LINKING)
        snprintf(cell, HP_CELL, "%s",
                 (r->ready[rank / 64] >> (rank % 64)) & 1 ? "is connected" : "connects to its peers");
    else if (w->in_op && current->name)
        hp_call_print_operation(current, w->report.sequence, cell, HP_CELL);
    else if (w->in_op)
        snprintf(cell, HP_CELL, "%llu %s", (unsigned long long)w->report.sequence,
                 current->kind ? hp_call_print(current, call, sizeof(call)) : "");
    else if (other)
        snprintf(cell, HP_CELL, "not in %llu, waits in %s", (unsigned long long)v->blame.sequence,
                 hp_wait_chain_name(other, name));
    else if (v->blame.sequence > w->completed)
        snprintf(cell, HP_CELL, "%s%snot in %llu", where, *where ? ", " : "", (unsigned long long)v->blame.sequence);
    else if (*where || !r->histories || !r->histories[rank].seen)
        snprintf(cell, HP_CELL, "%s", *where ? where : "none that lasts");
    else
        snprintf(cell, HP_CELL, "%llu done", (unsigned long long)r->histories[rank].last.operations);
}

static void
fill_wait(const view *v, int rank, hp_row *row)
{
    const hp_witness *w = &v->ring->witnesses[rank];
    int peer = w->report.waits_for;
    if (outside(v, rank))
        snprintf(row->cell[LASTED], HP_CELL, "%.0f s", (double)outside(v, rank) / 1e9);
    if (w->left || !w->in_op)
        return;
    snprintf(row->cell[LASTED], HP_CELL, "%.1f s", (double)(w->report.since + (v->now - w->last_seen)) / 1e9);
    if (is_silent(v, w))
        snprintf(row->cell[WAITS], HP_CELL, "silent for %.1f s", (double)(v->now - w->last_seen) / 1e9);
    else if (peer >= 0 && peer < v->ring->ring.size)
        snprintf(row->cell[WAITS], HP_CELL, "%srank %d%s", w->report.sending ? "" : "data from ", peer,
                 w->report.sending ? " to read" : "");
}

/* "62% data": the largest part is named. */
static void
fill_rates(const view *v, int rank, hp_row *row)
{
    const hp_history *h = v->ring->histories ? &v->ring->histories[rank] : NULL;
    if (!h || !h->seen || v->ring->witnesses[rank].left)
        return;
    hp_rates rates = hp_history_rates(h, HP_SPAN_MOMENT, v->now);
    snprintf(row->cell[OUT], HP_CELL, "%.2f", rates.sent / 1e9);
    snprintf(row->cell[IN], HP_CELL, "%.2f", rates.received / 1e9);
    snprintf(row->cell[WAITED], HP_CELL, "%.0f%% %s", rates.waited * 100,
             rates.waited < 0.005 ? "" : waits[rates.most]);
    snprintf(row->cell[RESENT], HP_CELL, "%llu", (unsigned long long)h->last.retransmits);
}

static void
fill(const view *v, int rank, hp_row *row)
{
    const hp_member *who = &v->ring->ring.members[rank];
    snprintf(row->cell[RANK], HP_CELL, "%d", rank);
    snprintf(row->cell[HOST], HP_CELL, "%s", who->host);
    snprintf(row->cell[PID], HP_CELL, "%u", who->pid);
    fill_operation(v, rank, row->cell[OPERATION]);
    fill_wait(v, rank, row);
    fill_rates(v, rank, row);
}

/* --- all ranks --- */

static int
by_weight(const void *one, const void *other)
{
    const weighed_rank *a = one, *b = other;
    return a->weight != b->weight ? a->weight - b->weight : a->rank - b->rank;
}

/* "500 more ranks: 380 in an operation, 120 in none that lasts" */
static void
print_rest(const view *v, const hp_line_sink *lines, const weighed_rank *ranks, int n)
{
    char line[128];
    int in = 0;
    for (int i = 0; i < n; i++)
        in += v->ring->witnesses[ranks[i].rank].in_op;
    snprintf(line, sizeof(line), "and %d more rank%s: %d in an operation, %d in none that lasts", n, n == 1 ? "" : "s",
             in, n - in);
    hp_columns_say(lines, line);
}

/* The ranks in their order, or, where there is no room for all, those that tell most first. */
static void
print_ranks(const view *v, const hp_line_sink *lines, int most)
{
    int n = v->ring->ring.size, shown = n < most ? n : most < 0 ? 0 : most;
    weighed_rank *ranks = hp_alloc((size_t)n, sizeof(*ranks));
    hp_row *rows = hp_alloc((size_t)shown + 1, sizeof(*rows));
    for (int i = 0; ranks && rows && i < n; i++)
        ranks[i] = (weighed_rank){.rank = i, .weight = weigh(v, i)};
    if (ranks && rows) {
        if (shown < n)
            qsort(ranks, (size_t)n, sizeof(*ranks), by_weight);
        for (int i = 0; i < shown; i++)
            fill(v, ranks[i].rank, &rows[i]);
        hp_columns_print(lines, titles, v->ring->histories ? COLUMNS : OUT, 1U << HOST | 1U << OPERATION, rows, shown);
        if (shown < n)
            print_rest(v, lines, ranks + shown, n - shown);
    }
    free(ranks);
    free(rows);
}

/* --- what slows it down --- */

/* "0 -> 1 =slow=> 2 -> 0"; of a large ring what is next to the slow link. */
static void
print_order(const view *v, const hp_line_sink *lines)
{
    const hp_ring *ring = &v->ring->ring;
    int n = ring->size, all = n <= RING_SHOWN, first = 0, hops = all ? n : RING_SHOWN / 2;
    char text[512] = "the ring: ";
    for (int p = 0; !all && v->link.from >= 0 && p < n; p++)
        if (ring->order[p] == v->link.from)
            first = (p + n - hops / 2) % n;
    size_t at = strlen(text);
    at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%d", all ? "" : ".. ", ring->order[first]);
    for (int i = 0; i < hops; i++) {
        int from = ring->order[(first + i) % n], to = ring->order[(first + i + 1) % n];
        at += (size_t)snprintf(text + at, sizeof(text) - at, " %s %d", from == v->link.from ? "=slow=>" : "->", to);
    }
    snprintf(text + at, sizeof(text) - at, "%s", all ? "" : " ..");
    hp_columns_say(lines, text);
}

static void
print_slow(const view *v, const hp_line_sink *lines)
{
    char text[400];
    if (!v->ring->histories || v->ring->ring.size < 2 || v->ring->state != HP_ROSTER_RUNNING)
        return;
    print_order(v, lines);
    if (v->link.from >= 0)
        hp_columns_say(lines, hp_summary_link(v->ring, &v->link, text, sizeof(text)));
    if (v->straggler.rank >= 0)
        hp_columns_say(lines, hp_summary_straggler(v->ring, &v->straggler, "in the last minute", text, sizeof(text)));
    hp_straggler always = hp_straggler_since_start(v->ring->histories, v->ring->ring.size);
    if (always.rank >= 0)
        hp_columns_say(lines, hp_summary_straggler(v->ring, &always, "since the start", text, sizeof(text)));
}

static uint64_t
stalled(const hp_roster *r, uint64_t now)
{
    return r->state == HP_ROSTER_RUNNING && r->in_op_n > 0 && now > r->moved ? now - r->moved : 0;
}

static int
stands_still(const hp_roster *r, uint64_t now)
{
    return stalled(r, now) >= HP_SILENT_HEARTBEATS * r->heartbeat;
}

/* Where nothing moves between two ranks that are alive, the link between them is the slow one. */
static void
mark_blocked_link(view *v)
{
    const hp_ring *ring = &v->ring->ring;
    if (v->blame.guilt != HP_GUILT_LINK || !stands_still(v->ring, v->now))
        return;
    int sends = v->ring->witnesses[v->blame.rank].report.sending;
    int from = sends ? v->blame.rank : v->blame.other, to = sends ? v->blame.other : v->blame.rank;
    for (int p = 0; p < ring->size && v->ring->histories; p++)
        if (ring->order[p] == from && ring->order[(p + 1) % ring->size] == to)
            v->link = hp_straggler_link_of(v->ring->histories, from, to, HP_SPAN_MOMENT, v->now);
}

static view
look(const hp_job *job, const hp_roster *r, uint64_t now)
{
    uint64_t unreachable = HP_SILENT_HEARTBEATS * r->heartbeat;
    view v = (view){.ring = r,
                    .all = job->rosters,
                    .blame = hp_blame_find(r->witnesses, r->ring.size, unreachable),
                    .straggler = hp_straggler_in_minute(r->histories, r->ring.size, now),
                    .link = hp_straggler_link(r->histories, &r->ring, HP_SPAN_MOMENT, now),
                    .now = now,
                    .silent_before = hp_blame_silent_before(r->witnesses, r->ring.size, unreachable)};
    if (stands_still(r, now))
        v.chain = hp_wait_chain_find(job->rosters, r);
    mark_blocked_link(&v);
    return v;
}

/* What to say of a ring as a whole. Returns out. */
static const char *
summary(const hp_roster *r, uint64_t now, char *out, size_t size)
{
    if (r->state == HP_ROSTER_LINKING)
        snprintf(out, size, "%d of them are connected to their peers", r->ready_n);
    else if (r->state == HP_ROSTER_FAILED)
        snprintf(out, size, "failed: %s", r->cause.text);
    else if (stands_still(r, now))
        hp_roster_late(r, stalled(r, now), out, size);
    else
        snprintf(out, size, "%s", r->in_op_n ? "it makes progress" : "no operation lasts");
    return out;
}

static hp_line_sink
lines_of(const hp_table_options *options)
{
    return (hp_line_sink){.width = options->width, .line = options->line, .arg = options->arg};
}

/* How many rows fit behind a sentence of so many lines. The titles take one, and so do those that are left out. */
static int
rows_of(const hp_table_options *options, int said, int ranks)
{
    int room = options->lines - said - 1;
    if (!options->lines || (ranks <= room && ranks <= options->most))
        return options->most;
    room = room > 1 ? room - 1 : 1;
    return room < options->most ? room : options->most;
}

static void
print_ring(const hp_job *job, const hp_roster *r, const hp_table_options *options, uint64_t now)
{
    char line[560], text[400], title[HP_TITLE_TEXT];
    view v = look(job, r, now);
    hp_line_sink lines = lines_of(options);
    snprintf(line, sizeof(line), "%s, %s of %d rank%s: %s", hp_title_print(r->label, r->name, title),
             r->world ? "ring" : "split", r->ring.size, r->ring.size == 1 ? "" : "s",
             summary(r, now, text, sizeof(text)));
    int said = hp_columns_say(&lines, line);
    print_ranks(&v, &lines, rows_of(options, said, r->ring.size));
    print_slow(&v, &lines);
}

static void
print_world(const hp_join_group *m, const hp_table_options *options, uint64_t now)
{
    char line[400], missing[300];
    hp_line_sink lines = lines_of(options);
    snprintf(line, sizeof(line), "%s, %s of %d ranks: %d joined it, %s after %.1f s", m->label,
             m->parent ? "split" : "ring", m->size, m->joined_n, hp_job_watch_missing(m, missing, sizeof(missing)),
             (double)(now - m->opened) / 1e9);
    hp_columns_say(&lines, line);
}

/* Those in which an operation waits come first: there may be no room for all. */
void
hp_table_print(const hp_job *job, const hp_table_options *options, uint64_t now)
{
    for (const hp_join_group *m = job->join_groups; m; m = m->next)
        if (!m->failure.code)
            print_world(m, options, now);
    for (int waiting = 1; waiting >= 0; waiting--)
        for (const hp_roster *r = job->rosters; r; r = r->next)
            if (r->state != HP_ROSTER_OVER && (stalled(r, now) >= HP_SEC) == waiting)
                print_ring(job, r, options, now);
}

/* --- as JSON --- */

static double
seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

static void
add_operation(const view *v, const hp_witness *w, hp_json *json)
{
    char call[96];
    int peer = w->report.waits_for;
    hp_call nameless = w->report.call;
    nameless.name = NULL;
    hp_json_object(json, "operation");
    hp_json_count(json, "sequence", w->report.sequence);
    hp_json_text(json, "call", nameless.kind ? hp_call_print(&nameless, call, sizeof(call)) : NULL);
    hp_json_text(json, "name", w->report.call.name);
    hp_json_decimal(json, "seconds", seconds(w->report.since + (v->now - w->last_seen)), 3);
    if (peer >= 0)
        hp_json_integer(json, w->report.sending ? "waits_for_reader" : "waits_for_data_of", peer);
    hp_json_count(json, "step", w->report.step);
    hp_json_count(json, "bytes", w->report.bytes);
    hp_json_decimal(json, "last_word", seconds(v->now - w->last_seen), 3);
    hp_json_boolean(json, "silent", is_silent(v, w));
    hp_json_close(json);
}

static void
add_counters(const view *v, const hp_history *h, hp_json *json)
{
    const hp_vitals *c = &h->last;
    hp_rates rates = hp_history_rates(h, HP_SPAN_MOMENT, v->now);
    hp_json_object(json, "counters");
    hp_json_decimal(json, "last_word", seconds(v->now - h->seen), 3);
    hp_json_count(json, "operations", c->operations);
    hp_json_count(json, "messages", c->messages);
    hp_json_count(json, "bytes_sent", c->sent);
    hp_json_count(json, "bytes_received", c->received);
    hp_json_decimal(json, "sends_per_second", rates.sent, 0);
    hp_json_decimal(json, "receives_per_second", rates.received, 0);
    hp_json_object(json, "waited");
    for (int i = 0; i < HP_WAITS; i++)
        hp_json_decimal(json, waits[i], seconds(c->waited[i]), 6);
    hp_json_close(json);
    hp_json_object(json, "share_waited");
    for (int i = 0; i < HP_WAITS; i++)
        hp_json_decimal(json, waits[i], rates.share[i], 4);
    hp_json_close(json);
    hp_json_count(json, "retransmits", c->retransmits);
    hp_json_count(json, "round_trip_us", c->rtt);
    hp_json_count(json, "delivery_rate", c->delivery_rate);
    hp_json_close(json);
}

/* As far as reported, in either way. */
static uint64_t
completed_of(const view *v, int rank)
{
    const hp_history *h = v->ring->histories ? &v->ring->histories[rank] : NULL;
    uint64_t completed = v->ring->witnesses[rank].completed;
    return h && h->seen && h->last.operations > completed ? h->last.operations : completed;
}

static void
add_rank(const view *v, int rank, hp_json *json)
{
    const hp_member *who = &v->ring->ring.members[rank];
    const hp_witness *w = &v->ring->witnesses[rank];
    hp_json_object(json, NULL);
    hp_json_integer(json, "rank", rank);
    hp_json_text(json, "host", who->host);
    hp_json_count(json, "pid", who->pid);
    hp_json_boolean(json, "connected", v->ring->peers[rank] != NULL);
    hp_json_boolean(json, "left", w->left);
    hp_json_boolean(json, "awaited", is_blamed(v, rank));
    hp_json_boolean(json, "stopped", is_stopped(v, rank));
    hp_json_count(json, "completed", completed_of(v, rank));
    if (w->in_op && !w->left)
        add_operation(v, w, json);
    if (outside(v, rank))
        hp_json_decimal(json, "outside", seconds(outside(v, rank)), 3);
    if (v->ring->histories && v->ring->histories[rank].seen)
        add_counters(v, &v->ring->histories[rank], json);
    hp_json_close(json);
}

/* A rank that is late, in the last minute or since the start. */
static void
add_straggler(const char *key, hp_straggler s, hp_json *json)
{
    if (s.rank < 0)
        return;
    hp_json_object(json, key);
    hp_json_integer(json, "rank", s.rank);
    hp_json_decimal(json, "late", s.late, 9);
    hp_json_decimal(json, "share", s.share, 4);
    hp_json_close(json);
}

static void
add_slow(const view *v, hp_json *json)
{
    const hp_roster *r = v->ring;
    hp_json_list(json, "order");
    for (int i = 0; i < r->ring.size; i++)
        hp_json_integer(json, NULL, r->ring.order[i]);
    hp_json_close(json);
    add_straggler("straggler", v->straggler, json);
    add_straggler("straggler_since_start", hp_straggler_since_start(r->histories, r->ring.size), json);
    if (v->link.from < 0)
        return;
    hp_json_object(json, "slowest_link");
    hp_json_integer(json, "from", v->link.from);
    hp_json_integer(json, "to", v->link.to);
    hp_json_decimal(json, "share_waited", v->link.share, 4);
    hp_json_count(json, "delivery_rate", v->link.rate);
    hp_json_count(json, "round_trip_us", v->link.rtt);
    hp_json_count(json, "retransmits", v->link.retransmits);
    hp_json_close(json);
}

static void
add_ring(const hp_job *job, const hp_roster *r, hp_json *json, uint64_t now)
{
    static const char *const states[] = {"linking", "running", "failed", "over"};
    char text[400];
    view v = look(job, r, now);
    hp_json_object(json, NULL);
    hp_json_text(json, "job", r->label);
    hp_json_text(json, "name", r->name[0] ? r->name : NULL);
    hp_json_boolean(json, "split", !r->world);
    hp_json_integer(json, "size", r->ring.size);
    hp_json_text(json, "state", states[r->state]);
    hp_json_text(json, "summary", summary(r, now, text, sizeof(text)));
    hp_json_decimal(json, "stalled", seconds(stalled(r, now)), 3);
    hp_json_list(json, "ranks");
    for (int i = 0; i < r->ring.size; i++)
        add_rank(&v, i, json);
    hp_json_close(json);
    add_slow(&v, json);
    hp_json_close(json);
}

static void
add_world(const hp_join_group *m, hp_json *json, uint64_t now)
{
    char missing[300];
    hp_json_object(json, NULL);
    hp_json_text(json, "job", m->label);
    hp_json_boolean(json, "split", m->parent != 0);
    hp_json_integer(json, "size", m->size);
    hp_json_text(json, "state", "joining");
    hp_json_text(json, "summary", hp_job_watch_missing(m, missing, sizeof(missing)));
    hp_json_integer(json, "joined", m->joined_n);
    hp_json_decimal(json, "seconds", seconds(now - m->opened), 3);
    hp_json_close(json);
}

void
hp_table_json(const hp_job *job, hp_json *json, uint64_t now)
{
    for (const hp_join_group *m = job->join_groups; m; m = m->next)
        if (!m->failure.code)
            add_world(m, json, now);
    for (const hp_roster *r = job->rosters; r; r = r->next)
        if (r->state != HP_ROSTER_OVER)
            add_ring(job, r, json, now);
}

uint64_t
hp_table_stalled(const hp_job *first, uint64_t now)
{
    uint64_t longest = 0;
    for (const hp_job *job = first; job; job = job->next)
        for (const hp_roster *r = job->rosters; r; r = r->next)
            longest = stalled(r, now) > longest ? stalled(r, now) : longest;
    return longest;
}
