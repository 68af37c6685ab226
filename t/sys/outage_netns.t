#!/bin/sh
# SPDX-License-Identifier: MIT
# outage_netns.t: cables are pulled, and put back in time or not, or one host hears no other, or no other hears it, while the
# ranks of several jobs are in operations, compute, or wait for one that does (outage.c). Ranks are started by hand on three
# hosts, the server is on the first, or on one of its own. peer_timeout_ms is 3 s where somebody is lost, or a process is
# stopped, and 20 or 30 s where a cable is back in time: a connection may have been idle for 4 s before, and this script may
# get on late.
# time limit: 300
. "$abs_top_srcdir/t/tap/tap.sh"
. "$abs_top_srcdir/t/tools/netns.sh"
server=$abs_top_builddir/bin/hoop-rendezvous
outage=$abs_top_builddir/t/sys/outage
for name in $(env | sed -n 's/^\(HOOP_[A-Z_]*\)=.*/\1/p' | grep -v '^HOOP_TEST_'); do unset "$name"; done
[ -x "$outage" ] || skip_all 't/sys/outage is not built'
netns_permitted
plan_lazy
export HOOP_SECRET_FILE=$tmp/secret HOOP_WARN_AFTER_MS=2000
"$server" --new-secret "$HOOP_SECRET_FILE" >/dev/null 2>&1 || bail 'no secret'

# begin MS [HOST]: the hosts of a scene, and its server, on the first one or HOST; peer_timeout_ms.
begin()
{
    netns_hosts ho 150
    start "$netns_exec" "$id-${2:-1}" "$server" --secret-file "$HOOP_SECRET_FILE" --host "$net.${2:-1}" >server 2>&1
    server_pid=$started
    wait_for 30 grep -q 'listening on' server || bail "the server does not start: $(cat server)"
    HOOP_RENDEZVOUS=$(sed -n 's/^hoop-rendezvous: listening on //p' server)
    export HOOP_RENDEZVOUS HOOP_SIZE=3 HOOP_PEER_TIMEOUT_MS="$1"
}

# job NAME WHAT SECONDS [RANK]: its ranks write to NAME.0 to NAME.2
job()
{
    name=$1
    shift
    for rank in 0 1 2; do
        HOOP_JOB=$name HOOP_RANK=$rank start "$netns_exec" "$id-$((rank + 1))" "$outage" "$@" >"$name.$rank" 2>&1
    done
    wait_for 30 all_up "$name" || bail "$name does not come up: $(cat "$name".?)"
}
all_up() { for rank in 0 1 2; do grep -q '^up$' "$1.$rank" || return 1; done; }
ended() { for rank in $ranks; do grep -qE '^[0-9]+ -?[0-9]+ ' "$1.$rank" || return 1; done; }
ended_all() { for name; do ended "$name" || return 1; done; }
last() { grep -E '^[0-9]+ -?[0-9]+ ' "$1"; }

# all_well NAME...: no rank has an error
all_well()
{
    ranks='0 1 2'
    wait_for 60 ended_all "$@"
    for name; do
        for rank in 0 1 2; do
            like '^0 -1 ' "$(last "$name.$rank")" "$what, $name, rank $rank: nothing has happened"
        done
    done
}

# rank_2_is_lost NAME...: ranks 0 and 1 have heard that rank 2 is, and it does not blame one of them.
rank_2_is_lost()
{
    wait_for 40 ended_all "$@"
    for name; do
        for rank in 0 1; do
            like "^6 2 [0-9.]+ rank 2 \\($id-3, pid [0-9]+\\) is cut off.*acknowledged nothing" "$(last "$name.$rank")" \
                "$what, $name, rank $rank: rank 2 is named"
        done
        case $ranks in *2) like '^(0 -1|[0-9]+ (2|-1)) ' "$(last "$name.2")" "$what, $name: rank 2 blames nobody" ;; esac
        for rank in 0 1; do
            took=$(last "$name.$rank" | cut -d' ' -f3)
            ok "$what, $name, rank $rank: it has ended in time ($took s)" test "${took%.*}" -le $((13 + room))
        done
    done
}

# pulled WHAT BREAK: rank 2's host is lost, by netns_BREAK. Here, and where else OUTAGE_AFTER is set, all ranks count
# from then on, however long the jobs take to come up.
pulled()
{
    what=$1
    export OUTAGE_AFTER=out
    begin 3000
    job op op 60
    job idle idle 14
    job late late 14 0
    job split split 14 0
    job message message 14 1
    job first first 6 2
    "netns_$2" 3
    : >out
    ranks='0 1 2'
    rank_2_is_lost op late message first idle split
}

# Rank 2 hears of its fate when its cable is back.
returns()
{
    what='the cable is back after the verdict'
    begin 3000
    job late late 30 2
    netns_pull 3
    ranks='0 1'
    rank_2_is_lost late
    netns_plug 3
    ranks=2
    wait_for 60 ended_all late
    like "^6 2 [0-9.]+ rank 2 \\($id-3, pid [0-9]+\\) is cut off" "$(last late.2)" "$what: rank 2 hears that it was cut off"
}

plugged()
{
    what='the cable is pulled for 8 s'
    export OUTAGE_AFTER=out
    begin 30000
    job op op 20
    job idle idle 10
    job late late 10 0
    job split split 10 0
    job message message 10 1
    job first first 5 2
    job away late 10 2
    job leaver leaver 9 2
    job early leaver 2 2
    netns_pull 3
    : >out
    sleep 8
    netns_plug 3
    all_well op idle late split message first away leaver early
    like 'leaves, and rank [01] .*has not received what was sent to it for [2-9]' "$(cat early.2)" \
        'a rank that leaves meanwhile says what it waits for'
    is '' "$(grep 'failed' server)" 'the server has taken no rank that left for lost'
}

# outages MS SECONDS...: peer_timeout_ms; the cable is out for so long, once after the other. What TCP would repair alone is
# no loss if connections are made again, either.
outages()
{
    limit=$1
    shift
    what="the cable is pulled for $* s, with a limit of $limit ms"
    lasts=0
    for seconds; do lasts=$((lasts + ${seconds%.*} + 3)); done
    begin "$limit"
    job op op $((lasts + 5))
    job idle idle $((lasts + 5))
    job late late $((lasts + 5)) 0
    job message message $((lasts + 5)) 1
    for seconds; do
        netns_pull 3
        sleep "$seconds"
        netns_plug 3
        sleep 2
    done
    all_well op idle late message
}

# A firewall, or a translator of addresses, has lost its table: new connections would work at once.
forgotten()
{
    what='connections are forgotten on their way'
    begin 12000
    export HOOP_DEBUG=info
    job op op 30
    job message message 25 1
    job idle idle 25
    netns_forget 2 3
    [ -s connections-2-3 ] || bail "no connections: $(ip netns exec "$id-2" cat /proc/net/tcp)"
    all_well op message idle
    like 'the connection to rank [12] .*broke, and is there again' "$(cat op.1 op.2)" "$what: they are made again"
}

# A rank may have sent on a connection what another one waits for, and who has given that up cannot tell it.
gone() { ! [ -d "/proc/$1" ] || grep -qs '^State:.Z' "/proc/$1/status"; }
forgotten_while_out()
{
    what='connections are forgotten while the cable is pulled'
    begin 20000
    export HOOP_DEBUG=info
    job op op 28
    op_2=$started
    job message message 28 1
    netns_pull 3
    out=$(date +%s)
    sleep 8
    netns_forget 2 3
    netns_plug 3
    diag "the cable was out for $(($(date +%s) - out)) s"
    all_well op message
    like 'the connection to rank [12] .*broke, and is there again' "$(cat op.1 op.2)" "$what: they are made again"
    took=$(last message.1 | cut -d' ' -f3)
    ok "$what: before TCP gives up what was sent ($took s)" test "${took%.*}" -le $((75 + room))
    ok "$what: and one that breaks while a rank leaves" await gone $op_2
}

# Rank 0 is done as soon as its last words to rank 2 are written, and TCP sends those again only seconds after the cable is
# back.
leaves_in_outage()
{
    what='a rank leaves while the cable is pulled'
    export OUTAGE_AFTER=out
    begin 40000
    job message message 6 1
    netns_pull 3
    : >out
    sleep 12
    netns_plug 3
    all_well message
    like 'rank 0 .*leaves, and rank 2 .*has not received what was sent to it for [2-9]' "$(cat message.0)" \
        'it stays until they have arrived, and says so'
}

# A kernel acknowledges for a process that is stopped, however full its windows are.
rank_stopped()
{
    what='a rank is stopped'
    begin 3000
    job op op 12
    rank_2=$started
    sleep 1
    kill -STOP "$rank_2"
    sleep 9
    kill -CONT "$rank_2"
    all_well op
}

server_stopped()
{
    what='the server is stopped'
    begin 3000
    job op op 12
    job late late 12 2
    job split split 12 2
    sleep 1
    kill -STOP "$server_pid"
    sleep 9
    kill -CONT "$server_pid"
    all_well op late split
}

# The ring needs no server meanwhile, and when that is back it must not blame anybody for its own outage.
server_away()
{
    what='the host of the server alone is away for 12 s'
    begin 3000 4
    job op op 25
    job idle idle 25
    job late late 25 2
    job early late 8 1
    netns_pull 4
    sleep 12
    netns_plug 4
    all_well op idle late early
}

# What needs the server ends, and blames nobody; the ring itself goes on.
server_lost()
{
    what='the host of the server is away for good'
    begin 3000 4
    job split split 40 2
    job op op 20
    netns_pull 4
    ranks='0 1'
    wait_for 60 ended_all split
    for rank in 0 1; do
        like "^[1-9][0-9]* -1 .*rendezvous server at $net\\.4:[0-9]+ has acknowledged nothing for .*firewalls" \
            "$(last "split.$rank")" "$what: rank $rank names the server"
        took=$(last "split.$rank" | cut -d' ' -f3)
        ok "$what: rank $rank does not wait for its bring-up limit ($took s)" test "${took%.*}" -le $((20 + room))
    done
    like "awaits the rendezvous server at $net\\.4:[0-9]+, whose host has not answered for [0-9.]+ s" "$(cat split.0)" \
        'a rank that waits says for whom'
    all_well op
}

parted()
{
    what='ranks 1 and 2 do not reach each other'
    begin 3000
    job op op 60
    netns_part 2 3
    netns_part 3 2
    ranks='0 1 2'
    wait_for 30 ended op
    for rank in 0 1 2; do
        like "^6 1 .*connection between rank 1 \\($id-2\\) and rank 2 \\($id-3\\) broke" "$(last "op.$rank")" \
            "$what: rank $rank hears of both"
    done
}

server_gone()
{
    what='the server is gone, the cable is pulled'
    export OUTAGE_AFTER=out
    begin 3000
    job op op 60
    job late late 10 0
    job first first 5 2
    job broken broken 5 2
    kill -9 "$server_pid"
    sleep 3
    netns_pull 3
    : >out
    ranks='0 1 2'
    rank_2_is_lost op late first broken
}

scene pulled pulled 'the cable is pulled' pull
scene deafened pulled 'packets to the host are lost' deafen
scene muted pulled 'packets from the host are lost' mute
scene plugged plugged
scene returns returns
scene short_outages outages 120000 0.1 1 5
if [ "${HOOP_TEST_FULL:-0}" = 1 ]; then
    for seconds in 12 20 27; do scene "out_for_$seconds" outages 30000 $seconds; done
    for seconds in 45 90; do scene "out_for_$seconds" outages 120000 $seconds; done
fi
scene forgotten forgotten
scene forgotten_while_out forgotten_while_out
scene leaves_in_outage leaves_in_outage
scene rank_stopped rank_stopped
scene server_stopped server_stopped
scene server_away server_away
scene server_lost server_lost
scene parted parted
scene server_gone server_gone
scenes_end
done_testing
