#!/bin/sh
# SPDX-License-Identifier: MIT
# awaited.t: a start that does not go on is not silent: hooprun and hoop-rendezvous say which ranks are missing, and
# where no server answers, one rank of each host says that.
# time limit: 120
. "$abs_top_srcdir/t/tap/tap.sh"

hooprun=$abs_top_builddir/bin/hooprun
server=$abs_top_builddir/bin/hoop-rendezvous
export sleeper="$abs_top_builddir/t/sys/sleeper"
unset HOOP_HOSTFILE HOOP_RSH HOOP_SOCKET_IFNAME HOOP_DEBUG HOOP_RANK HOOP_SIZE HOOP_RENDEZVOUS HOOP_SECRET_FD HOOP_JOB
unset HOOP_LOCAL_RANK LOCAL_RANK HOOP_WARN_AFTER_MS
cd "$tmp" || bail "no scratch folder"
plan_lazy

"$server" --new-secret secret || bail 'no secret'
own_ports # nobody answers there yet
address=127.0.0.1:$port
export HOOP_SECRET_FILE="$tmp/secret"

# rank_of SIZE RANK NAME: by hand, in the background
rank_of()
{
    (
        HOOP_SIZE=$1 HOOP_RANK=$2 HOOP_RENDEZVOUS=$address "$sleeper" 9 0 2>"$3.$2"
        echo $? >"$3.status.$2"
    ) &
    tap_started="$tap_started $!"
}
ended() { [ "$(cat "$1".status.? 2>/dev/null | wc -l)" = "$2" ]; }

rank_of 3 0 hand
LOCAL_RANK=1 rank_of 3 1 hand
address=127.0.0.1:1
HOOP_BOOTSTRAP_TIMEOUT_MS=12000 rank_of 3 0 never
SLURM_LOCALID=1 HOOP_BOOTSTRAP_TIMEOUT_MS=12000 rank_of 3 0 local
address=127.0.0.1:$port
"$hooprun" -n 4 sh -c 'test $HOOP_RANK != 1 || sleep 12; exec "$sleeper" 9 0' >out 2>err </dev/null
is 0 $? 'under hooprun a rank comes after twelve seconds'
like '^hooprun: job [0-9a-f]{8}: 3 of 4 ranks are here after [0-9.]+ s; rank 1 \([^ ]+\) is missing$' "$(head -n 1 err)" \
    'a line says who is missing, and where it was started'
like '^hooprun: job [0-9a-f]{8}: all 4 ranks are here after [0-9.]+ s$' "$(tail -n 1 err)" 'and one that it has come'
is '' "$(grep -v ' ranks are here after ' err)" 'no other line'

await test -s hand.0
like "no server answers at $address \\(tried for [0-9.]+ s\\): Connection refused \\(nothing listens there: not started yet, " "$(head -n 1 hand.0)" \
    'by hand, no server: rank 0 says that none answers, and why'
is '' "$(cat hand.1)" 'another rank of its host does not'
await ended never 1
await ended local 1
is 0 "$(grep -c 'no server answers' local.0)" 'nor does a rank whose launcher counts it second on its host'
like '^[12]$' "$(grep -c 'no server answers at 127.0.0.1:1' never.0)" 'where none ever answers a rank says so'
is 0 "$(grep -c 'the rendezvous server answers' never.0)" 'and never that one does'

start "$server" --port "$port" --secret-file secret >server.out 2>server.err
await grep -q 'is missing' server.err
like '^hoop-rendezvous: job [0-9a-f]{8}: 2 of 3 ranks are here after [0-9.]+ s; rank 2 is missing$' "$(cat server.err)" \
    'a server comes: it says who is missing'
like 'the rendezvous server answers after [0-9.]+ s$' "$(tail -n 1 hand.0)" 'and rank 0 that it answers'
rank_of 3 2 hand
await ended hand 3
is '000' "$(cat hand.status.? | tr -d '\n')" 'the last rank comes, and all is well'
like '^hoop-rendezvous: job [0-9a-f]{8}: all 3 ranks are here after [0-9.]+ s$' "$(tail -n 1 server.err)" 'the server says so'
is '' "$(cat hand.1 hand.2)" 'the others have said nothing'
done_testing
