#!/bin/sh
# SPDX-License-Identifier: MIT
# The text of gpu/kernels.cu itself, compiled for the CPU by a C++ compiler, behind the stand-in driver: t/gpu/cuda.t and
# its comparisons with the host's arithmetic once more. What this cannot show is the GPU's own arithmetic.
set -u
: "${abs_top_srcdir:=.}" "${abs_top_builddir:=.}" "${HOOP_TEST_TMP:=/tmp}"
cxx=${CXX:-c++}
if ! command -v "$cxx" >/dev/null 2>&1; then
    echo "1..0 # SKIP no C++ compiler ($cxx) to compile gpu/kernels.cu for the CPU"
    exit 0
fi
if [ "${HOOP_TEST_SANITIZE:-no}" = thread ]; then
    echo "1..0 # SKIP one thread only: nothing for the thread sanitizer"
    exit 0
fi
kernels=$HOOP_TEST_TMP/kernels.so
if ! "$cxx" -x c++ -std=c++17 -O1 -g -fPIC -shared -ffp-contract=off -fvisibility=hidden -w -I"$abs_top_srcdir" \
    -I"$abs_top_srcdir/include" -include "$abs_top_srcdir/t/tools/cudacpu_kernels.h" "$abs_top_srcdir/gpu/kernels.cu" \
    -o "$kernels" >"$HOOP_TEST_TMP/kernels.log" 2>&1; then
    sed 's/^/# /' "$HOOP_TEST_TMP/kernels.log"
    echo "1..1"
    echo "not ok 1 - gpu/kernels.cu compiles as C++"
    exit 1
fi
HOOP_FAKE_CUDA_KERNELS=$kernels exec "$abs_top_builddir/t/gpu/cuda.t"
