#!/bin/sh
# SPDX-License-Identifier: MIT
# No verdict of a test hangs on less than five seconds of real time: a process may not be run for that long, since others are.
# Tests set the clock, await events (tap_waits, await, party_await_marks), give bounds the room of tests beside others
# (tap_room, $room), or run alone (SERIAL_TESTS, SLEEPY_TESTS). What is looked for here is how the opposite is usually written.
. "$abs_top_srcdir/t/tap/tap.sh"
cd "$abs_top_srcdir" || bail "no $abs_top_srcdir"
plan 4

# The sources of tests that run beside others.
for part in t/*/part.am; do
    sed -n "s|%D%|${part%/part.am}|g; s/^S[EL][A-Z]*_TESTS += //p" "$part"
done | tr ' ' '\n' | sed 's|\.t$|\\.[ct]:|; s|^|^|' >"$tmp/alone"
programs=$(find t -name '*.c' | LC_ALL=C sort)
scripts=$(find t -name '*.t' -o -name '*.sh' | grep -v '^t/style/' | LC_ALL=C sort)
beside() { grep -vf "$tmp/alone"; }

# Lines that compare a time with a number, and have no room. What is left out compares with minutes.
is '' "$(grep -nE '(took|lasted|seconds|(party_clock|hp_now)\(\) - [a-z_]+)\)* *<=? *\(?[0-9]' $programs |
    grep -vE 'tap_room\(\)|< ([0-9]{3,}|50 \* HP_SEC)' | beside)" 'no bound without room'
is '' "$(grep -nE '\[ "?\$took|test "?\$\(?\(?.*(took|begin)' $scripts | grep -E -- '-l[te] ' | grep -v 'room' | beside)" \
    'nor in a script'
is '' "$(grep -nE '(^|[^_])wait_for ([0-9]|[12][0-9]) ' $scripts | grep -v '^t/tap/tap.sh:')" 'scripts await for half a minute'

# Limits by which a healthy rank would fail; those of the second line are to be reached, or are just read.
limits='TIMEOUT_MS"?[,=] ?"?([0-9]{1,3}|[1-4][0-9]{3})([^0-9]|$)'
met='^t/lib/config\.c:|^t/sys/(lookup\.c:.*BOOTSTRAP|hooprun_rsh\.t:.*asking|hooprun\.t:.*HOOP_OP_TIMEOUT_MS=5[ ;])'
is '' "$(grep -nE "$limits" $programs $scripts | grep -vE "$met" | beside)" 'no limit of less than five seconds'
done_testing
