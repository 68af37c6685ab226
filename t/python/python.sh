# SPDX-License-Identifier: MIT
# python.sh: for tests of the package in python/. Read it after t/tap/tap.sh; it skips the test where Python cannot run it.
#     python FILE [ARG...]          the file of python/tests, alone: a ring of one
#     ranks COUNT FILE [ARG...]     the same on this many ranks under hooprun
#     python_with LIBRARY           prints a Python that has it, or fails
# HOOP_TEST_PYTHON names another Python than python3, for instance one that has numpy or torch.

# By its own path, since python3 may be a script that looks for it anew at each start.
: "${HOOP_TEST_PYTHON:=$(python3 -c 'import sys; print(sys.executable)' 2>/dev/null || echo python3)}"
command -v "$HOOP_TEST_PYTHON" >/dev/null || skip_all 'there is no python3'
"$HOOP_TEST_PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || skip_all 'python3 is older than 3.10'
[ "${HOOP_TEST_SANITIZE:-no}" = no ] || skip_all 'python3 is not built with the sanitizers of this tree'
export HOOP_LIBRARY="$abs_top_builddir/.libs/libhoop.so.0"
[ -e "$HOOP_LIBRARY" ] || skip_all 'this tree has no shared library'
export PYTHONPATH="$abs_top_srcdir/python" PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=error HOOP_CONF_FILE=
unset PYTHONUNBUFFERED HOOP_RANK HOOP_SIZE HOOP_RENDEZVOUS RANK WORLD_SIZE MASTER_ADDR MASTER_PORT
files=$abs_top_srcdir/python/tests

# HOOP_TEST_PYTHON, the system's, that of HOOP_TEST_TORCH, or one that a test of PyTorch has made.
python_with()
{
    for candidate in "$HOOP_TEST_PYTHON" /usr/bin/python3 "${HOOP_TEST_TORCH:-none}" \
        "${XDG_CACHE_HOME:-$HOME/.cache}"/hoop-tests/torch-*/bin/python; do
        "$candidate" -c "import importlib.util, sys
spec = importlib.util.find_spec('$1')
sys.exit(not (spec and spec.origin))" 2>/dev/null &&
            echo "$candidate" && return
    done
    return 1
}

python() { program=$1; shift; timeout $((100 * ${HOOP_TEST_TIME_FACTOR:-1})) "$HOOP_TEST_PYTHON" "$files/$program" "$@"; }
ranks()
{
    count=$1 program=$2
    shift 2
    timeout $((100 * ${HOOP_TEST_TIME_FACTOR:-1})) "$abs_top_builddir/bin/hooprun" -n "$count" "$HOOP_TEST_PYTHON" "$files/$program" "$@"
}
