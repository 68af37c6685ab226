/* SPDX-License-Identifier: MIT */
/*
 * message: the payloads of control frames, encoded and decoded once for both sides; pure. Every get checks lengths and
 * ranges before it believes anything, and returns 0 for what it does not. hoop_protocol(7) is the reference.
 *
 *   JOIN      rank 4 | size 4 | patience 4 | pid 4 | host id 8 | processors 4 | op time-out 8 | warn after 8 |
 *             address 19 | ring 8 | epoch 4 | digest 8 | started 8 | completed 8 | parent 8 | split 4 | parent rank 4 |
 *             parent size 4 | colour 4 | key 4 | host 1 + n | agree 2 + n
 *   ROSTER    comm 8 | epoch 4 | rank 4 | size 4 | first 4 | count 4 | count members:
 *             rank at this position of the ring 4 | pid 4 | host id 8 | processors 4 | address 19 | host 1 + n
 *   IN_OP, PROGRESS   sequence 8 | step 8 | bytes 8 | since 8 | waits for 4 | sending 4 | call 16
 *   OUT, LEAVE        completed 8
 *   LOST              peer 4 | errno 4 | sequence 8
 *   UNSTARTED         sequence 8 | call 16 | hp_abort_put of net/frame.h
 *   ABORT, REFUSED    hp_abort_put of net/frame.h; REFUSED to the server: split 4 before it
 *   READY, GO, PING   nothing
 */
#ifndef HP_MESSAGE_H
#define HP_MESSAGE_H

#include "net/addr.h"
#include "net/frame.h"

enum { HP_HOST_TEXT = 64, HP_AGREE_MAX = 2048, HP_WORLD_MAX = 65536, HP_REPORT_BYTES = 56, HP_COUNT_BYTES = 8 };
enum { HP_REFUSAL_BYTES = 4 + HP_ABORT_BYTES, HP_LOSS_BYTES = 16 };
enum { HP_UNSTARTED_BYTES = 8 + HP_CALL_BYTES + HP_ABORT_BYTES };

/* One rank as the others see it. */
typedef struct hp_member {
    int rank;
    char host[HP_HOST_TEXT]; /* name for messages */
    uint64_t host_id;        /* equal = same machine */
    uint32_t processors;     /* there, equal = may run on the same processors */
    uint32_t pid;
    hp_addr addr; /* its data listener */
} hp_member;

/* The agreed group. order[position] = rank: ranks of one host adjacent, otherwise by rank. */
typedef struct hp_ring {
    uint64_t comm; /* instance, unique in the job */
    uint32_t epoch;
    int rank, size; /* size 0: this rank's colour was negative, no part */
    int *order;
    hp_member *members; /* by rank */
} hp_ring;

/* What a rank in a long operation says of itself; also the answer to "who is late". */
typedef struct hp_report {
    uint64_t sequence; /* the oldest unfinished operation */
    uint64_t step;     /* steps retired, all channels together: grows while it progresses */
    uint64_t bytes;    /* payload bytes received and sent since the beginning: grows while bytes trickle */
    uint64_t since;    /* ns for which the rank has been in it */
    int waits_for;     /* rank whose data (or whose reading) is awaited; -1: none */
    int sending;       /* 1: it waits for that rank to take data */
    hp_call call;
} hp_report;

/* A ring connection of this rank has ended without a LEAVE or an ABORT. */
typedef struct hp_loss {
    int peer;
    int number;        /* errno; 0: the other side closed it */
    uint64_t sequence; /* the oldest unfinished operation; 0: none */
} hp_loss;

/* A call that its rank has refused: the others may wait in the operation for it. */
typedef struct hp_unstarted {
    uint64_t sequence; /* the number that the operation would have had */
    hp_call call;      /* as far as it is known */
    hoop_error cause;
} hp_unstarted;

typedef struct hp_join {
    hp_member who; /* rank -1: the server gives one */
    int size;
    uint32_t patience;   /* milliseconds until this rank's bring-up has failed */
    uint64_t op_timeout; /* ns, 0: none */
    uint64_t warn_after; /* ns without progress after which the one who is waited for is named, 0: never */
    uint64_t ring;       /* a member that has lost its control connection: its communicator; 0: not yet a member */
    uint32_t epoch;      /* of that */
    uint64_t digest;     /* hp_ring_digest of `ring`, or of a split's parent; 0: none */
    uint64_t started;    /* operations that this rank has started there */
    uint64_t completed;  /* and completed */
    uint64_t parent;     /* a split's parent communicator, 0: none */
    uint32_t split;      /* which call of the parent's splits this is */
    int parent_rank, parent_size, color, key;
    const char *agree; /* settings that must be equal, "key=value\n" lines; not terminated: points into the payload */
    size_t agree_n;
} hp_join;

/* One part of a roster. */
typedef struct hp_part {
    uint64_t comm;
    uint32_t epoch;
    int rank, size, first, count; /* describes the members [first, first + count) of `size` */
    const uint8_t *entries;
    size_t entries_n;
} hp_part;

/* Each put returns the bytes used. hp_join_put: 0 when agree is too long. `out` holds HP_CONTROL_MAX bytes. */
size_t hp_join_put(uint8_t *out, const hp_join *join);
int hp_join_get(hp_join *join, const uint8_t *in, size_t n);

/* As many members from `first` on as one frame holds; *next is where the following part begins (ring->size: done). */
size_t hp_part_put(uint8_t *out, const hp_ring *ring, int rank, int first, int *next);
int hp_part_get(hp_part *part, const uint8_t *in, size_t n);
/* Fills members[first...] (their rank: -1 until hp_ring_close) and order[first...]. The arrays hold part->size each. */
int hp_part_members(const hp_part *part, hp_member *members, int *order);
/* When all parts are in: order must be a permutation; gives every member its rank. */
int hp_ring_close(hp_ring *ring);
/* Equal for all who know the same ring: comm, epoch, order and members (FNV-1a, 64 bits); never 0. */
uint64_t hp_ring_digest(const hp_ring *ring);

/* A rank's REFUSED: it takes no part in this split of its communicator, because of `cause`. */
size_t hp_refusal_put(uint8_t out[HP_REFUSAL_BYTES], uint32_t split, const hoop_error *cause);
int hp_refusal_get(uint32_t *split, hoop_error *cause, const uint8_t *in, size_t n);

void hp_loss_put(uint8_t out[HP_LOSS_BYTES], const hp_loss *loss);
int hp_loss_get(hp_loss *loss, const uint8_t *in, size_t n);

size_t hp_unstarted_put(uint8_t out[HP_UNSTARTED_BYTES], const hp_unstarted *unstarted);
int hp_unstarted_get(hp_unstarted *unstarted, const uint8_t *in, size_t n);

void hp_report_put(uint8_t out[HP_REPORT_BYTES], const hp_report *report);
int hp_report_get(hp_report *report, const uint8_t *in, size_t n);

/*
 * Where a control connection stands; each frame type belongs to some of these and has a least and a greatest length.
 * Anything else is a breach of protocol.
 */
enum {
    HP_BEFORE_JOIN = 1, /* proven, awaits JOIN */
    HP_JOINING = 2,     /* JOIN is in, awaits the roster */
    HP_AT_LINKING = 4,  /* the roster is out, links are being opened, awaits GO */
    HP_AT_RUNNING = 8,  /* member of a ring */
    HP_AT_END = 16      /* the ring has failed, or this rank has left it */
};
int hp_message_fits(int type, int from_server, int where, size_t n);

#endif
