#!/bin/sh
# SPDX-License-Identifier: MIT
# flakes: it runs each test as often as it was told, counts what failed, and leaves none of its own processes.
. "$abs_top_srcdir/t/tap/tap.sh"
plan 6
cd "$tmp" || bail "no $tmp"
flakes="$abs_top_srcdir/t/tools/flakes"

printf '#!/bin/sh\necho 1..1\necho ok 1 - always\n' >fine
printf '#!/bin/sh\necho >>runs\n[ $(($(wc -l <runs) %% 2)) = 0 ] || { echo "not ok 1 - odd"; exit 1; }\necho ok 1 - odd\n' >shaky
chmod +x fine shaky

sh "$flakes" 2 3 1 ./fine >table
is 0 $? 'nothing fails: status 0'
like '^\./fine +6 +0$' "$(tail -n 1 table)" 'so many runs, no failure'
cd "$tmp" && sh "$flakes" 1 4 0 ./shaky ./fine >table
is 1 $? 'something fails: status 1'
like '^\./shaky +4 +2$' "$(sed -n 2p table)" 'as often as it did'
like '^ +2 +not ok 1 - odd$' "$(sed -n 3p table)" 'which check it was'
is 2 "$(grep -l 'not ok 1' flakes/* | wc -l | tr -d ' ')" 'and what the failed runs said is kept'
done_testing
