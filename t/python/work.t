#!/bin/sh
# SPDX-License-Identifier: MIT
# Works of Python: waits with limits, callbacks, asyncio, beside an interpreter that never waits; arrays live as long as
# their operation.
# time limit: 200
. "$abs_top_srcdir/t/tap/tap.sh"
. "$abs_top_srcdir/t/python/python.sh"
plan 5

ok 'alone' python works.py
ok '2 ranks' ranks 2 works.py
ok '4 ranks' ranks 4 works.py
export HOOP_SHM=0
ok '2 ranks over TCP: sums that travel narrower' ranks 2 works.py -k test_wire -k test_residual
ok '4 ranks over TCP' ranks 4 works.py -k test_wire -k test_residual
done_testing
