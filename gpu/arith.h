/* SPDX-License-Identifier: MIT */
/*
 * arith: a set of the CPU's inner loops, for one instruction set. All sets are compiled from the same text
 * (reduce_loops.h) and give the same bits. They know of neither commands nor wire types. The tables' index is
 * hp_dtype_index(), which a float's number is; HP_SCALED has only decode and encode.
 */
#ifndef HP_ARITH_H
#define HP_ARITH_H

#include "base/dtype.h"

typedef struct hp_arith {
    const char *name; /* "avx512" */
    int (*usable)(void);
    /* d[i] = a[i] op b[i], AVG as SUM. d may be exactly a or b. NULL: this type is to be reduced as float32. */
    void (*reduce[HP_TYPES])(hoop_op op, void *d, const void *a, const void *b, size_t count);
    /* The same with BAND, BOR or BXOR for integers of any size; a bool's are in `reduce`, as its others are. */
    void (*bits)(hoop_op op, void *d, const void *a, const void *b, size_t bytes);
    /* d[i] = d[i] / divisor. NULL: this type is to be divided as float32. */
    void (*divide[HP_TYPES])(void *d, uint32_t divisor, size_t count);
    /* d[i] = a[i] * weight[0] + b[i] * weight[1], as in device.h for a command's `ranks`. 16- and 8-bit floats only. */
    void (*mean[HP_NCCL_DTYPES])(void *d, const void *a, const void *b, const float weight[2], size_t count);
    /* To and from float32. NULL for integers. */
    void (*decode[HP_TYPES])(float *out, const void *in, size_t count);
    void (*encode[HP_TYPES])(void *out, const float *in, size_t count);
} hp_arith;

extern const hp_arith hp_arith_plain;
#ifdef __x86_64__
extern const hp_arith hp_arith_avx2;
extern const hp_arith hp_arith_avx512;
#endif

/* From the fastest to the plainest, which every CPU can run; NULL at the end (host.c). */
extern const hp_arith *const hp_ariths[];
const hp_arith *hp_arith_best(void); /* the fastest that this CPU can run */

#endif
