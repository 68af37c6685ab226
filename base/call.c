/* SPDX-License-Identifier: MIT */
/*
 * call: see call.h. Bytes from the wire are taken as they are: an unknown kind, type or reduction is printed as
 * unknown, and never used as an index. This file decides nothing.
 */
#include "base/call.h"

#include "base/dtype.h"
#include "base/wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    BY_RANK = 128, /* beside the op, in its byte: operations of floats, which alone have an order, are below 64 */
    BY_HOST = 192,
    AS_WIRE = 128 /* with a hoop_wire in place of the type, which is float32 */
};

static const char *const kind_names[HP_KINDS] = {
    [HP_ALLREDUCE] = "allreduce",
    [HP_REDUCE_SCATTER] = "reduce_scatter",
    [HP_ALLGATHER] = "allgather",
    [HP_BROADCAST] = "broadcast",
    [HP_REDUCE] = "reduce",
    [HP_GATHER] = "gather",
    [HP_SCATTER] = "scatter",
    [HP_ALLTOALL] = "alltoall",
    [HP_BARRIER] = "barrier",
    [HP_ALLGATHERV] = "allgatherv",
    [HP_REDUCE_SCATTERV] = "reduce_scatterv",
};

void
hp_call_put(uint8_t out[HP_CALL_BYTES], const hp_call *call)
{
    out[0] = call->kind;
    out[1] = (uint8_t)(call->wire ? AS_WIRE + call->wire : call->dtype);
    out[2] = (uint8_t)(call->op + (call->ordered == HP_ORDER_HOST ? BY_HOST : call->ordered ? BY_RANK : 0));
    out[3] = call->fused;
    hp_put32(out + 4, (uint32_t)call->root);
    hp_put64(out + 8, call->count);
}

void
hp_call_get(hp_call *call, const uint8_t in[HP_CALL_BYTES])
{
    call->kind = in[0];
    call->dtype = in[1] < AS_WIRE ? in[1] : HOOP_FLOAT32;
    call->wire = in[1] < AS_WIRE ? 0 : in[1] - AS_WIRE;
    call->ordered = in[2] >= BY_HOST ? HP_ORDER_HOST : in[2] >= BY_RANK ? HP_ORDER_RANK : HP_ORDER_ANY;
    call->op = call->ordered ? in[2] % 64 : in[2];
    call->fused = in[3];
    call->root = (int32_t)hp_get32(in + 4);
    call->count = hp_get64(in + 8);
    call->name = NULL;
}

int
hp_call_equal(const hp_call *a, const hp_call *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->op == b->op && a->ordered == b->ordered &&
           a->wire == b->wire && a->fused == b->fused && a->root == b->root && a->count == b->count;
}

const char *
hp_call_other_counts(const hp_call *a, const hp_call *b)
{
    hp_call same = *a;
    same.root = b->root; /* the checksum of the counts */
    return hp_kind_has_counts(a->kind) && a->root != b->root && hp_call_equal(&same, b) ? ", with other recvcounts"
                                                                                        : "";
}

uint32_t
hp_call_signature(const hp_call *call)
{
    uint8_t bytes[HP_CALL_BYTES];
    hp_call_put(bytes, call);
    return hp_crc32c(bytes, sizeof(bytes));
}

int
hp_kind_is_message(int kind)
{
    return kind == HP_SEND || kind == HP_RECV || kind == HP_ALLTOALLV;
}

int
hp_kind_is_rooted(int kind)
{
    return kind == HP_BROADCAST || kind == HP_REDUCE || kind == HP_GATHER || kind == HP_SCATTER;
}

int
hp_kind_has_counts(int kind)
{
    return kind == HP_ALLGATHERV || kind == HP_REDUCE_SCATTERV;
}

int
hp_kind_reduces(int kind)
{
    return kind == HP_ALLREDUCE || kind == HP_REDUCE_SCATTER || kind == HP_REDUCE || kind == HP_REDUCE_SCATTERV;
}

const char *
hp_kind_name(int kind)
{
    if (kind > 0 && kind < HP_KINDS)
        return kind_names[kind];
    switch (kind) {
    case HP_SEND: return "send";
    case HP_RECV: return "recv";
    case HP_ALLTOALLV: return "alltoallv";
    default: return "unknown operation";
    }
}

/* " (gradients)", or nothing. */
static const char *
print_name(const hp_call *call, char out[HP_CALL_NAME_TEXT + 3])
{
    snprintf(out, HP_CALL_NAME_TEXT + 3, "%s%s%s", call->name ? " (" : "", call->name ? call->name : "",
             call->name ? ")" : "");
    return out;
}

const char *
hp_call_print(const hp_call *call, char *out, size_t size)
{
    const char *fused = call->fused ? "fused " : "";
    const char *towards = call->kind == HP_BROADCAST || call->kind == HP_SCATTER ? "from" : "to";
    static const char *const orders[] = {"", " by rank", " by host"};
    char op[64] = "", root[32] = "", name[HP_CALL_NAME_TEXT + 3];
    print_name(call, name);
    if (call->kind == HP_BARRIER) {
        snprintf(out, size, "barrier%s", name);
        return out;
    }
    if (hp_kind_reduces(call->kind))
        snprintf(op, sizeof(op), ", %s%s%s", hp_op_name((hoop_op)call->op), orders[call->ordered],
                 call->wire == HOOP_WIRE_BFLOAT16 ? " as bfloat16"
                 : call->wire == HOOP_WIRE_E4M3   ? " as e4m3"
                                                  : "");
    if (call->fused && call->root != -1) /* no root, but the checksum of the tensors' sizes: see lib/group.c */
        snprintf(root, sizeof(root), ", tensor sizes %08" PRIx32, (uint32_t)call->root);
    else if (call->kind == HP_SEND || call->kind == HP_RECV)
        snprintf(root, sizeof(root), " (tag %" PRId32 ")", call->root);
    else if (call->root >= 0 && hp_kind_is_rooted(call->kind))
        snprintf(root, sizeof(root), "%s %s root %" PRId32, hp_kind_reduces(call->kind) ? "," : "", towards,
                 call->root);
    snprintf(out, size, "%s%s%s of %" PRIu64 " x %s%s%s", fused, hp_kind_name(call->kind), name, call->count,
             hp_dtype_name((hoop_dtype)call->dtype), op, root);
    return out;
}

const char *
hp_call_print_operation(const hp_call *call, uint64_t sequence, char *out, size_t size)
{
    char text[128];
    if (call->name)
        snprintf(out, size, "%s %" PRIu64 "%s", hp_kind_name(call->kind), sequence, print_name(call, text));
    else if (call->kind)
        snprintf(out, size, "operation %" PRIu64 " (%s)", sequence, hp_call_print(call, text, sizeof(text)));
    else
        snprintf(out, size, "operation %" PRIu64, sequence);
    return out;
}

/* Programs have a few names, so each is looked for one after the other. */
int
hp_call_names_add(hp_call_names *names, const char *name)
{
    int i = 0;
    while (i < names->count && strcmp(names->text[i], name) != 0)
        i++;
    if (i == HP_CALL_NAMES)
        return 0;
    if (i == names->count)
        snprintf(names->text[names->count++], HP_CALL_NAME_TEXT, "%s", name);
    return i + 1;
}

const char *
hp_call_names_get(const hp_call_names *names, int number)
{
    return number > 0 && number <= names->count ? names->text[number - 1] : NULL;
}

int
hp_call_names_number(const hp_call_names *names, const char *name)
{
    return name ? (int)((name - names->text[0]) / HP_CALL_NAME_TEXT) + 1 : 0;
}
