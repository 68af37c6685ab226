#!/bin/sh
# SPDX-License-Identifier: MIT
# Functions stay short (60 lines, median near 12) and files are one noun (600 lines). A function begins at a line that is
# "{" and ends at one that is "}"; its length is the number of lines between.
. "$abs_top_srcdir/t/tap/tap.sh"
cd "$abs_top_srcdir" || bail "no $abs_top_srcdir"
plan 3

files=$(find include base flight lib net gpu rendezvous launch perf top bin examples fuzz t \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) | LC_ALL=C sort)
awk '/^\{$/ { start = FNR } /^[a-zA-Z_].*\(/ { name = $1 } /^\}$/ && start { print FNR - start - 1, FILENAME ":" start " " name; start = 0 }' \
    $files | sort -n >"$tmp/functions"

is '' "$(awk '$1 > 60' "$tmp/functions")" 'no function is longer than 60 lines'
is '' "$(wc -l $files | awk '$2 != "total" && $1 > 600')" 'no file is longer than 600 lines'
median=$(awk '{ length_of[NR] = $1 } END { print length_of[int((NR + 1) / 2)] }' "$tmp/functions")
diag "$(wc -l <"$tmp/functions") functions, median $median lines"
ok 'the median function has at most 16 lines' test "${median:-99}" -le 16
done_testing
