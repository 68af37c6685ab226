#!/bin/sh
# SPDX-License-Identifier: MIT
# What hoop-top and hooprun --summary show of real ranks' counters: who is late, who computes, what does not move, what was
# sent.
# time limit: 120
. "$abs_top_srcdir/t/tap/tap.sh"
PATH=$abs_top_builddir/bin:$PATH
laggard=$abs_top_builddir/t/sys/laggard
unset HOOP_HOSTFILE HOOP_RSH HOOP_SOCKET_IFNAME HOOP_DEBUG HOOP_RANK HOOP_SIZE HOOP_RENDEZVOUS HOOP_SECRET_FD HOOP_JOB
XDG_RUNTIME_DIR=$tmp
export XDG_RUNTIME_DIR
plan_lazy
cd "$tmp" || bail "no $tmp"
shows() { hoop-top --once >shown 2>&1 && grep -Eq "$1" shown; }
json() { hoop-top --json >json && python3 -c "import json; ring = json.load(open('json'))[0]['rings'][0]; print($1)"; }

# Rank 2 is late by 200 ms, more than others are by chance, 80 times; then all compute for 6 seconds. 4 MiB by 4 ranks: each sends 6 MiB.
start hooprun --summary -n 4 "$laggard" 2 200 80 1048576 6 >out 2>err </dev/null
ok 'the late rank is named' await shows '^slowest rank in the last minute: rank 2 \(.*\), late by [0-9.]+ ms'
diag "$(cat shown)"
like '^the ring: 0 ->|^the ring: 0 =' "$(grep '^the ring' shown)" 'the ring'
if command -v python3 >/dev/null; then
    is '2 True' "$(json 'ring["straggler"]["rank"], 0.1 < ring["straggler"]["late"]')" '--json: by about 200 ms'
    is 4 "$(json 'sum(r["counters"]["bytes_sent"] > 0 and r["counters"]["share_waited"]["data"] <= 1 for r in ring["ranks"])')" \
        '--json: all four have sent'
else
    skip 2 'python3 is not installed'
fi
ok 'ranks that compute are outside hoop' wait_for 30 shows '^0 .* outside hoop +[0-9]+ s'
wait "$started"
is 0 $? 'the job ends well'
like '^hooprun: ring of 4 ranks: 80 operations, 2\.01 GB sent in [0-9.]+ s, [0-9.]+ MB/s a rank$' "$(head -n 1 err)" \
    '--summary: what was sent, 80 times 4 times 6 MiB'
like '^hooprun: waited [0-9.]+% for data of other ranks, ' "$(sed -n 2p err)" 'what the ranks have waited for'
like '^hooprun: slowest rank since the start: rank 2 ' "$(sed -n 3p err)" 'which rank was late'

# A rank that never waits, since it is alone, and calls seldom: it reports each second, not only at every 64th call.
if command -v python3 >/dev/null; then
    start hooprun -n 1 "$laggard" 0 200 60 1 0 >out 2>err </dev/null
    reports() { [ "$(json '0 < ring["ranks"][0]["counters"]["operations"] < 60' 2>>json.err)" = True ]; }
    ok 'a rank with short operations at a slow pace reports' wait_for 30 reports
    kill "$started"
    wait "$started" 2>/dev/null
else
    skip 1 'python3 is not installed'
fi

# Without hooprun's --summary nothing is said.
hooprun -n 2 "$laggard" -1 0 2 1000 0 >out 2>err </dev/null
is '0 ' "$? $(cat err)" 'without --summary nothing is said'
hooprun --verbose -n 2 "$laggard" -1 0 2 1000 0 >out 2>err </dev/null
like 'ring of 2 ranks: 2 operations, ' "$(cat err)" '--verbose says it too'

hooprun --summary -n 1 "$laggard" -1 0 1 1000 0 >out 2>err </dev/null
like '^hooprun: ring of 1 rank: 1 operation, ' "$(cat err)" 'one of each is no plural'

hooprun --summary -n 2 true >out 2>err </dev/null
is 'hooprun: no summary: no rank has told the server what it did; does the program create a communicator?' "$(cat err)" \
    'a program without a ring'
hooprun --summary -n 2 ./nosuch >out 2>err </dev/null
is 1 "$(wc -l <err | tr -d ' ')" 'a program that is not there has only that said'
hooprun -v -n 2 true >out 2>err </dev/null
nok '-v alone does not miss it' grep 'no summary' err

# A rank is stopped: no bytes move.
cat >rank <<'END_RANK'
#!/bin/sh
echo $$ >pid.$HOOP_RANK
exec hoop-bench -b 64M -e 64M -w 0 -c 0 -n 1000000
END_RANK
chmod +x rank
start hooprun -n 3 ./rank >out 2>err </dev/null
await grep -q '^#' out || diag "no table of hoop-bench: $(cat err)"
ok 'bytes move' await shows '^0 .* [0-9]+\.[0-9]*[1-9][0-9]*  [0-9.]+ '
kill -STOP "$(cat pid.1)"
ok 'with a stopped rank bytes do not move' await shows '^0 .* 0\.00 +0\.00 +100% ' ||
    diag "$(cat shown)" "hooprun: $(cat err)" "hoop-bench: $(tail -n 3 out)"
kill -CONT "$(cat pid.1)"
kill "$started"
wait "$started" 2>/dev/null
done_testing
