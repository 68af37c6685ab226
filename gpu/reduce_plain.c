/* SPDX-License-Identifier: MIT */
/* reduce_plain: the loops for any CPU, with what the compiler's default instruction set offers. */
#define TARGET
#define ARITH hp_arith_plain
#define ARITH_NAME "plain"

static int
usable(void)
{
    return 1;
}

#include "gpu/reduce_loops.h"
