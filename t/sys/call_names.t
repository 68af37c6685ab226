#!/bin/sh
# SPDX-License-Identifier: MIT
# The name of a call, wherever a user looks for the cause of a hang: in hoop-top, in the error of every rank, in the line of
# the server, and in the recorders.
# time limit: 120
. "$abs_top_srcdir/t/tap/tap.sh"
hooprun=$abs_top_builddir/bin/hooprun top=$abs_top_builddir/bin/hoop-top flight=$abs_top_builddir/t/sys/flight
unset HOOP_HOSTFILE HOOP_RSH HOOP_SOCKET_IFNAME
plan_lazy
cd "$tmp" || bail "no $tmp"
XDG_RUNTIME_DIR=$tmp
export XDG_RUNTIME_DIR
shows() { "$top" --once >shown 2>&1 && grep -Eq "$1" shown; }

# Rank 1 comes late, and the others wait for eight seconds.
(HOOP_OP_TIMEOUT_MS=8000; export HOOP_OP_TIMEOUT_MS
    exec "$hooprun" -n 3 "$flight" late >out 2>err </dev/null) &
job=$!
waits='rank 1 \(.*\) has not entered allreduce 5 \(gradients\), and its process runs; 2 ranks have waited'
ok 'hoop-top: its sentence' await shows "ring of 3 ranks: $waits"
is 2 "$(grep -cE '^[02]  .*  allreduce 5 \(gradients\)  ' shown)" 'and the rows of the ranks that wait'
if command -v python3 >/dev/null; then
    "$top" --json >json
    is 'gradients allreduce of 100 x float32, sum' "$(python3 -c 'import json
rank = json.load(open("json"))[0]["rings"][0]["ranks"][0]
print(rank["operation"]["name"], rank["operation"]["call"])')" '--json: both'
else
    skip 1 'python3 is not installed'
fi
wait "$job"
is 3 "$(grep -cE "^rank 1 \\(.*\\) has not entered allreduce 5 \\(gradients\\).* 2 ranks have waited" err)" 'every rank has the name in its error'
like 'failed: rank 1 .* has not entered allreduce 5 \(gradients\)' "$(cat err)" 'and so has the line of the server'
json=$(ls hoop-*.flight.json)
like '^ranks 0-2 have failed in allreduce 5 \(gradients\), called' "$("$top" --flight "$json")" 'and the recorders'
done_testing
