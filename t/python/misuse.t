#!/bin/sh
# SPDX-License-Identifier: MIT
# Wrong calls of Python: exceptions with code, rank and a sentence.
# time limit: 120
. "$abs_top_srcdir/t/tap/tap.sh"
. "$abs_top_srcdir/t/python/python.sh"
plan 1

ok 'wrong arrays, wrong moments, mismatches, aborts, limits' ranks 2 misuse.py
done_testing
