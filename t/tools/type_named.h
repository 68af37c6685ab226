/* SPDX-License-Identifier: MIT */
/* type_named: an element type by its name, as hoop prints it, or as nccl-tests and others call it; -1 for another word. */
#ifndef T_TOOLS_TYPE_NAMED_H
#define T_TOOLS_TYPE_NAMED_H

#include "base/dtype.h"

#include <string.h>

static inline int
type_named(const char *name)
{
    static const struct {
        const char *name;
        hoop_dtype dtype;
    } others[] = {{"half", HOOP_FLOAT16},       {"float", HOOP_FLOAT32},       {"double", HOOP_FLOAT64},
                  {"f8e4m3", HOOP_FLOAT8E4M3},  {"fp8_e4m3", HOOP_FLOAT8E4M3}, {"f8e5m2", HOOP_FLOAT8E5M2},
                  {"fp8_e5m2", HOOP_FLOAT8E5M2}};
    for (int i = 0; i < HP_DTYPES; i++)
        if (strcmp(name, hp_dtype_name(hp_dtype_at(i))) == 0)
            return (int)hp_dtype_at(i);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (strcmp(name, others[i].name) == 0)
            return (int)others[i].dtype;
    return -1;
}

#endif
