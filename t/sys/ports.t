#!/bin/sh
# SPDX-License-Identifier: MIT
# ports.t: HOOP_PORT_RANGE as a user behind a firewall meets it: servers and ranks take the first free port of it, from
# the environment, a settings file or -x; used up, it is named.
# time limit: 120
. "$abs_top_srcdir/t/tap/tap.sh"

server=$abs_top_builddir/bin/hoop-rendezvous hooprun=$abs_top_builddir/bin/hooprun hello=$abs_top_builddir/examples/hello
unset HOOP_RANK HOOP_SIZE HOOP_RENDEZVOUS HOOP_SECRET_FD HOOP_JOB HOOP_SECURITY HOOP_HOSTFILE HOOP_RSH HOOP_SOCKET_IFNAME \
    HOOP_PORT_RANGE
cd "$tmp" || bail "no scratch folder"
plan_lazy
"$server" --new-secret secret || bail 'no secret'
HOOP_SECRET_FILE=$tmp/secret HOOP_CONF_FILE=
export HOOP_SECRET_FILE HOOP_CONF_FILE

status() { "$@" >said 2>&1 </dev/null; echo $?; }

# serve NAME [VARIABLE=VALUE... --] OPTION...: a server; its lines go to NAME, its port is in $port, empty when it ends.
serve()
{
    lines=$1
    shift
    start env "$@" >"$lines" 2>&1
    port=
    await grep -q . "$lines" || bail 'the server says nothing'
    port=$(sed -n 's/^hoop-rendezvous: listening on .*://p' "$lines")
}

# A run of five ports of which the first is free; who else uses one of them is not of this test.
try=0
while :; do
    first=$((12000 + ($$ + 997 * try) % 1500 * 10))
    serve one HOOP_PORT_RANGE=$first-$((first + 1)) "$server"
    [ "$port" = $first ] && break
    try=$((try + 1))
    [ $try -lt 20 ] || bail 'no free ports'
done
one=$started range=$first-$((first + 1))
is $first "$port" 'a server takes the first free port of the range'
serve two HOOP_PORT_RANGE=$range "$server"
is $((first + 1)) "$port" 'the next one the next'
two=$started
is 2 "$(status env HOOP_PORT_RANGE=$range "$server")" 'and a third one none'
like "all ports of HOOP_PORT_RANGE=$range are in use on 127\.0\.0\.1; .*larger range" "$(cat said)" 'which it says'
serve three HOOP_PORT_RANGE=$range "$server" --port 0
nok '--port wins' sh -c "[ -z '$port' ] || [ $port -le $((first + 1)) ] && [ $port -ge $first ]"
kill $one $two $started
wait $one $two $started
printf 'port_range = %s\n' $((first + 2)) >conf
serve four HOOP_CONF_FILE=conf "$server"
is $((first + 2)) "$port" 'a settings file says it too'
serve five HOOP_CONF_FILE=conf HOOP_PORT_RANGE=$first "$server"
is $first "$port" 'and the environment before it'
kill $started
is 2 "$(status env HOOP_PORT_RANGE=5900-5800 "$server")" 'no range'
like 'HOOP_PORT_RANGE=5900-5800: give the first and the last port' "$(cat said)" 'it says what one is'

within() { [ "$1" -ge "$2" ] && [ "$1" -le "$3" ]; }
unset HOOP_SECRET_FILE
first=$((first + 3)) last=$((first + 7))
is 0 "$(status env HOOP_PORT_RANGE=$first-$last "$hooprun" -n 3 sh -c 'echo "port ${HOOP_RENDEZVOUS##*:}"; exec "$@"' sh "$hello")" \
    'hooprun and three ranks'
ok 'the server within the range' within "$(sed -n 's/^port //p' said | head -n 1)" $first $last
is 3 "$(grep -c 'the sum of 1 to 3 is 6' said)" 'and the right sum'
is 0 "$(status "$hooprun" -x HOOP_PORT_RANGE=$first-$last -n 3 sh -c 'echo "port ${HOOP_RENDEZVOUS##*:}"; exec "$@"' sh "$hello")" \
    'likewise with -x'
ok 'which is for the server as well' within "$(sed -n 's/^port //p' said | head -n 1)" $first $last
like '^[1-9]' "$(status env HOOP_PORT_RANGE=$first "$hooprun" -n 2 "$hello")" 'one port for the server and two ranks'
like "the one port of HOOP_PORT_RANGE=$first-$first is in use" "$(cat said)" 'is too few, and named'
done_testing
