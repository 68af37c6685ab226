#!/bin/sh
# SPDX-License-Identifier: MIT
# comeback.t: hoop-rendezvous is killed, and started again on its port: a job that splits all the time goes on, however
# often that happens; so does one that shrinks or grows after it, or whose last rank has left before, and a server with another secret meanwhile changes nothing.
# time limit: 240
. "$abs_top_srcdir/t/tap/tap.sh"

server=$abs_top_builddir/bin/hoop-rendezvous
splitter=$abs_top_builddir/t/sys/splitter
unset HOOP_RANK HOOP_SIZE HOOP_RENDEZVOUS HOOP_SECRET_FD HOOP_SECRET_FILE HOOP_JOB HOOP_SECURITY
export HOOP_OP_TIMEOUT_MS=90000 HOOP_BOOTSTRAP_TIMEOUT_MS=90000
cd "$tmp" || bail 'no scratch folder'
plan_lazy
secret=$tmp/secret other=$tmp/other
"$server" --new-secret "$secret" && "$server" --new-secret "$other" || bail 'no secrets'

# serve SECRET: on the port of this scene
serve()
{
    start "$server" --comes-back --port "$port" --secret-file "$1" >>server.out 2>&1
    running=$started
}
# The shell says of a process that it was killed.
die() { kill -KILL "$running" && { wait "$running"; } 2>/dev/null; }
listens() { [ "$(grep -c 'listening on' server.out)" -ge "$1" ]; }

# ranks N ARGUMENT...: of splitter, started by hand
ranks()
{
    size=$1
    shift
    rank=0
    while [ $rank -lt "$size" ]; do
        (
            HOOP_RANK=$rank HOOP_SIZE=$size HOOP_RENDEZVOUS=127.0.0.1:$port HOOP_SECRET_FILE=$secret "$splitter" "$@" \
                >out.$rank 2>err.$rank
            echo $? >status.$rank
        ) &
        tap_started="$tap_started $!"
        rank=$((rank + 1))
    done
}
ended() { [ "$(cat status.* 2>/dev/null | wc -l)" = "$1" ]; }
has_done() { [ "$(wc -l <out.0)" -ge "$1" ]; }
# fine N WHAT
fine()
{
    wait_for 100 ended "$1"
    is "$(printf "%$1s" '' | tr ' ' 0)" "$(cat status.* | tr -d '\n')" "$2" || diag "$(cat err.* server.out)"
}

# Ten instants: at the start, between splits, and in them; the server is away for up to two seconds.
ten_deaths()
{
    own_ports
    serve "$secret"
    ranks 4 60
    for k in 0 1 2 3 4 5 6 7 8 9; do
        wait_for 60 has_done $((5 * k)) || break
        die
        [ $((k % 3)) = 0 ] || sleep $((k % 3))
        serve "$secret"
    done
    fine 4 'a server that dies ten times loses no job'
    is 60 "$(tail -n 1 out.3)" 'and no split'
    ok 'it was told of rings' grep -q 'known again, by its ranks' server.out
}

# after WHAT: of splitter
after()
{
    own_ports
    serve "$secret"
    ranks 4 6 "$1"
    wait_for 60 has_done 2
    die
    serve "$secret"
}

# The server dies after the last rank has left, and before the others do.
early()
{
    own_ports
    serve "$secret"
    ranks 4 2 early
    await ended 1
    die
    serve "$secret"
    fine 4 'ranks that leave later than one that left before'
}

shrinks()
{
    after shrink
    fine 4 'a shrink after it'
}

grows()
{
    after grow
    (
        HOOP_JOIN=1 HOOP_RENDEZVOUS=127.0.0.1:$port HOOP_SECRET_FILE=$secret "$splitter" 0 join >out.4 2>err.4
        echo $? >status.new
    ) &
    tap_started="$tap_started $!"
    fine 5 'a grow after it'
}

impostor()
{
    own_ports
    serve "$secret"
    ranks 4 20
    wait_for 60 has_done 2
    die
    serve "$other"
    await listens 2
    sleep 2
    nok 'a server with another secret gets no split done' has_done 20
    nok 'and hears of no ring' grep -q 'known again' server.out
    die
    serve "$secret"
    fine 4 'the right one, after it, does'
}

for picture in ten_deaths early shrinks grows impostor; do scene $picture $picture; done
scenes_end
done_testing
