/* SPDX-License-Identifier: MIT */
/*
 * chaos_works: operations of t/sys/chaos.t and what they must give. Element i of a slot is a power of three times a small
 * number that depends on i, so that a sum tells which ranks it has, and how often. All are exact in their type.
 */
#include "t/sys/chaos.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <string.h>

enum { LARGE = 100000, FENCE = 64, TAGS = 4, POISON = 0xa5, PERIOD = 61 };

typedef struct deed {
    const chaos_ring *ring;
    hoop_dtype type;
    hoop_op op;
    size_t count;
    int root;
    uint64_t salt;
    char text[CHAOS_LINE];
} deed;

static _Alignas(64) uint8_t input[LARGE * sizeof(uint64_t) + FENCE], output[LARGE * sizeof(uint64_t) + FENCE];

/* --- elements --- */

static int64_t
as_type(hoop_dtype type, int64_t value)
{
    switch (type) {
    case HOOP_UINT8: return (uint8_t)value;
    case HOOP_INT16: return (int16_t)value;
    case HOOP_UINT64: return value << 32 | value;
    default: return value;
    }
}

static int64_t
element(const deed *d, int slot, size_t i)
{
    int64_t weight = 1;
    while (slot-- > 0)
        weight *= 3;
    return as_type(d->type, weight * (1 + (int64_t)((i + d->salt) % PERIOD)));
}

static int64_t
load(hoop_dtype type, const void *array, size_t i)
{
    switch (type) {
    case HOOP_UINT8: return ((const uint8_t *)array)[i];
    case HOOP_INT16: return ((const int16_t *)array)[i];
    case HOOP_INT32: return ((const int32_t *)array)[i];
    case HOOP_UINT64: return (int64_t)((const uint64_t *)array)[i];
    case HOOP_FLOAT32: return (int64_t)((const float *)array)[i];
    default: return (int64_t)((const double *)array)[i];
    }
}

static void
store(hoop_dtype type, void *array, size_t i, int64_t value)
{
    switch (type) {
    case HOOP_UINT8: ((uint8_t *)array)[i] = (uint8_t)value; break;
    case HOOP_INT16: ((int16_t *)array)[i] = (int16_t)value; break;
    case HOOP_INT32: ((int32_t *)array)[i] = (int32_t)value; break;
    case HOOP_UINT64: ((uint64_t *)array)[i] = (uint64_t)value; break;
    case HOOP_FLOAT32: ((float *)array)[i] = (float)value; break;
    default: ((double *)array)[i] = (double)value; break;
    }
}

static int64_t
combined(const deed *d, size_t i)
{
    int64_t all = element(d, d->ring->slot[0], i);
    for (int rank = 1; rank < d->ring->size; rank++) {
        int64_t one = element(d, d->ring->slot[rank], i);
        switch (d->op) {
        case HOOP_SUM: all += one; break;
        case HOOP_MAX: all = one > all ? one : all; break;
        case HOOP_MIN: all = one < all ? one : all; break;
        default: all ^= one; break;
        }
    }
    return d->type == HOOP_UINT64 ? all : as_type(d->type, all);
}

/* --- arrays --- */

/* `n` elements of this rank, the first of which is number `first`. */
static void
fill(const deed *d, void *array, size_t first, size_t n)
{
    for (size_t i = 0; i < n; i++)
        store(d->type, array, i, element(d, d->ring->slot[d->ring->rank], first + i));
}

static void
poison(const deed *d, size_t n)
{
    memset(output, POISON, n * hoop_dtype_size(d->type) + FENCE);
}

/* Elements of a slot, or of all combined (slot -1). */
static void
expect(const deed *d, const void *array, size_t n, int slot, size_t first, const char *what)
{
    for (size_t i = 0; i < n; i++) {
        int64_t wanted = slot < 0 ? combined(d, first + i) : element(d, slot, first + i);
        int64_t seen = load(d->type, array, i);
        if (seen != wanted)
            chaos_wrong("%s: %s element %zu of %zu is %lld instead of %lld", d->text, what, i, n, (long long)seen,
                        (long long)wanted);
    }
}

/* Nothing behind the output, and nothing of the input, has changed. */
static void
expect_untouched(const deed *d, size_t in, size_t out)
{
    const uint8_t *fence = output + out * hoop_dtype_size(d->type);
    for (int i = 0; i < FENCE; i++)
        if (fence[i] != POISON)
            chaos_wrong("%s: byte %d behind the output was written", d->text, i);
    expect(d, input, in, d->ring->slot[d->ring->rank], 0, "input");
}

/* --- operations --- */

static hoop_result
allreduce(const deed *d)
{
    int in_place = d->salt % 4 == 0;
    fill(d, input, 0, d->count);
    poison(d, d->count);
    if (in_place)
        fill(d, output, 0, d->count);
    hoop_result result = hoop_allreduce(in_place ? output : input, output, d->count, d->type, d->op, d->ring->comm);
    if (result == HOOP_SUCCESS)
        expect(d, output, d->count, -1, 0, "output");
    expect_untouched(d, d->count, d->count);
    return result;
}

static hoop_result
broadcast(const deed *d)
{
    fill(d, input, 0, d->count);
    poison(d, d->count);
    hoop_result result = hoop_broadcast(input, output, d->count, d->type, d->root, d->ring->comm);
    if (result == HOOP_SUCCESS)
        expect(d, output, d->count, d->ring->slot[d->root], 0, "output");
    expect_untouched(d, d->count, d->count);
    return result;
}

static hoop_result
allgather(const deed *d)
{
    size_t each = d->count / (size_t)d->ring->size, bytes = each * hoop_dtype_size(d->type);
    fill(d, input, 0, each);
    poison(d, each * (size_t)d->ring->size);
    hoop_result result = hoop_allgather(input, output, each, d->type, d->ring->comm);
    for (int rank = 0; rank < d->ring->size && result == HOOP_SUCCESS; rank++)
        expect(d, output + (size_t)rank * bytes, each, d->ring->slot[rank], 0, "gathered");
    expect_untouched(d, each, each * (size_t)d->ring->size);
    return result;
}

static hoop_result
reduce_scatter(const deed *d)
{
    size_t each = d->count / (size_t)d->ring->size, all = each * (size_t)d->ring->size;
    fill(d, input, 0, all);
    poison(d, each);
    hoop_result result = hoop_reduce_scatter(input, output, each, d->type, d->op, d->ring->comm);
    if (result == HOOP_SUCCESS)
        expect(d, output, each, -1, each * (size_t)d->ring->rank, "output");
    expect_untouched(d, all, each);
    return result;
}

static hoop_result
alltoall(const deed *d)
{
    size_t each = d->count / (size_t)d->ring->size, all = each * (size_t)d->ring->size;
    size_t bytes = each * hoop_dtype_size(d->type);
    fill(d, input, 0, all);
    poison(d, all);
    hoop_result result = hoop_alltoall(input, output, each, d->type, d->ring->comm);
    for (int rank = 0; rank < d->ring->size && result == HOOP_SUCCESS; rank++)
        expect(d, output + (size_t)rank * bytes, each, d->ring->slot[rank], each * (size_t)d->ring->rank, "block");
    expect_untouched(d, all, all);
    return result;
}

static hoop_result
wait_for_all(hoop_work **works, int n)
{
    hoop_result result = HOOP_SUCCESS;
    for (int i = 0; i < n; i++) {
        hoop_result one = hoop_work_wait(works[i], -1);
        result = result ? result : one;
    }
    return result;
}

/* Several allreduces in flight at once, of parts of the arrays. */
static hoop_result
flight(const deed *d)
{
    size_t part[TAGS] = {d->count / 2, 1, 0, d->count / 4}, at = 0, bytes = hoop_dtype_size(d->type);
    hoop_work *works[TAGS];
    hoop_result result = HOOP_SUCCESS;
    int n = 0;
    fill(d, input, 0, d->count + 1);
    poison(d, d->count + 1);
    for (; n < TAGS && result == HOOP_SUCCESS; at += part[n++]) {
        result =
            hoop_iallreduce(input + at * bytes, output + at * bytes, part[n], d->type, d->op, d->ring->comm, &works[n]);
        if (result != HOOP_SUCCESS)
            break;
    }
    hoop_result ended = wait_for_all(works, n);
    result = result ? result : ended;
    if (result == HOOP_SUCCESS)
        expect(d, output, at, -1, 0, "output");
    expect_untouched(d, d->count + 1, d->count + 1);
    return result;
}

/* Small allreduces that are fused. */
static hoop_result
group(const deed *d)
{
    size_t each = d->count % 100, bytes = each * hoop_dtype_size(d->type);
    fill(d, input, 0, TAGS * each);
    poison(d, TAGS * each);
    hoop_result result = hoop_group_start(d->ring->comm);
    for (size_t i = 0; i < TAGS && result == HOOP_SUCCESS; i++)
        result = hoop_allreduce(input + i * bytes, output + i * bytes, each, d->type, d->op, d->ring->comm);
    if (result == HOOP_SUCCESS)
        result = hoop_group_end(d->ring->comm);
    else
        hoop_group_end(d->ring->comm);
    if (result == HOOP_SUCCESS)
        expect(d, output, TAGS * each, -1, 0, "output");
    expect_untouched(d, TAGS * each, TAGS * each);
    return result;
}

/* Each rank sends to the one that is so many further, and receives from the one so many before, short and long. */
static hoop_result
messages(const deed *d)
{
    int size = d->ring->size, step = (int)(d->salt % (uint64_t)size);
    int to = (d->ring->rank + step) % size, from = (d->ring->rank + size - step) % size, n = 0;
    size_t part[TAGS] = {d->count / 2, 1, 0, d->count / 4}, at = 0, bytes = hoop_dtype_size(d->type);
    hoop_work *works[2 * TAGS];
    hoop_result result = HOOP_SUCCESS;
    fill(d, input, 0, d->count + 1);
    poison(d, d->count + 1);
    for (int i = 0; i < TAGS && result == HOOP_SUCCESS; at += part[i++]) {
        result = hoop_irecv(output + at * bytes, part[i], d->type, from, i, d->ring->comm, &works[n]);
        n += result == HOOP_SUCCESS;
        if (result == HOOP_SUCCESS)
            result = hoop_isend(input + at * bytes, part[i], d->type, to, i, d->ring->comm, &works[n]);
        n += result == HOOP_SUCCESS && n % 2;
    }
    hoop_result ended = wait_for_all(works, n);
    result = result ? result : ended;
    if (result == HOOP_SUCCESS)
        expect(d, output, at, d->ring->slot[from], 0, "message");
    expect_untouched(d, d->count + 1, d->count + 1);
    return result;
}

/* Each rank has a color that all know, some none; those of one color add up. */
static hoop_result
split(const deed *d)
{
    const chaos_ring *ring = d->ring;
    chaos_ring part = {0};
    int color[CHAOS_SLOTS] = {0};
    for (int rank = 0; rank < ring->size; rank++)
        color[rank] = (int)(tap_mix(d->salt + (uint64_t)rank) % 3) - (d->salt % 5 == 0);
    for (int rank = 0; rank < ring->size; rank++)
        if (color[rank] == color[ring->rank]) {
            part.rank = rank == ring->rank ? part.size : part.rank;
            part.guest[part.size] = ring->guest[rank];
            part.slot[part.size++] = ring->slot[rank];
        }
    hoop_result result = hoop_comm_split(ring->comm, color[ring->rank], 0, &part.comm);
    if (result != HOOP_SUCCESS)
        chaos_part();
    if (result != HOOP_SUCCESS || color[ring->rank] < 0)
        return result;
    if (hoop_comm_rank(part.comm) != part.rank || hoop_comm_size(part.comm) != part.size)
        chaos_wrong("%s: rank %d of %d instead of %d of %d", d->text, hoop_comm_rank(part.comm),
                    hoop_comm_size(part.comm), part.rank, part.size);
    deed sum = *d;
    sum.ring = &part;
    result = allreduce(&sum);
    if (result != HOOP_SUCCESS) /* then the whole ring has lost that rank, too: the next operations tell */
        chaos_blame(&part, result);
    part.proxied = ring->proxied;
    part.moment = ring->moment;
    chaos_gather(&part, 1);
    hoop_comm_destroy(part.comm);
    return HOOP_SUCCESS;
}

static hoop_result
barrier(const deed *d)
{
    return hoop_barrier(d->ring->comm);
}

static size_t
count_of(uint64_t draw)
{
    switch (draw % 8) {
    case 0: return 0;
    case 1: return 1;
    case 2:
    case 3: return 2 + draw / 8 % 300;
    case 4:
    case 5:
    case 6: return draw / 8 % (LARGE / 8);
    default: return draw / 8 % (LARGE - 1);
    }
}

hoop_result
chaos_operate(const chaos_ring *ring, uint64_t draw, int served)
{
    static const struct {
        const char *name;
        hoop_result (*run)(const deed *d);
    } all[] = {{"allreduce", allreduce},
               {"allreduce", allreduce},
               {"broadcast", broadcast},
               {"allgather", allgather},
               {"messages", messages},
               {"messages", messages},
               {"reduce_scatter", reduce_scatter},
               {"alltoall", alltoall},
               {"flight", flight},
               {"group", group},
               {"barrier", barrier},
               {"split", split}};
    static const hoop_dtype types[] = {HOOP_UINT8, HOOP_INT16, HOOP_INT32, HOOP_UINT64, HOOP_FLOAT32, HOOP_FLOAT64};
    static const hoop_op ops[] = {HOOP_SUM, HOOP_SUM, HOOP_MAX, HOOP_MIN, HOOP_BXOR};
    enum {
        WORKS = sizeof(all) / sizeof(*all),
        TYPES = sizeof(types) / sizeof(*types),
        OPS = sizeof(ops) / sizeof(*ops)
    };
    size_t which = tap_mix(draw + 1) % (uint64_t)(WORKS - !served);
    deed d = {.ring = ring, .type = types[tap_mix(draw + 2) % TYPES], .salt = tap_mix(draw + 3) >> 8};
    int is_float = d.type == HOOP_FLOAT32 || d.type == HOOP_FLOAT64;
    d.op = ops[tap_mix(draw + 4) % (size_t)(OPS - is_float)];
    d.count = count_of(tap_mix(draw + 5) >> 8);
    d.root = (int)(tap_mix(draw + 6) % (uint64_t)ring->size);
    snprintf(d.text, sizeof(d.text), "%s of %zu, type %d, op %d, root %d, salt %llu", all[which].name, d.count,
             (int)d.type, (int)d.op, d.root, (unsigned long long)d.salt);
    chaos_say("%s", d.text);
    hoop_result result = all[which].run(&d);
    if (result != HOOP_SUCCESS)
        chaos_say("... ends with %d", (int)result);
    return result;
}
