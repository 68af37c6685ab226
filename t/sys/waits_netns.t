#!/bin/sh
# SPDX-License-Identifier: MIT
# Short waits where packets travel between hosts: eight ranks in four network namespaces that a bridge joins. What is
# waited for, and how, is waits.c's.
# time limit: 180
. "$abs_top_srcdir/t/tap/tap.sh"
. "$abs_top_srcdir/t/tools/netns.sh"
hooprun=$abs_top_builddir/bin/hooprun
waits=$abs_top_builddir/t/sys/waits.t
unset HOOP_HOSTFILE HOOP_RSH HOOP_SOCKET_IFNAME SSH_CONNECTION
[ -x "$waits" ] || skip_all 't/sys/waits.t is not built'
netns_hosts hw 150
plan 3

for n in 8 4 3; do
    timeout 100 "$hooprun" --rsh 'ip netns exec' -f hosts -n $n "$waits" rank >out 2>err </dev/null
    is 0 $? "$n ranks, every way to wait, every shape"
    [ ! -s err ] || diag "$(head -20 err)"
done
