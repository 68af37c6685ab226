#!/bin/sh
# SPDX-License-Identifier: MIT
# What check-gpu runs, in a build tree of programs that only note how they were called: the sections, numbers of ranks and
# types that were asked for, nothing else; and that it says why where it cannot begin.
# time limit: 60
. "$abs_top_srcdir/t/tap/tap.sh"
plan_lazy
mkdir -p "$tmp/tree/bin" "$tmp/tree/t/gpu" "$tmp/tree/bench" || bail "no $tmp/tree"
cd "$tmp" || bail "no $tmp"
export CALLS="$tmp/calls" # what hooprun was called with

# program NAME: its text from standard input.
program()
{
    { echo '#!/bin/sh' && cat; } >"tree/$1" && chmod +x "tree/$1"
}
for name in t/gpu/cuda.t t/gpu/cuda_queue.t t/gpu/cuda_stream_sync.t t/gpu/cuda_ring.t t/gpu/cuda_streams.t t/gpu/cuda_comms.t bench/submit bench/nccl_bench; do
    echo 'echo 1..0' | program $name
done
echo 'echo "hoop-bench 0"' | program bin/hoop-bench
echo 'echo "$* ${HOOP_CHECK_GPU_RANKS-}" >>"$CALLS"' | program bin/hooprun

# check VARIABLE=VALUE...: leaves $status and "out".
check()
{
    : >calls
    env "$@" abs_top_builddir="$tmp/tree" sh "$abs_top_srcdir/bench/check-gpu" >out 2>&1
    status=$?
}
check HOOP_CHECK_GPU=nccl HOOP_CHECK_GPU_RANKS=4 HOOP_CHECK_GPU_TYPES=bfloat16
is '0 5' "$status $(grep -c '^-n 4 .*bench/nccl_bench bfloat16 $' calls)" 'one number of ranks, one type: NCCL as it is, and tuned in four ways'
is 5 "$(grep -c . calls)" '... nothing else, and hoop is told nothing'
is 1 "$(grep -c '^VERDICT, 4 ranks, bfloat16' out)" '... one verdict'
check HOOP_CHECK_GPU=nccl
is 30 "$(grep -c bench/nccl_bench calls)" 'else three numbers of ranks and two types'
check HOOP_CHECK_GPU='host shared' HOOP_CHECK_GPU_RANKS='2 3'
is '2 2 3 3 ' "$(sed -n 's/^-n \([0-9]*\) bin.hoop-bench -g [01] -b 4 .*/\1/p' calls | tr '\n' ' ')" 'GPU against host buffers at the numbers wanted'
is '2 3 ' "$(sed -n 's/^-n \([0-9]*\) bin.hoop-bench -g 1 -d all .*/\1/p' calls | tr '\n' ' ')" '... and all types'

echo 'echo "1..0 # SKIP no GPU here"' | program t/gpu/cuda_queue.t
check HOOP_CHECK_GPU=host
is '77 check-gpu: skipped: no GPU here' "$status $(cat out)" 'skipped without a GPU, with the reason'
echo 'echo "Bail out! cannot open the GPU: no image"; exit 255' | program t/gpu/cuda_queue.t
check HOOP_CHECK_GPU=host
is '1 check-gpu: FAILED: cannot open the GPU: no image' "$status $(cat out)" 'a GPU that cannot be opened is a failure'
is '' "$(cat calls)" '... and nothing is run'
echo 'echo "not ok 1 - order"; exit 1' | program t/gpu/cuda_queue.t
check HOOP_CHECK_GPU=host HOOP_CHECK_GPU_RANKS=2
is '1 1' "$status $(grep -c '^not ok 1 - order' out)" 'a test that fails counts in every section'
like '-g 1' "$(cat calls)" '... which is run all the same'
echo 'echo "CUDA: no GPU kernels inside, this libhoop was built without nvcc"' | program bin/hoop-bench
check HOOP_CHECK_GPU=host
is '77 check-gpu: skipped: hoop was built without nvcc' "$status $(cat out)" '... or kernels'
echo 'echo "cannot open libevent" >&2; exit 127' | program bin/hoop-bench
check HOOP_CHECK_GPU=host
is '1 check-gpu: bin/hoop-bench does not start: cannot open libevent' "$status $(cat out)" \
    'where programs do not start, that is all it says'
is '' "$(cat calls)" '... and nothing is run'
rm tree/bench/submit
check HOOP_CHECK_GPU=host
like '^check-gpu: bench/submit is not built' "$(cat out)" 'a program that is not built is named'
done_testing
