#!/bin/sh
# SPDX-License-Identifier: MIT
# hooprun over four network namespaces that a bridge joins, with `ip netns exec` as the remote shell: placement, addresses,
# a ring of real connections, a host that is lost.
# time limit: 180
. "$abs_top_srcdir/t/tap/tap.sh"
. "$abs_top_srcdir/t/tools/netns.sh"
hooprun=$abs_top_builddir/bin/hooprun
unset HOOP_HOSTFILE HOOP_RSH HOOP_SOCKET_IFNAME SSH_CONNECTION
netns_hosts hr 200
plan_lazy

run()
{
    timeout 60 "$hooprun" --rsh 'ip netns exec' "$@" >out 2>err </dev/null
    status=$?
}
run -f hosts sh -c 'echo $HOOP_RANK $HOOP_LOCAL_RANK ${HOOP_RENDEZVOUS%:*} $MASTER_ADDR $HOOP_SOCKET_IFNAME $(ip -o -4 addr show eth0 |
    sed "s/.*inet \([0-9.]*\).*/\1/")'
is 0 "$status" 'eight ranks in four namespaces'
diag "$(cat err)"
want=$(for r in 0 1 2 3 4 5 6 7; do
    echo "$r $((r % 2)) $net.254 $net.1 $net.$((r / 2 + 1))/32 $net.$((r / 2 + 1))"
done)
is "$want" "$(sort out)" 'each in its own, with the addresses of the hostfile'
run -f hosts -N 1 sh -c 'exec 4<>/dev/null; command -v bash >/dev/null || exit 0
    exec bash -c "exec 5<>/dev/tcp/${HOOP_RENDEZVOUS%:*}/${HOOP_RENDEZVOUS##*:} && echo reached"'
if command -v bash >/dev/null; then
    is 4 "$(grep -c reached out)" 'the server can be reached from every namespace'
else
    skip 1 'bash is not installed'
fi
run -f hosts sh -c '[ $HOOP_RANK != 5 ] || exit 9; sleep 60'
is 9 "$status" 'a rank fails'
like "rank 5 \\($id-3, pid [0-9]+, sh\\) exited with status 9" "$(cat err)" 'on the host named'
run -H "$id-1,$id-9" true
is 1 "$status" 'a namespace that is not there'
like "^hooprun: cannot start on $id-9: .ip netns exec $id-9 .*/hoop-launch --agent. ended with status" "$(cat err)" 'said'
like "^$id-9\\| Cannot open network namespace" "$(cat err)" "in ip's own words"

# Where any address can be bound, as with keepalived, another host's is still another host's.
ip netns exec "$id-1" sh -c 'echo 1 >/proc/sys/net/ipv4/ip_nonlocal_bind && exec "$@"' sh \
    "$hooprun" --rsh 'ip netns exec' --dry-run -H "$net.1:1,$net.2:1" true >out 2>err </dev/null ||
    bail "ip_nonlocal_bind cannot be set: $(cat err)"
like "$net.2 +rank 1.*by: ip netns exec $net.2 " "$(cat out)" 'an address of another host, with ip_nonlocal_bind'
nok '... and our own is here' grep -q "ip netns exec $net.1" out

# hooprun itself in a namespace, without a route to anywhere: no name resolves, and loopback leads to no other host.
alone()
{
    timeout 60 ip netns exec "$id-1" "$hooprun" --rsh 'ip netns exec' -H "$id-2,$id-3" sh -c 'echo ${HOOP_RENDEZVOUS%:*}' >out 2>err </dev/null
    status=$?
}
alone
is "$net.1 $net.1" "$(echo $(cat out))" 'no route: the server listens on the only interface'
like "^hooprun: there is no route to $id-[23]; the rendezvous server listens on the only interface, eth0 \\($net.1\\)\$" "$(cat err)" 'said'
ip -n "$id-1" link add spare0 type veth peer name spare1
ip -n "$id-1" addr add 192.168.77.1/24 dev spare0
ip -n "$id-1" link set spare1 up
ip -n "$id-1" link set spare0 up
alone
is 2 "$status" 'two interfaces: status 2'
like "^hooprun: cannot open the rendezvous server: found no address of this machine that $id-[23] can reach; set HOOP_SOCKET_IFNAME" \
    "$(cat err)" 'said at once'
HOOP_SOCKET_IFNAME=$net.0/24
export HOOP_SOCKET_IFNAME
alone
is "$net.1 $net.1" "$(echo $(cat out))" 'HOOP_SOCKET_IFNAME chooses one'
unset HOOP_SOCKET_IFNAME
ip -n "$id-1" link del spare0

# Hosts that reach the server, and not each other: a firewall that drops packets does the same.
hello=$abs_top_builddir/examples/hello
if [ -x "$hello" ]; then
    ip -n "$id-2" neigh add "$net.3" lladdr 02:00:00:00:00:99 dev eth0 nud permanent
    HOOP_BOOTSTRAP_TIMEOUT_MS=12000 run -f hosts -N 1 "$hello"
    ip -n "$id-2" neigh del "$net.3" dev eth0
    is 1 "$status" 'two hosts do not reach each other'
    like "^hooprun: job [0-9a-f]{8}: all 4 ranks are here, but after [0-9.]+ s the connections of ranks 1-2 are not up: can the hosts reach" \
        "$(head -n 1 err)" 'after five seconds it is said whose connections are missing'
    diag "$(cat err)"
else
    skip 2 'examples/hello is not built'
fi

# A launcher that is killed leaves nothing in any namespace.
: >pids
ready() { [ "$(wc -l <pids)" -ge 8 ]; }
empty() { [ -z "$(for i in 1 2 3 4; do ip netns pids "$id-$i"; done)" ]; }
start "$hooprun" --rsh 'ip netns exec' -f hosts sh -c 'echo $$ >>pids; trap "" TERM; while :; do sleep 0.2; done' >out 2>err </dev/null
await ready
kill -KILL "$started"
wait "$started" 2>/dev/null
ok 'launcher killed: five seconds later no process is left in any namespace' await empty

# A whole program of hoop, where it has been built.
if [ -x "$hello" ]; then
    run -f hosts "$hello"
    is 0 "$status" "a ring over four namespaces: examples/hello"
    [ "$status" = 0 ] || diag "$(cat out err)"
else
    skip 1 'examples/hello is not built'
fi
done_testing
