#!/bin/sh
# SPDX-License-Identifier: MIT
# bench/submit on the stand-in driver: one command, a Markdown table of the right shape, a figure in every cell, with
# stream memory operations and without, with late jobs, and a sentence where there is no GPU. No figure is judged.
# time limit: 120
. "$abs_top_srcdir/t/tap/tap.sh"
submit=$abs_top_builddir/t/bench/submit stand_in=$abs_top_builddir/t/tools/.libs
[ -e "$stand_in/libcuda.so.1" ] || skip_all 'there is no stand-in driver: was hoop configured with --disable-shared?'
unset HOOP_CUDA_DEVICE CUDA_VISIBLE_DEVICES
export LD_LIBRARY_PATH="$stand_in${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
plan_lazy
cd "$tmp" || bail "no $tmp"

# table NAME: the last run's, in "out".
table()
{
    is '| what | median us | least us | 99 % us |' "$(grep '^| what' out)" "$1: the head"
    is 15 "$(grep -c '^|' out)" '... and thirteen rows'
    is '' "$(awk -F ' *[|] *' '/^\|/ && ++n > 2 { for (i = 3; i <= 5; i++) if ($i !~ /^[0-9]+\.[0-9][0-9]$/) print }' out)" \
        '... all cells are figures'
    is '' "$(awk -F ' *[|] *' '/^\|/ && ++n > 2 && ($4 > $3 || $3 > $5) { print }' out)" '... the least, the median, the most, in order'
}
"$submit" 65536 50 >out 2>err
is 0 $? 'slices of 64 KiB, 50 calls each' || diag "$(cat err)"
like '^GPU 0 \(stand-in GPU 0\), stream memory operations, [0-9]+ thread blocks$' "$(cat out)" 'whose figures they are'
like '^### Submission, slices of 64 KiB of float32, 50 calls$' "$(cat out)" '... and of what'
table 'as asked'
HOOP_FAKE_CUDA_MEMOPS=0 HOOP_FAKE_CUDA_DELAY_US=50 "$submit" 4096 20 >out 2>err
is 0 $? 'late jobs on a GPU without stream memory operations' || diag "$(cat err)"
like 'kernels that stamp and wait' "$(cat out)" '... which is said'
table 'late jobs'
for wrong in 'much' '1' '65536 few' '65536 0'; do
    "$submit" $wrong >out 2>err
    is 2 $? "refused: $wrong"
    like '^submit: (much|1|few|0) is no number from ' "$(cat err)" '... with a sentence'
done
HOOP_FAKE_CUDA_DEVICES=0 "$submit" >out 2>err
is 1 $? 'without a GPU'
like '^submit: .*shows no GPU' "$(cat err)" '... a sentence'
HOOP_FAKE_CUDA_FAIL=2000 HOOP_FAKE_CUDA_STICKY=1 "$submit" 4096 100 >out 2>err
is 1 $? 'a driver that fails in the middle ends it'
like '^submit: cu[A-Za-z0-9]+ failed while ' "$(cat err)" '... by name'
done_testing
