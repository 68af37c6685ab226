#!/bin/sh
# SPDX-License-Identifier: MIT
# Training on a GPU, as examples/digits_gpu does it: the loss curve is that of the CPU example, every rank holds the same
# bits, and the order of the streams alone makes it so, however late they are. Without a GPU, on the stand-in driver,
# runtime and cuBLAS, with the example's kernels compiled for the CPU (t/sys/digits_gpu); with HOOP_TEST_CUDA=real the
# example itself on the machine's GPU (bench/check-gpu).
# time limit: 400
. "$abs_top_srcdir/t/tap/tap.sh"
. "$abs_top_srcdir/t/sys/training.sh"
bin=$abs_top_builddir/bin example=$abs_top_builddir/examples/digits_gpu
export HOOP_DIGITS="$abs_top_srcdir/examples/digits.csv"
case ${HOOP_TEST_CUDA:-} in
real) digits_gpu=$example rounding=1e-3 ;;
*) digits_gpu=$abs_top_builddir/t/sys/digits_gpu rounding=1e-5 ;;
esac
[ -x "$digits_gpu" ] || skip_all "$digits_gpu was not built: that takes a C++ compiler and --enable-shared, or nvcc and cuBLAS"
plan_lazy
[ "${HOOP_TEST_CUDA:-}" = real ] || export LD_LIBRARY_PATH="$abs_top_builddir/t/tools/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

# train NAME RANKS OPTION...: the output is in $tmp/NAME.
train()
{
    name=$1 n=$2
    shift 2
    "$bin/hooprun" --timeout 120 -n "$n" "$digits_gpu" "$@" >"$tmp/$name" 2>"$tmp/$name.err"
}

# learn RANKS EPOCHS OPTION...: beside the CPU's run with the same options.
learn()
{
    ranks=$1 epochs=$2
    shift 2
    cpu=cpu$epochs
    [ -e "$tmp/$cpu" ] || "$abs_top_builddir/examples/digits" --epochs $epochs "$@" >"$tmp/$cpu" 2>&1 ||
        bail "$(tail -1 "$tmp/$cpu")"
    ok "$ranks ranks train" train $ranks $ranks --epochs $epochs "$@" || bail "$(tail -1 "$tmp/$ranks.err")"
    is '' "$(cat "$tmp/$ranks.err")" '... without a word of trouble, nothing of the runtime is left'
    judge $ranks $cpu 'the CPU' $rounding $epochs
}
learn 1 $short
learn 4 $short
rm -f "$tmp/cpu$long" # of other options, if it is as long
learn 2 $long $larger

small() { "$bin/hooprun" -n 3 "$digits_gpu" "$@"; }
ok 'batches smaller than the ring' small --epochs 1 --batch 2 --hidden 5
ok 'a hidden layer of one, a batch of all' small --epochs 2 --batch 5000 --hidden 1
ok 'it helps' "$digits_gpu" --help

# refused PATTERN COMMAND...: fails with one line on standard error, said once though two ranks run.
refused()
{
    pattern=$1
    shift
    "$bin/hooprun" -n 2 "$@" >"$tmp/out" 2>"$tmp/err"
    is 1 $? "refused: $*"
    like "$pattern" "$(grep '^digits_gpu:' "$tmp/err")" '... with a sentence'
    is 1 "$(grep -c '^digits_gpu:' "$tmp/err")" '... said once'
}
refused 'see digits_gpu --help' "$digits_gpu" --epochs 0
nobody='^digits_gpu: no GPU here \(CUDA says: .+\); digits is the same training on CPUs$'
if [ -x "$example" ]; then
    refused "$nobody" env CUDA_VISIBLE_DEVICES= "$example"
else
    skip 3 'the example itself takes nvcc and cuBLAS'
fi
[ "${HOOP_TEST_CUDA:-}" != real ] || { done_testing; exit; }

# --- what only a stand-in can be told ---

refused "$nobody" env HOOP_FAKE_CUDA_DEVICES=0 "$digits_gpu"
refused "$nobody" env LD_LIBRARY_PATH= "$digits_gpu"

# same TEXT RANKS VARIABLE=VALUE...: the parameters are those that such ranks learn when nothing is late.
same()
{
    text=$1 ranks=$2
    shift 2
    [ -e "$tmp/few.$ranks" ] || train few.$ranks $ranks --epochs 1 || fail "$ranks ranks train"
    env "$@" "$bin/hooprun" --timeout 60 -n $ranks "$digits_gpu" --epochs 1 >"$tmp/out" 2>&1 || diag "$(tail -3 "$tmp/out")"
    is "$(checksum "$tmp/few.$ranks") of 16" "$(checksum "$tmp/out") of $(checksum "$tmp/out" | tr -d '\n' | wc -c)" \
        "$ranks ranks: $text, the same bits"
}
for ranks in 1 4; do
    same 'streams that are late' $ranks HOOP_FAKE_CUDA_DELAY_US=400
done
same 'streams that are late, and a driver that sleeps at once' 2 HOOP_FAKE_CUDA_DELAY_US=400 HOOP_SPIN=0
same 'a driver that waits for all streams where it may' 2 HOOP_FAKE_CUDA_JEALOUS=1
same 'a GPU without stream memory operations' 3 HOOP_FAKE_CUDA_MEMOPS=0 HOOP_FAKE_CUDA_DELAY_US=100
same 'two GPUs for three ranks' 3 HOOP_FAKE_CUDA_DEVICES=2

cat >"$tmp/unlucky" <<'END'
#!/bin/sh
[ "$HOOP_RANK" != 1 ] || export HOOP_FAKE_CUDA_FAIL=3000 HOOP_FAKE_CUDA_STICKY=1
exec "$@"
END
chmod +x "$tmp/unlucky"
timeout 60 "$bin/hooprun" -n 3 "$tmp/unlucky" "$digits_gpu" >"$tmp/out" 2>"$tmp/err"
is 1 $? 'a GPU that dies in the middle ends all ranks'
like '^digits_gpu: rank 1: .|rank 1 .*CUDA_ERROR' "$(cat "$tmp/err")" '... by name'
nok '... and nothing is claimed' grep -q '^parameters' "$tmp/out"
done_testing
