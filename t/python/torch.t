#!/bin/sh
# SPDX-License-Identifier: MIT
# backend="hoop" in PyTorch: operations, training and faults, to the bit; programs that name gloo; a restart by torchrun.
# time limit: 600
. "$abs_top_srcdir/t/tap/tap.sh"
. "$abs_top_srcdir/t/python/python.sh"
. "$abs_top_srcdir/t/python/torch.sh"
torch_environment "${HOOP_TEST_TORCH_VERSION:-2.15}"
cd "$tmp" || bail 'no scratch folder'
plan_lazy

# passed COUNT FILE NAME: rank 0 of this program reports NAME.
passed()
{
    torchrun "$@" >"$tmp/out"
    code=$?
    grep -q "^passed $name$" "$tmp/out" && [ $code = 0 ] || { show_ranks; return 1; }
}

# For a check that has failed: the last lines of the ranks, before torchrun's own of them all.
show_ranks() { sed '/torch.distributed.elastic.*failed (exitcode\|^Traceback/,$d' "$tmp/out" | grep -v Warning | tail -n 40; }

passed_starts() { timeout 300 "$torch_python" "$files/torch_starts.py" "$1" >"$tmp/out" 2>&1 || { tail -n 20 "$tmp/out"; return 1; }; }

# since MAJOR MINOR: the version of PyTorch is at least this.
version=$("$torch_python" -c "import torch; print(*torch.__version__.split('.')[:2])")
since() { [ "${version% *}" -gt "$1" ] || { [ "${version% *}" -eq "$1" ] && [ "${version#* }" -ge "$2" ]; }; }

for count in 2 3 4; do
    name=check_again
    ok "all checks on $count ranks" passed $count "$files/torch_checks.py"
done
name=check_ddp_with_collectives
ok 'several threads on one group' passed 2 "$files/torch_threads.py"
for name in $(sed -n 's/^def \(fault_[a-z_]*\).*/\1/p' "$files/torch_checks.py"); do
    ok "$name" passed 2 "$files/torch_checks.py" "$name"
done
for way in $(sed -n 's/^            \([a-z_]*\): .*/\1/p' "$files/torch_interrupts.py"); do
    ok "Ctrl-C: $way" "$torch_python" "$files/torch_interrupts.py" "$way"
done
name=restart
ok 'torchrun starts the ranks again' passed 2 --max-restarts 1 "$files/torch_guests.py" restart
name=killed
ok 'torchrun starts the ranks again after one died before the group was made' passed 3 --max-restarts 2 "$files/torch_guests.py" killed
for way in $(sed -n 's/^def \([a-z]*\)(folder):$/\1/p' "$files/torch_starts.py"); do
    ok "starts: $way" passed_starts $way
    diag "$(grep 'starts after' "$tmp/out")"
done
name=pipeline
if since 2 7; then
    ok 'a pipeline of three stages' passed 3 "$files/torch_guests.py" pipeline
else
    skip 1 'torch before 2.7 has another interface for pipelines'
fi
name=store
ok 'a store that dies' passed 2 "$files/torch_guests.py" store
name=spawned
ok 'a spawned function that fails' passed 1 "$files/torch_guests.py" spawned
name=fewer
ok 'a smaller group over the same store' passed 3 "$files/torch_guests.py" fewer
if since 2 14; then
    name=mixed
    ok 'two backends in one group' passed 2 "$files/torch_guests.py" mixed
    name=check_ddp
    TORCH_DISTRIBUTED_DEBUG=DETAIL ok 'with debugging' passed 2 "$files/torch_checks.py" check_reductions check_ddp
else
    name=unmixed
    ok 'two backends in one group are refused' passed 2 "$files/torch_guests.py" unmixed
    skip 1 'debugging as of torch 2.14'
fi
old=$(HOOP_LIBRARY=/nonexistent/libhoop.so torchrun 1 "$files/torch_checks.py" check_objects)
like '^[^ ]*ImportError: the package hoop found no libhoop .*HOOP_LIBRARY names the file' \
    "$(echo "$old" | sed 's/^\[rank0\]: //' | grep ImportError)" 'no library: one sentence'
is 2 "$(echo "$old" | grep -c 'File .*/site/hoop/')" '... and no way through the package in the traceback'
# loaded: what needs a torch that loads hoop by itself: the example, and programs that name gloo.
loaded()
{
    like 'step 50: mean squared error 0\.0' "$(torchrun 2 "$abs_top_srcdir/examples/torch_ddp.py")" 'the example torch_ddp'
    export HOOP_TORCH_REPLACE=gloo
    name=check_again
    BACKEND=gloo ok "all checks in gloo's place" passed 2 "$files/torch_checks.py"
    name=told
    TORCH_DISTRIBUTED_DEBUG=DETAIL ok 'that hoop is in use is told' passed 2 "$files/torch_guests.py" told
    TORCH_DEVICE_BACKEND_AUTOLOAD=0 ok '... and gloo is replaced where torch loads nothing by itself' passed 2 "$files/torch_guests.py" told
    name=gloo_network
    ok "... and GLOO_SOCKET_IFNAME names the interface" passed 2 "$files/torch_guests.py" gloo_network
    like 'UserWarning: HOOP_TORCH_REPLACE=Gloo has no effect' \
        "$(PYTHONWARNINGS=default HOOP_TORCH_REPLACE=Gloo "$torch_python" -c 'import torch' 2>&1)" 'a wrong name is told'
    for name in zero accelerate; do
        if [ $name = accelerate ] && ! "$torch_python" -c 'import accelerate' 2>"$tmp/out"; then
            skip 1 'there is no accelerate'
        else
            ok "$name" passed 2 "$files/torch_guests.py" $name
        fi
    done
    unset HOOP_TORCH_REPLACE
    name=unused
    ok 'that gloo is gloo is told' passed 2 "$files/torch_guests.py" unused
}
if since 2 5; then loaded; else skip 9 'torch before 2.5 loads no backend by itself'; fi
(umask 077 && "$abs_top_builddir/bin/hoop-rendezvous" --new-secret secret) >"$tmp/out" 2>&1
name=check_objects
HOOP_SECRET_FILE=$tmp/secret ok 'a secret file' passed 2 "$files/torch_checks.py" check_objects
name=secret
HOOP_SECRET_FILE=$tmp/secret ok 'a secret file that one rank lacks' passed 2 "$files/torch_guests.py" secret
for folder in hoop other/hoop; do (umask 077 && mkdir -p $folder && "$abs_top_builddir/bin/hoop-rendezvous" --new-secret $folder/secret); done >"$tmp/out" 2>&1
name=own_secret
XDG_CONFIG_HOME=$tmp ok "the user's own secret" passed 3 "$files/torch_guests.py" own_secret
done_testing
