/* SPDX-License-Identifier: MIT */
/*
 * say: the nouns of sentences about ranks, each written in one way, and the sets of ranks that such a noun names. Pure. A
 * noun is returned as a value, and its text lives until the end of the statement, so it can be an argument of printf.
 */
#ifndef HP_SAY_H
#define HP_SAY_H

#include "base/call.h"
#include "base/mem.h"

#include <stdint.h>

/* A set has a bit for each rank of a ring. This one is of no rank out of n; free() it. NULL: out of memory. */
static inline uint64_t *
hp_rank_set_new(int n)
{
    return hp_alloc((size_t)n / 64 + 1, sizeof(uint64_t));
}

static inline int
hp_rank_set_has(const uint64_t *set, int rank)
{
    return (int)(set[rank / 64] >> (rank % 64) & 1);
}

static inline void
hp_rank_set_add(uint64_t *set, int rank)
{
    set[rank / 64] |= UINT64_C(1) << (rank % 64);
}

static inline void
hp_rank_set_remove(uint64_t *set, int rank)
{
    set[rank / 64] &= ~(UINT64_C(1) << (rank % 64));
}

enum { HP_NOUN = 160 };

typedef struct hp_noun {
    char text[HP_NOUN];
} hp_noun;

/* A host's name; of one of more than 40 bytes the first 37 and "...", so that two of them fit into an error. */
hp_noun hp_say_host(const char *host);

/*
 * "rank 3 (node2, pid 811)"; with pid 0 "rank 3 (node2)", and with rank -1, where none is assigned yet, "a rank on node2 (pid
 * 811)".
 */
hp_noun hp_say_rank(int rank, const char *host, unsigned pid);

/* "rank 3", "ranks 4-6 and 9", "ranks 0, 2, 4, 6, 8, 10 and 12 more": of n ranks those whose bit in the set is `value`. */
hp_noun hp_say_ranks(const uint64_t *set, int n, int value);

hp_noun hp_say_count(uint64_t n, const char *one); /* "1 operation", "16 operations" */

hp_noun hp_say_waited(int ranks, uint64_t ns); /* "7 ranks have waited 2.0 s" */

hp_noun hp_say_operation(uint64_t sequence, const hp_call *call); /* as hp_call_print_operation */

/* How lines about a ring begin: its label, 'job 4f21c0de split 0 colour 1 "dp"'; name empty: the label alone. */
hp_noun hp_say_title(const char *label, const char *name);

/* What becomes of the others, as the end of such a sentence: "; stopping 7 others", "; 1 other goes on"; "": there is none. */
hp_noun hp_say_others(int others, int go_on);

/* A ring in a sentence: "the whole job", "split 1 colour 0" or "epoch 1"; one that has a name by that, in quotes. */
hp_noun hp_say_ring(const char *label, const char *name);

/* "split 0 colour 1", or "epoch 1" of a ring that was shrunk, of such a label; NULL: it is of the whole job. */
const char *hp_say_split(const char *label);

#endif
