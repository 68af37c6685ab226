/* SPDX-License-Identifier: MIT */
/* What a public call may ask for: the whole contract of hoop.h about types, roots, sizes, NULL, alignment and overlap.
 */
#include "lib/request.h"

#include "base/dtype.h"
#include "base/err.h"
#include "lib/plan.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <string.h>

enum { RANKS = 4, RANK = 2, COUNT = 10, BLOCK = COUNT * 4 };

static _Alignas(64) char memory[8 * RANKS * BLOCK];

static hp_request
ask(hp_kind kind, void *send, void *recv)
{
    hp_request r = {.send = send, .recv = recv};
    int rooted = kind == HP_BROADCAST || kind == HP_REDUCE || kind == HP_GATHER || kind == HP_SCATTER;
    r.call = (hp_call){.kind = (uint8_t)kind, .dtype = HOOP_INT32, .root = rooted ? RANK : -1, .count = COUNT};
    return r;
}

static int
passes(hp_request r)
{
    hoop_error error;
    return hp_request_check(&r, RANK, RANKS, &error) == HOOP_SUCCESS;
}

/* Refused with HOOP_ERR_INVALID_ARGUMENT and a sentence with the function's name and these words. */
static void
refused(hp_request r, const char *words, const char *what)
{
    hoop_error error;
    char name[40] = "hoop_";
    hp_err_clear(&error);
    hoop_result result = hp_request_check(&r, RANK, RANKS, &error);
    strncat(name, hp_kind_name(r.call.kind), sizeof(name) - 6);
    ok(result == HOOP_ERR_INVALID_ARGUMENT && strncmp(error.text, name, strlen(name)) == 0 && strstr(error.text, words),
       "%s: %s", what, error.text);
}

static const hp_kind kinds[] = {HP_ALLREDUCE, HP_REDUCE_SCATTER, HP_ALLGATHER, HP_BROADCAST,
                                HP_REDUCE,    HP_GATHER,         HP_SCATTER,   HP_ALLTOALL};
enum { KINDS = sizeof(kinds) / sizeof(*kinds) };

static int
spans_send(hp_kind kind)
{
    return kind == HP_REDUCE_SCATTER || kind == HP_SCATTER || kind == HP_ALLTOALL;
}

static int
spans_recv(hp_kind kind)
{
    return kind == HP_ALLGATHER || kind == HP_GATHER || kind == HP_ALLTOALL;
}

/* Two arrays, neighbours, and the one form of in place that each kind has. */
static void
test_places(void)
{
    for (int k = 0; k < KINDS; k++) {
        size_t sends = (spans_send(kinds[k]) ? RANKS : 1) * BLOCK, recvs = (spans_recv(kinds[k]) ? RANKS : 1) * BLOCK;
        size_t shift_send = sends < recvs ? RANK * BLOCK : 0, shift_recv = recvs < sends ? RANK * BLOCK : 0;
        const char *name = hp_kind_name((int)kinds[k]);
        hp_request r = ask(kinds[k], memory, memory + sends);
        hoop_error error;
        ok(hp_request_check(&r, RANK, RANKS, &error) == HOOP_SUCCESS && !r.in_place, "%s: recvbuf behind sendbuf",
           name);
        r = ask(kinds[k], memory + recvs, memory);
        ok(hp_request_check(&r, RANK, RANKS, &error) == HOOP_SUCCESS && !r.in_place, "%s: sendbuf behind recvbuf",
           name);
        r = ask(kinds[k], memory + shift_send, memory + shift_recv);
        ok(hp_request_check(&r, RANK, RANKS, &error) == HOOP_SUCCESS && r.in_place, "%s: in place", name);
        refused(ask(kinds[k], memory, memory + sends - 4), "overlap", "the last element shared");
        refused(ask(kinds[k], memory + recvs - 4, memory), "overlap", "the first element shared");
        refused(ask(kinds[k], memory + shift_send + 4, memory + shift_recv), "overlap", "in place by one element off");
        if (sends != recvs)
            refused(ask(kinds[k], memory, memory), "overlap", "another rank's block in place");
    }
}

static void
test_nulls(void)
{
    for (int k = 0; k < KINDS; k++) {
        hp_request r;
        refused(ask(kinds[k], NULL, memory), "sendbuf is NULL", "at the root, or without one");
        refused(ask(kinds[k], memory, NULL), "recvbuf is NULL", "at the root, or without one");
        r = ask(kinds[k], NULL, NULL);
        r.call.count = 0;
        ok(passes(r), "%s of nothing needs no buffers", hp_kind_name((int)kinds[k]));
    }
    for (int k = 0; k < KINDS; k++) {
        hp_request r = ask(kinds[k], NULL, memory);
        if (r.call.root < 0)
            continue;
        r.call.root = RANK - 1;
        int sends = kinds[k] == HP_REDUCE || kinds[k] == HP_GATHER;
        ok(passes(r) == !sends, "%s off the root: sendbuf is %s", hp_kind_name((int)kinds[k]),
           sends ? "used" : "not used");
        r.send = memory;
        r.recv = NULL;
        ok(passes(r) == sends, "%s off the root: recvbuf is %s", hp_kind_name((int)kinds[k]),
           sends ? "not used" : "used");
    }
    ok(passes(ask(HP_BARRIER, NULL, NULL)), "a barrier has no buffers");
}

static void
test_numbers(void)
{
    static const uint8_t strange[] = {12, 13, 63, 67, 76, 255};
    hp_request r = ask(HP_ALLREDUCE, memory, memory);
    for (size_t i = 0; i < sizeof(strange); i++) {
        r = ask(HP_ALLREDUCE, memory, memory);
        r.call.dtype = strange[i];
        refused(r, "unknown dtype", "a dtype in a gap");
        r = ask(HP_ALLREDUCE, memory, memory);
        r.call.op = strange[i];
        refused(r, "unknown op", "an op in a gap");
    }
    r.call.op = 5;
    refused(r, "unknown op", "op 5");
    r = ask(HP_ALLGATHER, memory, memory + RANKS * BLOCK);
    r.send = memory + RANKS * BLOCK;
    r.recv = memory;
    r.call.op = 5;
    ok(passes(r), "an op means nothing where nothing is reduced");
    r = ask(HP_BROADCAST, memory, memory);
    r.call.root = RANKS;
    refused(r, "ranks 0 to 3", "root = size");
    r.call.root = -1;
    refused(r, "root -1", "no root");
}

/* Every operation of every type, of those that reduce; the sentence names what does not fit. */
static void
test_reductions(void)
{
    static const hp_kind reducing[] = {HP_ALLREDUCE, HP_REDUCE_SCATTER, HP_REDUCE};
    for (int i = 0; i < HP_DTYPES * HP_OPS; i++) {
        hp_request r = ask(reducing[i % 3], memory, memory + RANKS * 2 * BLOCK);
        hoop_dtype dtype = hp_dtype_at(i / HP_OPS);
        hoop_op op = hp_op_at(i % HP_OPS);
        r.call.dtype = (uint8_t)dtype;
        r.call.op = (uint8_t)op;
        if (op == HOOP_AVG && dtype == HOOP_BOOL)
            refused(r, "a bool has no mean", "avg of bool");
        else if (op >= HOOP_BAND && dtype >= HOOP_FLOAT16 && dtype <= HOOP_FLOAT8E5M2)
            refused(r, hp_dtype_name(dtype), hp_op_name(op));
        else
            ok(passes(r), "%s of %s", hp_op_name(op), hp_dtype_name(dtype));
    }
    hp_request r = ask(HP_BROADCAST, memory, memory);
    r.call.dtype = HOOP_BOOL;
    r.call.op = HOOP_AVG;
    ok(passes(r), "bools are moved, whatever the op says");
}

static void
test_sizes(void)
{
    static const uint64_t counts[] = {UINT64_MAX, UINT64_MAX / 4, UINT64_MAX / 4 + 1, UINT64_MAX / 16 + 1,
                                      UINT64_MAX / 16};
    for (int k = 0; k < 5; k++) {
        hp_request r = ask(HP_ALLGATHER, memory, memory);
        r.call.count = counts[k];
        refused(r, "exceeds the address range", "a size that overflows");
    }
    hp_request r = ask(HP_ALLREDUCE, memory, memory);
    r.call.count = UINT64_C(1) << 40;
    ok(passes(r), "four TiB in place are a matter of memory, not of argument");
}

static void
test_alignment(void)
{
    hp_request r = ask(HP_ALLREDUCE, memory + 2, memory + 2);
    refused(r, "aligned", "int32 at 2");
    r = ask(HP_ALLREDUCE, memory, memory + 2 * BLOCK + 1);
    refused(r, "aligned", "recvbuf at 1");
    r.call.dtype = HOOP_INT8;
    ok(passes(r), "int8 anywhere");
    r = ask(HP_ALLREDUCE, memory + 4, memory + 4);
    r.call.dtype = HOOP_FLOAT64;
    refused(r, "aligned", "float64 at 4");
    r.call.dtype = HOOP_BFLOAT16;
    ok(passes(r), "bfloat16 at 4");
}

typedef struct later_options {
    hoop_call_options known;
    uint8_t more[24];
} later_options;

static void
test_options(void)
{
    later_options options = {.known = {sizeof(hoop_call_options)}};
    hoop_error error;
    hp_request r = ask(HP_ALLREDUCE, memory, memory);
    r.options = &options.known;
    ok(passes(r), "options of this version");
    options.more[0] = 1;
    ok(passes(r), "what is behind them means nothing");
    options.known.size = sizeof(options);
    is_int(HOOP_ERR_UNSUPPORTED, hp_request_check(&r, 1, RANKS, &error), "an option of a later version");
    ok(strstr(error.text, "hoop_allreduce: byte 32 of the options"), "is named: %s", error.text);
    options.more[0] = 0;
    options.more[23] = 1;
    is_int(HOOP_ERR_UNSUPPORTED, hp_request_check(&r, 1, RANKS, &error), "its last byte");
    options.more[23] = 0;
    ok(passes(r), "one that is not used is fine");
    options.known =
        (hoop_call_options){.size = offsetof(hoop_call_options, residual), .residual = (float *)(void *)memory};
    ok(passes(r) && !r.residual, "nor is what lies behind the options of an earlier version");
    options.known.size += sizeof(float *);
    refused(r, "ends in the middle of an option", "half an option");
    options.known.size = offsetof(hoop_call_options, wire) - 2;
    refused(r, "ends in the middle of an option", "half of the first one");
    options.known.size = offsetof(hoop_call_options, wire);
    ok(passes(r), "the first one alone");
    options.known.size = sizeof(size_t) - 1;
    refused(r, "sizeof(hoop_call_options)", "a size that is too small");
    options.known.size = SIZE_MAX;
    refused(r, "sizeof(hoop_call_options)", "a size that is none");
}

static int
is_ordered(int kind, hoop_dtype dtype, hoop_order setting, hoop_order order, int size)
{
    hoop_call_options options = {.size = sizeof(options), .order = order};
    hoop_error error;
    hp_request r = ask(kind, memory, memory);
    r.call.dtype = (uint8_t)dtype;
    r.call.count = 1;
    r.order = setting;
    r.options = &options;
    return hp_request_check(&r, 0, size, &error) == HOOP_SUCCESS ? r.call.ordered : -(int)error.code;
}

/* The options win over the setting; what cannot depend on the order has none. */
static void
test_order(void)
{
    is_int(0, is_ordered(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_ORDER_AUTO, HOOP_ORDER_SETTING, 3), "no order by default");
    is_int(1, is_ordered(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_ORDER_RANK, HOOP_ORDER_SETTING, 3), "the setting");
    is_int(0, is_ordered(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_ORDER_RANK, HOOP_ORDER_AUTO, 3), "an option against it");
    is_int(1, is_ordered(HP_ALLREDUCE, HOOP_BFLOAT16, HOOP_ORDER_AUTO, HOOP_ORDER_RANK, 3), "an option for it");
    is_int(1, is_ordered(HP_REDUCE_SCATTER, HOOP_FLOAT64, HOOP_ORDER_RANK, HOOP_ORDER_SETTING, 3),
           "of a reduce_scatter");
    is_int(0, is_ordered(HP_ALLGATHER, HOOP_FLOAT32, HOOP_ORDER_RANK, HOOP_ORDER_SETTING, 3), "nothing is reduced");
    is_int(0, is_ordered(HP_ALLREDUCE, HOOP_INT32, HOOP_ORDER_RANK, HOOP_ORDER_RANK, 3),
           "integers are the same in any order");
    is_int(0, is_ordered(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_ORDER_RANK, HOOP_ORDER_RANK, 1), "one rank has no order");
    is_int(1, is_ordered(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_ORDER_RANK, HOOP_ORDER_SETTING, HP_ORDERED_MOST), "64 ranks");
    is_int(2, is_ordered(HP_ALLREDUCE, HOOP_FLOAT16, HOOP_ORDER_HOST, HOOP_ORDER_SETTING, 3), "the order of hosts");
    is_int(2, is_ordered(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_ORDER_RANK, HOOP_ORDER_HOST, 3), "an option for that");
    is_int(-HOOP_ERR_UNSUPPORTED,
           is_ordered(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_ORDER_RANK, HOOP_ORDER_SETTING, HP_ORDERED_MOST + 1),
           "more are refused");
    is_int(-HOOP_ERR_INVALID_ARGUMENT, is_ordered(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_ORDER_AUTO, (hoop_order)4, 3),
           "no such order");
}

static char why_not[200];

static int in_memory;

static int
wire_of(int kind, hoop_dtype dtype, hoop_op op, hoop_wire setting, hoop_wire option, int size)
{
    hoop_call_options options = {.size = sizeof(options), .wire = option};
    hoop_error error = {0};
    hp_request r = ask(kind, memory, memory);
    r.call.dtype = (uint8_t)dtype;
    r.call.op = (uint8_t)op;
    r.call.count = 1;
    r.wire = setting;
    r.in_memory = in_memory;
    r.options = &options;
    int passed = hp_request_check(&r, 0, size, &error) == HOOP_SUCCESS;
    snprintf(why_not, sizeof(why_not), "%.199s", error.text);
    return passed ? r.call.wire : -(int)error.code;
}

/* The setting leaves alone what cannot travel so; an option that asks for it is refused. */
static void
test_wire(void)
{
    const hoop_wire setting = HOOP_WIRE_SETTING, exact = HOOP_WIRE_FLOAT32, bfloat16 = HOOP_WIRE_BFLOAT16;
    is_int(0, wire_of(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_SUM, exact, setting, 3), "all bits by default");
    is_int(bfloat16, wire_of(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_SUM, bfloat16, setting, 3), "the setting");
    is_int(bfloat16, wire_of(HP_REDUCE_SCATTER, HOOP_FLOAT32, HOOP_AVG, bfloat16, setting, 3), "of a reduce_scatter");
    is_int(0, wire_of(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_SUM, bfloat16, exact, 3), "an option against it");
    is_int(bfloat16, wire_of(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_SUM, exact, bfloat16, 3), "an option for it");
    is_int(0, wire_of(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_MAX, bfloat16, setting, 3), "not of a maximum");
    is_int(0, wire_of(HP_ALLREDUCE, HOOP_FLOAT64, HOOP_SUM, bfloat16, setting, 3), "nor of float64");
    is_int(0, wire_of(HP_REDUCE, HOOP_FLOAT32, HOOP_SUM, bfloat16, setting, 3), "nor of a reduce");
    is_int(0, wire_of(HP_ALLGATHER, HOOP_FLOAT32, HOOP_SUM, bfloat16, setting, 3), "nor where nothing is reduced");
    is_int(0, wire_of(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_SUM, bfloat16, setting, 1), "nor of one rank");
    is_int(-HOOP_ERR_INVALID_ARGUMENT, wire_of(HP_ALLREDUCE, HOOP_INT32, HOOP_SUM, exact, bfloat16, 3), "integers");
    is_string("hoop_allreduce: options->wire is for sums and means of float32, and this is a sum of int32", why_not,
              "a sentence");
    is_int(-HOOP_ERR_INVALID_ARGUMENT, wire_of(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_SUM, exact, (hoop_wire)4, 3),
           "no such type");
    is_int(HOOP_WIRE_E4M3, wire_of(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_AVG, bfloat16, HOOP_WIRE_E4M3, 3),
           "an option for e4m3");
    is_int(bfloat16, wire_of(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_SUM, bfloat16, setting, HP_ORDERED_MOST), "64 ranks");
    is_int(-HOOP_ERR_UNSUPPORTED, wire_of(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_SUM, bfloat16, setting, HP_ORDERED_MOST + 1),
           "more are refused");
    in_memory = 1;
    is_int(bfloat16, wire_of(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_SUM, bfloat16, setting, HP_ORDERED_MOST + 1),
           "but not in memory, where all keep their bits");
    in_memory = 0;
}

static void
test_residual(void)
{
    float *left = (float *)(void *)(memory + 4 * BLOCK);
    hoop_call_options options = {sizeof(options), HOOP_ORDER_SETTING, HOOP_WIRE_BFLOAT16, left, 3};
    hp_request r = ask(HP_ALLREDUCE, memory, memory + BLOCK);
    r.call.dtype = HOOP_FLOAT32;
    r.call.count = 3;
    r.options = &options;
    ok(passes(r), "a residual beside the arrays");
    options.wire = HOOP_WIRE_SETTING;
    r.wire = HOOP_WIRE_FLOAT32;
    refused(r, "options->residual is for sums and means of float32 that travel narrower", "nothing is rounded");
    r.wire = HOOP_WIRE_BFLOAT16;
    ok(passes(r), "the setting rounds");
    options.residual_count = 4;
    refused(r, "options->residual has 4 elements, and the arrays have 3", "a residual of another size");
    options.residual_count = 3;
    options.residual = (float *)(void *)((uint8_t *)left + 2);
    refused(r, "aligned", "one at 2");
    options.residual = (float *)(void *)(memory + 8);
    refused(r, "options->residual overlaps", "one in sendbuf");
    options.residual = (float *)(void *)(memory + BLOCK);
    refused(r, "options->residual overlaps", "one that is recvbuf");
}

/* --- counts --- */

/* Ranks with 3, 0, 5 and 7 elements. */
static hp_request
ask_blocks(hp_kind kind, const size_t *displs, void *large, void *small)
{
    static const size_t counts[RANKS] = {3, 0, 5, 7};
    int gathers = kind == HP_ALLGATHERV;
    hp_request r = {.send = gathers ? small : large, .recv = gathers ? large : small, .counts = counts};
    r.displs = displs;
    r.call = (hp_call){.kind = (uint8_t)kind, .dtype = HOOP_INT32, .root = -1, .count = gathers ? counts[RANK] : 0};
    return r;
}

static void
test_blocks_in_place(hp_kind kind)
{
    static const size_t apart[RANKS] = {10, 0, 20, 2};
    const char *name = hp_kind_name((int)kind);
    hoop_error error;
    hp_request r = ask_blocks(kind, NULL, memory, memory + 12);
    ok(hp_request_check(&r, RANK, RANKS, &error) == HOOP_SUCCESS && r.in_place, "%s: in place behind the others", name);
    is_uint(15, r.call.count, "%s: the sum of the counts is the call's", name);
    r = ask_blocks(kind, apart, memory, memory + 80);
    ok(hp_request_check(&r, RANK, RANKS, &error) == HOOP_SUCCESS && r.in_place, "%s: in place where displs says", name);
    r = ask_blocks(kind, apart, memory, memory + 60);
    ok(hp_request_check(&r, RANK, RANKS, &error) == HOOP_SUCCESS && !r.in_place, "%s: in a gap that just fits", name);
    r = ask_blocks(kind, apart, memory, memory + 100);
    ok(hp_request_check(&r, RANK, RANKS, &error) == HOOP_SUCCESS && !r.in_place, "%s: behind the last block", name);
    refused(ask_blocks(kind, apart, memory, memory + 48), "overlap", "one element of a gap too low");
    refused(ask_blocks(kind, apart, memory, memory + 64), "overlap", "one element of a gap too high");
    refused(ask_blocks(kind, NULL, memory, memory), "overlap", "the first rank's block in place");
    refused(ask_blocks(kind, NULL, memory, memory + 59), "aligned", "a byte too low");
    ok(passes(ask_blocks(kind, NULL, memory, memory + 60)), "%s: behind them all", name);
}

static uint32_t
checksum(hp_kind kind, const size_t *displs)
{
    hp_request r = ask_blocks(kind, displs, memory, memory + 1024);
    hoop_error error;
    return hp_request_check(&r, RANK, RANKS, &error) == HOOP_SUCCESS ? (uint32_t)r.call.root : 0;
}

static void
test_blocks(void)
{
    static const size_t none[RANKS] = {0}, wraps[RANKS] = {SIZE_MAX - 1, 0, 5, 3}, far[RANKS] = {0, SIZE_MAX, 3, 8};
    static const size_t beyond[RANKS] = {0, 0, 3, PTRDIFF_MAX / 4 - 4}, apart[RANKS] = {10, 0, 20, 2};
    test_blocks_in_place(HP_ALLGATHERV);
    test_blocks_in_place(HP_REDUCE_SCATTERV);
    is_uint(checksum(HP_ALLGATHERV, NULL), checksum(HP_REDUCE_SCATTERV, apart),
            "displacements are a rank's own affair");
    hp_request r = ask_blocks(HP_ALLGATHERV, NULL, memory, memory + 512);
    r.call.count = 4;
    refused(r, "sendcount is 4, but recvcounts[2], the entry of this rank, is 5", "two counts");
    r = ask_blocks(HP_REDUCE_SCATTERV, NULL, memory, memory + 512);
    r.call.op = 5;
    refused(r, "unknown op", "op 5");
    r.counts = NULL;
    r.call.op = HOOP_SUM;
    refused(r, "recvcounts is NULL", "no counts");
    r.counts = wraps;
    refused(r, "address range", "a sum that wraps");
    r = ask_blocks(HP_REDUCE_SCATTERV, wraps, memory, memory + 512);
    refused(r, "address range", "a displacement that wraps");
    refused(ask_blocks(HP_REDUCE_SCATTERV, beyond, memory, memory + 512), "address range", "a block that ends beyond");
    ok(passes(ask_blocks(HP_REDUCE_SCATTERV, far, memory, memory + 512)), "an empty block's place has no meaning");
    refused(ask_blocks(HP_ALLGATHERV, NULL, memory, NULL), "sendbuf is NULL", "nothing to send");
    refused(ask_blocks(HP_ALLGATHERV, NULL, NULL, memory), "recvbuf is NULL", "no place to receive");
    r = ask_blocks(HP_REDUCE_SCATTERV, NULL, NULL, NULL);
    r.counts = none;
    ok(passes(r), "all counts 0 need no buffers");
}

/* --- the name of the function that was called --- */

static void
named(const char *name, hoop_result result, const hoop_comm *comm)
{
    hoop_error e = {.size = sizeof(e)};
    hoop_comm_error(comm, &e);
    ok(result == HOOP_ERR_INVALID_ARGUMENT && strncmp(e.text, name, strlen(name)) == 0, "%s%s", name, e.text);
}

static void
test_names(void)
{
    hoop_comm *comm = NULL;
    hoop_work *work = NULL;
    int x[2] = {0, 0};
    size_t one = 1, two = 2;
    hoop_call_options options = {.size = sizeof(options)};
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS)
        bail("no ring of one");
    named("hoop_ireduce: ", hoop_ireduce(x, x, 1, HOOP_INT32, HOOP_SUM, 7, comm, &work), comm);
    named("hoop_iallreduce_with: ", hoop_iallreduce_with(NULL, x, 1, HOOP_INT32, HOOP_SUM, comm, &options, &work),
          comm);
    named("hoop_iallreduce_with: ", hoop_iallreduce_with(NULL, x, 1, HOOP_INT32, HOOP_SUM, comm, NULL, &work), comm);
    named("hoop_gather_on_stream: ", hoop_gather_on_stream(NULL, x, 1, HOOP_INT32, 0, comm, NULL), comm);
    named("hoop_iallgatherv: ", hoop_iallgatherv(x, x, 1, &two, NULL, HOOP_INT32, comm, &work), comm);
    named("hoop_isend: ", hoop_isend(x, 1, HOOP_INT32, 7, 0, comm, &work), comm);
    named("hoop_irecv: ", hoop_irecv(x, 1, HOOP_INT32, -2, 0, comm, &work), comm);
    named("hoop_recv_on_stream: ", hoop_recv_on_stream(x, 1, HOOP_INT32, 0, -1, comm, NULL), comm);
    named("hoop_ialltoallv: ", hoop_ialltoallv(x, x, &one, NULL, &two, NULL, HOOP_INT32, comm, &work), comm);
    named("hoop_alltoallv_on_stream: ", hoop_alltoallv_on_stream(x, x, &one, NULL, &two, NULL, HOOP_INT32, comm, NULL),
          comm);
    hoop_comm_destroy(comm);
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    test_places();
    test_nulls();
    test_numbers();
    test_reductions();
    test_sizes();
    test_alignment();
    test_options();
    test_order();
    test_wire();
    test_residual();
    test_blocks();
    test_names();
    return tap_failures() != 0;
}
