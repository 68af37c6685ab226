/* SPDX-License-Identifier: MIT */
/*
 * fuzz_receiver: what a member that breaks the protocol may send on a link, into net/receiver.c. The input says which
 * slices are awaited, then writes a stream: frames as they are awaited, frames with changed fields whose checksums are
 * right all the same, control frames, raw bytes. The stream is fed undivided, in crumbs (byte by byte unless it is
 * long), in other parts, and with posts that come late: the events must be the same. A post that is done has the bytes
 * of the stream, which passed every check.
 */
#include "base/err.h"
#include "base/wire.h"
#include "fuzz/fuzz.h"
#include "net/receiver.h"

#include <string.h>

const char fuzz_name[] = "receiver";

enum { POSTS = 4, STREAM_MAX = 9000, BODY_MAX = 2055, EVENTS_MAX = POSTS + 3 };
enum { CRUMBS = HP_IOV_ONCE + 40, SEGMENTS_MAX = CRUMBS + 1, READS = 600 };
enum { SLICE, CONTROL, RAW, COMMANDS };

/* How a slice is awaited. */
enum { AWAIT_CALL = 1, AWAIT_CRC = 2, AWAIT_PIECES = 4, AWAIT_CRUMBS = 8, AWAIT_OTHER_CALL = 16 };

/* How a slice that is sent differs from the one awaited; MENDED: its checksums are made right after that. FLAG: an unknown one. */
enum { SEND_CHANGED = 1, SEND_MENDED = 2, SEND_WRONG_CRC = 4, SEND_OTHER_SIZE = 8, SEND_FLAG = 16, SEND_OTHER = 32 };

typedef struct happened {
    hp_event event;
    int type;
    uint32_t payload_crc;
} happened;

/* Everything that a stream brought about. */
typedef struct trace {
    int count, done;
    happened events[EVENTS_MAX];
    uint64_t bytes;
    size_t at; /* in the stream: the frame of the current post */
    hoop_error error;
} trace;

static hp_post posts[POSTS];
static uint8_t *memory[POSTS];
static hp_segment segments[POSTS][SEGMENTS_MAX];
static uint8_t stream[STREAM_MAX];
static size_t stream_n;

static uint32_t
size_of(uint8_t code)
{
    return code < 0xf0 ? code : (uint32_t)code + BODY_MAX - 0xff;
}

/* --- the awaited slices --- */

/* The pieces lie in reverse order. */
static void
scatter(int k, uint32_t piece)
{
    uint32_t n = posts[k].bytes, first = piece < n ? piece : n, count = 0;
    for (uint32_t at = first; at < n; at += piece) {
        uint32_t here = piece < n - at ? piece : n - at;
        segments[k][count++] = (hp_segment){.count = here, .recv = memory[k] + n - at - here};
    }
    posts[k].body =
        (hp_iov){.data = memory[k] + n - first, .run = first, .elem = 1, .rest = segments[k], .side = HP_SIDE_RECV};
}

static void
await(int k, fuzz_script *s)
{
    uint32_t n = size_of(fuzz_next(s));
    int how = fuzz_next(s);
    hp_frame frame = {.epoch = 1, .channel = 2, .sequence = 5, .step = (uint32_t)k};
    frame.flags = (uint16_t)((how & AWAIT_CALL ? HP_FRAME_CALL : 0) | (how & AWAIT_CRC ? HP_FRAME_PAYLOAD_CRC : 0));
    frame.call = (hp_call){.kind = HP_ALLREDUCE, .root = -1, .count = how & AWAIT_OTHER_CALL ? 7 : 100};
    frame.signature = hp_call_signature(&frame.call);
    memory[k] = malloc(n > 0 ? n : 1);
    fuzz_check(memory[k]);
    posts[k] = (hp_post){.frame = frame, .bytes = n, .body = {.data = memory[k], .run = n}};
    if (how & AWAIT_PIECES)
        scatter(k, how & AWAIT_CRUMBS ? 1 + n / CRUMBS : 1 + n / 5);
}

/* --- the stream --- */

static void
mend(uint8_t *head)
{
    hp_put32(head + 12, hp_crc32c(head, 12));
    hp_put32(head + HP_DATA_HEAD - 4, hp_crc32c(head + HP_COMMON_BYTES, HP_DATA_BYTES - 4));
    if (hp_get16(head + 6) & HP_FRAME_CALL)
        hp_put32(head + HP_DATA_HEAD_CALL - 4, hp_crc32c(head + HP_DATA_HEAD, HP_CALL_BYTES));
}

static void
put_slice(fuzz_script *s, int k)
{
    int how = fuzz_next(s);
    const hp_post *post = &posts[how & SEND_OTHER ? fuzz_next(s) % POSTS : k];
    uint32_t n = how & SEND_OTHER_SIZE ? size_of(fuzz_next(s)) : post->bytes;
    uint8_t *head = stream + stream_n;
    hp_frame frame = post->frame;
    uint8_t body[BODY_MAX];
    if (stream_n + HP_DATA_HEAD_CALL + n > STREAM_MAX)
        return;
    for (uint32_t i = 0; i < n; i++)
        body[i] = (uint8_t)(i * 7 + (uint32_t)how);
    frame.payload_crc = hp_crc32c(body, n) ^ (how & SEND_WRONG_CRC ? fuzz_next(s) : 0u);
    frame.flags |= how & SEND_FLAG ? 4 : 0;
    size_t head_n = hp_frame_put_data(head, &frame, n);
    if (how & SEND_CHANGED) {
        size_t at = fuzz_next(s) % head_n;
        head[at] ^= fuzz_next(s);
        if (how & SEND_MENDED)
            mend(head);
    }
    memcpy(head + head_n, body, n);
    stream_n += head_n + n;
}

/* The last frames of a rank: its question, its answer, and last words. */
static void
put_parting(fuzz_script *s)
{
    uint8_t payload[HP_ABORT_BYTES] = {0}, how = fuzz_next(s);
    if (stream_n + 3 * sizeof(payload) > STREAM_MAX)
        return;
    if (how & 1)
        stream_n += hp_frame_put_control(stream + stream_n, HP_TAKEN, payload, 0);
    if (how & 2)
        stream_n += hp_frame_put_control(stream + stream_n, HP_TAKEN, payload, HP_TAKEN_BYTES);
    if (how & 4)
        stream_n += hp_frame_put_control(stream + stream_n, HP_LEAVE, payload, how & 8 ? sizeof(payload) : 0);
    s->left = 0;
}

static void
put_control(fuzz_script *s)
{
    uint8_t payload[HP_CONTROL_MAX] = {0};
    int type = fuzz_next(s);
    size_t n = fuzz_next(s) * 17u % (HP_CONTROL_MAX + 1);
    if (type == HP_TAKEN)
        put_parting(s);
    if (type == HP_TAKEN || stream_n + HP_COMMON_BYTES + n + 4 > STREAM_MAX)
        return;
    payload[0] = fuzz_next(s);
    stream_n += hp_frame_put_control(stream + stream_n, (hp_frame_type)type, payload, n);
}

static void
put_raw(fuzz_script *s)
{
    for (int n = fuzz_next(s); n > 0 && stream_n < STREAM_MAX; n--)
        stream[stream_n++] = fuzz_next(s);
}

static void
write_stream(fuzz_script *s)
{
    int k = 0;
    stream_n = 0;
    while (s->left > 0)
        switch (fuzz_next(s) % COMMANDS) {
        case SLICE: put_slice(s, k++ % POSTS); break;
        case CONTROL: put_control(s); break;
        default: put_raw(s);
        }
}

/* --- feeding --- */

/* The post is done: its bytes are those of the stream, and the frame in front of them is the awaited one. */
static void
check_done(trace *t)
{
    const hp_post *post = &posts[t->done];
    const uint8_t *in = stream + t->at;
    uint8_t body[BODY_MAX];
    hp_frame frame = {0};
    hoop_error error;
    fuzz_check(hp_frame_get_common(&frame, in, &error) == HOOP_SUCCESS && frame.type == HP_DATA);
    fuzz_check(hp_frame_get_data(&frame, in + HP_COMMON_BYTES, &error) == HOOP_SUCCESS);
    fuzz_check(frame.epoch == post->frame.epoch && frame.channel == post->frame.channel);
    fuzz_check(frame.sequence == post->frame.sequence && frame.step == post->frame.step);
    fuzz_check(frame.signature == post->frame.signature && hp_frame_payload(&frame) == post->bytes);
    in += hp_frame_head(frame.flags);
    fuzz_check(in + post->bytes <= stream + stream_n);
    fuzz_check(!(frame.flags & HP_FRAME_PAYLOAD_CRC) || hp_crc32c(in, post->bytes) == frame.payload_crc);
    hp_iov_copy(&post->body, post->bytes, body);
    fuzz_check(memcmp(body, in, post->bytes) == 0);
    t->at = (size_t)(in - stream) + post->bytes;
    t->done++;
}

static void
note(trace *t, const hp_received *received)
{
    happened *h = &t->events[t->count];
    t->bytes += received->progress;
    if (received->event == HP_EVENT_NONE)
        return;
    fuzz_check(t->count++ < EVENTS_MAX);
    *h = (happened){received->event, received->control.type, 0};
    if (received->event == HP_EVENT_CONTROL)
        h->payload_crc = hp_crc32c(received->control.payload, received->control.n);
    if (received->event == HP_EVENT_POST)
        check_done(t);
    if (received->event == HP_EVENT_FAULT)
        fuzz_check(t->error.code > HOOP_SUCCESS && t->error.text[0]);
}

/* Fills the places in order, as a read does. */
static size_t
read_into(const struct iovec *places, int count, const uint8_t *in, size_t room)
{
    size_t n = 0;
    for (int i = 0; i < count; i++) {
        size_t here = places[i].iov_len < room - n ? places[i].iov_len : room - n;
        fuzz_check(places[i].iov_len > 0 && count <= HP_RECEIVER_PLACES);
        ((uint8_t *)places[i].iov_base)[places[i].iov_len - 1] = 0; /* all of it may be written */
        memcpy(places[i].iov_base, in + n, here);
        n += here;
    }
    return n;
}

/* An owner refuses a frame without a call. */
static int
owner_posts(hp_receiver *receiver, hoop_error *error)
{
    return hp_receiver_head(receiver, error) == HOOP_SUCCESS && (receiver->frame.flags & HP_FRAME_CALL);
}

/*
 * part: bytes of each read at most; 0: it changes. late: a post comes when no more can be read without it; OWNED: as on a
 * link whose owner looks at the head of each frame, which has its call, before it posts.
 */
enum { OWNED = 2 };
static void
feed(trace *t, size_t part, int late)
{
    hp_receiver receiver;
    struct iovec places[HP_RECEIVER_PLACES];
    uint32_t seed = (uint32_t)stream_n;
    int posted = !late;
    memset(t, 0, sizeof(*t));
    hp_err_clear(&t->error);
    hp_receiver_init(&receiver, 1, 0);
    if (late == OWNED)
        receiver.first_read = HP_DATA_HEAD_CALL;
    for (size_t at = 0; t->count == 0 || t->events[t->count - 1].event != HP_EVENT_FAULT;) {
        int done = t->done;
        const hp_post *post = posted && done < POSTS ? &posts[done] : NULL;
        int count = hp_receiver_places(&receiver, post, places);
        fuzz_check(count > 0 || post || hp_receiver_is_full(&receiver));
        size_t kept = hp_receiver_kept(&receiver, places, count);
        if (at == stream_n && kept == 0 && (count > 0 || (!post && done == POSTS)))
            break;
        if (count == 0 && !post) {
            if (done == POSTS || (late == OWNED && !owner_posts(&receiver, &t->error)))
                break;
            posted = 1;
            continue;
        }
        seed = seed * 1664525 + 1013904223;
        size_t most = part ? part : 1 + (seed >> 16) % 90;
        size_t got = kept;
        if (kept == 0 && count > 0)
            got = read_into(places, count, stream + at, most < stream_n - at ? most : stream_n - at);
        at += got - kept;
        hp_received received = hp_receiver_take(&receiver, post, got, &t->error);
        note(t, &received);
        fuzz_check(!post || hp_receiver_body_left(&receiver, post) <= post->bytes);
        posted = !late || (posted && t->done == done);
    }
}

static void
check_same(const trace *a, const trace *b)
{
    fuzz_check(a->count == b->count && a->done == b->done && a->bytes == b->bytes);
    fuzz_check(memcmp(a->events, b->events, sizeof(a->events)) == 0);
    fuzz_check(a->error.code == b->error.code && a->error.sequence == b->error.sequence);
    fuzz_check(strcmp(a->error.text, b->error.text) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static trace whole, other;
    fuzz_script s = {data, size};
    for (int k = 0; k < POSTS; k++)
        await(k, &s);
    size_t part = 1u + fuzz_next(&s);
    write_stream(&s);
    size_t crumb = 1 + stream_n / READS;
    part = part < crumb ? crumb : part;
    feed(&whole, STREAM_MAX, 0);
    const struct {
        size_t part;
        int late;
    } ways[] = {{crumb, 0}, {part, 0}, {0, 0}, {STREAM_MAX, 1}, {crumb, 1}, {0, 1}};
    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
        feed(&other, ways[i].part, ways[i].late);
        check_same(&whole, &other);
    }
    feed(&other, STREAM_MAX, OWNED);
    feed(&other, crumb, OWNED);
    for (int k = 0; k < POSTS; k++)
        free(memory[k]);
    return 0;
}
