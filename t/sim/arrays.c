/* SPDX-License-Identifier: MIT */
/* arrays: the users' side of symbol.h: makes each rank's arrays and knows what every collective promises. */
#include "t/sim/blocks.h"
#include "t/sim/symbol.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 7 };

sym
sym_of(int rank, uint64_t element)
{
    uint64_t x = element * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)rank * UINT64_C(0xd1342543de82ef95) + 1;
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (sym){.hash = x ^ (x >> 31), .order = x, .terms = 1};
}

static int
same(sym a, sym b)
{
    return a.hash == b.hash && a.terms == b.terms && a.divided == b.divided && a.misjudged == b.misjudged;
}

/* An element's number in the data of a rank that has all blocks, wherever it has them: in them no two have the same. */
static uint64_t
number_of(int block, uint64_t i)
{
    return (uint64_t)block << 32 | i;
}

/* Elements the kind reads and writes on this rank. */
static void
extents(const sym_case *c, const sym_arrays *a, int rank, uint64_t span, uint64_t *sends, uint64_t *recvs)
{
    uint64_t count = c->call.count, all = count * (uint64_t)c->size;
    int root = c->call.root == rank;
    *sends = *recvs = count;
    switch ((hp_kind)c->call.kind) {
    case HP_ALLGATHERV: *sends = a->blocks[rank].count, *recvs = span; break;
    case HP_REDUCE_SCATTERV: *sends = span, *recvs = a->blocks[rank].count; break;
    case HP_REDUCE_SCATTER: *sends = all; break;
    case HP_ALLGATHER: *recvs = all; break;
    case HP_BROADCAST: *sends = root ? count : 0; break;
    case HP_REDUCE: *recvs = root ? count : 0; break;
    case HP_GATHER: *recvs = root ? all : 0; break;
    case HP_SCATTER: *sends = root ? all : 0; break;
    case HP_ALLTOALL: *sends = *recvs = all; break;
    default: break;
    }
}

int
sym_arrays_make(sym_arrays *a, const sym_case *c, int rank)
{
    uint64_t shift = c->call.count * (uint64_t)rank, span = 0, larger;
    if (hp_kind_has_counts(c->call.kind)) {
        a->blocks = calloc((size_t)c->size, sizeof(*a->blocks));
        span = sim_blocks(a->blocks, &c->call, rank, c->size);
        shift = a->blocks[rank].at;
    }
    extents(c, a, rank, span, &a->send_count, &a->recv_count);
    larger = a->send_count > a->recv_count ? a->send_count : a->recv_count;
    /* in place: one array, where both sides exist; the smaller side is the rank's block of the larger one */
    int one = c->place.in_place && a->send_count > 0 && a->recv_count > 0;
    a->memory_count = (one ? larger : a->send_count + GUARD + a->recv_count) + 2 * GUARD;
    a->memory = calloc(a->memory_count, sizeof(sym));
    a->before = calloc(a->memory_count, sizeof(sym));
    if (!a->memory || !a->before)
        return 0;
    a->send = a->memory + GUARD;
    a->recv = one ? a->send : a->send + a->send_count + GUARD;
    if (one && a->recv_count > a->send_count)
        a->send += shift;
    if (one && a->send_count > a->recv_count)
        a->recv += shift;
    for (uint64_t i = 0; i < a->memory_count; i++)
        a->memory[i] = (sym){.hash = UINT64_C(0x5a5a5a5a) + i, .terms = 999, .divided = 9};
    for (uint64_t i = 0; i < a->send_count && c->call.kind != HP_REDUCE_SCATTERV; i++)
        a->send[i] = sym_of(rank, i);
    for (int b = 0; b < c->size && c->call.kind == HP_REDUCE_SCATTERV; b++)
        for (uint64_t i = 0; i < a->blocks[b].count; i++)
            a->send[a->blocks[b].at + i] = sym_of(rank, number_of(b, i));
    memcpy(a->before, a->memory, a->memory_count * sizeof(sym));
    return 1;
}

void
sym_arrays_free(sym_arrays *a)
{
    free(a->memory);
    free(a->before);
    free(a->blocks);
}

static int
reduces(int kind)
{
    return kind == HP_ALLREDUCE || kind == HP_REDUCE_SCATTER || kind == HP_REDUCE;
}

uint64_t
sym_order(sym a, sym b)
{
    return (a.order ^ a.order >> 29) * UINT64_C(0x9e3779b97f4a7c15) + b.order;
}

static int
host_of(const sym_case *c, int rank)
{
    int position = 0;
    while (c->order[position] != rank)
        position++;
    return hp_host_map_seat(c->options.hosts, position).host;
}

/* In rank order the contributions of all ranks; with a host those of its ranks. */
static sym
sum_in_order(const sym_case *c, uint64_t number, int host)
{
    sym sum = {0};
    for (int r = 0; r < c->size; r++) {
        sym term = sym_of(r, number);
        if (host >= 0 && host_of(c, r) != host)
            continue;
        sum.order = sum.terms++ ? sym_order(sum, term) : term.order;
        sum.hash += term.hash;
    }
    return sum;
}

/* In the order of hosts: that of their lowest ranks. */
static sym
sum_of_hosts(const sym_case *c, uint64_t number)
{
    sym sum = {0};
    for (int r = 0; r < c->size; r++) {
        int host = host_of(c, r), lower = 0;
        while (lower < r && host_of(c, lower) != host)
            lower++;
        if (lower < r)
            continue;
        sym term = sum_in_order(c, number, host);
        sum.order = sum.terms ? sym_order(sum, term) : term.order;
        sum.terms += term.terms;
        sum.hash += term.hash;
    }
    return sum;
}

static sym
sum_of(const sym_case *c, uint64_t number)
{
    sym sum = c->by_host ? sum_of_hosts(c, number) : sum_in_order(c, number, -1);
    sum.divided = c->size > 1;
    return sum;
}

/* Not of a reduce_scatterv: its elements' numbers are far apart. */
sym *
sym_sums(const sym_case *c)
{
    uint64_t count = c->call.count * (c->call.kind == HP_REDUCE_SCATTER ? (uint64_t)c->size : 1);
    sym *sums = reduces(c->call.kind) ? calloc(count + 1, sizeof(*sums)) : NULL;
    for (uint64_t i = 0; sums && i < count; i++)
        sums[i] = sum_of(c, i);
    return sums;
}

/* What recvbuf[i] must be on this rank. */
static sym
promised(const sym_case *c, const sym_arrays *a, const sym *sums, int rank, uint64_t i)
{
    uint64_t count = c->call.count;
    int block = c->call.kind == HP_ALLGATHERV ? sim_block_at(a->blocks, c->size, i) : -1;
    switch ((hp_kind)c->call.kind) {
    case HP_ALLGATHERV: return block < 0 ? a->before[&a->recv[i] - a->memory] : sym_of(block, i - a->blocks[block].at);
    case HP_REDUCE_SCATTERV: return sum_of(c, number_of(rank, i));
    case HP_REDUCE_SCATTER: return sums[count * (uint64_t)rank + i];
    case HP_ALLGATHER:
    case HP_GATHER: return sym_of((int)(i / count), i % count);
    case HP_BROADCAST: return sym_of(c->call.root, i);
    case HP_SCATTER: return sym_of(c->call.root, count * (uint64_t)rank + i);
    case HP_ALLTOALL: return sym_of((int)(i / count), count * (uint64_t)rank + i % count);
    default: return sums[i];
    }
}

int
sym_arrays_agree(const sym_arrays *a, const sym_arrays *b)
{
    for (uint64_t i = 0; i < a->recv_count; i++)
        if (a->recv[i].order != b->recv[i].order)
            return 0;
    return 1;
}

/* Whether a place of the memory is part of recvbuf. In place the rest of sendbuf must be as it was, too. */
static int
is_result(const sym_arrays *a, uint64_t i)
{
    const sym *at = a->memory + i;
    return at >= a->recv && at < a->recv + a->recv_count;
}

/* In place a reduce_scatter or scatter may use all of sendbuf; hoop leaves it alone, and this says so. */
int
sym_arrays_check(const sym_arrays *a, const sym_case *c, int rank, const sym *sums, char *why, size_t why_size)
{
    for (uint64_t i = 0; i < a->recv_count; i++) {
        sym wanted = promised(c, a, sums, rank, i);
        int disorder = c->call.ordered && a->recv[i].order != wanted.order;
        if (same(a->recv[i], wanted) && !disorder)
            continue;
        snprintf(why, why_size, "rank %d element %ju: %u terms of %u, divided %u times, misjudged %u times%s", rank,
                 (uintmax_t)i, a->recv[i].terms, wanted.terms, a->recv[i].divided, a->recv[i].misjudged,
                 disorder ? ", not in rank order" : "");
        return 0;
    }
    for (uint64_t i = 0; i < a->memory_count; i++) {
        if (is_result(a, i) || same(a->memory[i], a->before[i]))
            continue;
        snprintf(why, why_size, "rank %d: place %ju of %ju was written outside recvbuf", rank, (uintmax_t)i,
                 (uintmax_t)a->memory_count);
        return 0;
    }
    return 1;
}
