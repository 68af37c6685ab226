/* SPDX-License-Identifier: MIT */
/*
 * frame: heads and control frames against bytes written out by hand, against a checksum of the test's own, at every
 * split, with every bit flipped, and every type with every length that is too small or too large.
 */
#include "net/frame.h"

#include "base/err.h"
#include "base/wire.h"
#include "t/tap/tap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* CRC32C bit by bit, so that the product's is checked too. */
static uint32_t
reference_crc(const uint8_t *bytes, size_t n)
{
    uint32_t crc = 0xffffffff;
    for (size_t k = 0; k < n; k++) {
        crc ^= bytes[k];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
    }
    return ~crc;
}

static void
make_common(uint8_t out[HP_COMMON_BYTES], uint8_t version, uint8_t type, uint16_t flags, uint32_t length)
{
    memcpy(out, "HOOP", 4);
    out[4] = version;
    out[5] = type;
    hp_put16(out + 6, flags);
    hp_put32(out + 8, length);
    hp_put32(out + 12, reference_crc(out, 12));
}

/* Random fields; payload is what follows the head. */
static hp_frame
random_frame(uint32_t *payload)
{
    hp_frame frame = {.flags = (uint16_t)(tap_random() & 3),
                      .epoch = (uint32_t)tap_random(),
                      .channel = (uint16_t)tap_random(),
                      .sequence = tap_random(),
                      .step = (uint32_t)tap_random(),
                      .signature = (uint32_t)tap_random()};
    if (frame.flags & HP_FRAME_PAYLOAD_CRC)
        frame.payload_crc = (uint32_t)tap_random();
    if (frame.flags & HP_FRAME_CALL)
        frame.call = (hp_call){.kind = HP_BROADCAST,
                               .dtype = HOOP_FLOAT16,
                               .op = HOOP_MAX,
                               .fused = 1,
                               .root = (int32_t)tap_random(),
                               .count = tap_random()};
    *payload = (uint32_t)(tap_random() % (HP_SLICE_MAX + 1));
    return frame;
}

static int
same(const hp_frame *a, const hp_frame *b)
{
    return a->flags == b->flags && a->epoch == b->epoch && a->channel == b->channel && a->sequence == b->sequence &&
           a->step == b->step && a->signature == b->signature && a->payload_crc == b->payload_crc &&
           (!(a->flags & HP_FRAME_CALL) || hp_call_equal(&a->call, &b->call));
}

static hoop_result
get(hp_frame *frame, const uint8_t *in, hoop_error *error)
{
    hoop_result result = hp_frame_get_common(frame, in, error);
    if (result != HOOP_SUCCESS)
        return result;
    return frame->type == HP_DATA ? hp_frame_get_data(frame, in + HP_COMMON_BYTES, error) : HOOP_SUCCESS;
}

/* The layout, byte by byte. The checksums come from an independent program. */
static void
known_bytes(void)
{
    static const uint8_t wanted[HP_DATA_HEAD_CALL] = {
        'H',  'O',  'O',  'P',  1,    64,   3,    0,    0x39, 0,    0,    0,    0x95, 0x1e, 0x44, 0x42, 4,
        3,    2,    1,    6,    5,    0,    0,    8,    7,    6,    5,    4,    3,    2,    1,    0x14, 0x13,
        0x12, 0x11, 0x24, 0x23, 0x22, 0x21, 0x34, 0x33, 0x32, 0x31, 0x5b, 0x76, 0x22, 0x54, 4,    7,    0,
        0,    2,    0,    0,    0,    100,  0,    0,    0,    0,    0,    0,    0,    0x51, 0x37, 0xce, 0xe3};
    hp_frame frame = {.flags = 3,
                      .epoch = 0x01020304,
                      .channel = 0x0506,
                      .sequence = 0x0102030405060708,
                      .step = 0x11121314,
                      .signature = 0x21222324,
                      .payload_crc = 0x31323334,
                      .call = {.kind = HP_BROADCAST, .dtype = HOOP_FLOAT32, .op = HOOP_SUM, .root = 2, .count = 100}};
    uint8_t bytes[HP_DATA_HEAD_CALL];
    is_int(HP_DATA_HEAD_CALL, hp_frame_put_data(bytes, &frame, 5), "a head with a call has 68 bytes");
    is_blob(wanted, bytes, sizeof(wanted), "a data head has the known bytes");
}

static void
round_trips(void)
{
    int right = 0;
    const int tries = 10000;
    for (int k = 0; k < tries; k++) {
        uint32_t payload;
        uint8_t bytes[HP_DATA_HEAD_CALL];
        hp_frame frame = random_frame(&payload), back;
        uint32_t head = hp_frame_put_data(bytes, &frame, payload);
        memset(&back, 0, sizeof(back));
        right += case_ok(get(&back, bytes, NULL) == HOOP_SUCCESS && back.type == HP_DATA && same(&frame, &back),
                         "head %d, flags %#x: other fields come back", k, (unsigned)frame.flags) &&
                 case_int(payload, hp_frame_payload(&back), "head %d, flags %#x: payload", k, (unsigned)frame.flags) &&
                 case_int(hp_frame_head(frame.flags), head, "head %d, flags %#x: bytes", k, (unsigned)frame.flags) &&
                 case_int(reference_crc(bytes, 12), hp_get32(bytes + 12), "head %d: first checksum", k) &&
                 case_int(reference_crc(bytes + 16, 28), hp_get32(bytes + 44), "head %d: second checksum", k);
    }
    is_int(tries, right, "random data heads come back as they went");
    hp_frame frame = {.payload_crc = 77}, back;
    uint8_t bytes[HP_DATA_HEAD];
    hp_frame_put_data(bytes, &frame, 0);
    ok(get(&back, bytes, NULL) == HOOP_SUCCESS && back.payload_crc == 0,
       "without its flag there is no payload checksum");
}

static void
flipped_bits(void)
{
    int flips = 0, caught = 0;
    for (int k = 0; k < 40; k++) {
        uint32_t payload;
        uint8_t bytes[HP_DATA_HEAD_CALL];
        hp_frame frame = random_frame(&payload), back;
        uint32_t head = hp_frame_put_data(bytes, &frame, payload);
        for (uint32_t bit = 0; bit < head * 8; bit++, flips++) {
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            caught += get(&back, bytes, NULL) == HOOP_ERR_CORRUPT;
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
    }
    is_int(flips, caught, "each flipped bit of a data head is CORRUPT, nothing else");
}

/* The table of hoop_protocol(7), once more: bytes that may follow the common header. 0, 0: no such type. */
static void
limits_of(int type, uint32_t *min, uint32_t *max)
{
    static const uint32_t handshake[] = {0, 128, 96, 32, 48};
    *min = *max = 0;
    if (type >= 1 && type <= 4)
        *min = *max = handshake[type];
    if ((type >= 16 && type <= 37) || (type >= 65 && type <= 70)) {
        *min = 4;
        *max = 4100;
    }
    if (type == 64) {
        *min = 32;
        *max = 32 + (16 << 20);
    }
}

static int
refused_length(int type, uint32_t length)
{
    uint8_t bytes[HP_COMMON_BYTES];
    hp_frame frame;
    hoop_error error;
    make_common(bytes, 1, (uint8_t)type, 0, length);
    hp_err_clear(&error);
    return hp_frame_get_common(&frame, bytes, &error) == HOOP_ERR_PROTOCOL && error.code == HOOP_ERR_PROTOCOL &&
           error.text[0] != '\0';
}

static int
taken_length(int type, uint32_t length)
{
    uint8_t bytes[HP_COMMON_BYTES];
    hp_frame frame;
    make_common(bytes, 1, (uint8_t)type, 0, length);
    return hp_frame_get_common(&frame, bytes, NULL) == HOOP_SUCCESS && frame.type == type && frame.length == length;
}

static void
types_and_lengths(void)
{
    int right = 0, known = 0;
    for (int type = 0; type < 256; type++) {
        uint32_t min, max;
        limits_of(type, &min, &max);
        known += max > 0;
        right += case_ok(refused_length(type, 0) && refused_length(type, max + 1) &&
                             refused_length(type, UINT32_C(1) << 31) && refused_length(type, UINT32_MAX) &&
                             (max == 0 || refused_length(type, min - 1)) && (max > 0 || refused_length(type, 32)),
                         "type %d takes a length outside %u to %u", type, min, max) &&
                 case_ok(max == 0 || (taken_length(type, min) && taken_length(type, max)),
                         "type %d refuses %u or %u bytes", type, min, max);
    }
    is_int(33, known, "the test knows all types");
    is_int(256, right, "each type takes its lengths and no others");
}

static void
heads_that_lie(void)
{
    uint8_t bytes[HP_DATA_HEAD_CALL] = {0};
    hp_frame frame;
    make_common(bytes, 2, HP_DATA, 0, 32);
    is_int(HOOP_ERR_PROTOCOL, hp_frame_get_common(&frame, bytes, NULL), "another version is PROTOCOL");
    make_common(bytes, 1, HP_DATA, 0, 32);
    bytes[0] = 'h';
    is_int(HOOP_ERR_CORRUPT, hp_frame_get_common(&frame, bytes, NULL), "a changed magic is CORRUPT");
    hp_put32(bytes + 12, reference_crc(bytes, 12));
    is_int(HOOP_ERR_PROTOCOL, hp_frame_get_common(&frame, bytes, NULL), "another magic, meant so, is PROTOCOL");
    for (int bit = 0; bit < 16; bit++) {
        make_common(bytes, 1, HP_DATA, (uint16_t)(1 << bit), 32 + 20);
        if (hp_frame_get_common(&frame, bytes, NULL) != (bit < 2 ? HOOP_SUCCESS : HOOP_ERR_PROTOCOL))
            ok(0, "flag %d of a data frame", bit);
        make_common(bytes, 1, HP_PING, (uint16_t)(1 << bit), 4);
        if (hp_frame_get_common(&frame, bytes, NULL) != HOOP_ERR_PROTOCOL)
            ok(0, "flag %d of a control frame", bit);
    }
    make_common(bytes, 1, HP_DATA, HP_FRAME_CALL, 51);
    is_int(HOOP_ERR_PROTOCOL, hp_frame_get_common(&frame, bytes, NULL), "a call that has no room is PROTOCOL");
    make_common(bytes, 1, HP_DATA, 0, 32 + HP_SLICE_MAX + 1);
    is_int(HOOP_ERR_PROTOCOL, hp_frame_get_common(&frame, bytes, NULL), "a slice one byte too long is PROTOCOL");
    make_common(bytes, 1, HP_DATA, HP_FRAME_CALL, 52 + HP_SLICE_MAX);
    is_int(HOOP_SUCCESS, hp_frame_get_common(&frame, bytes, NULL), "the longest slice with a call is fine");
    is_uint(HP_SLICE_MAX, hp_frame_payload(&frame), "and its payload is known");
}

static void
checksum_without_flag(void)
{
    uint8_t bytes[HP_DATA_HEAD] = {0};
    hp_frame frame = {0};
    hp_frame_put_data(bytes, &frame, 0);
    bytes[40] = 1;
    hp_put32(bytes + 44, reference_crc(bytes + 16, 28));
    is_int(HOOP_ERR_PROTOCOL, get(&frame, bytes, NULL), "a payload checksum without its flag is PROTOCOL");
}

/* --- control frames --- */

enum { STREAM = 4, STREAM_MAX = STREAM * (HP_COMMON_BYTES + HP_CONTROL_MAX + 4) };
static const hp_frame_type stream_types[STREAM] = {HP_JOIN, HP_PING, HP_ABORT, HP_TICK};

/* Four frames of these payload lengths, one behind the other, filled with a pattern. */
static size_t
make_stream(uint8_t *out, const size_t lengths[STREAM])
{
    uint8_t payload[HP_CONTROL_MAX];
    size_t n = 0;
    for (int k = 0; k < STREAM; k++) {
        memset(payload, 'a' + k, lengths[k]);
        n += hp_frame_put_control(out + n, stream_types[k], payload, lengths[k]);
    }
    return n;
}

/* Reads what is there; counts the frames that are right. */
static int
drain(hp_frame_reader *reader, const uint8_t *in, size_t n, int have, const size_t lengths[STREAM])
{
    hp_control_frame frame;
    while (hp_frame_read(reader, &in, &n, &frame, NULL) == 1) {
        int right = have < STREAM && frame.type == (int)stream_types[have] && frame.n == lengths[have];
        for (size_t k = 0; right && k < frame.n; k++)
            right = frame.payload[k] == 'a' + have;
        if (!right)
            return -1;
        have++;
    }
    return n == 0 ? have : -1;
}

/* Copies into memory of exactly n bytes, so that a sanitizer sees one byte too many. */
static int
drain_exact(hp_frame_reader *reader, const uint8_t *in, size_t n, int have, const size_t lengths[STREAM])
{
    uint8_t *exact = malloc(n + (n == 0));
    if (!exact)
        bail("out of memory");
    memcpy(exact, in, n);
    have = drain(reader, exact, n, have, lengths);
    free(exact);
    return have;
}

static void
splits(void)
{
    static uint8_t stream[STREAM_MAX];
    static hp_frame_reader reader;
    const size_t lengths[STREAM] = {17, 0, 300, 1};
    size_t n = make_stream(stream, lengths), right = 0;
    for (size_t k = 0; k <= n; k++) {
        reader.have = 0;
        int have = drain_exact(&reader, stream, k, 0, lengths);
        right +=
            case_ok(have >= 0, "frames before byte %zu", k) &&
            case_int(STREAM, drain_exact(&reader, stream + k, n - k, have, lengths), "frames, split at byte %zu", k);
    }
    is_uint(n + 1, right, "control frames may come in two parts, split at any byte");
    reader.have = 0;
    int have = 0;
    for (size_t k = 0; k < n && have >= 0; k++)
        have = drain_exact(&reader, stream + k, 1, have, lengths);
    is_int(STREAM, have, "or byte by byte");
}

static void
random_splits(void)
{
    static uint8_t stream[STREAM_MAX];
    static hp_frame_reader reader;
    int right = 0;
    for (int round = 0; round < 300; round++) {
        size_t lengths[STREAM], at = 0;
        int have = 0;
        for (int k = 0; k < STREAM; k++)
            lengths[k] = (size_t)(tap_random() % (HP_CONTROL_MAX + 1));
        lengths[round % STREAM] = HP_CONTROL_MAX;
        size_t n = make_stream(stream, lengths);
        reader.have = 0;
        while (at < n && have >= 0) {
            size_t take = (size_t)(tap_random() % 3000);
            take = take < n - at ? take : n - at;
            have = drain(&reader, stream + at, take, have, lengths);
            at += take;
        }
        right += case_int(STREAM, have, "round %d: frames, of %zu bytes in all", round, n);
    }
    is_int(300, right, "random control frames in random parts come through");
}

/* What a fresh reader makes of n bytes. */
static int
read_once(const uint8_t *in, size_t n, hoop_error *error)
{
    static hp_frame_reader reader;
    hp_control_frame frame;
    reader.have = 0;
    int got = hp_frame_read(&reader, &in, &n, &frame, error);
    if (got == -1 && hp_frame_read(&reader, &in, &n, &frame, NULL) != -1)
        bail("a spent reader read on");
    return got;
}

static void
broken_control(void)
{
    uint8_t bytes[HP_COMMON_BYTES + 64 + 4], payload[HP_CONTROL_MAX + 1] = {0};
    hoop_error error;
    size_t n = hp_frame_put_control(bytes, HP_LOST, payload, 64);
    is_uint(sizeof(bytes), n, "a control frame is 20 bytes longer than its payload");
    is_uint(reference_crc(payload, 64), hp_get32(bytes + n - 4), "its payload's checksum stands at its end");
    is_int(1, read_once(bytes, n, NULL), "it is read");
    size_t caught = 0;
    for (size_t bit = 0; bit < n * 8; bit++) {
        hp_err_clear(&error);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        caught += read_once(bytes, n, &error) == -1 && error.code == HOOP_ERR_CORRUPT;
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    is_uint(n * 8, caught, "each flipped bit of it is CORRUPT");
    is_uint(0, hp_frame_put_control(bytes, HP_LOST, payload, sizeof(payload)), "a payload over 4 KiB is not written");
    for (int type = 0; type < 256; type++) {
        uint32_t min, max;
        limits_of(type, &min, &max);
        make_common(bytes, 1, (uint8_t)type, 0, min);
        int wanted = min == 4 ? 0 : -1;
        if (read_once(bytes, HP_COMMON_BYTES, &error) != wanted || (wanted && error.code != HOOP_ERR_PROTOCOL))
            ok(0, "type %d where control frames are read", type);
    }
    make_common(bytes, 1, HP_JOIN, 0, HP_CONTROL_MAX + 5);
    ok(read_once(bytes, HP_COMMON_BYTES, &error) == -1 && error.code == HOOP_ERR_PROTOCOL,
       "too long is PROTOCOL at once");
}

static void
separate_check(void)
{
    uint8_t bytes[HP_COMMON_BYTES + 8 + 4];
    hp_frame frame;
    hp_frame_put_control(bytes, HP_ACK, "8 bytes.", 8);
    ok(hp_frame_get_common(&frame, bytes, NULL) == HOOP_SUCCESS && frame.length == 12,
       "a frame read without the reader");
    is_int(HOOP_SUCCESS, hp_frame_get_control(&frame, bytes + HP_COMMON_BYTES, NULL), "is checked apart");
    bytes[20] ^= 1;
    is_int(HOOP_ERR_CORRUPT, hp_frame_get_control(&frame, bytes + HP_COMMON_BYTES, NULL), "and a flipped bit is seen");
}

/* --- errors on the wire --- */

static hoop_error
sample_error(void)
{
    hoop_error error;
    hp_err_clear(&error);
    error.code = HOOP_ERR_PEER_LOST;
    error.rank = 65535;
    error.reporter = -1;
    error.sequence = 0x0102030405060708;
    error.sys_errno = ECONNRESET;
    error.phase = HOOP_PHASE_OPERATION;
    error.flags = HOOP_ERROR_BEST_EFFORT;
    memset(error.text, 'x', sizeof(error.text) - 1);
    return error;
}

static void
aborts(void)
{
    uint8_t bytes[HP_ABORT_BYTES];
    hoop_error error = sample_error(), back;
    size_t n = hp_abort_put(bytes, &error);
    ok(n > 255 && n <= HP_ABORT_BYTES, "the longest text fits");
    memset(&back, 0xee, sizeof(back));
    ok(hp_abort_get(&back, bytes, n), "an abort comes back");
    ok(back.size == sizeof(back) && back.code == HOOP_ERR_PEER_LOST && back.rank == 65535 && back.reporter == -1 &&
           back.sequence == error.sequence && back.sys_errno == ECONNRESET && back.phase == HOOP_PHASE_OPERATION &&
           back.flags == HOOP_ERROR_BEST_EFFORT && strcmp(back.text, error.text) == 0,
       "with all that was in it");
    snprintf(error.text, sizeof(error.text), "tab\t nl\n esc\x1b[31m del\x7f \xc3\xa9 \xff end");
    n = hp_abort_put(bytes, &error);
    bytes[n - 2] = 0;
    ok(hp_abort_get(&back, bytes, n), "control characters are taken");
    is_string("tab? nl? esc?[31m del? \xc3\xa9 \xff e?d", back.text, "and come out as question marks");
    snprintf(error.text, sizeof(error.text),
             "csi\x9b"
             "31m \xc2\x9b"
             "1m");
    n = hp_abort_put(bytes, &error);
    ok(hp_abort_get(&back, bytes, n) && strcmp(back.text, "csi?31m ??1m") == 0, "those of ISO 8859 too");
    error.text[0] = '\0';
    n = hp_abort_put(bytes, &error);
    ok(hp_abort_get(&back, bytes, n) && strcmp(back.text, "a rank ended the ring, and gave no reason") == 0,
       "an empty text is fine, and nobody sees an empty line");
}

/* What arrives of a code. */
static hoop_result
code_after(uint32_t code, int sent)
{
    uint8_t bytes[HP_ABORT_BYTES];
    hoop_error error = sample_error(), back;
    if (sent)
        error.code = (hoop_result)code;
    size_t n = hp_abort_put(bytes, &error);
    if (!sent)
        hp_put32(bytes, code);
    return hp_abort_get(&back, bytes, n) ? back.code : HOOP_SUCCESS;
}

/* Codes by which a caller knows that its communicator is well must not be what ended it. */
static void
abort_codes(void)
{
    static const hoop_result end[] = {HOOP_ERR_CUDA,      HOOP_ERR_SYSTEM,      HOOP_ERR_INTERNAL, HOOP_ERR_PEER_LOST,
                                      HOOP_ERR_TIMEOUT,   HOOP_ERR_MISMATCH,    HOOP_ERR_ABORTED,  HOOP_ERR_RENDEZVOUS,
                                      HOOP_ERR_AUTH,      HOOP_ERR_VERSION,     HOOP_ERR_PROTOCOL, HOOP_ERR_CORRUPT,
                                      HOOP_ERR_NO_MEMORY, HOOP_ERR_STALE_EPOCH, HOOP_ERR_NO_QUORUM};
    int wrong = 0;
    for (int code = 1; code <= 255; code++) {
        int ends = 0;
        for (size_t k = 0; k < sizeof(end) / sizeof(*end); k++)
            ends |= (int)end[k] == code;
        hoop_result came = code_after((uint32_t)code, 0), told = code_after((uint32_t)code, 1);
        if (code != HOOP_IN_PROGRESS && (int)came != (ends ? code : HOOP_ERR_PROTOCOL))
            wrong++;
        if ((int)told != (ends ? code : HOOP_ERR_ABORTED))
            wrong++;
    }
    is_int(0, wrong, "a code that cannot end a ring is told as ABORTED, and heard as PROTOCOL");
}

static void
abort_ranks(void)
{
    hoop_error error = sample_error();
    error.rank = 3;
    error.reporter = 2;
    hp_abort_confine(&error, 4);
    ok(error.rank == 3 && error.reporter == 2, "ranks of the ring stay");
    hp_abort_confine(&error, 3);
    ok(error.rank == -1 && error.reporter == 2, "a rank that the ring has not is nobody");
    error.rank = error.reporter = INT32_MAX;
    hp_abort_confine(&error, 65536);
    ok(error.rank == -1 && error.reporter == -1, "and so is its reporter");
}

/* `error` with the little-endian value at an offset of its bytes changed. */
static int
takes(size_t offset, uint32_t value)
{
    uint8_t bytes[HP_ABORT_BYTES];
    hoop_error error = sample_error(), back;
    size_t n = hp_abort_put(bytes, &error);
    hp_put32(bytes + offset, value);
    return hp_abort_get(&back, bytes, n);
}

static void
aborts_that_lie(void)
{
    uint8_t bytes[HP_ABORT_BYTES + 8] = {0};
    hoop_error error = sample_error(), back;
    size_t n = hp_abort_put(bytes, &error), refused = 0;
    for (size_t k = 0; k < n - 255; k++)
        refused += !hp_abort_get(&back, bytes, k);
    is_uint(n - 255, refused, "an abort that is cut in its fixed part is refused");
    ok(!hp_abort_get(&back, bytes, n + 1), "and one with more text than there is room for");
    ok(takes(0, HOOP_ERR_TIMEOUT) && takes(4, 0) && takes(8, 7) && takes(24, HOOP_PHASE_LEAVE),
       "other values are taken");
    ok(!takes(0, HOOP_SUCCESS) && !takes(0, HOOP_IN_PROGRESS), "an abort never says that all is well");
    ok(!takes(0, 256) && !takes(0, UINT32_MAX) && !takes(0, UINT32_C(1) << 31), "nor something out of range");
    ok(!takes(4, UINT32_MAX - 1) && !takes(8, UINT32_C(1) << 31), "nor names a rank below -1");
    ok(!takes(24, 4) && !takes(24, UINT32_C(2) << 16), "nor an unknown phase or flag");
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    tap_seed();
    known_bytes();
    round_trips();
    flipped_bits();
    types_and_lengths();
    heads_that_lie();
    checksum_without_flag();
    splits();
    random_splits();
    broken_control();
    separate_check();
    aborts();
    aborts_that_lie();
    abort_codes();
    abort_ranks();
    return 0;
}
