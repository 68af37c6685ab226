/* SPDX-License-Identifier: MIT */
/* account: see account.h. A work carries its record; each change writes all of it again, a few nanoseconds. */
#include "lib/account.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "flight/collection.h"
#include "lib/environment.h"

#include <stdio.h>
#include <stdlib.h>

/* --- the flight recorder --- */

enum { MESSAGES_MOST = 8 }; /* works of messages whose waits are written */

static atomic_int has_failed; /* 1: a communicator of this process has no recorder, and said so */

void
hp_recorder_open(hoop_comm *comm)
{
    hp_flight_head head;
    hoop_error error;
    if (!hp_config_number(&comm->config, HP_SET_recorder))
        return;
    if (hp_flight_file_make(&comm->recorder.file, &error) == HOOP_SUCCESS) {
        head = (hp_flight_head){.rank = comm->rank, .size = comm->size, .epoch = comm->epoch, .comm = comm->id};
        hp_environment_host(&comm->config, head.host);
        snprintf(head.job, sizeof(head.job), "%s", hp_config_text(&comm->config, HP_SET_job));
        snprintf(head.name, sizeof(head.name), "%s", comm->name);
        hp_flight_sign(&head);
        hp_flight_begin(comm->recorder.file.words, &head);
    } else {
        int first = !atomic_exchange(&has_failed, 1) && comm->local_rank == 0;
        hp_log(first ? HP_LOG_WARN : HP_LOG_INFO, "no flight recorder: %s (HOOP_RECORDER=0 asks for none)", error.text);
    }
}

void
hp_recorder_call(hoop_comm *comm, hoop_work *first, const hoop_work *last)
{
    hp_recorder *r = &comm->recorder;
    if (!r->file.words)
        return;
    uint64_t now = hp_now();
    for (hoop_work *work = first; work; work = work == last ? NULL : work->next) {
        work->record.entered = now;
        r->called++;
    }
    hp_flight_put_called(r->file.words, r->called);
}

static void
note_wait(hoop_comm *comm, hoop_work *work, hp_awaited awaited)
{
    hp_flight_record *r = &work->record;
    if (r->wait != awaited.what || r->awaited != awaited.rank) {
        r->wait = awaited.what;
        r->awaited = awaited.rank;
        r->waits_since = hp_recorder_clock(comm);
    }
    hp_flight_put(comm->recorder.file.words, r);
}

void
hp_recorder_wait(hoop_comm *comm, hp_awaited awaited)
{
    if (comm->recorder.file.words && comm->running)
        note_wait(comm, comm->running, awaited);
}

void
hp_recorder_wait_messages(hoop_comm *comm)
{
    int n = 0;
    if (!comm->recorder.file.words)
        return;
    for (hoop_work *work = comm->messages.running; work && n < MESSAGES_MOST; work = work->next, n++) {
        size_t i = 0;
        while (i < work->message_count && work->messages[i].done)
            i++;
        if (i < work->message_count)
            note_wait(comm, work, hp_message_awaited(&work->messages[i]));
    }
}

void
hp_recorder_split(hoop_comm *comm, int begins)
{
    if (comm->recorder.file.words)
        hp_flight_put_split(comm->recorder.file.words, comm->splits, begins ? hp_now() : 0);
}

/* --- when a rank has called, by the server's clock --- */

static uint64_t
distance(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

/* The clocks may have drifted apart between a call and their comparison, whichever came first. */
static void
settle(hp_call_times *t)
{
    const hp_clock_offset *clock = &t->clock;
    if (clock->at == 0 || t->early == 0)
        return;
    uint64_t before = distance(clock->at, t->earliest), after = distance(clock->at, t->last);
    uint64_t drift = (before > after ? before : after) / HP_CLOCK_DRIFT + 1; /* rounded up */
    t->known.count += t->early;
    t->known.sum += t->sum - t->early * (uint64_t)clock->offset;
    t->known.error += t->early * (clock->error + drift);
    t->early = t->sum = 0;
}

void
hp_call_times_add(hp_call_times *t, uint64_t called)
{
    if (t->early++ == 0)
        t->earliest = called;
    t->last = called;
    t->sum += called;
    settle(t);
}

void
hp_call_times_compared(hp_call_times *t, const hp_clock_offset *clock)
{
    t->clock = *clock;
    settle(t);
}

/* --- counters --- */

void
hp_counters_wait(hp_counters *c, hp_awaited awaited, uint64_t now)
{
    c->awaited = awaited;
    hp_stopwatch_start(&c->waited[awaited.what], now);
    if (awaited.rank >= 0)
        hp_stopwatch_start(&c->waited_for[awaited.rank], now);
}

void
hp_counters_end_wait(hp_counters *c, uint64_t now)
{
    hp_stopwatch_stop(&c->waited[c->awaited.what], now);
    if (c->awaited.rank >= 0)
        hp_stopwatch_stop(&c->waited_for[c->awaited.rank], now);
    c->awaited.what = HP_WAIT_NONE;
}

/* Into the half that no reader has been sent to since the change before. */
static void
show_times(hp_counters *c)
{
    const hp_call_times *t = &c->times;
    const uint64_t words[HP_TIMES_WORDS] = {t->known.count, t->known.sum,   t->known.error,
                                            t->clock.at,    t->clock.error, (uint64_t)t->clock.offset};
    unsigned next = atomic_load_explicit(&c->shown, memory_order_relaxed) + 1;
    for (int i = 0; i < HP_TIMES_WORDS; i++)
        atomic_store(&c->times_shown[next % 2][i], words[i]);
    atomic_store(&c->shown, next);
}

void
hp_counters_set_clock(hp_counters *c, const hp_clock_offset *clock)
{
    hp_call_times_compared(&c->times, clock);
    show_times(c);
}

hp_entry_times
hp_counters_times(const hp_counters *c, int64_t *offset, uint64_t *error)
{
    uint64_t words[HP_TIMES_WORDS];
    unsigned shown;
    do {
        shown = atomic_load(&c->shown);
        for (int i = 0; i < HP_TIMES_WORDS; i++)
            words[i] = atomic_load(&c->times_shown[shown % 2][i]);
    } while (shown != atomic_load(&c->shown)); /* the half that was read may have changed meanwhile */
    const hp_clock_offset clock = {.at = words[3], .error = words[4], .offset = (int64_t)words[5]};
    *offset = clock.offset;
    *error = hp_clock_offset_error(&clock, hp_now());
    return (hp_entry_times){.count = words[0], .sum = words[1], .error = words[2]};
}

int
hp_counters_slowest(hp_counters *c, uint64_t *ns)
{
    int slowest = -1;
    *ns = 0;
    for (int rank = 0; rank < c->ranks; rank++) {
        uint64_t waited = hp_stopwatch_read(&c->waited_for[rank]);
        if (waited > *ns) {
            slowest = rank;
            *ns = waited;
        }
    }
    return slowest;
}

/* --- works --- */

/* The first message stands for its group. */
static void
begin_record(hoop_comm *comm, hoop_work *work)
{
    hp_flight_record *r = &work->record;
    r->sequence = work->sequence;
    r->call = work->call;
    r->name = (uint32_t)hp_call_names_number(&comm->call_names, work->call.name);
    r->calls = (uint32_t)work->calls;
    r->peer = work->message_count > 0 ? work->messages[0].peer : -1;
    r->awaited = -1;
    r->messages = (uint32_t)work->message_count;
    r->number = ++comm->recorder.started;
    comm->recorder.clock = r->entered;
    hp_flight_put(comm->recorder.file.words, r);
}

void
hp_account_enter(hoop_comm *comm, hoop_work *work)
{
    hp_counters *c = &comm->counters;
    uint64_t entered = work->record.entered, calls = (uint64_t)work->calls;
    if (comm->recorder.file.words)
        begin_record(comm, work);
    if (c->in_progress++ == 0 && entered) {
        hp_stopwatch_start(&c->inside, entered > c->left ? entered : c->left);
        hp_count_set(&c->ended, 0);
    }
    if (!work->messages && entered && work->sequence % HP_COUNTERS_ENTRIES < calls) { /* of some the time is kept */
        hp_call_times_add(&c->times, entered);
        show_times(c);
    }
}

static void
note_plan(hp_counters *c, const hp_plan *plan, uint64_t calls)
{
    int over_levels = plan->algorithm == HP_ALG_LEVELS;
    hp_order order = !plan->ordered ? HP_ORDER_ANY : over_levels ? HP_ORDER_HOST : HP_ORDER_RANK;
    hp_count_set(&c->plan, 3 * (1 + (uint64_t)plan->algorithm) + order);
    if (plan->narrow)
        hp_count_add(&c->narrowed, calls);
    if (plan->wire == HP_SCALED)
        hp_count_add(&c->narrowed_e4m3, calls);
    if (over_levels)
        hp_count_add(&c->levels, calls);
}

void
hp_account_leave(hoop_comm *comm, hoop_work *work)
{
    hp_counters *c = &comm->counters;
    if (comm->recorder.file.words && work->record.number) {
        comm->recorder.clock = work->record.left = hp_now();
        work->record.result = (int32_t)work->result;
        hp_flight_put(comm->recorder.file.words, &work->record);
    }
    if (work->result == HOOP_SUCCESS) {
        atomic_fetch_add_explicit(&comm->completed, (uint64_t)work->calls, memory_order_relaxed);
        if (work->message_count > 0)
            hp_count_add(&c->messages, work->message_count);
        if (work->channels > 0)
            note_plan(c, &work->plan[0], (uint64_t)work->calls);
    }
    uint64_t left = work->record.left; /* 0: no recorder took the time */
    if (--c->in_progress > 0)
        return;
    if (c->awaited.what)
        hp_counters_end_wait(c, left ? left : hp_now());
    if (!left)
        return;
    c->left = left;
    hp_stopwatch_stop(&c->inside, left);
    hp_count_set(&c->ended, left);
}
