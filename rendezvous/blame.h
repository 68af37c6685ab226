/* SPDX-License-Identifier: MIT */
/*
 * blame: which rank holds up a ring in which nothing has moved for too long. Pure. It follows "I wait for rank q"
 * from the ranks in the oldest operation to a rank that has not entered it, or that has become silent. And which ranks are
 * sent a PING meanwhile: that the host of an absent one takes it, or does not, shows whether it is reached.
 */
#ifndef HP_BLAME_H
#define HP_BLAME_H

#include "base/clock.h"
#include "rendezvous/events.h"
#include "rendezvous/message.h"
#include "rendezvous/statement.h"

enum { HP_SILENT_HEARTBEATS = 3 }; /* a rank is silent after so many missed heartbeats */

/* ns between two reports of a rank in an operation; op_timeout in ns, 0: none. */
uint64_t hp_heartbeat(uint64_t op_timeout);

/* What the server knows of one rank. */
typedef struct hp_witness {
    hp_report report;    /* the last one; valid while in_op */
    uint64_t last_seen;  /* when it arrived */
    uint64_t heard;      /* when anything of the rank arrived last, counters included */
    uint64_t completed;  /* operations completed, as far as it has reported */
    hp_waiting waiting;  /* what it waits for besides; call.kind 0: nothing */
    uint64_t waiting_at; /* when that arrived */
    uint32_t number;     /* by which the rank names its JOIN; 0: it names none */
    uint64_t silence;    /* ns: its host has acknowledged nothing on its control connection for so long, or had when
                          * that broke; 0: it does */
    uint32_t placed; /* the last split that is over for it, as a server that was started again knows (statement.h) */
    int in_op;
    int left;
} hp_witness;

typedef enum hp_guilt {
    HP_GUILT_NONE,   /* no rank is in an operation */
    HP_GUILT_ABSENT, /* has not entered the operation, or was stopped before it could report it */
    HP_GUILT_LEFT,   /* has left the communicator */
    HP_GUILT_SILENT, /* is in the operation, but silent: stopped or unreachable */
    HP_GUILT_LINK,   /* is alive and waits for `other`, which is alive too: the connection between them */
    HP_GUILT_SELF    /* is alive, waits for no rank, and makes no progress */
} hp_guilt;

typedef struct hp_blame {
    hp_guilt guilt;
    int rank;           /* the blamed rank, or -1 */
    int other;          /* HP_GUILT_LINK: the rank it waits for; else a rank that waits for the blamed one, or -1 */
    uint64_t sequence;  /* the oldest operation */
    int waiting;        /* ranks in an operation, without the blamed one */
    hp_process process; /* of the blamed rank, if somebody has asked */
    hp_call call;       /* the oldest operation; kind 0: no rank has reported it */
} hp_blame;

/* What the server knows of the ranks of a ring, for those that judge it. Arrays are by rank. */
typedef struct hp_ring_view {
    const hp_witness *witnesses;
    const hp_member *members;
    void *const *peers; /* NULL: gone, or away */
    int size;
    uint64_t moved;
    const hp_events *events;
} hp_ring_view;

/* Whether the rank has called an operation that its program's stream has not reached. */
static inline int
hp_blame_awaits_stream(const hp_witness *witness)
{
    return witness->waiting.call.kind && witness->waiting.sequence;
}

/* Whether a thread of the rank waits in a message. */
static inline int
hp_blame_awaits_message(const hp_witness *witness)
{
    return witness->waiting.call.kind && !witness->waiting.sequence;
}

/*
 * A rank in an operation is silent if its last report came before this moment: so many ns before the most recent one.
 */
uint64_t hp_blame_silent_before(const hp_witness *witnesses, int n, uint64_t unreachable);

/* unreachable: as for hp_blame_silent_before. */
hp_blame hp_blame_find(const hp_witness *witnesses, int n, uint64_t unreachable);

/* What is known of a process, as the end of a sentence about its rank: ", and its process runs". */
const char *hp_blame_process(hp_process process);

/*
 * A sentence: "rank 3 (node2, pid 811) has not entered operation 17 (barrier), and its process runs; 7 ranks have
 * waited 2.0 s".
 */
void hp_blame_print(const hp_blame *blame, const hp_witness *witnesses, const hp_member *members, uint64_t stalled,
                    char *out, size_t size);

/*
 * The shortest op time-out of those in an operation, ns without progress; joined: for ranks that have set no other, 0: none.
 * HP_NEVER: no rank in an operation has one.
 */
uint64_t hp_limit_shortest(const hp_witness *witnesses, int n, uint64_t joined);

/* A rank in an operation whose wait, which has a limit of its own, is overdue; -1: none is. */
int hp_limit_overdue(const hp_witness *witnesses, int n);

/* --- PINGs --- */

/* A rank that waits learns from a PING that the server is there; one that others wait for need not answer. */

#define HP_ASK_AFTER HP_SEC /* of a stall: then absent ranks get a PING */

typedef struct hp_pings {
    uint64_t waiting; /* when the ranks in an operation were last sent one */
    uint64_t absent;  /* the `moved` of the stall for which the others were sent one, HP_ASK_AFTER ns later */
} hp_pings;

/* While ranks are in an operation; limit: of ns without progress. */
void hp_pings_send(hp_pings *pings, const hp_ring_view *view, uint64_t limit, uint64_t now);

#endif
