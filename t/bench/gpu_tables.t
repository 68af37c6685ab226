#!/bin/sh
# SPDX-License-Identifier: MIT
# What check-gpu makes of its figures, from tables with known ones: the share of the host's bandwidth that the GPU has,
# with its verdict, and NCCL's best. And nccl_bench on the stand-in driver: where there is no NCCL it measures hoop alone,
# and it sees wrong results.
# time limit: 200
. "$abs_top_srcdir/t/tap/tap.sh"
bench=$abs_top_srcdir/bench
plan_lazy
cd "$tmp" || bail "no $tmp"

# row SIZE BUSBW BUSBW: as hoop-bench prints it, out of place and in place.
row() { printf '%12d  %12d     float     sum      -1   100.00    1.00  %6s       0   100.00    1.00  %6s       0 \n' "$1" "$1" "$2" "$3"; }
{
    echo '# hoop-bench'
    row 4 0.01 0.01
    row 1048576 2.00 2.00
    row 4194304 2.00 4.00
    row 16777216 2.00 4.00
    row 67108864 0.00 4.00
} >host
{ row 4 0.00 0.01; row 1048576 1.00 1.00; row 4194304 1.96 4.00; row 16777216 2.10 3.84; row 67108864 1.00 1.00; } >good
{ row 4194304 2.00 4.00; row 16777216 2.10 3.60; row 268435456 9.00 9.00; } >slow
awk -v ranks=2 -f "$bench/share.awk" host good >out
is "VERDICT, 2 ranks: from 4 MiB on the GPU's bus bandwidth is at least 96.0 % of the host's (at 16777216 bytes): the 95 % wanted are reached" \
    "$(grep VERDICT out)" 'the worst of both places counts, small arrays do not'
is '| 4194304 | 2.00 | 1.96 | 98.0 % | 4.00 | 4.00 | 100.0 % |' "$(grep 4194304 out)" '... and each size has its row'
is 4 "$(grep -c '^| [0-9]' out)" '... but one without a figure'
awk -v ranks=8 -f "$bench/share.awk" host slow >out
like '^VERDICT, 8 ranks: .* at least 90\.0 % .*at 16777216 bytes.: MISSED, 95 % are wanted$' "$(cat out)" 'too slow is said to be missed'
head -3 host >few
awk -v ranks=2 -f "$bench/share.awk" few few >out
like '^VERDICT, 2 ranks: none' "$(cat out)" 'without large arrays there is no verdict'

cat >nccl <<'END'
# NCCL: defaults
# 2 ranks, times in us
          8   float32       10.0        9.0       11.0       30.0       20.0       40.0    3.00
       4096   float32       12.0        9.0       11.0       24.0       20.0       40.0    2.00
# NCCL: 4 sockets a thread, 1 threads
          8   float32       20.0        9.0       11.0       25.0       20.0       40.0    1.25
       4096   float32       11.0        9.0       11.0       33.0       20.0       40.0    3.00
# NCCL: 8 sockets a thread, 2 threads
          8   float32       30.0        9.0       11.0       50.0       20.0       40.0    1.67
END
awk -v title='2 ranks, float32' -f "$bench/nccl_best.awk" nccl >out
is "### NCCL's best and Gloo, 2 ranks, float32" "$(grep '^###' out)" "NCCL's best has a title"
is '| 8 | 20.0 | 25.0 | 1.25 | 4 sockets a thread, 1 threads | - | - |' "$(grep '^| 8' out)" "... its least median, beside the median of hoop's"
is '| 4096 | 11.5 | 24.0 | 2.09 | defaults | - | - |' "$(grep '^| 4096' out)" '... or the mean of the middle two'
is "VERDICT, 2 ranks, float32: none, NCCL was measured at no size from 64 KiB on
VERDICT, 2 ranks, float32: at 8 bytes hoop takes 20.0 us and NCCL's best 25.0: no worse, as wanted" "$(grep VERDICT out)" \
    '... and its verdicts: none without large arrays, and on the smallest'
cat >gloo <<'END'
# Gloo, GPU tensors, 2 ranks: bytes, type, median us
          8  torch.float32      100.0
       4096  torch.float32       46.0
          8 torch.bfloat16        7.0
END
cat >large <<'END'
# NCCL: 8 sockets a thread, 2 threads
      16384   float32       90.0        9.0       11.0       50.0       20.0       40.0    0.56
      65536   float32      100.0        9.0       11.0      150.0       20.0       40.0    1.50
     262144   float32      200.0        9.0       11.0      250.0       20.0       40.0    1.25
END
awk -v title='2 ranks' -f "$bench/nccl_best.awk" nccl large gloo >out
is '| 8 | 20.0 | 25.0 | 1.25 | 4 sockets a thread, 1 threads | 100.0 | 5.00 |' "$(grep '^| 8' out)" "Gloo's figure of the same type stands beside them"
is '| 65536 | 100.0 | 150.0 | 1.50 | 8 sockets a thread, 2 threads | - | - |' "$(grep '^| 65536' out)" '... or none'
like "^VERDICT, 2 ranks: from 64 KiB on NCCL's best takes at least 1\.25 times as long as hoop .at 262144 bytes.: hoop is ahead" \
    "$(grep VERDICT out)" 'ahead from 64 KiB on, smaller sizes do not count'
{ cat large; echo '    1048576   float32      300.0 9.0 11.0 300.0 20.0 40.0 1.0'; echo '   8   float32      30.1 9.0 11.0 30.0 20.0 40.0 1.0'; } >even
awk -v title='2 ranks' -f "$bench/nccl_best.awk" even >out
like 'at least 1\.00 times as long as hoop .at 1048576 bytes.: MISSED, hoop is to be ahead at every size and is not at 1 of 3' "$(cat out)" 'even is not ahead'
like 'at 8 bytes hoop takes 30\.1 us and NCCL.s best 30\.0: MISSED' "$(cat out)" 'slower at 8 bytes is missed too'
awk '/^#/ || NF { print $1, $2, $3, $4, $5 }' large >alone
awk -v title='2 ranks' -f "$bench/nccl_best.awk" alone gloo >out
is '| 65536 | 100.0 | - | - | - | - | - |' "$(grep '^| 65536' out)" 'without NCCL there are hoop and Gloo'
grep -v '^ ' nccl | awk -v title='2 ranks' -f "$bench/nccl_best.awk" >out
is 'VERDICT, 2 ranks: none, NCCL was not measured' "$(cat out)" '... and that is said'

stand_in=$abs_top_builddir/t/tools/.libs program=$abs_top_builddir/t/bench/nccl_bench
if [ -e "$stand_in/libcuda.so.1" ]; then
    export LD_LIBRARY_PATH="$stand_in${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" NCCL_LIBRARY=/nonexistent
    for dtype in float32 bfloat16; do
        "$abs_top_builddir/bin/hooprun" -n 3 -x NCCL_LIBRARY "$program" $dtype 40000 5 >out 2>err
        is 0 $? "nccl_bench of $dtype on three ranks" || diag "$(cat err)"
        like 'no NCCL on this machine .*hoop alone' "$(cat out)" '... hoop alone'
        is '8 64 512 4096 16384 ' "$(awk '!/^#/ { printf "%s ", $1 }' out)" '... all sizes'
        nok '... none wrong' grep -q WRONG out
    done
    BENCH_LIE=1024 "$abs_top_builddir/bin/hooprun" -n 2 -x NCCL_LIBRARY -x BENCH_LIE "$program" float32 40000 5 >out 2>err
    is 1 $? 'a wrong result ends it with 1'
    is '# WRONG: hoop, 4096 bytes, rank 0: element 512 is 4.00000048' "$(grep WRONG out)" '... and is told'
else
    skip 10 'there is no stand-in driver: was hoop configured with --disable-shared?'
fi
done_testing
