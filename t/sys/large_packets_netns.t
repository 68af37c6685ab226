#!/bin/sh
# SPDX-License-Identifier: MIT
# large_packets_netns.t: two hosts with an MTU of 9000 bytes, and a cable of 1500 between their switches, which drop what is
# larger without a word: the rank that sends names the size of packets. A host is a network namespace.
# time limit: 180
. "$abs_top_srcdir/t/tap/tap.sh"
. "$abs_top_srcdir/t/tools/netns.sh"
unset HOOP_SOCKET_IFNAME HOOP_RENDEZVOUS HOOP_ADVERTISE HOOP_JOIN_HOST HOOP_SECRET_FILE XDG_CONFIG_HOME
netns_need_root
command -v ip >/dev/null || skip_all 'ip is not installed (apt-get install iproute2)'
id=lp$$
netns_clean() { for i in 1 2 hub; do ip netns del "$id-$i" 2>/dev/null; done; }
trap 'netns_clean; tap_cleanup' 0
ip netns add "$id-hub" 2>"$tmp/why" && ip netns exec "$id-hub" true 2>"$tmp/why" ||
    skip_all "this machine permits no network namespaces: $(cat "$tmp/why")"
cd "$tmp" || bail "no $tmp"
mkdir -m 700 runtime home home/.config home/.config/hoop
export HOME="$tmp/home" XDG_RUNTIME_DIR="$tmp/runtime" HOOP_CONF_FILE= HOOP_OP_TIMEOUT_MS=60000
"$abs_top_builddir/bin/hoop-rendezvous" --new-secret home/.config/hoop/secret || bail 'no secret'
plan 3

# Packets leave as they are on the wire (gso_max_segs): a switch judges a train of segments by the size of one.
for i in 1 2; do
    ip netns add "$id-$i"
    ip -n "$id-$i" link set lo up
    ip -n "$id-hub" link add switch$i type bridge
    ip -n "$id-$i" link add eth0 mtu 9000 type veth peer name host$i netns "$id-hub"
    ip -n "$id-hub" link set host$i mtu 9000 master switch$i up
    ip -n "$id-$i" link set eth0 mtu 9000 gso_max_segs 1 up
    ip -n "$id-$i" addr add 10.4.0.$i/24 dev eth0
done
ip -n "$id-hub" link add trunk1 type veth peer name trunk2
for i in 1 2; do
    ip -n "$id-hub" link set trunk$i mtu 1500 master switch$i up
    ip -n "$id-hub" link set switch$i up
done
for r in 0 1; do
    start env HOOP_HOSTID="$id-$r" ip netns exec "$id-$((r + 1))" env RANK=$r WORLD_SIZE=2 MASTER_ADDR=10.4.0.1 MASTER_PORT=29500 \
        "$abs_top_builddir/bin/hoop-bench" -b 1M -e 1M -n 1 -w 0 -c 0 >"rank$r" 2>&1 </dev/null
    eval "pid$r=\$started"
done
said() { grep -q 'do packets of 8[0-9]* bytes get lost' rank0 rank1; }
wait_for $((60 * ${HOOP_TEST_TIME_FACTOR:-1})) said
like 'WARN rank [01] \(.*\) has heard no acknowledgement of what it sends to rank [01] \(.*\) for 10 s .*do packets of 8[0-9]* bytes get lost between these two hosts\? Compare the MTU' \
    "$(cat rank0 rank1)" 'the rank that sends names the size of packets'
for i in 1 2; do ip -n "$id-hub" link set trunk$i mtu 9000; done
ended() { gone "$pid0" && gone "$pid1"; }
wait_for $((60 * ${HOOP_TEST_TIME_FACTOR:-1})) ended
like '1048576 .*float' "$(cat rank0)" 'the job goes on once the cable takes them' || diag "$(cat rank0 rank1)"
is '' "$(sort rank0 rank1 | grep 'do packets' | sed 's/ .*//' | uniq -d)" 'each rank says it once'
