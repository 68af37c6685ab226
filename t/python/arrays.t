#!/bin/sh
# SPDX-License-Identifier: MIT
# Arrays of all kinds as the package sees them: the buffer protocol, DLPack, __cuda_array_interface__; and numpy's.
# time limit: 60
. "$abs_top_srcdir/t/tap/tap.sh"
. "$abs_top_srcdir/t/python/python.sh"
plan 4

ok 'three protocols, and what is refused' python arrays.py
for library in numpy torch jax; do
    if with=$(JAX_PLATFORMS=cpu python_with $library); then
        HOOP_TEST_PYTHON=$with PYTHONWARNINGS= JAX_PLATFORMS=cpu ok "arrays of $library" python arrays.py $library
    else
        skip 1 "there is no $library: HOOP_TEST_PYTHON names a Python that has it"
    fi
done
done_testing
