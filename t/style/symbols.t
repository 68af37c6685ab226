#!/bin/sh
# SPDX-License-Identifier: MIT
# The shared library shows exactly the functions of hoop.h, at HOOP_0; the static one has only our two prefixes.
. "$abs_top_srcdir/t/tap/tap.sh"
shared=$abs_top_builddir/.libs/libhoop.so
static=$abs_top_builddir/.libs/libhoop.a
command -v nm >/dev/null || skip_all 'nm is not installed (apt-get install binutils)'
plan 4

${CC:-cc} -E -P "$abs_top_srcdir/include/hoop.h" | tr '\n' ' ' | sed 's/{[^{}]*}//g' | tr ';' '\n' | grep -v typedef |
    sed -n 's/^[^(]*[ *]\(hoop_[a-z0-9_]*\) *(.*/\1/p' | LC_ALL=C sort -u >"$tmp/promised"

if [ -e "$shared" ]; then
    nm -D --defined-only "$shared" | awk '$2 != "A" { print $3 }' >"$tmp/seen"
    is '' "$(grep -vE '^hoop_[a-z0-9_]+@@HOOP_0$' "$tmp/seen")" 'the shared library exports hoop_*@@HOOP_0 only'
    sed 's/@.*//' "$tmp/seen" | LC_ALL=C sort -u >"$tmp/exported"
    is '' "$(LC_ALL=C comm -23 "$tmp/promised" "$tmp/exported")" 'every function of hoop.h is exported'
    is '' "$(LC_ALL=C comm -13 "$tmp/promised" "$tmp/exported")" 'every exported symbol is in hoop.h'
else
    skip 3 'no shared library in this tree: configure without --disable-shared'
fi
if [ -e "$static" ]; then
    is '' "$(nm -g --defined-only "$static" | awk 'NF == 3 && $3 !~ /^(hoop|hp)_/ { print $3 }')" \
        'global names begin with hoop_ or hp_'
else
    skip 1 'no static library in this tree: configure without --disable-static'
fi
diag "$(wc -l <"$tmp/promised") functions in hoop.h"
done_testing
