#!/bin/sh
# SPDX-License-Identifier: MIT
# What the tests here make of a machine's own driver (HOOP_TEST_CUDA=real), tried on the stand-in in its place: without a
# driver or a GPU there is nothing to test; where there is one and any call fails, that is a failure and never a skip.
# time limit: 120
. "$abs_top_srcdir/t/tap/tap.sh"
driver=$abs_top_builddir/t/tools/.libs
[ -e "$driver/libcuda.so.1" ] || skip_all 'the stand-in driver is not there: was hoop configured with --disable-shared?'
plan_lazy
mkdir "$tmp/none" "$tmp/broken" || bail "no $tmp/none"
: >"$tmp/broken/libcuda.so.1"

# queue_test FOLDER VARIABLE=VALUE...: t/gpu/cuda_queue.t with the driver there; leaves $status and "out".
queue_test()
{
    folder=$1
    shift
    env HOOP_TEST_CUDA=real LD_LIBRARY_PATH="$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$@" \
        "$abs_top_builddir/t/gpu/cuda_queue.t" >"$tmp/out" 2>&1
    status=$?
}

queue_test "$tmp/none" A=1
if grep -q 'no CUDA driver' "$tmp/out"; then
    is 0 $status 'without a driver'
    like '^1\.\.0 # SKIP no CUDA driver: .*No such file' "$(cat "$tmp/out")" '... skipped'
else
    skip 2 'this machine has a driver'
fi
queue_test "$tmp/broken" A=1
is 255 $status 'a driver that cannot be loaded'
like '^Bail out! the CUDA driver cannot be loaded: .*libcuda' "$(cat "$tmp/out")" '... is a failure'
queue_test "$driver" HOOP_FAKE_CUDA_DEVICES=0
is 0 $status 'without a GPU'
like '^1\.\.0 # SKIP the CUDA driver shows no GPU' "$(cat "$tmp/out")" '... skipped'

# The stand-in's calls from cuInit on, until the kernels are loaded.
call=0 seen=
while [ $call -lt 40 ]; do
    call=$((call + 1))
    queue_test "$driver" HOOP_FAKE_CUDA_FAIL=$call HOOP_FAKE_CUDA_STICKY=1
    reason=$(sed -n 's/^Bail out! //p' "$tmp/out")
    name=$(expr "$reason" : '.*\(cu[A-Z][A-Za-z0-9]*\) failed while')
    [ $status -ne 0 ] && [ -n "$name" ] && ! grep -q '# SKIP' "$tmp/out" || break
    seen="$seen $name"
    [ "$name" != cuModuleGetFunction ] || break
done
like ' cuInit .* cuModuleLoadData cuModuleGetFunction$' "$seen" 'whatever call fails where there is a GPU, it is named'
is '' "$(grep '# SKIP' "$tmp/out")" '... and nothing is skipped'
done_testing
