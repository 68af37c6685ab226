# SPDX-License-Identifier: MIT
# netns.sh: four hosts on this machine, for tests of hooprun in sh: network namespaces that a bridge joins. Read it behind
# tap.sh; `ip netns exec` is the remote shell. Without root rights the test runs once more in a user namespace, in which
# it has them.
#
#     netns_hosts PREFIX SUBNET    makes them; PREFIX begins their names, 10.SUBNET to 10.(SUBNET + 49) are the networks
#                                  to choose from. Sets id, bridge and net: host i is $id-i with the address $net.i and
#                                  two slots in the file "hosts"; the bridge has $net.254. They go when the test ends.
#                                  In a scene they are the scene's own, if the test has called netns_permitted before.
#     $netns_exec HOST COMMAND...  a remote shell, too. There the host has its name, and ranks a host id of their own.
#     netns_pull I, netns_plug I   pulls the cable of host I out of the switch, and puts it back
#     netns_lose I, netns_find I   the same, but somewhere behind the switch: no end of the cable shows it
#     netns_deafen I, netns_heal I packets to host I go astray, those from it arrive; and that is over
#     netns_part I J               those from I to J go astray
#     netns_forget I J             packets of the connections that hosts I and J have now go astray, those of new ones arrive;
#                                  once for each host
#     netns_mute I, netns_unmute I packets from host I go astray, those to it arrive; and that is over
#     netns_shells                 remote shells over TCP, which a pulled cable cuts: $netns_shell HOST COMMAND...

netns_clean()
{
    for i in 1 2 3 4; do
        ip link del "${id}v$i" 2>/dev/null
        ip netns del "$id-$i" 2>/dev/null
    done
    ip link del "$bridge" 2>/dev/null
}

netns_need_root()
{
    [ "$(id -u)" != 0 ] || return 0
    unshare --user --map-root-user --net --mount sh -c 'mount -t tmpfs tmpfs /run' 2>/dev/null ||
        skip_all 'network namespaces need root, or user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone)'
    tap_cleanup
    exec unshare --user --map-root-user --net --mount \
        sh -c 'mount -t tmpfs tmpfs /run && ip link set lo up && exec "$0"' "$0"
}

netns_permitted()
{
    netns_need_root
    command -v ip >/dev/null || skip_all 'ip is not installed (apt-get install iproute2)'
    try=hn$tap_pid
    ip netns add "$try" 2>"$tmp/why" && ip netns exec "$try" true 2>"$tmp/why" && ip link add "$try" type bridge 2>"$tmp/why"
    permitted=$?
    ip link del "$try" 2>/dev/null
    ip netns del "$try" 2>/dev/null
    [ $permitted -eq 0 ] ||
        skip_all "this machine permits no network namespaces or bridges (a container? run the test outside): $(cat "$tmp/why")"
}

netns_hosts()
{
    netns_permitted
    id=$1$tap_pid
    bridge=${id}b
    net=10.$(($2 + tap_pid % 50)).$((tap_pid / 50 % 250))
    trap 'netns_clean; tap_cleanup' 0
    ip netns add "$id-1" && ip link add "$bridge" type bridge || bail 'no bridge'
    ip addr add "$net.254/24" dev "$bridge" && ip link set "$bridge" up || bail 'no bridge'
    cd "$tmp" || bail "no $tmp"
    netns_exec=$tmp/netns_exec
    cat >"$netns_exec" <<'END'
#!/bin/sh
host=$1
shift
HOOP_HOSTID=$host exec ip netns exec "$host" unshare --uts sh -c 'echo "$0" >/proc/sys/kernel/hostname && exec "$@"' "$host" "$@"
END
    chmod +x "$netns_exec"
    for i in 1 2 3 4; do
        [ "$i" = 1 ] || ip netns add "$id-$i"
        ip link add "${id}v$i" type veth peer name eth0 netns "$id-$i"
        ip link set "${id}v$i" master "$bridge" up
        ip -n "$id-$i" addr add "$net.$i/24" dev eth0
        ip -n "$id-$i" link set eth0 up
        ip -n "$id-$i" link set lo up
        echo "$id-$i slots=2 addr=$net.$i" >>hosts
    done
}

netns_pull() { ip link set "${id}v$1" down; }
netns_plug() { ip link set "${id}v$1" up; }

netns_lose() { ip link set "${id}v$1" nomaster; }
netns_find() { ip link set "${id}v$1" master "$bridge"; }

# They are sent to a hardware address that no host has.
netns_part() { ip -n "$id-$1" neigh replace "$net.$2" lladdr 02:00:00:00:00:fe dev eth0 nud permanent; }

# A rule of the routes for what comes in looks at the ports, before the rule of local addresses does. One command for each
# host: a cable may be out meanwhile, and beside other work a script gets on slowly.
netns_forget()
{
    ip netns exec "$id-$1" cat /proc/net/tcp | awk -v to="$2" '
        function hex(text, i, n) { for (i = 1; i <= length(text); i++) n = 16 * n + index("123456789ABCDEF", substr(text, i, 1)); return n }
        $4 == "01" {
            split($2, mine, ":"); split($3, other, ":")
            if (hex(substr(other[1], 1, 2)) == to) print hex(mine[2]), hex(other[2])
        }' >"connections-$1-$2"
    netns_blackhole "$2" '"sport " $2 " dport " $1' <"connections-$1-$2" | ip -n "$id-$1" -batch - || bail 'no rules'
    netns_blackhole "$1" '"sport " $1 " dport " $2' <"connections-$1-$2" | ip -n "$id-$2" -batch - || bail 'no rules'
}
netns_blackhole()
{
    awk -v from="$net.$1" 'BEGIN { print "rule add pref 100 lookup local\nrule del pref 0" }
        { print "rule add pref 50 iif eth0 from " from " ipproto tcp " '"$2"' " blackhole" }'
}

netns_deafen()
{
    for i in 1 2 3 4; do
        [ "$i" = "$1" ] || netns_part "$i" "$1"
    done
    ip neigh replace "$net.$1" lladdr 02:00:00:00:00:fe dev "$bridge" nud permanent
}

netns_mute()
{
    for i in 1 2 3 4 254; do
        [ "$i" = "$1" ] || netns_part "$1" "$i"
    done
}

netns_unmute()
{
    for i in 1 2 3 4 254; do
        [ "$i" = "$1" ] || ip -n "$id-$1" neigh del "$net.$i" dev eth0
    done
}

netns_heal()
{
    for i in 1 2 3 4; do
        [ "$i" = "$1" ] || ip -n "$id-$i" neigh del "$net.$1" dev eth0 2>/dev/null
    done
    ip neigh del "$net.$1" dev "$bridge" 2>/dev/null
}

# What a command starts on a host gets TERM when the test ends. What it says on standard error is in the file host-I.err.
netns_shells()
{
    netns_shell=$tmp/netns_shell
    cat >"$netns_shell" <<END
#!/bin/sh
host=\$1
shift
exec "$abs_top_builddir/t/sys/far_shell" call "$net.\${host##*-}" 5022 "\$@"
END
    chmod +x "$netns_shell"
    for i in 1 2 3 4; do
        start "$netns_exec" "$id-$i" "$abs_top_builddir/t/sys/far_shell" serve 5022 >"host-$i.out" 2>"host-$i.err" </dev/null
    done
    netns_shells_listen() { [ "$(cat host-[1-4].out | grep -c listening)" = 4 ]; }
    await netns_shells_listen || diag "no shells: $(cat host-[1-4].err)"
}
