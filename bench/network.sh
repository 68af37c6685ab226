# SPDX-License-Identifier: MIT
# network: the network namespaces of compare's run, and of nobody else. Read by compare. Uses network, congestion, rate,
# spaces (how many hosts), each (ranks on each), scratch; sets made (the namespaces there are), subnet, hosts.

id=hc$$ # our namespaces are called $id-b (the bridge), $id-0 ... $id-3
subnet=10.99.0.
hosts=$(seq "$spaces" | sed "s/.*/$subnet&:$each/" | paste -sd , -)
made=

# A machine may make namespaces and let nobody in: below a chroot that is no mount point, say.
new_space()
{
    ip netns add "$1" || return 1
    ip netns exec "$1" true || { ip netns del "$1"; return 1; }
    made="$made $1"
    ip -n "$1" link set lo up
    [ -z "$congestion" ] || ip netns exec "$1" sysctl -qw net.ipv4.tcp_congestion_control="$congestion" ||
        die "-c $congestion: the kernel has no such congestion control (it has $(cat \
            /proc/sys/net/ipv4/tcp_available_congestion_control))"
}

# A link of our rate in both directions for each host; the shaper's bucket and queue are those of a small switch.
new_network()
{
    shape="root tbf rate $rate burst 128kb limit 1mb"
    new_space "$id-b" || die 'no network namespace can be made here'
    ip -n "$id-b" link add bridge type bridge && ip -n "$id-b" link set bridge up || die 'no bridge can be made here'
    for h in $(seq 0 $((spaces - 1))); do
        new_space "$id-$h"
        ip link add "v$h" netns "$id-b" type veth peer name eth0 netns "$id-$h" || die 'no veth link can be made here'
        ip -n "$id-b" link set "v$h" master bridge up
        ip -n "$id-$h" addr add "$subnet$((h + 1))/24" dev eth0
        ip -n "$id-$h" link set eth0 up
        ip netns exec "$id-$h" tc qdisc add dev eth0 $shape && ip netns exec "$id-b" tc qdisc add dev "v$h" $shape ||
            die "-w $rate: tc refuses it; rates look like 1gbit, 500mbit"
    done
    new_agent
    sleep 1
}

# Stands in for ssh: agent [OPTION...] ADDRESS COMMAND... runs it in that address's namespace, under its own host name.
new_agent()
{
    cat >"$scratch/agent" <<END
#!/bin/sh
while :; do case \$1 in -*) shift ;; *) break ;; esac; done
host=\$((\${1##*.} - 1))
shift
exec ip netns exec "$id-\$host" unshare -u sh -c 'hostname node'\$host'; exec sh -c "\$0"' "\$*"
END
    chmod +x "$scratch/agent"
}

# Loopback of our own: nobody else's packets are on it, and -c changes nobody else's setting. Without it the machine's.
new_loopback()
{
    [ "$(id -u)" = 0 ] || return 0
    new_space "$id-0" 2>/dev/null || [ -z "$congestion" ] || die '-c needs a network namespace, and none can be made here'
}

# The words in front of a command that is to run on host $1.
on_host()
{
    if [ -n "$network" ]; then
        echo "ip netns exec $id-$1"
    elif [ -n "$made" ]; then
        echo "ip netns exec $id-0"
    fi
}

# The rate in bytes a second, for the share of the line; nothing on loopback.
line_rate()
{
    [ -n "$network" ] || return 0
    echo "$rate" | awk '{ n = $1 + 0; u = tolower($1); sub(/^[0-9.]*/, "", u)
        print n * (u ~ /^g/ ? 1e9 : u ~ /^m/ ? 1e6 : u ~ /^k/ ? 1e3 : 1) / 8 }'
}

remove_network()
{
    for space in $made; do
        left=$(ip netns pids "$space" 2>/dev/null)
        [ -z "$left" ] || kill -KILL $left 2>/dev/null
        ip netns del "$space" 2>/dev/null
    done
}
