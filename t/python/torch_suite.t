#!/bin/sh
# SPDX-License-Identifier: MIT
# PyTorch's own tests of a backend, on hoop: python/tests/torch_suite.list says which must pass, and why the others do not.
# time limit: 900
. "$abs_top_srcdir/t/tap/tap.sh"
. "$abs_top_srcdir/t/python/python.sh"
. "$abs_top_srcdir/t/python/torch.sh"
torch_environment 2.15
cd "$tmp" || bail 'no scratch folder'
list=$files/torch_suite.list
plan_lazy

# suite KIND [ARG...]: runs the tests of that kind; each is a test here.
suite()
{
    kind=$1
    shift
    names=$(awk -v kind="$kind" '$2 == kind && !/^#/ { print $1 }' "$list")
    "$torch_python" "$files/torch_suite.py" --total 500 --log "$tmp/log" "$@" $names >"$tmp/$kind" 2>"$tmp/$kind.err" ||
        tail -n 5 "$tmp/$kind.err"
    for name in $names; do
        is "$name passed" "$(awk -v name="$name" '$1 == name { print $1, $2 }' "$tmp/$kind")" "$name, of $kind" ||
            tail -n 20 "$tmp/log/$name.0" | grep -v USDT | sed 's/^/# /'
    done
}

suite gloo --gate gloo hoop
suite mpi --gate mpi hoop
export HOOP_TORCH_REPLACE=gloo
suite as-gloo gloo
done_testing
