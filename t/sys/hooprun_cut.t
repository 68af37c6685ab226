#!/bin/sh
# SPDX-License-Identifier: MIT
# A network that is cut between hooprun and an agent, without an end of any connection: two processes that hand the bytes
# on are the cable, and are stopped. What hooprun says at its end, what becomes of the ranks, and that Ctrl-Z, during
# which hooprun is as silent, ends nothing. The agent can always reach hooprun's server, as long as there is one.
# time limit: 120
. "$abs_top_srcdir/t/tap/tap.sh"
. "$abs_top_srcdir/t/sys/hooprun.sh"
HOOP_SOCKET_IFNAME=127.0.0.0/8
HOOP_PEER_TIMEOUT_MS=6000 # a lease of 9 s; of 21 s while the server answers
export HOOP_SOCKET_IFNAME HOOP_PEER_TIMEOUT_MS
plan_lazy

lines() { [ "$(wc -l 2>/dev/null <"$2")" -ge "$1" ]; }

mkfifo to_far from_far
cat >wire <<'END2'
#!/bin/sh
cat <from_far &
exec cat >to_far
END2
cat >local <<'END2'
#!/bin/sh
shift
exec "$@"
END2
cat >far <<'END2'
#!/bin/sh
# The other machine, at the end of the cable. It is no child of hooprun, which could kill it.
sh -c 'echo $$ >>cable; exec cat' <to_far | "$1" --agent 2>far.err | sh -c 'echo $$ >>cable; exec cat' >from_far
END2
chmod +x wire local far

# Stopped with Ctrl-Z meanwhile, for longer than an agent bears silence.
: >slept
start "$hooprun" --rsh ./local -H n2 sh -c 'echo $$ >>slept; sleep 1; exit 7' >out2 2>err2 </dev/null
asleep=$started
await lines 1 slept
kill -TSTP "$asleep"

: >pids
start setsid ./far "$abs_top_builddir/bin/hoop-launch"
start "$hooprun" --rsh ./wire -H n1:2 sh -c 'echo $$ >>pids; exec sleep 300' >out 2>err </dev/null
await lines 2 pids
sleep 1
kill -STOP $(cat cable)
ok 'a cut: a line' await lines 1 err
like '^hooprun: n1 \(ranks 0-1\) has sent nothing for [3-9]\.[0-9] s; is it down, or the network to it\?$' "$(cat err)" 'after three seconds it names the host'
sleep 10
nok 'while the agent reaches the server, nothing ends' gone "$started"
nok 'nor any rank' gone $(cat pids)
kill -CONT $(cat cable)
ok 'the cable is whole again: another line' await grep -q again err
like '^hooprun: n1 answers again after 1[0-9]\.[0-9] s$' "$(tail -n 1 err)" 'that it answers again'
kill -STOP $(cat cable)
cut=$(cut -d. -f1 /proc/uptime)
kill -INT "$started"
wait "$started"
is 130 $? 'Ctrl-C after a cut: status'
like '^hooprun: n1 did not answer; ranks 0-1 may still run there, for up to [0-9]+ s$' "$(tail -n 1 err)" 'the last line names the host and its ranks'
nok 'which do run' gone $(cat pids)
ok 'until the lease is over' wait_for 60 gone $(cat pids)
took=$(($(cut -d. -f1 /proc/uptime) - cut))
ok "not less: $took s" test "$took" -ge 6
like 'received nothing from hooprun for [0-9.]+ s, and a new connection to it is not answered either .*; it ends its ranks' "$(cat far.err)" \
    'their agent says why'
kill -KILL $(cat cable)

sleep 2
! gone "$(cat slept)" || diag "$(cat err2)"
kill -CONT "$asleep"
wait "$asleep"
is 7 $? 'Ctrl-Z for as long: the rank ends as it would have'
nok 'its agent has not counted the time' grep -q 'received nothing' err2
done_testing
