#!/bin/sh
# SPDX-License-Identifier: MIT
# bench/reduce: one command, Markdown tables of the right shape, every type and loop by its name.
# time limit: 200
. "$abs_top_srcdir/t/tap/tap.sh"
reduce=$abs_top_builddir/bench/reduce
plan_lazy
cd "$tmp" || bail "no $tmp"

"$reduce" plain float half >out 2>err
is 0 $? 'two types with the plain loops' || diag "$(cat err)"
is '### plain loops, GB/s of one operand' "$(grep '^###' out)" 'one table'
is '| type | operation | 16 KiB | 64 KiB | 256 KiB | 1024 KiB | 4096 KiB | 16384 KiB | to memcpy, 256 KiB |' "$(grep '^| type' out)" \
    'its head'
is 21 "$(grep -c '^|' out)" 'head, memcpy, seven operations of each type, and four ways to travel'
is 11 "$(awk -F '|' '/^\|/ { print NF }' out | sort -u)" '... all of one width'
is 'any,memcpy float16,sum float16,prod float16,max float16,min float16,avg/2 float16,avg/3 float16,sum, two' \
    "$(echo $(awk -F ' *[|] *' '/^\|/ && ++n > 2 { print $2 "," $3 }' out | head -n 8))" '... in their order'
is 1.00 "$(sed -n 's/.*| memcpy .*| \([0-9.]*\) |$/\1/p' out)" 'memcpy is the measure'
is '' "$(awk -F ' *[|] *' '/^\| float/ { for (i = 4; i <= 10; i++) if ($i !~ /^[0-9]+\.[0-9]+$/) print }' out)" 'all cells are figures'
"$reduce" all int8 >out
is 0 $? 'all loops that this CPU can run'
like '^### plain loops' "$(grep '^###' out | tail -n 1)" '... the plain ones last'
"$reduce" plain int16 bool >out
is 0 $? 'types that NCCL does not have'
is 'int16,sum int16,prod int16,max int16,min int16,avg/2 int16,avg/3 int16,bxor int16,sum, two bool,sum bool,prod bool,max bool,min bool,bxor bool,sum, two' \
    "$(echo $(awk -F ' *[|] *' '/^\|/ && ++n > 3 { print $2 "," $3 }' out))" '... without the mean of bools'
"$reduce" fast >out 2>err
is 2 $? 'no such loops'
like '^reduce: no loops are called fast' "$(cat err)" '... said'
"$reduce" plain real >out 2>err
is 2 $? 'no such type'
like '^reduce: there is no type real' "$(cat err)" '... said'
is '' "$(cat out)" '... before anything is measured'
done_testing
