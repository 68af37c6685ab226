/* SPDX-License-Identifier: MIT */
/* check: walks over buffers in pieces of one period of the pattern. Touches them through perf_memory only. */
#include "perf/check.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { LARGEST_ELEMENT = 8, UNTOUCHED = 0xA5 };
_Static_assert(sizeof(perf_range) <= LARGEST_ELEMENT, "the table holds ranges, too");

int
perf_check_open(perf_check *check)
{
    check->table = hp_alloc(PERF_PERIOD, LARGEST_ELEMENT);
    check->piece = hp_alloc(PERF_PERIOD, LARGEST_ELEMENT);
    if (check->table && check->piece)
        return 0;
    perf_check_close(check);
    return -1;
}

void
perf_check_close(perf_check *check)
{
    free(check->table);
    free(check->piece);
    check->table = check->piece = NULL;
}

static size_t
element_size(const perf_check *check)
{
    return check->pattern.type->size;
}

static size_t
send_elements(const perf_check *check)
{
    return perf_coll_send_count(check->coll, check->call->count, check->pattern.ranks);
}

static size_t
recv_bytes(const perf_check *check)
{
    size_t elements = check->in_place ? perf_coll_total(check->coll, check->call->count, check->pattern.ranks)
                                      : perf_coll_recv_count(check->coll, check->call->count, check->pattern.ranks);
    return elements * element_size(check);
}

static size_t
period_of(size_t elements)
{
    return elements < PERF_PERIOD ? elements : PERF_PERIOD;
}

/* Puts `elements` elements of the table, over and over, to `to`. */
static void
lay_out(const perf_check *check, uint8_t *to, size_t elements)
{
    size_t size = element_size(check);
    for (size_t at = 0; at < elements; at += PERF_PERIOD)
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

/* As perf_pattern_range put them into the table. */
static uint64_t
outside(const perf_check *check, const perf_range *ranges, size_t elements)
{
    const perf_type *type = check->pattern.type;
    uint64_t count = 0;
    for (size_t i = 0; i < elements; i++) {
        int order = perf_order(type, check->piece + i * type->size);
        count += order < ranges[i].least || order > ranges[i].greatest;
    }
    return count;
}

/* How many of `elements` elements at `at` are not the table's, which is entered at its element `first`. */
static uint64_t
compare(const perf_check *check, const uint8_t *at, size_t elements, size_t first, int rounded)
{
    size_t size = element_size(check), place = first % PERF_PERIOD;
    uint64_t wrong = 0;
    while (elements > 0) {
        size_t now = PERF_PERIOD - place < elements ? PERF_PERIOD - place : elements;
        check->recv->memory->get(check->piece, at, now * size);
        if (rounded)
            wrong += outside(check, (const perf_range *)(const void *)check->table + place, now);
        else
            wrong += differing(check->piece, check->table + place * size, now, size);
        at += now * size;
        elements -= now;
        place = 0;
    }
    return wrong;
}

void
perf_check_fill(perf_check *check)
{
    const perf_call *call = check->call;
    size_t elements = send_elements(check);
    check->recv->memory->fill(check->recv->data, UNTOUCHED, recv_bytes(check));
    perf_buffer_guard(check->recv, recv_bytes(check));
    if (!perf_coll_sends(check->coll, check->rank, call->root))
        return;
    perf_pattern_send(&check->pattern, check->rank, check->table, period_of(elements));
    lay_out(check, (uint8_t *)(uintptr_t)call->send, elements);
}

/* One block of what was received, against what its origin sent. */
static uint64_t
wrong_in_block(const perf_check *check, size_t block)
{
    const perf_call *call = check->call;
    size_t count = call->count, entries = period_of(send_elements(check));
    perf_origin from = perf_coll_origin(check->coll, block, count, check->rank, call->root);
    int rounded = from.rank < 0 && perf_pattern_is_rounded(&check->pattern);
    if (rounded)
        perf_pattern_range(&check->pattern, (perf_range *)(void *)check->table, entries);
    else if (from.rank < 0)
        perf_pattern_reduced(&check->pattern, check->table, entries);
    else
        perf_pattern_send(&check->pattern, from.rank, check->table, entries);
    const uint8_t *at = (const uint8_t *)call->recv + block * count * element_size(check);
    return compare(check, at, count, from.element, rounded);
}

/* Out of place, a send buffer is never written. */
static uint64_t
wrong_in_send(const perf_check *check)
{
    const perf_call *call = check->call;
    if (check->in_place || !perf_coll_sends(check->coll, check->rank, call->root))
        return 0;
    perf_pattern_send(&check->pattern, check->rank, check->table, period_of(send_elements(check)));
    return compare(check, call->send, send_elements(check), 0, 0);
}

uint64_t
perf_check_wrong(perf_check *check)
{
    size_t blocks = check->coll->recv == PERF_MANY ? (size_t)check->pattern.ranks : 1;
    uint64_t wrong = perf_buffer_trespassed(check->recv, recv_bytes(check)) + wrong_in_send(check);
    if (!perf_coll_receives(check->coll, check->rank, check->call->root))
        return wrong;
    for (size_t block = 0; block < blocks; block++)
        wrong += wrong_in_block(check, block);
    return wrong;
}
