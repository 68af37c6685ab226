/* SPDX-License-Identifier: MIT */
/*
 * bench: one timing harness for hoop and every peer, so that differences are theirs and not the harness's. Ranks meet
 * in a file of shared memory (BENCH_SHM, made by bench/compare; it works across network namespaces), never through a
 * peer's own barrier. A sample is: clear the buffer, barrier, start, operation, stop; the slowest rank's time counts.
 * The first result of every size is compared with the right one, element by element.
 *
 * Environment: BENCH_SHM (required), BENCH_LABEL (name in the results), BENCH_SIZES (bytes, comma list), BENCH_CAP
 * (seconds of samples of a size), BENCH_LARGE (samples of sizes above 16 MiB), BENCH_LIMITS (seconds until a rank ends
 * itself with status 124, comma list: for bring-up, then for each size; unset: never), BENCH_KIND (allreduce, the default,
 * reduce_scatter or allgather; of the last two a rank has one of as many whole blocks of the array as there are ranks).
 */
#ifndef BENCH_H
#define BENCH_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bench_peer {
    void *context;
    void (*prepare)(void *context, float *data, size_t count);   /* once for each size, not timed; may be NULL */
    void (*run)(void *context, float *data, size_t count);       /* the collective, in place */
    int at_start;   /* a reduce_scatter leaves the result in the first block, not in the rank's own */
    int moves_only; /* a limit: bytes move, nothing is summed, so there is nothing to check */
    double within;  /* how far a result may be off, to the right one; 0: it is exact */
} bench_peer;

typedef enum bench_kind { BENCH_ALLREDUCE, BENCH_REDUCE_SCATTER, BENCH_ALLGATHER } bench_kind;

/* By BENCH_KIND. */
bench_kind bench_kind_wanted(void);

/* Joins the other ranks of this run. Ends the program with a sentence when it cannot. */
void bench_join(int rank, int size);
void bench_barrier(void);

/* Measures all sizes; rank 0 prints one line beginning "RES" for each. 1: some result was wrong. */
int bench_run(const bench_peer *peer);

/* An environment variable that has to be there, as text and as a number. */
const char *bench_text(const char *name);
int bench_number(const char *name);

/* Prints the sentence (with errno's, where there is one) and ends the program. */
void bench_die(const char *what) __attribute__((noreturn));

#ifdef __cplusplus
}
#endif
#endif
