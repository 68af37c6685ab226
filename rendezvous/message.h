/* SPDX-License-Identifier: MIT */
/*
 * message: the payloads of control frames, encoded and decoded once for both sides; pure. Every get checks lengths and
 * ranges before it believes anything, and returns 0 for what it does not. hoop_protocol(7) is the reference.
 *
 *   JOIN, SHRINK, GROW rank 4 | size 4 | patience 4 | pid 4 | host id 8 | processors 4 | pid space 4 | op time-out 8 |
 *             warn after 8 | peer time-out 8 | address 19 | others | proxied 1 | ring 8 | epoch 4 | digest 8 | started 8 | completed 8 |
 *             parent 8 | split 4 | parent rank 4 | parent size 4 | colour 4 | key 4 | host 1 + n | agree 2 + n
 *   ROSTER    comm 8 | epoch 4 | rank 4 | size 4 | first 4 | count 4 |
 *             least 8 | most 8 (these two only if epoch is not 0) | count members:
 *             rank at this position of the ring 4 | pid 4 | host id 8 | processors 4 | pid space 4 | address 19 |
 *             others | host 1 + n
 *   IN_OP, PROGRESS   sequence 8 | step 8 | bytes 8 | since 8 | limit 8 | overdue 8 | waits for 4 | sending 4 | call 16
 *   OUT, LEAVE        completed 8
 *   WAITING           sequence 8 | since 8 | peer 4 | for what 4 | call 16
 *   LOST              peer 4 | errno 4 | sequence 8
 *   FOUND             peer 4
 *   UNSTARTED         sequence 8 | call 16 | hp_abort_put of net/frame.h
 *   CLOCK             to the server: asked at 8; from it: asked at 8 | the server's clock 8
 *   STATS             at 8 | operations 8 | messages 8 | levels 8 | sent 8 | received 8 | sent over TCP 8 | waited for a
 *                     peer 8, a link 8, the caller's stream 8, the own device 8 | segments sent again 8, to the rank to
 *                     which most goes 8 | its delivery rate 8 | entries 8 | entered 8 | error of entered 8 | its round
 *                     trip 4 | that rank 4
 *   ABORT, REFUSED    hp_abort_put of net/frame.h; REFUSED to the server: split 4 before it
 *   NAME              the text alone
 *   CALL_NAME         number 1 | text
 *   RECALL            statement.h
 *   READY, GO, PING   nothing
 *
 * Others are a number 1 of at most HP_OTHERS, and so many addresses 19.
 * A call here is an hp_call with the number of its name in bits 1 to 7 of `fused`.
 */
#ifndef HP_MESSAGE_H
#define HP_MESSAGE_H

#include "base/call.h"
#include "base/say.h"
#include "net/addr.h"
#include "net/frame.h"
#include "net/interface.h"

enum { HP_HOST_TEXT = 64, HP_AGREE_MAX = 2048, HP_WORLD_MAX = 65536, HP_REPORT_BYTES = 72, HP_COUNT_BYTES = 8 };
enum { HP_NAME_TEXT = 64 }; /* room for a name, and the end of the string */
enum {
    HP_REFUSAL_BYTES = 4 + HP_ABORT_BYTES,
    HP_LOSS_BYTES = 20,
    HP_VITALS_BYTES = 17 * 8 + 2 * 4,
    HP_WAITING_BYTES = 40
};
enum { HP_FOUND_BYTES = 4, HP_RECALL_BYTES = 40 };
enum { HP_CALL_NAME_BYTES = 1 + HP_CALL_NAME_TEXT - 1 };
enum { HP_QUESTION_BYTES = 8, HP_ANSWER_BYTES = 16 };
enum { HP_UNSTARTED_BYTES = 8 + HP_CALL_BYTES + HP_ABORT_BYTES };

/* One rank, as the other ranks see it. */
typedef struct hp_member {
    int rank;
    char host[HP_HOST_TEXT]; /* name for messages */
    uint64_t host_id;        /* equal on the same machine */
    uint32_t processors;     /* on one machine, equal if they may run on the same processors */
    uint32_t pid;
    uint32_t pid_space;       /* where that number counts: containers of one host may have equal pids; 0: unknown */
    hp_addr addr;             /* its data listener */
    hp_addr other[HP_OTHERS]; /* where it can be reached, too; length 0: no more */
    int proxied;              /* that is a proxy's, whose answer says nothing of the process; in JOIN alone */
} hp_member;

/* "rank 3 (node2)" */
static inline hp_noun
hp_member_name(const hp_member *who)
{
    return hp_say_rank(who->rank, who->host, 0);
}

/* "rank 3 (node2, pid 811)" */
static inline hp_noun
hp_member_process(const hp_member *who)
{
    return hp_say_rank(who->rank, who->host, who->pid);
}

/* By host and process. A process may have a listener for each interface. */
static inline int
hp_member_order(const hp_member *a, const hp_member *b)
{
    if (a->host_id != b->host_id)
        return a->host_id < b->host_id ? -1 : 1;
    if (a->pid != b->pid)
        return a->pid < b->pid ? -1 : 1;
    if (a->pid_space != b->pid_space)
        return a->pid_space < b->pid_space ? -1 : 1;
    return (int)hp_addr_port(&a->addr) - (int)hp_addr_port(&b->addr);
}

static inline int
hp_member_same(const hp_member *a, const hp_member *b) /* whether both are the same process */
{
    return hp_member_order(a, b) == 0;
}

/* A ring. order[position] = rank: ranks of one host are adjacent, else sorted by number. */
typedef struct hp_ring {
    uint64_t comm; /* its number, unique in the job */
    uint32_t epoch;
    int rank, size; /* size 0: this rank's colour was negative, it takes no part */
    uint64_t least,
        most; /* operations that every, and any, of its ranks had completed in the ring that was shrunk to it */
    int *order;
    hp_member *members; /* by rank */
} hp_ring;

/* The rank of this process in the ring; -1: none. */
static inline int
hp_ring_rank_of(const hp_ring *ring, const hp_member *who)
{
    int rank = ring->size - 1;
    while (rank >= 0 && !hp_member_same(&ring->members[rank], who))
        rank--;
    return rank;
}

/* What a rank in a long operation reports of itself. */
typedef struct hp_report {
    uint64_t sequence; /* the oldest unfinished operation */
    uint64_t step;     /* steps retired on all channels together: grows with progress */
    uint64_t bytes;    /* payload bytes received and sent since the beginning: grows while bytes move */
    uint64_t since;    /* for how many ns the rank has been in it */
    uint64_t limit;    /* ns without progress after which it fails; 0: the op time-out of JOIN; HP_NEVER: never */
    uint64_t overdue;  /* a wait with a limit of its own has lasted for so many ns, above the limit; 0: none has */
    hp_awaited awaited;
    int call_name; /* the number of the call's name; 0: it has none, or the server does not know it */
    hp_call call;
} hp_report;

/* What a rank waits for outside the operations that it reports: with a message, or with an operation for its stream. */
typedef struct hp_waiting {
    uint64_t sequence; /* the operation that the caller's stream has not reached; 0: a message */
    uint64_t since;    /* for how many ns it has waited */
    hp_awaited awaited;
    int call_name; /* as in hp_report */
    hp_call call;  /* kind 0: it waits for nothing any more */
} hp_waiting;

/*
 * What a rank has counted since it joined its ring: those of hoop_stats that the server shows. hoop.h has the exact
 * meanings.
 */
typedef struct hp_vitals {
    uint64_t at; /* ns, by the rank's own clock: only differences of one rank mean something */
    uint64_t operations, messages;
    uint64_t levels;           /* operations that went over two levels */
    uint64_t sent, received;   /* bytes */
    uint64_t wire_sent;        /* of these, over TCP */
    uint64_t waited[HP_WAITS]; /* ns, from HP_WAIT_PEER on */
    uint64_t retransmits;
    uint64_t entries, entered, entered_error; /* by the server's clock */
    int most_to;                              /* the rank to which most goes over TCP; -1: all goes through memory; */
    uint64_t most_resent;                     /* segments sent again to that rank, */
    uint64_t delivery_rate;                   /* bytes/s that it has taken, 0: unknown, */
    uint32_t rtt;                             /* us to it and back, 0: unknown */
} hp_vitals;

/* A ring connection of this rank has ended without a LEAVE or an ABORT. */
typedef struct hp_loss {
    int peer;
    int number;        /* errno; 0: the peer closed it */
    uint64_t sequence; /* the oldest unfinished operation; 0: none */
    int repaired;      /* the connection is being made again: it is no cause, but the end of the peer is */
} hp_loss;

/* A call that a rank has refused: other ranks may wait in the operation for it. */
typedef struct hp_unstarted {
    uint64_t sequence; /* the number that the operation would have had */
    int call_name;     /* as in hp_report */
    hp_call call;      /* as far as known */
    hoop_error cause;
} hp_unstarted;

typedef struct hp_join {
    hp_member member; /* rank -1: the server assigns one */
    int size;
    uint32_t patience;     /* milliseconds until this rank gives up joining */
    uint64_t op_timeout;   /* ns, 0: none */
    uint64_t warn_after;   /* ns without progress before a warning names the awaited rank, 0: never */
    uint64_t peer_timeout; /* ns for which a host may be away; 0: the default */
    uint64_t ring;         /* a member that lost its control connection: its communicator; 0: not a member yet */
    uint32_t epoch;        /* of `ring`; without one a number by which the rank names this JOIN, if it sends it again */
    uint64_t digest;       /* hp_ring_digest of `ring`, or of a split's parent; 0: none */
    uint64_t started;      /* operations that this rank has started there */
    uint64_t completed;    /* operations completed there */
    int shrink;            /* sent as SHRINK: those ranks of `parent` that are left form a ring */
    int grow;        /* sent as GROW: the ranks of `parent`, in a split, take in those that wait; or one of these */
    uint64_t parent; /* the communicator that is split, or shrunk; 0: none */
    uint32_t split;  /* the number of the split in its parent; 0 for SHRINK */
    int parent_rank, parent_size, color, key;
    const char *agree; /* settings that must be equal, "key=value\n" lines; not terminated; points into the payload */
    size_t agree_n;
} hp_join;

/* One part of a roster. */
typedef struct hp_part {
    uint64_t comm;
    uint32_t epoch;
    int rank, size, first, count; /* it holds the members [first, first + count) of `size` */
    uint64_t least, most;         /* as in hp_ring */
    const uint8_t *entries;
    size_t entries_n;
} hp_part;

/* Each put returns the bytes used; `out` has room for HP_CONTROL_MAX bytes. hp_join_put: 0 if agree is too long. */
size_t hp_join_put(uint8_t *out, const hp_join *join);
int hp_join_get(hp_join *join, const uint8_t *in, size_t n); /* shrink: 0, it is the frame's type */

/*
 * Puts as many members from `first` on as one frame holds; *next is the first one of the next part (ring->size:
 * done).
 */
size_t hp_part_put(uint8_t *out, const hp_ring *ring, int rank, int first, int *next);
int hp_part_get(hp_part *part, const uint8_t *in, size_t n);
/* Fills members[first...] (rank -1 until hp_ring_close) and order[first...]. The arrays hold part->size each. */
int hp_part_members(const hp_part *part, hp_member *members, int *order);
/* Once all parts are there: checks that order is a permutation, and sets every member's rank. */
int hp_ring_close(hp_ring *ring);
/* A hash of comm, epoch, order and members, equal for all ranks with the same ring; never 0. */
uint64_t hp_ring_digest(const hp_ring *ring);

/* A rank's REFUSED: it takes no part in this split of its communicator; `cause` says why. */
size_t hp_refusal_put(uint8_t out[HP_REFUSAL_BYTES], uint32_t split, const hoop_error *cause);
int hp_refusal_get(uint32_t *split, hoop_error *cause, const uint8_t *in, size_t n);

void hp_loss_put(uint8_t out[HP_LOSS_BYTES], const hp_loss *loss);
int hp_loss_get(hp_loss *loss, const uint8_t *in, size_t n);

size_t hp_unstarted_put(uint8_t out[HP_UNSTARTED_BYTES], const hp_unstarted *unstarted);
int hp_unstarted_get(hp_unstarted *unstarted, const uint8_t *in, size_t n);

/* A communicator's name, at most HP_NAME_TEXT - 1 bytes; empty: it has none any more. It is safe to print. */
size_t hp_name_put(uint8_t out[HP_NAME_TEXT], const char *name);
int hp_name_get(char name[HP_NAME_TEXT], const uint8_t *in, size_t n);

/* The name of calls that this rank gives a number, from 1 to HP_CALL_NAMES. It is safe to print, and not empty. */
size_t hp_call_name_put(uint8_t out[HP_CALL_NAME_BYTES], int number, const char *name);
int hp_call_name_get(int *number, char name[HP_CALL_NAME_TEXT], const uint8_t *in, size_t n);

void hp_report_put(uint8_t out[HP_REPORT_BYTES], const hp_report *report);
int hp_report_get(hp_report *report, const uint8_t *in, size_t n);

void hp_waiting_put(uint8_t out[HP_WAITING_BYTES], const hp_waiting *waiting);
int hp_waiting_get(hp_waiting *waiting, const uint8_t *in, size_t n);

/* What time is it? `asked` is the rank's clock, and comes back in the answer. */
void hp_question_put(uint8_t out[HP_QUESTION_BYTES], uint64_t asked);
void hp_answer_put(uint8_t out[HP_ANSWER_BYTES], const uint8_t question[HP_QUESTION_BYTES], uint64_t clock);
void hp_answer_get(const uint8_t in[HP_ANSWER_BYTES], uint64_t *asked, uint64_t *clock);

void hp_vitals_put(uint8_t out[HP_VITALS_BYTES], const hp_vitals *vitals);
int hp_vitals_get(hp_vitals *vitals, const uint8_t *in, size_t n);

/*
 * The states of a control connection. Each frame type is allowed in some of them and has a smallest and a largest
 * size. Anything else breaks the protocol.
 */
enum {
    HP_BEFORE_JOIN = 1, /* proven, awaits JOIN */
    HP_JOINING = 2,     /* JOIN has arrived, awaits the roster */
    HP_AT_LINKING = 4,  /* the roster is sent, the ranks connect, awaits GO */
    HP_AT_RUNNING = 8,  /* member of a ring */
    HP_AT_END = 16,     /* the ring has failed, or this rank has left it */
    HP_RECALLED = 32    /* JOIN has named a ring that is not known, and the rank is asked for it (statement.h) */
};
int hp_message_fits(int type, int from_server, int where, size_t n);

#endif
