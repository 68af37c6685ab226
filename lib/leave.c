/* SPDX-License-Identifier: MIT */
/*
 * leave: the end of a membership; see join.h. A socket that closes with unread bytes resets its connection, and what was still to be sent is
 * lost although this rank has already returned success; so no socket is closed before the kernel has delivered
 * everything.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "lib/account.h"
#include "lib/comm.h"
#include "lib/cut_off.h"
#include "lib/entry.h"
#include "lib/fault.h"
#include "lib/join.h"
#include "lib/links.h"
#include "lib/messages.h"
#include "lib/progress.h"
#include "lib/registry.h"
#include "lib/server_thread.h"
#include "lib/stats.h"
#include "lib/visit.h"
#include "lib/ways.h"
#include "lib/works.h"

#include <stdlib.h>

enum {
    LINGER_MS = 1000,
    ANSWER_MS = 100,
    POLL_MS = 1,
    GONE_MS = 5000 /* what a connection is made to again, and closes it at once for so long, knows this job no more */
};

/* One that still has bytes on their way; NULL: none has. Drops what comes in. */
static hp_link *
undelivered(const hoop_comm *comm)
{
    hp_link *slow = NULL;
    hp_link_walk at = hp_comm_links(comm);
    for (hp_link *link; (link = hp_link_next(&at));)
        slow = hp_link_closed(link) ? slow : link;
    return slow;
}

/* One whose peer still needs something of this rank; NULL: none does. Moves all on. */
static hp_link *
needed(const hoop_comm *comm, uint64_t waited)
{
    int proxied = comm->client && hp_client_membership(comm->client)->options.proxied;
    hp_link *open = NULL;
    hp_link_walk at = hp_comm_links(comm);
    for (hp_link *link; (link = hp_link_next(&at));) {
        hp_link_ask(link);
        hp_link_move(link);
        hp_link_arm(link);
        open = hp_link_is_free(link, waited, comm->sock.peer_timeout, proxied) ? open : link;
    }
    return open;
}

static void
warn_of(const hoop_comm *comm, const hp_link *slow, int lost, uint64_t lasted)
{
    char me[96], peer[96], name[HP_NAME_PREFIX];
    int broken = slow->state == HP_LINK_LOST;
    hp_log(HP_LOG_WARN,
           broken ? "%s%s leaves, and its connection to %s broke, and was not made again for %.1f s; %s"
                  : "%s%s leaves, and %s has not received what was sent to it for %.1f s; %s",
           hp_name_prefix(comm, name), hp_comm_name(comm, comm->rank, me), hp_comm_name(comm, slow->peer, peer),
           (double)lasted / 1e9,
           lost && broken ? "what that rank has not received is lost"
           : lost         ? "that is lost"
           : broken       ? "that rank makes it again at its next call"
                          : "it takes it at its next call");
}

/*
 * Whether the server is still to hear of this rank's LEAVE. Without that it takes the rank for lost. It mostly answers by
 * closing the connection, and then at once. After an outage TCP may send again only after many seconds: then a new
 * connection is made.
 */
static int
server_is_owed(hoop_comm *comm, uint64_t waited)
{
    uint64_t most = atomic_load(&comm->fault.failed) ? LINGER_MS * HP_MS : comm->sock.peer_timeout;
    if (!comm->client || !hp_membership_is_leaving(hp_client_membership(comm->client)) || waited >= most)
        return 0;
    if (waited < ANSWER_MS * HP_MS)
        return 1;
    return hp_client_deliver_leave(comm->client, waited >= LINGER_MS * HP_MS);
}

/*
 * Waits until the other ranks' systems have all bytes, and the server's. What was reported as done must not be lost, so
 * this takes as long as an operation may: a peer that comes late reads nothing yet, and after an outage TCP sends again
 * only after many seconds. After a failure nobody waits for the rest.
 */
static void
drain(hoop_comm *comm)
{
    uint64_t began = hp_now(), limit = hp_comm_limit(comm);
    uint64_t after = (uint64_t)hp_config_number(&comm->config, HP_SET_warn_after_ms) * HP_MS;
    hp_stall_warning warning = {0}, unheard = {0};
    uint64_t visit = 0;
    char me[96], name[HP_NAME_PREFIX];
    for (uint64_t now = began;; now = hp_now()) {
        int failed = atomic_load(&comm->fault.failed), owed = server_is_owed(comm, now - began);
        const hp_link *slow = undelivered(comm);
        uint64_t most = failed ? LINGER_MS * HP_MS : limit;
        int too_long = slow && most && now - began >= most;
        if (too_long && !failed)
            warn_of(comm, slow, 1, now - began);
        if (too_long || (!slow && !owed))
            return;
        if (hp_stall_warning_due(&warning, after, slow && !failed, began, now) == HP_STALL_WARN)
            warn_of(comm, slow, 0, now - began);
        if (hp_stall_warning_due(&unheard, after, owed, began, now) == HP_STALL_WARN)
            hp_log(HP_LOG_WARN, "%s%s leaves, and the rendezvous server has not acknowledged that for %.1f s",
                   hp_name_prefix(comm, name), hp_comm_name(comm, comm->rank, me), (double)(now - began) / 1e9);
        hp_loop_run(comm->loop, POLL_MS * HP_MS);
        hp_visit_others(comm, &visit);
    }
}

/* --- connections that are repaired --- */

/*
 * A process that has ended needs nothing more, and dials no more; its port tells that. So does one on a host that TCP has
 * heard nothing of for too long, and that does not answer now.
 */
static void
ask_port(hoop_comm *comm, hp_link *link, uint64_t now)
{
    hp_fault *f = &comm->fault;
    hp_probe_state state = f->asked == link ? hp_probe_poll(&f->inquiry) : HP_PROBE_NONE;
    int late = f->asked == link && now >= f->ask_at,
        silent = state == HP_PROBE_UNREACHED || (late && state == HP_PROBE_ASKED);
    if (state == HP_PROBE_ENDED || (silent && hp_cut_off_took(link)))
        hp_link_give_up(link, 0);
    if (late || f->asked != link) {
        hp_probe_stop(&f->inquiry); /* its answer may be of another's port */
        f->ask_at = now + HP_TCP_ANSWER_MS * HP_MS;
    }
    if (late)
        hp_probe_start(&f->inquiry, hp_ways_best(&comm->ring->members[link->peer]), &comm->sock);
    f->asked = link;
}

/* For as long as an operation may take. Without a server nobody knows which rank has ended, as in waits_for_repair (fault.c). */
static uint64_t
stay(hoop_comm *comm)
{
    uint64_t limit = hp_comm_limit(comm), away = comm->sock.peer_timeout;
    int served = comm->client && hp_membership_has_server(hp_client_membership(comm->client), hp_loop_now(comm->loop));
    return !served && (!limit || limit > away) ? away : limit ? limit : HP_NEVER;
}

/* The ring has failed, so that nobody waits for this rank any more. */
static int
has_failed(const hoop_comm *comm, hoop_error *verdict)
{
    return comm->client && hp_membership_verdict(hp_client_membership(comm->client), verdict);
}

/* Since its last call the ring may have failed. That another rank has ended is nothing to one that waits for nobody. */
static void
hear_verdict(hoop_comm *comm)
{
    hoop_error verdict;
    hp_loop_run(comm->loop, 0);
    if (has_failed(comm, &verdict) && verdict.code != HOOP_ERR_PEER_LOST)
        hp_fault_check(comm, hp_loop_now(comm->loop));
}

/*
 * A connection that is repaired may break while a rank leaves, too. So it stays until its peers have taken what it has sent,
 * and know what it has taken.
 */
static void
part(hoop_comm *comm)
{
    uint64_t began = hp_now(), after = (uint64_t)hp_config_number(&comm->config, HP_SET_warn_after_ms) * HP_MS;
    hp_stall_warning warning = {0};
    uint64_t visit = 0;
    hp_link *open;
    hoop_error verdict;
    comm->fault.asked = NULL;
    for (uint64_t now = began; (open = needed(comm, now - began)) && !has_failed(comm, &verdict); now = hp_now()) {
        uint64_t loop_now = hp_loop_now(comm->loop);
        if (now - began >= stay(comm)) {
            warn_of(comm, open, 1, now - began);
            return;
        }
        if (comm->client && hp_membership_is_away(hp_client_membership(comm->client)))
            hp_client_return(comm->client, hp_inbox_started(comm), atomic_load(&comm->completed));
        hp_links_receive(comm);
        hp_cut_off_check(comm, loop_now);
        hp_links_repair(comm, loop_now);
        hp_links_give_up_closed(comm, loop_now, GONE_MS * HP_MS);
        ask_port(comm, open, loop_now);
        if (hp_stall_warning_due(&warning, after, 1, began, now) == HP_STALL_WARN)
            warn_of(comm, open, 0, now - began);
        hp_loop_run(comm->loop, POLL_MS * HP_MS);
        hp_visit_others(comm, &visit);
    }
}

/* 1: no operation is left: all are complete, or have ended by the communicator's error. */
static int
finish(hoop_comm *comm)
{
    uint64_t timeout = hp_comm_limit(comm);
    hoop_error error;
    char me[96];
    uint64_t most = atomic_load(&comm->fault.known) ? LINGER_MS * HP_MS : timeout;
    hp_waiter all = {.comm = comm};
    atomic_store(&comm->driver.leaving, 1);
    if (hp_entry_wait(&all, most ? hp_now() + most : HP_NEVER, 1)) {
        int handled = !atomic_load(&comm->fault.known) || atomic_load(&comm->fault.failed);
        return handled ||
               hp_progress_abort(comm, &comm->fault.error); /* the stream watchdog's error, and no thread drives */
    }
    hp_err_set(&error, HOOP_ERR_ABORTED, "%s destroyed the communicator while operations were in flight",
               hp_comm_name(comm, comm->rank, me));
    error.rank = error.reporter = comm->rank;
    error.phase = HOOP_PHASE_LEAVE;
    return hp_progress_abort(comm, &error);
}

int
hp_leave(hoop_comm *comm)
{
    char me[96], peer[96], name[HP_NAME_PREFIX];
    int rank = -1;
    if (!finish(comm))
        return 0;
    hp_progress_stop(comm);
    /* A program that leaves messages unread has mostly forgotten a receive. */
    uint64_t unread = hp_messages_unread(comm, &rank);
    if (unread && !atomic_load(&comm->fault.failed))
        hp_log(HP_LOG_WARN, "%s%s leaves with %llu message%s unread, the first of them from %s",
               hp_name_prefix(comm, name), hp_comm_name(comm, comm->rank, me), (unsigned long long)unread,
               unread == 1 ? "" : "s", hp_comm_name(comm, rank, peer));
    if (!atomic_load(&comm->fault.failed))
        part(comm);
    if (!atomic_load(&comm->fault.failed))
        hear_verdict(comm);
    comm->state = HP_COMM_CLOSED;
    if (comm->client && !atomic_load(&comm->fault.failed))
        hp_fault_find_server(comm, HP_RETURN_MS); /* else it takes this rank for lost, and the others may wait for it */
    hp_vitals_send(comm);
    if (comm->client)
        hp_client_leave(comm->client, comm->completed);
    hp_link_walk at = hp_comm_links(comm);
    for (hp_link *link; (link = hp_link_next(&at));)
        hp_link_leave(link);
    drain(comm);
    return 1;
}

void
hp_leave_failed(hoop_comm *comm, const hoop_error *cause)
{
    hoop_error own = *cause, outgoing;
    if (own.rank < 0)
        own.rank = comm->rank;
    outgoing = hp_fault_for_others(comm, &own);
    outgoing.reporter = comm->rank;
    hp_membership_abort(hp_client_membership(comm->client), &outgoing);
    hp_loop_run(comm->loop, 0);
    hp_server_thread_deliver();
}

void
hp_leave_free(hoop_comm *comm)
{
    hp_registry_remove(comm);
    /* That of a failure stays, unless the ranks that were left went on. */
    hp_flight_file_end(&comm->recorder.file, atomic_load(&comm->fault.known) && !comm->shrunk);
    hp_links_cancel(comm);
    for (uint32_t c = 0; c < HP_CHANNELS_MAX; c++) {
        hp_watch_free(comm->gpu.queue_watch[c]);
        hp_channel_free(comm->channel[c]);
    }
    hp_messages_free(comm);
    for (int i = 0; i < HP_DEVICES; i++)
        if (comm->device[i])
            comm->device[i]->ops->close(comm->device[i]);
    hp_listener_leave(&comm->entry);
    hp_client_free(comm->client);
    hp_probe_stop(&comm->fault.probe);
    hp_probe_stop(&comm->fault.inquiry);
    hp_probe_stop(&comm->fault.cut_off.probe);
    hp_probe_stop(&comm->fault.large_packets.probe);
    hp_timer_free(comm->alarm);
    if (comm->loop)
        hp_loop_free(comm->loop);
    hp_work_pool_free(comm);
    pthread_mutex_destroy(&comm->driver.mutex);
    pthread_mutex_destroy(&comm->driver.splitting);
    pthread_cond_destroy(&comm->driver.changed);
    hp_keys_drop(comm->keys);
    hp_heartbeats_free(comm->reports.heartbeats);
    free(comm->counters.waited_for);
    free(comm->order);
    free(comm->position_of);
    free(comm->hosts.first);
    free(comm);
}
