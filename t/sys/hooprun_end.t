#!/bin/sh
# SPDX-License-Identifier: MIT
# How a job ends when it is told to, and that nothing is left: Ctrl-C, TERM, HUP, a second Ctrl-C, the launcher or an agent
# killed, ranks that ignore TERM, are stopped, or have left children behind.
# time limit: 240
. "$abs_top_srcdir/t/tap/tap.sh"
. "$abs_top_srcdir/t/sys/hooprun.sh"
plan_lazy

# A rank writes the process ids of what it is made of; nothing of them may be left.
cat >rank <<'END'
#!/bin/sh
# rank [stubborn]: children in its own group, in another session, and orphaned ones
[ "$1" != stubborn ] || trap '' TERM INT HUP
sleep 300 &
echo $! >>pids
setsid sleep 300 &
echo $! >>pids
(setsid sh -c 'echo $$ >>pids; exec sleep 300' &)
echo $$ >>pids
while :; do sleep 0.2; done
END
# While its parent (hooprun) lives a zombie is not gone.
cat >forest <<'END'
#!/bin/sh
# prints how many of the processes in pids still run
n=0
for p in $(cat pids); do
    case $(sed 's/.*) \(.\).*/\1/' "/proc/$p/stat" 2>/dev/null) in
    '' | Z | X) ;;
    *) n=$((n + 1)) ;;
    esac
done
echo $n
END
chmod +x rank forest
rank=$tmp/rank forest=$tmp/forest
export rank
started_all() { [ "$(wc -l 2>/dev/null <pids)" -ge "$1" ]; }
none_left() { [ "$("$forest")" = 0 ]; }

# launch WANTED ARGUMENT...: starts hooprun, waits for so many processes; its id is in $started
launch()
{
    wanted=$1
    shift
    : >pids
    start "$hooprun" "$@" >out 2>err </dev/null
    await started_all "$wanted" || diag "only $(wc -l <pids) processes came"
}

rounds=$([ -n "${HOOP_TEST_FULL:-}" ] && echo 20 || echo 1)
told()
{
    for signal in $(for round in $(seq "$rounds"); do echo INT:130 TERM:143 HUP:129; done); do
        launch 12 -n 3 "$rank"
        kill -"${signal%:*}" "$started"
        wait "$started"
        is "${signal#*:}" $? "${signal%:*}: exit status"
        ok "${signal%:*}: nothing is left" none_left
        like "^hooprun: SIG${signal%:*}; stopping 3 ranks" "$(cat err)" "${signal%:*}: said"
    done
}

stubborn()
{
    launch 8 -n 2 "$rank" stubborn
    begin=$(cut -d. -f1 /proc/uptime)
    kill -INT "$started"
    wait "$started"
    is 130 $? 'ranks that ignore TERM: exit status'
    took=$(($(cut -d. -f1 /proc/uptime) - begin))
    ok 'they got five seconds' test $took -ge 4 -a $took -le $((8 + room))
    ok 'nothing is left' none_left
}

told_twice()
{
    launch 8 -n 2 "$rank" stubborn
    kill -INT "$started"
    await grep -q once err
    sleep 1 # what comes within half a second is the same one
    kill -INT "$started"
    begin=$(cut -d. -f1 /proc/uptime)
    wait "$started"
    is 130 $? 'a second Ctrl-C: exit status'
    took=$(($(cut -d. -f1 /proc/uptime) - begin))
    ok 'kills at once' test $took -le $((2 + room))
    ok 'nothing is left' none_left
}

# A program that saves what it has, in a process group of its own, as timeout(1) has it, or a shell with job control.
cat >keeper <<'END'
#!/bin/sh
trap 'sleep 1; echo saved >saved; exit 0' TERM
echo $$ >>pids
while :; do sleep 0.1; done
END
chmod +x keeper
export keeper=$tmp/keeper
is_stopped() { grep -q ' [tT] ' "/proc/$1/stat"; }
grouped()
{
    rm -f saved
    launch 2 -n 1 sh -c 'echo $$ >>pids; timeout 200 "$keeper"; echo over'
    kill -TSTP "$started"
    ok 'Ctrl-Z stops what is in another group of the rank, too' await is_stopped "$(tail -1 pids)"
    await is_stopped "$started"
    kill -CONT "$started"
    kill -TERM "$started"
    wait "$started"
    is 143 $? 'TERM, and a program in another group: exit status'
    is saved "$(cat saved)" 'it gets TERM, and the time to save'
    ok 'nothing is left' none_left
}

# Two different signals at once are one, as a service manager may send them.
two_at_once()
{
    rm -f saved
    launch 1 -n 1 "$keeper"
    kill -STOP "$started"
    kill -HUP "$started"
    kill -TERM "$started"
    kill -CONT "$started"
    wait "$started"
    like '^1(29|43)$' $? 'HUP and TERM at once: exit status'
    is saved "$(cat saved)" 'the rank has the time to save'
    nok 'and nobody says that it is killed' grep killing err
}

launcher_killed()
{
    for kind in $(for round in $(seq "$rounds"); do echo obedient stubborn; done); do
        launch 12 -n 3 "$rank" $kind
        kill -KILL "$started"
        wait "$started" 2>/dev/null
        ok "launcher killed: nothing is left ($kind)" await none_left
    done
}

# So is what a remote shell does behind its command.
shell_lingers()
{
    printf '#!/bin/sh\necho $$ >>pids\nshift\n"$@"\nsleep 300 & echo $! >>pids\nwait\n' >lingers
    chmod +x lingers
    launch 5 --rsh ./lingers -H n1 "$rank"
    kill -KILL "$started"
    wait "$started" 2>/dev/null
    ok 'launcher killed: nothing is left of a remote shell and its ranks' await none_left
}

# The launcher's whole process group killed, as timeout -s KILL or a batch system does.
group_killed()
{
    : >pids
    start setsid "$hooprun" -n 2 "$rank" stubborn >out 2>err </dev/null
    await started_all 8
    kill -KILL -"$started"
    wait "$started" 2>/dev/null
    ok 'its process group killed: nothing is left' await none_left
}

# An agent killed: its ranks go with it, and the launcher says so.
agent_killed()
{
    launch 1 -n 2 sh -c 'echo $$ >>pids; exec sleep 300'
    await started_all 2
    read -r pid name state agent rest <"/proc/$(head -1 pids)/stat"
    kill -KILL "$agent"
    wait "$started"
    is 1 $? 'agent killed: status 1'
    like 'is lost: .* was killed by signal 9' "$(cat err)" 'said'
    ok 'its ranks are gone' await none_left
}

stopped()
{
    launch 2 -n 2 sh -c 'echo $$ >>pids; kill -STOP $$'
    await grep -q '[tT]' "/proc/$(head -1 pids)/stat"
    kill -TERM "$started"
    wait "$started"
    is 143 $? 'stopped ranks are stopped for good'
    ok 'nothing is left' none_left
}

# One rank fails while the others ignore TERM.
one_fails()
{
    : >pids
    timeout 60 "$hooprun" -n 3 sh -c '[ $HOOP_RANK != 1 ] || { sleep 1; exit 7; }; exec "$rank" stubborn' >out 2>err </dev/null
    is 7 $? 'a rank exits 7: status 7'
    ok 'nothing is left of the others' none_left
}

# A rank that ends well leaves stubborn orphans: they get a second, then TERM, then KILL.
orphans()
{
    : >pids
    timeout 60 "$hooprun" -n 2 sh -c '"$rank" stubborn & sleep 0.5; exit 0' >out 2>err </dev/null
    is 0 $? 'orphans of a rank that ended well: status 0'
    ok 'nothing is left of them' none_left
}

# A pipe that is open, and that nobody reads, until $reader is stopped.
no_reader()
{
    : >pids
    mkfifo pipe
    sleep 300 <pipe &
    reader=$!
    tap_started="$tap_started $reader"
}

# Ctrl-C while nobody reads the output.
unread()
{
    no_reader
    start "$hooprun" -n 2 sh -c 'echo $$ >>pids; exec yes' >pipe 2>err </dev/null
    await started_all 2
    sleep 0.5
    kill -INT "$started"
    ok 'Ctrl-C works while nobody reads the output' await gone "$started"
    wait "$started"
    is 130 $? 'with its status'
    ok 'nothing is left' none_left
    stop "$reader"
}

# A rank fails while nobody reads what another one prints.
fails_unread()
{
    no_reader
    start "$hooprun" -n 2 sh -c 'echo $$ >>pids; [ $HOOP_RANK = 1 ] || exec yes; sleep 2; exit 7' >pipe 2>err </dev/null
    ok 'a rank that fails while nobody reads the output is reported' await grep -q 'rank 1 .*exited with status 7' err
    ok 'and the others are stopped' await none_left
    stop "$reader"
    wait "$started"
    is 7 $? 'with its status'
}

# Signals for the ranks themselves.
forwarded()
{
    for signal in USR1 USR2; do
        launch 2 -n 2 --forward-signals sh -c 'trap "echo $0; exit 0" $0; echo $$ >>pids; while :; do sleep 0.1; done' $signal
        kill -$signal "$started"
        wait "$started"
        is 0 $? "--forward-signals: $signal is passed on"
        is "$signal $signal" "$(echo $(cat out))" 'to every rank'
    done
}

# A rank leaves a process of another user behind, as by sudo -b, which hooprun may not kill. A set-user-ID copy of setpriv
# stands for sudo, for that user alone.
others()
{
    user=65534
    as_user() { setpriv --reuid=$user --regid=$user --clear-groups env HOME="$tmp" "$@"; }
    cp "$(command -v setpriv)" sudo && chmod 755 "$tmp" "${tmp%/*}" && chown 0:$user sudo && chmod 4750 sudo &&
        : >pids && chown $user pids
    if ! as_user ./sudo --reuid=0 true 2>/dev/null || ! as_user test -x "$hooprun"; then
        rm -f sudo
        skip 1 'no set-user-ID program here, or its user cannot run hooprun'
        return
    fi
    as_user timeout 60 "$hooprun" -n 1 sh -c './sudo --reuid=0 sleep 300 & echo $! >>pids' >out 2>err </dev/null
    status=$?
    rm -f sudo
    is 0 $status 'a process that hooprun may not kill does not keep it'
    kill "$(cat pids)"
}

for name in told stubborn told_twice grouped two_at_once launcher_killed shell_lingers group_killed agent_killed stopped one_fails orphans unread fails_unread forwarded others; do
    scene "$name" "$name"
done
scenes_end

# A launcher that dies before it has said anything, or that says nonsense: the agent does not wait for it. Nothing here
# counts on the TERM of timeout: a CONT goes with it, and LeakSanitizer, which stops a process at its end, then waits for
# ever.
agent=$abs_top_builddir/bin/hoop-launch
export agent
ends_well() { timeout -s KILL $((10 + room)) sh -c "$1" && [ "$(cat status)" = 0 ]; }
ok 'an agent without a launcher ends' ends_well ': | { "$agent" --agent; echo $? >status; } | cat >said'
nok 'an agent without pipes does not begin' timeout -s KILL 10 "$agent" --agent </dev/null
mkfifo words
exec 8<>words
printf 'GET / HTTP/1.1\r\nHost: %0100d\r\n\r\n' 0 >&8
ok 'an agent that hears nonsense ends' ends_well '{ "$agent" --agent 8>&-; echo $? >status; } <words | cat >said'
like 'secret' "$(tr -d '\000' <said)" 'and says what it wanted to hear'
done_testing
