/* SPDX-License-Identifier: MIT */
/* dtype: see dtype.h. */
#include "base/dtype.h"

static const char *const dtype_names[HP_DTYPES] = {"int8",       "uint8",      "int32",   "uint32",  "int64",
                                                   "uint64",     "float16",    "float32", "float64", "bfloat16",
                                                   "float8e4m3", "float8e5m2", "int16",   "uint16",  "bool"};

static const char *const op_names[HP_OPS] = {"sum", "prod", "max", "min", "avg", "band", "bor", "bxor"};

const hoop_dtype hp_narrow[HP_NARROW] = {HOOP_FLOAT16, HOOP_BFLOAT16, HOOP_FLOAT8E4M3, HOOP_FLOAT8E5M2};

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
    return hoop_dtype_size(dtype) > 0 ? dtype_names[hp_dtype_index(dtype)] : "unknown type";
}

const char *
hp_op_name(hoop_op op)
{
    return hp_op_is_valid(op) ? op_names[hp_op_index(op)] : "unknown reduction";
}
