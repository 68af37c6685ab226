#!/bin/sh
# SPDX-License-Identifier: MIT
# rendezvous.t: hoop-rendezvous as a user meets it: its options, its errors, its lines; ranks started by hand that meet,
# are missing, come twice, come too early or without the right secret.
# time limit: 120
. "$abs_top_srcdir/t/tap/tap.sh"

server=$abs_top_builddir/bin/hoop-rendezvous
hello=$abs_top_builddir/examples/hello
unset HOOP_RANK HOOP_SIZE HOOP_RENDEZVOUS HOOP_SECRET_FD HOOP_SECRET_FILE HOOP_JOB HOOP_SECURITY HOOP_OP_TIMEOUT_MS
cd "$tmp" || bail "no scratch folder"
plan_lazy

# status COMMAND...: its exit status on stdout, what it said in the file said
status() { "$@" >said 2>&1 </dev/null; echo $?; }

# serve NAME OPTION...: starts a server; its lines go to NAME, its address is in $address
serve()
{
    lines=$1
    shift
    start "$server" "$@" >"$lines" 2>&1
    await grep -q 'listening on' "$lines" || bail "the server does not start: $(cat "$lines")"
    address=$(sed -n 's/^hoop-rendezvous: listening on //p' "$lines")
}

# rank NAME RANK SIZE: a rank in the background; its words go to NAME, its exit status to NAME.status
rank()
{
    (
        HOOP_RANK=$2 HOOP_SIZE=$3 HOOP_RENDEZVOUS=$address "$hello" >"$1" 2>&1
        echo $? >"$1.status"
    ) &
    tap_started="$tap_started $!"
}
ended() { for name; do [ -s "$name.status" ] || return 1; done; }

is 0 "$(status "$server" --help)" 'help'
is 0 "$(status "$server" -h)" 'help, though --host begins with that letter too'
ok 'help fits a screen' test "$(wc -l <said)" -le 24
ok 'and has an example' grep -q Example said
is 0 "$(status "$server" --version)" 'version'
like '^hoop-rendezvous [0-9]+\.[0-9]+\.[0-9]+$' "$(cat said)" 'its form'
if [ -w /dev/full ]; then
    for option in --help --version --complete-options --new-secret; do
        is 1 "$(HOME=$tmp XDG_CONFIG_HOME= "$server" $option 2>err >/dev/full; echo $?)" "$option with nowhere to write it: status 1"
        like '^hoop-rendezvous: cannot write to standard output: ' "$(cat err)" 'and a sentence'
    done
else
    skip 8 'there is no /dev/full'
fi
mkfifo hung_up
{
    read -r now <hung_up
    trap '' PIPE
    "$server" --help 2>err
    echo $? >status
} | {
    exec <&-
    echo >hung_up
}
is 1 "$(cat status)" 'where nobody reads the help any more, too'
like '^hoop-rendezvous: cannot write to standard output: ' "$(cat err)" 'and a sentence'
for wrong in --nonsense '--port 70000' '--port 1x' '--security perhaps' 'more' '--host 127.0.0.1 --interface lo'; do
    is 2 "$(status "$server" $wrong)" "refused: $wrong"
done
is 2 "$(status "$server" --security none --interface eth99)" 'an interface that is not there'
like '^hoop-rendezvous: --interface eth99 leaves no interface; this machine has ' "$(cat said)" 'the option is named'
is 2 "$(status "$server" --security none --interface 10.0.0.0/99)" 'a network that is none'
like '^hoop-rendezvous: --interface 10.0.0.0/99: "10.0.0.0/99" is neither an interface name' "$(cat said)" 'it is, too'
is 2 "$(status "$server" --port 0)" 'no secret'
like 'new-secret' "$(cat said)" 'it says how to make one'
is 0 "$(status "$server" --new-secret right)" 'a new secret'
is 600 "$(stat -c %a right)" 'only for the owner'
is 65 "$(wc -c <right | tr -d ' ')" 'of 64 digits'
is 2 "$(status "$server" --new-secret right)" 'an existing file is not touched'
cp right open && chmod 644 open
is 2 "$(status "$server" --secret-file open)" 'a secret that others can read'
is 0 "$(status "$server" --secret-file right --job one --job-secret one)" 'the key of one job'
is 600 "$(stat -c %a one)" 'only for the owner'
ok 'which says so' grep -Eqx 'hoop-job [0-9a-f]{32} [0-9a-f]{64}' one
is 2 "$(status "$server" --secret-file one --job two --job-secret two)" 'it makes no other key'
like 'another job than "two"' "$(cat said)" 'and says why'
is 2 "$(status "$server" --secret-file right --job-secret two)" 'a key of no job'
is 2 "$(status "$server" --security none --host 0.0.0.0)" 'no security, but open to the world'
is 2 "$(status timeout 20 "$server" --security none --job one)" 'one job without security: every job could join it'
like '^hoop-rendezvous: --job does not go with --security none: other jobs are rejected by' "$(cat said)" 'it says so'

serve first -port 0 -secret-file right
first=$started
is 2 "$(status "$server" --port "${address##*:}" --secret-file right)" 'a port in use'
like "port ${address##*:} .*in use" "$(cat said)" 'is named'

HOOP_SECRET_FILE=$tmp/right
export HOOP_SECRET_FILE
for r in 0 1 2; do
    HOOP_JOB=red rank "red$r" $r 3
    HOOP_JOB=blue rank "blue$r" $r 3
done
ok 'two jobs at once' await ended red0 red1 red2 blue0 blue1 blue2
is '0 0 0 0 0 0' "$(cat red?.status blue?.status | tr '\n' ' ' | sed 's/ $//')" 'all ranks succeed'
is 'rank 2 of 3: the sum of 1 to 3 is 6' "$(cat blue2)" 'with the right sum'
is 2 "$(grep -c '^job [0-9a-f]*: 3 ranks on 1 host joined, ring up after [0-9.]* s$' first)" 'a line when a job meets'
ok 'a line when it is over' await sh -c '[ $(grep -c "over: all 3 ranks left" first) -eq 2 ]'

HOOP_BOOTSTRAP_TIMEOUT_MS=7000
export HOOP_BOOTSTRAP_TIMEOUT_MS
rank lonely0 0 4
rank lonely2 2 4
ok 'ranks that never come' await ended lonely0 lonely2
# The server's time runs from the first rank's coming, which is a moment after that rank's own.
like 'ranks 1 and 3 of 4 did not join within [67]\.[0-9] s; 2 ranks on .* are waiting' "$(cat lonely0)" 'are named to those who wait'
ok 'and in the job line' grep -q '^job .*: failed: ranks 1 and 3 of 4' first

unset HOOP_BOOTSTRAP_TIMEOUT_MS
HOOP_JOB=one rank all0 0 2
HOOP_JOB=one HOOP_SECRET_FILE=$tmp/one rank own1 1 2
ok 'a rank with the secret and one with the job'"'"'s own key' await ended all0 own1
is '0 0' "$(cat all0.status own1.status | tr '\n' ' ' | sed 's/ $//')" 'are of one job'
HOOP_JOB=two HOOP_SECRET_FILE=$tmp/one rank astray 0 2
ok 'a key of another job' await ended astray
like 'is the key of another job than HOOP_JOB=two' "$(cat astray)" 'is said to be one'

"$server" --new-secret wrong
HOOP_BOOTSTRAP_TIMEOUT_MS=7000 HOOP_SECRET_FILE=$tmp/wrong rank stranger 0 2
HOOP_BOOTSTRAP_TIMEOUT_MS=7000 HOOP_SECURITY=none rank careless 0 2
ok 'a wrong secret is tried until the bring-up time-out, as a proxy whose target is late would be' await ended stranger
like 'WARN no connection to the rendezvous server .tried for [5-9]\.[0-9] s.: something accepts connections at .* another secret or job name.*HOOP_SECRET_FILE=.*wrong' \
    "$(cat stranger)" 'a line names it as likely after 5 s'
like 'closed [0-9]+ connections without an answer within [0-9.]+ s: wrong secret or job name, or a proxy with nothing behind it; .*HOOP_SECRET_FILE=.*wrong' \
    "$(cat stranger)" 'and so does the error'
ok 'HOOP_SECURITY=none at a server that asks for proof' await ended careless
like 'it may ask for the secret, while HOOP_SECURITY=none holds here' "$(cat careless)" 'is named as the likely mistake'
HOOP_RANK=0 HOOP_SIZE=2 HOOP_RENDEZVOUS=nohost timeout 20 "$abs_top_builddir/bin/hoop-bench" -e 4 -n 1 >said 2>&1
HOOP_RANK=0 HOOP_SIZE=0 HOOP_RENDEZVOUS=$address timeout 20 "$abs_top_builddir/bin/hoop-bench" -e 4 -n 1 >size0 2>&1
like 'is set but HOOP_SIZE is not, or is 0: ' "$(cat size0)" 'HOOP_SIZE=0 is not called unset'
like 'HOOP_RENDEZVOUS: .*nohost' "$(cat said)" 'a server that cannot be named: the variable is'
HOOP_RANK=0 HOOP_SIZE=2 HOOP_RENDEZVOUS=localhost:0 timeout 20 "$abs_top_builddir/bin/hoop-bench" -e 4 -n 1 >said 2>&1
like 'HOOP_RENDEZVOUS: no server is at port 0 .localhost:0.: write the port' "$(cat said)" 'nor is a port that none has waited for'

rank true0 0 2
await grep -q '1 of 2 ranks is here' first || diag "$(cat first)"
rank false0 0 2
ok 'a second rank 0' await ended false0
like 'duplicate rank' "$(cat false0)" 'is refused'
rank true1 1 2
ok 'the first is unharmed' await ended true0 true1
is '0 0' "$(cat true0.status true1.status | tr '\n' ' ' | sed 's/ $//')" 'and finishes its work'

kill -TERM "$first"
ok 'SIGTERM ends the server' await gone "$first"
wait "$first"
is 0 $? 'with status 0'

rank early0 0 2
rank early1 1 2
sleep 1
serve second --port "${address##*:}" --secret-file right
ok 'a server that is started after the ranks' await ended early0 early1
is '0 0' "$(cat early0.status early1.status | tr '\n' ' ' | sed 's/ $//')" 'serves them'
kill -INT "$started"
ok 'SIGINT ends it too' await gone "$started"

unset HOOP_SECRET_FILE
serve open --security none
HOOP_SECURITY=none
export HOOP_SECURITY
rank plain0 0 2
rank plain1 1 2
ok 'without security, on loopback' await ended plain0 plain1
is '0 0' "$(cat plain0.status plain1.status | tr '\n' ' ' | sed 's/ $//')" 'ranks meet as well'
stop "$started"
done_testing
