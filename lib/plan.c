/* SPDX-License-Identifier: MIT */
/* plan: see plan.h. The numbers that decide are at the top of this file; bench/RESULTS.md has the measurements. */
#include "lib/plan.h"

#include "base/dtype.h"

enum {
    CACHE_LINE = 64,
    SLICES = 4,          /* hide the jitter of a network */
    SLICES_ONE_HOST = 2, /* there is little to hide, and the fewer bytes are on their way, the more stay in the cache */
    ONE_SLICE_BYTES = 512 << 10, /* chunks up to this travel in one slice: fewer frames beat overlap */
    SPREAD_ONE_HOST = 64 << 10,  /* bytes into each rank, times 3 to 8 ranks: a ring takes more steps then */
    SPREAD_TWO = 384 << 10,      /* ... between two, to which a ring brings as many bytes */
    SPREAD_MANY = 192 << 10,     /* ... and with more than 8, where halves do as well */
    SPREAD = 32 << 10,           /* the best is 24 KiB at 1 Gbit/s, 120 KiB at 10 Gbit/s (bench/SIMULATION.md) */
    SLICE = 512 << 10,           /* over TCP a frame costs system calls */
    SLICE_SHARED = 128 << 10,    /* through memory the cache counts */
    SLICE_LEAST = 4096,
    STAGE = 8 << 20, /* over a network the parts of all-pairs are few and long; what is not used takes no memory */
    STAGE_ONE_HOST = 1 << 20, /* over TCP: the block stays in the cache */
    STAGE_SHARED = 768 << 10,
    BLOCKS = 4,               /* of an all-pairs at least, so that one is summed while others travel, */
    PART = 32 << 10,          /* unless their parts have fewer bytes; */
    PART_ONE_HOST = 64 << 10, /* where no wire is busy meanwhile, more */
    PART_USUAL = 256 << 10,   /* a longer part, for whose block the others wait at the end, */
    BLOCKS_MANY = 64,         /* is one of so many blocks */
    HALVES_LEAST = 8,         /* ranks; below, the ring's few hops cost less than the two more copies */
    HALVES_PART = 8 << 10,    /* bytes; longer parts do better on the ring */
    LEVELS_ONE = 1 << 10,     /* see one_bytes, whole_bytes and block_bytes */
    LEVELS_WHOLE = 12 << 10,
    LEVELS_BLOCK = 128 << 10,
    EXCHANGE_TWO = 48 << 10, /* longer vectors of two ranks would hold each other up on one connection */
    CHANNEL_BYTES = 1 << 20, /* a channel is worth having from this many bytes of share on */
    SUMS_APART = CACHE_LINE * (HP_SCALED_BLOCK + 1) /* blocks of HP_SCALED that end on a cache line */
};

const char *
hp_algorithm_name(hp_algorithm algorithm)
{
    static const char *const names[] = {"local", "ring",   "chain-out", "chain-in", "gather",   "scatter",
                                        "pairs", "halves", "all-pairs", "levels",   "doubling", "spread"};
    return names[algorithm];
}

int
hp_algorithm_is_staged(hp_algorithm algorithm)
{
    return algorithm == HP_ALG_SPREAD || algorithm == HP_ALG_DOUBLING || algorithm == HP_ALG_HALVES ||
           algorithm == HP_ALG_ALLPAIRS || algorithm == HP_ALG_LEVELS;
}

uint64_t
hp_cut(uint64_t total, uint64_t parts, uint64_t k, uint32_t grain)
{
    uint64_t units = total / grain + (total % grain != 0), extra = units % parts;
    uint64_t at = (units / parts * k + (k < extra ? k : extra)) * grain;
    return at < total ? at : total;
}

static uint64_t
ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

/* Whole cache lines, so that parts start on one. */
static uint64_t
part_of(uint64_t count, uint64_t n, uint64_t elem)
{
    uint64_t line = CACHE_LINE / elem;
    return ceil_div(ceil_div(count, n), line) * line;
}

/* Bytes of an element of a sum in rank order: what is narrower than float32 is summed as that. */
static uint64_t
sum_bytes(uint64_t elem)
{
    return elem < sizeof(float) ? sizeof(float) : elem;
}

/* Elements in a cache line of the wire; a block, where it has blocks. */
static uint64_t
line_of(const hp_plan *plan)
{
    return CACHE_LINE / hp_dtype_size(plan->wire);
}

uint64_t
hp_plan_wire_bytes(const hp_plan *plan, uint64_t count)
{
    return hp_dtype_bytes(plan->wire, count);
}

uint64_t
hp_plan_wire_fits(const hp_plan *plan, uint64_t bytes)
{
    uint64_t unit = line_of(plan);
    if (plan->wire == HP_SCALED)
        return bytes / hp_dtype_bytes(HP_SCALED, unit) * unit;
    return bytes / hp_dtype_size(plan->wire);
}

static int
is_blocked(hp_kind kind)
{
    return kind == HP_REDUCE_SCATTER || kind == HP_ALLGATHER || kind == HP_GATHER || kind == HP_SCATTER ||
           kind == HP_ALLTOALL || hp_kind_has_counts(kind);
}

/* The longest array of an exchange. Two ranks use their ring's links for it. */
static uint64_t
exchange_most(int size, const hp_plan_options *options)
{
    return options->exchange_bytes && size > 2 ? options->exchange_bytes : UINT64_MAX;
}

static int
fits_spread(const hp_call *call, int size, const hp_plan_options *options)
{
    uint64_t bytes = hp_dtype_size((hoop_dtype)call->dtype), most = options->spread_bytes / (uint32_t)(size - 1);
    if (call->kind == HP_BARRIER)
        return 1;
    if (most > options->stage_bytes / (uint32_t)size)
        most = options->stage_bytes / (uint32_t)size;
    if (call->ordered &&
        call->count > (options->stage_bytes - CACHE_LINE) / ((uint64_t)size * bytes + sum_bytes(bytes)))
        return 0;
    if (!call->ordered && (size & (size - 1)) == 0 && most > exchange_most(size, options))
        most = exchange_most(size, options); /* a longer array that may not double would cost more here */
    return call->kind == HP_ALLREDUCE && options->spread_bytes && call->count <= most / bytes;
}

/* Whole sums, so that every round brings one vector; between two ranks it is the spread without its gathering. */
static int
fits_doubling(const hp_call *call, int size, const hp_plan_options *options)
{
    uint64_t bytes = hp_dtype_size((hoop_dtype)call->dtype), rounds = hp_plan_rounds(size);
    uint64_t most = options->spread_bytes / rounds;
    if (size & (size - 1) || call->ordered)
        return 0;
    if (call->kind == HP_BARRIER)
        return 1;
    if (call->kind != HP_ALLREDUCE || !options->spread_bytes)
        return 0;
    if (most > options->stage_bytes / (rounds + 1))
        most = options->stage_bytes / (rounds + 1);
    if (most > exchange_most(size, options))
        most = exchange_most(size, options);
    return call->count <= most / bytes;
}

/* Rooms for parts that the all-pairs need in the stage: see schedule.c. */
static uint64_t
rooms_of(int size, hp_kind kind)
{
    uint64_t n = (uint64_t)size, vectors = kind == HP_ALLREDUCE || kind == HP_REDUCE ? n - 1 : 2 * (n - 1);
    return 2 + vectors + n;
}

/*
 * Whether the elements travel in a narrower type. In memory, and where frames are short, time goes to other things than
 * bytes, and a stage without room for a block of each part is none for blocks.
 */
static int
is_narrow(const hp_call *call, int size, const hp_plan_options *options)
{
    uint64_t bytes = call->count * hp_dtype_size((hoop_dtype)call->dtype);
    uint64_t ranks = call->kind == HP_REDUCE_SCATTER ? (uint64_t)size : 1;
    uint64_t least = SUMS_APART + rooms_of(size, (hp_kind)call->kind) * hp_dtype_bytes(HP_SCALED, HP_SCALED_BLOCK) +
                     HP_SCALED_BLOCK * sizeof(float);
    return call->wire && !options->in_memory && bytes > options->spread_bytes / ranks &&
           (call->wire != HOOP_WIRE_E4M3 || least <= options->stage_bytes);
}

/* Three areas of a stage: the vector, what arrives to be reduced, what is gathered. */
static int
fits_halves(const hp_call *call, int size, const hp_plan_options *options)
{
    uint64_t elem = hp_dtype_size((hoop_dtype)call->dtype), n = (uint64_t)size;
    if (call->kind != HP_ALLREDUCE || call->ordered || size < HALVES_LEAST ||
        call->count > options->halves_bytes / elem)
        return 0;
    return part_of(call->count, n, elem) * elem <= HALVES_PART &&
           (3 * n - 1) * part_of(call->count, n, elem) * elem <= options->stage_bytes;
}

/* The types of the array and of the wire. by_host: sums of a host's ranks travel. */
static void
set_types(hp_plan *plan, const hp_call *call, int narrow, int by_host)
{
    plan->elem = (uint32_t)hp_dtype_size((hoop_dtype)call->dtype);
    plan->narrow = narrow;
    plan->wide = by_host && hp_narrow_index((hoop_dtype)call->dtype) >= 0;
    plan->wire = plan->wide ? HOOP_FLOAT32 : (hoop_dtype)call->dtype;
    if (narrow)
        plan->wire = call->wire == HOOP_WIRE_E4M3 ? HP_SCALED : HOOP_BFLOAT16;
}

/* How an operation would go over the levels: which ranks own parts, what hosts exchange, and how many steps S are. */
static void
shape_levels(hp_plan *plan, const hp_call *call, const hp_plan_options *options)
{
    const hp_host_map *hosts = options->hosts;
    uint64_t bytes = call->count * plan->elem, parts = (uint64_t)hosts->least * (uint64_t)hosts->count;
    uint32_t within = (uint32_t)(hosts->most - 1), between = (uint32_t)(hosts->count - 1);
    int few = bytes <= options->one_bytes || call->count < parts * line_of(plan);
    plan->hosts = hosts;
    plan->kind = (hp_kind)call->kind;
    if (is_blocked(plan->kind)) {
        plan->owners = hosts->least;
        plan->split = 1;
        plan->pieces = hosts->count;
        plan->slices = (uint32_t)plan->pieces * within + between;
        return;
    }
    plan->owners = few ? 1 : hosts->least;
    plan->split = !few && hosts->count > 2 && bytes > options->whole_bytes / between;
    plan->pieces = 1;
    plan->slices = 2 * within + (plan->split ? 2 : 1) * between;
}

/* Rooms of the stage for one block, in parts: what comes, the vector and the result. */
static uint64_t
rooms_of_levels(const hp_plan *plan)
{
    int comes = plan->kind != HP_ALLGATHER, stays = plan->kind != HP_REDUCE_SCATTER;
    return (uint64_t)((comes ? plan->hosts->most + plan->owners : 0) + (stays ? plan->owners : 0));
}

/*
 * ... and those in the wire's type: a sum and, where it is shared and narrow, the whole one. What hosts send comes on top; an
 * allgather has neither.
 */
static uint64_t
packed_rooms(const hp_plan *plan)
{
    if (plan->kind == HP_ALLGATHER)
        return 0;
    return plan->narrow && plan->split && plan->kind == HP_ALLREDUCE ? 2 : 1;
}

/* The largest piece of a part, of whole lines, of which `blocks` blocks fit into the stage. */
static uint64_t
most_of_levels(const hp_plan *plan, uint64_t blocks, const hp_plan_options *options)
{
    uint64_t line = line_of(plan), plain = line * plan->elem, packed = hp_plan_wire_bytes(plan, line),
             hosts = plan->kind == HP_ALLGATHER ? 0 : (uint64_t)plan->hosts->count,
             met = packed_rooms(plan) + (!plan->split ? hosts : hosts > 0);
    uint64_t each = blocks * (rooms_of_levels(plan) * plain + met * packed) + (plan->narrow ? plain : 0);
    uint64_t spare = (plan->split ? blocks * hosts * packed : 0) + (plan->narrow ? CACHE_LINE * packed : 0);
    uint64_t most = options->stage_bytes > spare ? (options->stage_bytes - spare) / (each * (uint64_t)plan->pieces) : 0;
    uint64_t slot = options->slice_bytes / (plan->wide ? packed : plain);
    return (most < slot ? most : slot) * line;
}

/* An allreduce of any size, so that its bits do not depend on that: one owner or several, whole sums or shares. */
static int
fits_any_size(hp_plan *plan, const hp_plan_options *options)
{
    uint32_t within = (uint32_t)(plan->hosts->most - 1), between = (uint32_t)(plan->hosts->count - 1);
    int fits = 1;
    for (int shape = 0; shape < 4; shape++) {
        plan->owners = shape % 2 ? plan->hosts->least : 1;
        plan->split = shape > 1 && plan->hosts->count > 2;
        fits &= 2 * within + (plan->split ? 2 : 1) * between < HP_ORDERED_MOST && most_of_levels(plan, 3, options) > 0;
    }
    return fits;
}

static int
fits_levels(const hp_call *call, int size, const hp_plan_options *options)
{
    hp_plan plan = {0};
    const hp_host_map *hosts = options->hosts;
    int blocked = call->kind == HP_REDUCE_SCATTER || call->kind == HP_ALLGATHER;
    int by_host = call->ordered == HP_ORDER_HOST; /* wherever it can be, whatever the size is */
    if ((call->kind != HP_ALLREDUCE && call->kind != HP_BARRIER && !blocked) || call->ordered == HP_ORDER_RANK ||
        !hosts || hosts->count < 2 || hosts->most < 2 || (blocked && hosts->least < hosts->most))
        return 0;
    if (options->levels == HP_LEVELS_NONE && !by_host)
        return 0;
    if (options->levels == HP_LEVELS_LONG && !by_host && (hosts->least < 2 || options->channels > 1))
        return 0; /* one rank would send and add up all of its host's; and levels have one channel */
    set_types(&plan, call, is_narrow(call, size, options), by_host);
    shape_levels(&plan, call, options);
    if (by_host && !blocked)
        return fits_any_size(&plan, options);
    return plan.slices < HP_ORDERED_MOST && most_of_levels(&plan, 3, options) > 0;
}

static hp_algorithm
pick_algorithm(const hp_call *call, int size, const hp_plan_options *options)
{
    if (size == 1)
        return HP_ALG_LOCAL;
    if ((options->levels == HP_LEVELS_ALL || call->ordered == HP_ORDER_HOST) && fits_levels(call, size, options))
        return HP_ALG_LEVELS;
    if (fits_doubling(call, size, options))
        return HP_ALG_DOUBLING;
    if (fits_spread(call, size, options))
        return HP_ALG_SPREAD;
    if (fits_levels(call, size, options))
        return HP_ALG_LEVELS;
    if (call->ordered || is_narrow(call, size, options))
        return HP_ALG_ALLPAIRS;
    if (fits_halves(call, size, options))
        return HP_ALG_HALVES;
    switch ((hp_kind)call->kind) {
    case HP_BROADCAST: return HP_ALG_CHAIN_OUT;
    case HP_REDUCE: return HP_ALG_CHAIN_IN;
    case HP_GATHER: return HP_ALG_GATHER;
    case HP_SCATTER: return HP_ALG_SCATTER;
    case HP_ALLTOALL: return HP_ALG_PAIRWISE;
    default: return HP_ALG_RING;
    }
}

uint32_t
hp_plan_channels(const hp_call *call, int size, const hp_plan_options *options)
{
    uint64_t bytes = call->count * hp_dtype_size((hoop_dtype)call->dtype);
    uint64_t useful = bytes / CHANNEL_BYTES / (hp_kind_has_counts(call->kind) ? (uint64_t)size : 1);
    hp_algorithm algorithm = pick_algorithm(call, size, options);
    if (algorithm == HP_ALG_LOCAL || useful < 1 || (hp_algorithm_is_staged(algorithm) && algorithm != HP_ALG_ALLPAIRS))
        return 1;
    return useful < options->channels ? (uint32_t)useful : options->channels;
}

void
hp_plan_depth(hp_plan_options *options, uint32_t *window, int one_host)
{
    uint32_t *slices = &options->slices, *bytes = &options->slice_bytes;
    if (*bytes == 0)
        *bytes = options->in_memory ? SLICE_SHARED : SLICE;
    *bytes = *bytes < SLICE_LEAST ? SLICE_LEAST : *bytes & ~(SLICE_LEAST - 1U);
    if (options->stage_bytes == 0)
        options->stage_bytes = options->in_memory ? STAGE_SHARED : one_host ? STAGE_ONE_HOST : STAGE;
    options->stage_bytes =
        options->stage_bytes < SLICE_LEAST ? SLICE_LEAST : options->stage_bytes & ~(SLICE_LEAST - 1U);
    options->part_bytes = options->part_bytes ? options->part_bytes : one_host ? PART_ONE_HOST : PART;
    options->one_bytes = options->one_bytes ? options->one_bytes : LEVELS_ONE;
    options->whole_bytes = options->whole_bytes ? options->whole_bytes : LEVELS_WHOLE;
    options->block_bytes = options->block_bytes ? options->block_bytes : LEVELS_BLOCK;
    if (*slices == 0)
        *slices = one_host ? SLICES_ONE_HOST : SLICES;
    if (*window == 0 && one_host) /* the fewer slots, the hotter */
        *window = *slices + 1;
    else if (*window == 0)
        *window = 2 * *slices;
    if (*slices > *window - 1)
        *slices = *window - 1;
}

uint32_t
hp_plan_spread(int64_t set, int one_host, int size)
{
    if (set >= 0)
        return (uint32_t)set;
    if (!one_host)
        return SPREAD;
    if (size == 2)
        return SPREAD_TWO;
    return size <= HALVES_LEAST ? SPREAD_ONE_HOST * (uint32_t)size : SPREAD_MANY;
}

uint32_t
hp_plan_rounds(int size)
{
    uint32_t rounds = 0;
    while ((1 << rounds) < size)
        rounds++;
    return rounds;
}

/* Loops and S of the ring: one slice for a short chunk, S of them where a chunk is long enough to overlap. */
static void
cut_ring(hp_plan *plan, const hp_plan_options *options)
{
    uint64_t n = (uint64_t)plan->size, slot = options->slice_bytes / plan->elem;
    uint64_t parts = plan->block ? 1 : n, chunk = ceil_div(plan->count, parts), line = CACHE_LINE / plan->elem;
    plan->slices = chunk <= slot && chunk <= ONE_SLICE_BYTES / plan->elem ? 1 : options->slices;
    plan->grain = chunk / plan->slices >= 16 * line ? (uint32_t)line : 1;
    /* hp_cut hands out whole grains, so nested cuts never exceed a slot when the grains of one loop fit its slots */
    plan->loops = ceil_div(ceil_div(plan->count, plan->grain), parts * plan->slices * (slot / plan->grain));
    if (plan->loops == 0)
        plan->loops = 1;
    plan->rows = plan->kind == HP_ALLREDUCE ? 2 * (uint32_t)n - 1 : (uint32_t)n;
}

/* How long a part may be, with so many rooms for parts and one for its sum. */
static uint64_t
rooms_fit(const hp_plan *plan, uint64_t rooms, uint64_t stage)
{
    uint64_t elem = hp_dtype_size(plan->wire), block = HP_SCALED_BLOCK;
    if (plan->wire == HP_SCALED)
        return (stage - SUMS_APART) / (rooms * hp_plan_wire_bytes(plan, block) + block * sizeof(float)) * block;
    return (stage - CACHE_LINE) / (rooms * elem + sum_bytes(elem));
}

/*
 * Loops of the all-pairs, and the parts that the stage has room for: see schedule.c. S is n - 1, so that a rank sends to
 * all others before it needs anything from them.
 */
static void
cut_allpairs(hp_plan *plan, const hp_plan_options *options)
{
    uint64_t n = (uint64_t)plan->size, line = line_of(plan), parts = plan->block ? 1 : n;
    int gathers = plan->kind == HP_ALLREDUCE || plan->kind == HP_REDUCE, scaled = plan->wire == HP_SCALED;
    uint64_t rooms = rooms_of(plan->size, plan->kind), most = rooms_fit(plan, rooms, options->stage_bytes);
    uint64_t wanted = ceil_div(plan->count, parts * BLOCKS), least = hp_plan_wire_fits(plan, options->part_bytes);
    uint64_t usual = hp_plan_wire_fits(plan, PART_USUAL), many = ceil_div(plan->count, parts * BLOCKS_MANY);
    uint64_t slice = hp_plan_wire_fits(plan, options->slice_bytes), whole = scaled ? CACHE_LINE * line : line;
    usual = usual > many ? usual : many;
    wanted = wanted < usual ? wanted : usual;
    least = least > line ? least : line;
    wanted = wanted > least ? wanted : least;
    slice = scaled && slice < line ? line : slice; /* a block at least */
    wanted = wanted < slice ? wanted : slice;
    if (most > wanted)
        most = wanted;
    if (most > line)
        most = most / line * line;
    plan->grain = scaled || (most >= line && ceil_div(plan->count, parts) >= 16 * line) ? (uint32_t)line : 1;
    plan->loops = ceil_div(ceil_div(plan->count, plan->grain), parts * (most / plan->grain));
    if (plan->loops == 0)
        plan->loops = 1;
    plan->part = most;
    plan->slices = (uint32_t)n - 1;
    plan->sums = ceil_div(rooms * most, whole) * whole;
    plan->window = (uint32_t)n; /* S + 1; as many slots are behind the other rooms */
    plan->slots = (rooms - n) * most;
    plan->steps = (gathers ? 2 * plan->loops + 3 : plan->loops + 1) * plan->slices;
}

/* Blocks of the levels; three are in progress at once, see levels.c. A single one has no more room. */
static void
cut_levels(hp_plan *plan, const hp_call *call, const hp_plan_options *options)
{
    shape_levels(plan, call, options);
    uint64_t elem = plan->elem, size = hp_dtype_size(plan->wire), line = line_of(plan), owners = (uint64_t)plan->owners,
             hosts = (uint64_t)plan->hosts->count;
    uint64_t pieces = (uint64_t)plan->pieces, parts = pieces > 1 ? 1 : owners; /* of a block, where it is one rank's */
    uint64_t whole = part_of(plan->count, parts, size), most = most_of_levels(plan, 3, options);
    uint64_t wanted = part_of(plan->count, parts * BLOCKS, size),
             least = part_of(options->block_bytes / elem, owners * pieces, size);
    int scaled = plan->wire == HP_SCALED;
    wanted = wanted > least ? wanted : least;
    most = most < wanted ? most : wanted;
    plan->grain = scaled || ceil_div(plan->count, pieces > 1 ? 1 : owners * hosts) >= 16 * line ? (uint32_t)line : 1;
    plan->loops = whole <= most ? 1 : ceil_div(ceil_div(plan->count, plan->grain), parts * (most / plan->grain));
    plan->part = (plan->loops == 1 ? whole : most) * pieces;
    plan->share = plan->split ? part_of(plan->part, hosts, size) : plan->part;
    plan->area = rooms_of_levels(plan) * plan->part;
    plan->packed_area = plan->kind == HP_ALLGATHER ? 0 : packed_rooms(plan) * plan->part + hosts * plan->share;
    uint64_t blocks = plan->loops == 1 ? 1 : 3, lines = scaled ? CACHE_LINE * line : line;
    plan->packed = blocks * plan->area * elem;
    plan->sums = ceil_div(blocks * plan->packed_area, lines) * lines;
    uint64_t sent = plan->share * (plan->wide ? size : elem);
    plan->exchanges = !options->exchange_bytes || sent <= options->exchange_bytes;
    plan->exchanges &= sent <= EXCHANGE_TWO && plan->kind != HP_ALLGATHER; /* see schedule.h */
    plan->rows = plan->split ? 5 : 4; /* in which one block is under way; the next one is a row behind */
    if (pieces > 1)
        plan->rows = 3;
    plan->window = plan->loops == 1 ? HP_ORDERED_MOST : plan->slices + 1;
    plan->steps = (plan->loops + plan->rows - 1) * plan->slices;
}

static void
cut_rows(hp_plan *plan, const hp_call *call, const hp_plan_options *options)
{
    uint32_t n = (uint32_t)plan->size;
    uint64_t slot = options->slice_bytes / plan->elem, pieces = plan->count ? ceil_div(plan->count, slot) : 1;
    plan->slices = 1;
    plan->loops = 1;
    switch (plan->algorithm) {
    case HP_ALG_RING: cut_ring(plan, options); break;
    case HP_ALG_LOCAL: plan->rows = 1; break;
    case HP_ALG_SPREAD:
        plan->rows = hp_plan_rounds(plan->size) + 1;
        plan->sums = part_of(n * plan->count, 1, plan->elem);
        break;
    case HP_ALG_ALLPAIRS: cut_allpairs(plan, options); break;
    case HP_ALG_LEVELS: cut_levels(plan, call, options); break;
    case HP_ALG_DOUBLING:
        plan->rows = hp_plan_rounds(plan->size) + 1;
        plan->exchanges = n > 2 || plan->count <= EXCHANGE_TWO / plan->elem;
        break;
    case HP_ALG_HALVES:
        plan->rows = 2 * hp_plan_rounds(plan->size) + 2;
        plan->part = part_of(plan->count, n, plan->elem);
        break;
    case HP_ALG_CHAIN_OUT:
    case HP_ALG_CHAIN_IN:
        plan->rows = (uint32_t)n; /* of one loop; loops overlap by a row each, see schedule.c */
        plan->loops = pieces;
        break;
    default:
        plan->rows = n;
        plan->loops = pieces;
        break;
    }
}

static int
position_of(int rank, const int *order)
{
    int at = 0;
    while (order[at] != rank)
        at++;
    return at;
}

uint64_t
hp_plan_share(const hp_plan *plan, uint64_t count, uint64_t *begin)
{
    uint32_t line = (uint32_t)line_of(plan);
    *begin = hp_cut(count, plan->channels, plan->channel, line);
    return hp_cut(count, plan->channels, plan->channel + 1, line) - *begin;
}

void
hp_plan_make(hp_plan *plan, const hp_call *call, const hp_block *blocks, const int *order, int size,
             const hp_plan_options *options, uint32_t channel, uint32_t channels)
{
    uint64_t total = call->count;
    *plan = (hp_plan){.algorithm = pick_algorithm(call, size, options), .kind = (hp_kind)call->kind, .size = size};
    plan->root = hp_kind_is_rooted(plan->kind) ? position_of(call->root, order) : -1;
    int rounds = plan->algorithm == HP_ALG_ALLPAIRS || plan->algorithm == HP_ALG_LEVELS;
    set_types(plan, call, rounds && is_narrow(call, size, options), plan->algorithm == HP_ALG_LEVELS && call->ordered);
    plan->ordered = call->ordered != HP_ORDER_ANY || (plan->narrow && plan->algorithm == HP_ALG_ALLPAIRS);
    plan->normalize = size == 1 && hp_kind_reduces(plan->kind) && call->dtype == HOOP_BOOL;
    plan->grain = 1;
    plan->channel = channel;
    plan->channels = channels;
    plan->blocks = hp_kind_has_counts(plan->kind) ? blocks : NULL;
    if (plan->blocks) /* whole lines, so that no share of a shorter block is longer than the share of this one */
        total = part_of(hp_blocks_largest(blocks, size), 1, hp_dtype_size(plan->wire));
    plan->block = is_blocked(plan->kind) ? total : 0;
    plan->count = hp_plan_share(plan, total, &plan->begin);
    cut_rows(plan, call, options);
    if (plan->algorithm != HP_ALG_ALLPAIRS && plan->algorithm != HP_ALG_LEVELS)
        plan->steps = plan->loops * plan->rows * plan->slices;
    if (plan->algorithm == HP_ALG_CHAIN_OUT || plan->algorithm == HP_ALG_CHAIN_IN)
        plan->steps = plan->loops + plan->rows - 1;
}
