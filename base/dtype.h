/* SPDX-License-Identifier: MIT */
/* dtype: names, sizes and validity of element types and reductions. */
#ifndef HP_DTYPE_H
#define HP_DTYPE_H

#include "hoop.h"

enum { HP_DTYPES = 12, HP_OPS = 5 };

/* The size of a valid type, never 0 (hoop_dtype_size returns 0 for others). Inline, because the belt calls it. */
static inline size_t
hp_dtype_size(hoop_dtype dtype)
{
    static const uint8_t sizes[16] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1, 1, 1, 1, 1};
    return sizes[(unsigned)dtype & 15];
}

/* Floats of 16 and 8 bits. With HOOP_AVG they carry means on the wire, because sums would overflow. */
enum { HP_NARROW = 4 };
extern const hoop_dtype hp_narrow[HP_NARROW];
int hp_narrow_index(hoop_dtype dtype); /* the index there, -1 for other types */

const char *hp_dtype_name(hoop_dtype dtype); /* "float32"; "unknown type" */
const char *hp_op_name(hoop_op op);          /* "sum" */
int hp_dtype_parse(const char *name);        /* NCCL-tests' names too ("float", "half", "bfloat16", "fp8_e4m3"); -1 */

#endif
