#!/bin/sh
# SPDX-License-Identifier: MIT
# The package and hoop.h say the same, and a library that does not fit gets one sentence.
# time limit: 60
. "$abs_top_srcdir/t/tap/tap.sh"
. "$abs_top_srcdir/t/python/python.sh"
plan_lazy

ok 'numbers, structs, prototypes and version are those of hoop.h' python library.py

import() { "$HOOP_TEST_PYTHON" -c 'import hoop; print(hoop.HoopError.__name__)' 2>&1 | tail -n 1; }
is HoopError "$(import)" 'the library of HOOP_LIBRARY is loaded'
is 'no library yet' "$(HOOP_LIBRARY=/nowhere "$HOOP_TEST_PYTHON" -c 'import hoop; print("no library yet")')" \
    'importing the package alone loads none'
like '^ImportError: the package hoop found no libhoop .*HOOP_LIBRARY$' "$(HOOP_LIBRARY=/nowhere import)" 'no library'

# Libraries that have every function, and lack one; both say that they are version 0.0.9.
python library.py --stub >"$tmp/old.c"
${CC:-cc} -shared -fPIC -o "$tmp/old.so" "$tmp/old.c" && ${CC:-cc} -shared -fPIC -DLACKS -o "$tmp/lacks.so" "$tmp/old.c" ||
    bail 'cannot make a library'
like 'old.so is version 0.0.9, and the package hoop [0-9.]* needs at least that version' "$(HOOP_LIBRARY=$tmp/old.so import)" \
    'an older library'
like 'lacks.so has no hoop_iallreduce_with: the package hoop [0-9.]* needs' "$(HOOP_LIBRARY=$tmp/lacks.so import)" \
    'a library that lacks a function'

if "$HOOP_TEST_PYTHON" -c 'import mypy' 2>/dev/null; then
    ok 'mypy --strict' sh -c 'cd "$1" && "$2" -m mypy --strict --cache-dir="$3" hoop' sh \
        "$abs_top_srcdir/python" "$HOOP_TEST_PYTHON" "$tmp/cache"
    for name in $("$HOOP_TEST_PYTHON" -c 'import hoop; print(*hoop.__all__, "__version__", "Com")'); do
        echo "hoop.$name"
    done | sed '1i import hoop' >"$tmp/names.py"
    like '^names.py:[0-9]*: error: Module has no attribute "Com"[^:]*Found 1 error' "$(cd "$tmp" && MYPYPATH="$abs_top_srcdir/python" \
        "$HOOP_TEST_PYTHON" -m mypy --no-pretty --cache-dir="$tmp/cache" names.py | tr '\n' ' ')" '... which knows each name, and no other'
else
    skip 2 'there is no mypy: HOOP_TEST_PYTHON names a Python that has it'
fi

cp "$HOOP_LIBRARY" "$tmp/another.so"
ok 'two copies in one process do not meet' python two_copies.py "$tmp/another.so"
done_testing
