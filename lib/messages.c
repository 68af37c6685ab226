/* SPDX-License-Identifier: MIT */
/* messages: see messages.h. */
#include "lib/messages.h"

#include "base/err.h"
#include "base/mem.h"
#include "lib/account.h"
#include "lib/devices.h"
#include "lib/message_works.h"

#include <stdlib.h>
#include <string.h>

enum {
    ROUNDS = 64, /* frames of one link in one call at most */
    SLICES = 2,  /* of long messages that a link has to send at once, so that a short one need not wait for more; */
                 /* while one is sent, the next one is copied out of a GPU's memory */
    IN_POSTS = 2 /* a frame is posted when it comes */
};

/* --- what goes wrong here --- */

/* The first one counts. fault.c reports it. */
static void
fail(hoop_comm *comm, hoop_error *error, int rank)
{
    error->rank = error->code == HOOP_ERR_NO_MEMORY ? comm->rank : rank;
    error->reporter = comm->rank;
    if (comm->messages.error.code == HOOP_SUCCESS)
        comm->messages.error = *error;
}

static void
out_of_memory(hoop_comm *comm, int rank)
{
    hoop_error error;
    char peer[96];
    hp_err_set(&error, HOOP_ERR_NO_MEMORY, "out of memory for messages with %s", hp_comm_name(comm, rank, peer));
    fail(comm, &error, rank);
}

/* --- peers --- */

static hoop_result frame_comes(void *arg, const hp_frame *frame, hoop_error *error);
static hoop_result credit_comes(void *arg, const uint8_t payload[HP_CREDIT_BYTES], hoop_error *error);

static hp_peer *
new_peer(hoop_comm *comm, int rank)
{
    hp_messages *m = &comm->messages;
    hp_peer *peer = hp_alloc(1, sizeof(*peer));
    if (!peer)
        return NULL;
    peer->comm = comm;
    peer->activity = UINT64_MAX; /* none was seen yet */
    peer->owner = (hp_link_owner){.head = frame_comes, .credit = credit_comes, .arg = peer};
    hp_pair_init(&peer->pair, comm->rank, rank, comm->epoch, comm->plan.slice_bytes);
    peer->pair.matching.any = &m->any;
    if (m->first)
        m->last->next = peer;
    else
        m->first = peer;
    m->last = peer;
    return peer;
}

static hp_peer *
peer_of(hoop_comm *comm, int rank)
{
    hp_messages *m = &comm->messages;
    if (!m->peer)
        m->peer = hp_alloc((size_t)comm->size, sizeof(hp_peer *));
    if (m->peer && !m->peer[rank])
        m->peer[rank] = new_peer(comm, rank);
    return m->peer ? m->peer[rank] : NULL;
}

static hp_peer *
anyone(hoop_comm *comm)
{
    hp_messages *m = &comm->messages;
    if (!m->anyone)
        m->anyone = new_peer(comm, HOOP_ANY_RANK);
    return m->anyone;
}

hp_link *
hp_messages_link(hoop_comm *comm, int rank, int sending)
{
    hp_peer *peer = peer_of(comm, rank);
    hp_link **link = !peer ? NULL : sending ? &peer->out : &peer->in;
    if (!link || *link)
        return link ? *link : NULL;
    *link = hp_link_new(sending, comm->rank, rank, 0, 1, sending ? HP_MESSAGE_POSTS : IN_POSTS);
    if (!*link)
        return NULL;
    (*link)->size = comm->size;
    (*link)->total = &comm->counters.bytes[sending];
    (*link)->owner = &peer->owner;
    comm->messages.links_wanted += sending;
    return *link;
}

/* --- starting --- */

/* The receive is complete when this command is, which reads the arrival, if there is one. */
static void
settle_later(hp_peer *peer, hp_message *receive, hp_arrival *arrival, uint64_t ticket)
{
    receive->arrival = arrival;
    receive->ticket = ticket;
    hp_message_append(&peer->comm->messages.settling, receive);
}

/* Receives complete in the order of their last commands, which is the queue's. */
static int
settle(hoop_comm *comm)
{
    hp_message_queue *settling = &comm->messages.settling;
    int settled = 0;
    for (; settling->first && hp_devices_done(comm, settling->first->ticket); settled = 1) {
        hp_message *receive = hp_message_pop(settling);
        hp_peer *peer = comm->messages.peer[receive->peer];
        if (receive->arrival)
            hp_pair_read(&peer->pair, receive, receive->arrival);
        hp_message_works_finish(peer, receive);
    }
    return settled;
}

/* A message that came before its receive, or whose receive is in a GPU's memory. */
static void
deliver(hp_peer *peer, hp_message *receive, hp_arrival *arrival)
{
    if (receive->on_device) {
        settle_later(peer, receive, arrival,
                     hp_devices_copy(peer->comm, &receive->call, receive->data, arrival->data, receive->bytes));
        return;
    }
    if (receive->bytes > 0)
        memcpy(receive->data, arrival->data, receive->bytes);
    hp_pair_read(&peer->pair, receive, arrival);
    hp_message_works_finish(peer, receive);
}

/* Whose message this receive from any rank takes: of those that are here, the one that this rank has read first. */
static hp_peer *
sender_for(hoop_comm *comm, const hp_message *receive)
{
    hp_peer *found = NULL;
    uint64_t first = UINT64_MAX;
    for (hp_peer *peer = comm->messages.first; peer; peer = peer->next) {
        uint64_t order = hp_pair_unread(&peer->pair, receive);
        if (order == 0 || order > first)
            continue;
        first = order;
        found = peer;
    }
    return found ? found : anyone(comm);
}

/* A receive from any rank has its message, from this peer. */
static void
adopt(hp_peer *peer)
{
    hp_peer *any = peer->comm->messages.anyone;
    if (!any || any->unfinished == peer->comm->messages.any.posted_n)
        return;
    any->unfinished--;
    any->finished++;
    peer->unfinished++;
}

static void
start_message(hoop_comm *comm, hp_message *message)
{
    hp_peer *peer = message->peer == HOOP_ANY_RANK ? sender_for(comm, message) : peer_of(comm, message->peer);
    if (!peer || (message->sending && message->peer != comm->rank && !hp_messages_link(comm, message->peer, 1))) {
        out_of_memory(comm, message->peer);
        return;
    }
    hp_arrival *arrival;
    hoop_error error;
    peer->unfinished++;
    if (message->sending)
        hp_pair_send(&peer->pair, message);
    else if (peer == comm->messages.anyone)
        hp_pair_receive_any(&comm->messages.any, message);
    else if (hp_pair_receive(&peer->pair, message, &arrival, &error) != HOOP_SUCCESS)
        fail(comm, &error, message->peer);
    else if (arrival)
        deliver(peer, message, arrival);
}

/* Starts those that no stream holds; the last one of a work may complete it. */
static int
start_released(hoop_comm *comm)
{
    hp_message_queue ready = {0};
    hp_held_release(comm, &ready);
    int any = ready.first != NULL;
    while (ready.first)
        start_message(comm, hp_message_pop(&ready));
    return any;
}

void
hp_messages_start(hoop_comm *comm, hoop_work *work)
{
    hp_messages *m = &comm->messages;
    size_t count = work->message_count;
    int32_t numbered = m->alltoallvs;
    hp_message_works_add(comm, work);
    if (atomic_load(&comm->fault.failed)) {
        hp_message_works_fail(comm);
        return;
    }
    m->alltoallvs = (int32_t)(((uint32_t)numbered + (uint32_t)work->alltoallvs) & INT32_MAX);
    for (size_t i = 0; i < count; i++) {
        hp_message *message = &work->messages[i];
        message->owner = work;
        if (message->call.kind == HP_ALLTOALLV)
            message->call.root = (int32_t)(((uint32_t)message->call.root + (uint32_t)numbered) & INT32_MAX);
        message->held = 1;
        hp_message_append(&comm->messages.held, message);
    }
    start_released(comm);
}

/* --- receiving --- */

static uint8_t *
place_of(const hp_peer *peer)
{
    const hp_landing *landing = &peer->pair.landing;
    if (landing->message && peer->room)
        return peer->room->memory;
    if (landing->message)
        return landing->bytes ? landing->message->data + landing->at : NULL;
    return landing->arrival ? landing->arrival->data : NULL;
}

static void
landed(hp_peer *peer)
{
    hp_landing landing = hp_pair_landed(&peer->pair);
    peer->comm->messages.passed++;
    if (landing.message)
        hp_work_moved(landing.message->owner, hp_recorder_clock(peer->comm));
    if (landing.message && landing.arrival)
        deliver(peer, landing.message, landing.arrival);
    else if (landing.message && peer->room) {
        /* A slice has come into a room: it goes on into the GPU's memory. */
        hp_message *receive = landing.message;
        peer->room->ticket =
            hp_devices_copy(peer->comm, &receive->call, receive->data + landing.at, peer->room->memory, landing.bytes);
        if (receive->moved == receive->bytes)
            settle_later(peer, receive, NULL, peer->room->ticket);
        peer->room->held = 0;
        peer->room = NULL;
    } else if (landing.message && landing.message->moved == landing.message->bytes)
        hp_message_works_finish(peer, landing.message);
}

/* A slice for a GPU's memory needs a room. Without one nothing is posted, and the link asks again when it moves next. */
static hoop_result
frame_comes(void *arg, const hp_frame *frame, hoop_error *error)
{
    hp_peer *peer = arg;
    const hp_message *cleared = hp_pair_cleared(&peer->pair, frame->sequence);
    if (cleared && cleared->on_device) {
        peer->room = hp_devices_take(peer->comm, 0);
        if (!peer->room)
            return HOOP_SUCCESS;
    }
    hoop_result result = hp_pair_head(&peer->pair, frame, error);
    adopt(peer);
    if (result == HOOP_SUCCESS)
        hp_link_post(peer->in, frame, place_of(peer), peer->pair.landing.bytes);
    else if (result == HOOP_ERR_NO_MEMORY)
        fail(peer->comm, error, peer->pair.peer);
    return result;
}

static void
send_credits(hp_peer *peer)
{
    uint8_t payload[HP_CREDIT_BYTES];
    while (hp_pair_owes(&peer->pair, payload) && hp_link_send_credit(peer->in, payload))
        hp_pair_credited(&peer->pair);
}

void
hp_messages_again(hoop_comm *comm, int rank)
{
    hp_pair_again(&comm->messages.peer[rank]->pair);
}

static int
move_in(hp_peer *peer)
{
    int moved = 0;
    peer->in->polled = hp_pair_awaits_data(&peer->pair) || peer->comm->messages.any.posted_n > 0;
    send_credits(peer);
    for (int i = 0; i < ROUNDS && hp_link_move(peer->in); i++) {
        moved = 1;
        if (peer->in->done == peer->landed)
            continue;
        peer->landed++;
        landed(peer);
        send_credits(peer);
    }
    return moved;
}

/* --- sending --- */

static hoop_result
credit_comes(void *arg, const uint8_t payload[HP_CREDIT_BYTES], hoop_error *error)
{
    hp_peer *peer = arg;
    return hp_pair_credit(&peer->pair, payload, error);
}

static hp_transit *
transit_of(hp_peer *peer, uint64_t number)
{
    return &peer->transit[number % HP_MESSAGE_POSTS];
}

/*
 * A long message's slices take a room, which is free again soon: the peer has posted their receive. A short message's bytes
 * are copied where they may stay until the peer takes them from the connection.
 */
static uint8_t *
place_outside(hp_peer *peer, hp_transit *transit)
{
    if (transit->piece.message->bytes > HP_EAGER_MOST) {
        transit->room = hp_devices_take(peer->comm, 1);
        return transit->room ? transit->room->memory : NULL;
    }
    if (!peer->ahead)
        peer->ahead = hp_alloc(HP_MESSAGE_POSTS, HP_EAGER_MOST);
    if (!peer->ahead)
        out_of_memory(peer->comm, peer->pair.peer);
    return peer->ahead ? peer->ahead + peer->staged % HP_MESSAGE_POSTS * HP_EAGER_MOST : NULL;
}

/* Finds where the piece is sent from, and lets the GPU copy it there if need be. 0: not now. */
static int
stage(hp_peer *peer)
{
    hp_transit *transit = transit_of(peer, peer->staged);
    const hp_piece *piece = &transit->piece;
    uint8_t *from = piece->bytes ? piece->message->data + piece->at : NULL;
    int copies = piece->bytes && piece->message->on_device;
    transit->data = copies ? place_outside(peer, transit) : from;
    if (copies && !transit->data)
        return 0;
    if (copies)
        transit->ticket = hp_devices_copy(peer->comm, &piece->message->call, transit->data, from, piece->bytes);
    peer->staged++;
    return 1;
}

/*
 * The next piece. A credit that is here but has not been read may let it travel ahead: a program that never sleeps would
 * not read it otherwise.
 */
static int
next_piece(hp_peer *peer, int heads_only, hp_piece *piece)
{
    if (hp_pair_lacks_room(&peer->pair)) {
        peer->out->polled = 1;
        hp_link_move(peer->out);
    }
    return hp_pair_next(&peer->pair, heads_only, piece);
}

/* Pieces are posted in their order: one that is still being copied holds up those behind it, to the same peer. */
static void
post_frames(hp_peer *peer)
{
    hp_piece piece;
    for (uint64_t n; (n = peer->taken - peer->sent) < HP_MESSAGE_POSTS && next_piece(peer, n >= SLICES, &piece);)
        *transit_of(peer, peer->taken++) = (hp_transit){.piece = piece};
    while (peer->staged < peer->taken && stage(peer))
        ;
    while (peer->out->posted < peer->staged &&
           hp_devices_done(peer->comm, transit_of(peer, peer->out->posted)->ticket)) {
        const hp_transit *transit = transit_of(peer, peer->out->posted);
        hp_frame frame = hp_pair_frame(&peer->pair, &transit->piece);
        if (hp_config_number(&peer->comm->config, HP_SET_checksum) == 1)
            frame.flags |= HP_FRAME_PAYLOAD_CRC;
        hp_link_post(peer->out, &frame, transit->data, transit->piece.bytes);
    }
}

static void
sent(hp_peer *peer)
{
    hp_transit *transit = transit_of(peer, peer->sent++);
    peer->comm->messages.passed++;
    hp_work_moved(transit->piece.message->owner, hp_recorder_clock(peer->comm));
    if (transit->room)
        *transit->room = (hp_room){0};
    if (hp_pair_sent(&transit->piece))
        hp_message_works_finish(peer, transit->piece.message);
}

static int
move_out(hp_peer *peer)
{
    int moved = 0;
    peer->out->polled = hp_pair_awaits_credit(&peer->pair);
    post_frames(peer);
    for (int i = 0; i < ROUNDS && hp_link_move(peer->out); i++) {
        moved = 1;
        while (peer->sent < peer->out->done)
            sent(peer);
        post_frames(peer);
    }
    while (peer->sent < peer->out->done) /* the look for a credit has sent it */
        sent(peer);
    return moved;
}

/* --- to oneself --- */

/* Straight into the receive, or the arrival. Returns the ticket of the GPU's command; 0: the bytes are there. */
static uint64_t
copy_over(hp_peer *peer, const hp_piece *piece)
{
    const hp_message *send = piece->message, *receive = peer->pair.landing.message;
    if (piece->bytes == 0)
        return 0;
    if (send->on_device || (receive && receive->on_device))
        return hp_devices_copy(peer->comm, &send->call, place_of(peer), send->data + piece->at, piece->bytes);
    memcpy(place_of(peer), send->data + piece->at, piece->bytes);
    return 0;
}

/* What a link would do, one piece at a time. */
static void
pass_on(hp_peer *peer, const hp_piece *piece)
{
    hoop_error error;
    hp_frame frame = hp_pair_frame(&peer->pair, piece);
    frame.length = HP_DATA_HEAD_CALL - HP_COMMON_BYTES + piece->bytes;
    if (hp_pair_head(&peer->pair, &frame, &error) != HOOP_SUCCESS) {
        fail(peer->comm, &error, peer->comm->rank);
        return;
    }
    adopt(peer);
    *transit_of(peer, peer->taken++) = (hp_transit){.piece = *piece, .ticket = copy_over(peer, piece)};
}

/* The piece that was passed on, or the next one. 0: neither can move now. */
static int
move_piece(hp_peer *peer)
{
    hp_piece piece;
    if (peer->sent == peer->taken) {
        if (!hp_pair_next(&peer->pair, 0, &piece))
            return 0;
        pass_on(peer, &piece);
        return 1;
    }
    if (!hp_devices_done(peer->comm, transit_of(peer, peer->sent)->ticket))
        return 0;
    landed(peer);
    sent(peer);
    return 1;
}

static int
move_self(hp_peer *peer)
{
    uint8_t credit[HP_CREDIT_BYTES];
    hoop_error error;
    int moved = 0;
    for (int more = 1; more && peer->comm->messages.error.code == HOOP_SUCCESS; moved |= more) {
        more = hp_pair_owes(&peer->pair, credit);
        if (more) {
            hp_pair_credited(&peer->pair);
            hp_pair_credit(&peer->pair, credit, &error);
        }
        more |= move_piece(peer);
    }
    return moved;
}

/* --- all of them --- */

int
hp_messages_move(hoop_comm *comm)
{
    int moved = comm->messages.held.first && start_released(comm);
    moved |= settle(comm);
    for (hp_peer *peer = comm->messages.first; peer; peer = peer->next) {
        if (peer->out)
            moved |= move_out(peer);
        if (peer->in)
            moved |= move_in(peer);
        if (peer->pair.peer == comm->rank)
            moved |= move_self(peer);
    }
    return moved | hp_message_works_join(comm);
}

void
hp_messages_arm(hoop_comm *comm)
{
    for (hp_peer *peer = comm->messages.first; peer; peer = peer->next) {
        if (peer->out)
            hp_link_arm(peer->out);
        if (peer->in)
            hp_link_arm(peer->in);
    }
}

uint64_t
hp_messages_unread(const hoop_comm *comm, int *rank)
{
    uint64_t unread = 0;
    for (const hp_peer *peer = comm->messages.first; peer; peer = peer->next) {
        if (!unread)
            *rank = peer->pair.peer;
        unread += peer->pair.matching.unexpected_n;
    }
    return unread;
}

/* --- the end --- */

void
hp_messages_stop(hoop_comm *comm, const hoop_error *cause)
{
    for (hp_peer *peer = comm->messages.first; peer; peer = peer->next) {
        if (peer->out)
            hp_link_stop(peer->out, cause);
        if (peer->in)
            hp_link_stop(peer->in, cause);
    }
}

void
hp_messages_fail(hoop_comm *comm)
{
    hp_messages *m = &comm->messages;
    for (hp_peer *peer = m->first; peer; peer = peer->next)
        peer->unfinished = 0;
    m->held = (hp_message_queue){0};
    while (m->settling.first) {
        hp_message *receive = hp_message_pop(&m->settling);
        if (receive->arrival)
            hp_pair_read(&m->peer[receive->peer]->pair, receive, receive->arrival);
    }
    hp_message_works_fail(comm);
}

void
hp_messages_free(hoop_comm *comm)
{
    for (hp_peer *peer = comm->messages.first, *next; peer; peer = next) {
        next = peer->next;
        hp_link_free(peer->out);
        hp_link_free(peer->in);
        hp_pair_free(&peer->pair);
        free(peer->ahead);
        free(peer);
    }
    free(comm->messages.peer);
}
