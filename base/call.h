/* SPDX-License-Identifier: MIT */
/*
 * call: the collective that a rank called, which all other ranks must have called too. It is in the first frame of
 * every operation on every link, and can be printed, so that an error shows both calls.
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
    HP_KINDS /* one past the last */
} hp_kind;

typedef struct hp_call {
    uint8_t kind;   /* an hp_kind */
    uint8_t dtype;  /* a hoop_dtype; HOOP_UINT8 for a barrier */
    uint8_t op;     /* a hoop_op; HOOP_SUM if the kind has none */
    uint8_t fused;  /* 1: small tensors of a group in one operation; count is their total */
    int32_t root;   /* -1 if the kind has none */
    uint64_t count; /* the count argument of the public call, in elements */
} hp_call;

enum { HP_CALL_BYTES = 16 };

void hp_call_put(uint8_t out[HP_CALL_BYTES], const hp_call *call);
void hp_call_get(hp_call *call, const uint8_t in[HP_CALL_BYTES]);
int hp_call_equal(const hp_call *a, const hp_call *b);
uint32_t hp_call_signature(const hp_call *call); /* CRC32C of the 16 bytes */

int hp_kind_is_rooted(int kind);    /* one rank has a role of its own: broadcast, reduce, gather, scatter */
const char *hp_kind_name(int kind); /* "allreduce", or "unknown operation" */

/* "allreduce of 100 x float32, sum", "broadcast of 7 x int8 from root 2", "barrier". Returns out. */
const char *hp_call_print(const hp_call *call, char *out, size_t size);

#endif
