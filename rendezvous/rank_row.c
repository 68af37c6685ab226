/* SPDX-License-Identifier: MIT */
/* rank_row: see rank_row.h. */
#include "rendezvous/rank_row.h"

#include "base/clock.h"
#include "base/say.h"

#include <stdio.h>

enum { CALL = 96 };
enum {
    RANK,
    HOST = HP_ROW_HOST,
    PID,
    OPERATION = HP_ROW_OPERATION,
    LASTED,
    WAITS,
    OUT = HP_ROW_COUNTERS,
    IN,
    WAITED,
    RESENT
};

#define OUTSIDE_AFTER (2 * HP_SEC) /* a rank that drives is heard of each second */

const char *const hp_rank_row_titles[HP_ROW_COLUMNS] = {"rank",      "host", "pid",     "operation", "for",
                                                        "waits for", "out",  "in GB/s", "waited",    "resent"};
static const char *const reasons[HP_WAITS] = {"", "data", "link", "stream", "device"};

/* --- where it is --- */

static int
is_blamed(const hp_table_view *v, int rank)
{
    return v->blame.guilt != HP_GUILT_NONE && v->guilty == rank;
}

static int
is_stopped(const hp_table_view *v, int rank)
{
    return hp_whereabouts_known(v->where, &v->ring->ring.members[rank]).process == HP_PROCESS_STOPPED;
}

/* Whether a rank that is in no operation has called one that its program's stream has not reached. */
static int
awaits_stream(const hp_table_view *v, int rank)
{
    const hp_witness *w = &v->ring->witnesses[rank];
    return !w->in_op && !w->left && hp_blame_awaits_stream(w) && !is_stopped(v, rank);
}

/* Where a rank that is in no operation of this ring waits; NULL: nowhere in hoop. */
static const hp_stay *
elsewhere(const hp_table_view *v, int rank)
{
    const hp_wait_place here = {.ring = v->ring, .rank = -1};
    const hp_witness *w = &v->ring->witnesses[rank];
    if (w->in_op || w->left || v->ring->state != HP_ROSTER_RUNNING || awaits_stream(v, rank) || is_stopped(v, rank))
        return NULL;
    return hp_whereabouts_find(v->where, &v->ring->ring.members[rank], &here);
}

/* Whether the host of a rank in no operation has not taken what was sent to it a second ago (hp_roster_tick). */
static int
is_unreachable(const hp_table_view *v, int rank)
{
    const hp_roster *r = v->ring;
    return r->pings.absent == r->moved && v->now >= r->moved + 2 * HP_ASK_AFTER && r->peers[rank] &&
           !r->witnesses[rank].in_op && !r->events->reached(r->events->arg, r->peers[rank]);
}

static int
connects_again_to(const hp_table_view *v, int rank)
{
    return hp_link_loss_mends(&v->ring->losses, v->ring->witnesses, rank);
}

static int
is_silent(const hp_table_view *v, const hp_witness *w)
{
    return w->in_op && w->last_seen < v->silent_before;
}

/* Of a rank in no operation: ns for which it has been outside hoop; 0: it is not, or that is not known. */
static uint64_t
outside(const hp_table_view *v, int rank)
{
    const hp_witness *w = &v->ring->witnesses[rank];
    const hp_history *h = v->ring->histories ? &v->ring->histories[rank] : NULL;
    if (!h || !h->seen || w->in_op || w->left || !v->ring->peers[rank] || v->ring->state != HP_ROSTER_RUNNING ||
        elsewhere(v, rank) || is_stopped(v, rank) || awaits_stream(v, rank))
        return 0;
    uint64_t word = h->seen > w->last_seen ? h->seen : w->last_seen;
    uint64_t heard = hp_whereabouts_known(v->where, &v->ring->ring.members[rank]).heard;
    word = heard > word ? heard : word; /* perhaps in another ring */
    return v->now > word + OUTSIDE_AFTER ? v->now - word : 0;
}

int
hp_rank_row_weigh(const hp_table_view *v, int rank)
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
    if (!w->in_op && v->blame.sequence > w->completed)
        return 1;
    return w->in_op || awaits_stream(v, rank) || elsewhere(v, rank) ? 3 : 4;
}

/* --- as a row --- */

/* The operation in which a rank is, or that waits for its program's stream; kind and sequence 0: none. */
static hp_call
operation_of(const hp_table_view *v, int rank, uint64_t *sequence)
{
    const hp_witness *w = &v->ring->witnesses[rank];
    int called = awaits_stream(v, rank);
    *sequence = w->in_op ? w->report.sequence : called ? w->waiting.sequence : 0;
    return w->in_op ? w->report.call : called ? w->waiting.call : (hp_call){0};
}

/* "not in 17, recv of 5 x float32 (tag 3)": a rank that others wait for, or that does something else. */
static void
fill_absent(const hp_table_view *v, int rank, char cell[HP_CELL])
{
    const hp_roster *r = v->ring;
    const hp_stay *other = elsewhere(v, rank);
    char place[HP_WHERE_TEXT], missing[40] = "";
    const char *what = is_stopped(v, rank)       ? "stopped"
                       : is_unreachable(v, rank) ? "unreachable"
                       : other                   ? hp_stay_print(other, r, place)
                       : outside(v, rank)        ? "outside hoop"
                                                 : "";
    if (v->blame.sequence > r->witnesses[rank].completed)
        snprintf(missing, sizeof(missing), "not in %llu", (unsigned long long)v->blame.sequence);
    if (*missing && other && what == place)
        snprintf(cell, HP_CELL, "%s, %.80s", missing, what);
    else if (*missing)
        snprintf(cell, HP_CELL, "%.80s%s%s", what, *what ? ", " : "", missing);
    else if (*what || !r->histories || !r->histories[rank].last.operations) /* the first report may still be to come */
        snprintf(cell, HP_CELL, "%.120s", *what ? what : "none that lasts");
    else
        snprintf(cell, HP_CELL, "%llu done", (unsigned long long)r->histories[rank].last.operations);
}

static void
fill_operation(const hp_table_view *v, int rank, char cell[HP_CELL])
{
    const hp_roster *r = v->ring;
    const hp_witness *w = &r->witnesses[rank];
    char call[CALL];
    uint64_t sequence;
    hp_call current = operation_of(v, rank, &sequence);
    if (w->left)
        snprintf(cell, HP_CELL, "left after %llu", (unsigned long long)w->completed);
    else if (!r->peers[rank])
        snprintf(cell, HP_CELL, "its connection is lost");
    else if (r->state == HP_ROSTER_LINKING)
        snprintf(cell, HP_CELL, "%s", hp_rank_set_has(r->ready, rank) ? "is connected" : "connects to its peers");
    else if (sequence && current.name)
        hp_call_print_operation(&current, sequence, cell, HP_CELL);
    else if (sequence)
        snprintf(cell, HP_CELL, "%llu %s", (unsigned long long)sequence,
                 current.kind ? hp_call_print(&current, call, sizeof(call)) : "");
    else
        fill_absent(v, rank, cell);
}

/* For whom or what a rank in an operation waits. */
static void
fill_awaited(const hp_table_view *v, const hp_witness *w, char cell[HP_CELL])
{
    int peer = w->report.awaited.rank;
    if (is_silent(v, w))
        snprintf(cell, HP_CELL, "silent for %.1f s", (double)(v->now - w->last_seen) / 1e9);
    else if (peer >= v->ring->ring.size)
        return;
    else if (peer < 0)
        snprintf(cell, HP_CELL, "its device");
    else
        snprintf(cell, HP_CELL, w->report.awaited.what == HP_WAIT_LINK ? "rank %d to read" : "data from rank %d", peer);
}

static void
fill_wait(const hp_table_view *v, int rank, hp_row *row)
{
    const hp_witness *w = &v->ring->witnesses[rank];
    const hp_stay *other = elsewhere(v, rank);
    char text[HP_WHERE_TEXT];
    uint64_t lasted = 0;
    if (outside(v, rank))
        snprintf(row->cell[LASTED], HP_CELL, "%.0f s", (double)outside(v, rank) / 1e9);
    if (w->left)
        return;
    if (w->in_op) {
        lasted = w->report.since + (v->now - w->last_seen);
        fill_awaited(v, w, row->cell[WAITS]);
    } else if (awaits_stream(v, rank)) {
        lasted = w->waiting.since + (v->now - w->waiting_at);
        snprintf(row->cell[WAITS], HP_CELL, "its stream");
    } else if (other) {
        lasted = v->now > other->since ? v->now - other->since : 0;
        snprintf(row->cell[WAITS], HP_CELL, "%.120s", hp_stay_waits_for(other, v->ring, text));
    }
    if (connects_again_to(v, rank) >= 0)
        snprintf(row->cell[WAITS], HP_CELL, "rank %d is being connected again", connects_again_to(v, rank));
    if (w->in_op || lasted)
        snprintf(row->cell[LASTED], HP_CELL, "%.1f s", (double)lasted / 1e9);
}

/* "62% data": the largest part is named. */
static void
fill_rates(const hp_table_view *v, int rank, hp_row *row)
{
    const hp_history *h = v->ring->histories ? &v->ring->histories[rank] : NULL;
    if (!h || !h->seen || v->ring->witnesses[rank].left)
        return;
    hp_rates rates = hp_history_rates(h, HP_SPAN_MOMENT, v->now);
    snprintf(row->cell[OUT], HP_CELL, "%.2f", rates.sent / 1e9);
    snprintf(row->cell[IN], HP_CELL, "%.2f", rates.received / 1e9);
    snprintf(row->cell[WAITED], HP_CELL, "%.0f%% %s", rates.waited * 100,
             rates.waited < 0.005 ? "" : reasons[rates.most]);
    if (h->last.most_to < 0 && v->ring->ring.size > 1)
        snprintf(row->cell[RESENT], HP_CELL, "memory");
    else
        snprintf(row->cell[RESENT], HP_CELL, "%llu", (unsigned long long)h->last.retransmits);
}

void
hp_rank_row_fill(const hp_table_view *v, int rank, hp_row *row)
{
    const hp_member *who = &v->ring->ring.members[rank];
    snprintf(row->cell[RANK], HP_CELL, "%d", rank);
    snprintf(row->cell[HOST], HP_CELL, "%s", who->host);
    snprintf(row->cell[PID], HP_CELL, "%u", who->pid);
    fill_operation(v, rank, row->cell[OPERATION]);
    fill_wait(v, rank, row);
    fill_rates(v, rank, row);
}

/* --- as JSON --- */

static double
seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

static void
add_call(const hp_call *call, hp_json *json)
{
    char text[CALL];
    hp_call nameless = *call;
    nameless.name = NULL;
    hp_json_text(json, "call", nameless.kind ? hp_call_print(&nameless, text, sizeof(text)) : NULL);
    hp_json_text(json, "name", call->name);
}

/* "reason" is as in "waited"; a rank that is awaited, too, has its number. */
static void
add_awaited(hp_awaited awaited, hp_json *json)
{
    hp_json_text(json, "reason", reasons[awaited.what]);
    if (awaited.rank >= 0)
        hp_json_integer(json, awaited.what == HP_WAIT_LINK ? "waits_for_reader" : "waits_for_data_of", awaited.rank);
}

static void
add_operation(const hp_table_view *v, const hp_witness *w, hp_json *json)
{
    hp_json_object(json, "operation");
    hp_json_count(json, "sequence", w->report.sequence);
    add_call(&w->report.call, json);
    hp_json_decimal(json, "seconds", seconds(w->report.since + (v->now - w->last_seen)), 3);
    add_awaited(w->report.awaited, json);
    hp_json_count(json, "step", w->report.step);
    hp_json_count(json, "bytes", w->report.bytes);
    hp_json_decimal(json, "last_word", seconds(v->now - w->last_seen), 3);
    hp_json_boolean(json, "silent", is_silent(v, w));
    hp_json_close(json);
}

/* An operation that its program's stream has not reached, or a message. */
static void
add_waiting(const char *key, const hp_waiting *waiting, uint64_t ago, hp_json *json)
{
    hp_json_object(json, key);
    if (waiting->sequence)
        hp_json_count(json, "sequence", waiting->sequence);
    add_call(&waiting->call, json);
    hp_json_decimal(json, "seconds", seconds(waiting->since + ago), 3);
    add_awaited(waiting->awaited, json);
    hp_json_close(json);
}

static void
add_waits(const hp_table_view *v, int rank, hp_json *json)
{
    const hp_witness *w = &v->ring->witnesses[rank];
    const hp_stay *other = elsewhere(v, rank);
    char text[HP_WHERE_TEXT];
    if (w->left)
        return;
    if (w->in_op)
        add_operation(v, w, json);
    else if (awaits_stream(v, rank))
        add_waiting("operation", &w->waiting, v->now - w->waiting_at, json);
    if (hp_blame_awaits_message(w))
        add_waiting("message", &w->waiting, v->now - w->waiting_at, json);
    if (other) {
        hp_json_text(json, "elsewhere", hp_stay_print(other, v->ring, text));
        hp_json_decimal(json, "elsewhere_seconds", v->now > other->since ? seconds(v->now - other->since) : 0, 3);
    }
}

static void
add_counters(const hp_table_view *v, const hp_history *h, hp_json *json)
{
    const hp_vitals *c = &h->last;
    hp_rates rates = hp_history_rates(h, HP_SPAN_MOMENT, v->now);
    hp_json_object(json, "counters");
    hp_json_decimal(json, "last_word", seconds(v->now - h->seen), 3);
    hp_json_count(json, "operations", c->operations);
    hp_json_count(json, "messages", c->messages);
    hp_json_count(json, "over_two_levels", c->levels);
    hp_json_count(json, "bytes_sent", c->sent);
    hp_json_count(json, "bytes_received", c->received);
    hp_json_decimal(json, "sends_per_second", rates.sent, 0);
    hp_json_decimal(json, "receives_per_second", rates.received, 0);
    hp_json_object(json, "waited");
    for (int i = HP_WAIT_PEER; i < HP_WAITS; i++)
        hp_json_decimal(json, reasons[i], seconds(c->waited[i]), 6);
    hp_json_close(json);
    hp_json_object(json, "share_waited");
    for (int i = HP_WAIT_PEER; i < HP_WAITS; i++)
        hp_json_decimal(json, reasons[i], rates.share[i], 4);
    hp_json_close(json);
    hp_json_count(json, "retransmits", c->retransmits);
    hp_json_count(json, "round_trip_us", c->rtt);
    hp_json_count(json, "delivery_rate", c->delivery_rate);
    hp_json_text(json, "medium", c->most_to < 0 ? "memory" : "tcp");
    hp_json_close(json);
}

void
hp_rank_row_json(const hp_table_view *v, int rank, hp_json *json)
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
    const hp_history *h =
        v->ring->histories ? &v->ring->histories[rank] : NULL; /* completed: as reported in either way */
    uint64_t counted = h && h->seen ? h->last.operations : 0;
    hp_json_count(json, "completed", counted > w->completed ? counted : w->completed);
    add_waits(v, rank, json);
    if (connects_again_to(v, rank) >= 0)
        hp_json_integer(json, "connects_again_to", connects_again_to(v, rank));
    if (outside(v, rank))
        hp_json_decimal(json, "outside", seconds(outside(v, rank)), 3);
    if (h && h->seen)
        add_counters(v, h, json);
    hp_json_close(json);
}
