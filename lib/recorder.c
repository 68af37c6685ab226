/* SPDX-License-Identifier: MIT */
/* recorder: see recorder.h. A work carries its record; each change writes all of it again, a few nanoseconds. */
#include "lib/recorder.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "flight/collection.h"
#include "lib/environment.h"

#include <stdio.h>

enum { MESSAGES_MOST = 8 }; /* works of messages whose waits are written */

static atomic_int has_failed; /* 1: a communicator of this process has no recorder, and said so */

static void
fill_head(const hoop_comm *comm, hp_flight_head *head)
{
    *head = (hp_flight_head){.rank = comm->rank, .size = comm->size, .epoch = comm->epoch, .comm = comm->id};
    hp_environment_host(&comm->config, head->host);
    snprintf(head->job, sizeof(head->job), "%s", hp_config_text(&comm->config, HP_SET_job));
    snprintf(head->name, sizeof(head->name), "%s", comm->name);
    hp_flight_sign(head);
}

void
hp_recorder_open(hoop_comm *comm)
{
    hp_flight_head head;
    hoop_error error;
    if (!hp_config_number(&comm->config, HP_SET_recorder))
        return;
    if (hp_flight_file_make(&comm->recorder.file, &error) == HOOP_SUCCESS) {
        fill_head(comm, &head);
        hp_flight_begin(comm->recorder.file.words, &head);
    } else {
        int first = !atomic_exchange(&has_failed, 1) && comm->local_rank == 0;
        hp_log(first ? HP_LOG_WARN : HP_LOG_INFO, "no flight recorder: %s (HOOP_RECORDER=0 asks for none)", error.text);
    }
}

void
hp_recorder_close(hoop_comm *comm)
{
    hp_flight_file_end(&comm->recorder.file, atomic_load(&comm->fault.known));
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

/* The first message stands for its group. */
static void
describe(const hoop_comm *comm, hoop_work *work)
{
    hp_flight_record *r = &work->record;
    r->sequence = work->sequence;
    r->call = work->call;
    r->name = (uint32_t)hp_call_names_number(&comm->call_names, work->call.name);
    r->calls = (uint32_t)work->calls;
    r->peer = r->awaited = -1;
    r->messages = (uint32_t)work->message_count;
    if (work->message_count > 0)
        r->peer = work->messages[0].peer;
}

void
hp_recorder_enter(hoop_comm *comm, hoop_work *work)
{
    hp_recorder *r = &comm->recorder;
    if (!r->file.words)
        return;
    describe(comm, work);
    work->record.number = ++r->started;
    r->clock = work->record.entered;
    hp_flight_put(r->file.words, &work->record);
}

void
hp_recorder_leave(hoop_comm *comm, hoop_work *work)
{
    if (!comm->recorder.file.words || !work->record.number)
        return;
    comm->recorder.clock = work->record.left = hp_now();
    work->record.result = (int32_t)work->result;
    hp_flight_put(comm->recorder.file.words, &work->record);
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

static void
wait_message(hoop_comm *comm, hoop_work *work)
{
    size_t i = 0;
    while (i < work->message_count && work->messages[i].done)
        i++;
    if (i < work->message_count)
        note_wait(comm, work, hp_message_awaited(&work->messages[i]));
}

void
hp_recorder_wait_messages(hoop_comm *comm)
{
    int n = 0;
    if (!comm->recorder.file.words)
        return;
    for (hoop_work *work = comm->messages.running; work && n < MESSAGES_MOST; work = work->next, n++)
        wait_message(comm, work);
}

void
hp_recorder_split(hoop_comm *comm, int begins)
{
    if (comm->recorder.file.words)
        hp_flight_put_split(comm->recorder.file.words, comm->splits, begins ? hp_now() : 0);
}

void
hp_recorder_fail(hoop_comm *comm)
{
    if (comm->recorder.file.words)
        hp_flight_put_error(comm->recorder.file.words, (int32_t)comm->fault.error.code, comm->fault.error.text);
}
