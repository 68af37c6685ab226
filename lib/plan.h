/* SPDX-License-Identifier: MIT */
/*
 * plan: pure arithmetic that cuts one operation into channels, loops, chunks and slices, and picks its algorithm (the
 * row table of schedule.c) by kind and size. Every rank computes the same plan from the same call and the same agreed
 * settings; nothing is negotiated. Counts are elements, 64 bits wide.
 */
#ifndef HP_PLAN_H
#define HP_PLAN_H

#include "lib/blocks.h"
#include "lib/host_map.h"

/* Which row table an operation follows; schedule.c's head has the tables. */
typedef enum hp_algorithm {
    HP_ALG_LOCAL,     /* a ring of one */
    HP_ALG_RING,      /* allreduce, reduce_scatter(v), allgather(v) */
    HP_ALG_CHAIN_OUT, /* broadcast: slices flow from the root round the ring */
    HP_ALG_CHAIN_IN,  /* reduce: slices flow to the root and are reduced on the way */
    HP_ALG_GATHER,    /* blocks flow to the root */
    HP_ALG_SCATTER,   /* blocks flow from the root, the farthest first */
    HP_ALG_PAIRWISE,  /* alltoall: each block goes straight to its rank over a chord */
    HP_ALG_HALVES,    /* allreduce of middle size: reduce-scatter and all-gather in log2 n rounds each over chords */
    HP_ALG_ALLPAIRS,  /* reductions in rank order: each rank gets its part of every vector, and hands out the result */
    HP_ALG_LEVELS,    /* allreduce, reduce_scatter, allgather, barrier: within each host, between them, within each */
    HP_ALG_DOUBLING,  /* small allreduce of 2^k ranks: whole sums, of twice as many ranks after each round */
    HP_ALG_SPREAD     /* small allreduce and barrier: whole vectors by dissemination over chords */
} hp_algorithm;

/* Which operations go over two levels: none; all that can; those for which no doubling and no spread fits. */
typedef enum hp_levels { HP_LEVELS_NONE, HP_LEVELS_ALL, HP_LEVELS_LONG } hp_levels;

typedef struct hp_plan_options {
    uint32_t slice_bytes;  /* a slot's size: the largest slice */
    uint32_t slices;       /* S at full size; window must be at least S + 1 */
    uint32_t channels;     /* channels an operation may use */
    uint32_t stage_bytes;  /* gather buffer: spread applies while size * bytes fits, doubling while log2 size + 1 do */
    uint32_t spread_bytes; /* and while what each rank receives, size - 1 or log2 size vectors, is no more; 0: never */
    uint32_t halves_bytes; /* largest vector for the halves */
    uint32_t part_bytes;   /* of a part of the all-pairs at least, where there are several blocks */
    const hp_host_map *hosts; /* NULL, or a map that is not known: no levels */
    hp_levels levels;         /* where they can be */
    int in_memory;            /* all ranks share memory: no element travels in a narrower type */
    uint32_t one_bytes;       /* levels: up to here one rank of each host meets the others, */
    uint32_t whole_bytes;     /* while a host receives no more, hosts exchange whole sums, in one hop; */
    uint32_t block_bytes;     /* of a block at least, where there are several */
    uint32_t exchange_bytes;  /* ... and for an exchange whose connection is to be repaired; 0: any */
} hp_plan_options;

/* One channel's part of one operation. */
typedef struct hp_plan {
    hp_algorithm algorithm;
    hp_kind kind;
    int size;               /* n, ranks */
    int root;               /* its position on the ring, -1 where none applies */
    uint32_t elem;          /* bytes of an element */
    hoop_dtype wire;        /* the type on the wire and in the stage: the array's own, bfloat16, or HP_SCALED; of the
                               levels only between hosts, there float32, too */
    int narrow;             /* narrower than the array's own */
    int wide;               /* levels, in order: sums of 16- and 8-bit floats travel between hosts as float32 */
    uint32_t grain;         /* elements; cuts fall on multiples of it, so that slices start on cache lines */
    uint64_t block;         /* elements from one rank's block to the next in the user's array; 0: not blocked */
    const hp_block *blocks; /* by rank, where their counts differ; else NULL. `block` is the largest then, rounded up */
    uint32_t channel, channels; /* this one, of so many */
    uint64_t begin;  /* first element of this channel's share of the vector (of every block, where blocked) */
    uint64_t count;  /* elements of that share */
    uint64_t part;   /* halves: elements of one of the n parts, the last ones may be short or empty; all-pairs, levels:
                        room of a part in the stage, of HP_SCALED whole blocks */
    uint64_t sums;   /* where sums in rank order, and narrow ones, lie in the stage until they are whole */
    uint64_t slots;  /* all-pairs: where n slots of a part each lie in the stage */
    uint32_t window; /* steps in progress at once; 0: as many as the channel has slots */
    int exchanges;   /* doubling, levels: partners share a connection; no rank of a doubling announces itself */
    const hp_host_map *hosts; /* levels: who is where */
    int owners;               /* levels: ranks of a host that own a part each, the first ones */
    int split;                /* levels: hosts share the sums of a part, and hand each other their shares */
    int pieces;               /* levels: in so many a part travels within a host; 1, or one for each host */
    uint64_t share;           /* levels: room of a host's share of a part in the stage; `part` is that of a part */
    uint64_t area;            /* levels: elements of the stage that a block takes; three blocks are there at once; */
    uint64_t packed_area; /* and those between hosts, in the wire's type: they are in the stage behind all others, */
    uint64_t packed;      /* which take so many bytes */
    uint64_t loops;       /* turns of the ring */
    uint32_t rows;        /* rows of one loop */
    uint32_t slices;      /* S: slices of a chunk */
    int ordered;          /* elements are combined in rank order; over the levels in the order of hosts */
    int normalize;        /* a ring of one reduces bools: it makes 0 or 1 of each */
    uint64_t steps;       /* loops * rows * slices; equal on all ranks */
} hp_plan;

/* Channels the operation uses: 1 for small ones. */
uint32_t hp_plan_channels(const hp_call *call, int size, const hp_plan_options *options);

/*
 * The plan of channel `channel` of `channels`. order[position] = rank, and blocks[rank] (size entries). blocks: of a kind
 * with counts; they must stay as they are while the plan is used.
 */
void hp_plan_make(hp_plan *plan, const hp_call *call, const hp_block *blocks, const int *order, int size,
                  const hp_plan_options *options, uint32_t channel, uint32_t channels);

/* The channel's share of `count` elements; it begins at *begin. Of fewer elements it is never longer. */
uint64_t hp_plan_share(const hp_plan *plan, uint64_t count, uint64_t *begin);

/* Bytes that `count` elements take on the wire and in the stage, and elements for which `bytes` are enough there. */
uint64_t hp_plan_wire_bytes(const hp_plan *plan, uint64_t count);
uint64_t hp_plan_wire_fits(const hp_plan *plan, uint64_t bytes);

/* Where part k of `parts` balanced parts of `total` begins, on a multiple of grain: 0 at k = 0, total at k = parts. */
uint64_t hp_cut(uint64_t total, uint64_t parts, uint64_t k, uint32_t grain);

/*
 * Fills in what the settings leave open (0): S slices, their size, that of the stages, and a window of W > S steps. one_host:
 * all ranks are on one.
 */
void hp_plan_depth(hp_plan_options *options, uint32_t *window, int one_host);

/* spread_bytes as the setting has it, or fit for the path and the number of ranks where it is -1. */
uint32_t hp_plan_spread(int64_t set, int one_host, int size);

/* ceil(log2 size): rounds after which the data of every rank can be at every other. */
uint32_t hp_plan_rounds(int size);

const char *hp_algorithm_name(hp_algorithm algorithm);

/* Whether all the operation's data is there at once, in a gather buffer (stage) of its own instead of slots. */
int hp_algorithm_is_staged(hp_algorithm algorithm);

#endif
