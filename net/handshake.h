/* SPDX-License-Identifier: MIT */
/*
 * handshake: the handshake of every connection (hoop_protocol(7)) as a pure state machine: bytes in, bytes out, no
 * I/O, no clock of its own. The same machine runs under libevent (acceptor, dial), in the fuzzer and under a virtual
 * clock. Over a socket hp_handshake_io runs it.
 */
#ifndef HP_HANDSHAKE_H
#define HP_HANDSHAKE_H

#include "net/auth.h"

enum { HP_ROLE_CONTROL = 1, HP_ROLE_DATA = 2, HP_ROLE_ASK = 3 }; /* ASK: no rank, hoop-top asks what the job does */
enum { HP_WIRE_MIN = 5, HP_WIRE_MAX = 5 };                       /* versions of the protocol that this build speaks */
enum { HP_M1 = 144, HP_M2 = 112, HP_M3 = 48, HP_M4 = 64 };       /* bytes of the four messages */
enum { HP_M1_NONCE = 80 };                                       /* where the nonce of a HELLO lies: 32 bytes */
/*
 * Feature bits of a HELLO. 1 is reserved. STATS: the server takes HP_STATS. CALL_NAMES: it takes
 * HP_CALL_NAME, and numbers of names in calls. WAITING: it takes HP_WAITING.
 */
enum {
    HP_FEATURE_STATS = 2,
    HP_FEATURE_CALL_NAMES = 4,
    HP_FEATURE_WAITING = 8,
    HP_FEATURE_COMEBACK = 16,
    HP_FEATURE_RECALL = 32
};
#define HP_RANK_UNKNOWN UINT32_C(0xFFFFFFFF) /* my_rank: the server has not assigned one yet */
#define HP_RANK_SERVER UINT32_C(0xFFFFFFFE)  /* your_rank: the rendezvous server */

/* M1 as a struct: which rank dials which rank, and for what. */
typedef struct hp_hello {
    uint8_t job_id[HP_JOB_ID_BYTES];
    uint64_t comm; /* communicator instance; 0 before JOIN */
    uint32_t epoch, my_rank, your_rank, world;
    uint8_t role, mode;
    uint16_t channel, stripe, ver_min, ver_max;
    uint32_t memory_pid; /* the memory that this process offers to share (shm.h): descriptor memory_fd of it; 0: none */
    uint16_t memory_fd;
    uint16_t generation; /* how often this connection was made again */
    uint64_t features;   /* 48 bits */
} hp_hello;

/* Why a connection with the right secret is refused; the MAC covers it. */
typedef enum hp_status {
    HP_OK = 0,
    HP_BAD_VERSION,
    HP_BAD_EPOCH,
    HP_DUPLICATE,
    HP_BAD_WORLD,
    HP_BAD_MODE,
    HP_BAD_RANK,
    HP_BAD_COMM,
    HP_FULL,
    HP_LATE,
    HP_BAD_ROLE,
    HP_BUSY, /* there is no room now: dial again */
    HP_STATUSES
} hp_status;
const char *hp_status_text(int status); /* a phrase: "another rank of that number has already joined" */

typedef enum hp_handshake_state {
    HP_HANDSHAKE_HELLO,     /* responder: awaits M1 */
    HP_HANDSHAKE_CONFIRM,   /* responder: M2 is written, awaits M3 */
    HP_HANDSHAKE_JUDGE,     /* responder: the peer is proven; awaits the owner's hp_handshake_judge */
    HP_HANDSHAKE_CHALLENGE, /* initiator: M1 is written, awaits M2 */
    HP_HANDSHAKE_WELCOME,   /* initiator: M3 is written, awaits M4 */
    HP_HANDSHAKE_DONE,      /* both sides are proven; the bytes that follow belong to the owner */
    HP_HANDSHAKE_REFUSED,   /* the peer is proven, and one side refused the other: see status, version */
    HP_HANDSHAKE_BAD        /* wrong bytes, wrong MAC or time-out: close without a byte; `why` is for the log */
} hp_handshake_state;

/* What a responder accepts. M2's status refuses what does not fit, and only after M1's tag was found right. */
typedef struct hp_handshake_policy {
    uint32_t epoch, my_rank; /* my_rank HP_RANK_SERVER for the server */
    uint32_t world;          /* 0: any */
    uint64_t comm;           /* 0: any */
    uint8_t role, mode;
    uint8_t busy; /* there is no room now: what fits is refused with HP_BUSY */
    uint64_t features;
} hp_handshake_policy;

/*
 * One handshake. It must not move in memory while out_n > 0, because out points into it. Always write `out` before
 * acting on the state: a responder in REFUSED or DONE still has its last message there. In BAD there is never
 * anything to write.
 */
typedef struct hp_handshake {
    hp_handshake_state state;
    int initiator;
    int hello_proven; /* responder: the owner has found M1's tag right with the same keys, and says so before M1 is fed */
    const hp_keys *keys;        /* the owner keeps them until the end; NULL afterwards */
    hp_handshake_policy policy; /* responder only; copied */
    hp_hello hello;             /* the peer's (responder; proven from CONFIRM on) or ours (initiator) */
    uint16_t version;           /* the common version; when the peer refused ours, the peer's */
    uint16_t status;            /* hp_status of the refusal */
    uint64_t features;          /* those of both sides */
    uint32_t assigned_rank;     /* from WELCOME */
    int shares;                 /* the responder has opened the memory that the HELLO offers; it says so in WELCOME */
    uint32_t epoch;             /* initiator: the responder's, from CHALLENGE */
    uint64_t deadline;
    const char *why;
    union { /* the messages so far */
        uint8_t transcript[HP_M1 + HP_M2 + HP_M3 + HP_M4];
        struct {
            uint8_t m1[HP_M1], m2[HP_M2], m3[HP_M3], m4[HP_M4];
        };
    };
    size_t have;        /* bytes of the awaited message */
    size_t strange;     /* initiator, BAD: so many bytes came in place of CHALLENGE, and are not hoop's; 0: none */
    const uint8_t *out; /* the bytes to write: a part of the transcript */
    size_t out_n;
} hp_handshake;

/* Initiator. M1 is in `out` at once. nonce: 32 random bytes. */
void hp_handshake_start(hp_handshake *handshake, const hp_keys *keys, const hp_hello *hello, const uint8_t nonce[32],
                        uint64_t deadline);

/* Responder. Awaits M1. */
void hp_handshake_accept(hp_handshake *handshake, const hp_keys *keys, const hp_handshake_policy *policy,
                         const uint8_t nonce[32], uint64_t deadline);

/*
 * How many bytes the handshake wants next; 0: none. Never read more from the socket: what follows belongs to the
 * owner.
 */
size_t hp_handshake_want(const hp_handshake *handshake);

/*
 * Takes n <= want bytes. The first 16 of a message are checked as they arrive: the first wrong byte is BAD. Returns
 * the state.
 */
hp_handshake_state hp_handshake_feed(hp_handshake *handshake, const uint8_t *bytes, size_t n, uint64_t now);
hp_handshake_state hp_handshake_tick(hp_handshake *handshake, uint64_t now); /* BAD when the deadline has passed */
void hp_handshake_wrote(hp_handshake *handshake, size_t n);                  /* n bytes of `out` are written */
/* What another program has answered, if `strange` is not 0: its first line in quotes, as far as that is text. */
void hp_handshake_quote(const hp_handshake *handshake, char *out, size_t size);

/* Responder in JUDGE: HP_OK with the rank, or a refusal. The state is DONE or REFUSED at once, with M4 in `out`. */
void hp_handshake_judge(hp_handshake *handshake, hp_status status, uint32_t assigned_rank);

/* M1's bytes to and from the struct. hp_hello_get returns 0 if a byte of the header is wrong, or memory is offered for no data. */
void hp_hello_put(uint8_t out[HP_M1], const hp_hello *hello, const uint8_t nonce[32]); /* without the tag */
int hp_hello_get(hp_hello *hello, const uint8_t in[HP_M1]);
int hp_hello_begins(const uint8_t *in, size_t n); /* whether a HELLO may begin with these n bytes */

enum { HP_HANDSHAKE_IO_LOST = -1, HP_HANDSHAKE_IO_STOP = 0 }; /* or HP_READ, HP_WRITE: what to wait for */

/*
 * Writes and reads as far as the socket allows. It never reads more than the handshake wants: what follows is the
 * owner's. HP_HANDSHAKE_IO_STOP: everything is written; the state (JUDGE, DONE, REFUSED, BAD) decides what is next.
 * HP_HANDSHAKE_IO_LOST: the peer closed or reset the connection (errno; 0: it closed). `now` is by the clock of the
 * handshake's deadline.
 */
int hp_handshake_io(hp_handshake *handshake, int fd, uint64_t now);

#endif
