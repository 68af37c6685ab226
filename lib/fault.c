/* SPDX-License-Identifier: MIT */
/* fault: see fault.h. */
#include "lib/fault.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "lib/account.h"
#include "lib/baton.h"
#include "lib/comm.h"
#include "lib/cut_off.h"
#include "lib/devices.h"
#include "lib/message_waits.h"
#include "lib/messages.h"
#include "lib/reports.h"
#include "lib/stats.h"
#include "lib/ways.h"
#include "lib/works.h"
#include "net/frame.h"
#include "rendezvous/link_loss.h"

#include <stdio.h>
#include <string.h>

enum {
    GRACE_MS = 200,
    ABSENT_MS = 500,       /* how long a rank must be absent, which may just be making its communicator */
    SERVER_GRACE_MS = 800, /* for a report to a server that answers: it decides within 0.75 s */
    ASK_MS = 1000,
    VAIN_MS = 30000,
    SURE_MS = 1000, /* how long after a loss the port of a process that has ended may still answer */
    AGAIN_MS = 100,
    POLL_MS = 1,
    WATCHED_MS = 50, /* the stream watchdog looks for heartbeats less often */
    SETTLE_MS = 2000 /* how long commands may take before streams are released all the same */
};

hoop_error
hp_fault_for_others(const hoop_comm *comm, const hoop_error *cause)
{
    hoop_error other = *cause;
    char me[96];
    int lack = cause->code == HOOP_ERR_CUDA || cause->code == HOOP_ERR_NO_MEMORY || cause->code == HOOP_ERR_SYSTEM;
    if (cause->rank == comm->rank && lack) {
        other.code = HOOP_ERR_ABORTED;
        snprintf(other.text, sizeof(other.text), "%s failed: %.*s", hp_comm_name(comm, comm->rank, me), 150,
                 cause->text);
    }
    return other;
}

/* Makes `cause` the error, unless there is one. Any thread. */
static void
claim(hoop_comm *comm, const hoop_error *cause)
{
    pthread_mutex_lock(&comm->driver.mutex);
    if (!atomic_load(&comm->fault.known)) {
        comm->fault.error = *cause;
        comm->fault.error.size = sizeof(comm->fault.error);
        if (comm->fault.error.phase == HOOP_PHASE_NONE)
            comm->fault.error.phase = HOOP_PHASE_OPERATION;
        atomic_store(&comm->fault.known, 1); /* before a stream is released: its owner may then ask for the error */
    }
    pthread_mutex_unlock(&comm->driver.mutex);
}

void
hp_fault_request(hoop_comm *comm, const hoop_error *cause)
{
    int none = 0;
    claim(comm, cause);
    atomic_compare_exchange_strong(&comm->driver.aborting, &none, 1);
    pthread_mutex_lock(&comm->driver.mutex);
    pthread_cond_broadcast(&comm->driver.changed);
    pthread_mutex_unlock(&comm->driver.mutex);
}

static int
is_settled(hoop_comm *comm, const hoop_work *work)
{
    int settled = !work->messages || hp_devices_settled(comm);
    for (uint32_t c = 0; c < comm->channels; c++)
        settled &= hp_channel_settled(comm->channel[c], work);
    return settled;
}

/*
 * Waits until the work's commands have ended. If streams share a hardware queue, the commands may be queued behind the
 * blocked stream itself, and never end before it is released: so the wait has a deadline.
 */
static void
await_commands(hoop_comm *comm, const hoop_work *work, uint64_t deadline)
{
    while (work->gate && !is_settled(comm, work) && hp_now() < deadline) {
        hp_baton_heartbeat(comm);
        hp_devices_await(comm, work->device, WATCHED_MS);
    }
}

static void
release_streams(hoop_comm *comm, hoop_work *first, uint64_t deadline)
{
    for (hoop_work *work = first; work; work = work->next) {
        await_commands(comm, work, deadline);
        hp_ops_release_stream(comm, work, 1);
    }
}

/*
 * A caller's stream is blocked until its operation ends, and while one is, the GPU's driver may not return from
 * draining a queue. So first each operation releases its stream when its own commands have ended, and then the queues
 * are drained. The belt submits no command before the stream has reached the operation, so commands do not wait for
 * what the caller has queued.
 */
static void
release_and_drain(hoop_comm *comm)
{
    uint64_t deadline = hp_now() + SETTLE_MS * HP_MS;
    release_streams(comm, comm->running, deadline);
    release_streams(comm, comm->messages.running, deadline);
    for (uint32_t c = 0; c < comm->channels; c++)
        hp_channel_drain(comm->channel[c]);
}

void
hp_fault_find_server(hoop_comm *comm, int ms)
{
    /* A proxy refuses for a server that has ended, too: after one vain look no communicator looks again until then. */
    static _Atomic uint64_t vain;
    uint64_t now = hp_now(), until = now + (uint64_t)(now < atomic_load(&vain) ? 0 : ms) * HP_MS;
    if (!comm->client || hp_loop_is_running(comm->loop)) /* in a callback: leaving looks for the server again */
        return;
    hp_loop_run(comm->loop, 0);
    while (hp_membership_is_away(hp_client_membership(comm->client)) && hp_now() < until) {
        hp_client_return(comm->client, hp_inbox_started(comm), atomic_load(&comm->completed));
        hp_loop_run(comm->loop, POLL_MS * HP_MS);
    }
    const hp_membership *m = hp_client_membership(comm->client);
    if (hp_membership_is_away(m) && m->options.proxied && ms >= HP_RETURN_MS)
        atomic_store(&vain, hp_now() + VAIN_MS * HP_MS);
}

static void
fail(hoop_comm *comm, const hoop_error *cause, int by_server)
{
    char name[HP_NAME_PREFIX];
    if (atomic_load(&comm->fault.failed))
        return;
    hoop_error full = *cause;
    if (!full.sequence && comm->running) /* it is of the operation that this rank is in, unless it is in messages */
        full.sequence = comm->running->sequence;
    claim(comm, &full);
    hoop_error other = hp_fault_for_others(comm, &comm->fault.error);
    if (comm->client && !by_server) /* before the LEAVE that follows, which would be taken for the cause */
        hp_membership_abort(hp_client_membership(comm->client), &other);
    comm->state = HP_COMM_FAILED;
    if (comm->recorder.file.words)
        hp_flight_put_error(comm->recorder.file.words, (int32_t)comm->fault.error.code, comm->fault.error.text);
    hp_listener_retire(&comm->entry);
    for (uint32_t c = 0; c < comm->channels; c++)
        hp_channel_stop(comm->channel[c], &other);
    hp_messages_stop(comm, &other);
    atomic_store(&comm->fault.failed, 1);
    hp_probe_stop(&comm->fault.probe);
    hp_probe_stop(&comm->fault.inquiry);
    hp_probe_stop(&comm->fault.cut_off.probe);
    hp_probe_stop(&comm->fault.large_packets.probe);
    release_and_drain(comm);
    /* from here on no thread touches the caller's memory: links no longer move, queues are drained */
    hp_log(HP_LOG_INFO, "%sthe communicator has failed: %s", hp_name_prefix(comm, name), comm->fault.error.text);
    hp_ops_fail(comm);
    hp_messages_fail(comm);
    hp_reports_leave(comm);
    if (!by_server)
        hp_fault_find_server(comm, HP_FIND_SERVER_MS);
}

void
hp_fault_fail(hoop_comm *comm, const hoop_error *cause)
{
    fail(comm, cause, 0);
}

static int
has_server(const hoop_comm *comm, uint64_t now)
{
    return comm->client && hp_membership_has_server(hp_client_membership(comm->client), now);
}

void
hp_fault_report(hoop_comm *comm, const hoop_error *cause, uint64_t now)
{
    /* the server has a sentence of its own for these, which this rank gets, too */
    int judged = cause->code == HOOP_ERR_MISMATCH || cause->code == HOOP_ERR_TIMEOUT;
    if (cause->rank == comm->rank) { /* no other rank knows more */
        hp_fault_fail(comm, cause);
        return;
    }
    if (comm->fault.grace && comm->fault.suspicion.code != HOOP_ERR_PEER_LOST)
        return; /* reported already */
    comm->fault.suspicion = *cause;
    comm->fault.ended = NULL;
    comm->fault.report_at = 0;
    if (has_server(comm, now))
        comm->fault.grace = now + (judged ? SERVER_GRACE_MS : GRACE_MS) * HP_MS;
    else
        comm->fault.grace = now + 1;
    if (!comm->client)
        return;
    if (cause->code == HOOP_ERR_MISMATCH)
        hp_reports_in_op(comm, now); /* for the server's sentence */
    hp_membership_abort(hp_client_membership(comm->client), cause);
}

/* peer: a message with it waits; NULL: an operation does. */
static void
describe_leaver(const hoop_comm *comm, int rank, const hp_peer *peer, hoop_error *error)
{
    static const hp_call unknown;
    char me[96], who[96], text[224];
    uint64_t sequence = comm->running ? comm->running->sequence : 0;
    if (peer)
        hp_err_set(error, HOOP_ERR_PEER_LOST, "%s, %s", hp_message_waits_print(comm, peer, text, sizeof(text)),
                   peer == comm->messages.anyone ? "and all others have left" : "which left the communicator");
    else
        hp_err_set(error, HOOP_ERR_PEER_LOST, "%s lost %s during %s: that rank left the communicator",
                   hp_comm_name(comm, comm->rank, me), hp_comm_name(comm, rank, who),
                   hp_say_operation(sequence, comm->running ? &comm->running->call : &unknown).text);
    error->rank = rank;
    error->reporter = comm->rank;
    error->sequence = peer ? HP_NO_OPERATION : sequence;
}

/* Of a rank that was never connected, and refuses to be. Without a server nobody knows why. */
static void
describe_unheard(const hoop_comm *comm, int rank, hoop_error *error)
{
    hp_err_set(error, HOOP_ERR_PEER_LOST, "%s has ended, or has left the communicator: nothing listens at its port",
               hp_member_process(&comm->ring->members[rank]).text);
    error->rank = rank;
    error->reporter = comm->rank;
    error->sequence = HP_NO_OPERATION;
}

/* The server hears of the call first, for its sentence. */
static void
report_loss(hoop_comm *comm, const hp_link *link, uint64_t now)
{
    hp_loss loss = {.peer = link->peer, .number = link->error.sys_errno, .sequence = comm->fault.suspicion.sequence};
    loss.repaired = comm->fault.mends = hp_link_is_repaired(link);
    comm->fault.report_at = 0;
    if (!comm->client)
        return;
    hp_reports_in_op(comm, now);
    hp_membership_lost(hp_client_membership(comm->client), &loss);
}

static void
probe(hoop_comm *comm, const hp_link *link, uint64_t now)
{
    hp_probe_start(&comm->fault.probe, hp_ways_best(&comm->ring->members[link->peer]), &comm->sock);
    comm->fault.probed_at = now;
}

/*
 * A process that ends may close its connections a moment before its port, which then accepts the probe, or resets it. So
 * soon after a loss only a refusal is an answer; after any other the process is asked again.
 */
static int
asks_again(hoop_comm *comm, uint64_t now)
{
    hp_fault *f = &comm->fault;
    const hp_link *link = f->ended;
    if (!link || link->state == HP_LINK_LEFT || hp_cut_off_took(link) || f->probed_at >= f->sure_at)
        return 0;
    hp_probe_state state = hp_probe_poll(&f->probe);
    if (state == HP_PROBE_ENDED || state == HP_PROBE_UNREACHED || (state == HP_PROBE_ASKED && now >= f->sure_at))
        return 0;
    if (state != HP_PROBE_ASKED)
        probe(comm, link, now);
    f->grace = now + AGAIN_MS * HP_MS;
    return 1;
}

/* There was no loss. */
static void
forget(hoop_comm *comm)
{
    comm->fault.ended = NULL;
    comm->fault.grace = comm->fault.report_at = 0;
    if (comm->client)
        hp_membership_found(hp_client_membership(comm->client));
    hp_probe_stop(&comm->fault.probe);
}

/* The connection is not made again after all: a loss that the server judges, as without repair. */
static void
report_final(hoop_comm *comm, uint64_t now)
{
    if (comm->client)
        hp_membership_found(hp_client_membership(comm->client));
    comm->fault.grace = now + (has_server(comm, now) ? SERVER_GRACE_MS : 0) * HP_MS;
    report_loss(comm, comm->fault.ended, now);
}

/*
 * TCP has heard nothing of the peer's host for as long as it may be away. If the host answers now, it has lost the connection
 * alone; else it is cut off, and nothing is made again.
 */
static int
is_cut_off(const hoop_comm *comm, hp_probe_state answer, uint64_t now)
{
    const hp_fault *f = &comm->fault;
    int late = now >= f->probed_at + HP_TCP_ANSWER_MS * HP_MS;
    return hp_cut_off_took(f->ended) &&
           (answer == HP_PROBE_UNREACHED || (late && answer != HP_PROBE_ALIVE && answer != HP_PROBE_ENDED));
}

/*
 * A connection between two living processes is made again, however long that takes; the operation has a time limit. The
 * server knows which process has ended. Without it the peer's port is asked each second. What does not answer for as long
 * as a host may be away ends the communicator.
 */
static int
waits_for_repair(hoop_comm *comm, uint64_t now)
{
    hp_fault *f = &comm->fault;
    uint64_t most = comm->sock.peer_timeout;
    int served = has_server(comm, now);
    if (!f->ended || !hp_link_is_repaired(f->ended))
        return 0;
    hp_probe_state answer = hp_probe_poll(&f->probe);
    if (is_cut_off(comm, answer, now)) {
        hp_link_give_up(f->ended, 1);
        report_final(comm, now);
        return 1;
    }
    if (served || answer == HP_PROBE_ALIVE)
        f->heard_at = now;
    else if (answer == HP_PROBE_ENDED || now >= f->heard_at + most)
        return 0;
    if (!served && now >= f->probed_at + ASK_MS * HP_MS && answer != HP_PROBE_ASKED)
        probe(comm, f->ended, now);
    f->grace = now + AGAIN_MS * HP_MS;
    return 1;
}

/*
 * A connection ended during an operation, or while a message with `peer` cannot come any more, or cannot go. This rank
 * does not know the cause yet: the server finds it out, or a neighbour sends it. Meanwhile a probe asks whether the
 * peer's process is still there, in case neither answers.
 */
static void
suspect(hoop_comm *comm, hp_link *link, const hp_peer *peer, uint64_t now)
{
    hoop_error *s = &comm->fault.suspicion;
    int is_final = comm->fault.ended && comm->fault.mends && !hp_link_is_repaired(link);
    if (is_final && comm->fault.ended == link && link->state == HP_LINK_LOST)
        report_final(comm, now);
    else if (is_final) /* it takes the place of one that is repaired */
        forget(comm);
    if (comm->fault.grace)
        return;
    comm->fault.grace = now + (has_server(comm, now) ? SERVER_GRACE_MS : GRACE_MS) * HP_MS;
    comm->fault.ended = link;
    comm->fault.mends = 0;
    if (link->state == HP_LINK_LEFT) {
        describe_leaver(comm, link->peer, peer, s);
    } else {
        /* both ends report the same sentence, since neither knows what the other has seen */
        int up = comm->rank < link->peer;
        hp_link_loss_cause cause = {
            .finding = HP_LINK_LOSS_LINK, .rank = up ? comm->rank : link->peer, .other = up ? link->peer : comm->rank};
        hp_link_loss_error(&cause, comm->ring->members, comm->rank, s);
        s->sys_errno = link->error.sys_errno;
        if (!has_server(comm, now) && hp_cut_off_took(link))
            comm->fault.grace = now + HP_TCP_ANSWER_MS * HP_MS; /* the probe's answer may travel far */
        s->sequence = peer ? HP_NO_OPERATION : comm->running ? comm->running->sequence : 0;
        comm->fault.sure_at = now + SURE_MS * HP_MS;
        comm->fault.heard_at = now;
        probe(comm, link, now);
        /* one that has carried nothing may be dialled again: then nothing was lost, so that is reported after the grace */
        int fresh = hp_link_is_fresh(link, (int)(link->done % (uint64_t)link->stripes));
        comm->fault.report_at = fresh ? now + GRACE_MS * HP_MS : now;
    }
    if (comm->fault.report_at && now >= comm->fault.report_at)
        report_loss(comm, link, now);
}

/* No cause has arrived within the grace, so this rank's suspicion becomes the error. */
static void
conclude(hoop_comm *comm, uint64_t now)
{
    hoop_error *s = &comm->fault.suspicion;
    const hp_link *link = comm->fault.ended;
    hp_probe_state answer = hp_probe_poll(&comm->fault.probe);
    if (link || !has_server(comm, now))
        s->flags |= HOOP_ERROR_BEST_EFFORT;
    if (link && link->state != HP_LINK_LEFT && answer == HP_PROBE_ENDED) {
        snprintf(s->text, sizeof(s->text), "%s vanished: its process has ended",
                 hp_member_process(&comm->ring->members[link->peer]).text);
        s->rank = link->peer;
    } else if (link && link->state != HP_LINK_LEFT && answer != HP_PROBE_ALIVE &&
               (hp_cut_off_took(link) || now >= comm->fault.heard_at + comm->sock.peer_timeout)) {
        hp_cut_off_error(comm, link, s); /* by TCP's account, or by the connection that was to be made again */
    }
    hp_fault_fail(comm, s);
}

/*
 * The connection was made again. Or a peer whose handshake failed at the last moment, on its side only, has dialled again
 * within the grace: then no link was lost.
 */
static void
reconsider(hoop_comm *comm)
{
    const hp_link *link = comm->fault.ended;
    if (!link || link->state != HP_LINK_OPEN || hp_link_is_stuck(link))
        return;
    forget(comm);
}

static void
check_link(hoop_comm *comm, hp_link *link, const hp_peer *peer, uint64_t now)
{
    if (link->state == HP_LINK_ABORT)
        hp_fault_fail(comm, &link->error);
    else if (link->state == HP_LINK_FAULT)
        hp_fault_report(comm, &link->error, now);
    else if (hp_link_is_stuck(link) || (link->state == HP_LINK_LOST && link->gave_up))
        suspect(comm, link, peer, now);
}

/* Something is to come over a connection that is not up. */
static int
is_unconnected(const hp_link *link)
{
    return link->state < HP_LINK_OPEN && link->done != link->posted;
}

/*
 * Without a server nobody tells of a rank that has ended before it was connected to this one. Its port does: this rank asks
 * it once a second.
 */
static void
ask_peer(hoop_comm *comm, const hp_link *link, uint64_t now)
{
    hp_fault *f = &comm->fault;
    hoop_error error;
    if (has_server(comm, now) || f->grace || (f->asked && f->asked != link && is_unconnected(f->asked)))
        return;
    if (f->asked == link && hp_probe_poll(&f->inquiry) == HP_PROBE_ENDED) {
        describe_unheard(comm, link->peer, &error);
        error.sequence = comm->running ? comm->running->sequence : 0;
        error.flags = HOOP_ERROR_BEST_EFFORT;
        hp_fault_fail(comm, &error);
    } else if (f->asked != link || now >= f->ask_at) {
        hp_probe_stop(&f->inquiry); /* its answer may be of another's port */
        if (f->asked == link)
            hp_probe_start(&f->inquiry, hp_ways_best(&comm->ring->members[link->peer]), &comm->sock);
        f->asked = link;
        f->ask_at = now + ASK_MS * HP_MS;
    }
}

/* A rank that has ended makes no connection any more. Its connections of the ring tell, if it is a neighbour; else its port. */
static void
check_unconnected(hoop_comm *comm, const hp_channel *channel, const hp_link *link, uint64_t now)
{
    hp_link *ring[] = {channel->in[1], channel->out[1]};
    if (!is_unconnected(link))
        return;
    for (int i = 0; i < 2; i++)
        if (ring[i]->peer == link->peer && (ring[i]->state == HP_LINK_LOST || ring[i]->state == HP_LINK_LEFT))
            suspect(comm, ring[i], NULL, now);
    ask_peer(comm, link, now);
}

/*
 * A frame of the operation in progress that this rank does not await, because it has called something else. Where ranks do
 * not announce themselves (schedule.h) no frame that is awaited would tell. Or one that this rank has refused, since it
 * awaited that of a later operation: then the call in progress is the other one of the two that differ.
 */
static void
check_unposted(hoop_comm *comm, const hp_channel *channel, const hp_link *link, uint64_t now)
{
    const hoop_work *work = comm->running;
    const hp_frame *got = work ? hp_link_unposted(link) : NULL;
    hoop_error error;
    if (!got)
        return;
    hp_frame mine = hp_channel_frame(channel, work);
    if (got->sequence != mine.sequence || got->signature == mine.signature)
        return;
    hp_frame_check(got, &mine, 0, comm->rank, link->peer, &error);
    error.rank = link->peer;
    error.reporter = comm->rank;
    hp_fault_report(comm, &error, now);
}

static void
check_messages(hoop_comm *comm, uint64_t now)
{
    hoop_error error = comm->messages.error;
    hp_link *lost;
    error.sequence = HP_NO_OPERATION;
    if (error.code != HOOP_SUCCESS)
        hp_fault_report(comm, &error, now);
    for (const hp_peer *peer = comm->messages.first; peer; peer = peer->next) {
        if (peer->in)
            check_link(comm, peer->in, peer, now);
        if (peer->out)
            check_link(comm, peer->out, peer, now);
        if ((lost = hp_message_waits_lost(comm, peer)))
            suspect(comm, lost, peer, now);
    }
    /*
     * A rank that left before there was a connection cannot say so, and the server does not know who waits for it: its port
     * refuses this rank's connection.
     */
    for (const hp_dialing *d = comm->dialing; d && !comm->fault.grace; d = d->next) {
        uint64_t absent = hp_race_absent_since(d->race);
        const hp_peer *peer = d->link->owner ? comm->messages.peer[d->link->peer] : NULL;
        if (!peer || !absent || now < absent + ABSENT_MS * HP_MS || !peer->unfinished)
            continue;
        /* A server would have told of an end, but not of one behind a proxy. */
        if (has_server(comm, now) && !hp_client_membership(comm->client)->options.proxied)
            describe_leaver(comm, d->link->peer, peer, &comm->fault.suspicion);
        else
            describe_unheard(comm, d->link->peer, &comm->fault.suspicion);
        comm->fault.ended = NULL;
        comm->fault.grace = now + GRACE_MS * HP_MS;
    }
    if (hp_message_waits_unmatched(comm, now, &error)) {
        hp_fault_fail(comm, &error);
        return;
    }
    if (!hp_message_waits_are_over(comm, now, &error))
        return;
    if (has_server(comm, now)) { /* whether the awaited rank waits elsewhere itself, only the server knows */
        error.flags |= HOOP_ERROR_BEST_EFFORT;
        hp_fault_report(comm, &error, now);
    } else {
        hp_fault_fail(comm, &error);
    }
}

/* A kernel that fails is only seen in its queue's status. */
static void
check_devices(hoop_comm *comm, const hp_channel *channel)
{
    hoop_error error;
    char me[96];
    int failed = channel->command_error != HOOP_SUCCESS;
    for (int i = 0; i < HP_DEVICES; i++)
        failed |= channel->queue[i] && channel->queue[i]->ops->status(channel->queue[i], NULL) != HOOP_SUCCESS;
    if (!failed)
        return;
    hp_err_set(&error, HOOP_ERR_NO_MEMORY, "%s ran out of memory", hp_comm_name(comm, comm->rank, me));
    for (int i = 0; i < HP_DEVICES; i++)
        if (channel->queue[i])
            channel->queue[i]->ops->status(channel->queue[i], error.code == HOOP_ERR_CUDA ? NULL : &error);
    error.rank = error.reporter = comm->rank;
    error.sequence = comm->running ? comm->running->sequence : 0;
    hp_fault_fail(comm, &error);
}

void
hp_fault_check(hoop_comm *comm, uint64_t now)
{
    hoop_error verdict;
    /*
     * Dials the server again after the control connection was reset; progress.c keeps driving until that is done. One that
     * was lost may come back at any time.
     */
    if (comm->client && hp_membership_may_return(hp_client_membership(comm->client)))
        hp_client_return(comm->client, hp_inbox_started(comm), atomic_load(&comm->completed));
    if (comm->client && hp_membership_verdict(hp_client_membership(comm->client), &verdict)) {
        fail(comm, &verdict, 1);
        return;
    }
    hp_cut_off_check(comm, now);
    for (uint32_t c = 0; c < comm->channels; c++) {
        const hp_channel *channel = comm->channel[c];
        for (int i = 0; i < channel->links; i++) {
            check_unposted(comm, channel, channel->link[i], now);
            check_link(comm, channel->link[i], NULL, now);
            check_unconnected(comm, channel, channel->link[i], now);
        }
        check_devices(comm, channel);
    }
    if (comm->messages.first || comm->messages.error.code != HOOP_SUCCESS)
        check_messages(comm, now);
    reconsider(comm);
    if (comm->fault.report_at && now >= comm->fault.report_at)
        report_loss(comm, comm->fault.ended, now);
    if (comm->fault.grace && now >= comm->fault.grace && !atomic_load(&comm->fault.failed) && !asks_again(comm, now) &&
        !waits_for_repair(comm, now))
        conclude(comm, now);
}
