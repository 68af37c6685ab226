/* SPDX-License-Identifier: MIT */
/*
 * leave: see leave.h. A socket that closes with unread bytes resets its connection, and what was still to be sent is
 * lost although this rank has already returned success; so no socket is closed before the kernel has delivered
 * everything.
 */
#include "lib/leave.h"

#include "base/clock.h"
#include "base/err.h"
#include "lib/fault.h"
#include "lib/links.h"
#include "lib/progress.h"
#include "lib/registry.h"
#include "lib/work_pool.h"

#include <stdlib.h>

enum { LINGER_MS = 1000, POLL_MS = 1 };

static int
links_closed(hoop_comm *comm)
{
    int closed = 1;
    for (uint32_t c = 0; c < comm->channels; c++)
        for (int i = 0; i < comm->channel[c]->links; i++)
            closed &= hp_link_closed(comm->channel[c]->link[i]);
    return closed;
}

static void
send_leave(hoop_comm *comm)
{
    uint64_t until = hp_now() + LINGER_MS * HP_MS;
    comm->state = HP_COMM_CLOSED;
    if (comm->client && !atomic_load(&comm->fault.failed))
        hp_fault_find_server(comm); /* the other ranks may wait for what this one has not done */
    if (comm->client)
        hp_client_leave(comm->client, comm->completed);
    for (uint32_t c = 0; c < comm->channels; c++)
        for (int i = 0; i < comm->channel[c]->links; i++)
            hp_link_leave(comm->channel[c]->link[i]);
    while (!links_closed(comm) && hp_now() < until)
        hp_loop_run(comm->loop, POLL_MS * HP_MS);
}

/* 1: no operation is left: all are complete, or have ended by the communicator's error. */
static int
finish(hoop_comm *comm)
{
    uint64_t timeout = (uint64_t)hp_config_number(&comm->config, HP_SET_op_timeout_ms) * HP_MS;
    hoop_error error;
    char me[96];
    uint64_t most = atomic_load(&comm->fault.known) ? LINGER_MS * HP_MS : timeout;
    if (hp_progress_finish(comm, most ? hp_now() + most : HP_NEVER)) {
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
    if (!finish(comm))
        return 0;
    hp_progress_stop(comm);
    send_leave(comm);
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
    hp_client_abort(comm->client, &outgoing);
    hp_loop_run(comm->loop, 0);
}

void
hp_leave_free(hoop_comm *comm)
{
    hp_registry_remove(comm);
    hp_links_cancel(comm);
    for (uint32_t c = 0; c < HP_CHANNELS_MAX; c++) {
        hp_watch_free(comm->gpu.queue_watch[c]);
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
    hp_work_pool_free(comm);
    pthread_mutex_destroy(&comm->driver.mutex);
    pthread_cond_destroy(&comm->driver.changed);
    hp_keys_drop(comm->keys);
    hp_heartbeats_free(comm->reports.heartbeats);
    free(comm->order);
    free(comm->position_of);
    free(comm);
}
