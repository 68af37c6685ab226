/* SPDX-License-Identifier: MIT */
/*
 * pair: see pair.h. The peer may send anything: a frame or credit that the state does not allow is refused. Memory of
 * arrivals is kept by its size, and as much as may be in use: before more is allocated, free memory of other sizes goes
 * back.
 */
#include "lib/pair.h"

#include "base/dtype.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- memory of messages that came before their receive --- */

enum { KEEP_BYTES = HP_EAGER_ROOM + HP_EAGER_ROOM / HP_EAGER_LEAST * sizeof(hp_arrival) };

/* What a message of so many bytes, HP_EAGER_MOST at most, costs if it travels ahead. */
static uint32_t
arrival_cost(uint64_t bytes)
{
    uint32_t cost = HP_EAGER_LEAST;
    while (cost < bytes)
        cost *= 2;
    return cost;
}

static int
class_of(uint32_t cost)
{
    int class = 0;
    for (uint32_t least = HP_EAGER_LEAST; cost >= least; least *= 2)
        class ++;
    return class;
}

/* So much free memory that these bytes may be allocated. */
static void
let_go(hp_arrivals *a, uint64_t bytes)
{
    for (int i = 0; i < HP_EAGER_CLASSES; i++)
        while (a->free[i] && a->allocated + bytes > KEEP_BYTES) {
            hp_arrival *arrival = a->free[i];
            a->free[i] = arrival->next_free;
            a->allocated -= sizeof(*arrival) + arrival->cost;
            free(arrival);
        }
}

/* One with room for `cost` bytes, 0: an offer. NULL when memory runs out. */
static hp_arrival *
take_arrival(hp_arrivals *a, uint32_t cost)
{
    int class = class_of(cost);
    hp_arrival *arrival = a->free[class];
    if (arrival) {
        a->free[class] = arrival->next_free;
    } else {
        let_go(a, sizeof(*arrival) + cost);
        arrival = hp_alloc(1, sizeof(*arrival) + cost);
        if (!arrival)
            return NULL;
        a->allocated += sizeof(*arrival) + cost;
    }
    arrival->receive = NULL;
    arrival->here = 0;
    arrival->cost = cost;
    a->unread += cost;
    a->offers += cost == 0;
    return arrival;
}

static void
give_arrival(hp_arrivals *a, hp_arrival *arrival)
{
    int class = class_of(arrival->cost);
    a->unread -= arrival->cost;
    a->offers -= arrival->cost == 0;
    arrival->next_free = a->free[class];
    a->free[class] = arrival;
    let_go(a, 0);
}

/* --- a pair of ranks --- */

void
hp_pair_init(hp_pair *p, int self, int peer, uint32_t epoch, uint32_t slice_bytes)
{
    *p = (hp_pair){.self = self, .peer = peer, .epoch = epoch, .slice_bytes = slice_bytes};
}

void
hp_pair_free(hp_pair *p)
{
    for (hp_match *left; (left = hp_matching_drop(&p->matching));)
        if ((hp_arrival *)left != p->landing.arrival)
            give_arrival(&p->arrivals, (hp_arrival *)left);
    if (p->landing.arrival)
        give_arrival(&p->arrivals, p->landing.arrival);
    let_go(&p->arrivals, KEEP_BYTES); /* all: none is in use */
    hp_pair_init(p, p->self, p->peer, p->epoch, p->slice_bytes);
}

/* Messages of different kinds never meet. */
static uint64_t
key_of(const hp_call *call)
{
    return (uint64_t)call->kind << 32 | (uint32_t)call->root;
}

/* --- lists of messages --- */

void
hp_message_append(hp_message_queue *queue, hp_message *message)
{
    message->next = NULL;
    if (queue->first)
        queue->last->next = message;
    else
        queue->first = message;
    queue->last = message;
}

hp_message *
hp_message_pop(hp_message_queue *queue)
{
    hp_message *message = queue->first;
    queue->first = message->next;
    if (!queue->first)
        queue->last = NULL;
    return message;
}

/* Takes the one with this number; they are mostly asked for in order. */
static hp_message *
take(hp_message_queue *queue, uint64_t number)
{
    hp_message *before = NULL, *message = queue->first;
    while (message && message->number != number) {
        before = message;
        message = message->next;
    }
    if (!message || !before)
        return message ? hp_message_pop(queue) : NULL;
    before->next = message->next;
    if (queue->last == message)
        queue->last = before;
    return message;
}

/* --- sending --- */

void
hp_pair_send(hp_pair *p, hp_message *message)
{
    message->number = ++p->started;
    hp_message_append(&p->heads, message);
}

static int
may_travel_ahead(const hp_pair *p, const hp_message *message)
{
    return message->bytes <= HP_EAGER_MOST && p->used - p->returned + arrival_cost(message->bytes) <= HP_EAGER_ROOM;
}

/* The next slice of a message; the last one may be shorter, and an empty message has an empty one. */
static hp_piece
slice_of(const hp_pair *p, hp_message *message)
{
    uint64_t left = message->bytes - message->begun;
    uint32_t most = message->bytes <= HP_EAGER_MOST ? HP_EAGER_MOST : p->slice_bytes;
    hp_piece piece = {.message = message, .at = message->begun, .bytes = left < most ? (uint32_t)left : most};
    message->begun += piece.bytes;
    piece.step = ++message->step;
    return piece;
}

static hp_piece
next_head(hp_pair *p)
{
    hp_message *message = hp_message_pop(&p->heads);
    if (may_travel_ahead(p, message)) {
        p->used += arrival_cost(message->bytes);
        return slice_of(p, message);
    }
    hp_message_append(&p->offered, message);
    return (hp_piece){.message = message};
}

/* Long messages take turns, slice by slice. */
static hp_piece
next_slice(hp_pair *p)
{
    hp_message *message = hp_message_pop(&p->coming);
    hp_piece piece = slice_of(p, message);
    if (message->begun < message->bytes)
        hp_message_append(&p->coming, message);
    return piece;
}

int
hp_pair_next(hp_pair *p, int heads_only, hp_piece *piece)
{
    int slice = p->coming.first && !heads_only && (p->piece_next || !p->heads.first);
    if (!slice && !p->heads.first)
        return 0;
    *piece = slice ? next_slice(p) : next_head(p);
    p->piece_next = !slice;
    return 1;
}

hp_frame
hp_pair_frame(const hp_pair *p, const hp_piece *piece)
{
    hp_frame frame = {.type = HP_DATA, .flags = HP_FRAME_CALL, .epoch = p->epoch, .channel = HP_MESSAGE_CHANNEL};
    frame.sequence = piece->message->number;
    frame.step = piece->step;
    frame.call = piece->message->call;
    frame.signature = hp_call_signature(&frame.call);
    return frame;
}

int
hp_pair_sent(const hp_piece *piece)
{
    hp_message *message = piece->message;
    message->moved += piece->bytes;
    return piece->step > 0 && message->moved == message->bytes;
}

hoop_result
hp_pair_credit(hp_pair *p, const uint8_t payload[HP_CREDIT_BYTES], hoop_error *error)
{
    uint64_t returned = hp_get64(payload), number = hp_get64(payload + 8);
    hp_message *message = number ? take(&p->offered, number) : NULL;
    uint64_t unsent = p->heads.first ? p->heads.first->number : p->started + 1;
    /* a credit that is told again may have come before */
    if (returned < p->returned || returned > p->used || (!message && number >= unsent))
        return hp_err_set(error, HOOP_ERR_PROTOCOL, "rank %d sent rank %d a credit for what was not sent", p->peer,
                          p->self);
    p->returned = returned;
    if (message)
        hp_message_append(&p->coming, message);
    return HOOP_SUCCESS;
}

/* --- receiving --- */

const char *
hp_message_print(const hp_message *message, const char *who, char *out, size_t size)
{
    hp_call call = message->call;
    char text[112];
    if (call.kind == HP_ALLTOALLV) {
        snprintf(out, size, "alltoallv number %" PRId32 " with %" PRIu64 " x %s %s %s", call.root, call.count,
                 hp_dtype_name((hoop_dtype)call.dtype), message->sending ? "for" : "from", who);
        return out;
    }
    call.kind = message->sending ? HP_SEND : HP_RECV;
    snprintf(out, size, "%s %s %s", hp_call_print(&call, text, sizeof(text)), message->sending ? "to" : "from", who);
    return out;
}

static hoop_result
mismatch(const hp_pair *p, const hp_call *theirs, const hp_message *receive, hoop_error *error)
{
    hp_message send = {.call = *theirs, .sending = 1};
    char me[32], peer[32], sent[128], awaited[128];
    snprintf(me, sizeof(me), "rank %d", p->self);
    snprintf(peer, sizeof(peer), "rank %d", p->peer);
    return hp_err_set(error, HOOP_ERR_MISMATCH, "%s called %s, but %s called %s", peer,
                      hp_message_print(&send, me, sent, sizeof(sent)), me,
                      hp_message_print(receive, receive->peer < 0 ? "any rank" : peer, awaited, sizeof(awaited)));
}

/* The receive of this message has been found: from now on it is of the message's length. */
static hoop_result
pair_up(const hp_pair *p, hp_message *receive, const hp_call *call, uint64_t number, hoop_error *error)
{
    /* A message may be shorter than its receive, which fills the start of its buffer; the blocks of an alltoallv may not. */
    hp_call same = receive->call;
    if (call->kind == HP_SEND && call->count < receive->call.count)
        same.count = call->count;
    if (!hp_call_equal(call, &same))
        return mismatch(p, call, receive, error);
    receive->number = number;
    receive->peer = p->peer;
    receive->call.count = call->count;
    receive->bytes = call->count * hoop_dtype_size((hoop_dtype)call->dtype);
    receive->on_device = receive->on_device && receive->bytes > 0;
    return HOOP_SUCCESS;
}

hoop_result
hp_pair_receive(hp_pair *p, hp_message *receive, hp_arrival **arrival, hoop_error *error)
{
    receive->match.key = key_of(&receive->call);
    hp_arrival *found = (hp_arrival *)hp_matching_post(&p->matching, &receive->match);
    *arrival = NULL;
    if (!found)
        return HOOP_SUCCESS;
    hoop_result result = pair_up(p, receive, &found->call, found->number, error);
    if (result != HOOP_SUCCESS) { /* the message stays unread: the communicator fails */
        hp_matching_keep(&p->matching, &found->match);
        return result;
    }
    if (found->cost == 0) {
        hp_message_append(&p->to_clear, receive);
        give_arrival(&p->arrivals, found);
    } else if (found->here) {
        *arrival = found;
    } else {
        found->receive = receive;
    }
    return result;
}

uint64_t
hp_pair_unread(const hp_pair *p, const hp_message *receive)
{
    return hp_matching_unread(&p->matching, key_of(&receive->call));
}

void
hp_pair_receive_any(hp_matching_any *any, hp_message *receive)
{
    receive->match.key = key_of(&receive->call);
    hp_matching_post_any(any, &receive->match);
}

/* What the peer calls: the size of its message in bytes. 0: it is no such call. */
static int
size_of(const hp_call *call, uint64_t *bytes)
{
    size_t elem = hoop_dtype_size((hoop_dtype)call->dtype), product;
    if ((call->kind != HP_SEND && call->kind != HP_ALLTOALLV) || elem == 0 || call->op != HOOP_SUM || call->fused ||
        call->root < 0 || call->count > SIZE_MAX || !hp_mul((size_t)call->count, elem, &product))
        return 0;
    *bytes = product;
    return 1;
}

static hoop_result
refuse(const hp_pair *p, const hp_frame *frame, hoop_error *error)
{
    return hp_err_set(error, frame->epoch < p->epoch ? HOOP_ERR_STALE_EPOCH : HOOP_ERR_PROTOCOL,
                      "rank %d sent rank %d message %llu step %u (%u bytes, epoch %u), which cannot come now", p->peer,
                      p->self, (unsigned long long)frame->sequence, frame->step, hp_frame_payload(frame), frame->epoch);
}

/* A message whose bytes its receive cannot take from a link; receive NULL: none is posted. */
static hoop_result
keep(hp_pair *p, const hp_frame *frame, uint64_t bytes, hp_message *receive, hoop_error *error)
{
    hp_arrival *arrival = take_arrival(&p->arrivals, frame->step ? arrival_cost(bytes) : 0);
    if (!arrival)
        return hp_err_set(error, HOOP_ERR_NO_MEMORY, "rank %d is out of memory for a message from rank %d", p->self,
                          p->peer);
    arrival->call = frame->call;
    arrival->number = frame->sequence;
    arrival->bytes = bytes;
    arrival->match.key = key_of(&frame->call);
    arrival->receive = receive;
    if (!receive)
        hp_matching_keep(&p->matching, &arrival->match);
    if (frame->step)
        p->landing = (hp_landing){.arrival = arrival, .bytes = (uint32_t)bytes};
    return HOOP_SUCCESS;
}

/* The first frame of a message. */
static hoop_result
open_message(hp_pair *p, const hp_frame *frame, uint64_t bytes, hoop_error *error)
{
    int ahead = frame->step == 1 && bytes <= HP_EAGER_MOST && hp_frame_payload(frame) == bytes;
    int offered = frame->step == 0 && bytes <= PTRDIFF_MAX && hp_frame_payload(frame) == 0;
    uint32_t cost = ahead ? arrival_cost(bytes) : 0;
    if ((!ahead && !offered) || p->arrivals.unread + cost > HP_EAGER_ROOM)
        return refuse(p, frame, error);
    p->heads_seen++;
    hp_message *receive = (hp_message *)hp_matching_arrive(&p->matching, key_of(&frame->call));
    if (!receive && offered && p->arrivals.offers == HP_OFFERS_MOST)
        return hp_err_set(error, HOOP_ERR_PROTOCOL, "rank %d has sent rank %d %d messages that it has not received",
                          p->peer, p->self, HP_OFFERS_MOST);
    if (!receive)
        return keep(p, frame, bytes, NULL, error);
    hoop_result result = pair_up(p, receive, &frame->call, frame->sequence, error);
    if (result != HOOP_SUCCESS)
        return result;
    if (ahead && receive->on_device)
        return keep(p, frame, bytes, receive, error);
    if (offered) {
        hp_message_append(&p->to_clear, receive);
        return HOOP_SUCCESS;
    }
    p->landing = (hp_landing){.message = receive, .bytes = (uint32_t)bytes};
    receive->begun = bytes;
    p->owed += cost;
    return HOOP_SUCCESS;
}

hp_message *
hp_pair_cleared(const hp_pair *p, uint64_t number)
{
    for (int i = 0; i < p->cleared_n; i++)
        if (p->cleared[i]->number == number)
            return p->cleared[i];
    return NULL;
}

/* A slice of a message that this rank has cleared. */
static hoop_result
go_on(hp_pair *p, const hp_frame *frame, hoop_error *error)
{
    hp_message *message = hp_pair_cleared(p, frame->sequence);
    if (!message || frame->step != message->step + 1 || !hp_call_equal(&frame->call, &message->call) ||
        (message->step > 0 && message->begun == message->bytes))
        return refuse(p, frame, error);
    hp_piece piece = slice_of(p, message);
    if (hp_frame_payload(frame) != piece.bytes)
        return refuse(p, frame, error);
    p->landing = (hp_landing){.message = message, .at = piece.at, .bytes = piece.bytes};
    return HOOP_SUCCESS;
}

hoop_result
hp_pair_head(hp_pair *p, const hp_frame *frame, hoop_error *error)
{
    uint64_t bytes;
    p->landing = (hp_landing){0};
    if (frame->epoch != p->epoch || frame->channel != HP_MESSAGE_CHANNEL || !(frame->flags & HP_FRAME_CALL) ||
        frame->signature != hp_call_signature(&frame->call) || !size_of(&frame->call, &bytes))
        return refuse(p, frame, error);
    if (frame->sequence == p->heads_seen + 1)
        return open_message(p, frame, bytes, error);
    return go_on(p, frame, error);
}

hp_landing
hp_pair_landed(hp_pair *p)
{
    hp_landing landing = p->landing;
    p->landing = (hp_landing){0};
    if (landing.arrival) {
        landing.arrival->here = 1;
        landing.message = landing.arrival->receive;
    } else if (landing.message) {
        landing.message->moved += landing.bytes;
        for (int i = 0; i < p->cleared_n && landing.message->moved == landing.message->bytes; i++)
            if (p->cleared[i] == landing.message) {
                p->told = p->told == p->cleared_n ? p->told - 1 : 0;
                p->cleared[i] = p->cleared[--p->cleared_n];
            }
    }
    return landing;
}

void
hp_pair_read(hp_pair *p, hp_message *receive, hp_arrival *arrival)
{
    receive->begun = receive->moved = receive->bytes;
    p->owed += arrival->cost;
    give_arrival(&p->arrivals, arrival);
}

int
hp_pair_owes(const hp_pair *p, uint8_t payload[HP_CREDIT_BYTES])
{
    int again = p->told < p->cleared_n, clears = again || (p->to_clear.first && p->cleared_n < HP_CLEARED_MOST);
    hp_put64(payload, p->owed);
    hp_put64(payload + 8, again ? p->cleared[p->told]->number : clears ? p->to_clear.first->number : 0);
    return clears || p->owed - p->credited >= HP_CREDIT_LEAST;
}

void
hp_pair_credited(hp_pair *p)
{
    p->credited = p->owed;
    if (p->told == p->cleared_n && p->to_clear.first && p->cleared_n < HP_CLEARED_MOST)
        p->cleared[p->cleared_n++] = hp_message_pop(&p->to_clear);
    p->told += p->told < p->cleared_n;
}

void
hp_pair_again(hp_pair *p)
{
    p->told = 0;
    p->credited = 0;
}

int
hp_pair_awaits_data(const hp_pair *p)
{
    return p->matching.posted_n > 0 || p->cleared_n > 0 || p->to_clear.first || p->landing.message ||
           p->landing.arrival;
}

int
hp_pair_lacks_room(const hp_pair *p)
{
    const hp_message *head = p->heads.first;
    return head && head->bytes <= HP_EAGER_MOST && !may_travel_ahead(p, head);
}

int
hp_pair_awaits_credit(const hp_pair *p)
{
    return p->offered.first || hp_pair_lacks_room(p);
}
