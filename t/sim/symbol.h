/* SPDX-License-Identifier: MIT */
/*
 * symbol: one operation executed on symbols instead of numbers, over all ranks in one process, following lib/plan,
 * lib/schedule and lib/place, but not lib/channel: an interpreter of its own of what the belt is allowed to do, as
 * unordered as it may be. An element is the multiset of contributions in it, so that counting one twice, losing
 * one or reading a place too early or too late ends in a wrong symbol.
 */
#ifndef T_SIM_SYMBOL_H
#define T_SIM_SYMBOL_H

#include "lib/place.h"

/*
 * A multiset of contributions (rank, element): the sum of their hashes, and how many; divisions are counted too, and
 * sums of which a side was said to be of another number of ranks than it was (`misjudged`: a mean would be weighed
 * wrongly). `order` is a hash of what was added to what, and on which side: equal where floating-point sums are equal
 * to the bit.
 */
typedef struct sym {
    uint64_t hash, order;
    uint32_t terms, divided, misjudged;
} sym;

typedef struct sym_case {
    hp_call call;
    int size;
    const int *order; /* position -> rank */
    int by_host;      /* ordered: over the levels, and by hosts */
    hp_plan_options options;
    uint32_t window, channels;
    hp_place_options place;
    uint64_t seed;      /* 0: round robin, everything as soon as it can; else seeded interleaving */
    uint32_t wire;      /* symbols a link holds between two ranks; 0: none, both sides must be ready */
    int early_commands; /* a command's work is done when submitted and only reported later, not done when reported */
} sym_case;

/* 1: every rank holds what the collective promises and nothing else was written. 0: `why` says what went wrong. */
int sym_run(const sym_case *c, char *why, size_t why_size);

/* The contribution of a rank's element. */
sym sym_of(int rank, uint64_t element);

/* The order of a sum of two. */
uint64_t sym_order(sym a, sym b);

/* --- symbol.c's share and arrays.c's: the users' arrays of all ranks --- */

typedef struct sym_arrays {
    sym *send, *recv;                /* as the program would pass them */
    uint64_t send_count, recv_count; /* elements that may be touched there */
    hp_block *blocks;                /* of a call that has counts (t/sim/blocks.h); else NULL */
    sym *memory, *before;            /* all of it, and a copy of the beginning */
    uint64_t memory_count;
} sym_arrays;

int sym_arrays_make(sym_arrays *a, const sym_case *c, int rank);
void sym_arrays_free(sym_arrays *a);

/* All ranks' contributions to each element of a reduction, for the caller to free; NULL for other kinds. */
sym *sym_sums(const sym_case *c);

/* Whether two ranks' results are equal to the bit. */
int sym_arrays_agree(const sym_arrays *a, const sym_arrays *b);

/* Result right, inputs untouched where they must be, nothing else written. */
int sym_arrays_check(const sym_arrays *a, const sym_case *c, int rank, const sym *sums, char *why, size_t why_size);

#endif
