/* SPDX-License-Identifier: MIT */
/*
 * call: the collective that a rank called, which all other ranks must have called too, the names that programs give such
 * calls, and what a call waits for. It is in the first frame of every operation on every link, and can be printed, so that
 * an error shows both calls.
 */
#ifndef HP_CALL_H
#define HP_CALL_H

#include "hoop.h"

typedef enum hp_kind {
    HP_ALLREDUCE = 1,
    HP_REDUCE_SCATTER,
    HP_ALLGATHER,
    HP_BROADCAST,
    HP_REDUCE,
    HP_GATHER,
    HP_SCATTER,
    HP_ALLTOALL,
    HP_BARRIER,
    HP_ALLGATHERV,
    HP_REDUCE_SCATTERV,
    HP_KINDS, /* one past the last that travels on belts */
    /* messages between two ranks; on the wire a receive is the send that it awaits */
    HP_SEND = 64,
    HP_RECV,
    HP_ALLTOALLV
} hp_kind;

/* In which order elements are combined. In the last two small floats are summed in float32, and rounded once. */
typedef enum hp_order { HP_ORDER_ANY, HP_ORDER_RANK, HP_ORDER_HOST } hp_order;

typedef struct hp_call {
    uint8_t kind;  /* an hp_kind */
    uint8_t dtype; /* a hoop_dtype; HOOP_UINT8 for a barrier */
    uint8_t op;    /* a hoop_op; HOOP_SUM if the kind has none */
    uint8_t fused; /* 1: small tensors of a group in one operation; count is their total */
    int32_t root; /* -1 if the kind has none; the checksum of the counts, if each rank has one of its own; of a send its
                       tag, of an alltoallv its number */
    uint64_t count;   /* the count argument of the public call, in elements; the total of such counts */
    const char *name; /* for sentences alone: by hoop_comm_set_call_name, on this rank; NULL: it has none */
    uint8_t ordered;  /* an hp_order: in which the ranks' elements are combined (setting order) */
    uint8_t
        wire; /* a hoop_wire: long float32 arrays, and no others, travel in it (setting wire_dtype); 0: as they are */
} hp_call;

enum { HP_CALL_BYTES = 16 };

void hp_call_put(uint8_t out[HP_CALL_BYTES], const hp_call *call);
void hp_call_get(hp_call *call, const uint8_t in[HP_CALL_BYTES]); /* without a name */
/* ", with other recvcounts" if the two differ in the checksum of the counts only, else "". */
const char *hp_call_other_counts(const hp_call *a, const hp_call *b);
int hp_call_equal(const hp_call *a, const hp_call *b);
uint32_t hp_call_signature(const hp_call *call); /* CRC32C of the 16 bytes */

int hp_kind_is_message(int kind);   /* between two ranks, outside the belts: send, recv, alltoallv */
int hp_kind_is_rooted(int kind);    /* one rank has a role of its own: broadcast, reduce, gather, scatter */
int hp_kind_has_counts(int kind);   /* each rank has a count of its own: allgatherv, reduce_scatterv */
int hp_kind_reduces(int kind);      /* it combines the elements of ranks, by an op */
const char *hp_kind_name(int kind); /* "allreduce", or "unknown operation" */

/*
 * "allreduce of 100 x float32, sum", "broadcast of 7 x int8 from root 2", "barrier", "send of 5 x int8 (tag 3)"; with a
 * name "allreduce (gradients) of 100 x float32, sum". Returns out.
 */
const char *hp_call_print(const hp_call *call, char *out, size_t size);

/*
 * A call as an operation with a number: "allreduce 17 (gradients)", without a name "operation 17 (allreduce of 100 x
 * float32, sum)", and "operation 17" if nothing is known of it (kind 0). Returns out.
 */
const char *hp_call_print_operation(const hp_call *call, uint64_t sequence, char *out, size_t size);

/* --- names of calls --- */

enum {
    HP_CALL_NAMES = 64,    /* at most */
    HP_CALL_NAME_TEXT = 32 /* room for one, and the end of the string */
};

/*
 * Names that a program gives its calls (hoop_comm_set_call_name), each kept once, with a number from 1. A name that is
 * there stays where it is, so that a call may point to it. All zero at the start.
 */
typedef struct hp_call_names {
    int count;
    char text[HP_CALL_NAMES][HP_CALL_NAME_TEXT];
} hp_call_names;

/* The number of a name of at most HP_CALL_NAME_TEXT - 1 bytes, which is added if it is new; 0: there is no room for it. */
int hp_call_names_add(hp_call_names *names, const char *name);
const char *hp_call_names_get(const hp_call_names *names, int number);  /* NULL: there is none */
int hp_call_names_number(const hp_call_names *names, const char *name); /* of one that get has returned; 0 for NULL */

/* --- waits --- */

/* What an operation or a message waits for. The numbers are in flight recorders, and less one in control frames. */
typedef enum hp_wait {
    HP_WAIT_NONE,   /* for nothing, or it is not known */
    HP_WAIT_PEER,   /* data of a rank */
    HP_WAIT_LINK,   /* a rank has to take data */
    HP_WAIT_STREAM, /* the program's stream has not reached it */
    HP_WAIT_DEVICE, /* a reduction or a copy on this rank */
    HP_WAITS
} hp_wait;

typedef struct hp_awaited {
    hp_wait what;
    int rank; /* of PEER and LINK; -1: none, any, or not known */
} hp_awaited;

static inline int
hp_wait_is_for_rank(hp_wait what)
{
    return what == HP_WAIT_PEER || what == HP_WAIT_LINK;
}

#endif
