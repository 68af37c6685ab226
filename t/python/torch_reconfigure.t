#!/bin/sh
# SPDX-License-Identifier: MIT
# PyTorch groups made with enable_reconfigure: rings that follow one another, abort hooks, and the example torch_elastic.
# time limit: 600
. "$abs_top_srcdir/t/tap/tap.sh"
. "$abs_top_srcdir/t/python/python.sh"
. "$abs_top_srcdir/t/python/torch.sh"
torch_environment "${HOOP_TEST_TORCH_VERSION:-2.15}"
cd "$tmp" || bail 'no scratch folder'
"$torch_python" -c 'import inspect, sys, torch.distributed as d
sys.exit("enable_reconfigure" not in inspect.signature(d.init_process_group).parameters)' || skip_all 'torch before 2.15 has no such groups'
plan_lazy

story() { timeout 300 "$torch_python" "$files/torch_reconfigure.py" "$1" >"$tmp/out" 2>&1 && grep -q "^passed $1$" "$tmp/out" || { tail -n 30 "$tmp/out"; return 1; }; }
for name in $(sed -n 's/^def \([a-z_]*\)(\(store, rank\|make_store\)):$/\1/p' "$files/torch_reconfigure.py" | grep -v _life); do
    ok "$name" story "$name"
done

timeout 300 "$torch_python" "$abs_top_srcdir/examples/torch_elastic.py" >"$tmp/out" 2>&1
is 'member 1 has died
member 3 joins' "$(grep -oE '^member 1 has died|^member 3 joins' "$tmp/out")" 'torch_elastic: one dies, one comes' || tail -n 30 "$tmp/out"
is 1 "$(grep -oE 'step 60: mean squared error 0\.0[0-9]*, parameters [0-9a-f]+$' "$tmp/out" | sort -u | wc -l)" '... and all have the same parameters'
is 3 "$(grep -c 'step 60' "$tmp/out")" '... all three'
done_testing
