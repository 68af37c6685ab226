/* SPDX-License-Identifier: MIT */
/*
 * format: see format.h. A record is written as its mark made odd, its words, its mark made even and higher than ever; a
 * reader believes what lies between two equal even marks. What a dead process left is read once: its stores are in the
 * file in the order in which it made them.
 */
#include "flight/format.h"

#include "base/err.h"
#include "base/text.h"
#include "base/wire.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

/* Words of the head. */
enum {
    MAGIC,
    VERSION, /* and the bytes of the head */
    RECORDS, /* the bytes of a record, and how many there are */
    PROCESS, /* pid, rank */
    RING,    /* size, epoch */
    COMM,
    STARTED,
    PID_SPACE,
    MONOTONIC,
    REALTIME,
    HOST,
    JOB = HOST + HP_FLIGHT_TEXT / 8,
    NAME = JOB + HP_FLIGHT_TEXT / 8,
    CALLED = 64,
    SPLIT,
    SPLIT_AT,
    ERROR_CODE,
    ERROR_TEXT,
    CALL_NAMES = 128,
    HEAD_WORDS = HP_FLIGHT_HEAD_BYTES / 8
};

/* Words of a record. */
enum {
    MARK,
    NUMBER,
    SEQUENCE,
    CALL,
    COUNT,
    ENTERED,
    FIRST,
    LAST,
    LEFT,
    CALLS, /* messages */
    PEER,  /* result */
    WAIT,  /* awaited */
    WAITS_SINCE,
    CALL_NAME,
    USED_WORDS,
    RECORD_WORDS = HP_FLIGHT_RECORD_BYTES / 8
};

static const char magic[9] = "hoop-flt";

static uint64_t
pair(uint32_t low, uint32_t high)
{
    return low | (uint64_t)high << 32;
}

/* --- writing --- */

/* Stores reach the file in their order. */
static void
store(hp_flight_word *word, uint64_t value)
{
    atomic_store_explicit(word, htole64(value), memory_order_release);
}

/* It begins with a zero until all of it is there, so the end of another text is never read behind it. */
static void
store_text(hp_flight_word *words, const char *text, size_t size)
{
    uint8_t bytes[256] = {0};
    memcpy(bytes, text, strnlen(text, size - 1));
    store(&words[0], 0);
    for (size_t i = 1; i < size / 8; i++)
        store(&words[i], hp_get64(bytes + 8 * i));
    store(&words[0], hp_get64(bytes));
}

void
hp_flight_begin(hp_flight_word *file, const hp_flight_head *head)
{
    store(&file[VERSION], pair(HP_FLIGHT_VERSION, HP_FLIGHT_HEAD_BYTES));
    store(&file[RECORDS], pair(HP_FLIGHT_RECORD_BYTES, HP_FLIGHT_RECORDS));
    store(&file[PROCESS], pair(head->pid, (uint32_t)head->rank));
    store(&file[RING], pair((uint32_t)head->size, head->epoch));
    store(&file[COMM], head->comm);
    store(&file[STARTED], head->started);
    store(&file[PID_SPACE], head->pid_space);
    store(&file[MONOTONIC], head->monotonic);
    store(&file[REALTIME], head->realtime);
    store_text(&file[HOST], head->host, HP_FLIGHT_TEXT);
    store_text(&file[JOB], head->job, HP_FLIGHT_TEXT);
    store_text(&file[NAME], head->name, HP_FLIGHT_TEXT);
    store(&file[MAGIC], hp_get64((const uint8_t *)magic));
}

void
hp_flight_put(hp_flight_word *file, const hp_flight_record *r)
{
    hp_flight_word *to = file + HEAD_WORDS + (r->number - 1) % HP_FLIGHT_RECORDS * RECORD_WORDS;
    uint64_t mark = le64toh(atomic_load_explicit(&to[MARK], memory_order_relaxed));
    uint8_t call[HP_CALL_BYTES];
    if (le64toh(atomic_load_explicit(&to[NUMBER], memory_order_relaxed)) > r->number)
        return;
    hp_call_put(call, &r->call);
    store(&to[MARK], mark | 1);
    store(&to[NUMBER], r->number);
    store(&to[SEQUENCE], r->sequence);
    store(&to[CALL], hp_get64(call));
    store(&to[COUNT], hp_get64(call + 8));
    store(&to[ENTERED], r->entered);
    store(&to[FIRST], r->first);
    store(&to[LAST], r->last);
    store(&to[LEFT], r->left);
    store(&to[CALLS], pair(r->calls, r->messages));
    store(&to[PEER], pair((uint32_t)r->peer, (uint32_t)r->result));
    store(&to[WAIT], pair(r->wait, (uint32_t)r->awaited));
    store(&to[WAITS_SINCE], r->waits_since);
    store(&to[CALL_NAME], r->name);
    store(&to[MARK], (mark | 1) + 1);
}

void
hp_flight_put_called(hp_flight_word *file, uint64_t called)
{
    store(&file[CALLED], called);
}

void
hp_flight_put_name(hp_flight_word *file, const char *name)
{
    store_text(&file[NAME], name, HP_FLIGHT_TEXT);
}

void
hp_flight_put_call_name(hp_flight_word *file, int number, const char *name)
{
    store_text(&file[CALL_NAMES + (number - 1) * HP_CALL_NAME_TEXT / 8], name, HP_CALL_NAME_TEXT);
}

void
hp_flight_put_split(hp_flight_word *file, uint32_t number, uint64_t since)
{
    store(&file[SPLIT], number);
    store(&file[SPLIT_AT], since);
}

void
hp_flight_put_error(hp_flight_word *file, int32_t code, const char *text)
{
    store_text(&file[ERROR_TEXT], text, sizeof(((hp_flight_head *)0)->error));
    store(&file[ERROR_CODE], (uint32_t)code);
}

/* --- reading --- */

static uint64_t
word(const uint8_t *bytes, size_t at)
{
    return hp_get64(bytes + 8 * at);
}

static uint32_t
low(const uint8_t *bytes, size_t at)
{
    return hp_get32(bytes + 8 * at);
}

static uint32_t
high(const uint8_t *bytes, size_t at)
{
    return hp_get32(bytes + 8 * at + 4);
}

static void
get_text(char *text, size_t size, const uint8_t *bytes, size_t at)
{
    memcpy(text, bytes + 8 * at, size);
    text[size - 1] = '\0';
    hp_text_tame(text, strlen(text), '\0');
}

static hoop_result
check_head(const uint8_t *bytes, size_t n, hoop_error *error)
{
    if (n < HP_FLIGHT_HEAD_BYTES || word(bytes, MAGIC) != hp_get64((const uint8_t *)magic))
        return hp_err_set(error, HOOP_ERR_CORRUPT,
                          "it is no flight recorder of hoop, or its process ended while making it");
    if (low(bytes, VERSION) != HP_FLIGHT_VERSION)
        return hp_err_set(error, HOOP_ERR_UNSUPPORTED,
                          "it has version %u of the format, and this program knows version %d: use the hoop-top of the "
                          "same release as the library",
                          low(bytes, VERSION), HP_FLIGHT_VERSION);
    if (high(bytes, VERSION) != HP_FLIGHT_HEAD_BYTES || low(bytes, RECORDS) != HP_FLIGHT_RECORD_BYTES ||
        high(bytes, RECORDS) != HP_FLIGHT_RECORDS || n > HP_FLIGHT_BYTES ||
        (n - HP_FLIGHT_HEAD_BYTES) % HP_FLIGHT_RECORD_BYTES != 0)
        return hp_err_set(error, HOOP_ERR_CORRUPT, "its %zu bytes are not a head and whole records", n);
    int32_t rank = (int32_t)high(bytes, PROCESS), size = (int32_t)low(bytes, RING);
    if (rank < 0 || rank >= size)
        return hp_err_set(error, HOOP_ERR_CORRUPT, "it says rank %d of %d", rank, size);
    return HOOP_SUCCESS;
}

static void
get_head(hp_flight_head *head, const uint8_t *bytes)
{
    *head = (hp_flight_head){.pid = low(bytes, PROCESS),
                             .rank = (int32_t)high(bytes, PROCESS),
                             .size = (int32_t)low(bytes, RING),
                             .epoch = high(bytes, RING),
                             .comm = word(bytes, COMM),
                             .started = word(bytes, STARTED),
                             .pid_space = word(bytes, PID_SPACE),
                             .monotonic = word(bytes, MONOTONIC),
                             .realtime = word(bytes, REALTIME),
                             .called = word(bytes, CALLED),
                             .split = low(bytes, SPLIT),
                             .split_at = word(bytes, SPLIT_AT),
                             .error_code = (int32_t)low(bytes, ERROR_CODE)};
    get_text(head->host, sizeof(head->host), bytes, HOST);
    get_text(head->job, sizeof(head->job), bytes, JOB);
    get_text(head->name, sizeof(head->name), bytes, NAME);
    if (head->error_code)
        get_text(head->error, sizeof(head->error), bytes, ERROR_TEXT);
}

static hp_flight_record
get_record(const uint8_t *bytes)
{
    hp_flight_record r = {.number = word(bytes, NUMBER),
                          .sequence = word(bytes, SEQUENCE),
                          .entered = word(bytes, ENTERED),
                          .first = word(bytes, FIRST),
                          .last = word(bytes, LAST),
                          .left = word(bytes, LEFT),
                          .calls = low(bytes, CALLS),
                          .messages = high(bytes, CALLS),
                          .peer = (int32_t)low(bytes, PEER),
                          .result = (int32_t)high(bytes, PEER),
                          .wait = low(bytes, WAIT),
                          .awaited = (int32_t)high(bytes, WAIT),
                          .waits_since = word(bytes, WAITS_SINCE),
                          .name = low(bytes, CALL_NAME)};
    hp_call_get(&r.call, bytes + 8 * CALL);
    return r;
}

static void
get_call_names(hp_flight *flight, const uint8_t *bytes)
{
    for (size_t i = 0; i < HP_CALL_NAMES; i++)
        get_text(flight->call_name[i], HP_CALL_NAME_TEXT, bytes, CALL_NAMES + i * HP_CALL_NAME_TEXT / 8);
}

/* A name that is not there yet, of a process that lives, is none. */
static void
name_call(const hp_flight *flight, hp_flight_record *r)
{
    const char *name = r->name > 0 && r->name <= HP_CALL_NAMES ? flight->call_name[r->name - 1] : "";
    r->call.name = *name ? name : NULL;
}

static int
by_number(const void *a, const void *b)
{
    uint64_t x = ((const hp_flight_record *)a)->number, y = ((const hp_flight_record *)b)->number;
    return (x > y) - (x < y);
}

static void
get_place(hp_flight *flight, size_t place, const uint8_t *bytes, const uint8_t *later)
{
    uint64_t mark = word(bytes, MARK);
    if (mark == 0)
        return;
    hp_flight_record r = get_record(bytes);
    name_call(flight, &r);
    if (mark % 2 || (later && word(later, MARK) != mark) || r.number == 0 ||
        (r.number - 1) % HP_FLIGHT_RECORDS != place)
        flight->torn++;
    else
        flight->record[flight->count++] = r;
}

hoop_result
hp_flight_get(hp_flight *flight, const uint8_t *bytes, const uint8_t *later, size_t n, hoop_error *error)
{
    hoop_result result = check_head(bytes, n, error);
    flight->torn = flight->count = 0;
    if (result != HOOP_SUCCESS)
        return result;
    get_head(&flight->head, bytes);
    if (later && memcmp(bytes + 8 * NAME, later + 8 * NAME, HP_FLIGHT_TEXT) != 0)
        flight->head.name[0] = '\0';
    get_call_names(flight, bytes);
    for (size_t at = HP_FLIGHT_HEAD_BYTES, place = 0; at < n; at += HP_FLIGHT_RECORD_BYTES, place++)
        get_place(flight, place, bytes + at, later ? later + at : NULL);
    qsort(flight->record, (size_t)flight->count, sizeof(flight->record[0]), by_number);
    return HOOP_SUCCESS;
}
