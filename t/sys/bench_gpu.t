#!/bin/sh
# SPDX-License-Identifier: MIT
# hoop-bench -g 1, on the stand-in driver: the buffers are a GPU's, and the table and the JSON file say whose; every
# collective, type and operation is right there, by streams that are late too; a wrong result in the GPU's memory is
# seen; the ranks share the GPUs there are, or use the one that a setting names, and one that is not there is refused.
# time limit: 400
. "$abs_top_srcdir/t/tap/tap.sh"
bin=$abs_top_builddir/bin bench=$abs_top_builddir/bin/hoop-bench liar=$abs_top_builddir/t/perf/liar
stand_in=$abs_top_builddir/t/tools/.libs
[ -e "$stand_in/libcuda.so.1" ] || skip_all 'there is no stand-in driver: was hoop configured with --disable-shared?'
unset HOOPRUN_TTY HOOP_CUDA_DEVICE CUDA_VISIBLE_DEVICES
export LD_LIBRARY_PATH="$stand_in${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
plan_lazy
cd "$tmp" || bail "no $tmp"
# In a build without nvcc only the liar, which is hoop-bench but for its lies, has (pretended) kernels.
"$bench" --version | grep 'built without nvcc' >/dev/null && bench=$liar

rows() { grep -vE '^#|^$' "$1"; }
run() { "$bin/hooprun" "$@" 2>err; }
# gpus TABLE: the GPU of each rank, in their order.
gpus() { sed -n 's/^#  Rank .* memory of GPU \([0-9]\) (stand-in GPU \1)$/\1/p' "$1" | tr -d '\n'; }

like '^GPU: CUDA: GPU kernels inside, 1 GPU, driver for CUDA 13\.0' "$("$bench" --version)" '--version has found the driver'
run -n 2 "$bench" -g 1 -b 8 -e 512K -f 16 -n 3 -w 2 -J t.json >table
is 0 $? 'two ranks with buffers on the GPU' || bail "$(tail -1 err)"
is 00 "$(gpus table)" 'every rank says whose memory its buffers are'
like '^# nThread 1 nGpus 1 minBytes 8 ' "$(cat table)" '... and the settings that it is the GPU'
is 2 "$(grep -o '"device_info":"memory of GPU 0 (stand-in GPU 0)"' t.json | wc -l)" '... and the JSON file'
is '8 2;128 32;2048 512;32768 8192;524288 131072;' "$(rows table | awk '{ printf "%s %s;", $1, $2 }')" 'sizes and counts as asked'
like '^# Out of bounds values : 0 OK$' "$(cat table)" 'all values are right'
is '' "$(rows table | awk '$9 != "0" || $13 != "0"')" '... row by row'

case ${HOOP_TEST_SANITIZE:-no} in
no) step=30 ;;
*) step=1000 ;;
esac
run -n 2 "$bench" -g 1 --coll all -d all -o all -r all -b 8 -e 30000 -f $step -n 1 -w 0 >soak
is 0 $? "all collectives, types, operations and roots, sizes by $step" || diag "$(tail -1 err)"
is 00 "$(gpus soak)" '... on the GPU'
like '^# Out of bounds values : 0 OK$' "$(cat soak)" '... nothing is wrong'
sizes=$(awk -v f=$step 'BEGIN { for (s = 8; s <= 30000; s *= f) n++; print n }')
# allreduce, reduce_scatter(v): 12 types, 5 operations; reduce: and 2 roots; allgather(v), alltoall(v), sendrecv: 15; three with roots: 24.
is $((sizes * (3 * 101 + 202 + 5 * 15 + 3 * 30) + 1)) "$(rows soak | wc -l)" '... and nothing was left out'
is '' "$(rows soak | awk '$9 != 0 || ($13 != 0 && $13 != "N/A")')" '... row by row'

HOOP_FAKE_CUDA_DELAY_US=300 run -n 3 "$bench" -g 1 -d all -b 100 -e 100000 -f 1000 -n 2 -w 0 >late
is '0 30' "$? $(rows late | awk '$9 == 0 && $13 == 0' | wc -l)" 'all types with jobs that are late'
HOOP_FAKE_CUDA_MEMOPS=0 run -n 2 "$bench" -g 1 -d half -b 8 -e 64K -f 16 -n 2 -w 0 >late
is '0 4' "$? $(rows late | awk '$9 == 0 && $13 == 0' | wc -l)" 'on a GPU without stream memory operations'

BENCH_LIE=256 run -n 2 "$liar" -g 1 -b 64 -e 4096 -f 4 -n 1 >lies
is 1 $? 'one wrong bit in the GPU'"'"'s memory ends hoop-bench with 1'
is '1024 1 1;' "$(rows lies | awk '$9 != 0 || $13 != 0 { printf "%s %s %s;", $1, $9, $13 }')" '... is counted at its size'

export HOOP_FAKE_CUDA_DEVICES=2
run -n 3 "$bench" -g 1 -b 64 -e 64 -n 1 -w 0 >three
is '0 010' "$? $(gpus three)" 'three ranks share two GPUs by their LOCAL_RANK'
HOOP_CUDA_DEVICE=1 run -n 2 "$bench" -g 1 -b 64 -e 64 -n 1 -w 0 >both
is '0 11' "$? $(gpus both)" 'HOOP_CUDA_DEVICE names one for both'

# refused PATTERN: with a sentence of hoop-bench's. The ranks get $device themselves: hooprun would refuse a wrong one.
refused()
{
    run -n 2 env HOOP_CUDA_DEVICE="$device" "$bench" -g 1 -b 64 -e 64 -n 1 -w 0 >out
    is 1 $? "refused: HOOP_CUDA_DEVICE=$device with $HOOP_FAKE_CUDA_DEVICES GPUs"
    like "$1" "$(grep '^hoop-bench:' err)" '... with a sentence'
    is '' "$(rows out)" '... and nothing is measured'
}
run -n 2 sh -c '[ $HOOP_RANK = 0 ] || export HOOP_CUDA_DEVICE=7; exec "$0" -g 1 -b 64 -e 64 -n 1 -w 0' "$bench" >out
is 1 $? 'one rank alone lacks its GPU'
is 'hoop-bench: -g 1 asks for GPU memory, and there is none here (HOOP_CUDA_DEVICE is 7, but this process sees only 2 GPUs, counted from 0): use -g 0 for host memory' \
    "$(grep '^hoop-bench:' err)" '... rank 0 prints the sentence of that rank, and no other one'
device=2
refused '^hoop-bench: .*HOOP_CUDA_DEVICE is 2, but this process sees only 2 GPUs, counted from 0'
device=fast
refused '^hoop-bench: .*HOOP_CUDA_DEVICE=fast: give a whole number from -1 to 1023'
device=0 HOOP_FAKE_CUDA_DEVICES=0
refused '^hoop-bench: .*shows no GPU'
done_testing
