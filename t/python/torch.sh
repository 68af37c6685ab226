# SPDX-License-Identifier: MIT
# torch.sh: PyTorch for a test, in a virtual environment outside the tree. Read it after t/python/python.sh.
#     torch_environment VERSION                 makes it, or takes the one of the last run; skips the test where it cannot
#     torchrun COUNT [OPTION...] FILE [ARG...]  a program on this many ranks
# It lies in ~/.cache/hoop-tests (XDG_CACHE_HOME), because it is a download of some 3 GB. HOOP_TEST_TORCH names a Python
# that has torch, numpy and expecttest, to be used instead; none skips the tests.

torch_environment()
{
    [ "${HOOP_TEST_TORCH:-}" != none ] || skip_all 'HOOP_TEST_TORCH=none; quickstart check all runs it as a part of its own'
    folder=${XDG_CACHE_HOME:-$HOME/.cache}/hoop-tests/torch-$1
    torch_python=${HOOP_TEST_TORCH:-$folder/bin/python}
    [ -n "${HOOP_TEST_TORCH:-}" ] || download_torch "$1"
    install_package
    export TMPDIR="$tmp" PYTHONPATH="$tmp/site" PYTHONWARNINGS=ignore OMP_NUM_THREADS=1 HOOP_SOCKET_IFNAME=lo GLOO_SOCKET_IFNAME=lo
}

download_torch()
{
    [ -n "${HOOP_TEST_DOWNLOAD:-}" ] || skip_all 'HOOP_TEST_DOWNLOAD is not set, and this test downloads PyTorch'
    mkdir -p "$folder" || skip_all "no folder $folder"
    exec 9>"$folder.lock" && flock 9 # another test may be making it
    [ ! -e "$folder/complete" ] || { exec 9>&-; return; }
    "$HOOP_TEST_PYTHON" -m venv "$folder" >"$tmp/venv" 2>&1 ||
        skip_all "no virtual environment: $(tail -n 1 "$tmp/venv")"
    PYTHONPATH= PYTHONWARNINGS=ignore timeout 500 "$torch_python" -m pip install -q "torch==$1.*" numpy expecttest accelerate >"$tmp/pip" 2>&1 ||
        skip_all "pip cannot install torch $1: $(tail -n 1 "$tmp/pip")"
    : >"$folder/complete"
    exec 9>&-
}

# The package's files and entry points, which are all that torch looks for; the library is this tree's.
install_package()
{
    mkdir -p "$tmp/site/hoop-0.dist-info" && cp -r "$abs_top_srcdir/python/hoop" "$tmp/site/" ||
        bail 'no scratch folder'
    printf 'Metadata-Version: 2.1\nName: hoop\nVersion: 0\n' >"$tmp/site/hoop-0.dist-info/METADATA"
    sed -n '/entry-points/,/^$/{s/^\[project.entry-points."\(.*\)"\]/[\1]/;s/"//g;p;}' \
        "$abs_top_srcdir/python/pyproject.toml" \
        >"$tmp/site/hoop-0.dist-info/entry_points.txt"
}

# torchrun gives each rank its number; the store is on a port that the kernel chooses.
torchrun()
{
    count=$1
    shift
    timeout $((150 * ${HOOP_TEST_TIME_FACTOR:-1})) "$torch_python" -m torch.distributed.run --nproc-per-node "$count" \
        --rdzv-backend c10d --rdzv-endpoint 127.0.0.1:0 "$@" 2>&1
}
