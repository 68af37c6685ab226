/* SPDX-License-Identifier: MIT */
/*
 * reduce: the host's inner loops, one set of them per instruction set, all from the same text (reduce_loops.h) and with
 * the same bits as their result. host.c decides what to run; nothing here knows of commands, blocks or wire types.
 */
#ifndef HP_REDUCE_H
#define HP_REDUCE_H

#include "base/dtype.h"

typedef struct hp_arith {
    const char *name; /* "avx512" */
    int (*usable)(void);
    /* d[i] = a[i] op b[i], AVG as SUM. d may be exactly a or b. NULL: this type is to be reduced as float32. */
    void (*reduce[HP_DTYPES])(hoop_op op, void *d, const void *a, const void *b, size_t count);
    /* d[i] = d[i] / divisor. NULL: through float32. */
    void (*divide[HP_DTYPES])(void *d, uint32_t divisor, size_t count);
    /*
     * d[i] = a[i] * weight[0] + b[i] * weight[1], as gpu.h has it of a command's `ranks`. The 16- and 8-bit floats'
     * only.
     */
    void (*mean[HP_DTYPES])(void *d, const void *a, const void *b, const float weight[2], size_t count);
    /* To and from float32. NULL for integers. */
    void (*decode[HP_DTYPES])(float *out, const void *in, size_t count);
    void (*encode[HP_DTYPES])(void *out, const float *in, size_t count);
} hp_arith;

/* From the fastest to the plainest, which every CPU can run; a NULL ends them. */
extern const hp_arith *const hp_ariths[];

/* The fastest that this CPU can run. */
const hp_arith *hp_arith_best(void);

#endif
