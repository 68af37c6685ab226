/* SPDX-License-Identifier: MIT */
/*
 * frame: the bytes in front of every message, encoded, decoded, checked and compared with the awaited ones; pure.
 * hoop_protocol(7) is the reference.
 *
 *   common (16)   "HOOP" | version 1 | type 1 | flags 2 | length 4 (bytes that follow) | crc32c of the first 12
 *   data   (32)   epoch 4 | channel 2 | taken 2 | sequence 8 | step 4 | signature 4 | payload crc 4 | crc32c of these 28
 *   call   (20)   hp_call 16 | crc32c 4      only with HP_FRAME_CALL: the first frame of an operation on a link
 *   control       payload <= 4 KiB | crc32c 4         every other type
 */
#ifndef HP_FRAME_H
#define HP_FRAME_H

#include "base/call.h"

enum {
    HP_FRAME_VERSION = 1,
    HP_COMMON_BYTES = 16,
    HP_DATA_BYTES = 32,
    HP_CALLPART_BYTES = HP_CALL_BYTES + 4,
    HP_DATA_HEAD = HP_COMMON_BYTES + HP_DATA_BYTES,       /* 48 */
    HP_DATA_HEAD_CALL = HP_DATA_HEAD + HP_CALLPART_BYTES, /* 68 */
    HP_CONTROL_MAX = 4096,                                /* payload of a control frame */
    HP_SLICE_MAX = 16 << 20                               /* payload of a data frame */
};

typedef enum hp_frame_type {
    HP_HELLO = 1,
    HP_CHALLENGE,
    HP_CONFIRM,
    HP_WELCOME, /* handshake, see handshake.h */
    HP_JOIN = 16,
    HP_ROSTER,
    HP_READY,
    HP_GO,
    HP_IN_OP,
    HP_OUT,
    HP_PROGRESS,
    HP_ABORT,
    HP_LEAVE,
    HP_PING,
    HP_SHRINK,
    HP_GROW,
    HP_REFUSED,
    HP_LOST,
    HP_UNSTARTED,
    HP_NAME,
    HP_CLOCK,
    HP_STATS,
    HP_CALL_NAME,
    HP_WAITING,
    HP_FOUND,
    HP_RECALL, /* control connection */
    HP_DATA = 64,
    HP_ACK,
    HP_TICK,
    HP_RESUME,
    HP_CREDIT,
    HP_WAKE,
    HP_TAKEN /* ring; HP_ABORT and HP_LEAVE travel there too */
} hp_frame_type;

enum { HP_FRAME_CALL = 1, HP_FRAME_PAYLOAD_CRC = 2 }; /* flags of a data frame */

/*
 * Payload of HP_ACK and HP_RESUME: how many data frames of this stripe the sender has taken since the first connection.
 * RESUME is the first frame in both directions of a connection that was made again. HP_TAKEN without a payload asks for
 * that number, and with it answers.
 */
enum { HP_TAKEN_BYTES = 8 };

/* HP_WAKE has no payload: it wakes a process that sleeps beside shared memory (shm.h). */

/* Payload of HP_CREDIT, on the connections of messages: room given back in all 8 | message that may come 8, 0: none. */
enum { HP_CREDIT_BYTES = 16 };

/* The channel number of connections that carry messages between two ranks, and nothing of a belt. */
enum { HP_MESSAGE_CHANNEL = 0xffff };

/* Added to a channel's number: a connection for the exchanges of that channel, which carries data in both directions. */
enum { HP_EXCHANGE_CHANNEL = 0x8000 };

/* Payload of HP_TICK: up to HP_HEARTBEATS_MOST of HP_HEARTBEAT_BYTES each; lib/peer_heartbeat.h has their layout. */
enum {
    HP_HEARTBEAT_BYTES = 52,
    HP_HEARTBEATS_MOST = 16,
    HP_HEARTBEATS_BYTES = HP_HEARTBEATS_MOST * HP_HEARTBEAT_BYTES
};

typedef struct hp_frame {
    uint8_t type;
    uint16_t flags;
    uint32_t length;
    /* data frames only: */
    uint32_t epoch;
    uint16_t channel;
    uint16_t taken; /* frames taken of the other direction, modulo 2^16, where both share a stripe that is repaired */
    uint64_t sequence; /* of a fused group: that of its first call, since ranks may have fused others */
    uint64_t last;     /* its last call's, which errors name; not on the wire. 0: there is one call */
    uint32_t step;
    uint32_t signature;
    uint32_t payload_crc;
    hp_call call; /* with HP_FRAME_CALL */
} hp_frame;

/* The payload of a data frame: its length without the fixed parts. */
uint32_t hp_frame_payload(const hp_frame *frame);
/* The size of a data frame's head: 48 or 68. */
static inline uint32_t
hp_frame_head(uint16_t flags)
{
    return flags & HP_FRAME_CALL ? HP_DATA_HEAD_CALL : HP_DATA_HEAD;
}

/* The number of the operation that a frame belongs to, for errors. */
static inline uint64_t
hp_frame_operation(const hp_frame *frame)
{
    return frame->last ? frame->last : frame->sequence;
}

/* Writes the head of a data frame, with type and length for this payload. Returns 48 or 68. */
uint32_t hp_frame_put_data(uint8_t *out, const hp_frame *frame, uint32_t payload);

/*
 * Reads and checks 16 bytes. HOOP_ERR_CORRUPT: wrong CRC; that is checked first, so that the sender is never blamed
 * for a flipped bit. HOOP_ERR_PROTOCOL: wrong magic, version, type, flags or length.
 */
hoop_result hp_frame_get_common(hp_frame *frame, const uint8_t *in, hoop_error *error);
/* Reads and checks the rest of a data head (32 or 52 bytes); the CRCs first. */
hoop_result hp_frame_get_data(hp_frame *frame, const uint8_t *in, hoop_error *error);

/*
 * Compares the data frame that arrived with the awaited one. `want` and `payload` are what rank `self` has posted; `got`
 * came from rank `peer`. Returns HOOP_SUCCESS, or an error that is filled except for its ranks: HOOP_ERR_MISMATCH (its
 * sentence names both calls), HOOP_ERR_STALE_EPOCH, HOOP_ERR_PROTOCOL.
 */
hoop_result hp_frame_check(const hp_frame *got, const hp_frame *want, uint32_t payload, int self, int peer,
                           hoop_error *error);

/* After hp_frame_get_common: checks that the type is a control frame's, then the CRC of its `length` bytes at `in`. */
hoop_result hp_frame_get_control(const hp_frame *frame, const uint8_t *in, hoop_error *error);

/* Writes a whole control frame (HP_COMMON_BYTES + n + 4 bytes). Returns its size; 0: n > HP_CONTROL_MAX. */
size_t hp_frame_put_control(uint8_t *out, hp_frame_type type, const void *payload, size_t n);

/* One that was read. */
typedef struct hp_control_frame {
    int type;
    const uint8_t *payload;
    size_t n;
} hp_control_frame;

/* Reads control frames piece by piece. Bounded memory, no allocation. */
typedef struct hp_frame_reader {
    size_t have; /* 0 at the start */
    uint8_t bytes[HP_COMMON_BYTES + HP_CONTROL_MAX + 4];
} hp_frame_reader;

/*
 * Takes bytes (advancing *in and *n) until a frame is complete. Returns 1 with the frame (its payload is valid until the
 * next call); 0: it needs more bytes; -1: error is filled (PROTOCOL or CORRUPT), and the reader is unusable from now on.
 */
int hp_frame_read(hp_frame_reader *reader, const uint8_t **in, size_t *n, hp_control_frame *frame, hoop_error *error);

/*
 * An hoop_error as the payload of HP_ABORT. Put returns the bytes used (<= 300); get returns 0 if the payload is
 * malformed.
 */
enum { HP_ABORT_BYTES = 300 };
size_t hp_abort_put(uint8_t out[HP_ABORT_BYTES], const hoop_error *error);
int hp_abort_get(hoop_error *error, const uint8_t *in, size_t n);
void hp_abort_confine(hoop_error *error, int size); /* sets ranks that a ring of `size` does not have to -1 */

#endif
