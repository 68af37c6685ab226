#!/bin/sh
# SPDX-License-Identifier: MIT
# Ranks that wait in hoop_comm_split or in a message: hoop-top shows where each is, and follows the wait from there to the one
# rank that is late; the time-out names that one, too.
# time limit: 200
. "$abs_top_srcdir/t/tap/tap.sh"
hooprun=$abs_top_builddir/bin/hooprun top=$abs_top_builddir/bin/hoop-top waits=$abs_top_builddir/t/sys/desync_waits
unset HOOP_HOSTFILE HOOP_RSH HOOP_SOCKET_IFNAME HOOP_DEBUG HOOP_WARN_AFTER_MS
plan_lazy
limit=$((20 + 2 * ${HOOP_TEST_TIME_FACTOR:-1})) # seconds that ranks wait

who='\([^ ]+, pid [0-9]+\)'
host='\([^ ]+\)'
sum='allreduce of 1000 x float32, sum'
recv='recv of 5 x float32 \(tag 3\)'
runs='and its process runs'
waited='[0-9]+ ranks? ha(s|ve) waited [0-9.]+ s'

failed() { [ "$(grep -c ' fails ' out)" = "$1" ]; }
begun() { [ "$(grep -c ' begins ' out)" = "$1" ]; }
shown() { "$top" --once >shown 2>&1 && grep -Eq "$1" shown; }

# launch ROW SIZE: in the background; ranks that have failed stay.
launch()
{
    rm -f hoop-*.flight.json
    : >linger
    : >out
    start "$hooprun" -n "$2" "$waits" "$1" >>out 2>err </dev/null
    await begun "$2" || diag "the ranks did not begin: $(cat err)"
}

finish()
{
    rm -f linger
    stop "$started"
}

# sees TEXT PATTERN
sees() { ok "$1" await shown "$2" || diag "$(cat shown)"; }

# end_with ROW RANKS SENTENCE: so many ranks fail, and all say this.
end_with()
{
    ok "$1: after the time-out $2 ranks fail" wait_for 30 failed "$2"
    is 1 "$(sed -n 's/^[0-9]* fails //p' out | sort -u | wc -l | tr -d ' ')" "$1: all say the same"
    like "^[0-9]+ fails $3\$" "$(grep fails out)" "$1: the sentence"
}

# Ranks 0 and 1 wait for 2, which is in a split of ranks 2 and 3.
split_elsewhere()
{
    HOOP_OP_TIMEOUT_MS=${limit}000 launch split 4
    late="rank 2 $who waits in hoop_comm_split 1 of split 2 colour 0 for its rank 1 $who, which has not called it, $runs; 2 ranks have waited [0-9.]+ s in operation 1"
    sees 'split in another communicator: hoop-top follows it' "split of 3 ranks: $late"
    like '^2 .* not in 1, in hoop_comm_split 1 of split 2 colour 0 ' "$(cat shown)" '... the row of the rank that splits'
    like "split of 2 ranks: rank 1 $who has not called hoop_comm_split 1 of split 2 colour 0, $runs; 1 rank has waited" \
        "$(cat shown)" '... the split itself'
    like '^0 .* in hoop_comm_split 1 +[0-9.]+ s +rank 1' "$(cat shown)" '... and its row there'
    end_with 'split in another communicator' 2 "$late"
    finish
}

# Ranks 0 to 2 are in a split of all, and the line of the server says who is missing.
split_of_all()
{
    HOOP_WARN_AFTER_MS=1000 HOOP_BOOTSTRAP_TIMEOUT_MS=${limit}000 launch splits 4
    late="rank 3 $who has not called hoop_comm_split 1 of the whole job, $runs; 3 ranks have waited [0-9.]+ s"
    sees 'split: hoop-top says who is missing' "split of 4 ranks: $late"
    sees 'split: the rows of those that are in it' '^0 .* in hoop_comm_split 1 +[0-9.]+ s +rank 3'
    await grep -Eq "^hooprun: job [^ ]+: $late\$" err
    like "^hooprun: job [^ ]+: $late\$" "$(cat err)" 'split: so does the line of the server'
    sees 'split: the one that computes is outside hoop' '^3 .* outside hoop'
    is '' "$(grep -E '^[012] .*outside' shown)" 'split: nobody in it is'
    end_with split 3 "rank 3 of 4 did not call hoop_comm_split within [0-9.]+ s; 3 ranks on [^ ]+ are waiting"
    finish
}

# Rank 0 receives what rank 2 does not send.
message()
{
    HOOP_OP_TIMEOUT_MS=${limit}000 launch message 3
    late="rank 0 $host waits in $recv from rank 2 $host, which has not sent it; [0-9.]+ s so far"
    sees 'recv that nobody sends: hoop-top says it while the rank waits' "ring of 3 ranks: $late"
    like "^0 .* $recv +[0-9.]+ s +data from rank 2" "$(cat shown)" '... its row'
    "$top" --json >json
    like '"message":\{"call":"recv of 5 x float32 \(tag 3\)","name":null,"seconds":[0-9.]+,"reason":"data","waits_for_data_of":2\}' \
        "$(cat json)" '... and JSON'
    end_with 'recv that nobody sends' 1 "$late"
    finish
}

# Ranks 0 and 1 wait in a communicator of the first three for 2, which receives what rank 3 does not send.
chain()
{
    HOOP_OP_TIMEOUT_MS=${limit}000 launch recv 4
    late="rank 2 $who waits in $recv of the whole job for its rank 3 $who, which has not sent it, $runs; 2 ranks have waited [0-9.]+ s in operation 1"
    own="rank 2 $host waits in $recv from rank 3 $host, which has not sent it; [0-9.]+ s so far"
    sees 'recv at the end of a chain: hoop-top follows it' "split of 3 ranks: $late"
    like "^2 .* not in 1, $recv of the whole job +[0-9.]+ s" "$(cat shown)" '... the row of the rank between them'
    like "ring of 4 ranks: $own" "$(cat shown)" '... the other communicator itself'
    ok '... after the time-out 3 ranks fail' wait_for 30 failed 3
    is 2 "$(grep -Ec "^[01] fails $late\$" out)" '... two of them say the same' || diag "$(cat out)"
    like "^2 fails $own\$" "$(grep '^2 fails' out)" '... the sentence of the rank between them'
    finish
}

# Ranks that work in another communicator are in hoop, although this one rests; one that gets no processor is not.
nobody_is_outside() { shown . && ! grep -q 'outside hoop' shown; }

works()
{
    launch works 2
    sleep 4
    ok 'work in another communicator: nobody is outside hoop' wait_for 60 nobody_is_outside
    like 'split of 2 ranks: ' "$(cat shown)" '... both rings are shown'
    finish
}

for picture in split_elsewhere split_of_all message chain works; do scene $picture $picture; done
scenes_end
done_testing
