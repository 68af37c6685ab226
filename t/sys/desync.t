#!/bin/sh
# SPDX-License-Identifier: MIT
# The desync matrix: ranks that do different things. For each way all ranks say one sentence, and so do hooprun and
# hoop-top; where nobody can know before the time-out, hoop-top says it while the ranks wait. "Within a second" counts from
# the moment at which the victim does its deed, or from the time-out, by the clock of all processes; for hoop-top, where ranks
# wait, from the first second of that, after which the server asks whether a process runs.
# time limit: 300
. "$abs_top_srcdir/t/tap/tap.sh"
hooprun=$abs_top_builddir/bin/hooprun top=$abs_top_builddir/bin/hoop-top
desync=$abs_top_builddir/t/sys/desync debugger=$abs_top_builddir/t/sys/debugger
unset HOOP_HOSTFILE HOOP_RSH HOOP_SOCKET_IFNAME HOOP_DEBUG HOOP_WARN_AFTER_MS
plan_lazy
wall=$((1 + room))
limit=8 # seconds that ranks wait where nobody can know

who='\([^ ]+, pid [0-9]+\)'
sum='allreduce of 1000 x float32, sum'
seven="operation 7 \\($sum\\)"
waited='[0-9]+ ranks? ha(s|ve) waited [0-9.]+ s'

failed() { [ "$(grep -c ' fails ' out)" = "$1" ]; }
begun() { [ "$(grep -c ' begins ' out)" = "$1" ]; }
shown() { "$top" --once >shown 2>&1 && grep -Eq "$1" shown; }
shows() { "$top" --once >shown 2>&1 && grep -qF "$1" shown; }

# launch ROW SIZE VICTIM: in the background; ranks that have failed stay. hooprun's TERM after a rank was killed does not
# keep the others from saying how they failed.
launch()
{
    rm -f pid.* hoop-*.flight.json
    : >linger
    : >out
    start "$hooprun" -n "$2" sh -c 'echo $$ >pid.$HOOP_RANK; [ "$1" != killed ] || trap "" TERM; exec "$0" "$@"' \
        "$desync" "$1" "$3" >>out 2>err </dev/null
    await begun "$2" || diag "the ranks did not begin: $(cat err)"
}

# A victim that is stopped goes on when hooprun has seen how another rank ended.
finish()
{
    rm -f linger
    await grep -qE 'exited with|killed by' err
    [ ! -s pid.$1 ] || kill -CONT "$(cat pid.$1)" 2>/dev/null
    wait "$started" 2>/dev/null
}

# Seconds from the victim's deed to the last rank's error.
delay() { awk -v v="$1" '$2 == "begins" && $1 == v {from = $3} $2 == "fails" && $3 > last {last = $3} END {print last - from}' out; }

# Seconds from the victim's deed until now.
elapsed() { { "$desync" && cat out; } | awk -v v="$1" '$2 == "now" {now = $3} $2 == "begins" && $1 == v {print now - $3}'; }

# soon TEXT SECONDS WALL
soon() { ok "$1: soon ($2 s of $3)" test "$(awk -v t="$2" -v w="$3" 'BEGIN {print t < w}')" = 1; }

# ends ROW SIZE VICTIM FAILED SENTENCE: so many ranks fail, with this one sentence, at once.
ends()
{
    launch "$1" "$2" "$3"
    ok "$1, $2 ranks: $4 ranks fail" await failed "$4"
    is 1 "$(sed -n 's/^[0-9]* fails [0-9.]* //p' out | sort -u | wc -l | tr -d ' ')" "$1, $2 ranks: all say the same"
    like "^[0-9]+ fails [0-9.]+ $5\$" "$(grep fails out)" "$1, $2 ranks: the sentence"
    said=$(sed -n 's/^[0-9]* fails [0-9.]* //p' out | head -n 1)
    if [ "$1" = killed ]; then
        skip 2 'hooprun ends the job of a rank that was killed'
    else
        ok "$1, $2 ranks: hoop-top says the same" await shows "ring of $2 ranks: failed: $said" || diag "$(cat shown)"
        soon "$1, $2 ranks, hoop-top" "$(elapsed "$3")" $((1 + wall))
    fi
    soon "$1, $2 ranks" "$(delay "$3")" "$wall"
    finish "$3"
    like "$([ "$1" = killed ] && echo 'killed by signal 9' || echo "$5\$")" "$(cat err)" "$1, $2 ranks: hooprun says it"
}

# waits ROW SIZE VICTIM SENTENCE: hoop-top says it while they wait; after the time-out all that fail say it.
waits()
{
    HOOP_OP_TIMEOUT_MS=${limit}000 launch "${6:-$1}" "$2" "$3"
    if [ "$1" = debugger ]; then
        hooprun_pid=$started
        start "$debugger" "$(cat pid.$3)" >holds
        held=$started started=$hooprun_pid
        await grep -q holds holds || diag 'no debugger'
    fi
    ok "$1, $2 ranks: hoop-top says it while they wait" await shown "ring of $2 ranks: $4" || diag "$(cat shown)"
    soon "$1, $2 ranks, hoop-top" "$(elapsed "$3")" $((1 + wall))
    ok "$1, $2 ranks: after the time-out $5 ranks fail" wait_for 30 failed "$5"
    soon "$1, $2 ranks" "$(delay "$3")" $((limit + wall))
    is 1 "$(sed -n 's/^[0-9]* fails [0-9.]* //p' out | sort -u | wc -l | tr -d ' ')" "$1, $2 ranks: all say the same"
    like "^[0-9]+ fails [0-9.]+ $4\$" "$(grep fails out)" "$1, $2 ranks: the sentence"
    [ "$1" != debugger ] || kill -KILL "$held"
    finish "$3"
    like "the ring had failed: $4\$" "$(cat err)" "$1, $2 ranks: hooprun repeats it"
}

# Calls that differ: neighbours see it in each other's first frame, and the server knows who is alone with it. It waits 0.2 s
# for the calls of the others: of those that are later it says nothing, and of two ranks it names either first. That all
# are counted, with a clock of its own, is t/rendezvous/disagreement.c's.
differs()
{
    odd="rank $victim \\([^ ]+\\)" other='rank [0-9] \([^ ]+\)'
    echo "($odd called $1 as operation 7, but $other( and [0-9] others?)?|$other called $sum as operation 7, but $odd) called ($sum|$1)"
}

by_size()
{
    size=$1 victim=$(($1 / 2))
    ends skips $size $victim $size "$(differs 'broadcast of 1000 x float32 from root 0')"
    ends size $size $victim $size "$(differs 'allreduce of 1001 x float32, sum')"
    ends type $size $victim $size "$(differs 'allreduce of 1000 x int32, sum')"
    ends split $size $victim $size \
        "rank $victim \\([^ ]+\\) is in hoop_comm_split after 6 operations, but rank [0-9] \\([^ ]+\\) is in $seven, which rank $victim has not started"
}
for size in 2 4 8; do scene differs.$size by_size $size; done

# Processes that go.
goes()
{
    gone="vanished during $seven: its process ended or its connection broke"
    ends exits 2 1 1 "rank 1 $who $gone"
    ends exits 4 2 3 "rank 2 $who $gone"
    ends leaves 2 1 1 "rank 1 \\([^ ]+\\) left the communicator after 6 operations while rank 0 \\([^ ]+\\) waits in $seven"
    ends leaves 4 2 3 "rank 2 \\([^ ]+\\) left the communicator after 6 operations while rank [0-9] \\([^ ]+\\) waits in $seven"
    ends killed 4 2 3 "rank 2 $who $gone"
}
scene goes goes

# Nobody can know before the time-out what the victim will do next.
stopped="has not entered $seven: its process is stopped, by a signal or a debugger; $waited"
scene computes waits computes 4 2 "rank 2 $who has not entered $seven, and its process runs; $waited" 3
scene stops waits stops 4 2 "rank 2 $who $stopped" 3
scene debugger waits debugger 4 2 "rank 2 $who $stopped" 3 computes
scene order waits order 4 2 "rank 2 $who waits in operation 1 \\($sum\\) of split 1 colour 0, and rank [0-9] $who in $seven of the whole job: call them in the same order; waited [0-9.]+ s" 4

# What hooprun's agent has said of a process counts while the agent speaks.
agent()
{
    HOOP_OP_TIMEOUT_MS=60000 launch computes 4 2
    late="rank 2 $who has not entered $seven"
    agent=$(sed 's/^.*) . \([0-9]*\) .*/\1/' "/proc/$(cat pid.2)/stat")
    ok 'agent: the process runs' await shown "$late, and its process runs; $waited"
    kill -STOP "$agent"
    ok 'agent: it is stopped, and nothing is said of the process' await shown "$late, or was stopped; $waited"
    kill -CONT "$agent"
    ok 'agent: it speaks again' await shown "$late, and its process runs; $waited"
    rm -f linger
    stop "$started"
}
scene agent agent

# Two communicators: ranks 0, 1 and 2 wait for 3, and 3 in the other one for 4, which computes. All blame rank 4.
chain()
{
    HOOP_OP_TIMEOUT_MS=${limit}000 launch chain 5 4
    guilty="\\([^ ]+, pid $(cat pid.4)\\)"
    pair="rank 1 $guilty has not entered operation 1 \\($sum\\), and its process runs; 1 rank has waited [0-9.]+ s"
    chain="rank 3 $who waits in operation 1 \\($sum\\) of split 2 colour 0 for its rank 1 $guilty, which has not entered it, and its process runs; 3 ranks have waited [0-9.]+ s in operation 1"
    ok 'chain: hoop-top follows it' await shown "split of 4 ranks: $chain" || diag "$(cat shown)"
    soon 'chain, hoop-top' "$(elapsed 4)" $((1 + wall))
    ok 'chain: and says of the other communicator whom it waits for' await shown "split of 2 ranks: $pair" || diag "$(cat shown)"
    like '^3 .* not in 1, waits in split 2 colour 0' "$(cat shown)" 'chain: the row of the rank between them'
    ok 'chain: after the time-out 4 ranks fail' wait_for 30 failed 4
    soon chain "$(delay 4)" $((limit + wall))
    is 1 "$(sed -n 's/^[012] fails [0-9.]* //p' out | sort -u | wc -l | tr -d ' ')" 'chain: three of them say the same'
    like "^[012] fails [0-9.]+ $chain\$" "$(grep '^[012] fails' out)" 'chain: the sentence'
    like "^3 fails [0-9.]+ $pair\$" "$(grep '^3 fails' out)" 'chain: that of the rank between them'
    finish 4
    like "(split 1 colour 0 had failed: $chain|split 2 colour 0 had failed: $pair)\$" "$(cat err)" 'chain: hooprun repeats it'
}
scene chain chain
scenes_end
done_testing
