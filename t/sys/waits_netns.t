#!/bin/sh
# SPDX-License-Identifier: MIT
# Short waits where packets travel between hosts: eight ranks in four network namespaces that a bridge joins. What is
# waited for, and how, is waits.c's.
# time limit: 180
. "$abs_top_srcdir/t/tap/tap.sh"
hooprun=$abs_top_builddir/bin/hooprun
waits=$abs_top_builddir/t/sys/waits.t
unset HOOP_HOSTFILE HOOP_RSH HOOP_SOCKET_IFNAME SSH_CONNECTION
[ "$(id -u)" = 0 ] || skip_all 'network namespaces need root'
command -v ip >/dev/null || skip_all 'iproute2 is not installed'
[ -x "$waits" ] || skip_all 't/sys/waits.t is not built'

id=hw$$
bridge=${id}b
net=10.$((150 + $$ % 50)).$(($$ / 50 % 250))
clean()
{
    for i in 1 2 3 4; do
        ip link del "${id}v$i" 2>/dev/null
        ip netns del "$id-$i" 2>/dev/null
    done
    ip link del "$bridge" 2>/dev/null
}
trap 'clean; tap_cleanup' 0
ip netns add "$id-1" 2>/dev/null || skip_all 'network namespaces are not permitted here'
ip netns exec "$id-1" true 2>/dev/null || skip_all 'network namespaces cannot be entered here'
ip link add "$bridge" type bridge 2>/dev/null || skip_all 'bridges are not permitted here'
ip addr add "$net.254/24" dev "$bridge" && ip link set "$bridge" up || bail 'no bridge'
cd "$tmp" || bail "no $tmp"
for i in 1 2 3 4; do
    [ "$i" = 1 ] || ip netns add "$id-$i"
    ip link add "${id}v$i" type veth peer name eth0 netns "$id-$i"
    ip link set "${id}v$i" master "$bridge" up
    ip -n "$id-$i" addr add "$net.$i/24" dev eth0
    ip -n "$id-$i" link set eth0 up
    ip -n "$id-$i" link set lo up
    echo "$id-$i slots=2 addr=$net.$i" >>hosts
done
plan 3

for n in 8 4 3; do
    timeout 100 "$hooprun" --rsh 'ip netns exec' -f hosts -n $n "$waits" rank >out 2>err </dev/null
    is 0 $? "$n ranks, every way to wait, every shape"
    [ ! -s err ] || diag "$(head -20 err)"
done
