/* SPDX-License-Identifier: MIT */
/* What a public call may ask for: the whole contract of hoop.h about types, roots, sizes, NULL, alignment and overlap.
 */
#include "lib/request.h"

#include "base/err.h"
#include "t/tap/tap.h"

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
    hp_request r = ask(HP_ALLREDUCE, memory, memory);
    r.call.dtype = 12;
    refused(r, "dtype", "dtype 12");
    r.call.dtype = 255;
    refused(r, "dtype", "dtype 255");
    r = ask(HP_ALLREDUCE, memory, memory);
    r.call.op = 5;
    refused(r, "op", "op 5");
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

int
main(void)
{
    plan_lazy();
    tap_limit(30);
    test_places();
    test_nulls();
    test_numbers();
    test_sizes();
    test_alignment();
    return tap_failures() != 0;
}
