/* SPDX-License-Identifier: MIT */
/* message_waits: see message_waits.h. */
#include "lib/message_waits.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "lib/comm.h"
#include "lib/messages.h"

#include <stdio.h>

enum {
    LOOK_MS = 500,      /* a receive that has waited so long needs a connection to see its peer end */
    UNMATCHED_MS = 5000 /* what a rank that leaves gives its receives, since something has moved */
};

/* --- who waits --- */

static uint64_t
moved_at(const hoop_comm *comm, const hp_peer *peer)
{
    return peer->moved_at > comm->reports.moved_at ? peer->moved_at : comm->reports.moved_at;
}

/* The peer for which a message has waited longest; NULL: none waits. */
static hp_peer *
awaited_longest(const hoop_comm *comm)
{
    hp_peer *longest = NULL;
    for (hp_peer *peer = comm->messages.first; peer; peer = peer->next)
        if (peer->unfinished && (!longest || peer->moved_at < longest->moved_at))
            longest = peer;
    return longest;
}

static const hp_message *
oldest_with(const hoop_comm *comm, int rank)
{
    for (const hoop_work *work = comm->messages.running; work; work = work->next)
        for (size_t i = 0; i < work->message_count; i++)
            if (work->messages[i].peer == rank && !work->messages[i].done && !work->messages[i].held)
                return &work->messages[i];
    return NULL;
}

/* --- in words --- */

const char *
hp_message_waits_print(const hoop_comm *comm, const hp_peer *peer, char *out, size_t size)
{
    char me[96], who[96], call[224];
    const hp_message *message = oldest_with(comm, peer->pair.peer);
    hp_comm_name(comm, comm->rank, me);
    hp_comm_name(comm, peer->pair.peer, who);
    if (message)
        snprintf(out, size, "%s waits in %s", me, hp_message_print(message, who, call, sizeof(call)));
    else
        snprintf(out, size, "%s waits for %s", me, who);
    return out;
}

static int
is_offered(const hp_pair *pair, const hp_message *message)
{
    const hp_message *offered = pair->offered.first;
    while (offered && offered != message)
        offered = offered->next;
    return offered != NULL;
}

/* Whether the message waits for a copy of this rank's GPU, and not for the peer. */
static int
awaits_gpu(const hp_peer *peer, const hp_message *message)
{
    const hp_link *out = peer->out;
    if (!message->sending)
        return message->ticket != 0;
    return out && out->posted < peer->taken && peer->transit[out->posted % HP_MESSAGE_POSTS].piece.message == message;
}

/* The oldest message that is not complete; NULL: there is none. */
static const hp_message *
oldest(const hoop_comm *comm)
{
    for (const hoop_work *work = comm->messages.running; work; work = work->next)
        for (size_t i = 0; i < work->message_count; i++)
            if (!work->messages[i].done)
                return &work->messages[i];
    return NULL;
}

int
hp_message_waits_of(const hoop_work *work, hp_message *first)
{
    int found = 0;
    for (size_t i = 0; i < work->message_count; i++) {
        const hp_message *m = &work->messages[i];
        if (!m->done && !found)
            *first = *m;
        if (!m->done)
            found = found == 2 || m->peer != first->peer ? 2 : 1;
    }
    return found;
}

hp_awaited
hp_message_waits_oldest(const hoop_comm *comm)
{
    const hp_message *message = oldest(comm);
    if (!message)
        return (hp_awaited){HP_WAIT_NONE, -1};
    if (message->held)
        return (hp_awaited){HP_WAIT_STREAM, -1};
    hp_peer *const *peers =
        comm->messages.peer; /* without memory for the peer its message has failed the communicator */
    if (message->peer != HOOP_ANY_RANK && peers && peers[message->peer] && awaits_gpu(peers[message->peer], message))
        return (hp_awaited){HP_WAIT_DEVICE, -1};
    return hp_message_awaited(message);
}

hp_waiting
hp_message_waits_find(const hoop_comm *comm, uint64_t now)
{
    const hp_peer *peer = awaited_longest(comm);
    const hp_message *message = peer ? oldest_with(comm, peer->pair.peer) : NULL;
    hp_waiting waiting = {.awaited = {HP_WAIT_DEVICE, -1}};
    if (!message || message->peer == HOOP_ANY_RANK) /* the server knows waits for one rank */
        return waiting;
    waiting.since = now > moved_at(comm, peer) ? now - moved_at(comm, peer) : 0;
    waiting.call = message->call;
    if (message->call.kind != HP_ALLTOALLV)
        waiting.call.kind = message->sending ? HP_SEND : HP_RECV;
    if (!awaits_gpu(peer, message))
        waiting.awaited = hp_message_awaited(message);
    return waiting;
}

/* What the peer has not done. */
static const char *
describe_want(const hp_peer *peer, const hp_message *message, char *out, size_t size)
{
    unsigned long long moved = message->moved, bytes = message->bytes;
    if (awaits_gpu(peer, message))
        snprintf(out, size, "while this rank's GPU has not copied its bytes");
    else if (message->peer == HOOP_ANY_RANK)
        snprintf(out, size, "of which none has sent it");
    else if (!message->sending && message->number == 0)
        snprintf(out, size, "which has not sent it");
    else if (!message->sending)
        snprintf(out, size, "which has sent %llu of %llu bytes", moved, bytes);
    else if (peer->out && peer->out->state < HP_LINK_OPEN)
        snprintf(out, size, "which has not accepted the connection");
    else if (is_offered(&peer->pair, message))
        snprintf(out, size, "which has not received it");
    else
        snprintf(out, size, "which has taken %llu of %llu bytes", moved, bytes);
    return out;
}

static void
describe(const hoop_comm *comm, const hp_peer *peer, uint64_t lasted, char *out, size_t size)
{
    const hp_message *message = oldest_with(comm, peer->pair.peer);
    char who[224], want[96] = "";
    if (message)
        describe_want(peer, message, want, sizeof(want));
    snprintf(out, size, "%s, %s; %.1f s so far", hp_message_waits_print(comm, peer, who, sizeof(who)), want,
             (double)lasted / 1e9);
}

/* --- when --- */

static const hp_peer *
peer_of(const hoop_comm *comm, int rank)
{
    return comm->messages.peer ? comm->messages.peer[rank] : NULL;
}

/*
 * The connection on which messages come. One whose handshake has not ended, or has failed, tells of nothing, nor does one that
 * was lost before it carried a byte: its peer may have left while it made it.
 */
static hp_link *
open_in(const hp_peer *peer)
{
    hp_link *in = peer->in;
    int unused = in && in->state == HP_LINK_LOST && hp_link_is_fresh(in, 0);
    return in && in->state >= HP_LINK_OPEN && !unused ? in : NULL;
}

/*
 * A rank that only receives has no connection that would tell it of the peer's end, where the peer has sent nothing
 * yet. So it opens its own; for a receive from any rank, to all others.
 */
static void
look(hoop_comm *comm, const hp_peer *waits, uint64_t now)
{
    int any = waits == comm->messages.anyone, first = any ? 0 : waits->pair.peer, last = any ? comm->size - 1 : first;
    if (!waits->unfinished || now - waits->moved_at <= LOOK_MS * HP_MS)
        return;
    for (int rank = first; rank <= last; rank++) {
        const hp_peer *peer = peer_of(comm, rank);
        if (rank != comm->rank && !(peer && (open_in(peer) || peer->out)))
            hp_messages_link(comm, rank, 1);
    }
}

void
hp_message_waits_poll(hoop_comm *comm, uint64_t now)
{
    uint64_t after = (uint64_t)hp_config_number(&comm->config, HP_SET_warn_after_ms) * HP_MS;
    char line[256], name[HP_NAME_PREFIX];
    if (!comm->messages.first)
        return;
    if (atomic_load(&comm->driver.leaving) && !comm->messages.leaves_at)
        comm->messages.leaves_at = now;
    for (hp_peer *peer = comm->messages.first; peer; peer = peer->next) {
        uint64_t activity = peer->finished + (peer->in ? peer->in->bytes : 0) + (peer->out ? peer->out->bytes : 0);
        if (!peer->unfinished || activity != peer->activity) {
            peer->moved_at = now;
            peer->activity = peer->unfinished ? activity : UINT64_MAX; /* the next message begins with its first poll */
        }
        look(comm, peer, now);
    }
    hp_stall_warning *warning = &comm->messages.warning;
    const hp_peer *peer = awaited_longest(comm);
    switch (hp_stall_warning_due(warning, after, peer != NULL, peer ? moved_at(comm, peer) : now, now)) {
    case HP_STALL_WARN:
        describe(comm, peer, warning->lasted, line, sizeof(line));
        hp_log(HP_LOG_WARN, "%s%s", hp_name_prefix(comm, name), line);
        break;
    case HP_STALL_OVER:
        hp_log(HP_LOG_WARN, "%sthe message goes on after %.1f s", hp_name_prefix(comm, name),
               (double)warning->lasted / 1e9);
        break;
    default: break;
    }
}

int
hp_message_waits_are_over(hoop_comm *comm, uint64_t now, hoop_error *error)
{
    uint64_t limit = atomic_load(&comm->driver.op_timeout);
    const hp_peer *peer = awaited_longest(comm);
    char text[256];
    if (!peer || !limit || now < moved_at(comm, peer) + limit)
        return 0;
    describe(comm, peer, now - moved_at(comm, peer), text, sizeof(text));
    hp_err_set(error, HOOP_ERR_TIMEOUT, "%s", text);
    const hp_message *message = oldest_with(comm, peer->pair.peer);
    error->rank = message && awaits_gpu(peer, message) ? comm->rank : peer->pair.peer;
    error->reporter = comm->rank;
    error->sequence = HP_NO_OPERATION;
    return 1;
}

/* --- of a rank that leaves --- */

int
hp_message_waits_only_unmatched(const hoop_work *running)
{
    int left = 0;
    for (const hoop_work *work = running; work; work = work->next)
        for (size_t i = 0; i < work->message_count; i++) {
            const hp_message *m = &work->messages[i];
            if (m->done)
                continue;
            /* a collective gives other ranks the time to enter it */
            if (m->sending || m->held || m->number || m->call.kind == HP_ALLTOALLV)
                return 0;
            left = 1;
        }
    return left;
}

int
hp_message_waits_unmatched(const hoop_comm *comm, uint64_t now, hoop_error *error)
{
    const hp_messages *m = &comm->messages;
    char me[96], who[96], call[224];
    uint64_t since = m->leaves_at;
    if (!since || comm->running || !hp_message_waits_only_unmatched(m->running))
        return 0;
    for (const hp_peer *peer = m->first; peer; peer = peer->next)
        if (peer->unfinished && moved_at(comm, peer) > since)
            since = moved_at(comm, peer);
    if (now < since + UNMATCHED_MS * HP_MS)
        return 0;
    const hp_message *message = oldest(comm);
    hp_message_print(message, hp_comm_name(comm, message->peer, who), call, sizeof(call));
    hp_err_set(error, HOOP_ERR_ABORTED, "%s leaves, and no rank has matched its %s for %d s",
               hp_comm_name(comm, comm->rank, me), call, UNMATCHED_MS / 1000);
    error->rank = error->reporter = comm->rank;
    error->sequence = HP_NO_OPERATION;
    error->phase = HOOP_PHASE_LEAVE;
    return 1;
}

/* --- peers that have ended --- */

static int
has_ended(const hp_link *link)
{
    return link && (link->state == HP_LINK_LEFT || link->state == HP_LINK_LOST);
}

/* Where no message has come yet, any other connection with the rank tells of its end. */
static hp_link *
any_ended(const hoop_comm *comm, int rank)
{
    const hp_peer *peer = peer_of(comm, rank);
    if (peer && has_ended(peer->out))
        return peer->out;
    for (uint32_t c = 0; c < comm->channels; c++)
        for (int i = 0; i < comm->channel[c]->links; i++)
            if (comm->channel[c]->link[i]->peer == rank && has_ended(comm->channel[c]->link[i]))
                return comm->channel[c]->link[i];
    return NULL;
}

/* The link that tells that no message of this rank comes any more. */
static hp_link *
ended(const hoop_comm *comm, int rank)
{
    const hp_peer *peer = peer_of(comm, rank);
    hp_link *in = peer ? open_in(peer) : NULL;
    if (in)
        return has_ended(in) ? in : NULL;
    return any_ended(comm, rank);
}

/* A receive from any rank ends when another rank is lost, or when all others have left. */
static hp_link *
nobody_sends(const hoop_comm *comm)
{
    hp_link *last = NULL;
    int left = 0;
    for (int rank = 0; rank < comm->size; rank++) {
        hp_link *link = rank == comm->rank ? NULL : ended(comm, rank);
        if (link && link->state == HP_LINK_LOST)
            return link;
        const hp_dialing *d = link || rank == comm->rank ? NULL : comm->dialing;
        while (d && !(d->link->owner && d->link->peer == rank && hp_race_absent_since(d->race)))
            d = d->next;
        left += link || d;
        last = link ? link : last;
    }
    return left == comm->size - 1 ? last : NULL;
}

hp_link *
hp_message_waits_lost(const hoop_comm *comm, const hp_peer *peer)
{
    const hp_pair *pair = &peer->pair;
    int sends = pair->heads.first || pair->offered.first || pair->coming.first ||
                (peer->out && peer->out->done < peer->out->posted);
    if (!peer->unfinished)
        return NULL;
    if (peer == comm->messages.anyone)
        return nobody_sends(comm);
    hp_link *in = open_in(peer);
    if (hp_pair_awaits_data(pair) && (has_ended(in) || !in))
        return in ? in : any_ended(comm, pair->peer);
    return sends && has_ended(peer->out) ? peer->out : NULL;
}
