#!/bin/sh
# SPDX-License-Identifier: MIT
# The wheel for x86_64, in a fresh virtual environment that knows no other hoop: programs, numpy, PyTorch; and pip install
# of the sources, beside an installed library and without one. Needs tools from the Python package index, and sources of
# Debian's packages, so it runs only with HOOP_TEST_DOWNLOAD.
# time limit: 900
. "$abs_top_srcdir/t/tap/tap.sh"
. "$abs_top_srcdir/t/python/python.sh"
[ -n "${HOOP_TEST_DOWNLOAD:-}" ] || skip_all 'HOOP_TEST_DOWNLOAD is not set, and this test downloads zig and auditwheel'
[ "${HOOP_TEST_PACKAGES:-}" != none ] || skip_all 'HOOP_TEST_PACKAGES=none; quickstart check packages runs it'
python3 -c 'import venv, ensurepip' 2>/dev/null || skip_all 'python3 cannot make a virtual environment: install python3-venv'
command -v dpkg-source >/dev/null || skip_all 'there is no dpkg-source: install dpkg-dev'
[ "$(uname -m)" = x86_64 ] || skip_all 'this machine is no x86_64'
library=$HOOP_LIBRARY
torch_python=$(python_with torch) || torch_python=
unset HOOP_LIBRARY PYTHONPATH PYTHONWARNINGS MAKEFLAGS MFLAGS MAKELEVEL
plan_lazy
cd "$tmp" || bail 'no scratch folder'

python3 -m venv "$tmp/plain" && "$tmp/plain/bin/pip" -q download --no-deps -d "$tmp" wheel >"$tmp/pip.log" 2>&1 ||
    skip_all "pip cannot download: $(tail -n 1 "$tmp/pip.log")"
ok 'make wheel-x86_64' ${MAKE:-make} -C "$abs_top_builddir" wheel-x86_64 WHEEL_FOLDER="$tmp/wheels" || bail 'there is no wheel'
like '^hoop-[0-9.]*-py3-none-manylinux_2_28_x86_64\.whl$' "$(ls wheels)" 'one wheel for every Python; auditwheel agrees'
bare() { env -i HOME="$tmp" PATH="$tmp/fresh/bin:/usr/bin:/bin" HOOP_TEST_TMP="$tmp" "$@"; }
fresh_environment() { "$1" -m venv fresh && fresh/bin/pip -q install --no-index wheels/hoop-*.whl; }
ok 'a fresh environment takes it' fresh_environment python3
package=$(bare python -c 'import hoop, os; print(os.path.dirname(hoop.__file__))')
is '' "$(nm -D --defined-only "$package/lib/libhoop.so.0" | awk '$3 !~ /^hoop_/ { print $3 }')" 'only hoop_* is visible'
is '' "$(for file in "$package"/lib/* "$package"/bin/hoop-*; do
    readelf -d "$file" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p'
done | grep -vE '^(lib(c|m|dl|pthread|rt|hoop)|ld-linux-x86-64)\.so')" 'the C library is all that it needs'
is 'hoop libevent ncurses openssl' "$(ls "$package"/../hoop-*.dist-info/licenses | paste -sd ' ')" 'with the licences'

cat >sum.py <<'END'
import array, hoop, os
from hoop._library import lib
with hoop.Comm() as comm:
    print(comm.rank, comm.allreduce(array.array("i", [comm.rank + 1]))[0], os.path.dirname(hoop.__file__) in lib._name)
END
is '0 6 True
1 6 True
2 6 True' "$(bare hooprun -n 3 python sum.py | sort)" 'its hooprun starts three ranks, with its own library'
is "0 1 True" "$(bare python -m hoop.run -n 1 python sum.py)" 'and so does python -m hoop.run'
if numpy_python=$(python_with numpy); then
    numpy_path=$("$numpy_python" -c 'import numpy, os; print(os.path.dirname(os.path.dirname(numpy.__file__)))')
    cat >ones.py <<'END'
import hoop, numpy
with hoop.Comm() as comm:
    print(comm.allreduce(numpy.full(1000, comm.rank + 1.0)).sum())
END
    is '6000.0 6000.0 6000.0' "$(bare PYTHONPATH="$package/..:$numpy_path" hooprun -n 3 "$numpy_python" ones.py | paste -sd ' ')" 'numpy'
else
    skip 1 'there is no numpy'
fi
like '^# Out of bounds values : 0 OK' "$(bare hooprun -n 3 hoop-bench -b 4K -e 64K -n 1)" 'hoop-bench measures and checks'
like '^GPU: CUDA: .*GPU kernels inside' "$(bare hoop-bench --version)" '... and tells whether there are GPU kernels'
like '^Usage: hoop-top' "$(bare hoop-top --help)" 'hoop-top'
like '^hoop-rendezvous ' "$(bare hoop-rendezvous --version)" 'hoop-rendezvous'
cat >found.py <<'END'
from importlib.metadata import entry_points
for group in "torch.distributed.backends", "torch.backends":
    print(*[point.value for point in entry_points(group=group)])
END
is 'hoop.torch:register
hoop.torch:autoload' "$(bare python found.py)" 'PyTorch finds the backend by its entry points'

# torch comes from another environment, whose own hoop, if any, comes later in Python's path.
if [ -n "$torch_python" ]; then
    rm -rf fresh
    fresh_environment "$torch_python" || bail 'no environment for torch'
    "$torch_python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >"$(echo fresh/lib/python3*/site-packages)/torch.pth"
    like 'step 50: mean squared error 0\.0' "$(bare OMP_NUM_THREADS=1 HOOP_SOCKET_IFNAME=lo timeout 200 python -m torch.distributed.run \
        --nproc-per-node 2 --rdzv-backend c10d --rdzv-endpoint 127.0.0.1:0 "$abs_top_srcdir/examples/torch_ddp.py" 2>&1)" 'torch trains with it'
else
    skip 1 'there is no torch: HOOP_TEST_TORCH may name a Python that has it'
fi

cp -R "$abs_top_srcdir/python" sources && chmod -R u+w sources
ok 'pip install of the sources, which downloads setuptools only' "$tmp/plain/bin/pip" -q install ./sources
is '0 1 False' "$(HOOP_LIBRARY=$library "$tmp/plain/bin/python" sum.py)" 'uses the library that is installed'
like 'ImportError: .*make -C build wheel' "$(HOOP_LIBRARY=/nonexistent "$tmp/plain/bin/python" sum.py 2>&1)" 'without one it names the wheel'
done_testing
