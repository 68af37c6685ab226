#!/bin/sh
# SPDX-License-Identifier: MIT
# Jobs that hang or die: hooprun prints which rank the others wait for, and collects the recorders of all hosts, which
# hoop-top explains. A full file system costs the recorder; a recorder costs no system call.
# time limit: 240
. "$abs_top_srcdir/t/tools/own_shm.sh"
. "$abs_top_srcdir/t/tap/tap.sh"
hooprun=$abs_top_builddir/bin/hooprun top=$abs_top_builddir/bin/hoop-top flight=$abs_top_builddir/t/sys/flight
server=$abs_top_builddir/bin/hoop-rendezvous desync=$abs_top_builddir/t/sys/desync
unset HOOP_HOSTFILE HOOP_RSH HOOP_SOCKET_IFNAME
plan_lazy
cd "$tmp" || bail "no $tmp"
XDG_RUNTIME_DIR=$tmp
export XDG_RUNTIME_DIR
factor=1
[ "${HOOP_TEST_SANITIZE:-no}" = no ] || factor=4

run()
{
    rm -f hoop-*.flight.json
    timeout 100 "$hooprun" "$@" >out 2>err </dev/null
    status=$?
    err=$(cat err)
    json=$(ls hoop-*.flight.json 2>/dev/null)
}
recorders() { ls hoop 2>/dev/null | grep -c 'flight$'; }
late='last finished operation 4 \(barrier\) [0-9.]+ s ago'
wait='ranks 0 and 2 (wait|were|have failed) in operation 5 \(allreduce of 100 x float32, sum\); '

# --- ways to hang, and to die ---

# A leak checker stops the threads of a process that ends, as a debugger does, and that is what its recorder would say.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"

# Long enough for three ranks to reach their fifth operation beside all other scenes.
limit=$((6 * factor))

late_rank()
{
    run -n 3 "$flight" well
    is '0  ' "$status $err $json" 'a job that ends well has nothing to tell'
    is 0 "$(recorders)" 'and leaves nothing'

    run --timeout "$limit" -n 3 "$flight" sleep
    is 124 "$status" 'a rank that does not call: the time limit ends the job'
    like "$wait"'rank 1 \(.*\) '"$late and has not called since" "$err" 'its sentence names the rank'
    like 'hoop-top --flight hoop-.*json explains the last operations of the ranks' "$err" 'and the file'
    ok 'hoop-top reads the file' "$top" --flight "$json"
    is "$(grep -o 'ranks 0 and 2.*' err | sed 's/[0-9.]* s ago//')" "$("$top" --flight "$json" | head -n 1 | sed 's/[0-9.]* s ago//')" \
        'and prints the same sentence'
    "$top" --flight --json "$json" >decoded.json
    like '"late_rank":1,.*"recorders":\[\{.*"sequence":5,"call":"allreduce of 100' "$(cat decoded.json)" 'as JSON, too'
    is 3 "$(recorders)" 'what killed ranks have left stays,'
    run -n 1 true
    is 0 "$(recorders)" 'until the next job begins'
}

stopped_rank()
{
    run --timeout "$limit" -n 3 "$flight" stop
    like "$wait"'rank 1 \(.*\) '"$late; its process is stopped" "$err" 'a rank that is stopped'
}

dead_ranks()
{
    run -n 3 "$flight" kill
    like 'killed by signal 9' "$err" 'a rank that is killed'
    like 'ranks 0 and 2 .* in operation [45] .*rank 1 \(.*ended' "$err" 'is named'
    run -n 3 "$flight" exit
    like 'ranks 0 and 2 .* in operation [45] .*rank 1 \(.*ended' "$err" 'a rank that exits with status 0'
    run -n 3 "$flight" more
    like 'as operation 5 rank 0 called allreduce of 100 x float32, sum, and rank 1 .* called allreduce of 101 x float32, sum' \
        "$err" 'another size'
}

split_rank()
{
    run --timeout "$limit" -n 3 "$flight" split
    like 'rank 1 was in hoop_comm_split number 1, called [0-9.]+ s ago, and ranks 0 and 2 have failed in operation 5' "$err" \
        'a split against a collective'
}

named_calls()
{
    run --timeout "$limit" -n 3 "$flight" named
    like 'ranks 0 and 2 (wait|were|have failed) in allreduce 5 \(gradients\); rank 1 .* last finished barrier 4 \(loss\)' "$err" \
        'calls that have names'
    "$top" --flight "$json" >shown
    like '  5 .*  allreduce \(gradients\) of 100 x float32, sum' "$(cat shown)" 'which are in the tables'
    "$top" --flight --json "$json" >decoded.json
    like '"sequence":5,"call":"allreduce of 100 x float32, sum","name":"gradients"' "$(cat decoded.json)" 'and in JSON'
}

# --- what another job leaves alone ---

other_job()
{
    start "$hooprun" -n 2 sh -c '"$0" exit; touch gone.$HOOP_RANK; [ $HOOP_RANK = 1 ] || exec sleep 100' "$flight" >out 2>err </dev/null
    running=$started
    await test -e gone.0 -a -e gone.1
    "$hooprun" -n 1 true
    is 2 "$(recorders)" 'another job removes no recorders of a job whose hooprun has yet to collect them'
    kill -QUIT "$running"
    ok 'which it does' await grep -q 'rank 1 (.*) .*ended' err || diag "$(cat err)"
    stop "$running"
    run -n 1 true
    is 0 "$(recorders)" 'when that has ended they are removed'
}

# --- ranks that wait for each other over several communicators ---

# blames ROW SIZE VICTIM PID SENTENCE PART: PID finds in the ranks' errors the process that they name; hooprun's sentence has
# it, too, where PART says so.
blames()
{
    HOOP_OP_TIMEOUT_MS=$((6000 * factor)) run -n "$2" "$desync" "$1" "$3"
    named=$(sed -n "s/.* fails .*$4.*/\\1/p" out | sort -u)
    like '^[0-9]+$' "$named" "$1: all errors name one process" || diag "$(cat out)"
    like "$5" "$err" "$1: hooprun's sentence"
    like "$6" "$(echo "$err" | sed "s/pid $named)/the one)/g")" "$1: names the same one"
    like "\"late_pid\":$named," "$("$top" --flight --json "$json" | cut -c 1-2000)" "$1: also as JSON"
}
sum='allreduce of 1000 x float32, sum'
order()
{
    blames order 4 2 'rank 2 ([^ ]*, pid \([0-9]*\)) waits in operation 1 ' \
        "ranks 0-1 and 3 .* in operation 7 \\($sum\\); rank 2 .* in operation 1 \\($sum\\) of another communicator of 4 ranks, as rank 2; the waits form a circle" \
        'rank 2 \([^ ]+, the one\) last finished operation 6'
}

chain()
{
    blames chain 5 4 'rank 1 ([^ ]*, pid \([0-9]*\)).* has not entered' \
        "ranks 0-2 .* in operation 1 \\($sum\\); rank 3 .* in operation 1 \\($sum\\) of another communicator of 2 ranks, as rank 0, where rank 1 " \
        'where rank 1 \([^ ]+, the one\) has finished no operation and has not called since'
}

# --- where the file goes, and who reads it ---

refused()
{
    wanted=$1 status=$2 text=$3
    shift 3
    said=$("$top" "$@" 2>&1)
    is "$status" $? "$text: exit status"
    like "$wanted" "$said" "$text: $said"
}

files()
{
    mkdir there
    run --flight-dir there -n 3 "$flight" kill
    is ' 1' "$json $(ls there | grep -c '^hoop-.*flight.json$')" '--flight-dir: it is there'
    mkdir gone
    run --flight-dir gone -n 3 sh -c '[ "$HOOP_RANK" != 1 ] || rmdir gone; exec "$0" kill' "$flight"
    like 'cannot write the flight recorders to .*gone/hoop-.*: No such file or directory; --flight-dir' "$err" \
        'a folder that is missing at the end'
    run --flight-dir nowhere -n 3 touch started
    is 2 "$status" 'a folder that is missing at the start: status 2'
    is "hooprun: --flight-dir $PWD/nowhere: No such file or directory; name a folder that exists on this machine, and in \
which you may write" "$err" 'and a sentence'
    nok 'before a rank is started' test -e started
    run --flight-dir out -n 3 touch started
    like '^hooprun: --flight-dir .*/out: Not a directory; ' "$err" 'a file in the place of a folder'
    run --flight-dir /proc -n 3 touch started
    like '^hooprun: --flight-dir /proc: .*; name a folder ' "$err" 'a folder in which nobody may write'
    nok 'before a rank is started, either' test -e started
    run -n 2 sh -c 'exit 3'
    is '' "$json" 'a job without the library leaves no file'
    HOOP_RECORDER=0 run -n 3 "$flight" kill
    is '' "$json" 'and one with HOOP_RECORDER=0'
    printf '#!/bin/sh\nXDG_RUNTIME_DIR=$PWD/$1\nexport XDG_RUNTIME_DIR\nshift\nexec "$@"\n' >shell
    chmod +x shell
    mkdir n1 n2
    run --rsh ./shell -H n1:1,n2:2 "$flight" kill
    like 'ranks 0 and 2 .* in operation [45] .*rank 1 \(.*ended' "$err" 'ranks on two hosts are put together'
    is '1 2' "$(ls n1/hoop | grep -c 'flight$') $(ls n2/hoop | grep -c 'flight$')" 'each of which has a folder of its own'
    "$top" --flight "$json" >shown
    is '0 1 2 ' "$(awk '$4 ~ /^(ended|running|moving)$/ {print $1}' shown | tr '\n' ' ')" 'and all are in the file' ||
        diag "$(cat shown)"


    refused 'or --job with --flight' 2 '--job alone' --job x
    refused 'see hoop-top --help' 2 'another option' --flight --nonsense
    refused 'hoop-top: nothing: cannot open' 1 'a file that is missing' --flight nothing
    echo nonsense >nonsense.flight
    echo '{}' >decoded.json
    refused 'nonsense.flight: it is no flight recorder' 1 'a file that is none' --flight nonsense.flight
    refused 'json: it is no file of flight recorders' 1 'JSON that is none' --flight decoded.json
    cp decoded.json a.json
    refused 'a.json: it is no file of flight recorders' 1 '... with a name of one letter' --flight a.json
    sed 's/"version":2/"version":9/' "$json" >later.json
    refused 'hoop-top: later.json: it has version 9 of the format, and this program knows version 2: use the hoop-top' 1 \
        'a file of another version' --flight later.json
    mkdir empty
    refused 'hoop-top: there is no recorder: a process that ends well' 1 'an empty folder' --flight empty
    refused 'hoop-top: there is no recorder of job other: ' 1 'another job' --flight --job other
    refused '"sentence":"there is no recorder"' 1 'as JSON' --flight --job other --json

    newest=$(ls there/hoop-*.flight.json)
    echo nonsense >there/hoop-old.flight.json
    touch -d '2001-01-01' there/hoop-old.flight.json
    mkdir there/hoop-new.flight.json
    ok 'a folder without recorders, in which hooprun has written' sh -c '"$0" --flight there/ >told 2>err' "$top"
    is "$("$top" --flight "$newest")" "$(cat told)" 'has the newest file explained,'
    is "hoop-top: there is no recorder, so it reads $newest, which hooprun has written" "$(cat err)" \
        'and standard error says which it is'
    "$top" --flight --json there >decoded.json 2>err
    like '"late_rank":1,' "$(cat decoded.json)" 'also as JSON'
    refused 'hoop-old.flight.json: it is no file of flight recorders' 1 'that of a job' --flight --job old there
    refused 'hoop-top: there is no recorder of job other: ' 1 'a job that wrote none' --flight --job other there
}

# --- jobs without hooprun ---

# tells SENTENCE: hoop-top says this of the recorders of this user.
tells() { "$top" --flight >told 2>&1 && head -n 1 told | grep -Eq "$1"; }

by_hand()
{
    rm -f hoop/*.flight
    start "$server" --security none --host 127.0.0.1 >lines 2>&1
    await grep -q 'listening on' lines || bail "the server does not start: $(cat lines)"
    address=$(sed -n 's/^hoop-rendezvous: listening on //p' lines)
    ranks=
    for rank in 0 1 2; do
        HOOP_SECURITY=none HOOP_RENDEZVOUS=$address HOOP_RANK=$rank HOOP_SIZE=3 start "$flight" sleep
        ranks="$ranks $started"
    done
    ok 'ranks that were started by hand: while they wait' await tells "^ranks 0 and 2 wait in operation 5 .*; rank 1 .* $late and has not called since\$" ||
        diag "$(cat told)"
    kill -KILL $ranks
    for rank in $ranks; do wait "$rank" 2>/dev/null; done
    ok 'and when all have been killed' tells "^ranks 0 and 2 were in operation 5 .*; rank 1 .* $late, and then its process ended\$" || diag "$(cat told)"
    HOOP_SIZE=1 start "$flight" well 1000000000
    one=$started
    ok 'a later job, which lives, is not mixed up with them' await tells '^the ranks go on: ' || diag "$(cat told)"
    is 'job hoop; recorders of 1 other job are here, too: --job or the names of the files choose one' "$(sed -n 2p told)" \
        'but they are mentioned'
    kill -KILL "$one"
    wait "$one" 2>/dev/null
    rm -f hoop/*.flight
}

# --- a full file system ---

full_system()
{
    if unshare -rm true 2>/dev/null || unshare -m true 2>/dev/null; then
        mkdir full
        unshare -rm true 2>/dev/null && own=-rm || own=-m
        unshare $own sh -c 'mount -t tmpfs -o size=64k none full && XDG_RUNTIME_DIR=$PWD/full "$0" -n 2 "$1" well 100' \
            "$hooprun" "$flight" >out 2>err
        is 0 $? 'on a full file system the job goes on'
        is 1 "$(grep -c 'no flight recorder: cannot reserve 134144 bytes in .*/full/hoop: No space left' err)" 'and one line tells why it is not recorded'
    else
        skip 2 'no mount namespace can be made here'
    fi
}

# --- side by side: most of them sleep ---

for name in late_rank stopped_rank dead_ranks split_rank named_calls other_job order chain files by_hand full_system; do
    scene "$name" "$name"
done
scenes_end

# --- a job that goes on, which computes ---

rm -f hoop-*.flight.json
start "$hooprun" -n 3 "$flight" well 1000000000 >out 2>err </dev/null
running=$started
goes_on() { "$top" --flight hoop >told 2>&1 && grep -q '^the ranks go on: ' told; }
ok 'ranks of a job at work are late for a moment only, and not named' await goes_on
like '^ +[0-2]  .*  moving  ' "$(cat told)" 'and their processes move'
asked() { kill -QUIT "$running"; sleep 1; grep -q '"process":"moving"' hoop-*.flight.json; }
ok 'Ctrl-\ reads the recorders twice, too' await asked
ok 'and hoop-top says of the file what it says of the job' "$top" --flight hoop-*.flight.json
like '^the ranks go on: ' "$("$top" --flight hoop-*.flight.json)" 'that the ranks go on'
kill -INT "$running"
wait "$running"
run --timeout 2 -n 3 "$flight" well 1000000000
nok 'at its time limit no rank of a job at work is late' grep -E 'wait in|waits in|has not called' err

# --- the cost ---

# calls RECORDER N: the system calls of N operations.
calls()
{
    HOOP_RECORDER=$1 strace -f -o trace "$flight" well "$2" 2>/dev/null
    wc -l <trace
}
if [ "${HOOP_TEST_SANITIZE:-no}" != no ] || ! command -v strace >/dev/null || ! strace -o counts true 2>/dev/null; then
    skip 1 'no strace here, or one that counts a sanitizer'
else
    off=$(($(calls 0 3000) - $(calls 0 1000))) on=$(($(calls 1 3000) - $(calls 1 1000)))
    diag "2000 operations more: $off system calls more without a recorder, $on with one"
    ok 'an operation makes no system call more with a recorder' test $((on - off)) -lt 100
fi
done_testing
