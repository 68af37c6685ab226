/* SPDX-License-Identifier: MIT */
/*
 * fuzz_pair: what a member that breaks the protocol may send in messages, into lib/pair.c. The input is a script: this rank
 * sends and receives; of the peer come heads, offers, slices and credits, as they are due or with changed fields; the
 * connection is made again. Every frame that is taken lands inside its message or its arrival, what is unread stays within
 * its bounds, no more room is given back than was used, and nothing is left at the end.
 */
#include "base/err.h"
#include "base/wire.h"
#include "fuzz/fuzz.h"
#include "lib/pair.h"

#include <string.h>

const char fuzz_name[] = "pair";

enum { MESSAGES = 64, SLICE = 4096, EPOCH = 2 };
enum { RECEIVE, SEND, NEXT, HEAD, GO_ON, LAND, CREDIT, OWE, AGAIN, COMMANDS };

/* How a frame differs from the one that is due. */
enum { OTHER_NUMBER = 1, OTHER_STEP = 2, OTHER_SIZE = 4, OTHER_CALL = 8, OTHER_HEAD = 16 };

static hp_message messages[MESSAGES];
static int count;
static hp_pair pair;
static uint64_t used; /* room that the peer's messages took */

/* Sizes of all kinds: none, short, those that may just travel ahead, and longer ones. */
static uint32_t
size_of(fuzz_script *s)
{
    uint32_t code = fuzz_next(s);
    return code < 64    ? code
           : code < 128 ? (code - 64) * HP_EAGER_LEAST
                        : HP_EAGER_MOST - 192 + code + (code >> 6) * SLICE;
}

static hp_call
call_of(fuzz_script *s, uint32_t bytes)
{
    uint8_t how = fuzz_next(s);
    return (hp_call){.kind = how & 8 ? HP_ALLTOALLV : HP_SEND, .dtype = HOOP_UINT8, .root = how % 3, .count = bytes};
}

static hp_message *
new_message(fuzz_script *s, int sending)
{
    uint32_t bytes = size_of(s);
    hp_message *m = &messages[count++];
    *m = (hp_message){.peer = 1, .sending = sending, .bytes = bytes, .data = malloc(bytes > 0 ? bytes : 1)};
    fuzz_check(m->data);
    memset(m->data, count, bytes);
    m->call = call_of(s, bytes);
    m->on_device = !sending && bytes > 0 && fuzz_next(s) % 2;
    return m;
}

static void
read_arrival(hp_message *receive, hp_arrival *arrival)
{
    fuzz_check(receive->bytes == arrival->bytes && arrival->bytes <= arrival->cost);
    memcpy(receive->data, arrival->data, receive->bytes);
    hp_pair_read(&pair, receive, arrival);
}

static hoop_result
receive(fuzz_script *s, hoop_error *error)
{
    hp_arrival *arrival;
    hoop_result result = hp_pair_receive(&pair, new_message(s, 0), &arrival, error);
    if (result == HOOP_SUCCESS && arrival)
        read_arrival(&messages[count - 1], arrival);
    return result;
}

static void
next(fuzz_script *s)
{
    hp_piece piece;
    if (!hp_pair_next(&pair, fuzz_next(s) % 2, &piece))
        return;
    fuzz_check(piece.at + piece.bytes <= piece.message->bytes);
    hp_frame frame = hp_pair_frame(&pair, &piece);
    fuzz_check(frame.sequence >= 1 && frame.sequence <= pair.started);
    fuzz_check(!hp_pair_sent(&piece) || piece.message->begun == piece.message->bytes);
}

/* --- the peer --- */

static hoop_result
take_frame(hp_frame frame, uint32_t bytes, fuzz_script *s, hoop_error *error)
{
    int how = fuzz_next(s);
    if (how & OTHER_NUMBER)
        frame.sequence += (uint64_t)fuzz_next(s) - 128;
    if (how & OTHER_STEP)
        frame.step = fuzz_next(s) % 4;
    if (how & OTHER_SIZE)
        bytes = size_of(s);
    if (how & OTHER_CALL)
        frame.call =
            (hp_call){.kind = fuzz_next(s), .dtype = fuzz_next(s), .root = fuzz_next(s), .count = fuzz_next(s)};
    frame.call.count <<= how & OTHER_CALL ? fuzz_next(s) % 64 : 0;
    frame.signature = hp_call_signature(&frame.call);
    if (how & OTHER_HEAD) {
        frame.epoch = fuzz_next(s) % 4;
        frame.flags = fuzz_next(s);
        frame.signature ^= fuzz_next(s);
    }
    frame.length = HP_DATA_HEAD_CALL - HP_COMMON_BYTES + bytes;
    uint64_t seen = pair.heads_seen, cost = HP_EAGER_LEAST;
    hoop_result result = hp_pair_head(&pair, &frame, error);
    while (cost < bytes)
        cost *= 2;
    if (result == HOOP_SUCCESS && pair.heads_seen > seen && frame.step == 1)
        used += cost;
    return result;
}

/* The first frame of the peer's next message. */
static hoop_result
head(fuzz_script *s, hoop_error *error)
{
    uint32_t bytes = size_of(s), ahead = bytes <= HP_EAGER_MOST && fuzz_next(s) % 4;
    hp_frame frame = {.type = HP_DATA, .flags = HP_FRAME_CALL, .epoch = EPOCH, .channel = HP_MESSAGE_CHANNEL};
    frame.sequence = pair.heads_seen + 1;
    frame.step = ahead;
    frame.call = call_of(s, bytes);
    return take_frame(frame, ahead ? bytes : 0, s, error);
}

/* The next slice of a message that was let come. */
static hoop_result
go_on(fuzz_script *s, hoop_error *error)
{
    if (pair.cleared_n == 0)
        return HOOP_SUCCESS;
    const hp_message *m = pair.cleared[fuzz_next(s) % pair.cleared_n];
    uint64_t left = m->bytes - m->begun, most = m->bytes <= HP_EAGER_MOST ? HP_EAGER_MOST : SLICE;
    hp_frame frame = {.type = HP_DATA, .flags = HP_FRAME_CALL, .epoch = EPOCH, .channel = HP_MESSAGE_CHANNEL};
    frame.sequence = m->number;
    frame.step = m->step + 1;
    frame.call = m->call;
    return take_frame(frame, (uint32_t)(left < most ? left : most), s, error);
}

static void
land(void)
{
    const hp_landing *to = &pair.landing;
    if (to->message) {
        fuzz_check(to->at + to->bytes <= to->message->bytes);
        memset(to->message->data + to->at, 0xaa, to->bytes);
    } else if (to->arrival) {
        fuzz_check(to->bytes <= to->arrival->cost);
        memset(to->arrival->data, 0xbb, to->bytes);
    }
    hp_landing landed = hp_pair_landed(&pair);
    if (landed.message && landed.arrival)
        read_arrival(landed.message, landed.arrival);
}

static hoop_result
credit(fuzz_script *s, hoop_error *error)
{
    uint8_t payload[HP_CREDIT_BYTES];
    const hp_message *offered = pair.offered.first;
    uint8_t how = fuzz_next(s);
    hp_put64(payload, how & 1 ? pair.returned : how & 2 ? pair.used : (uint64_t)fuzz_next(s) << fuzz_next(s) % 57);
    hp_put64(payload + 8, how & 4 ? fuzz_next(s) : offered ? offered->number : 0);
    return hp_pair_credit(&pair, payload, error);
}

static void
owe(void)
{
    uint8_t payload[HP_CREDIT_BYTES];
    if (!hp_pair_owes(&pair, payload))
        return;
    fuzz_check(hp_get64(payload) <= used && hp_get64(payload + 8) <= pair.heads_seen);
    hp_pair_credited(&pair);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_script s = {data, size};
    hoop_error error;
    hoop_result result = HOOP_SUCCESS;
    hp_pair_init(&pair, 0, 1, EPOCH, SLICE);
    used = 0;
    count = 0;
    while (s.left > 0 && result == HOOP_SUCCESS && count < MESSAGES) {
        int busy = pair.landing.message || pair.landing.arrival, command = fuzz_next(&s) % COMMANDS;
        if (busy && (command == HEAD || command == GO_ON)) /* a link reads a frame whole */
            command = LAND;
        switch (command) {
        case RECEIVE: result = receive(&s, &error); break;
        case SEND: hp_pair_send(&pair, new_message(&s, 1)); break;
        case NEXT: next(&s); break;
        case HEAD: result = head(&s, &error); break;
        case GO_ON: result = go_on(&s, &error); break;
        case LAND: land(); break;
        case CREDIT: result = credit(&s, &error); break;
        case OWE: owe(); break;
        default: hp_pair_again(&pair);
        }
        fuzz_check(pair.arrivals.unread <= HP_EAGER_ROOM && pair.arrivals.offers <= HP_OFFERS_MOST);
        fuzz_check(pair.owed <= used && pair.returned <= pair.used);
    }
    fuzz_check(result == HOOP_SUCCESS || error.code == result);
    hp_pair_free(&pair);
    fuzz_check(pair.arrivals.allocated == 0);
    while (count > 0)
        free(messages[--count].data);
    return 0;
}
