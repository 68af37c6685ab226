#!/bin/sh
# SPDX-License-Identifier: MIT
# What hooprun shows of its ranks: when it is asked with Ctrl-\ (SIGQUIT), at Ctrl-C, and when the time is over.
# time limit: 120
. "$abs_top_srcdir/t/tap/tap.sh"
. "$abs_top_srcdir/t/sys/hooprun.sh"
PATH=$abs_top_builddir/bin:$PATH
XDG_RUNTIME_DIR=$tmp
export XDG_RUNTIME_DIR
plan_lazy

# Ranks that reduce for ever; rank 1 is stopped.
cat >rank <<'END_RANK'
#!/bin/sh
echo $$ >pid.$HOOP_RANK
[ "$HOOP_RANK" != 0 ] || echo "$HOOP_JOB" >name
exec hoop-bench -b 1M -e 1M -w 0 -c 0 -n 1000000
END_RANK
chmod +x rank
stopped() { [ "$(sed 's/.*) \(.\).*/\1/' "/proc/$1/stat")" = T ]; }
said() { grep -q "$1" err; }
launch()
{
    rm -f pid.*
    : >err
    start "$hooprun" "$@" >out 2>>err </dev/null
    await test -s pid.0 -a -s pid.1 -a -s pid.2 || diag "the ranks did not start: $(cat err)"
}
# The ranks are in their ring, and rank 1 is stopped for so long that its neighbours have reported it.
hold_up()
{
    await grep -q '^#' out || diag "no table of hoop-bench: $(cat err)"
    kill -STOP "$(cat pid.1)"
    await stopped "$(cat pid.1)"
    sleep 6
}

launch -n 3 ./rank
await grep -q '^#' out
kill -QUIT "$started"
ok 'SIGQUIT: a job at work has a table' await said 'job [0-9a-f]*, ring of 3 ranks: '
like '^hooprun: rank  host .* operation' "$(cat err)" 'with titles'
is 3 "$(grep -cE '^hooprun: [012]  ' err)" 'and a row for each rank'
like '^[0-9a-f]{8}$' "$(cat name)" 'the job has a name, HOOP_JOB'
ok 'which the table has' said "^hooprun: job $(cat name), ring of 3 ranks: "
like "^job $(cat name), ring of 3 ranks: " "$(hoop-top --once)" 'and hoop-top'
ok 'then the flight recorders are in a file, which has the name, too' \
    await said "hoop-top --flight hoop-$(cat name)\\.flight\\.json explains the last operations of the ranks"
ok 'and by which hoop-top --flight finds those of this job' hoop-top --flight --job "$(cat name)"
nok 'and no others' hoop-top --flight --job "$(cat name)0"
: >err
hold_up
kill -QUIT "$started"
ok 'SIGQUIT: the stopped rank is named' await said "ring of 3 ranks: rank 1 (.*, pid $(cat pid.1))"
like "^hooprun: 0  .* $(cat pid.0)  .*allreduce of 262144 x float32, sum  .* s  (data from )?rank [12]" "$(cat err)" \
    'the row of a rank that waits says in what, for how long and for whom'
ok 'and the recorders name it, too' await said '^hooprun: .* in operation .* rank 1 .* is stopped'
ok 'in the same file, written anew' await said 'hoop-top --flight hoop-.* explains the last operations of the ranks'
is 1 "$(find . -maxdepth 1 -name 'hoop-*.flight.json' | wc -l)" 'of which there is one'
like 'rank 1 .* is stopped' "$(hoop-top --flight hoop-*.flight.json)" 'hoop-top explains it'
kill -CONT "$(cat pid.1)"
nok 'the job goes on' gone "$started"
: >err
hold_up
kill -INT "$started"
await said 'rank 1 (' || diag 'no table' # before rank 1 goes on, and nobody waits any more
kill -CONT "$(cat pid.1)"
wait "$started"
is 130 $? 'SIGINT: the status'
like 'rank 1 \(.*\) ' "$(grep -v stopping err)" 'SIGINT: the table, since ranks waited for a second'
ok 'in at most ten lines' test "$(grep -v 'stopping' err | grep -c '^hooprun: ')" -le 10

launch -n 3 --timeout 20 ./rank
hold_up
await said 'the time limit of 20 s is reached'
kill -CONT "$(cat pid.1)"
wait "$started"
is 124 $? 'the time is over: the status'
like 'ring of 3 ranks: rank 1 \(.*\) ' "$(cat err)" 'the time is over: the table'

rm -f pid.*
start "$hooprun" -n 2 sh -c 'echo $$ >pid.$HOOP_RANK; exec sleep 100' >out 2>err </dev/null
await test -s pid.0 -a -s pid.1
sleep 0.3
kill -QUIT "$started"
ok 'a job without hoop: no table' await said 'no rank is in a ring of hoop now'
kill -USR1 "$started"
ok 'USR1 is not passed on by default, and hooprun says so' await said 'SIGUSR1 is passed on .* --forward-signals'
ok 'the ranks live' kill -0 "$(cat pid.0)" "$(cat pid.1)"
kill -INT "$started"
wait "$started"
is 3 "$(grep -c . err)" 'SIGINT: no table if nobody waits' || diag "$(cat err)"
done_testing
