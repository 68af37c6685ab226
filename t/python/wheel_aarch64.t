#!/bin/sh
# SPDX-License-Identifier: MIT
# The wheel for aarch64, and its code under qemu: every type and operation of the reductions to the bit, and collectives of
# three ranks, of which hoop-bench checks every element. No times. Runs only with HOOP_TEST_DOWNLOAD, as t/python/wheel.t.
# time limit: 900
. "$abs_top_srcdir/t/tap/tap.sh"
[ -n "${HOOP_TEST_DOWNLOAD:-}" ] || skip_all 'HOOP_TEST_DOWNLOAD is not set, and this test downloads zig and auditwheel'
[ "${HOOP_TEST_PACKAGES:-}" != none ] || skip_all 'HOOP_TEST_PACKAGES=none; quickstart check packages runs it'
[ "${HOOP_TEST_SANITIZE:-no}" = no ] || skip_all 'another tree runs it'
python3 -c 'import venv, ensurepip' 2>/dev/null || skip_all 'python3 cannot make a virtual environment: install python3-venv'
command -v dpkg-source >/dev/null || skip_all 'there is no dpkg-source: install dpkg-dev'
command -v qemu-aarch64 >/dev/null || skip_all 'there is no qemu-aarch64: install qemu-user'
[ -e /usr/aarch64-linux-gnu/lib/libc.so.6 ] || skip_all 'there is no C library for aarch64: install libc6-arm64-cross'
unset MAKEFLAGS MFLAGS MAKELEVEL HOOP_HOSTFILE HOOP_RSH
plan_lazy
cd "$tmp" || bail 'no scratch folder'
make=${MAKE:-make}

ok 'make wheel-aarch64' $make -C "$abs_top_builddir" wheel-aarch64 WHEEL_FOLDER="$tmp/wheels" >log 2>&1 ||
    bail "there is no wheel: $(tail -n 3 log)"
cat log
like '^hoop-[0-9.]*-py3-none-manylinux_2_28_aarch64\.whl$' "$(ls wheels)" 'one wheel for every Python; auditwheel agrees'
python3 -m zipfile -e wheels/*.whl unpacked && chmod +x unpacked/hoop/bin/*

arm() { qemu-aarch64 -L /usr/aarch64-linux-gnu "$@"; }
tree=$abs_top_builddir/python/hoop-aarch64
for test in codec host own_types; do
    ok "t/gpu/$test is built" $make -C "$tree" t/gpu/$test.t
    arm "$tree/t/gpu/$test.t" >$test.log 2>&1
    status=$?
    is "0 $(sed -n 's/^1\.\.//p' $test.log)" "$status $(grep -c '^ok' $test.log)" "t/gpu/$test: each case"
    grep '^not ok' -A 5 $test.log | head -n 30
done
for coll in allreduce all; do
    like '^# Out of bounds values : 0 OK' "$("$abs_top_builddir/bin/hooprun" -n 3 qemu-aarch64 -L /usr/aarch64-linux-gnu \
        unpacked/hoop/bin/hoop-bench --coll $coll -d all -o all -b 1000 -e 1000 -n 1 -w 0 2>&1)" "three ranks, $coll: all types and operations"
done
like '^hooprun ' "$(arm unpacked/hoop/bin/hoop-launch --version)" 'hoop-launch'
like '^Usage: hoop-top' "$(arm unpacked/hoop/bin/hoop-top --help)" 'hoop-top'
like '^hoop-rendezvous ' "$(arm unpacked/hoop/bin/hoop-rendezvous --version)" 'hoop-rendezvous'
done_testing
