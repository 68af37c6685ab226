#!/bin/sh
# SPDX-License-Identifier: MIT
# The Debian packages: built from a copy of the sources, without a complaint of lintian, installed in a Debian 12 that has
# nothing else, which debootstrap makes from where apt is configured to download; there they run three ranks, Python's too.
# As root only, and with HOOP_TEST_DOWNLOAD.
# time limit: 900
. "$abs_top_srcdir/t/tap/tap.sh"
[ -n "${HOOP_TEST_DOWNLOAD:-}" ] || skip_all 'HOOP_TEST_DOWNLOAD is not set, and this test downloads a Debian system'
[ "${HOOP_TEST_PACKAGES:-}" != none ] || skip_all 'HOOP_TEST_PACKAGES=none; quickstart check packages runs it'
[ "${HOOP_TEST_SANITIZE:-no}" = no ] || skip_all 'another tree runs it'
[ "$(id -u)" -eq 0 ] || skip_all 'only root can install a system into a folder'
PATH=/usr/sbin:/usr/bin:/sbin:/bin
for tool in debootstrap dpkg-buildpackage dh lintian pybuild git; do
    command -v $tool >/dev/null || skip_all "there is no $tool: install debootstrap dpkg-dev debhelper lintian dh-python git"
done
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Codename: bookworm' | head -n 1)
[ -n "$mirror" ] || skip_all 'apt knows no archive of Debian 12'
unset MAKEFLAGS MFLAGS MAKELEVEL CC CFLAGS TMPDIR HOOP_LIBRARY
plan_lazy
cd "$tmp" || bail 'no scratch folder'
export HOME="$tmp"

debootstrap --variant=minbase bookworm "$tmp/system" "$mirror" >"$tmp/debootstrap.log" 2>&1 &
system=$!
mkdir sources
(cd "$abs_top_srcdir" && git -c safe.directory='*' ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$tmp/sources") 2>copy.log ||
    skip_all "the sources are no clone of git: $(tail -n 1 copy.log)"
build() { (cd sources && dpkg-checkbuilddeps && dpkg-buildpackage -us -uc -b -j2) >build.log 2>&1; }
build || diag "$(grep -E 'rror|Unmet' build.log | tail -n 5)"
is 'hoop libhoop-dev libhoop0 python3-hoop' "$(ls -- *.deb | sed 's/_.*//; /dbgsym/d' | paste -sd ' ')" 'the packages'
is '' "$(lintian --allow-root hoop_*.changes 2>&1)" 'lintian has nothing to say'
wait $system || skip_all "debootstrap: $(tail -n 1 debootstrap.log)"
rm -- *dbgsym*.deb
cp -- *.deb system/root
# The mount of /proc ends with this shell.
inside() { unshare --mount sh -c 'mount --bind /proc system/proc; exec chroot system "$@"' sh env -i PATH="$PATH" HOME=/root "$@"; }
ok 'they install with what they need' inside sh -c 'apt-get update -q && apt-get install -q -y --no-install-recommends /root/*.deb'
like '^# Out of bounds values : 0 OK' "$(inside hooprun -n 3 hoop-bench -b 4K -e 4K -n 1 2>&1)" 'three ranks'
cat >system/root/sum.py <<'END'
import array, hoop
with hoop.Comm() as comm:
    print(comm.allreduce(array.array("i", [comm.rank + 1]))[0])
END
is '6 6 6' "$(inside hooprun -n 3 python3 /root/sum.py 2>&1 | paste -sd ' ')" 'three ranks of Python'
like '^hoop-rendezvous ' "$(inside hoop-rendezvous --version)" 'hoop-rendezvous'
done_testing
