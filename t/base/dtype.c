/* SPDX-License-Identifier: MIT */
/* dtype: sizes and names. */
#include "base/dtype.h"

#include "t/tap/tap.h"

#include <string.h>

static const struct {
    hoop_dtype dtype;
    size_t size;
    const char *name;
} types[] = {
    {HOOP_INT8, 1, "int8"},         {HOOP_UINT8, 1, "uint8"},           {HOOP_INT32, 4, "int32"},
    {HOOP_UINT32, 4, "uint32"},     {HOOP_INT64, 8, "int64"},           {HOOP_UINT64, 8, "uint64"},
    {HOOP_FLOAT16, 2, "float16"},   {HOOP_FLOAT32, 4, "float32"},       {HOOP_FLOAT64, 8, "float64"},
    {HOOP_BFLOAT16, 2, "bfloat16"}, {HOOP_FLOAT8E4M3, 1, "float8e4m3"}, {HOOP_FLOAT8E5M2, 1, "float8e5m2"},
    {HOOP_INT16, 2, "int16"},       {HOOP_UINT16, 2, "uint16"},         {HOOP_BOOL, 1, "bool"},
};

static void
check_types(void)
{
    is_int(HP_DTYPES, sizeof(types) / sizeof(*types), "fifteen types");
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
        is_uint(types[i].size, hoop_dtype_size(types[i].dtype), "size of %s", types[i].name);
        is_uint(types[i].size, hp_dtype_size(types[i].dtype), "inline size of %s", types[i].name);
        is_string(types[i].name, hp_dtype_name(types[i].dtype), "name of %s", types[i].name);
        is_int(types[i].dtype, hp_dtype_at((int)i), "%s in its row", types[i].name);
        is_uint(i, hp_dtype_index(types[i].dtype), "... which is found");
    }
}

static void
check_ops(void)
{
    static const struct {
        hoop_op op;
        const char *name;
    } ops[] = {{HOOP_SUM, "sum"}, {HOOP_PROD, "prod"}, {HOOP_MAX, "max"}, {HOOP_MIN, "min"},
               {HOOP_AVG, "avg"}, {HOOP_BAND, "band"}, {HOOP_BOR, "bor"}, {HOOP_BXOR, "bxor"}};
    is_int(HP_OPS, sizeof(ops) / sizeof(*ops), "eight operations");
    for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
        is_string(ops[i].name, hp_op_name(ops[i].op), "name of %s", ops[i].name);
        is_int(ops[i].op, hp_op_at((int)i), "... in its row");
        is_uint(i, hp_op_index(ops[i].op), "... which is found");
        ok(hp_op_is_valid(ops[i].op), "... and valid");
    }
}

/* A 1 where the row's operation is defined on the column's type, in the order of the types' rows. */
static void
check_applies(void)
{
    static const char *const defined[HP_OPS] = {"111111111111111", "111111111111111", "111111111111111",
                                                "111111111111111", "111111111111110", "111111000000111",
                                                "111111000000111", "111111000000111"};
    for (int op = 0; op < HP_OPS; op++) {
        char seen[HP_DTYPES + 1] = "";
        for (int dtype = 0; dtype < HP_DTYPES; dtype++)
            seen[dtype] = hp_op_applies(hp_op_at(op), hp_dtype_at(dtype)) ? '1' : '0';
        is_string(defined[op], seen, "types of %s", hp_op_name(hp_op_at(op)));
    }
}

static void
check_unknown(void)
{
    static const int strange[] = {-1, 12, 13, 15, 63, 67, 76, 255, 1 << 20};
    for (size_t i = 0; i < sizeof(strange) / sizeof(*strange); i++) {
        is_uint(0, hoop_dtype_size((hoop_dtype)strange[i]), "type %d has no size", strange[i]);
        is_string("unknown type", hp_dtype_name((hoop_dtype)strange[i]), "type %d has no name", strange[i]);
        ok(strstr(hp_op_name((hoop_op)strange[i]), "unknown") != NULL, "nor has reduction %d", strange[i]);
        ok(!hp_op_is_valid((hoop_op)strange[i]), "... which is not valid");
    }
    ok(!hp_op_is_valid((hoop_op)5), "nor is reduction 5");
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    check_types();
    check_ops();
    check_applies();
    check_unknown();
    return 0;
}
