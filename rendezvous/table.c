/* SPDX-License-Identifier: MIT */
/* table: see table.h. */
#include "rendezvous/table.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/say.h"
#include "rendezvous/hold_up.h"
#include "rendezvous/job_watch.h"
#include "rendezvous/rank_row.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- what a ring has done --- */

/* What all ranks of a ring have counted together. */
typedef struct sums {
    int ranks;           /* that have reported */
    uint64_t operations; /* of the rank that has ended most */
    uint64_t messages, sent;
    double seconds; /* of the rank that has been in the ring for longest */
    double waited[HP_WAITS], total;
} sums;

static sums
add_up(const hp_roster *r)
{
    sums s = {0};
    for (int i = 0; i < r->ring.size && r->histories; i++) {
        const hp_vitals *c = &r->histories[i].last;
        double seconds = (double)c->at / 1e9;
        if (!r->histories[i].seen)
            continue;
        s.ranks++;
        s.operations = c->operations > s.operations ? c->operations : s.operations;
        s.messages += c->messages;
        s.sent += c->sent;
        s.seconds = seconds > s.seconds ? seconds : s.seconds;
        s.total += seconds;
        for (int w = HP_WAIT_PEER; w < HP_WAITS; w++)
            s.waited[w] += (double)c->waited[w] / 1e9;
    }
    return s;
}

/* "4.80 GB". Returns out. */
static const char *
print_bytes(double bytes, char out[32])
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB", "PB"};
    int unit = 0;
    while (bytes >= 1000 && unit < 5) {
        bytes /= 1000;
        unit++;
    }
    snprintf(out, 32, "%.*f %s", unit ? 2 : 0, bytes, units[unit]);
    return out;
}

static void
print_work(const hp_roster *r, const sums *s, const hp_line_sink *lines)
{
    char line[400], messages[64] = "", sent[32], rate[32];
    if (s->messages)
        snprintf(messages, sizeof(messages), ", %.60s", hp_say_count(s->messages, "message").text);
    snprintf(line, sizeof(line), "%s of %d rank%s: %llu operation%s%s, %s sent in %.1f s, %s/s a rank",
             hp_say_title(r->world ? "ring" : r->label, r->name).text, r->ring.size, r->ring.size == 1 ? "" : "s",
             (unsigned long long)s->operations, s->operations == 1 ? "" : "s", messages,
             print_bytes((double)s->sent, sent), s->seconds,
             print_bytes(s->total > 0 ? (double)s->sent / s->total : 0, rate));
    hp_columns_say(lines, line);
}

static void
print_waits(const sums *s, const hp_line_sink *lines)
{
    static const char *const reasons[HP_WAITS] = {"", "for data of other ranks", "for other ranks to take data",
                                                  "for a CUDA stream", "for the ranks' own devices"};
    char line[400] = "waited ";
    size_t at = strlen(line);
    for (int w = HP_WAIT_PEER; w < HP_WAITS; w++)
        at += (size_t)snprintf(line + at, sizeof(line) - at, "%s%.1f%% %s", w > HP_WAIT_PEER ? ", " : "",
                               s->total > 0 ? 100 * s->waited[w] / s->total : 0, reasons[w]);
    hp_columns_say(lines, line);
}

const char *
hp_summary_link(const hp_roster *r, const hp_slow_link *link, char *out, size_t size)
{
    char rate[64] = "", round_trip[64] = "", sent[HP_NOUN + 16] = "", bytes[32];
    if (link->rate)
        snprintf(rate, sizeof(rate), ", %s/s", print_bytes((double)link->rate, bytes));
    if (link->rtt)
        snprintf(round_trip, sizeof(round_trip), ", round trip %.2f ms", link->rtt / 1e3);
    if (link->shares)
        snprintf(sent, sizeof(sent), " through memory");
    else if (link->measured)
        snprintf(sent, sizeof(sent), ", %s sent again", hp_say_count(link->retransmits, "segment").text);
    snprintf(out, size, "slowest link: %s to %s%s%s%s, waited for %.0f%% of the time",
             hp_member_name(&r->ring.members[link->from]).text, hp_member_name(&r->ring.members[link->to]).text, rate,
             round_trip, sent, link->share * 100);
    return out;
}

/* "slowest rank in the last minute: rank 3 (node2), late by 20.3 ms an operation on average; ...". Returns out. */
static const char *
say_straggler(const hp_roster *r, const hp_straggler *straggler, const char *when, char *out, size_t size)
{
    snprintf(out, size,
             "slowest rank %s: %s, late by %.3g ms an operation on average; the others wait %.0f%% of the time for it",
             when, hp_member_name(&r->ring.members[straggler->rank]).text, straggler->late * 1e3,
             straggler->share * 100);
    return out;
}

void
hp_summary_print(const hp_roster *r, const hp_line_sink *lines)
{
    sums s = add_up(r);
    char text[400];
    if (!s.ranks)
        return;
    print_work(r, &s, lines);
    print_waits(&s, lines);
    hp_straggler straggler = hp_straggler_since_start(r->histories, r->ring.size);
    hp_slow_link link = hp_straggler_link(r->histories, &r->ring, HP_SPAN_ALL, 0);
    if (straggler.rank >= 0)
        hp_columns_say(lines, say_straggler(r, &straggler, "since the start", text, sizeof(text)));
    if (link.from >= 0)
        hp_columns_say(lines, hp_summary_link(r, &link, text, sizeof(text)));
}

enum { RING_SHOWN = 12, HOSTS_SHOWN = 4 };

typedef hp_table_view view;

/* --- all ranks --- */

typedef struct weighed_rank {
    int rank, weight; /* the least weight comes first */
} weighed_rank;

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
    char line[240];
    int in = 0;
    for (int i = 0; i < n; i++)
        in += v->ring->witnesses[ranks[i].rank].in_op;
    snprintf(line, sizeof(line), "and %s: %d in an operation, %d in none that lasts",
             hp_say_count((uint64_t)n, "more rank").text, in, n - in);
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
        ranks[i] = (weighed_rank){.rank = i, .weight = hp_rank_row_weigh(v, i)};
    if (ranks && rows) {
        if (shown < n)
            qsort(ranks, (size_t)n, sizeof(*ranks), by_weight);
        for (int i = 0; i < shown; i++)
            hp_rank_row_fill(v, ranks[i].rank, &rows[i]);
        hp_columns_print(lines, hp_rank_row_titles, v->ring->histories ? HP_ROW_COLUMNS : HP_ROW_COUNTERS,
                         1U << HP_ROW_HOST | 1U << HP_ROW_OPERATION, rows, shown);
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
        int slow = from == v->link.from && to == v->link.to;
        at += (size_t)snprintf(text + at, sizeof(text) - at, " %s %d", slow ? "=slow=>" : "->", to);
    }
    snprintf(text + at, sizeof(text) - at, "%s", all ? "" : " ..");
    hp_columns_say(lines, text);
}

/* "two levels: node1 (ranks 0-3), node2 (ranks 4-7)", if operations have gone within the hosts and between them. */
static void
print_levels(const view *v, const hp_line_sink *lines)
{
    const hp_ring *ring = &v->ring->ring;
    int n = ring->size, hosts = 0, over = 0;
    char text[32 + HOSTS_SHOWN * (HP_NOUN + 48) + HP_NOUN] = "two levels: ";
    size_t at = strlen(text);
    for (int i = 0; i < n; i++)
        over |= v->ring->histories[i].last.levels > 0;
    for (int p = 0, next; over && p < n; p = next) {
        const hp_member *first = &ring->members[ring->order[p]];
        uint64_t *ranks = hosts < HOSTS_SHOWN ? hp_rank_set_new(n) : NULL;
        for (next = p; next < n && ring->members[ring->order[next]].host_id == first->host_id; next++)
            if (ranks)
                hp_rank_set_add(ranks, ring->order[next]);
        hosts++;
        if (ranks)
            at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%.40s (%s)", p ? ", " : "",
                                   hp_say_host(first->host).text, hp_say_ranks(ranks, n, 1).text);
        free(ranks);
    }
    if (hosts > HOSTS_SHOWN)
        snprintf(text + at, sizeof(text) - at, " and %s",
                 hp_say_count((uint64_t)(hosts - HOSTS_SHOWN), "more host").text);
    if (hosts)
        hp_columns_say(lines, text);
}

static void
print_slow(const view *v, const hp_line_sink *lines)
{
    char text[400];
    if (!v->ring->histories || v->ring->ring.size < 2 || v->ring->state != HP_ROSTER_RUNNING)
        return;
    print_order(v, lines);
    print_levels(v, lines);
    if (v->link.from >= 0)
        hp_columns_say(lines, hp_summary_link(v->ring, &v->link, text, sizeof(text)));
    if (v->straggler.rank >= 0)
        hp_columns_say(lines, say_straggler(v->ring, &v->straggler, "in the last minute", text, sizeof(text)));
    hp_straggler always = hp_straggler_since_start(v->ring->histories, v->ring->ring.size);
    if (always.rank >= 0)
        hp_columns_say(lines, say_straggler(v->ring, &always, "since the start", text, sizeof(text)));
}

static uint64_t
stalled(const hp_roster *r, uint64_t now)
{
    return r->state == HP_ROSTER_RUNNING && r->in_op_n > 0 && now > r->moved ? now - r->moved : 0;
}

/* The same, of the operation or of the message that has waited for longest. */
static uint64_t
waited(const hp_roster *r, uint64_t now)
{
    uint64_t longest = stalled(r, now);
    for (int i = 0; i < r->ring.size && r->state == HP_ROSTER_RUNNING; i++) {
        const hp_witness *w = &r->witnesses[i];
        uint64_t lasted = hp_blame_awaits_message(w) && !w->left ? w->waiting.since + (now - w->waiting_at) : 0;
        longest = lasted > longest ? lasted : longest;
    }
    return longest;
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
    if (v->blame.guilt != HP_GUILT_LINK || !stands_still(v->ring, v->now) || !v->ring->histories)
        return;
    int sends = v->ring->witnesses[v->blame.rank].report.awaited.what == HP_WAIT_LINK;
    int from = sends ? v->blame.rank : v->blame.other, to = sends ? v->blame.other : v->blame.rank;
    v->link = hp_straggler_link_of(v->ring->histories, from, to, HP_SPAN_MOMENT, v->now);
}

static view
look(const hp_whereabouts *where, const hp_roster *r, uint64_t now)
{
    uint64_t unreachable = HP_SILENT_HEARTBEATS * r->heartbeat;
    view v = (view){.ring = r,
                    .where = where,
                    .blame = hp_blame_find(r->witnesses, r->ring.size, unreachable),
                    .straggler = hp_straggler_in_minute(r->histories, r->ring.size, now),
                    .link = hp_straggler_link(r->histories, &r->ring, HP_SPAN_MOMENT, now),
                    .now = now,
                    .silent_before = hp_blame_silent_before(r->witnesses, r->ring.size, unreachable)};
    const hp_wait_place here = {.ring = r, .rank = -1};
    if (stands_still(r, now))
        v.chain = hp_wait_chain_find(where, &here);
    v.guilty = v.chain.hops ? hp_wait_chain_guilty(&v.chain) : v.blame.rank;
    mark_blocked_link(&v);
    return v;
}

/* What to say of a ring as a whole. Returns out. */
static const char *
summary(const hp_whereabouts *where, const view *v, char *out, size_t size)
{
    const hp_roster *r = v->ring;
    int waits = v->chain.hops || stands_still(r, v->now);
    if (r->state == HP_ROSTER_LINKING)
        snprintf(out, size, "%d of them are connected to their peers", r->ready_n);
    else if (r->state == HP_ROSTER_FAILED)
        snprintf(out, size, "failed: %s", r->cause.text);
    else if (v->chain.hops)
        hp_wait_chain_say(where, &v->chain, stalled(r, v->now), out, size);
    else if (stands_still(r, v->now))
        hp_hold_up_here(where, r, stalled(r, v->now), out, size);
    else if (r->in_op_n)
        snprintf(out, size, "it makes progress");
    else if (hp_wait_chain_message(where, r, v->now, out, size))
        waits = 1;
    else
        snprintf(out, size, "no operation lasts");
    if (waits)
        hp_hold_up_add_mends(r, out, size);
    return out;
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
print_ring(const hp_whereabouts *where, const hp_roster *r, const hp_table_options *options, uint64_t now)
{
    char line[560], text[400];
    view v = look(where, r, now);
    snprintf(line, sizeof(line), "%s, %s of %s: %s", hp_say_title(r->label, r->name).text,
             hp_roster_is_whole(r) ? "ring" : "split", hp_say_count((uint64_t)r->ring.size, "rank").text,
             summary(where, &v, text, sizeof(text)));
    int said = hp_columns_say(&options->to, line);
    print_ranks(&v, &options->to, rows_of(options, said, r->ring.size));
    print_slow(&v, &options->to);
}

static void
print_world(const hp_whereabouts *where, const hp_join_group *m, const hp_table_options *options, uint64_t now)
{
    char line[560], missing[300];
    hp_job_watch_missing(where, m, now, missing, sizeof(missing));
    if (m->parent)
        snprintf(line, sizeof(line), "%s, split of %d ranks: %s", m->label, m->size, missing);
    else
        snprintf(line, sizeof(line), "%s, ring of %d ranks: %d joined it, %s after %.1f s", m->label, m->size,
                 m->joined_n, missing, (double)(now - m->opened) / 1e9);
    hp_columns_say(&options->to, line);
}

/* Processes that wait for a place are in no ring, so no row has them. */
static void
print_newcomers(const hp_job *job, const hp_table_options *options)
{
    char line[300];
    const hp_member *first = NULL;
    int count = 0;
    for (const hp_join_group *m = job->newcomers; m; m = m->next) {
        if (!first && m->joined_n > 0)
            first = &m->joined[0].member;
        count += m->joined_n;
    }
    if (!first)
        return;
    int n = count == 1 ? snprintf(line, sizeof(line), "%s: a process waits", job->label)
                       : snprintf(line, sizeof(line), "%s: %d processes wait", job->label, count);
    snprintf(line + n, sizeof(line) - (size_t)n, " for hoop_comm_grow%s on %s, pid %u",
             count == 1 ? "," : ", the first", first->host, first->pid);
    hp_columns_say(&options->to, line);
}

/* Those in which an operation waits come first: there may be no room for all. */
void
hp_table_print(const hp_job *job, const hp_table_options *options, uint64_t now)
{
    hp_whereabouts where = hp_whereabouts_take(job, NULL, now);
    for (const hp_join_group *m = job->join_groups; m; m = m->next)
        if (!m->failure.code)
            print_world(&where, m, options, now);
    for (int waiting = 1; waiting >= 0; waiting--)
        for (const hp_roster *r = job->rosters; r; r = r->next)
            if (r->state != HP_ROSTER_OVER && (waited(r, now) >= HP_SEC) == waiting)
                print_ring(&where, r, options, now);
    print_newcomers(job, options);
    hp_whereabouts_free(&where);
}

/* --- as JSON --- */

static double
seconds(uint64_t ns)
{
    return (double)ns / 1e9;
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
    if (v->link.measured)
        hp_json_count(json, "retransmits", v->link.retransmits);
    hp_json_close(json);
}

static void
add_ring(const hp_whereabouts *where, const hp_roster *r, hp_json *json, uint64_t now)
{
    static const char *const states[] = {"linking", "running", "failed", "over"};
    char text[400];
    view v = look(where, r, now);
    hp_json_object(json, NULL);
    hp_json_text(json, "job", r->label);
    hp_json_text(json, "name", r->name[0] ? r->name : NULL);
    hp_json_boolean(json, "split", !r->world);
    hp_json_integer(json, "size", r->ring.size);
    hp_json_text(json, "state", states[r->state]);
    hp_json_text(json, "summary", summary(where, &v, text, sizeof(text)));
    hp_json_decimal(json, "stalled", seconds(stalled(r, now)), 3);
    hp_json_list(json, "ranks");
    for (int i = 0; i < r->ring.size; i++)
        hp_rank_row_json(&v, i, json);
    hp_json_close(json);
    add_slow(&v, json);
    hp_json_close(json);
}

static void
add_world(const hp_whereabouts *where, const hp_join_group *m, hp_json *json, uint64_t now)
{
    char missing[300];
    hp_json_object(json, NULL);
    hp_json_text(json, "job", m->label);
    hp_json_boolean(json, "split", m->parent != 0);
    hp_json_integer(json, "size", m->size);
    hp_json_text(json, "state", "joining");
    hp_json_text(json, "summary", hp_job_watch_missing(where, m, now, missing, sizeof(missing)));
    hp_json_integer(json, "joined", m->joined_n);
    hp_json_decimal(json, "seconds", seconds(now - m->opened), 3);
    hp_json_close(json);
}

void
hp_table_json(const hp_job *job, hp_json *json, uint64_t now)
{
    hp_whereabouts where = hp_whereabouts_take(job, NULL, now);
    for (const hp_join_group *m = job->join_groups; m; m = m->next)
        if (!m->failure.code)
            add_world(&where, m, json, now);
    for (const hp_roster *r = job->rosters; r; r = r->next)
        if (r->state != HP_ROSTER_OVER)
            add_ring(&where, r, json, now);
    hp_whereabouts_free(&where);
}

/* --- for those who ask a server --- */

static void
add_line(void *arg, const char *line)
{
    if (hp_buffer_add(arg, line, strlen(line)) == 0)
        (void)!hp_buffer_add(arg, "\n", 1);
}

static int
add_json(void *arg, const char *bytes, size_t n)
{
    return hp_buffer_add(arg, bytes, n);
}

static int
is_meant(const hp_job *job, const uint8_t *job_id)
{
    return !job_id || memcmp(job->job_id, job_id, HP_JOB_ID_BYTES) == 0;
}

static void
add_list(hp_buffer *out, const hp_job *first, const uint8_t *job_id, uint64_t now)
{
    hp_json json;
    hp_json_begin(&json, add_json, out);
    hp_json_list(&json, NULL);
    for (const hp_job *job = first; job; job = job->next)
        if (is_meant(job, job_id))
            hp_table_json(job, &json, now);
    hp_json_close(&json);
    if (hp_json_end(&json) != 0)
        hp_buffer_free(out);
}

void
hp_table_answer(hp_buffer *out, const hp_job *first, const hp_table_request *request, uint64_t now)
{
    const hp_table_options options = {.most = request->rows, .to = {request->width, add_line, out}};
    if (request->rows == 0) {
        add_list(out, first, request->job_id, now);
        return;
    }
    for (const hp_job *job = first; job; job = job->next)
        if (is_meant(job, request->job_id))
            hp_table_print(job, &options, now);
}

uint64_t
hp_table_stalled(const hp_job *first, uint64_t now)
{
    uint64_t longest = 0, lasted;
    for (const hp_job *job = first; job; job = job->next) {
        for (const hp_roster *r = job->rosters; r; r = r->next) {
            lasted = waited(r, now);
            longest = lasted > longest ? lasted : longest;
        }
        for (const hp_join_group *m = job->join_groups; m; m = m->next) {
            lasted = m->parent && !m->failure.code ? now - m->opened : 0;
            longest = lasted > longest ? lasted : longest;
        }
    }
    return longest;
}
