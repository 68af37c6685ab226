/* SPDX-License-Identifier: MIT */
/*
 * frame: see frame.h. No I/O, no allocation. A checksum is compared before any field is used, and a length before
 * anything is sized by it. The stripe, the client and the server decide what a frame means and whether it may come
 * now.
 */
#include "net/frame.h"

#include "base/err.h"
#include "base/text.h"
#include "base/wire.h"

#include <stdio.h>
#include <string.h>

static const uint8_t magic[4] = {'H', 'O', 'O', 'P'};

enum { DATA_FLAGS = HP_FRAME_CALL | HP_FRAME_PAYLOAD_CRC, SPENT = sizeof((hp_frame_reader *)0)->bytes + 1 };

/* The lengths that a type may announce; max 0: there is no such type. */
typedef struct limits {
    uint32_t min, max;
} limits;

static limits
limits_of(unsigned type)
{
    static const limits handshake[] = {
        [HP_HELLO] = {128, 128}, [HP_CHALLENGE] = {96, 96}, [HP_CONFIRM] = {32, 32}, [HP_WELCOME] = {48, 48}};
    if (type == HP_DATA)
        return (limits){HP_DATA_BYTES, HP_DATA_BYTES + HP_CALLPART_BYTES + HP_SLICE_MAX};
    if (type >= HP_HELLO && type <= HP_WELCOME)
        return handshake[type];
    if ((type >= HP_JOIN && type <= HP_RECALL) || (type >= HP_ACK && type <= HP_TAKEN))
        return (limits){4, HP_CONTROL_MAX + 4};
    return (limits){0, 0};
}

uint32_t
hp_frame_payload(const hp_frame *frame)
{
    return frame->length - (hp_frame_head(frame->flags) - HP_COMMON_BYTES);
}

static void
put_common(uint8_t *out, unsigned type, uint16_t flags, uint32_t length)
{
    memcpy(out, magic, sizeof(magic));
    out[4] = HP_FRAME_VERSION;
    out[5] = (uint8_t)type;
    hp_put16(out + 6, flags);
    hp_put32(out + 8, length);
    hp_put32(out + 12, hp_crc32c(out, 12));
}

uint32_t
hp_frame_put_data(uint8_t *out, const hp_frame *frame, uint32_t payload)
{
    uint32_t head = hp_frame_head(frame->flags);
    uint8_t *data = out + HP_COMMON_BYTES;
    put_common(out, HP_DATA, frame->flags, head - HP_COMMON_BYTES + payload);
    hp_put32(data, frame->epoch);
    hp_put16(data + 4, frame->channel);
    hp_put16(data + 6, frame->taken);
    hp_put64(data + 8, frame->sequence);
    hp_put32(data + 16, frame->step);
    hp_put32(data + 20, frame->signature);
    hp_put32(data + 24, frame->flags & HP_FRAME_PAYLOAD_CRC ? frame->payload_crc : 0);
    hp_put32(data + 28, hp_crc32c(data, 28));
    if (frame->flags & HP_FRAME_CALL) {
        uint8_t *call = data + HP_DATA_BYTES;
        hp_call_put(call, &frame->call);
        hp_put32(call + HP_CALL_BYTES, hp_crc32c(call, HP_CALL_BYTES));
    }
    return head;
}

/* The CRC is right, so the peer meant these bytes. Checks whether this version of the protocol knows them. */
static hoop_result
check_common(const hp_frame *frame, const uint8_t *in, hoop_error *error)
{
    if (memcmp(in, magic, sizeof(magic)) != 0)
        return hp_err_set(error, HOOP_ERR_PROTOCOL, "a frame does not begin with HOOP: the other side is not hoop");
    if (in[4] != HP_FRAME_VERSION)
        return hp_err_set(error, HOOP_ERR_PROTOCOL, "a frame of version %d came, but this side knows only version %d",
                          in[4], HP_FRAME_VERSION);
    limits may = limits_of(frame->type);
    if (may.max == 0)
        return hp_err_set(error, HOOP_ERR_PROTOCOL, "a frame of unknown type %d came", frame->type);
    int unknown = frame->type == HP_DATA ? frame->flags & ~DATA_FLAGS : frame->flags;
    if (unknown != 0)
        return hp_err_set(error, HOOP_ERR_PROTOCOL, "a frame of type %d came with unknown flags 0x%x", frame->type,
                          (unsigned)unknown);
    if (frame->type == HP_DATA) {
        may.min = hp_frame_head(frame->flags) - HP_COMMON_BYTES;
        may.max = may.min + HP_SLICE_MAX;
    }
    if (frame->length < may.min || frame->length > may.max)
        return hp_err_set(error, HOOP_ERR_PROTOCOL, "a frame of type %d announced %lu bytes, allowed are %lu to %lu",
                          frame->type, (unsigned long)frame->length, (unsigned long)may.min, (unsigned long)may.max);
    return HOOP_SUCCESS;
}

hoop_result
hp_frame_get_common(hp_frame *frame, const uint8_t *in, hoop_error *error)
{
    if (hp_crc32c(in, 12) != hp_get32(in + 12))
        return hp_err_set(error, HOOP_ERR_CORRUPT,
                          "the checksum of a frame's header is wrong: bytes changed on the way");
    frame->type = in[5];
    frame->flags = hp_get16(in + 6);
    frame->length = hp_get32(in + 8);
    return check_common(frame, in, error);
}

hoop_result
hp_frame_get_data(hp_frame *frame, const uint8_t *in, hoop_error *error)
{
    if (hp_crc32c(in, 28) != hp_get32(in + 28))
        return hp_err_set(error, HOOP_ERR_CORRUPT,
                          "the checksum of a slice's header is wrong: bytes changed on the way");
    frame->epoch = hp_get32(in);
    frame->channel = hp_get16(in + 4);
    frame->taken = hp_get16(in + 6);
    frame->sequence = hp_get64(in + 8);
    frame->step = hp_get32(in + 16);
    frame->signature = hp_get32(in + 20);
    frame->payload_crc = hp_get32(in + 24);
    if (!(frame->flags & HP_FRAME_PAYLOAD_CRC) && frame->payload_crc != 0)
        return hp_err_set(error, HOOP_ERR_PROTOCOL, "a slice's header has a checksum that its flags deny");
    if (!(frame->flags & HP_FRAME_CALL))
        return HOOP_SUCCESS;
    const uint8_t *call = in + HP_DATA_BYTES;
    if (hp_crc32c(call, HP_CALL_BYTES) != hp_get32(call + HP_CALL_BYTES))
        return hp_err_set(error, HOOP_ERR_CORRUPT,
                          "the checksum of an operation's description is wrong: bytes changed on the way");
    hp_call_get(&frame->call, call);
    return HOOP_SUCCESS;
}

/* --- the frame that came, and the one that was to come --- */

static hoop_result
other_call(const hp_frame *got, const hp_frame *want, int self, int peer, hoop_error *error)
{
    char theirs[112], ours[112], as[40] = "";
    unsigned long long sequence = got->sequence, awaited = want->sequence;
    if (!(got->flags & want->flags & HP_FRAME_CALL))
        return hp_err_set(error, HOOP_ERR_MISMATCH,
                          "rank %d is in operation %llu and rank %d in operation %llu: their calls or groups differ",
                          peer, sequence, self, awaited);
    hp_call_print(&got->call, theirs, sizeof(theirs));
    hp_call_print(&want->call, ours, sizeof(ours));
    if (sequence != awaited)
        snprintf(as, sizeof(as), " as operation %llu", awaited);
    return hp_err_set(error, HOOP_ERR_MISMATCH, "rank %d called %s as operation %llu, but rank %d called %s%s%s", peer,
                      theirs, sequence, self, ours, as, hp_call_other_counts(&got->call, &want->call));
}

hoop_result
hp_frame_check(const hp_frame *got, const hp_frame *want, uint32_t payload, int self, int peer, hoop_error *error)
{
    int same_ring = got->epoch == want->epoch && got->channel == want->channel;
    int opens = (got->flags | want->flags) & HP_FRAME_CALL, both = got->flags & want->flags & HP_FRAME_CALL;
    /* The checksums of two calls may be equal by chance; if both frames have the call itself, different ones cannot pass. */
    int same_call = got->signature == want->signature && (!both || hp_call_equal(&got->call, &want->call));
    hoop_result result;
    if (same_ring && (!same_call || (opens && got->sequence != want->sequence)))
        result = other_call(got, want, self, peer, error);
    else if (same_ring && got->sequence == want->sequence && got->step == want->step &&
             hp_frame_payload(got) == payload && (got->flags & HP_FRAME_CALL) == (want->flags & HP_FRAME_CALL))
        return HOOP_SUCCESS;
    else
        result = hp_err_set(
            error, got->epoch < want->epoch ? HOOP_ERR_STALE_EPOCH : HOOP_ERR_PROTOCOL,
            "rank %d sent rank %d operation %llu step %u (%u bytes, epoch %u) instead of operation %llu step %u "
            "(%u bytes, epoch %u)",
            peer, self, (unsigned long long)got->sequence, got->step, hp_frame_payload(got), got->epoch,
            (unsigned long long)want->sequence, want->step, payload, want->epoch);
    error->sequence = hp_frame_operation(want);
    return result;
}

/* --- control frames --- */

size_t
hp_frame_put_control(uint8_t *out, hp_frame_type type, const void *payload, size_t n)
{
    if (n > HP_CONTROL_MAX)
        return 0;
    uint8_t *at = out + HP_COMMON_BYTES;
    put_common(out, type, 0, (uint32_t)n + 4);
    if (n > 0)
        memcpy(at, payload, n);
    hp_put32(at + n, hp_crc32c(at, n));
    return HP_COMMON_BYTES + n + 4;
}

static hoop_result
check_control_type(const hp_frame *frame, hoop_error *error)
{
    if (frame->type < HP_JOIN || frame->type == HP_DATA)
        return hp_err_set(error, HOOP_ERR_PROTOCOL, "a frame of type %d came where only control messages are allowed",
                          frame->type);
    return HOOP_SUCCESS;
}

hoop_result
hp_frame_get_control(const hp_frame *frame, const uint8_t *in, hoop_error *error)
{
    size_t n = frame->length - 4;
    if (check_control_type(frame, error) != HOOP_SUCCESS)
        return HOOP_ERR_PROTOCOL;
    if (hp_crc32c(in, n) != hp_get32(in + n))
        return hp_err_set(error, HOOP_ERR_CORRUPT,
                          "the checksum of a control message is wrong: bytes changed on the way");
    return HOOP_SUCCESS;
}

/* Copies the missing bytes up to `target`. Returns 1 when all are there. */
static int
fill(hp_frame_reader *reader, size_t target, const uint8_t **in, size_t *n)
{
    size_t take = target - reader->have < *n ? target - reader->have : *n;
    if (take > 0)
        memcpy(reader->bytes + reader->have, *in, take);
    reader->have += take;
    *in += take;
    *n -= take;
    return reader->have == target;
}

static int
spent(hp_frame_reader *reader)
{
    reader->have = SPENT;
    return -1;
}

int
hp_frame_read(hp_frame_reader *reader, const uint8_t **in, size_t *n, hp_control_frame *frame, hoop_error *error)
{
    hp_frame head = {0};
    if (reader->have == SPENT) {
        hp_err_set(error, HOOP_ERR_PROTOCOL, "nothing more can be read after a broken control message");
        return -1;
    }
    if (reader->have >= HP_COMMON_BYTES + 4 && reader->have == HP_COMMON_BYTES + hp_get32(reader->bytes + 8))
        reader->have = 0; /* the last call returned this frame */
    if (reader->have < HP_COMMON_BYTES && !fill(reader, HP_COMMON_BYTES, in, n))
        return 0;
    if (hp_frame_get_common(&head, reader->bytes, error) != HOOP_SUCCESS ||
        check_control_type(&head, error) != HOOP_SUCCESS)
        return spent(reader);
    if (!fill(reader, HP_COMMON_BYTES + head.length, in, n))
        return 0;
    if (hp_frame_get_control(&head, reader->bytes + HP_COMMON_BYTES, error) != HOOP_SUCCESS)
        return spent(reader);
    *frame = (hp_control_frame){head.type, reader->bytes + HP_COMMON_BYTES, head.length - 4};
    return 1;
}

/* code 4 | rank 4 | reporter 4 | errno 4 | sequence 8 | phase 2 | flags 2 | text to the end, without NUL */
enum { ABORT_FIXED = 28, ABORT_TEXT = sizeof((hoop_error *)0)->text - 1 };

/* Whether a code can end a ring. The others describe one wrong call on one rank; the communicator stays usable. */
static int
ends_a_ring(int code)
{
    switch (code) {
    case HOOP_ERR_CUDA:
    case HOOP_ERR_SYSTEM:
    case HOOP_ERR_INTERNAL:
    case HOOP_ERR_PEER_LOST:
    case HOOP_ERR_TIMEOUT:
    case HOOP_ERR_MISMATCH:
    case HOOP_ERR_ABORTED:
    case HOOP_ERR_RENDEZVOUS:
    case HOOP_ERR_AUTH:
    case HOOP_ERR_VERSION:
    case HOOP_ERR_PROTOCOL:
    case HOOP_ERR_CORRUPT:
    case HOOP_ERR_NO_MEMORY:
    case HOOP_ERR_STALE_EPOCH:
    case HOOP_ERR_NO_QUORUM: return 1;
    default: return code <= HOOP_SUCCESS; /* abort_fits refuses those */
    }
}

size_t
hp_abort_put(uint8_t out[HP_ABORT_BYTES], const hoop_error *error)
{
    size_t n = strnlen(error->text, ABORT_TEXT);
    /* A wrong call on this rank that ended it is not a wrong call of the others: they get ABORTED. */
    hp_put32(out, (uint32_t)(ends_a_ring(error->code) ? error->code : HOOP_ERR_ABORTED));
    hp_put32(out + 4, (uint32_t)error->rank);
    hp_put32(out + 8, (uint32_t)error->reporter);
    hp_put32(out + 12, (uint32_t)error->sys_errno);
    hp_put64(out + 16, error->sequence);
    hp_put16(out + 24, (uint16_t)error->phase);
    hp_put16(out + 26, (uint16_t)error->flags);
    memcpy(out + ABORT_FIXED, error->text, n);
    return ABORT_FIXED + n;
}

int
hp_abort_get(hoop_error *error, const uint8_t *in, size_t n)
{
    if (n < ABORT_FIXED || n > ABORT_FIXED + ABORT_TEXT)
        return 0;
    hp_err_clear(error);
    error->code = (hoop_result)hp_get32(in);
    error->rank = (int)hp_get32(in + 4);
    error->reporter = (int)hp_get32(in + 8);
    error->sys_errno = (int)hp_get32(in + 12);
    error->sequence = hp_get64(in + 16);
    error->phase = hp_get16(in + 24);
    error->flags = hp_get16(in + 26);
    memcpy(error->text, in + ABORT_FIXED, n - ABORT_FIXED);
    hp_text_tame(error->text, n - ABORT_FIXED, 0);
    error->text[n - ABORT_FIXED] = '\0';
    if (n == ABORT_FIXED)
        snprintf(error->text, sizeof(error->text), "a rank ended the ring, and gave no reason");
    /* It must carry an error, and must not name impossible ranks. */
    if (error->code <= HOOP_SUCCESS || error->code > 255 || error->code == HOOP_IN_PROGRESS || error->rank < -1 ||
        error->reporter < -1 || error->phase > HOOP_PHASE_LEAVE || (error->flags & ~HOOP_ERROR_BEST_EFFORT) != 0)
        return 0;
    if (!ends_a_ring(error->code))
        error->code = HOOP_ERR_PROTOCOL;
    return 1;
}

void
hp_abort_confine(hoop_error *error, int size)
{
    if (error->rank >= size)
        error->rank = -1;
    if (error->reporter >= size)
        error->reporter = -1;
}
