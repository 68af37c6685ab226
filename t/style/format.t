#!/bin/sh
# SPDX-License-Identifier: MIT
# Sources look as clang-format and .clang-format make them (make reformat). Only version 14 is asked: others differ.
. "$abs_top_srcdir/t/tap/tap.sh"
cd "$abs_top_srcdir" || bail "no $abs_top_srcdir"
format=$(command -v clang-format-14 || command -v clang-format) ||
    skip_all 'clang-format is not installed (apt-get install clang-format-14)'
case $($format --version) in
*' 14.'*) ;;
*) skip_all 'clang-format is not version 14 (apt-get install clang-format-14)' ;;
esac
plan 1
find include base flight lib net gpu rendezvous launch perf top bin examples fuzz t \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) >"$tmp/files"
ok 'every source is formatted' xargs "$format" --dry-run -Werror <"$tmp/files"
done_testing
