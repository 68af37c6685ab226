#!/bin/sh
# SPDX-License-Identifier: MIT
# make install, then programs outside the tree that know nothing but pkg-config: a small one, shared and static, and
# hoop-bench, from a copy of its own sources.
# time limit: 300
. "$abs_top_srcdir/t/tap/tap.sh"
: "${PKG_CONFIG:=pkg-config}" "${CC:=cc}"
plan 15
unset MAKEFLAGS MFLAGS MAKELEVEL LD_LIBRARY_PATH

install() { ${MAKE:-make} -C "$abs_top_builddir" install DESTDIR="$tmp/root"; }
ok 'make install DESTDIR' install
pc=$(find "$tmp/root" -name hoop.pc)
prefix=$tmp/root$(sed -n 's/^prefix=//p' "$pc")
export PKG_CONFIG_PATH="${pc%/*}${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
hoop() { $PKG_CONFIG --define-variable=prefix="$prefix" "$@" hoop; }

is "$(sed -n 's/.*define HOOP_VERSION_M[AI][JN]OR //p; s/.*define HOOP_VERSION_PATCH //p' "$abs_top_srcdir/include/hoop.h" | paste -sd. -)" \
    "$(hoop --modversion)" 'pkg-config and hoop.h tell one version'
for program in hooprun hoop-launch hoop-rendezvous hoop-bench hoop-top; do
    ok "$program is installed" test -x "$prefix/bin/$program"
done
ok 'manual pages are installed' test -e "$prefix/share/man/man7/hoop.7"

cat >"$tmp/x.c" <<'END'
#include <hoop.h>
#include <string.h>

int
main(void)
{
    hoop_comm *comm;
    float x[3] = {1, 2, 3};
    if (strcmp(hoop_version(), "0.1.0") != 0 || hoop_comm_create(&comm, NULL) != HOOP_SUCCESS)
        return 1;
    if (hoop_allreduce(x, x, 3, HOOP_FLOAT32, HOOP_SUM, comm) != HOOP_SUCCESS || x[2] != 3)
        return 2;
    return hoop_comm_destroy(comm) != HOOP_SUCCESS;
}
END
library=$(hoop --variable=libdir)
if [ -e "$library/libhoop.so" ]; then
    ok 'a program builds with the shared library' $CC "$tmp/x.c" -o "$tmp/shared" $(hoop --cflags --libs)
    ok 'and runs: a ring of one' env LD_LIBRARY_PATH="$library" "$tmp/shared"
    mkdir -p "$tmp/outside/base" "$tmp/outside/bin"
    cp -r "$abs_top_srcdir/perf" "$tmp/outside"
    cp "$abs_top_srcdir/base/json.c" "$abs_top_srcdir/base/json.h" "$abs_top_srcdir"/base/number.[ch] "$abs_top_srcdir"/base/option.[ch] "$tmp/outside/base"
    cp "$abs_top_srcdir/bin/hoop-bench.c" "$tmp/outside/bin"
    bench() { (cd "$tmp/outside" && $CC -D_GNU_SOURCE -I. perf/*.c base/*.c bin/hoop-bench.c -o bench $(hoop --cflags --libs) -ldl -lm); }
    ok 'hoop-bench builds from its own sources' bench
    ok 'and runs: one size, checked, with its JSON' env LD_LIBRARY_PATH="$library" "$tmp/outside/bench" -b 64 -e 64 -n 1 -J "$tmp/x.json"
else
    skip 4 'no shared library in this tree: configure without --disable-shared'
fi
if [ -e "$library/libhoop.a" ]; then
    hoop --static --libs | tr ' ' '\n' | grep . >"$tmp/words"
    is '' "$($PKG_CONFIG --static --libs libevent_core libcrypto | tr ' ' '\n' | grep . | grep -vxFf "$tmp/words")" \
        'hoop.pc names what the static libraries of others need'
    rm -f "$library"/libhoop.so*
    ok 'a program builds with the static library' $CC "$tmp/x.c" -o "$tmp/static" $(hoop --static --cflags --libs)
    ok 'and runs: a ring of one' "$tmp/static"
else
    skip 3 'no static library in this tree: configure without --disable-static'
fi
done_testing
