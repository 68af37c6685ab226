/* SPDX-License-Identifier: MIT */
/* dtype: names, sizes, validity and places in tables of element types and reductions. */
#ifndef HP_DTYPE_H
#define HP_DTYPE_H

#include "hoop.h"

/*
 * NCCL's types and operations are numbered from 0, hoop's own from HP_OWN. Tables have no rows for the gap: a row's
 * index is the number of NCCL, and what is listed here for the others.
 */
enum { HP_OWN = 64, HP_NCCL_DTYPES = 12, HP_NCCL_OPS = 5 };
enum { HP_INT16 = HP_NCCL_DTYPES, HP_UINT16, HP_BOOL, HP_DTYPES };
enum { HP_BAND = HP_NCCL_OPS, HP_BOR, HP_BXOR, HP_OPS };

static inline unsigned
hp_dtype_index(hoop_dtype dtype)
{
    return (unsigned)dtype < HP_OWN ? (unsigned)dtype : (unsigned)dtype - HP_OWN + HP_NCCL_DTYPES;
}

static inline unsigned
hp_op_index(hoop_op op)
{
    return (unsigned)op < HP_OWN ? (unsigned)op : (unsigned)op - HP_OWN + HP_NCCL_OPS;
}

hoop_dtype hp_dtype_at(int index); /* the opposite: 0 to HP_DTYPES - 1 */
hoop_op hp_op_at(int index);

/* The size of a valid type, never 0 (hoop_dtype_size returns 0 for others). Inline, because the belt calls it. */
static inline size_t
hp_dtype_size(hoop_dtype dtype)
{
    static const uint8_t sizes[16] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1, 2, 2, 1, 1 /* HP_SCALED */};
    return sizes[hp_dtype_index(dtype) & 15];
}

static inline int
hp_dtype_is_float(hoop_dtype dtype)
{
    return dtype >= HOOP_FLOAT16 && dtype <= HOOP_FLOAT8E5M2;
}

static inline int
hp_op_is_bitwise(hoop_op op)
{
    return op >= HOOP_BAND;
}

int hp_op_is_valid(hoop_op op);                  /* one of hoop.h */
int hp_op_applies(hoop_op op, hoop_dtype dtype); /* whether it is defined on that type, both of hoop.h */

/*
 * float8e4m3 in blocks (gpu/codec.h), in which float32 can travel: no type of an array. In front of the codes of each block
 * is its scale, a byte; the last block may be shorter. A command's operand of this type begins at a block.
 */
#define HP_SCALED ((hoop_dtype)(HP_OWN + HP_DTYPES - HP_NCCL_DTYPES))
enum { HP_TYPES = HP_DTYPES + 1, HP_SCALED_BLOCK = 64 /* elements */ };

/* Bytes of so many elements of a type, HP_SCALED too; where element `count` begins, which of HP_SCALED begins a block. */
static inline uint64_t
hp_dtype_bytes(hoop_dtype dtype, uint64_t count)
{
    return count * hp_dtype_size(dtype) + (dtype == HP_SCALED ? (count + HP_SCALED_BLOCK - 1) / HP_SCALED_BLOCK : 0);
}

/* Floats of 16 and 8 bits. With HOOP_AVG they carry means on the wire, because sums would overflow. */
enum { HP_NARROW = 4 };
extern const hoop_dtype hp_narrow[HP_NARROW];
int hp_narrow_index(hoop_dtype dtype); /* the index there, -1 for other types */

const char *hp_dtype_name(hoop_dtype dtype); /* "float32"; "unknown type" */
const char *hp_op_name(hoop_op op);          /* "sum" */

#endif
