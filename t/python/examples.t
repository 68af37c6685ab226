#!/bin/sh
# SPDX-License-Identifier: MIT
# The examples of Python, and python -m hoop.run, which is hooprun.
# time limit: 120
. "$abs_top_srcdir/t/tap/tap.sh"
. "$abs_top_srcdir/t/python/python.sh"
plan_lazy
cd "$tmp" || bail 'no scratch folder'
files=$abs_top_srcdir/examples

averages() { for r in $(seq 0 $(($1 - 1))); do echo "rank $r of $1: 4 averages are right"; done; }
is "$(averages 1)" "$(python asyncio_overlap.py)" 'asyncio_overlap, alone'
is "$(averages 3)" "$(ranks 3 asyncio_overlap.py | sort)" 'asyncio_overlap, three ranks'

meeting()
{
    for rank in 1 2 0; do
        HOOP_SOCKET_IFNAME=lo python shared_file.py meeting $rank 3 &
    done
    wait
}
is 'rank 0 of 3: the sum of 1 to 3 is 6
rank 1 of 3: the sum of 1 to 3 is 6
rank 2 of 3: the sum of 1 to 3 is 6' "$(meeting | sort)" 'shared_file, three ranks'
is '' "$(ls | grep meeting)" 'and the file with the secret is gone'
is 1 "$(HOOP_SOCKET_IFNAME=lo python shared_file.py meeting 0 -1 2>err; echo $?)" 'a rank 0 that cannot join ends with 1'
is '' "$(ls | grep meeting)" 'and leaves no file either'

if with=$(python_with numpy); then
    for n in 1 3; do
        like '^3 lines, error 0\.00009[0-9], deviation 0\.00[0-9]*, True$' "$(HOOP_TEST_PYTHON=$with ranks $n numpy_regression.py | awk '
            /mean squared error/ { error = $NF } /deviation/ { deviation = $NF } /bit-identical/ { same = $NF }
            END { print NR " lines, error " error ", deviation " deviation ", " same }')" "numpy_regression, $n ranks"
    done
else
    skip 2 'there is no numpy: install python3-numpy, or let HOOP_TEST_PYTHON name a Python that has it'
fi

# In place of the package: its results are wrong.
mkdir wrong
cat >wrong/hoop.py <<'END'
import asyncio
class Comm:
    rank, size = 0, 1
    __enter__ = lambda self: self
    __exit__ = lambda self, *error: None
    def allreduce(self, x): pass
    def allgather(self, x, out): out[:] = x + 1
    async def iallreduce(self, x, op):
        await asyncio.sleep(0.01)
        return x[1:]
END
wrongly() { (export PYTHONPATH="$tmp/wrong"; python "$1"; echo "status $?"); }
is 'rank 0 of 1: 4 averages are wrong
status 1' "$(wrongly asyncio_overlap.py)" 'asyncio_overlap fails if a result is wrong'
if [ "$with" ]; then
    like 'bit-identical on all ranks: False status 1 $' \
        "$(HOOP_TEST_PYTHON=$with wrongly numpy_regression.py | tr '\n' ' ')" 'numpy_regression likewise'
else
    skip 1 'there is no numpy'
fi

hooprun_of_python() { PATH="$1" "$HOOP_TEST_PYTHON" -m hoop.run --version 2>&1; }
HOOP_TEST_PYTHON=$("$HOOP_TEST_PYTHON" -c 'import sys; print(sys.executable)')
like '^hooprun \(hoop\) ' "$(hooprun_of_python "$abs_top_builddir/bin:$PATH")" 'python -m hoop.run is the hooprun in PATH'
is 'hoop: there is no hooprun beside this package or in PATH: install hoop, or put its folder into PATH' \
    "$(hooprun_of_python "$tmp")" 'or says that there is none'
printf '#!%s\nfrom hoop.run import hooprun\nhooprun()\n' "$HOOP_TEST_PYTHON" >hooprun
chmod +x hooprun
like 'there is no hooprun beside this package' "$(timeout 20 env PATH="$tmp" ./hooprun 2>&1)" \
    'a script of that name which pip has made does not start itself'
done_testing
