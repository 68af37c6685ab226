#!/bin/sh
# SPDX-License-Identifier: MIT
# Training that goes on when ranks are killed, and when others come: hooprun --elastic, with examples/digits_elastic.
# HOOP_TEST_FULL=1: 20 trainings to their end instead of 3, and 20 restarts instead of 5.
# time limit: 300
. "$abs_top_srcdir/t/tap/tap.sh"
. "$abs_top_srcdir/t/sys/training.sh"
hooprun=$abs_top_builddir/bin/hooprun train=$abs_top_builddir/examples/digits_elastic
unset HOOP_HOSTFILE HOOP_RSH HOOP_SOCKET_IFNAME SSH_CONNECTION
export HOOP_DIGITS="$abs_top_srcdir/examples/digits.csv"
plan_lazy
cd "$tmp" || bail "no $tmp"

pid_of() { sed -n "s/^hooprun: rank $1 runs on .*, pid \([0-9]*\)$/\1/p" err | tail -n 1; }
says() { grep -qs "$1" "$2"; }
over() { [ -s status ]; }
is_up() { says 'to learn from' out && [ "$(grep -c "^hooprun: rank . runs on" err 2>/dev/null)" = "$1" ]; }

# begin RANKS OPTION...: a training in the background, until it has begun. What the one before has written is no sign of it.
begin()
{
    ranks=$1
    shift
    rm -f out err status
    start sh -c '"$@" >out 2>err </dev/null; echo $? >status' sh "$hooprun" -v -n $ranks "$@"
    await is_up $ranks || bail "no ring: $(tail -n 3 err)"
}

# launch RANKS LEAST OPTION...: that, on this host; $restarts: how many
restarts=0
launch()
{
    ranks=$1 least=$2
    shift 2
    begin $ranks --elastic $least --max-restarts $restarts "$train" "$@"
}
send() { kill -s "$1" "$(pid_of $2)"; } # SIGNAL RANK
goes_on() { ok "$2" await says "going on with $1 rank" out || diag "$(tail -n 5 out err)"; }
ends() { ok "$2" wait_for 60 over && is "$1" "$(cat status)" '... with this status' || diag "$(tail -n 5 out err)"; }

# Endless trainings: it is known when ranks are lost, whatever the machine does meanwhile.
endless='--epochs 100000'
launch 4 2 $endless
send KILL 2
goes_on 3 'a rank is killed in an operation; three go on'
like 'rank 2 \([^ ]+, pid [0-9]+, [^ ]+/digits_elastic\) killed by signal 9 \(SIGKILL\) after [0-9.]+ s; 3 others go on' "$(cat err)" \
    '... and hooprun says so'
send KILL 0
goes_on 2 'rank 0 is the next; two go on'
send KILL 3
ends 137 'the third is one too many for --elastic 2'
like 'rank 3 \([^ ]+, pid [0-9]+, [^ ]+\) killed by signal 9 \(SIGKILL\) after [0-9.]+ s; stopping 1 other' "$(cat err)" '... said'
is 0 "$(grep -c 'the ring had failed: rank [02] ' err)" '... without the losses that were got over'

launch 5 1 $endless
send STOP 1
send STOP 4
send KILL 1
sleep 1 # the others call hoop_comm_shrink, which awaits rank 4
send KILL 4
goes_on 3 'a rank is killed in an operation, another one while the others shrink'
send KILL 0
send KILL 2
goes_on 1 'two at once; one goes on alone'
send TERM 3
ends 143 'it is the last'

# Ranks are started again, and the ring grows again.
rings_of() { [ "$(grep -c ": $1 ranks\$" out)" -ge "$2" ]; }
restarts=5
[ -z "${HOOP_TEST_FULL:-}" ] || restarts=20
launch 4 2 $endless
for round in $(seq $restarts); do
    send KILL $((round % 4))
    ok "a rank is killed and started again, $round of $restarts times; four again" await rings_of 4 $round || diag "$(tail -n 5 out err)"
done
like "rank 1 \([^ ]+, pid [0-9]+, [^ ]+\) killed by signal 9 \(SIGKILL\) after [0-9.]+ s; it is started again \(restart 1 of $restarts\); 3 others go on" \
    "$(cat err)" '... and hooprun says so'
send KILL 0
ok 'no restart is left, and three go on' await says 'no restart is left; 3 others go on$' err || diag "$(tail -n 5 out err)"
send KILL 1
goes_on 2 '... then two'
send KILL 2
ends 137 'the next one is too many'

restarts=1
launch 3 1 $endless
send STOP 1
send STOP 2
send KILL 0
await says 'waits for hoop_comm_grow' err
send KILL 1
send KILL 2
ok 'all are killed but one that waits' wait_for 60 over && is 137 "$(cat status)" '... the job has failed' || diag "$(tail -n 5 out err)"
like 'nobody is left to take in processes that wait for a place; stopping 1 other' "$(cat err)" '... said'
restarts=0

# To the end: what is learned does not depend on who was there. A rank may be killed at any time of a training, by the seed; a
# short one would be over before its beginning is seen.
length='--epochs 60 --hidden 150'
begun=$(date +%s.%N)
"$hooprun" -n 4 "$train" $length >whole 2>err || bail "$(tail -n 1 err)"
ended=$(date +%s.%N)
rounds=3
[ -z "${HOOP_TEST_FULL:-}" ] || rounds=20
seed=${HOOP_TEST_SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
diag "seed $seed"
set -- $(awk "BEGIN { srand($seed); for (i = 0; i < 2 * $rounds; i++) printf \"%.2f \", rand() * ($ended - $begun) / 2 }")
lost=0
for round in $(seq $rounds); do
    restarts=$((round % 2 * 2))
    launch 4 2 $length
    sleep "$1"
    send KILL $((round % 4)) 2>/dev/null
    sleep "$2"
    shift 2
    send KILL $(((round + 2) % 4)) 2>/dev/null
    ends 0 "a training in which two may be lost, round $round"
    like '^parameters: bit-identical on all ranks \(ranks [234], checksum [0-9a-f]{16}\)$' "$(tail -n 1 out)" \
        '... those that are left hold the same bits'
    [ $long -lt 60 ] || ok "... and recognise as many ($(accuracy out) %, undisturbed $(accuracy whole) %)" \
        awk "BEGIN { exit !($(accuracy out) >= $(accuracy whole) - 1.5) }"
    lost=$((lost + $(grep -c 'go on$\|goes on$' err)))
done
ok "$lost ranks were lost in $rounds trainings" test $lost -gt 0
# The others are stopped until the one that is started again waits.
restarts=3
launch 4 2 $length
for rank in 0 1 3; do send STOP $rank; done
send KILL 2
await says 'waits for hoop_comm_grow' err
for rank in 0 1 3; do send CONT $rank; done
ends 0 'a training in which one is started again'
like '^parameters: bit-identical on all ranks \(ranks 4, checksum [0-9a-f]{16}\)$' "$(tail -n 1 out)" '... four hold the same bits'
[ $long -lt 60 ] || ok "... and recognise as many ($(accuracy out) %, undisturbed $(accuracy whole) %)" \
    awk "BEGIN { exit !($(accuracy out) >= $(accuracy whole) - 1.5) }"
restarts=0

# A host is lost with its ranks: its agent is killed.
cat >shell <<'SH'
#!/bin/sh
host=$1
shift
echo $$ >agent.$host
exec "$@"
SH
chmod +x shell
begin 3 --rsh ./shell -H a:2,b:1 --elastic 2 "$train" $endless
kill -KILL "$(cat agent.b)"
goes_on 2 'a host is lost; the others go on'
like 'hooprun: b is lost: .*; 2 others go on' "$(cat err)" '... and hooprun says so'
kill -KILL "$(pid_of 0)"
ends 137 'a rank on the other host is one too many'
nok '... and the loss that was got over is not its reason' grep -q 'had failed: rank 2' err
# Its rank is started again on a free slot of another host, also of one without ranks, and also if its agent ends in good order.
for lost in 'KILL b:1,a:3' 'TERM b:1,a:2,c:1'; do
    hosts=${lost#* }
    begin 3 --rsh ./shell -H $hosts --elastic 2 --max-restarts 1 "$train" $endless
    kill -s "${lost% *}" "$(cat agent.b)"
    ok "a host of $hosts is lost, and three again" await rings_of 3 1 || diag "$(tail -n 5 out err)"
    like 'hooprun: rank 0 is started again on [ac] \(restart 1 of 1\)' "$(cat err)" '... said'
    send KILL 0
    ok '... killed there, it is not started again' await says 'no restart is left; 2 others go on$' err
    send KILL 1
    ends 137 '... and the next one is too many'
done
# One whose agent has only greeted, and is lost before its ranks were reported.
cat >cut <<'SH'
#!/bin/sh
host=$1
shift
[ $host = a ] && exec "$@"
"$@" | head -n 2
SH
chmod +x cut
timeout 60 "$hooprun" --rsh ./cut -H a:1,b:1 sleep 1 >out 2>err
is 1 $? 'a host that is lost at once ends a job of which none may fail'
timeout 60 "$hooprun" --rsh ./cut -H a:1,b:3 --elastic 3 sleep 1 >out 2>err
is 1 $? '... and three lost ranks are too many where one may fail'
timeout 60 "$hooprun" --rsh ./cut -H a:1,b:3 --elastic 1 sleep 1 >out 2>err
is 0 $? '... but not where three may' || diag "$(cat err)"

# Without hooprun: one of three is lost, a process that waits takes its place, and once more.
by_hand()
{
    log=$1
    shift
    start sh -c 'echo $$ >$0.pid; exec "$@" >$0 2>&1 </dev/null' "$log" "$train" "$@"
}
"$abs_top_builddir/bin/hoop-rendezvous" --new-secret secret >/dev/null || bail 'no secret'
export HOOP_SECRET_FILE="$tmp/secret" HOOP_JOB=hand
start "$abs_top_builddir/bin/hoop-rendezvous" --port 0 >server 2>&1
await says 'listening on' server || bail 'no server'
HOOP_RENDEZVOUS=$(sed -n 's/.*listening on //p' server)
export HOOP_RENDEZVOUS
for rank in 0 1 2; do
    HOOP_SIZE=3 HOOP_RANK=$rank by_hand hand$rank $endless
done
await says 'to learn from' hand0
kill -KILL "$(cat hand1.pid)"
HOOP_JOIN=1 by_hand new1 $endless
ok 'three again' await says ': 3 ranks' hand0 || diag "$(tail -n 5 hand0 new1 server)"
kill -KILL "$(cat hand0.pid)" "$(cat hand2.pid)"
HOOP_JOIN=1 by_hand new2 $endless
ok 'the newcomer goes on, alone, and then with another one' await says ': 2 ranks' new1 || diag "$(tail -n 5 new1 new2 server)"
kill -KILL "$(cat new1.pid)" "$(cat new2.pid)"
export HOOP_JOB=whole
HOOP_JOIN=1 by_hand new $length
await says 'waits for hoop_comm_grow' server
for rank in 0 1 2; do
    HOOP_SIZE=3 HOOP_RANK=$rank by_hand whole$rank $length
done
ok 'a newcomer that came first' wait_for 60 says 'bit-identical on all ranks (ranks 4,' whole0 || diag "$(tail -n 5 whole0 new server)"
[ $long -lt 60 ] || ok "... and as many are recognised ($(accuracy whole0) %, undisturbed $(accuracy whole) %)" \
    awk "BEGIN { exit !($(accuracy whole0) >= $(accuracy whole) - 1.5) }"
unset HOOP_RENDEZVOUS HOOP_SECRET_FILE HOOP_JOB

# Programs that use the restarts up, or do not grow.
cat >loop <<'SH'
[ -z "${HOOP_JOIN:-}" ] || exit 7
[ "$HOOP_RANK" != 1 ] || exit 3
exec sleep 1000
SH
timeout 60 "$hooprun" -n 3 --elastic 3 --max-restarts 2 sh loop >out 2>err
is 7 $? 'one that crashes when it is started again'
is 'hooprun: rank 1 exited with status 3; it is started again (restart 1 of 2); 2 others go on
hooprun: rank 1 exited with status 7; it is started again in 1 s (restart 2 of 2); 2 others go on
hooprun: rank 1 exited with status 7; no restart is left; stopping 2 others' \
    "$(sed 's/ ([^)]*, sh)//; s/ after [0-9.]* s//' err)" '... said, then it ends'
cat >wait <<'SH'
[ -z "${HOOP_JOIN:-}" ] || exec "$@"
[ "$HOOP_RANK" != 1 ] || exit 3
until grep -q 'waits for hoop_comm_grow' err; do sleep 0.1; done
exit $HOOP_RANK
SH
timeout 60 "$hooprun" -v -n 3 --elastic 1 --max-restarts 1 sh wait "$train" >out 2>err
is 0 $? 'one that waits until the others have ended, one of them well'
like 'nobody is left to take in processes that wait for a place; stopping 1 other' "$(cat err)" '... is stopped'
cat >write <<'SH'
echo "rank ${HOOP_RANK:-none}"
[ -z "${HOOP_JOIN:-}" ] || exit 0
if [ "$HOOP_RANK" = 1 ]; then
    sleep 1000 &
    echo $! >left
    exit 3
fi
until [ "$(wc -l <files/rank.1/stdout)" = 2 ] && ! kill -0 "$(cat left)" 2>/dev/null; do sleep 0.1; done
SH
timeout 60 "$hooprun" -n 2 --elastic 1 --max-restarts 1 --output-dir files sh write 2>err
is '0 rank 1
rank none' "$? $(cat files/rank.1/stdout)" \
    'one file has the output of all that have run in one place, and what the first has left behind is gone'

# Programs that do not shrink end as without the option.
timeout 60 "$hooprun" -n 3 --elastic 2 sh -c 'exit $((HOOP_RANK ? 3 : 0))' >out 2>err
is 3 $? 'two of three fail, one too many'
timeout 60 "$hooprun" -n 3 --elastic 1 sh -c 'exit $((HOOP_RANK ? 3 : 0))' >out 2>err
is 0 $? 'two of three may fail'
timeout 60 "$hooprun" -n 3 --elastic 4 true >out 2>err
is '2 hooprun: --elastic 4 lets a job go on with 4 ranks, and this one has 3; start more ranks (-n), or write a smaller number' \
    "$? $(cat err)" 'more than there are'
is 2 "$("$hooprun" -H localhost:4 --elastic 1:2 sh -c 'echo $HOOP_SIZE' | sort -u)" 'no more than the second number are started'
done_testing
