#!/bin/sh
# SPDX-License-Identifier: MIT
# The row of the desync matrix that needs hosts: the link of one is taken down inside an operation. The ranks there cannot be
# told from stopped ones, and may come back, so only the time-out makes it knowable. Within a second of that every rank of
# the other hosts says one sentence with rank and call, and so do hoop-top and hooprun.
# time limit: 180
. "$abs_top_srcdir/t/tap/tap.sh"
. "$abs_top_srcdir/t/tools/netns.sh"
hooprun=$abs_top_builddir/bin/hooprun top=$abs_top_builddir/bin/hoop-top desync=$abs_top_builddir/t/sys/desync
unset HOOP_HOSTFILE HOOP_RSH HOOP_SOCKET_IFNAME HOOP_DEBUG HOOP_WARN_AFTER_MS SSH_CONNECTION
[ -x "$desync" ] || skip_all 't/sys/desync is not built'
netns_hosts hd 50
plan_lazy
XDG_RUNTIME_DIR=$tmp
export XDG_RUNTIME_DIR
limit=8
wall=$((limit + 1 + room))

operation='operation [0-9]+ \(allreduce of 1048576 x float32, sum\)'
now() { "$desync" | awk '$2 == "now" {print $3}'; }
begun() { [ "$(grep -c ' begins ' out)" = 4 ]; }
failed() { [ "$(grep -Ec "^$survivors fails " out)" = "$1" ]; }
shown() { "$top" --once >shown 2>&1 && grep -Eq "$1" shown; }
sentences() { grep -E "^$survivors fails" out | sed 's/^[0-9]* fails [0-9.]* //' | sort -u; }

# cut WHAT SURVIVORS N VICTIM WAITING SENTENCE COMMAND...: in a ring of four the N survivors blame a rank behind the link.
cut()
{
    what=$1 survivors=$2 n=$3 victim=$4 waiting=$5 sentence=$6
    shift 6
    : >linger
    : >out
    HOOP_OP_TIMEOUT_MS=${limit}000 start "$hooprun" --rsh 'ip netns exec' -f hosts "$@" "$desync" cut "$victim" >>out 2>err </dev/null
    await begun || diag "the ranks did not begin: $(cat err)"
    sleep 1
    from=$(now)
    ip link set "${id}v2" down
    ok "$what: hoop-top says it while they wait" await shown "ring of 4 ranks: $waiting" || diag "$(cat shown)"
    ok "$what: $n ranks fail" await failed "$n"
    took=$(awk -v v="$from" '$2 == "fails" && $1 ~ /'"$survivors"'/ && $3 > last {last = $3} END {print last - v}' out)
    is 1 "$(sentences | wc -l | tr -d ' ')" "$what: all say the same"
    like "^$sentence\$" "$(sentences)" "$what: the sentence"
    ok "$what: hoop-top says it, too" await shown "ring of 4 ranks: failed: $sentence\$"
    ok "$what: within a second of the time-out of $limit s ($took s after the link went)" \
        test "$(awk -v t="$took" -v w="$wall" 'BEGIN {print t < w}')" = 1
    rm -f linger
    wait "$started" 2>/dev/null
    like "the ring had failed: $sentence\$" "$(cat err)" "$what: hooprun repeats it"
    ip link set "${id}v2" up
}

spoke='last spoke [0-9.]+ s ago; [0-9] ranks have waited [0-9.]+ s'
lost="(is stopped or unreachable in|has not entered) $operation"
cut 'one of four hosts' '[023]' 3 1 "rank 1 \\([^ ]+, pid [0-9]+\\) $lost" \
    "rank 1 \\([^ ]+, pid [0-9]+\\) is unreachable or stopped; its host $spoke in $operation" -N 1
cut 'one of two hosts' '[01]' 2 2 "rank [23] \\([^ ]+, pid [0-9]+\\) $lost" \
    "ranks 2-3 \\([^ ]+\\) are unreachable or stopped; their host $spoke in $operation" -n 4
done_testing
