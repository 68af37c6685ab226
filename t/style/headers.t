#!/bin/sh
# SPDX-License-Identifier: MIT
# Every header compiles alone, without a warning; the public one in C and in C++. A *_loops.h is a template, not a header:
# the file that includes it says what for.
. "$abs_top_srcdir/t/tap/tap.sh"
cd "$abs_top_srcdir" || bail "no $abs_top_srcdir"
plan_lazy
warnings='-Wall -Wextra -Wconversion -Wshadow -Wvla -Werror'
for header in $(find include base flight lib net gpu rendezvous launch perf top bin -name '*.h' ! -name '*_loops.h' | LC_ALL=C sort); do
    ok "$header compiles alone" ${CC:-cc} -std=gnu11 -D_GNU_SOURCE $warnings -Wstrict-prototypes -I. -Iinclude \
        -include "$header" -fsyntax-only -x c /dev/null
done
ok 'hoop.h is strict C11' ${CC:-cc} -std=c11 -pedantic-errors $warnings -Wstrict-prototypes -Iinclude -include hoop.h \
    -fsyntax-only -x c /dev/null
for cxx in g++ clang++; do
    if command -v $cxx >/dev/null && echo '#include <cstddef>' | $cxx -fsyntax-only -x c++ - 2>/dev/null; then
        ok "hoop.h is C++ for $cxx" $cxx -std=c++11 -pedantic-errors $warnings -Iinclude -include hoop.h -fsyntax-only -x c++ /dev/null
    else
        skip 1 "$cxx is not installed (apt-get install g++ clang)"
    fi
done
done_testing
