#!/bin/sh
# SPDX-License-Identifier: MIT
# address_netns.t: two hosts whose right address is not the obvious one, without any setting: ranks that meet through the
# store of a PyTorch group, under torchrun's variables, and under hooprun. A host is a network namespace.
# time limit: 400
. "$abs_top_srcdir/t/tap/tap.sh"
. "$abs_top_srcdir/t/tools/netns.sh"
hooprun=$abs_top_builddir/bin/hooprun
guest=$abs_top_builddir/t/sys/guest
unset HOOP_HOSTFILE HOOP_RSH HOOP_SOCKET_IFNAME HOOP_RENDEZVOUS HOOP_ADVERTISE HOOP_JOIN_HOST HOOP_SECRET_FILE SSH_CONNECTION
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
netns_need_root
command -v ip >/dev/null || skip_all 'ip is not installed (apt-get install iproute2)'
id=ad$$
netns_clean() { for i in 1 2 3 hub nat1 nat2; do ip netns del "$id-$i" 2>/dev/null; done; }
trap 'netns_clean; tap_cleanup' 0
ip netns add "$id-1" 2>"$tmp/why" && ip netns exec "$id-1" true 2>"$tmp/why" ||
    skip_all "this machine permits no network namespaces: $(cat "$tmp/why")"
cd "$tmp" || bail "no $tmp"
mkdir -m 700 runtime home home/.config home/.config/hoop
export HOME="$tmp/home" XDG_RUNTIME_DIR="$tmp/runtime" HOOP_CONF_FILE= HOOP_BOOTSTRAP_TIMEOUT_MS=$((20000 * ${HOOP_TEST_TIME_FACTOR:-1}))
unset XDG_CONFIG_HOME
"$abs_top_builddir/bin/hoop-rendezvous" --new-secret home/.config/hoop/secret || bail 'no secret'
library=$abs_top_builddir/.libs/libhoop.so.0
python=
! python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || [ ! -e "$library" ] ||
    [ "${HOOP_TEST_SANITIZE:-no}" != no ] || python=python3

# on HOST COMMAND...: there the host has its name and an id of its own; its /etc/hosts is the file hosts.HOST, if that is there.
cat >on <<'END'
#!/bin/sh
i=$1
shift
HOOP_HOSTID=$id-$i exec ip netns exec "$id-$i" unshare --uts --mount sh -c 'echo "host$0" >/proc/sys/kernel/hostname
    [ ! -e "hosts.$0" ] || mount --bind "hosts.$0" /etc/hosts
    exec "$@"' "$i" "$@"
END
# A remote shell: 10.2.0.3 is the third host; whatever else a host is called, it is the second one.
printf '#!/bin/sh\ni=2\n[ "$1" != 10.2.0.3 ] || i=3\nshift\nexec "%s/on" $i sh -c "$*"\n' "$tmp" >far
chmod +x on far
export id

# A picture begins with two bare hosts, or $world. cable NAME: between two; switch NAME: between all; alone NAME ADDRESS [bridge]: the same interface on each,
# which leads to no other host; give HOST NAME ADDRESS...
picture()
{
    netns_clean
    rm -f hosts.[12]
    for i in $(seq "$world"); do ip netns add "$id-$i" && ip -n "$id-$i" link set lo up; done
}
cable()
{
    ip -n "$id-1" link add "$1" type veth peer name "$1" netns "$id-2"
    for i in 1 2; do ip -n "$id-$i" link set "$1" up; done
}
switch()
{
    ip -n "$id-hub" link add "$1" type bridge && ip -n "$id-hub" link set "$1" up
    for i in $(seq "$world"); do
        ip -n "$id-$i" link add "$1" type veth peer name "$1-$i" netns "$id-hub"
        ip -n "$id-hub" link set "$1-$i" master "$1" up
        ip -n "$id-$i" link set "$1" up
    done
}
alone()
{
    for i in 1 2; do
        ip -n "$id-$i" link add "$1-a" type veth peer name "$1-b"
        if [ "${3:-}" = bridge ]; then
            ip -n "$id-$i" link add "$1" type bridge && ip -n "$id-$i" link set "$1-a" master "$1"
        else
            ip -n "$id-$i" link set "$1-a" name "$1"
        fi
        for part in "$1" "$1-a" "$1-b"; do ip -n "$id-$i" link set "$part" up 2>/dev/null; done
        ip -n "$id-$i" addr add "$2" dev "$1"
    done
}
give()
{
    host=$1 name=$2
    shift 2
    for address; do
        case $address in *:*) address="$address nodad" ;; esac
        ip -n "$id-$host" addr add $address dev "$name"
    done
}
default() { for i in 1 2; do ip -n "$id-$i" route add default via "$1"; done; }

# Host i is 172.30.0.2 behind a router of its own, which is 10.9.0.i to the others and passes these ports on.
behind_routers()
{
    for i in 1 2; do
        ip netns add "$id-nat$i"
        ip -n "$id-$i" link add eth0 type veth peer name inside netns "$id-nat$i"
        give $i eth0 172.30.0.2/24
        ip -n "$id-$i" link set eth0 up
        give nat$i inside 172.30.0.1/24
        ip -n "$id-nat$i" link set inside up
        ip -n "$id-$i" route add default via 172.30.0.1
    done
    ip -n "$id-nat1" link add outside type veth peer name outside netns "$id-nat2"
    for i in 1 2; do
        give nat$i outside 10.9.0.$i/24
        ip -n "$id-nat$i" link set outside up
        ip netns exec "$id-nat$i" sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
        ip netns exec "$id-nat$i" nft -f - <<END || return 1
table ip nat {
    chain before { type nat hook prerouting priority -100; iifname "outside" tcp dport { $1 } dnat to 172.30.0.2; }
    chain after { type nat hook postrouting priority 100; oifname "outside" masquerade; }
}
END
    done
}

ranks()
{
    for r in $(seq 0 $((world - 1))); do
        start ./on $((r + 1)) env ${advertise:+HOOP_ADVERTISE="$advertise$((r + 1))"} RANK=$r WORLD_SIZE=$world "$@" >"rank$r" 2>&1 </dev/null
        eval "pid$r=\$started"
    done
}
ended() { gone "$pid0" && gone "$pid1" && { [ $world -lt 3 ] || gone "$pid2"; }; }
right() { for r in $(seq 0 $((world - 1))); do printf 'rank %d of %d: right;' $r $world; done; }
# met TEXT: all ranks that `ranks` has started end well.
met()
{
    wait_for $((30 * ${HOOP_TEST_TIME_FACTOR:-1})) ended
    is "$(right)" "$(sed -n 's/^\(rank .*: right\).*/\1/p' rank? | tr '\n' ';')" "$1" || diag "$(tail -n 30 rank?)"
}

# by_store HOST TEXT: through the store of a PyTorch group, which is on HOST. With $advertise, here and in ranks, the ranks
# have HOOP_ADVERTISE: that text, and the number of their host.
by_store()
{
    [ -n "$python" ] || { skip 1 'no python3, or no shared library'; return; }
    rm -rf store
    mkdir store
    for r in $(seq 0 $((world - 1))); do
        start ./on $((r + 1)) env ${advertise:+HOOP_ADVERTISE="$advertise$((r + 1))"} HOOP_LIBRARY="$library" \
            PYTHONPATH="$abs_top_srcdir/python" PYTHONDONTWRITEBYTECODE=1 "$python" "$abs_top_srcdir/t/sys/store_rank.py" \
            store "$1" $r $world >"rank$r" 2>&1 </dev/null
        eval "pid$r=\$started"
    done
    met "$2: the store of a PyTorch group"
}

# meets TEXT ADDRESS [FAR]: by all three ways, with the address of the first host; FAR: the others, for hooprun.
meets()
{
    by_store "$2" "$1"
    port=$((port + 40))
    ranks MASTER_ADDR="$2" MASTER_PORT=$port "$guest"
    met "$1: torchrun's variables"
    [ -n "${3:-}" ] || return 0
    ./on 1 timeout 60 "$hooprun" --rsh ./far -H "localhost:1,$3:1" "$guest" >out 2>err </dev/null
    is "$(right)" "$(sed -n 's/^.*\(rank . of .: right\).*/\1/p' out | sort | tr '\n' ';')" "$1: hooprun" ||
        diag "$(cat out err)"
}
port=21000
world=2
plan_lazy

picture
alone eth0 10.0.2.15/24
cable eth1
give 1 eth1 192.168.56.1/24
give 2 eth1 192.168.56.2/24
meets 'one address on every host, no default route' 192.168.56.1 192.168.56.2
default 10.0.2.2
meets 'one address on every host, beside a second network' 192.168.56.1 192.168.56.2

picture
alone docker0 172.17.0.1/16 bridge
alone br-lan 172.30.0.1/16 bridge
cable eth0
give 1 eth0 fd00::1/64
give 2 eth0 fd00::2/64
meets 'bridges with one address everywhere, beside IPv6 alone' fd00::1 '[fd00::2]'

picture
cable eth0
cable eth1
for i in 1 2; do
    give $i eth0 10.1.0.$i/24
    give $i eth1 10.2.0.$i/24
    ip -n "$id-$i" neigh replace 10.1.0.$((3 - i)) lladdr 02:00:00:00:00:fe dev eth0 nud permanent
done
default 10.1.0.9
meets 'two networks, of which one is a black hole' 10.2.0.1 10.2.0.2

printf '127.0.0.1 localhost\n10.2.0.1 host1\n' >hosts.1
printf '127.0.0.1 localhost\n10.1.0.1 host1\n10.2.0.1 host1\n' >hosts.2
port=$((port + 40))
ranks MASTER_ADDR=host1 MASTER_PORT=$port "$guest"
met "a name with two addresses, of which the first is a black hole: torchrun's variables"

picture
cable eth0
give 1 eth0 10.3.0.1/24
give 2 eth0 10.3.0.2/24
printf '127.0.0.1 localhost\n127.0.1.1 host1\n' >hosts.1
printf '127.0.0.1 localhost\n127.0.1.1 host2\n10.3.0.1 host1\n' >hosts.2
meets 'a name that means 127.0.1.1' host1 10.3.0.2
start ./on 1 "$abs_top_builddir/bin/hoop-rendezvous" --host host1 --secret-file home/.config/hoop/secret >lines 2>err
await grep -q 'listening on' lines
like 'host1 is 127.0.1.1 on this host, which others cannot reach' "$(cat err)" '... is warned of by hoop-rendezvous'
stop "$started"

picture
cable tun0
ip -n "$id-1" addr add 10.8.0.1 peer 10.8.0.2/32 dev tun0
ip -n "$id-2" addr add 10.8.0.2 peer 10.8.0.1/32 dev tun0
meets 'a point-to-point address' 10.8.0.1 10.8.0.2

picture
cable eth0
ip -n "$id-1" addr flush dev eth0
ip -n "$id-2" addr flush dev eth0
give 1 eth0 fe80::1/64
give 2 eth0 fe80::2/64
meets 'link-local addresses alone' 'fe80::1%eth0' '[fe80::2%eth0]'
# Rank 1 computes, and rank 0 waits for it in a split: the server, which is with rank 0, looks for rank 1 there.
port=$((port + 40))
ranks MASTER_ADDR='fe80::1%eth0' MASTER_PORT=$port HOOP_PEER_TIMEOUT_MS=6000 HOOP_BOOTSTRAP_TIMEOUT_MS=120000 \
    "$abs_top_builddir/t/sys/outage" split 90 1
both_up() { grep -q '^up$' rank0 && grep -q '^up$' rank1; }
ok 'link-local addresses alone: a job that goes on' await both_up
ip -n "$id-2" link set eth0 down
wait_for 60 gone "$pid0"
like '^6 1 [0-9.]+ rank 1 .* is cut off' "$(grep -E '^[0-9]+ ' rank0)" '... and ends when a host is cut off' || diag "$(cat rank0)"
stop "$pid1"
ip -n "$id-2" link set eth0 up
ip -n "$id-2" addr flush dev eth0
give 2 eth0 fe80::2/64
ip -n "$id-1" link set eth0 down
ip -n "$id-1" link set eth0 name wire0
ip -n "$id-1" link set wire0 up
give 1 wire0 fe80::1/64
./on 1 timeout 60 "$hooprun" --rsh ./far -H 'localhost:1,[fe80::2%wire0]:1' "$guest" >out 2>err </dev/null
is "$(right)" "$(sed -n 's/^.*\(rank . of .: right\).*/\1/p' out | sort | tr '\n' ';')" '... with another name on each host' ||
    diag "$(cat out err)"

# The first host reaches both others on each network, and is reached. Those reach each other on the second one alone, so the
# address that works for the server is a black hole for one link of the ring.
world=3
picture
ip netns add "$id-hub"
switch eth0
switch eth1
for i in 1 2 3; do
    give $i eth0 10.1.0.$i/24
    give $i eth1 10.2.0.$i/24
done
for i in 2 3; do ip -n "$id-$i" neigh replace 10.1.0.$((5 - i)) lladdr 02:00:00:00:00:fe dev eth0 nud permanent; done
export HOOP_DEBUG=info
meets 'a black hole between two of three hosts' 10.1.0.1 10.1.0.2:1,10.2.0.3
like 'rank 2 .host3. is reached at 10\.2\.0\.3:[0-9]*; 10\.1\.0\.3:[0-9]*: no answer to the connection request$' "$(grep 'is reached at' rank1)" 'the rank says where it has found the other one'
unset HOOP_DEBUG
for i in 2 3; do ip -n "$id-$i" neigh replace 10.2.0.$((5 - i)) lladdr 02:00:00:00:00:fe dev eth1 nud permanent; done
port=$((port + 40))
ranks MASTER_ADDR=10.1.0.1 MASTER_PORT=$port HOOP_BOOTSTRAP_TIMEOUT_MS=10000 "$guest"
wait_for $((30 * ${HOOP_TEST_TIME_FACTOR:-1})) ended
like 'no connection to rank 2 .host3.* 10\.1\.0\.3:[0-9]*: no answer to the connection request; 10\.2\.0\.3:[0-9]*: no answer' "$(cat rank1)" 'where both networks are, the start-up line says what each address has answered'
world=2

# With HOOP_ADVERTISE: routers that translate addresses.
picture
if command -v nft >/dev/null && behind_routers 5801-5802,23001-23016 2>why; then
    advertise=10.9.0.
    HOOP_PORT_RANGE=5801-5802 by_store 10.9.0.1 'two routers, and HOOP_ADVERTISE without a port'
    ranks MASTER_ADDR=10.9.0.1 MASTER_PORT=23000 HOOP_PORT_RANGE=5801-5802 "$guest"
    met "two routers: torchrun's variables"
    unset advertise
else
    skip 2 "no nft, or this kernel translates no addresses: $(cat why 2>/dev/null)"
fi
done_testing
