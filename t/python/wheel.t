#!/bin/sh
# SPDX-License-Identifier: MIT
# The wheel, in a fresh virtual environment that knows no other hoop; and pip install of the sources beside an installed
# library. Needs tools from the Python package index, so it runs only with HOOP_TEST_DOWNLOAD.
# time limit: 400
. "$abs_top_srcdir/t/tap/tap.sh"
. "$abs_top_srcdir/t/python/python.sh"
[ -n "${HOOP_TEST_DOWNLOAD:-}" ] || skip_all 'HOOP_TEST_DOWNLOAD is not set, and this test downloads auditwheel'
python3 -c 'import venv, ensurepip' 2>/dev/null || skip_all 'python3 cannot make a virtual environment: install python3-venv'
library=$HOOP_LIBRARY
unset HOOP_LIBRARY PYTHONPATH PYTHONWARNINGS
plan_lazy
cd "$tmp" || bail 'no scratch folder'

python3 -m venv "$tmp/plain" && "$tmp/plain/bin/pip" -q download --no-deps -d "$tmp" wheel >"$tmp/pip.log" 2>&1 ||
    skip_all "pip cannot download: $(tail -n 1 "$tmp/pip.log")"
ok 'make wheel' ${MAKE:-make} -C "$abs_top_builddir" wheel WHEEL_FOLDER="$tmp/wheels" || bail 'there is no wheel'
like '^hoop-[0-9.]*-py3-none-manylinux_2_[0-9]+_[a-z0-9_]+\.whl$' "$(ls wheels)" 'one wheel for every Python'
bare() { env -i HOME="$tmp" PATH="$tmp/fresh/bin:/usr/bin:/bin" HOOP_TEST_TMP="$tmp" "$@"; }
ok 'a fresh environment takes it' sh -c 'python3 -m venv fresh && fresh/bin/pip -q install --no-index wheels/hoop-*.whl'
cat >sum.py <<'END'
import array, hoop, os
from hoop._library import lib
with hoop.Comm() as comm:
    own = os.path.dirname(hoop.__file__) in lib._name and "hoop.libs" in open("/proc/self/maps").read()
    print(comm.rank, comm.allreduce(array.array("i", [comm.rank + 1]))[0], own)
END
is '0 6 True
1 6 True
2 6 True' "$(bare hooprun -n 3 python sum.py | sort)" 'its hooprun starts three ranks, with its own libraries'
is '0 1 True' "$(bare python -m hoop.run -n 1 python sum.py)" 'and so does python -m hoop.run'
cat >found.py <<'END'
from importlib.metadata import entry_points
for group in "torch.distributed.backends", "torch.backends":
    print(*[point.value for point in entry_points(group=group)])
END
is 'hoop.torch:register
hoop.torch:autoload' "$(bare python found.py)" 'PyTorch finds the backend by its entry points'
like '^hoop-rendezvous ' "$(bare hoop-rendezvous --version)" 'hoop-rendezvous'

cp -R "$abs_top_srcdir/python" sources && chmod -R u+w sources
ok 'pip install of the sources, which downloads setuptools only' "$tmp/plain/bin/pip" -q install ./sources
is '0 1 False' "$(HOOP_LIBRARY=$library "$tmp/plain/bin/python" sum.py)" 'uses the library that is installed'
done_testing
