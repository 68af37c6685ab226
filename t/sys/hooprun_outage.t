#!/bin/sh
# SPDX-License-Identifier: MIT
# Hosts that hooprun reaches over TCP, and cables that are pulled: outages that are shorter than peer_timeout_ms end no job,
# whatever its ranks do; a host that stays away ends it, by name, and no rank is left anywhere; so does a network that
# fails in one direction, or hooprun's own. Processes that are stopped end nothing.
# time limit: 300
. "$abs_top_srcdir/t/tap/tap.sh"
. "$abs_top_srcdir/t/tools/netns.sh"
hooprun=$abs_top_builddir/bin/hooprun
unset HOOP_HOSTFILE HOOP_RSH HOOP_SOCKET_IFNAME SSH_CONNECTION
netns_permitted
plan_lazy
outage=$abs_top_builddir/t/sys/outage

from=
# Hosts of a scene's own.
open_hosts()
{
    netns_hosts ho 100
    netns_shells
}

# begin NAME MS COMMAND...: a rank on each of hosts 1 to 3, in the background; NAME.out, NAME.err and NAME.status are of it.
begin()
{
    name=$1 limit=$2
    shift 2
    start sh -c '"$@"; echo $? >'"$name.status" sh \
        $from "$hooprun" --rsh "$netns_shell" -x "HOOP_PEER_TIMEOUT_MS=$limit" -f hosts -N 1 -n 3 "$@" >"$name.out" 2>"$name.err" </dev/null
}
now() { tr -d . </proc/uptime | cut -d ' ' -f 1; }
over() { for name in "$@"; do [ -s "$name.status" ] || return 1; done; }
all_up() { for name in "$@"; do [ "$(grep -c '^up$' "$name.out")" = 3 ] || return 1; done; }

# The processes of these hosts that run this command.
found()
{
    command=$1
    shift
    for i in "$@"; do
        for p in $(ip netns pids "$id-$i"); do
            tr '\0' ' ' <"/proc/$p/cmdline" 2>/dev/null | grep -q "^[^ ]*$command" && echo "$p"
        done
    done
}
none() { [ -z "$(found "$@")" ]; }

# --- outages ---

# outages MS SECONDS: the limit; the cable is out for so long. The program of the last job sets the limit itself. With the numbers
# that are used TCP's next try comes when the lease is over, or long after; what the agents try by themselves succeeds.
outages()
{
    allowed=$1 seconds=$2 lasts=$(($2 + 26))
    open_hosts
    begin quiet "$allowed" sleep $lasts
    begin op "$allowed" "$outage" op $lasts
    begin idle "$allowed" "$outage" idle $((lasts - 4))
    begin late "$allowed" "$outage" late $((lasts - 4)) 0
    begin own 6000 env OUTAGE_TIMEOUT_MS=$allowed "$outage" op $lasts
    await all_up op idle late own
    sleep 6
    cut=$(now)
    netns_lose 3
    sleep "$seconds"
    netns_find 3
    diag "the cable was out for $((($(now) - cut) / 100)) s"
    wait_for $((seconds + 90)) over quiet op idle late own
    for name in quiet op idle late own; do
        is 0 "$(cat $name.status)" "an outage of $seconds s, where $allowed ms are allowed: the job '$name' ends well"
        [ "$(cat $name.status)" = 0 ] || diag "$(cat $name.err host-3.err)"
    done
    [ "$allowed" = 20000 ] || return 0
    said=$(cat quiet.err op.err idle.err late.err own.err)
    like "^hooprun: $id-3 \\(rank 2\\) has sent nothing for [0-9.]+ s; is it down, or the network to it\\?\$" "$said" \
        'a line names the host meanwhile'
    like "^hooprun: $id-3 answers again after [0-9.]+ s\$" "$said" 'and a line says when it is back'
}

# --- hosts that stay away ---

# lost NAME COMMAND: breaks the network while a job of 300 s runs with a limit of 4 s; `took` are seconds to its end.
lost()
{
    name=$1
    shift
    begin "$name" 4000 sleep 300
    await eval '[ "$(found sleep 1 2 3 | wc -l)" = 3 ]'
    sleep 1
    cut=$(now)
    "$@"
    wait_for 30 over "$name"
    took=$((($(now) - cut) / 100))
    err=$(cat "$name.err")
    is 1 "$(cat "$name.status")" "$name: status 1"
    ok "in time: $took s" test "$took" -ge 3 -a "$took" -le 20
    ok 'no rank is left' await none sleep 1 2 3
}

# far NAME: host 3 is lost in this way.
far()
{
    open_hosts
    lost "$1" "netns_$1" 3
    like "^hooprun: $id-3 \\(rank 2\\) is lost: it has not answered for [0-9.]+ s; is it down, or the network to it\\? stopping 2 others\$" \
        "$err" 'the host is named'
    [ "$1" != pull ] || nok 'nobody needs to look' grep -q 'may still run' "$1.err"
}

# The cable of hooprun's own host.
near()
{
    open_hosts
    from="$netns_exec $id-1"
    lost alone netns_pull 1
    like "^hooprun: $id-2 and $id-3 are lost: they have not answered for [0-9.]+ s, nor has any other host: is the network of this machine cut\? stopping 1 other\$" \
        "$err" "both hosts are named, and hooprun's own"
}

# --- processes that are stopped ---

# hooprun for longer than the lease (11 s): the kernel of its machine accepts the agents' connections. An agent for less
# than hooprun's patience with a host that says nothing (14 s).
stopped()
{
    open_hosts
    begin stopped 8000 sleep 35
    await eval '[ "$(found sleep 1 2 3 | wc -l)" = 3 ]'
    sleep 1
    launcher=$(cat "/proc/$started/task/$started/children")
    kill -STOP $launcher
    sleep 14
    kill -CONT $launcher
    sleep 1
    agent=$(found '[^ ]*hoop-launch --agent' 3)
    kill -STOP $agent
    sleep 8
    kill -CONT $agent
    wait_for 60 over stopped
    is 0 "$(cat stopped.status)" 'hooprun is stopped for a while, then an agent: the job ends well'
    [ "$(cat stopped.status)" = 0 ] || diag "$(cat stopped.err host-3.err)"
}

scene outages outages 20000 14
if [ "${HOOP_TEST_FULL:-0}" = 1 ]; then
    for seconds in 12 20 27; do scene "out_for_$seconds" outages 30000 $seconds; done
    for seconds in 45 90; do scene "out_for_$seconds" outages 120000 $seconds; done
fi
for way in pull deafen mute; do scene $way far $way; done
scene near near
scene stopped stopped
scenes_end
done_testing
