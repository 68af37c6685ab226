/* SPDX-License-Identifier: MIT */
/*
 * pair: the messages between this rank and one other, in both directions: which frame is sent next, where an arriving
 * one goes, what the peer is told. Pure but for the memory of arrivals. messages.c moves the bytes.
 *
 * Each direction numbers its messages 1, 2, 3 ... in the order of their calls. A message's head comes in that order: as
 * step 1 with all bytes, if it may travel ahead, else as step 0, an offer without bytes. When the receive of an offered
 * message is posted, the receiver lets it come (clears it), a few at a time, and its bytes come as steps 1, 2, 3 ... of
 * one slice each. Every frame has the call. A credit tells the sender which message is cleared, and how much room it
 * has again for messages that travel ahead. A head never waits, so a receive never waits for a message of another tag.
 */
#ifndef HP_PAIR_H
#define HP_PAIR_H

#include "base/call.h"
#include "lib/matching.h"
#include "net/frame.h"

enum {
    HP_CLEARED_MOST = 4,        /* offered messages that come at once; their slices take turns */
    HP_CREDIT_LEAST = 128 << 10 /* so much room is given back in one credit */
};

typedef struct hp_message hp_message;

/* --- messages that came before their receive, and their memory --- */

/*
 * It is bounded: what travels ahead costs its size rounded up to a power of two, and the peer may have HP_EAGER_ROOM of
 * that unread; what is merely offered costs a few bytes, and HP_OFFERS_MOST of those may be unread. Memory is used again.
 */
enum {
    HP_EAGER_MOST = 64 << 10, /* bytes of a message that travels ahead of its receive, at most */
    HP_EAGER_ROOM = 1 << 20,  /* what the unread ones of a peer may cost together */
    HP_EAGER_LEAST = 256,     /* what a short one costs */
    HP_EAGER_CLASSES = 10,    /* costs are powers of two, from least to most; the first class are the offers */
    HP_OFFERS_MOST = 1 << 16
};

typedef struct hp_arrival {
    hp_match match; /* by hp_message_key */
    hp_call call;
    uint64_t number; /* of the message, in its direction */
    uint64_t bytes;
    hp_message *receive; /* the receive that has come while its bytes were arriving */
    uint32_t cost;       /* 0: it is an offer, no bytes are here */
    int here;            /* all bytes are */
    struct hp_arrival *next_free;
    uint8_t data[]; /* `cost` bytes */
} hp_arrival;

/* All zero at the start. */
typedef struct hp_arrivals {
    hp_arrival *free[HP_EAGER_CLASSES];
    uint64_t allocated; /* bytes that are in use or free */
    uint64_t unread;    /* cost of those in use */
    uint64_t offers;    /* likewise, their number */
} hp_arrivals;

/* --- messages --- */

struct hp_message {
    hp_match match;    /* of a receive */
    hp_call call;      /* as on the wire: the kind is HP_SEND or HP_ALLTOALLV */
    int peer, sending; /* peer: HOOP_ANY_RANK in a receive from any rank until its message has come */
    uint8_t *data;
    uint64_t bytes;
    int on_device;   /* data is in a GPU's memory, which links cannot use; never set of an empty message */
    uint64_t number; /* of a send; of a receive once its message has come */
    uint64_t begun;  /* bytes that frames were made for, or are expected in */
    uint64_t moved;  /* bytes that are through */
    uint32_t step;   /* the last one */
    hp_message *next;
    /* the owner's */
    void *owner;
    int held;            /* it has not started, because a caller's stream is on its way to it */
    int done;            /* it is complete */
    uint64_t ticket;     /* of the GPU's command that ends this receive; 0: there is none yet */
    hp_arrival *arrival; /* which that command reads; NULL: a link's memory */
};

static inline hp_awaited
hp_message_awaited(const hp_message *m)
{
    return (hp_awaited){m->sending ? HP_WAIT_LINK : HP_WAIT_PEER, m->peer};
}

typedef struct hp_message_queue {
    hp_message *first, *last;
} hp_message_queue;

void hp_message_append(hp_message_queue *queue, hp_message *message);
hp_message *hp_message_pop(hp_message_queue *queue);

/* A frame to send: so many bytes of the message. */
typedef struct hp_piece {
    hp_message *message;
    uint64_t at;
    uint32_t bytes, step;
} hp_piece;

/* Where an arriving frame's payload goes: to `at` in the message, else into the arrival; neither for an offer. */
typedef struct hp_landing {
    hp_message *message;
    hp_arrival *arrival;
    uint64_t at;
    uint32_t bytes;
} hp_landing;

typedef struct hp_pair {
    int self, peer;
    uint32_t epoch, slice_bytes;
    /* sending */
    hp_message_queue heads;   /* whose heads are to be sent */
    hp_message_queue offered; /* whose offers are sent */
    hp_message_queue coming;  /* which the peer lets come; the first has the turn */
    int piece_next;           /* after a head a piece of another message has the turn */
    uint64_t started, used, returned;
    /* receiving */
    hp_matching matching;
    hp_arrivals arrivals;
    hp_message_queue to_clear;
    hp_message *cleared[HP_CLEARED_MOST];
    int cleared_n, told;                 /* so many of them were told to the peer over this connection */
    uint64_t heads_seen, owed, credited; /* room: to be given back in all, and told to the peer */
    hp_landing landing;
} hp_pair;

void hp_pair_init(hp_pair *pair, int self, int peer, uint32_t epoch, uint32_t slice_bytes);
void hp_pair_free(hp_pair *pair); /* forgets all messages, and frees those that nobody has received */

/* --- sending --- */

void hp_pair_send(hp_pair *pair, hp_message *message);

/* The next frame, which is the link's from now on. 0: there is none. heads_only: no piece of a long message. */
int hp_pair_next(hp_pair *pair, int heads_only, hp_piece *piece);
hp_frame hp_pair_frame(const hp_pair *pair, const hp_piece *piece);

/* A piece was sent. 1: it was the message's last. */
int hp_pair_sent(const hp_piece *piece);

/* The peer's credit. */
hoop_result hp_pair_credit(hp_pair *pair, const uint8_t payload[HP_CREDIT_BYTES], hoop_error *error);

/* --- receiving --- */

/*
 * Posts a receive. *arrival: its message is here, to be copied and then read; NULL: it comes later. HOOP_ERR_MISMATCH
 * with the error filled but for its ranks.
 */
hoop_result hp_pair_receive(hp_pair *pair, hp_message *receive, hp_arrival **arrival, hoop_error *error);

/*
 * A receive from any rank: hp_pair_unread tells the order of the peer's oldest message for it, 0: there is none. Where
 * all peers have none, hp_pair_receive_any posts it.
 */
uint64_t hp_pair_unread(const hp_pair *pair, const hp_message *receive);
void hp_pair_receive_any(hp_matching_any *any, hp_message *receive);

/* The cleared message with this number, of which the peer sends slices; NULL: there is none. */
hp_message *hp_pair_cleared(const hp_pair *pair, uint64_t number);

/*
 * An arriving frame: fills pair->landing, or an error but for its ranks. What travels ahead of a receive in a GPU's memory
 * becomes an arrival, even if that receive is posted.
 */
hoop_result hp_pair_head(hp_pair *pair, const hp_frame *frame, hoop_error *error);

/*
 * The frame's payload is in its place. Returns where; with a message and an arrival: the receive has come meanwhile,
 * and is to be copied and read. A message with moved == bytes is complete.
 */
hp_landing hp_pair_landed(hp_pair *pair);

/* An arrival was copied into its receive, which is complete. */
void hp_pair_read(hp_pair *pair, hp_message *receive, hp_arrival *arrival);

/* 1: the peer is to be sent a credit; hp_pair_credited when it was. */
int hp_pair_owes(const hp_pair *pair, uint8_t payload[HP_CREDIT_BYTES]);
void hp_pair_credited(hp_pair *pair);
/* The connection is another one, and credits may have been lost with the old one: all are told again. */
void hp_pair_again(hp_pair *pair);

/* Whether it waits for bytes or credits of the peer. */
int hp_pair_awaits_data(const hp_pair *pair);
int hp_pair_awaits_credit(const hp_pair *pair);

/* Whether the next head would travel ahead, if the peer had given back room. */
int hp_pair_lacks_room(const hp_pair *pair);

/* "send of 5 x int8 (tag 3) to rank 4"; who: the peer in words. Returns out. */
const char *hp_message_print(const hp_message *message, const char *who, char *out, size_t size);

#endif
