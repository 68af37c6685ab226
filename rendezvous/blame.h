/* SPDX-License-Identifier: MIT */
/*
 * blame: who holds up a ring in which nothing has moved for too long; pure. Follows "I wait for rank q" from those in
 * the oldest operation until it meets a rank that has not entered it, or one that has fallen silent.
 */
#ifndef HP_BLAME_H
#define HP_BLAME_H

#include "rendezvous/message.h"

enum { HP_SILENT_BEATS = 3 }; /* heartbeats after which a rank of which nothing is heard counts as silent */
enum { HP_OPERATION_TEXT = 144 };

/* ns between two reports of a rank in an operation, by the time-out of operations (ns, 0: none). */
uint64_t hp_heartbeat(uint64_t op_timeout);

/* What the server knows of one rank. */
typedef struct hp_witness {
    hp_report report;   /* the last one; meaningful while in_op */
    uint64_t heard;     /* when it came */
    uint64_t completed; /* operations, as far as it has said */
    int in_op;
    int left;
} hp_witness;

typedef enum hp_guilt {
    HP_GUILT_NONE,   /* nobody is in an operation */
    HP_GUILT_ABSENT, /* has not entered the operation, or was stopped before it said so */
    HP_GUILT_LEFT,   /* has left the communicator */
    HP_GUILT_SILENT, /* in the operation, but nothing more is heard of it: stopped or unreachable */
    HP_GUILT_LINK,   /* alive, and waits for `other`, which is alive too: the connection between them */
    HP_GUILT_SELF    /* alive, waits for nobody, and does not move */
} hp_guilt;

typedef struct hp_blame {
    hp_guilt guilt;
    int rank;          /* who is blamed, -1 */
    int other;         /* HP_GUILT_LINK: the rank it waits for; else a rank that waits for the blamed one, -1 */
    uint64_t sequence; /* the oldest operation */
    int waiting;       /* ranks in an operation, the blamed one not counted */
    hp_call call;      /* what the oldest operation is; kind 0: nobody has said */
} hp_blame;

/* unreachable: how much longer than the freshest a rank's last report may be ago before it counts as silent, ns. */
hp_blame hp_blame_find(const hp_witness *witnesses, int n, uint64_t unreachable);

/* "operation 17 (allreduce of 100 x float32, sum)", without the call where nobody has said it; returns out. */
const char *hp_blame_operation(uint64_t sequence, const hp_call *call, char out[HP_OPERATION_TEXT]);

/*
 * A sentence of its own: "rank 3 (node2, pid 811) has not entered operation 17 (barrier), or was stopped; 7 ranks have
 * waited 2.0 s".
 */
void hp_blame_print(const hp_blame *blame, const hp_witness *witnesses, const hp_member *members, uint64_t stalled,
                    char *out, size_t size);

#endif
