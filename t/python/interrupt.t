#!/bin/sh
# SPDX-License-Identifier: MIT
# Ctrl-C in every call of Python that blocks, in ranks that nobody started together: it ends, and the others hear of it.
# time limit: 400
. "$abs_top_srcdir/t/tap/tap.sh"
. "$abs_top_srcdir/t/python/python.sh"
plan_lazy

for way in $(sed -n 's/^            \([a-z_]*\): .*/\1/p' "$files/interrupts.py"); do
    ok "Ctrl-C: $way" python interrupts.py "$way"
done
done_testing
