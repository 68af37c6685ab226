#!/bin/sh
# SPDX-License-Identifier: MIT
# What is in the tree is in its make: every test is named in a part.am, where make check finds it, and make analyze looks
# into every folder of the product.
. "$abs_top_srcdir/t/tap/tap.sh"
cd "$abs_top_srcdir" || bail "no $abs_top_srcdir"
plan 4

# The words of the part.am files below t/, a variable and a path a line, such as "dist_check_SCRIPTS t/sys/ports.t".
for part in t/part.am t/*/part.am; do
    awk -v folder="${part%/part.am}" -v name="$(echo "${part%/part.am}" | tr / _)" '
        /^[ \t]*#/ { next }
        { gsub(/%D%/, folder); gsub(/%C%/, name) }
        !more { variable = $1; sub(/^[^=]*=/, "") }
        { more = sub(/\\$/, ""); for (i = 1; i <= NF; i++) print variable, $i }' "$part"
done >"$tmp/words"
in_variable() { grep -E "^($1) " "$tmp/words" | cut -d ' ' -f 2; }

in_variable 'dist_check_SCRIPTS|STYLE_TESTS' >"$tmp/scripts"
is '' "$(find t -name '*.t' -exec grep -lI '^#!' {} + | grep -vxFf "$tmp/scripts" | LC_ALL=C sort)" 'every script is run by make check'
cut -d ' ' -f 2 "$tmp/words" >"$tmp/all"
is '' "$(find t -name '*.c' | grep -vxFf "$tmp/all" | LC_ALL=C sort)" 'every C file of t/ is in a part.am'
in_variable check_PROGRAMS | tr ./ __ | sed 's/$/_SOURCES/' >"$tmp/programs"
is '' "$(cut -d ' ' -f 1 "$tmp/words" | grep '_t_SOURCES$' | grep -vxFf "$tmp/programs" | LC_ALL=C sort -u)" \
    'and every test in C is run'

is '' "$(for folder in */; do
    case $folder in bench/ | build*/ | examples/ | fuzz/) continue ;; esac
    ! ls "$folder"*.c >/dev/null 2>&1 || grep -q "^ANALYZED = .*$folder\*\.c" Makefile.am || echo "$folder"
done)" 'make analyze looks into every folder of the product'
done_testing
