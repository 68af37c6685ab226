#!/bin/sh
# SPDX-License-Identifier: MIT
# hooprun's rendezvous server is a process of its own: it is killed ten times in a job that splits all the time, stopped,
# asked when it is dead, and killed when the program's file is gone or a rank that others wait for has ended. The job goes
# on, reports what happened, and leaves no process.
# time limit: 240
. "$abs_top_srcdir/t/tap/tap.sh"
. "$abs_top_srcdir/t/sys/hooprun.sh"
plan_lazy
splitter=$abs_top_builddir/t/sys/splitter
real_launcher=$abs_top_builddir/bin/hoop-launch
export HOOP_OP_TIMEOUT_MS=90000 HOOP_BOOTSTRAP_TIMEOUT_MS=90000

# server_of LAUNCHER: the process id of its server
server_of()
{
    for p in $(cat /proc/[0-9]*/stat 2>/dev/null | awk -v parent="$1" '$2 == "(hoop-launch)" && $4 == parent { print $1 }'); do
        if tr '\0' ' ' <"/proc/$p/cmdline" 2>/dev/null | grep -q -- ' --serve $'; then
            echo "$p"
            return
        fi
    done
    return 1
}
serves() { server=$(server_of "$launcher"); }
another_serves() { serves && [ "$server" != "$before" ]; }
is_gone() { case $(sed 's/.*) \(.\).*/\1/' "/proc/$1/stat" 2>/dev/null) in '' | Z | X) ;; *) return 1 ;; esac; }
has_done() { [ "$(wc -l <out)" -ge "$1" ]; }
# launch ARGUMENT...: hooprun in the background
launch()
{
    start "$hooprun" "$@" >out 2>err </dev/null
    launcher=$started
    await serves || diag "no server: $(cat err)"
}
# ends STATUS TEXT
ends()
{
    wait "$launcher"
    is "$1" $? "$2" || diag "$(cat err)"
    ok "$2: its server has ended" is_gone "$server"
}

ten_deaths()
{
    launch -n 4 "$splitter" 1500
    for k in 0 1 2 3 4 5 6 7 8 9; do
        wait_for 60 has_done $((40 * k)) || break
        before=$server
        kill -KILL "$server"
        wait_for 30 another_serves || break
        sleep 0.2 # of two that die at their start in a row only the first is told
    done
    ends 0 'a job whose server is killed ten times'
    is 4 "$(grep -c '^1500$' out)" 'every split was done'
    is 10 "$(grep -c 'server was killed by signal 9 (Killed); it is started again' err)" 'ten lines say so'
}

stops()
{
    launch -n 2 "$splitter" 60
    wait_for 60 has_done 4
    kill -STOP "$server"
    sleep 2
    kill -CONT "$server"
    ends 0 'a job whose server was stopped'
    nok 'it is not taken for dead' grep 'the process of the rendezvous server' err
}

interrupted()
{
    launch -n 2 "$splitter" 100000
    wait_for 60 has_done 4
    kill -STOP "$server"
    kill -TERM "$launcher"
    ends 143 'SIGTERM, with a server that is stopped'
}

# Its table is missing, and that is said.
asked()
{
    launch -n 2 "$splitter" 100000
    wait_for 60 has_done 4
    kill -STOP "$server"
    kill -QUIT "$launcher"
    await grep -q 'the process of the rendezvous server does not answer; is it stopped?' err
    kill -CONT "$server"
    kill -TERM "$launcher"
    ends 143 'a table of a server that is stopped'
    like 'does not answer; is it stopped' "$(cat err)" 'that is said'
}

summary()
{
    launch --summary -n 2 sh -c "$splitter 3; "'[ $HOOP_RANK = 1 ] || while [ ! -e go ]; do sleep 0.1; done'
    await grep -q 'ring of 2 ranks' err
    before=$server
    kill -KILL "$server"
    wait_for 30 another_serves
    : >go
    ends 0 'a summary that was told before the death'
    nok 'is not missed' grep 'no summary' err
}

# hoop was installed anew while the job ran: its file has another name, or none.
replaced()
{
    cp "$real_launcher" hoop-launch && start ./hoop-launch -n 2 "$splitter" 60 >out 2>err </dev/null
    launcher=$started
    await serves
    rm hoop-launch
    wait_for 60 has_done 4
    before=$server
    kill -KILL "$server"
    wait_for 30 another_serves
    ends 0 'a program whose file is gone'
}

# Who kills a hooprun that is suspended leaves no server that is suspended.
suspended()
{
    launch -n 2 "$splitter" 100000
    wait_for 60 has_done 4
    kill -STOP "$server" "$launcher"
    kill -KILL "$launcher"
    { wait "$launcher"; } 2>/dev/null
    ok 'a suspended hooprun is killed: its server ends' await is_gone "$server"
}

# What the launcher has told its server of ranks, the next one knows.
left()
{
    launch -n 2 sh -c '[ $HOOP_RANK = 0 ] || { : >gone; exit 0; }; while [ ! -e go ]; do sleep 0.1; done; exec '"$splitter 1"
    await [ -e gone ]
    sleep 1
    before=$server
    kill -KILL "$server"
    wait_for 30 another_serves
    : >go
    ends 1 'a rank that waits for one that has ended'
    like 'rank 1 (.*) ended before all ranks had joined' "$(cat err)" 'hears so from the new server'
}

# What a rank does is told with the same words after its server died.
fails()
{
    launch -n 2 sh -c '[ $HOOP_RANK = 0 ] || { sleep 3; exit 3; }; exec '"$splitter 1"
    before=$server
    kill -KILL "$server"
    wait_for 30 another_serves
    ends 3 'a rank that fails after the death of the server'
    like 'rank 1 .*exited with status 3' "$(cat err)" 'is named'
}

orphan()
{
    launch -n 2 "$splitter" 100000
    wait_for 60 has_done 4
    kill -KILL "$launcher"
    { wait "$launcher"; } 2>/dev/null
    ok 'hooprun is killed: its server ends' await is_gone "$server"
}

for picture in ten_deaths stops interrupted asked summary replaced suspended left fails orphan; do scene $picture $picture; done
scenes_end
done_testing
