/* SPDX-License-Identifier: MIT */
/* comm: see comm.h. Operations start and complete in the order of their sequence numbers, on every rank the same. */
#include "lib/comm.h"

#include "base/clock.h"
#include "base/dtype.h"
#include "base/err.h"
#include "base/log.h"
#include "lib/join.h"
#include "lib/progress.h"
#include "lib/registry.h"
#include "lib/stats.h"
#include "lib/work_pool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    IDLE_SLEEP_MS = 1000,
    JOIN_IN_MS = 2000,
    LOOK_MIN_NS = 50000, /* a caller's stream that has not come is looked for that often, */
    LOOK_MAX_NS = 500000,
    LOOK_PART = 64 /* at first; later in this part of the time it has taken */
};

const char *
hp_comm_name(const hoop_comm *comm, int rank, char out[96])
{
    if (comm->ring && rank >= 0 && rank < comm->size)
        snprintf(out, 96, "rank %d (%s)", rank, comm->ring->members[rank].host);
    else
        snprintf(out, 96, "rank %d", rank);
    return out;
}

/* --- one operation --- */

void
hp_comm_stand(hoop_comm *comm, int change)
{
    atomic_fetch_add(&comm->standing, change);
    hp_registry_stopped(change);
}

void
hp_comm_let_go(hoop_comm *comm, hoop_work *work)
{
    if (!work->gate)
        return;
    hp_comm_stand(comm, -1); /* first: the stream's owner may go on with what needs that none stands */
    comm->device[work->device]->ops->gate_open(work->gate);
    work->gate = NULL;
}

void
hp_comm_plan(hoop_comm *comm, hoop_work *work)
{
    hp_plan_options options = comm->plan;
    work->comm = comm;
    work->signature = hp_call_signature(&work->call);
    work->channels = hp_plan_channels(&work->call, comm->size, &options);
    work->channels_left = work->channels;
    for (uint32_t c = 0; c < work->channels; c++)
        hp_plan_make(&work->plan[c], &work->call, comm->order, comm->size, &options, c, work->channels);
    work->place.direct = comm->device[work->device]->ops->addressable(comm->device[work->device]);
    work->piece = HP_PIECE_BYTES;
    work->place.slots = hp_config_number(&comm->config, HP_SET_zerocopy_bytes) > 0;
}

/* An array on the shelf says in its first segment which is the next one and for how many it has room. */
static hp_segment *
behind(const hp_segment *array)
{
    return (hp_segment *)(void *)array->recv;
}

void
hp_comm_unshelve(hoop_comm *comm, hoop_work *work)
{
    hp_segment *most = NULL, *before = NULL;
    hp_comm_shelve(comm, work); /* one is left from a group that was dropped */
    pthread_mutex_lock(&comm->driver.mutex);
    for (hp_segment *array = comm->shelf, *last = NULL; array; last = array, array = behind(array)) {
        if (most && most->count >= array->count)
            continue;
        most = array;
        before = last;
    }
    if (most && before)
        before->recv = most->recv;
    else if (most)
        comm->shelf = behind(most);
    pthread_mutex_unlock(&comm->driver.mutex);
    work->array = most;
    work->segment_room = most ? (size_t)most->count : 0;
}

void
hp_comm_shelve(hoop_comm *comm, hoop_work *work)
{
    if (!work->array)
        return;
    pthread_mutex_lock(&comm->driver.mutex);
    *work->array = (hp_segment){.count = work->segment_room, .recv = (uint8_t *)comm->shelf};
    comm->shelf = work->array;
    pthread_mutex_unlock(&comm->driver.mutex);
    work->array = NULL;
    work->segment_room = 0;
}

static void
complete(hoop_comm *comm, hoop_work *work, hoop_result result)
{
    work->result = result;
    if (result == HOOP_SUCCESS)
        atomic_fetch_add_explicit(&comm->completed, (uint64_t)work->calls, memory_order_relaxed);
    if (work->mark)
        comm->device[work->device]->ops->unmark(work->mark);
    work->mark = NULL;
    hp_comm_let_go(comm, work);
    hp_comm_shelve(comm, work);
    atomic_fetch_sub(&comm->driver.outstanding, 1);
    int detached = work->detached;
    atomic_store_explicit(&work->done, 1, memory_order_release);
    if (detached) /* otherwise the waiter owns it from here on */
        hp_work_pool_give(comm, work);
}

static void
on_queue(void *arg, int ready)
{
    int fd = *(int *)arg;
    uint64_t count;
    (void)ready;
    /* the belt looks at the queue next; this only takes the wake-up away */
    while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR)
        ;
}

/* A device that works on its own wakes a sleeping driver through its queues' descriptors. */
static void
watch_queues(hoop_comm *comm, int device)
{
    for (uint32_t c = 0; c < comm->channels; c++) {
        hp_queue *queue = comm->channel[c]->queue[device];
        int fd = queue->ops->wake_fd(queue);
        if (fd < 0 || comm->queue_watch[c])
            continue;
        comm->queue_fd[c] = fd;
        comm->queue_watch[c] = hp_watch_new(comm->loop, fd, on_queue, &comm->queue_fd[c]);
        if (comm->queue_watch[c])
            hp_watch_set(comm->queue_watch[c], HP_READ);
    }
}

void
hp_comm_start(hoop_comm *comm, hoop_work *work)
{
    if (atomic_load(&comm->fault.failed)) {
        complete(comm, work, comm->fault.error.code);
        return;
    }
    if (work->device > 0 && !hp_comm_pin(comm, work->device)) {
        complete(comm, work, comm->fault.error.code);
        return;
    }
    if (work->device > 0)
        watch_queues(comm, work->device);
    if (!comm->running) {
        comm->marked_at = comm->reported_at = comm->entered_at = hp_loop_now(comm->loop);
        comm->entered = work->sequence;
    }
    work->next = NULL;
    if (comm->running)
        comm->running_last->next = work;
    else
        comm->running = work;
    comm->running_last = work;
    for (uint32_t c = 0; c < work->channels; c++)
        hp_channel_append(comm->channel[c], work);
}

static hoop_work *
pop_running(hoop_comm *comm)
{
    hoop_work *work = comm->running;
    comm->running = work->next;
    if (!comm->running)
        comm->running_last = NULL;
    return work;
}

/* To the previous rank, what it has not been told yet. What it is not ready to take comes first the next time. */
static void
pass_ticks(hoop_comm *comm)
{
    hp_link *previous = comm->channel[0]->in[1];
    uint8_t bytes[HP_HEARTBEATS_BYTES];
    for (size_t n;
         (n = hp_heartbeats_put(comm->heartbeats, previous->peer, bytes)) > 0 && hp_link_tick(previous, bytes, n);)
        hp_heartbeats_taken(comm->heartbeats);
}

static uint64_t
warn_after(const hoop_comm *comm)
{
    return (uint64_t)hp_config_number(&comm->config, HP_SET_warn_after_ms) * HP_MS;
}

static void
say_out(hoop_comm *comm)
{
    comm->in_op = 0;
    comm->said_out = 1;
    hp_stats_stall(comm, warn_after(comm), hp_loop_now(comm->loop));
    if (comm->client)
        hp_client_out(comm->client, comm->completed);
    if (comm->heartbeats && comm->heartbeats->since) {
        hp_heartbeats_say(comm->heartbeats, NULL, comm->completed, 0, hp_loop_now(comm->loop));
        pass_ticks(comm);
    }
}

int
hp_comm_step(hoop_comm *comm)
{
    int moved = 0;
    if (atomic_load_explicit(&comm->fault.failed, memory_order_relaxed))
        return 0;
    if (hp_listener_news(&comm->entry))
        hp_join_receive(comm);
    for (uint32_t c = 0; c < comm->channels; c++) {
        moved |= hp_channel_progress(comm->channel[c]);
        if (comm->channel[c]->links_wanted)
            hp_join_chords(comm, comm->channel[c]);
        if (atomic_load_explicit(&comm->fault.failed, memory_order_relaxed))
            return 1; /* no memory for a chord: all works are complete, and no other channel may move them */
    }
    while (comm->running && comm->running->channels_left == 0) {
        complete(comm, pop_running(comm), HOOP_SUCCESS);
        moved = 1;
    }
    if (comm->in_op && !comm->running)
        say_out(comm);
    return moved;
}

void
hp_comm_fail_works(hoop_comm *comm)
{
    while (comm->running)
        complete(comm, pop_running(comm), comm->fault.error.code);
    if (comm->in_op)
        say_out(comm);
}

/* --- between rounds --- */

uint64_t
hp_comm_heartbeat(const hoop_comm *comm)
{
    return hp_heartbeat((uint64_t)hp_config_number(&comm->config, HP_SET_op_timeout_ms) * HP_MS);
}

/* Where the server is not heard, here or by a rank that has said so lately, the ranks tell each other. */
static void
tick(hoop_comm *comm, const hp_report *r, uint64_t now)
{
    hp_heartbeats *t = comm->heartbeats;
    int alone = !hp_client_hears(comm->client, now), asked = t && t->asked && now - t->asked < JOIN_IN_MS * HP_MS;
    if (t && now - t->of[comm->rank].heard > HP_SILENT_BEATS * hp_comm_heartbeat(comm))
        t->since = 0; /* it was held up itself, and has not listened meanwhile */
    if (t && (alone || asked))
        hp_heartbeats_say(t, r, comm->completed, alone, now);
    else if (t)
        t->since = 0;
}

/* What the next rank has told, and what there is to tell the previous one. */
static void
exchange_ticks(hoop_comm *comm, uint64_t now)
{
    hp_link *next = comm->channel[0]->out[1];
    if (next->tick_n && !hp_heartbeats_hear(comm->heartbeats, next->tick, next->tick_n, now)) {
        hp_err_set(&next->error, HOOP_ERR_PROTOCOL, "rank %d sent rank %d a malformed heartbeat", next->peer,
                   comm->rank);
        next->error.rank = next->peer;
        next->error.reporter = comm->rank;
        next->state = HP_LINK_FAULT;
    }
    next->tick_n = 0;
    pass_ticks(comm);
}

void
hp_comm_say_started(hoop_comm *comm)
{
    uint64_t now = hp_loop_now(comm->loop);
    if (!comm->running)
        return;
    hp_report r = hp_stats_report(comm);
    r.since = now - comm->entered_at;
    comm->reported_at = now;
    comm->in_op = 1;
    hp_client_started(comm->client, &r);
}

/* The oldest operation awaits the caller's stream: this rank has not entered it. */
static int
is_outside(const hoop_comm *comm)
{
    return comm->running && comm->running->mark && !comm->running->reached;
}

/* IN_OP once an operation has lasted a moment, then a report every heartbeat. Time counts from when it was entered. */
static void
report(hoop_comm *comm, uint64_t now)
{
    hp_report r;
    uint64_t wait = comm->in_op ? hp_comm_heartbeat(comm) : hp_comm_heartbeat(comm) / 2;
    if (is_outside(comm)) {
        comm->reported_at = now;
        if (comm->in_op)
            say_out(comm);
        return;
    }
    if (!comm->running || !comm->client || now - comm->reported_at < wait)
        return;
    comm->reported_at = now;
    comm->in_op = 1;
    r = hp_stats_report(comm);
    r.since = now - comm->entered_at;
    hp_client_in_op(comm->client, &r);
    tick(comm, &r, now);
}

/* Says once an operation for whom this rank waits: another one that waits, as a rule. */
static void
murmur(hoop_comm *comm, uint64_t sequence, uint64_t warn, uint64_t now)
{
    char line[256];
    if (!warn || now - comm->marked_at <= warn || comm->murmured == sequence)
        return;
    comm->murmured = sequence;
    hp_log(HP_LOG_INFO, "%s", hp_stats_waiting(comm, (now - comm->marked_at) / HP_MS, line, sizeof(line)));
}

/* Notes progress. */
static void
mark_progress(hoop_comm *comm, uint64_t warn, uint64_t now)
{
    hp_report r;
    if (is_outside(comm))
        comm->marked_at = now;
    if (!comm->running || is_outside(comm))
        return;
    r = hp_stats_report(comm);
    if (r.sequence != comm->entered) {
        comm->entered = r.sequence;
        comm->entered_at = now;
    }
    if (r.step != comm->marked_steps || r.bytes != comm->marked_bytes) {
        comm->marked_steps = r.step;
        comm->marked_bytes = r.bytes;
        comm->marked_at = now;
    } else {
        murmur(comm, r.sequence, warn, now);
    }
}

int
hp_comm_idle(hoop_comm *comm, uint64_t now)
{
    uint64_t warn = warn_after(comm);
    int heard = 0;
    if (atomic_load(&comm->fault.failed))
        return 0;
    for (uint32_t c = 0; c < comm->channels; c++)
        heard |= hp_channel_listen(comm->channel[c]);
    mark_progress(comm, warn, now);
    report(comm, now);
    if (comm->heartbeats) {
        exchange_ticks(comm, now);
        hp_stats_stall(comm, warn, now);
    }
    hp_fault_check(comm, now);
    return heard;
}

int
hp_comm_stands(const hoop_comm *comm)
{
    int stands = 0;
    for (uint32_t c = 0; c < comm->channels; c++)
        stands |= hp_channel_stands(comm->channel[c]);
    return stands;
}

/*
 * A wake from the device would have to wait behind the caller's stream in a stream of ours, and the two, or that and
 * our commands, may share a hardware queue, where nothing overtakes. So the driver looks, which costs a load.
 */
static uint64_t
look_again(hoop_comm *comm, uint64_t now)
{
    uint64_t part;
    if (!hp_comm_stands(comm)) {
        comm->stands = 0;
        return HP_NEVER;
    }
    if (!comm->stands)
        comm->stands = now;
    part = (now - comm->stands) / LOOK_PART;
    return part < LOOK_MIN_NS ? LOOK_MIN_NS : part > LOOK_MAX_NS ? LOOK_MAX_NS : part;
}

uint64_t
hp_comm_patience(hoop_comm *comm, uint64_t now)
{
    uint64_t patience = (comm->running ? hp_comm_heartbeat(comm) / 2 : IDLE_SLEEP_MS * HP_MS);
    uint64_t look = look_again(comm, now);
    if (look < patience)
        patience = look;
    for (uint32_t c = 0; c < comm->channels; c++)
        if (comm->channel[c]->news) /* its rounds were up: nobody wakes us for what a device has told already */
            return 0;
    if (comm->fault.grace && comm->fault.grace < now + patience)
        patience = comm->fault.grace > now ? comm->fault.grace - now : 0;
    return patience;
}

void
hp_comm_arm(hoop_comm *comm)
{
    if (atomic_load(&comm->fault.failed))
        return;
    for (uint32_t c = 0; c < comm->channels; c++)
        hp_channel_arm(comm->channel[c]);
    if (comm->alarm) /* the program sleeps in a loop of its own: it must be woken for what sleep_in_loop wakes us for */
        hp_timer_set(comm->alarm,
                     comm->running || comm->fault.grace ? hp_comm_patience(comm, hp_loop_now(comm->loop)) : HP_NEVER);
}

void
hp_comm_free(hoop_comm *comm)
{
    hp_registry_remove(comm);
    hp_join_cancel(comm);
    for (uint32_t c = 0; c < HP_CHANNELS_MAX; c++) {
        hp_watch_free(comm->queue_watch[c]);
        hp_channel_free(comm->channel[c]);
    }
    for (int i = 0; i < HP_DEVICES; i++)
        if (comm->device[i])
            comm->device[i]->ops->close(comm->device[i]);
    hp_listener_leave(&comm->entry);
    hp_client_free(comm->client);
    hp_probe_stop(&comm->fault.probe);
    hp_timer_free(comm->alarm);
    if (comm->loop)
        hp_loop_free(comm->loop);
    while (comm->shelf) {
        hp_segment *array = comm->shelf;
        comm->shelf = behind(array);
        free(array);
    }
    hp_work_pool_free(comm);
    pthread_mutex_destroy(&comm->driver.mutex);
    pthread_cond_destroy(&comm->driver.changed);
    hp_keys_drop(comm->keys);
    hp_heartbeats_free(comm->heartbeats);
    free(comm->order);
    free(comm->position_of);
    free(comm);
}
