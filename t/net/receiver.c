/* SPDX-License-Identifier: MIT */
/*
 * receiver: one stream of frames in parts of every size, and in random ones, gives the events of the undivided stream.
 * A changed byte anywhere is a fault, and no post is ever done with a wrong body. Nothing outside a body is written.
 */
#include "net/receiver.h"

#include "base/err.h"
#include "base/wire.h"
#include "t/tap/tap.h"

#include <string.h>

enum { SLICES = 9, BODY_MAX = 5000, GUARD = 32, POISON = 0xa5, STREAM_ROOM = 40000, RANDOM_CUTS = 300 };

/* What one stream is made of. Each body is at most BODY_MAX bytes. */
static const struct {
    uint32_t bytes;
    uint16_t flags;
    int pieces; /* it is received in several places */
} slices[SLICES] = {
    {0, HP_FRAME_CALL | HP_FRAME_PAYLOAD_CRC, 0},
    {1, HP_FRAME_PAYLOAD_CRC, 0},
    {23, HP_FRAME_PAYLOAD_CRC, 1},
    {2048, HP_FRAME_CALL | HP_FRAME_PAYLOAD_CRC, 0},
    {2049, HP_FRAME_PAYLOAD_CRC, 0},
    {BODY_MAX, HP_FRAME_PAYLOAD_CRC, 1},
    {0, HP_FRAME_PAYLOAD_CRC, 1},
    {BODY_MAX, HP_FRAME_CALL | HP_FRAME_PAYLOAD_CRC, 0},
    {5, HP_FRAME_PAYLOAD_CRC, 0},
};

/* The awaited slices, and where their bodies go: one place with guards, or three with gaps. */
typedef struct bench {
    hp_post posts[SLICES];
    hp_segment segments[SLICES][2];
    uint8_t memory[SLICES][BODY_MAX + 4 * GUARD];
} bench;

/* All that came of a stream. */
typedef struct outcome {
    int done, controls, type;
    size_t payload_n;
    uint64_t bytes;
    int failed;
    hoop_error error;
} outcome;

static uint8_t stream[STREAM_ROOM];
static size_t stream_n, ends[SLICES]; /* where each frame ends */

static uint8_t
body_byte(int slice, uint32_t at)
{
    return (uint8_t)((at * 131 + (uint32_t)slice * 29) >> 1);
}

static hp_frame
frame_of(int slice)
{
    hp_frame frame = {.flags = slices[slice].flags, .epoch = 7, .channel = 2, .sequence = 5, .step = (uint32_t)slice};
    frame.call = (hp_call){.kind = HP_ALLREDUCE, .dtype = HOOP_FLOAT32, .root = -1, .count = 100};
    frame.signature = hp_call_signature(&frame.call);
    return frame;
}

static size_t
put_slice(uint8_t *out, int slice)
{
    uint8_t body[BODY_MAX];
    hp_frame frame = frame_of(slice);
    for (uint32_t at = 0; at < slices[slice].bytes; at++)
        body[at] = body_byte(slice, at);
    frame.payload_crc = hp_crc32c(body, slices[slice].bytes);
    size_t head = hp_frame_put_data(out, &frame, slices[slice].bytes);
    memcpy(out + head, body, slices[slice].bytes);
    return head + slices[slice].bytes;
}

static void
make_stream(void)
{
    for (int i = 0; i < SLICES; i++) {
        stream_n += put_slice(stream + stream_n, i);
        ends[i] = stream_n;
    }
}

/* The first place is a third of the body; the others lie before it. */
static hp_iov
in_pieces(bench *b, int i, uint32_t n)
{
    uint32_t third = n / 3;
    uint8_t *memory = b->memory[i];
    b->segments[i][0] = (hp_segment){.count = third, .recv = memory + 2 * GUARD + n - 2 * third};
    b->segments[i][1] = (hp_segment){.count = n - 2 * third, .recv = memory + GUARD};
    return (hp_iov){
        .data = memory + 3 * GUARD + n - third, .run = third, .elem = 1, .rest = b->segments[i], .side = HP_SIDE_RECV};
}

static void
set_up(bench *b)
{
    memset(b->memory, POISON, sizeof(b->memory));
    for (int i = 0; i < SLICES; i++) {
        uint32_t n = slices[i].bytes;
        b->posts[i] = (hp_post){.frame = frame_of(i), .bytes = n};
        b->posts[i].body = slices[i].pieces ? in_pieces(b, i, n) : (hp_iov){.data = b->memory[i] + GUARD, .run = n};
    }
}

/* Whether slice i has its bytes, and everything round it is as it was. */
static int
is_whole(const bench *b, int i)
{
    uint8_t body[BODY_MAX];
    uint32_t poisoned = 0;
    hp_iov_copy(&b->posts[i].body, slices[i].bytes, body);
    for (uint32_t at = 0; at < slices[i].bytes; at++)
        if (body[at] != body_byte(i, at))
            return 0;
        else
            poisoned += body[at] == POISON;
    for (size_t at = 0; at < sizeof(b->memory[i]); at++)
        poisoned -= b->memory[i][at] == POISON;
    return poisoned == slices[i].bytes - (uint32_t)sizeof(b->memory[i]);
}

/* Puts at most `room` bytes into the places, as a read does. */
static size_t
read_into(const struct iovec *places, int count, const uint8_t *in, size_t room)
{
    size_t n = 0;
    for (int k = 0; k < count && n < room; k++) {
        size_t here = places[k].iov_len < room - n ? places[k].iov_len : room - n;
        memcpy(places[k].iov_base, in + n, here);
        n += here;
    }
    return n;
}

static void
note(outcome *o, const hp_received *received)
{
    o->bytes += received->progress;
    o->done += received->event == HP_EVENT_POST;
    o->failed = received->event == HP_EVENT_FAULT;
    if (received->event == HP_EVENT_CONTROL) {
        o->controls++;
        o->type = received->control.type;
        o->payload_n = received->control.n;
    }
}

/* Into parts of this size, or of random ones; late: a post is there only when no more can be read without it. */
typedef struct cut {
    size_t part; /* 0: random */
    int late;
} cut;

/* Where no slice is awaited; all of a head on the link of an owner, where each data frame has its call. */
static uint32_t first_read = HP_COMMON_BYTES;

static outcome
feed(bench *b, const uint8_t *in, size_t n, cut how)
{
    outcome o = {0};
    hp_receiver receiver;
    struct iovec places[HP_RECEIVER_PLACES];
    int posted = !how.late;
    hp_err_clear(&o.error);
    hp_receiver_init(&receiver, 1, 0);
    receiver.first_read = first_read;
    for (size_t at = 0, left = 0; (at < n || receiver.kept_at < receiver.kept_n) && !o.failed;) {
        const hp_post *post = o.done < SLICES && posted ? &b->posts[o.done] : NULL;
        int count = hp_receiver_places(&receiver, post, places);
        if (left == 0)
            left = how.part ? how.part : 1 + tap_pick(tap_pick(2) ? 100 : 5000);
        size_t got = hp_receiver_kept(&receiver, places, count);
        if (got == 0) {
            got = read_into(places, count, in + at, left < n - at ? left : n - at);
            at += got;
            left -= got;
        }
        int before = o.done;
        if (count > 0 || post) {
            hp_received received = hp_receiver_take(&receiver, post, got, &o.error);
            note(&o, &received);
        } else if (o.done == SLICES)
            break;
        posted = !how.late || (o.done == before && (posted || count == 0));
    }
    return o;
}

static int
same(const outcome *a, const outcome *b)
{
    return a->done == b->done && a->controls == b->controls && a->type == b->type && a->payload_n == b->payload_n &&
           a->failed == b->failed && a->error.code == b->error.code && a->error.sequence == b->error.sequence &&
           strcmp(a->error.text, b->error.text) == 0;
}

/* --- the same bytes in other parts --- */

static int
arrives(bench *b, cut how)
{
    set_up(b);
    outcome o = feed(b, stream, stream_n, how);
    int right = case_int(SLICES, o.done, "parts of %zu, late %d: slices", how.part, how.late) &&
                case_ok(!o.failed && o.controls == 0, "parts of %zu: %s", how.part, o.error.text);
    for (int i = 0; i < SLICES && right; i++)
        right = case_ok(is_whole(b, i), "parts of %zu, late %d: slice %d", how.part, how.late, i);
    return right;
}

static void
test_parts(bench *b)
{
    int every = 1, random = 1, late = 1;
    for (size_t part = 1; part <= 400 && every; part++)
        every = arrives(b, (cut){part, 0});
    for (size_t part = 401; part <= stream_n && every; part += 97)
        every = arrives(b, (cut){part, 0});
    ok(every && arrives(b, (cut){stream_n, 0}), "slices of all kinds arrive in parts of every size, and undivided");
    for (int k = 0; k < RANDOM_CUTS && random; k++)
        random = arrives(b, (cut){0, 0});
    ok(random, "and in random parts");
    for (size_t part = 1; part <= 100 && late; part++)
        late = arrives(b, (cut){part, 1});
    for (int k = 0; k < RANDOM_CUTS && late; k++)
        late = arrives(b, (cut){0, 1});
    ok(late && arrives(b, (cut){stream_n, 1}), "also if a post comes only when its head is complete");
}

/* --- changed bytes --- */

/* Which slice the byte belongs to. */
static int
slice_at(size_t at)
{
    int i = 0;
    while (ends[i] <= at)
        i++;
    return i;
}

static int
is_refused(bench *b, size_t at, uint8_t change, size_t part)
{
    int hit = slice_at(at);
    set_up(b);
    stream[at] ^= change;
    outcome o = feed(b, stream, stream_n, (cut){part, 0});
    stream[at] ^= change;
    int right = case_ok(o.failed && o.error.code == HOOP_ERR_CORRUPT, "byte %zu ^ %02x, parts of %zu: %d, %s", at,
                        change, part, (int)o.error.code, o.error.text) &&
                case_int(hit, o.done, "byte %zu ^ %02x, parts of %zu: slices done", at, change, part);
    for (int i = 0; i < o.done && right; i++)
        right = case_ok(is_whole(b, i), "byte %zu ^ %02x: slice %d", at, change, i);
    return right;
}

static void
test_changed_bytes(bench *b)
{
    int right = 1;
    for (size_t at = 0; at < stream_n && right; at++) {
        size_t from_end = ends[slice_at(at)] - at, in_frame = at - (slice_at(at) ? ends[slice_at(at) - 1] : 0);
        if (in_frame > 100 && from_end > 20 && at % 37 != 0)
            continue; /* one byte of a long body is like the next */
        right = is_refused(b, at, (uint8_t)(1 << tap_pick(8)), stream_n) &&
                is_refused(b, at, (uint8_t)(1 + tap_pick(255)), 0);
    }
    ok(right, "a changed byte is CORRUPT, and the slices before it are right");
}

/* --- frames that are not awaited --- */

/* The bytes give the same outcome in all parts; returns that. */
static outcome
in_all_parts(bench *b, const uint8_t *in, size_t n, const char *what)
{
    set_up(b);
    outcome whole = feed(b, in, n, (cut){n, 0});
    int right = 1;
    for (size_t part = 0; part < 120 && right; part++) {
        set_up(b);
        outcome o = feed(b, in, n, (cut){part, 0});
        right = case_ok(same(&whole, &o), "parts of %zu: %d %s instead of %d %s", part, o.done, o.error.text,
                        whole.done, whole.error.text);
    }
    ok(right, "%s: the same in all parts: %s", what, whole.error.text);
    return whole;
}

static void
test_other_frames(bench *b)
{
    static uint8_t in[STREAM_ROOM];
    for (int slice = 1; slice < SLICES; slice++) {
        size_t n = put_slice(in, slice);
        n += put_slice(in + n, 0);
        outcome o = in_all_parts(b, in, n, "another slice than the first");
        is_int(HOOP_ERR_PROTOCOL, o.error.code, "slice %d: PROTOCOL", slice);
        ok(o.failed && o.done == 0 && o.bytes == 0, "slice %d: no byte counts", slice);
    }
}

static void
test_control(bench *b)
{
    static uint8_t in[STREAM_ROOM], text[HP_CONTROL_MAX];
    static const size_t sizes[] = {0, 1, 27, 28, 29, 52, 300, HP_CONTROL_MAX};
    for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++)
        for (int before = 0; before < SLICES; before += 2) {
            size_t n = before ? ends[before - 1] : 0;
            memcpy(in, stream, n);
            n += hp_frame_put_control(in + n, HP_ABORT, text, sizes[k]);
            memcpy(in + n, stream, 100);
            outcome o = in_all_parts(b, in, n + 100, "a control frame");
            ok(!o.failed && o.done == before && o.controls == 1 && o.type == HP_ABORT && o.payload_n == sizes[k],
               "one of %zu bytes comes after %d slices, and what follows it is dropped", sizes[k], before);
        }
    size_t n = hp_frame_put_control(in, HP_LEAVE, "12345", 5);
    in[n - 1] ^= 1;
    is_int(HOOP_ERR_CORRUPT, in_all_parts(b, in, n, "a changed control frame").error.code, "is CORRUPT");
}

/* Questions and answers at the end, each alone and both, then last words: every byte behind each of them counts. */
static void
test_taken(bench *b)
{
    static uint8_t in[STREAM_ROOM], count[HP_TAKEN_BYTES] = {1}, text[HP_ABORT_BYTES];
    for (int before = 0; before < SLICES; before += 2)
        for (int k = 0; k < 8; k++) {
            int aborts = k & 4;
            size_t n = before ? ends[before - 1] : 0;
            memcpy(in, stream, n);
            for (int i = 0; i < 2; i++)
                if (k >> i & 1)
                    n += hp_frame_put_control(in + n, HP_TAKEN, count, i ? sizeof(count) : 0);
            n += hp_frame_put_control(in + n, aborts ? HP_ABORT : HP_LEAVE, text, aborts ? sizeof(text) : 0);
            outcome o = in_all_parts(b, in, n, "questions, answers and last words"), late;
            int right = 1;
            first_read = before ? HP_COMMON_BYTES : HP_DATA_HEAD_CALL;
            for (size_t part = 1; part < n + 2 && right; part += 1 + part / 100) {
                set_up(b);
                late = feed(b, in, n, (cut){part, 1});
                right = case_ok(same(&o, &late), "parts of %zu: %d %s", part, late.done, late.error.text);
            }
            first_read = HP_COMMON_BYTES;
            ok(right && !o.failed && o.done == before && o.controls == 1 + (k & 1) + (k >> 1 & 1) &&
                   o.type == (aborts ? HP_ABORT : HP_LEAVE),
               "%d slices%s%s: the last words are heard: %d frames", before, k & 1 ? ", a question" : "",
               k & 2 ? ", an answer" : "", o.controls);
        }
    size_t n = hp_frame_put_control(in, HP_TAKEN, text, HP_TAKEN_BYTES + 1);
    ok(in_all_parts(b, in, n, "a long question").failed, "is refused");
}

/* --- between the bytes --- */

static void
test_states(void)
{
    hp_receiver receiver;
    hp_post post = {.frame = frame_of(3), .bytes = slices[3].bytes};
    static uint8_t body[BODY_MAX];
    struct iovec places[HP_RECEIVER_PLACES];
    hoop_error error;
    const uint8_t *in = stream + ends[2];
    post.body = (hp_iov){.data = body, .run = post.bytes};
    hp_receiver_init(&receiver, 1, 0);
    ok(!hp_receiver_is_full(&receiver), "at first it is not full");
    is_int(1, hp_receiver_places(&receiver, NULL, places), "without a post the head's first part is read");
    is_uint(HP_COMMON_BYTES, places[0].iov_len, "and no more");
    memcpy(places[0].iov_base, in, HP_COMMON_BYTES);
    is_int(HP_EVENT_NONE, hp_receiver_take(&receiver, NULL, HP_COMMON_BYTES, &error).event, "nothing has happened");
    ok(!hp_receiver_is_full(&receiver), "nor in the middle of a head");
    hp_receiver_places(&receiver, NULL, places);
    is_uint(HP_DATA_HEAD_CALL - HP_COMMON_BYTES, places[0].iov_len, "the rest of the head is read");
    memcpy(places[0].iov_base, in + HP_COMMON_BYTES, places[0].iov_len);
    hp_receiver_take(&receiver, NULL, places[0].iov_len, &error);
    ok(hp_receiver_is_full(&receiver), "then it is full");
    is_int(0, hp_receiver_places(&receiver, NULL, places), "and reads nothing");
    is_uint(0, hp_receiver_body_left(&receiver, &post), "there is no body yet");
    hp_receiver_take(&receiver, &post, 0, &error);
    is_uint(post.bytes, hp_receiver_body_left(&receiver, &post), "with its post it is in the body");
    ok(!hp_receiver_is_full(&receiver), "and not full");
    is_int(1, hp_receiver_places(&receiver, &post, places), "the body is read in one piece");
    memcpy(places[0].iov_base, in + HP_DATA_HEAD_CALL, post.bytes);
    is_int(HP_EVENT_POST, hp_receiver_take(&receiver, &post, post.bytes, &error).event, "and done");
    ok(!hp_receiver_is_full(&receiver), "nor between two frames");
}

int
main(void)
{
    static bench b;
    tap_limit(240);
    plan_lazy();
    make_stream();
    test_parts(&b);
    test_changed_bytes(&b);
    test_other_frames(&b);
    test_control(&b);
    test_taken(&b);
    test_states();
    return 0;
}
