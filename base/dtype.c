/* SPDX-License-Identifier: MIT */
/* dtype: see dtype.h. The names of element types and reductions, as printed, and as read from settings and options. */
#include "base/dtype.h"

#include <string.h>

typedef struct name_row {
    const char *name;
    int value;
} name_row;

/* The first row of each type is the name that is printed. */
static const name_row dtype_names[] = {
    {"int8", HOOP_INT8},
    {"uint8", HOOP_UINT8},
    {"int32", HOOP_INT32},
    {"uint32", HOOP_UINT32},
    {"int64", HOOP_INT64},
    {"uint64", HOOP_UINT64},
    {"float16", HOOP_FLOAT16},
    {"float32", HOOP_FLOAT32},
    {"float64", HOOP_FLOAT64},
    {"bfloat16", HOOP_BFLOAT16},
    {"float8e4m3", HOOP_FLOAT8E4M3},
    {"float8e5m2", HOOP_FLOAT8E5M2},
    {"int16", HOOP_INT16},
    {"uint16", HOOP_UINT16},
    {"bool", HOOP_BOOL},
    {"char", HOOP_INT8},
    {"int", HOOP_INT32},
    {"half", HOOP_FLOAT16},
    {"float", HOOP_FLOAT32},
    {"double", HOOP_FLOAT64},
    {"f8e4m3", HOOP_FLOAT8E4M3},
    {"f8e5m2", HOOP_FLOAT8E5M2},
    {"fp8_e4m3", HOOP_FLOAT8E4M3},
    {"fp8_e5m2", HOOP_FLOAT8E5M2},
};

const hoop_dtype hp_narrow[HP_NARROW] = {HOOP_FLOAT16, HOOP_BFLOAT16, HOOP_FLOAT8E4M3, HOOP_FLOAT8E5M2};

static const name_row op_names[] = {
    {"sum", HOOP_SUM}, {"prod", HOOP_PROD}, {"max", HOOP_MAX}, {"min", HOOP_MIN},
    {"avg", HOOP_AVG}, {"band", HOOP_BAND}, {"bor", HOOP_BOR}, {"bxor", HOOP_BXOR},
};

static const char *
name_of(const name_row *rows, size_t count, int value, const char *otherwise)
{
    for (size_t i = 0; i < count; i++) {
        if (rows[i].value == value)
            return rows[i].name;
    }
    return otherwise;
}

static int
value_of(const name_row *rows, size_t count, const char *name)
{
    if (!name)
        return -1;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].name, name) == 0)
            return rows[i].value;
    }
    return -1;
}

/* Of `all` numbers the first `nccl` begin at 0, and the others at HP_OWN. */
static int
is_valid(unsigned number, unsigned nccl, unsigned all)
{
    return number < nccl || (number >= HP_OWN && number - HP_OWN < all - nccl);
}

static int
number_at(int index, int nccl)
{
    return index < nccl ? index : index - nccl + HP_OWN;
}

size_t
hoop_dtype_size(hoop_dtype dtype)
{
    return is_valid((unsigned)dtype, HP_NCCL_DTYPES, HP_DTYPES) ? hp_dtype_size(dtype) : 0;
}

hoop_dtype
hp_dtype_at(int index)
{
    return (hoop_dtype)number_at(index, HP_NCCL_DTYPES);
}

hoop_op
hp_op_at(int index)
{
    return (hoop_op)number_at(index, HP_NCCL_OPS);
}

int
hp_op_is_valid(hoop_op op)
{
    return is_valid((unsigned)op, HP_NCCL_OPS, HP_OPS);
}

int
hp_op_applies(hoop_op op, hoop_dtype dtype)
{
    return hp_op_is_bitwise(op) ? !hp_dtype_is_float(dtype) : op != HOOP_AVG || dtype != HOOP_BOOL;
}

int
hp_narrow_index(hoop_dtype dtype)
{
    for (int i = 0; i < HP_NARROW; i++)
        if (hp_narrow[i] == dtype)
            return i;
    return -1;
}

const char *
hp_dtype_name(hoop_dtype dtype)
{
    return name_of(dtype_names, sizeof(dtype_names) / sizeof(*dtype_names), (int)dtype, "unknown type");
}

const char *
hp_op_name(hoop_op op)
{
    return name_of(op_names, sizeof(op_names) / sizeof(*op_names), (int)op, "unknown reduction");
}

int
hp_dtype_parse(const char *name)
{
    return value_of(dtype_names, sizeof(dtype_names) / sizeof(*dtype_names), name);
}
