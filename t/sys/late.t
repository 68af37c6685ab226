#!/bin/sh
# SPDX-License-Identifier: MIT
# late.t: a rank that holds up the others is named once a job, by whoever can: hooprun, hoop-rendezvous, and, where the
# server is gone, the one rank that sees who it is. The line of hooprun at the end names it as well.
# time limit: 120
. "$abs_top_srcdir/t/tap/tap.sh"

hooprun=$abs_top_builddir/bin/hooprun
server=$abs_top_builddir/bin/hoop-rendezvous
sleeper=$abs_top_builddir/t/sys/sleeper
unset HOOP_HOSTFILE HOOP_RSH HOOP_SOCKET_IFNAME HOOP_DEBUG HOOP_RANK HOOP_SIZE HOOP_RENDEZVOUS HOOP_SECRET_FD HOOP_JOB
cd "$tmp" || bail "no scratch folder"
plan_lazy

# The first line comes after five seconds, as much as a healthy process may be late on a busy machine; t/rendezvous has when
# the others come.
export HOOP_WARN_AFTER_MS=5000
late='rank 2 \([^ ]+, pid [0-9]+\) has not entered operation 3 \(allreduce of 1000 x float32, sum\)'

one_asleep()
{
    HOOP_OP_TIMEOUT_MS=12000 "$hooprun" -n 8 "$sleeper" 2 60 >out 2>err </dev/null
    is 1 $? 'eight ranks, one asleep: the job ends at the time-out'
    like '^[12]$' "$(grep -Ec "^hooprun: job [0-9a-f]{8}: ${late}, and its process runs; 7 ranks have waited [0-9.]+ s\$" err)" \
        'lines say so: after 5 and 10 seconds'
    is '' "$(grep -v "$(printf '%s' 'rank 2 (')" err | grep -vE '^hooprun: (rank|hoop-top --flight)')" 'no line names another one'
    is 0 "$(grep -c 'hoop WARN' err)" 'the ranks themselves say nothing before the end'
    like "^hooprun: the ring had failed: ${late}, and its process runs; 7 ranks have waited [0-9.]+ s\$" "$(tail -n 3 err | head -n 1)" \
        'the line before the two on the recorders names it'
}

only_late()
{
    "$hooprun" -n 4 "$sleeper" 2 8 >out 2>err </dev/null
    is 0 $? 'a rank that is only late'
    like "^hooprun: job [0-9a-f]{8}: ${late}, and its process runs; 3 ranks have waited [0-9.]+ s\$" "$(head -n 1 err)" 'is named'
    like '^hooprun: job [0-9a-f]{8}: goes on after [0-9.]+ s$' "$(tail -n 1 err)" 'when it has come, that is said'
    like '^[23]$' "$(wc -l <err | tr -d ' ')" 'no other lines'
    HOOP_WARN_AFTER_MS=0 "$hooprun" -n 2 "$sleeper" 1 2 >out 2>err </dev/null
    is '0 ' "$? $(cat err)" 'who does not want to hear of it does not'
}

# A message that does not come: the server does not see it, so the ranks that wait name its sender.
waits='rank [02] \([^ ]+\) waits in recv of 1000 x float32 \(tag 0\) from rank 1 \([^ ]+\), which has not sent it; '
message()
{
    HOOP_OP_TIMEOUT_MS=12000 "$hooprun" -n 3 "$sleeper" 1 60 0 messages >out 2>err </dev/null
    is 1 $? 'three ranks, one does not send: the job ends at the time-out'
    like '^[2-4]$' "$(grep -Ec "^.* hoop WARN ${waits}[0-9.]+ s so far\$" err)" 'two ranks say so after 5 and 10 seconds'
}

message_quiet()
{
    HOOP_OP_TIMEOUT_MS=7000 "$hooprun" -n 3 sh -c 'exec "$0" "$@" 2>/dev/null' "$sleeper" 1 60 0 messages >out 2>err </dev/null
    like "^hooprun: the ring had failed: ${waits}[0-9.]+ s so far\$" "$(tail -n 3 err | head -n 1)" \
        'where the ranks print nothing, hooprun names it'
}

message_late()
{
    HOOP_OP_TIMEOUT_MS=60000 "$hooprun" -n 3 "$sleeper" 1 8 0 messages >out 2>err </dev/null
    is 0 $? 'a message that is only late'
    like '^[2-4]$' "$(grep -Ec " hoop WARN ${waits}[0-9.]+ s so far\$" err)" 'is waited for'
}

secret=$tmp/secret
"$server" --new-secret "$secret" || bail 'no secret'

# by_hand NAME ARGUMENT...: four ranks of a server that lists events in server.out
by_hand()
{
    name=$1
    shift
    start "$server" --secret-file "$secret" >server.out 2>server.err
    running=$started
    await grep -q 'listening on' server.out || bail "the server does not start: $(cat server.err)"
    address=$(sed -n 's/^hoop-rendezvous: listening on //p' server.out)
    for r in 0 1 2 3; do
        (
            HOOP_RANK=$r HOOP_SIZE=4 HOOP_RENDEZVOUS=$address HOOP_SECRET_FILE=$secret "$@" >"$name.up.$r" 2>"$name.$r"
            echo $? >"$name.status.$r"
        ) &
        tap_started="$tap_started $!"
    done
    await up "$name" || bail "no ring: $(cat server.out "$name".?)"
}
up() { [ "$(cat "$1".up.? | grep -c '^up$')" = 4 ]; } # the server is told before the ranks are
ended() { [ "$(cat "$1".status.? 2>/dev/null | wc -l)" = 4 ]; }

fine()
{
    by_hand fine "$sleeper" 2 8
    wait_for 60 ended fine
    is '0000' "$(cat fine.status.? | tr -d '\n')" 'ranks that were started by hand'
    like "^hoop-rendezvous: job [0-9a-f]{8}: ${late}, or was stopped; 3 ranks have waited [0-9.]+ s\$" "$(head -n 1 server.err)" \
        'hoop-rendezvous says it on standard error'
    like '^hoop-rendezvous: job [0-9a-f]{8}: goes on after ' "$(tail -n 1 server.err)" 'and that it goes on'
    is '' "$(cat fine.[0-3])" 'the ranks say nothing'
    kill "$running"
}

# without_server SIGNAL
without_server()
{
    export HOOP_NAME=w
    by_hand $1 "$sleeper" 2 14 5
    kill -$1 "$running"
    wait_for 60 ended $1
    is '0000' "$(cat $1.status.? | tr -d '\n')" "without a server ($1)"
    grep -lE "hoop WARN \"w\": ${late}, or was stopped; [123] ranks? ha(s|ve) waited " $1.? >speakers
    is 1 "$(wc -l <speakers | tr -d ' ')" 'one rank says it'
    is "$(cat speakers)" "$(grep -l . $1.[0-3])" 'and the others nothing'
    like 'hoop WARN "w": the operation goes on after [0-9.]+ s' "$(cat $1.?)" 'it says when it goes on'
    kill -KILL "$running" 2>/dev/null
}

for picture in one_asleep only_late message message_quiet message_late fine; do scene $picture $picture; done
for signal in KILL STOP; do scene $signal without_server $signal; done
scenes_end
done_testing
