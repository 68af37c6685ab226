/* SPDX-License-Identifier: MIT */
/*
 * lib/pair: two ranks that exchange random messages over a network that delays what a seed says. All messages come, in
 * the order of their tags, to the right receives; nothing locks, whatever is left unread meanwhile; the memory of unread
 * messages stays within its bounds. Then frames that must be refused.
 */
#include "base/err.h"
#include "base/mem.h"
#include "base/wire.h"
#include "lib/pair.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGES = 120, FRAMES = 1 << 14, TAGS = 4, SLICE = 16 << 10, LARGEST = 200000 };

typedef struct packet {
    hp_frame frame;
    uint8_t *payload;
    uint32_t bytes;
} packet;

/* What one rank sends to the other: frames there, credits back. */
typedef struct wire {
    packet frame[FRAMES];
    uint8_t credit[FRAMES][HP_CREDIT_BYTES];
    int frames, frames_taken, credits, credits_taken;
} wire;

typedef struct end {
    hp_pair pair;
    hp_message send[MESSAGES], receive[MESSAGES];
    int sent, posted, sends_done, receives_done;
    int arriving; /* the head of a frame is in, its payload is not */
    int right;
} end;

static wire wires[2];
static end ends[2];
static int breaks;
static int script_tag[2][MESSAGES]; /* by direction: the tags of the receives, in the order of their calls */

static uint8_t
byte_of(const hp_message *message, uint64_t number)
{
    return (uint8_t)(1 + (number * 37 + (uint64_t)message->call.root * 101) % 251);
}

static uint32_t
some_size(int most)
{
    static const uint32_t edges[] = {0, 1, HP_EAGER_LEAST, HP_EAGER_LEAST + 1, HP_EAGER_MOST, HP_EAGER_MOST + 1};
    return tap_pick(3) ? (uint32_t)tap_pick((uint64_t)most) : edges[tap_pick(6)];
}

static hp_message
message_of(int peer, int sending, int tag, uint32_t bytes)
{
    hp_message m = {.peer = peer, .sending = sending, .bytes = bytes, .data = hp_alloc(1, bytes + 1)};
    m.call = (hp_call){.kind = HP_SEND, .dtype = HOOP_UINT8, .root = tag, .count = bytes};
    return m;
}

/* All messages of one direction: the receives come in another order of tags. */
static void
write_script(int from, int most)
{
    end *s = &ends[from], *r = &ends[1 - from];
    int next[TAGS] = {0}, order[MESSAGES];
    for (int i = 0; i < MESSAGES; i++) {
        s->send[i] = message_of(1 - from, 1, (int)tap_pick(TAGS), some_size(most));
        memset(s->send[i].data, byte_of(&s->send[i], (uint64_t)i + 1), s->send[i].bytes);
        order[i] = i;
    }
    if (tap_pick(3))
        tap_shuffle(order, MESSAGES);
    for (int i = 0; i < MESSAGES; i++)
        script_tag[from][i] = s->send[order[i]].call.root;
    for (int i = 0; i < MESSAGES; i++) {
        int tag = script_tag[from][i], k = next[tag];
        while (s->send[k].call.root != tag)
            k++;
        next[tag] = k + 1;
        r->receive[i] = message_of(from, 0, tag, (uint32_t)s->send[k].bytes + (tap_pick(2) ? some_size(most) : 0));
        r->receive[i].on_device = r->receive[i].bytes > 0 && tap_pick(2);
    }
}

/* --- the network --- */

static int
push_frame(int from)
{
    hp_piece piece;
    wire *w = &wires[from];
    if (w->frames - w->frames_taken > 3 || !hp_pair_next(&ends[from].pair, w->frames > w->frames_taken, &piece))
        return 0;
    packet *p = &w->frame[w->frames++];
    *p = (packet){.frame = hp_pair_frame(&ends[from].pair, &piece), .bytes = piece.bytes};
    p->frame.length = HP_DATA_HEAD_CALL - HP_COMMON_BYTES + piece.bytes;
    p->payload = malloc(piece.bytes + 1);
    memcpy(p->payload, piece.message->data + piece.at, piece.bytes);
    ends[from].sends_done += hp_pair_sent(&piece);
    return 1;
}

static void
complete(end *e, hp_message *m)
{
    e->right &= m->moved == m->bytes && m->begun == m->bytes;
    for (uint64_t i = 0; i < m->bytes; i++)
        e->right &= m->data[i] == byte_of(m, m->number);
    e->receives_done++;
}

/* What travels ahead lands in an arrival where its receive is in a GPU's memory: only slices are awaited there. */
static int
may_land(const hp_pair *pair)
{
    const hp_message *m = pair->landing.message;
    return !m || !m->on_device || hp_pair_cleared(pair, m->number) == m;
}

/* The payload of the frame lands. */
static void
land(end *e, packet *p)
{
    uint8_t *to = e->pair.landing.arrival ? e->pair.landing.arrival->data : NULL;
    if (e->pair.landing.message)
        to = e->pair.landing.message->data + e->pair.landing.at;
    e->right &= e->pair.landing.bytes == p->bytes && may_land(&e->pair);
    if (to)
        memcpy(to, p->payload, p->bytes);
    hp_landing landed = hp_pair_landed(&e->pair);
    if (landed.arrival && landed.message) {
        memcpy(landed.message->data, landed.arrival->data, landed.message->bytes);
        hp_pair_read(&e->pair, landed.message, landed.arrival);
    }
    if (landed.message && landed.message->moved == landed.message->bytes)
        complete(e, landed.message);
    free(p->payload);
    e->arriving = 0;
}

static int
pull_frame(int from)
{
    wire *w = &wires[from];
    end *e = &ends[1 - from];
    hoop_error error;
    if (e->arriving) {
        land(e, &w->frame[w->frames_taken++]);
        return 1;
    }
    if (w->frames == w->frames_taken)
        return 0;
    e->right &= hp_pair_head(&e->pair, &w->frame[w->frames_taken].frame, &error) == HOOP_SUCCESS;
    e->arriving = 1;
    return 1;
}

static int
push_credit(int to)
{
    end *e = &ends[1 - to];
    wire *w = &wires[to];
    if (!hp_pair_owes(&e->pair, w->credit[w->credits]))
        return 0;
    w->credits++;
    hp_pair_credited(&e->pair);
    return 1;
}

static int
pull_credit(int to)
{
    hoop_error error;
    wire *w = &wires[to];
    if (w->credits == w->credits_taken)
        return 0;
    ends[to].right &= hp_pair_credit(&ends[to].pair, w->credit[w->credits_taken++], &error) == HOOP_SUCCESS;
    return 1;
}

/* The connection breaks: credits on their way are lost, and frames are not, since the link sends them again. */
static int
lose_credits(int to)
{
    wire *w = &wires[to];
    if (!breaks || tap_pick(20))
        return 0;
    w->credits_taken = w->credits;
    hp_pair_again(&ends[1 - to].pair);
    return 1;
}

/* --- the programs --- */

static int
call_send(int rank)
{
    end *e = &ends[rank];
    if (e->sent == MESSAGES)
        return 0;
    hp_pair_send(&e->pair, &e->send[e->sent++]);
    return 1;
}

static int
call_receive(int rank)
{
    end *e = &ends[rank];
    hoop_error error;
    hp_arrival *here;
    if (e->posted == MESSAGES)
        return 0;
    hp_message *m = &e->receive[e->posted++];
    e->right &= hp_pair_receive(&e->pair, m, &here, &error) == HOOP_SUCCESS;
    if (here) {
        memcpy(m->data, here->data, m->bytes);
        hp_pair_read(&e->pair, m, here);
        complete(e, m);
    }
    return 1;
}

static int
is_bounded(const end *e)
{
    return e->pair.arrivals.unread <= HP_EAGER_ROOM && e->pair.arrivals.allocated <= 3 * HP_EAGER_ROOM / 2;
}

/* Random moves; receives are called seldom where `late`, and all when nothing else moves. 0: it is locked. */
static int
run(int late)
{
    static int (*const moves[])(int) = {push_frame, pull_frame,   push_credit, pull_credit,
                                        call_send,  call_receive, lose_credits};
    int idle = 0;
    while (ends[0].receives_done + ends[1].receives_done < 2 * MESSAGES) {
        int move = (int)tap_pick(7), rank = (int)tap_pick(2), moved = 0;
        if (move == 5 && late && tap_pick(50) && idle < 200)
            continue;
        moved = moves[move](rank);
        idle = moved ? 0 : idle + 1;
        if (idle > 5000 || !ends[0].right || !ends[1].right || !is_bounded(&ends[0]) || !is_bounded(&ends[1]))
            return 0;
    }
    return 1;
}

static void
tidy(void)
{
    for (int rank = 0; rank < 2; rank++) {
        for (wire *w = &wires[rank]; w->frames_taken < w->frames; w->frames_taken++)
            free(w->frame[w->frames_taken].payload);
        for (int i = 0; i < MESSAGES; i++) {
            free(ends[rank].send[i].data);
            free(ends[rank].receive[i].data);
        }
        hp_pair_free(&ends[rank].pair);
    }
}

/* 1 if the receives of each tag got its messages in their order. */
static int
in_order(int from)
{
    uint64_t last[TAGS] = {0};
    for (int i = 0; i < MESSAGES; i++) {
        const hp_message *m = &ends[1 - from].receive[i];
        if (m->number <= last[m->call.root])
            return 0;
        last[m->call.root] = m->number;
    }
    return 1;
}

static int
random_exchange(int late, int most)
{
    memset(wires, 0, sizeof(wires));
    memset(ends, 0, sizeof(ends));
    for (int rank = 0; rank < 2; rank++) {
        hp_pair_init(&ends[rank].pair, rank, 1 - rank, 0, SLICE);
        ends[rank].right = 1;
    }
    write_script(0, most);
    write_script(1, most);
    int good = run(late) && in_order(0) && in_order(1);
    tidy();
    return good;
}

static void
exchanges(void)
{
    int good = 0, n = 120;
    for (int i = 0; i < n; i++) {
        int late = i % 2, most = i % 3 == 0 ? LARGEST : i % 3 == 1 ? HP_EAGER_MOST : 2000;
        breaks = i % 2;
        good += case_ok(random_exchange(late, most), "exchange %d, late %d, up to %d bytes: %d and %d of %d received",
                        i, late, most, ends[0].receives_done, ends[1].receives_done, MESSAGES);
    }
    is_int(n, good, "random messages both ways: all come, in order, within the bounds, and nothing locks");
}

/* --- what must be refused --- */

static hp_frame
frame_of(hp_pair *sender, hp_message *m)
{
    hp_piece piece;
    hp_pair_send(sender, m);
    hp_pair_next(sender, 0, &piece);
    hp_frame frame = hp_pair_frame(sender, &piece);
    frame.length = HP_DATA_HEAD_CALL - HP_COMMON_BYTES + piece.bytes;
    return frame;
}

static hoop_result
received_as(hp_message *sent, hp_message *posted, int late, hoop_error *error)
{
    hp_pair a, b;
    hp_arrival *here;
    hoop_result result = HOOP_SUCCESS;
    hp_pair_init(&a, 1, 0, 0, SLICE);
    hp_pair_init(&b, 0, 1, 0, SLICE);
    hp_err_clear(error);
    if (!late)
        hp_pair_receive(&b, posted, &here, error);
    hp_frame frame = frame_of(&a, sent);
    result = hp_pair_head(&b, &frame, error);
    if (late && result == HOOP_SUCCESS)
        result = hp_pair_receive(&b, posted, &here, error);
    if (late && result != HOOP_SUCCESS && hp_frame_payload(&frame) > 0 && hp_pair_landed(&b).message)
        result = HOOP_ERR_INTERNAL; /* the bytes that are on their way belong to no receive */
    hp_pair_free(&b);
    return result;
}

static void
mismatches(void)
{
    int good = 0, n = 0;
    for (int late = 0; late < 2; late++)
        for (uint32_t bytes = 5; bytes < 100000; bytes *= 50, n++) {
            hp_message sent = {.sending = 1, .bytes = bytes}, posted = {.bytes = bytes - 1};
            hoop_error e;
            char wanted[160];
            sent.call = (hp_call){.kind = HP_SEND, .dtype = HOOP_INT8, .root = 3, .count = bytes};
            posted.call = sent.call;
            posted.call.count--;
            snprintf(wanted, sizeof(wanted),
                     "rank 1 called send of %u x int8 (tag 3) to rank 0, but rank 0 called recv of %u x int8 (tag 3) "
                     "from rank 1",
                     bytes, bytes - 1);
            hoop_result result = received_as(&sent, &posted, late, &e);
            good += case_ok(result == HOOP_ERR_MISMATCH && strcmp(e.text, wanted) == 0, "late %d: %d %s", late,
                            (int)result, e.text);
        }
    is_int(n, good, "a receive that is too small is a mismatch, and the sentence has both calls");
}

static void
other_type(void)
{
    hp_message sent = {.sending = 1, .bytes = 8}, posted = {.bytes = 8};
    hoop_error e;
    sent.call = (hp_call){.kind = HP_SEND, .dtype = HOOP_INT64, .root = 0, .count = 1};
    posted.call = (hp_call){.kind = HP_SEND, .dtype = HOOP_INT32, .root = 0, .count = 2};
    is_int(HOOP_ERR_MISMATCH, received_as(&sent, &posted, 0, &e), "another type of as many bytes is a mismatch: %s",
           e.text);
}

/* Frames with random fields: refused or taken, and memory is never exceeded. */
static void
wild_frames(void)
{
    int refused = 0, taken = 0, n = 20000;
    hp_pair p;
    hp_pair_init(&p, 0, 1, 0, SLICE);
    for (int i = 0; i < n; i++) {
        hoop_error error;
        hp_frame f = {.type = HP_DATA, .flags = HP_FRAME_CALL, .channel = HP_MESSAGE_CHANNEL};
        f.sequence = p.heads_seen + tap_pick(3);
        f.step = (uint32_t)tap_pick(3);
        f.call = (hp_call){.kind = tap_pick(9) ? HP_SEND : (uint8_t)tap_pick(80), .dtype = (uint8_t)tap_pick(13)};
        f.call.count = tap_pick(2) ? tap_pick(20000) : tap_random();
        f.call.root = (int32_t)tap_pick(1000) - 1;
        f.signature = hp_call_signature(&f.call);
        uint64_t bytes = f.call.count * hoop_dtype_size((hoop_dtype)f.call.dtype);
        f.length = HP_DATA_HEAD_CALL - HP_COMMON_BYTES + (f.step && tap_pick(9) ? (uint32_t)bytes : 0);
        if (hp_pair_head(&p, &f, &error) == HOOP_SUCCESS) {
            hp_pair_landed(&p);
            taken++;
        } else {
            refused++;
        }
        if (p.arrivals.unread > HP_EAGER_ROOM || p.arrivals.offers > HP_OFFERS_MOST)
            break;
    }
    ok(taken + refused == n && taken > 100 && refused > 100, "frames with any fields are taken (%d) or refused (%d)",
       taken, refused);
    hp_pair_free(&p);
}

static void
wild_credits(void)
{
    hp_pair p;
    hp_message m = {.sending = 1, .bytes = 100000, .call = {.kind = HP_SEND, .dtype = HOOP_INT8, .count = 100000}};
    uint8_t credit[HP_CREDIT_BYTES];
    hoop_error error;
    hp_piece piece;
    hp_pair_init(&p, 0, 1, 0, SLICE);
    hp_pair_send(&p, &m);
    hp_put64(credit, 0);
    hp_put64(credit + 8, 1);
    is_int(HOOP_ERR_PROTOCOL, hp_pair_credit(&p, credit, &error), "a message that was not offered cannot be cleared");
    hp_pair_next(&p, 0, &piece);
    hp_put64(credit, 1);
    is_int(HOOP_ERR_PROTOCOL, hp_pair_credit(&p, credit, &error), "nor can room be given back that was not used");
}

int
main(void)
{
    plan(6);
    tap_limit(240);
    exchanges();
    mismatches();
    other_type();
    wild_frames();
    wild_credits();
    return 0;
}
