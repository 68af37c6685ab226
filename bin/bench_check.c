/* SPDX-License-Identifier: MIT */
/* bench_check: walks over buffers in pieces of one period of the pattern. Touches them through bench_memory only. */
#include "bin/bench_check.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { LARGEST_ELEMENT = 8, UNTOUCHED = 0xA5 };
_Static_assert(sizeof(bench_range) <= LARGEST_ELEMENT, "the table holds ranges, too");

int
bench_check_open(bench_check *check)
{
    check->table = hp_alloc(BENCH_PERIOD, LARGEST_ELEMENT);
    check->piece = hp_alloc(BENCH_PERIOD, LARGEST_ELEMENT);
    if (check->table && check->piece)
        return 0;
    bench_check_close(check);
    return -1;
}

void
bench_check_close(bench_check *check)
{
    free(check->table);
    free(check->piece);
    check->table = check->piece = NULL;
}

static size_t
element_size(const bench_check *check)
{
    return check->pattern.type->size;
}

static size_t
send_elements(const bench_check *check)
{
    return bench_coll_send_count(check->coll, check->call->count, check->pattern.ranks);
}

static size_t
recv_bytes(const bench_check *check)
{
    size_t elements = check->in_place ? bench_coll_total(check->coll, check->call->count, check->pattern.ranks)
                                      : bench_coll_recv_count(check->coll, check->call->count, check->pattern.ranks);
    return elements * element_size(check);
}

static size_t
period_of(size_t elements)
{
    return elements < BENCH_PERIOD ? elements : BENCH_PERIOD;
}

/* Puts `elements` elements of the table, over and over, to `to`. */
static void
lay_out(const bench_check *check, uint8_t *to, size_t elements)
{
    size_t size = element_size(check);
    for (size_t at = 0; at < elements; at += BENCH_PERIOD)
        check->recv->memory->put(to + at * size, check->table, period_of(elements - at) * size);
}

static uint64_t
differing(const uint8_t *a, const uint8_t *b, size_t elements, size_t size)
{
    uint64_t count = 0;
    if (memcmp(a, b, elements * size) == 0)
        return 0;
    for (size_t i = 0; i < elements; i++)
        count += memcmp(a + i * size, b + i * size, size) != 0;
    return count;
}

/* As bench_pattern_range put them into the table. */
static uint64_t
outside(const bench_check *check, const bench_range *ranges, size_t elements)
{
    const bench_type *type = check->pattern.type;
    uint64_t count = 0;
    for (size_t i = 0; i < elements; i++) {
        int order = bench_order(type, check->piece + i * type->size);
        count += order < ranges[i].least || order > ranges[i].greatest;
    }
    return count;
}

/* How many of `elements` elements at `at` are not the table's, which is entered at its element `first`. */
static uint64_t
compare(const bench_check *check, const uint8_t *at, size_t elements, size_t first, int rounded)
{
    size_t size = element_size(check), place = first % BENCH_PERIOD;
    uint64_t wrong = 0;
    while (elements > 0) {
        size_t now = BENCH_PERIOD - place < elements ? BENCH_PERIOD - place : elements;
        check->recv->memory->get(check->piece, at, now * size);
        if (rounded)
            wrong += outside(check, (const bench_range *)(const void *)check->table + place, now);
        else
            wrong += differing(check->piece, check->table + place * size, now, size);
        at += now * size;
        elements -= now;
        place = 0;
    }
    return wrong;
}

void
bench_check_fill(bench_check *check)
{
    const bench_call *call = check->call;
    size_t elements = send_elements(check);
    check->recv->memory->fill(check->recv->data, UNTOUCHED, recv_bytes(check));
    bench_buffer_guard(check->recv, recv_bytes(check));
    if (!bench_coll_sends(check->coll, check->rank, call->root))
        return;
    bench_pattern_send(&check->pattern, check->rank, check->table, period_of(elements));
    lay_out(check, (uint8_t *)(uintptr_t)call->send, elements);
}

/* One block of what was received, against what its origin sent. */
static uint64_t
wrong_in_block(const bench_check *check, size_t block)
{
    const bench_call *call = check->call;
    size_t count = call->count, entries = period_of(send_elements(check));
    bench_origin from = bench_coll_origin(check->coll, block, count, check->rank, call->root);
    int rounded = from.rank < 0 && bench_pattern_is_rounded(&check->pattern);
    if (rounded)
        bench_pattern_range(&check->pattern, (bench_range *)(void *)check->table, entries);
    else if (from.rank < 0)
        bench_pattern_reduced(&check->pattern, check->table, entries);
    else
        bench_pattern_send(&check->pattern, from.rank, check->table, entries);
    const uint8_t *at = (const uint8_t *)call->recv + block * count * element_size(check);
    return compare(check, at, count, from.element, rounded);
}

/* Out of place, a send buffer is never written. */
static uint64_t
wrong_in_send(const bench_check *check)
{
    const bench_call *call = check->call;
    if (check->in_place || !bench_coll_sends(check->coll, check->rank, call->root))
        return 0;
    bench_pattern_send(&check->pattern, check->rank, check->table, period_of(send_elements(check)));
    return compare(check, call->send, send_elements(check), 0, 0);
}

uint64_t
bench_check_wrong(bench_check *check)
{
    size_t blocks = check->coll->recv == BENCH_MANY ? (size_t)check->pattern.ranks : 1;
    uint64_t wrong = bench_buffer_trespassed(check->recv, recv_bytes(check)) + wrong_in_send(check);
    if (!bench_coll_receives(check->coll, check->rank, check->call->root))
        return wrong;
    for (size_t block = 0; block < blocks; block++)
        wrong += wrong_in_block(check, block);
    return wrong;
}
