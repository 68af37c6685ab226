#!/bin/sh
# SPDX-License-Identifier: MIT
# Works of Python: waits with limits, callbacks, asyncio, beside an interpreter that never waits; arrays live as long as
# their operation.
# time limit: 200
. "$abs_top_srcdir/t/tap/tap.sh"
. "$abs_top_srcdir/t/python/python.sh"
plan 3

ok 'alone' python works.py
ok '2 ranks' ranks 2 works.py
ok '4 ranks' ranks 4 works.py
done_testing
