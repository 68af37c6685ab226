/* SPDX-License-Identifier: MIT */
/*
 * report: see report.h. In a packed file each recorder is one text, "STATE LOOKED BASE64", so that it is found again
 * without a reader of JSON.
 */
#include "flight/report.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { OPERATIONS_SHOWN = 12, RANKS_SHOWN = 32 };

static const char *const states[] = {"unknown", "running", "stopped", "ended", "moving"};
static const char *const waits[HP_WAITS] = {"", "data of rank", "rank that has to take data", "the stream of the call",
                                            "its own device"};
static const char version_key[] = "\"version\":";
static const char packed_key[] = "\"recorder\":\"";

/* --- bytes as text --- */

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void
hp_base64_put(char *out, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i += 3) {
        uint32_t three = (uint32_t)bytes[i] << 16;
        three |= i + 1 < n ? (uint32_t)bytes[i + 1] << 8 : 0;
        three |= i + 2 < n ? bytes[i + 2] : 0;
        *out++ = digits[three >> 18];
        *out++ = digits[three >> 12 & 63];
        *out++ = i + 1 < n ? digits[three >> 6 & 63] : '=';
        *out++ = i + 2 < n ? digits[three & 63] : '=';
    }
    *out = '\0';
}

ptrdiff_t
hp_base64_get(uint8_t *out, size_t room, const char *text, size_t n)
{
    size_t used = 0;
    uint32_t bits = 0;
    int held = 0; /* bits that are held */
    while (n > 0 && text[n - 1] == '=')
        n--;
    for (size_t i = 0; i < n; i++) {
        const char *digit = text[i] ? strchr(digits, text[i]) : NULL;
        if (!digit)
            return -1;
        bits = bits << 6 | (uint32_t)(digit - digits);
        held += 6;
        if (held < 8)
            continue;
        held -= 8;
        if (used == room)
            return -1;
        out[used++] = (uint8_t)(bits >> held);
    }
    return (ptrdiff_t)used;
}

/* --- for people --- */

static void
print_member(FILE *to, const hp_flight_member *m)
{
    const hp_flight_head *head = &m->entry->flight->head;
    char call[128] = "-";
    if (m->last)
        hp_call_print(&m->last->call, call, sizeof(call));
    fprintf(to, "  %4d  %-16s %8u  %-8s %10" PRIu64 "  %s%s\n", head->rank, head->host, head->pid,
            states[m->entry->state], m->last ? m->last->sequence : 0, call,
            m->stuck == m->last && m->last ? (m->last->left ? ", failed" : ", not ended") : "");
    if (head->error_code)
        fprintf(to, "        %s\n", head->error);
}

typedef struct period {
    const hp_flight_record *record;
    uint64_t first, last, end; /* dates: the first and the last call of it, and its end; 0: it has none yet */
    int first_rank, last_rank, called, open;
} period;

/* An operation on all ranks. */
static period
period_of(const hp_flight_ring *ring, uint64_t sequence)
{
    period s = {0};
    for (int i = 0; i < ring->count; i++) {
        const hp_flight_entry *e = ring->member[i].entry;
        const hp_flight_record *r = hp_flight_find(e->flight, sequence);
        if (!r)
            continue;
        uint64_t entered = hp_flight_date(e, r->entered);
        s.called++;
        s.open += !r->left;
        if (!s.record || entered < s.first) {
            s.first = entered;
            s.first_rank = e->flight->head.rank;
        }
        if (!s.record || entered > s.last) {
            s.last = entered;
            s.last_rank = e->flight->head.rank;
        }
        s.record = r;
        if (r->left && hp_flight_date(e, r->left) > s.end)
            s.end = hp_flight_date(e, r->left);
    }
    return s;
}

static void
print_operation(FILE *to, const hp_flight_ring *ring, uint64_t sequence)
{
    char call[128];
    period s = period_of(ring, sequence);
    if (!s.record)
        return;
    fprintf(to, "  %10" PRIu64 "  %8d  %7d %8.3f ms ", sequence, s.first_rank, s.last_rank,
            (double)(s.last - s.first) / 1e6);
    if (s.called < ring->size || s.open)
        fprintf(to, "%4d of %-4d", s.called - s.open, ring->size);
    else
        fprintf(to, "%8.3f ms", (double)(s.end - s.first) / 1e6);
    fprintf(to, "  %s\n", hp_call_print(&s.record->call, call, sizeof(call)));
}

/* The newest operations, and before them the oldest one in which a rank is stuck. */
static void
print_operations(FILE *to, const hp_flight_ring *ring)
{
    uint64_t newest = 0, stuck = UINT64_MAX;
    for (int i = 0; i < ring->count; i++) {
        const hp_flight_member *m = &ring->member[i];
        newest = m->last && m->last->sequence > newest ? m->last->sequence : newest;
        stuck = m->stuck && m->stuck->sequence < stuck ? m->stuck->sequence : stuck;
    }
    uint64_t first = newest < OPERATIONS_SHOWN ? 1 : newest - OPERATIONS_SHOWN + 1;
    if (newest == 0)
        return;
    fprintf(to, "\n   operation  first by  last by, later        ended  call\n");
    if (stuck < first) {
        print_operation(to, ring, stuck);
        fprintf(to, "%s", stuck + 1 < first ? "         ...\n" : "");
    }
    for (uint64_t shown = 0; shown <= newest - first; shown++)
        print_operation(to, ring, first + shown);
}

void
hp_flight_print(FILE *to, const hp_flight_story *story)
{
    fprintf(to, "%s\n", story->text);
    if (!story->ring)
        return;
    if (story->others)
        fprintf(to, "job %s; recorders of %d other job%s are here, too: --job or the names of the files choose one\n",
                story->ring->member[0].entry->flight->head.job, story->others, story->others == 1 ? "" : "s");
    fprintf(to, "\n  rank  host                  pid  process   operation  its newest\n");
    for (int i = 0; i < story->ring->count && i < RANKS_SHOWN; i++)
        print_member(to, &story->ring->member[i]);
    if (story->ring->count > RANKS_SHOWN)
        fprintf(to, "  ... and %d more (--json has all)\n", story->ring->count - RANKS_SHOWN);
    print_operations(to, story->ring);
}

/* --- for programs --- */

static void
put_date(hp_json *json, const char *key, const hp_flight_entry *e, uint64_t time)
{
    if (time)
        hp_json_count(json, key, hp_flight_date(e, time));
    else
        hp_json_null(json, key);
}

static void
put_operation(hp_json *json, const hp_flight_entry *e, const hp_flight_record *r)
{
    char call[128];
    hp_call nameless = r->call;
    nameless.name = NULL;
    hp_json_object(json, NULL);
    hp_json_count(json, "number", r->number);
    hp_json_count(json, "sequence", r->sequence);
    hp_json_text(json, "call", hp_call_print(&nameless, call, sizeof(call)));
    hp_json_text(json, "name", r->call.name);
    hp_json_text(json, "kind", hp_kind_name(r->call.kind));
    hp_json_count(json, "count", r->call.count);
    hp_json_count(json, "messages", r->messages);
    hp_json_integer(json, "peer", r->peer);
    put_date(json, "entered", e, r->entered);
    put_date(json, "first_data", e, r->first);
    put_date(json, "last_data", e, r->last);
    put_date(json, "left", e, r->left);
    hp_json_integer(json, "result", r->result);
    hp_json_text(json, "waits_for", r->wait && r->wait < HP_WAITS ? waits[r->wait] : NULL);
    hp_json_integer(json, "awaited", r->awaited);
    put_date(json, "waits_since", e, r->waits_since);
    hp_json_close(json);
}

static void
put_packed(hp_json *json, const hp_flight_entry *e)
{
    size_t size = 64 + HP_BASE64_LENGTH(e->n) + 1;
    char *text = hp_alloc(1, size);
    if (!text) {
        hp_json_null(json, "recorder");
        return;
    }
    int used = snprintf(text, size, "%s %" PRIu64 " ", states[e->state], e->looked);
    hp_base64_put(text + used, e->bytes, e->n);
    hp_json_text(json, "recorder", text);
    free(text);
}

/* NULL: no communicator. */
static void
put_communicator(hp_json *json, const hp_flight_head *head)
{
    char id[24];
    snprintf(id, sizeof(id), "%016" PRIx64, head ? head->comm : 0); /* not every reader has integers of 64 bits */
    hp_json_text(json, "job", head ? head->job : NULL);
    hp_json_text(json, "communicator", head ? id : NULL);
    hp_json_text(json, "name", head && head->name[0] ? head->name : NULL);
}

static void
put_recorder(hp_json *json, const hp_flight_entry *e, hp_flight_form form)
{
    const hp_flight_head *head = &e->flight->head;
    hp_json_object(json, NULL);
    put_communicator(json, head);
    hp_json_integer(json, "rank", head->rank);
    hp_json_integer(json, "size", head->size);
    hp_json_text(json, "host", head->host);
    hp_json_count(json, "pid", head->pid);
    hp_json_text(json, "process", states[e->state]);
    hp_json_count(json, "read", e->looked);
    hp_json_count(json, "called", head->called);
    hp_json_text(json, "error", head->error_code ? head->error : NULL);
    if (form == HP_FLIGHT_PACKED) {
        put_packed(json, e);
    } else {
        hp_json_integer(json, "torn", e->flight->torn);
        hp_json_list(json, "operations");
        for (int i = 0; i < e->flight->count; i++)
            put_operation(json, e, &e->flight->record[i]);
        hp_json_close(json);
    }
    hp_json_close(json);
}

static void
put_story(hp_json *json, const hp_flight_story *story)
{
    const hp_flight_head *end = story->end ? &story->end->entry->flight->head : NULL;
    hp_json_text(json, "sentence", story->text);
    put_communicator(json, story->ring ? &story->ring->member[0].entry->flight->head : NULL);
    hp_json_integer(json, "late_rank", story->late);
    hp_json_text(json, "late_host", end ? end->host : NULL);
    if (end)
        hp_json_count(json, "late_pid", end->pid);
    else
        hp_json_null(json, "late_pid");
    hp_json_count(json, "first_difference", story->difference);
}

int
hp_flight_write_json(FILE *to, const hp_flight_collection *all, const hp_flight_story *story, hp_flight_form form)
{
    hp_json json;
    hp_json_begin(&json, hp_json_to_file, to);
    hp_json_object(&json, NULL);
    hp_json_integer(&json, "version", HP_FLIGHT_FILE_VERSION);
    put_story(&json, story);
    hp_json_list(&json, "recorders");
    for (size_t i = 0; i < all->count; i++)
        put_recorder(&json, &all->entry[i], form);
    hp_json_close(&json);
    hp_json_close(&json);
    return hp_json_end(&json) == 0 && fputc('\n', to) != EOF && fflush(to) == 0 ? 0 : -1;
}

/* --- back again --- */

static hoop_result
corrupt(hoop_error *error)
{
    return hp_err_set(error, HOOP_ERR_CORRUPT, "it is no file of flight recorders that hooprun has written");
}

/* The version is before any text that has another one. */
static hoop_result
check_version(const char *text, hoop_error *error)
{
    const char *at = strstr(text, version_key);
    unsigned long version = at ? strtoul(at + sizeof(version_key) - 1, NULL, 10) : 0;
    if (version == 0)
        return corrupt(error);
    if (version == HP_FLIGHT_FILE_VERSION)
        return HOOP_SUCCESS;
    return hp_err_set(
        error, HOOP_ERR_UNSUPPORTED,
        "it has version %lu of the format, and this program knows version %d: use the hoop-top of the same "
        "release as hooprun",
        version, HP_FLIGHT_FILE_VERSION);
}

/* "STATE LOOKED BASE64" */
static hoop_result
add_packed(hp_flight_collection *all, const char *text, size_t n, uint8_t *bytes, hoop_error *error)
{
    size_t state = 0, word = strcspn(text, " ");
    char *rest;
    while (state < sizeof(states) / sizeof(states[0]) &&
           (strlen(states[state]) != word || strncmp(states[state], text, word) != 0))
        state++;
    if (state == sizeof(states) / sizeof(states[0]) || word >= n)
        return corrupt(error);
    uint64_t looked = strtoull(text + word, &rest, 10);
    if (*rest != ' ' || rest >= text + n)
        return corrupt(error);
    rest++;
    ptrdiff_t size = hp_base64_get(bytes, HP_FLIGHT_BYTES, rest, (size_t)(text + n - rest));
    if (size < 0)
        return corrupt(error);
    const hp_flight_reading reading = {bytes, NULL, (size_t)size, (hp_flight_state)state, looked};
    return hp_flight_add(all, &reading, error);
}

static hoop_result
add_texts(hp_flight_collection *all, const char *text, hoop_error *error)
{
    uint8_t *bytes = hp_alloc(1, HP_FLIGHT_BYTES);
    hoop_result result = bytes ? check_version(text, error) : hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory");
    int found = 0;
    for (const char *at = text; result == HOOP_SUCCESS && (at = strstr(at, packed_key)); found++) {
        at += sizeof(packed_key) - 1;
        result = add_packed(all, at, strcspn(at, "\""), bytes, error);
    }
    free(bytes);
    return result == HOOP_SUCCESS && !found ? corrupt(error) : result;
}

hoop_result
hp_flight_add_archive(hp_flight_collection *all, const char *path, hoop_error *error)
{
    char *text = NULL;
    size_t room = 0;
    FILE *file = fopen(path, "re");
    ssize_t n = file ? getdelim(&text, &room, '\0', file) : -1;
    hoop_result result = !file   ? hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot open it")
                         : n < 0 ? corrupt(error)
                                 : add_texts(all, text, error);
    free(text);
    if (file)
        fclose(file);
    return result;
}
