#!/bin/sh
# SPDX-License-Identifier: MIT
# Every operation of hoop.Comm with all types and operations, to the bit, on 1 to 4 ranks.
# time limit: 200
. "$abs_top_srcdir/t/tap/tap.sh"
. "$abs_top_srcdir/t/python/python.sh"
plan 5

ok 'alone' python collectives.py
for n in 1 2 3 4; do
    ok "$n ranks under hooprun" ranks $n collectives.py
done
done_testing
