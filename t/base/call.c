/* SPDX-License-Identifier: MIT */
/* call: bytes, equality, signature and words of a descriptor. */
#include "base/call.h"

#include "base/wire.h"
#include "t/tap/tap.h"

#include <string.h>

static const hp_call sample = {HP_REDUCE, HOOP_BFLOAT16, HOOP_MAX, 1, 0x01020304, UINT64_C(0x1122334455667788), NULL, 0,
                               0};

static void
check_bytes(void)
{
    static const uint8_t wanted[HP_CALL_BYTES] = {5,    9,    2,    1,    0x04, 0x03, 0x02, 0x01,
                                                  0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11};
    uint8_t bytes[HP_CALL_BYTES];
    hp_call back;
    hp_call_put(bytes, &sample);
    is_blob(wanted, bytes, sizeof(wanted), "bytes of a call");
    memset(&back, 0xaa, sizeof(back));
    hp_call_get(&back, bytes);
    ok(hp_call_equal(&sample, &back) && !back.name, "and back, without a name");
    is_uint(hp_crc32c(wanted, sizeof(wanted)), hp_call_signature(&sample), "the signature is their CRC32C");
    back.root = -1;
    hp_call_put(bytes, &back);
    hp_call_get(&back, bytes);
    is_int(-1, back.root, "root -1 survives");
    for (int wire = HOOP_WIRE_BFLOAT16; wire <= HOOP_WIRE_E4M3; wire++) {
        hp_call with = back, got;
        with.dtype = HOOP_FLOAT32;
        hp_call_put(bytes, &with);
        is_int(HOOP_FLOAT32, bytes[1], "the type");
        with.wire = (uint8_t)wire;
        hp_call_get(&got, bytes);
        ok(!hp_call_equal(&got, &with), "a type on the wire makes another call");
        hp_call_put(bytes, &with);
        is_int(128 + wire, bytes[1], "it stands in place of the type");
        hp_call_get(&got, bytes);
        ok(hp_call_equal(&got, &with), "and survives");
    }
    for (uint8_t order = HP_ORDER_RANK; order <= HP_ORDER_HOST; order++) {
        back.ordered = order;
        ok(!hp_call_equal(&sample, &back), "an order makes another call");
        hp_call_put(bytes, &back);
        is_int(2 + 64 + 64 * order, bytes[2], "it stands beside the op");
        hp_call_get(&back, bytes);
        ok(back.ordered == order && back.op == HOOP_MAX, "and survives");
    }
}

/* Each field alone makes a difference, to equality and to the signature. */
static void
check_differences(void)
{
    hp_call other[6] = {sample, sample, sample, sample, sample, sample};
    int equal = 0, same = 0;
    other[0].kind = HP_BROADCAST;
    other[1].dtype = HOOP_FLOAT16;
    other[2].op = HOOP_MIN;
    other[3].fused = 0;
    other[4].root = -1;
    other[5].count = UINT64_C(0x1022334455667788);
    for (int i = 0; i < 6; i++) {
        equal += hp_call_equal(&sample, &other[i]);
        same += hp_call_signature(&sample) == hp_call_signature(&other[i]);
    }
    is_int(0, equal, "calls that differ in one field are not equal");
    is_int(0, same, "and do not sign alike");
}

static void
check_words(void)
{
    static const struct {
        hp_call call;
        const char *words;
    } cases[] = {
        {{HP_ALLREDUCE, HOOP_FLOAT32, HOOP_SUM, 0, -1, 100, NULL, 0, 0}, "allreduce of 100 x float32, sum"},
        {{HP_ALLREDUCE, HOOP_FLOAT16, HOOP_AVG, 1, -1, 9, NULL, 0, 0}, "fused allreduce of 9 x float16, avg"},
        {{HP_ALLREDUCE, HOOP_FLOAT32, HOOP_SUM, 1, 77, 9, NULL, 0, 0},
         "fused allreduce of 9 x float32, sum, tensor sizes 0000004d"},
        {{HP_ALLREDUCE, HOOP_BFLOAT16, HOOP_AVG, 0, -1, 9, NULL, 1, 0}, "allreduce of 9 x bfloat16, avg by rank"},
        {{HP_ALLREDUCE, HOOP_FLOAT32, HOOP_AVG, 0, -1, 9, NULL, 1, HOOP_WIRE_BFLOAT16},
         "allreduce of 9 x float32, avg by rank as bfloat16"},
        {{HP_ALLREDUCE, HOOP_FLOAT32, HOOP_SUM, 0, -1, 9, NULL, 0, HOOP_WIRE_E4M3},
         "allreduce of 9 x float32, sum as e4m3"},
        {{HP_REDUCE_SCATTER, HOOP_INT64, HOOP_PROD, 0, -1, 1, NULL, 0, 0}, "reduce_scatter of 1 x int64, prod"},
        {{HP_ALLGATHER, HOOP_UINT8, HOOP_SUM, 0, -1, 0, NULL, 0, 0}, "allgather of 0 x uint8"},
        {{HP_BROADCAST, HOOP_INT8, HOOP_SUM, 0, 2, 7, NULL, 0, 0}, "broadcast of 7 x int8 from root 2"},
        {{HP_REDUCE, HOOP_FLOAT64, HOOP_MIN, 0, 0, 7, NULL, 0, 0}, "reduce of 7 x float64, min, to root 0"},
        {{HP_GATHER, HOOP_INT8, HOOP_SUM, 0, 65535, 7, NULL, 0, 0}, "gather of 7 x int8 to root 65535"},
        {{HP_SCATTER, HOOP_INT8, HOOP_SUM, 0, 1, UINT64_MAX, NULL, 0, 0},
         "scatter of 18446744073709551615 x int8 from root 1"},
        {{HP_ALLTOALL, HOOP_FLOAT8E4M3, HOOP_SUM, 0, -1, 3, NULL, 0, 0}, "alltoall of 3 x float8e4m3"},
        {{HP_ALLREDUCE, HOOP_INT16, HOOP_BXOR, 0, -1, 4, NULL, 0, 0}, "allreduce of 4 x int16, bxor"},
        {{HP_REDUCE, HOOP_BOOL, HOOP_BAND, 0, 1, 4, NULL, 0, 0}, "reduce of 4 x bool, band, to root 1"},
        {{HP_BARRIER, HOOP_UINT8, HOOP_SUM, 0, -1, 0, NULL, 0, 0}, "barrier"},
        {{HP_SEND, HOOP_INT8, HOOP_SUM, 0, 3, 5, NULL, 0, 0}, "send of 5 x int8 (tag 3)"},
        {{HP_RECV, HOOP_INT8, HOOP_SUM, 0, 0, 0, NULL, 0, 0}, "recv of 0 x int8 (tag 0)"},
        {{HP_ALLTOALLV, HOOP_INT8, HOOP_SUM, 0, 7, 5, NULL, 0, 0}, "alltoallv of 5 x int8"},
        {{HP_ALLGATHERV, HOOP_INT8, HOOP_SUM, 0, -1, 7, NULL, 0, 0}, "allgatherv of 7 x int8"},
        {{HP_REDUCE_SCATTERV, HOOP_INT8, HOOP_MAX, 0, 77, 7, NULL, 0, 0}, "reduce_scatterv of 7 x int8, max"},
        {{77, 78, 79, 0, -1, 3, NULL, 0, 0}, "unknown operation of 3 x unknown type"},
    };
    char out[160];
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        is_string(cases[i].words, hp_call_print(&cases[i].call, out, sizeof(out)), "%s", cases[i].words);
    is_string("allred", hp_call_print(&cases[0].call, out, 7), "cut to the space there is");
    is_string("unknown operation", hp_kind_name(0), "kind 0");
    is_string("unknown operation", hp_kind_name(HP_KINDS), "one kind too far");
    is_string("unknown operation", hp_kind_name(-1), "kind -1");
    is_string("barrier", hp_kind_name(HP_BARRIER), "a barrier");
}

static void
check_names(void)
{
    static const hp_call reduction = {.kind = HP_ALLREDUCE, .dtype = HOOP_FLOAT32, .op = HOOP_SUM, .count = 100},
                         barrier = {.kind = HP_BARRIER, .name = "loss"}, nothing;
    hp_call named = reduction;
    char out[160];
    named.name = "gradients";
    is_string("allreduce (gradients) of 100 x float32, sum", hp_call_print(&named, out, sizeof(out)), "a name");
    is_string("barrier (loss)", hp_call_print(&barrier, out, sizeof(out)), "of a barrier");
    is_string("allreduce 1041 (gradients)", hp_call_print_operation(&named, 1041, out, sizeof(out)),
              "a name and a number");
    is_string("operation 1041 (allreduce of 100 x float32, sum)",
              hp_call_print_operation(&reduction, 1041, out, sizeof(out)), "a number");
    is_string("operation 1041", hp_call_print_operation(&nothing, 1041, out, sizeof(out)), "nothing else is known");
    ok(hp_call_equal(&named, &reduction) && hp_call_signature(&named) == hp_call_signature(&reduction),
       "names make no difference");
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    check_bytes();
    check_differences();
    check_words();
    check_names();
    return 0;
}
