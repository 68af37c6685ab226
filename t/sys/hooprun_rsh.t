#!/bin/sh
# SPDX-License-Identifier: MIT
# hooprun through a remote shell, of which small scripts are the stand-ins: what agents are told, greetings, homes that
# differ, programs that are missing, shells that fail or hang.
# time limit: 240
. "$abs_top_srcdir/t/tap/tap.sh"
. "$abs_top_srcdir/t/sys/hooprun.sh"
plan_lazy

# shell NAME: a remote shell; its body comes on standard input and sees $host and the command in "$@".
shell()
{
    {
        printf '#!/bin/sh\nhost=$1\nshift\n'
        cat
    } >"$1"
    chmod +x "$1"
}

shell clean <<'END'
exec env -i PATH="$PATH" HOME="$HOME" HOST="$host" "$@"
END
LOST=1 KEPT=2 HOOP_DEBUG=WARN run --rsh ./clean -H n1:2,n2:2 -x KEPT -x MORE=3 \
    sh -c 'echo $HOST $HOOP_RANK $HOOP_LOCAL_RANK/$HOOP_LOCAL_SIZE ${LOST-none} $KEPT $MORE $HOOP_DEBUG'
is 'n1 0 0/2 none 2 3 WARN,n1 1 1/2 none 2 3 WARN,n2 2 0/2 none 2 3 WARN,n2 3 1/2 none 2 3 WARN,' \
    "$(sort out | tr '\n' ,)" 'ranks on two hosts: HOOP_* and -x are handed on'
run --rsh ./clean -H n1,n2 pwd
is "$tmp $tmp" "$(echo $out)" 'they run in our folder'
run --rsh ./clean -H n1,n2 sh -c 'test $HOOP_RANK = 0 || exit 9; sleep 60'
is 9 "$status" 'the status of a remote rank'
like 'rank 1 \(n2, pid [0-9]+, sh\) exited with status 9' "$err" 'and its host'
printf 'n1 iface=eth7\nn2 addr=127.0.0.9 slots=1\nn3\n' >hosts
run --rsh ./clean -f hosts sh -c 'echo $HOOP_RANK ${HOOP_SOCKET_IFNAME-none}'
is '0 eth7,1 127.0.0.9/32,2 none,' "$(sort out | tr '\n' ,)" 'iface= and addr= become HOOP_SOCKET_IFNAME'
printf 'n2 addr=127.0.0.9\n' >hosts
run --rsh ./clean -f hosts sh -c 'echo ${HOOP_RENDEZVOUS%:*} $MASTER_ADDR'
is '127.0.0.1 127.0.0.9' "$out" 'the server listens where addr= can reach it'
HOOP_SOCKET_IFNAME=127.0.0.0/8 run --rsh ./clean -H n1 sh -c 'echo ${HOOP_RENDEZVOUS%:*}'
is 127.0.0.1 "$out" 'or where HOOP_SOCKET_IFNAME says'
printf '#!/bin/sh\necho "$0: error while loading shared libraries: libhoop.so.0: cannot open" >&2\nexit 127\n' >unlinked
chmod +x unlinked
run --rsh ./clean -H n1 ./unlinked
like "n1 did not find hoop's library: name the folder where hoop is installed there, --prefix DIR" "$err" 'a library that is not found there'
HOOP_RSH=./clean run -H n1 sh -c 'echo $HOST'
is n1 "$out" 'HOOP_RSH'
out=$(printf 'one\ntwo\n' | "$hooprun" --rsh ./clean -H n1,n2 sh -c 'echo "$HOOP_RANK $(wc -l | tr -d " ")"' | sort | tr '\n' ' ')
is '0 2 1 0 ' "$out" 'standard input goes to rank 0'

# SSH_CONNECTION says where the hosts see us; our own, handed through by a local shell, says nothing.
shell ssh_like <<'END'
export SSH_CONNECTION="127.0.0.1 40000 127.0.0.1 22"
exec "$@"
END
run --rsh ./ssh_like -H n1,n2 sh -c 'echo ${HOOP_RENDEZVOUS%:*}'
is '127.0.0.1 127.0.0.1' "$(echo $out)" 'the server listens where the hosts see us'
shell wrong <<'END'
export SSH_CONNECTION="203.0.113.9 40000 127.0.0.1 22"
exec "$@"
END
run --rsh ./wrong -H n1 true
is 0 "$status" 'an address that is not ours is not believed'

shell greeting <<'END'
printf 'Welcome to %s!\nHOOP-AGENT 10 is what you will see soon\nLast login: never' "$host"
echo "motd" >&2
exec "$@"
END
HOOP_SOCKET_IFNAME=127.0.0.0/8 run --rsh ./greeting -H n1,n2 echo hello
is 'hello hello' "$(echo $out)" 'a greeting does no harm'
is '' "$err" 'and is not shown'
run -v --rsh ./greeting -H n1 echo hello
like '^n1\| Last login: never' "$err" 'except with -v'
shell painting <<'END'
printf 'tab\there\n\033[2Jcleared \23331m red \303\251\n'
exec "$@"
END
run -v --rsh ./painting -H n1 echo hello
like "^n1\\| tab	here\$" "$err" 'a tab of the shell'"'"'s stays'
like '^n1\| \?\[2Jcleared \?31m red é$' "$err" 'what could move the cursor does not'
shell asking <<'END'
trap '' TERM
printf 'Password: '
IFS= read -r answer || answer=nothing
echo "got $answer" >>"$0.heard"
exit 5
END
HOOP_BOOTSTRAP_TIMEOUT_MS=1000 run --rsh ./asking -H n1 true
is 1 "$status" 'a shell that asks: status 1'
like '^hooprun: n1 has not answered within 1 s: ' "$err" 'is not waited for for ever'
like '^n1\| Password: $' "$err" 'its question is shown'
echo bootstrap_timeout_ms=2000 >hoop.conf
HOOP_CONF_FILE=hoop.conf run --rsh ./asking -H n1 true
like '^hooprun: n1 has not answered within 2 s: ' "$err" 'a settings file may have the time'
nok 'and it never hears the secret' grep -q 'got [^n]' asking.heard

# ssh joins its words and lets a shell take them apart again.
shell joining <<'END'
exec sh -c "$*"
END
run --rsh ./joining -H n1 sh -c 'echo "$1"' x "a  b'c \$HOME"
is "a  b'c \$HOME" "$out" 'a shell that splits words'

# Another home, another folder.
mkdir -p home/alice/work homes/bob/work away
printf '#!/bin/sh\necho tool of $HOME\n' >home/alice/tool
sed 's/tool of/other tool of/' home/alice/tool >homes/bob/tool
chmod +x home/alice/tool homes/bob/tool
shell elsewhere <<'END'
export HOME="${0%/*}/homes/bob"
case $HOME in /*) ;; *) HOME=$PWD/${HOME#./} ;; esac
mv "$ALICE" "$ALICE.gone"
cd / && "$@"
status=$?
mv "$ALICE.gone" "$ALICE"
exit $status
END
ALICE=$tmp/home/alice
export ALICE
cd home/alice/work || bail 'no folder'
HOME=$ALICE timeout 60 "$hooprun" --rsh "$tmp/elsewhere" -H n1 sh -c 'pwd' >"$tmp/out" 2>"$tmp/err" </dev/null
cd "$tmp" || bail 'no folder'
is "$tmp/homes/bob/work" "$(cat out)" 'a folder in our home is looked for in theirs'
HOME=$ALICE run --rsh "$tmp/elsewhere" -H n1 "$ALICE/tool"
is "other tool of $tmp/homes/bob" "$out" 'so is a program'
mkdir home/alice/only
cd home/alice/only || bail 'no folder'
HOME=$ALICE timeout 60 "$hooprun" --rsh "$tmp/elsewhere" -H n1 sh -c 'pwd' >"$tmp/out" 2>"$tmp/err" </dev/null
is 1 $? 'a folder that neither home has: status 1'
cd "$tmp" || bail 'no folder'
like '^hooprun: n1: cannot change into the folder .*/alice/only, in which hooprun was started: No such file' "$(cat err)" \
    'the host and the folder are named'
is '' "$(cat out)" 'and nothing runs elsewhere'
HOME=$ALICE run --rsh "$tmp/elsewhere" -H n1 --wdir "$ALICE/work" true
is 1 "$status" 'but --wdir is meant as it is written'
like '^hooprun: n1: cannot change into the folder ' "$err" 'said'

# What is missing.
HOOP_SOCKET_IFNAME=127.0.0.0/8 run --rsh ./clean -H n1:2,n2:2 ./nonesuch
is 127 "$status" 'no such program: 127'
is 1 "$(wc -l <err | tr -d ' ')" 'said once'
shell half <<'END'
[ "$host" != n2 ] || PATH=/nowhere
exec "$@"
END
cat >onlyhere <<'END'
#!/bin/sh
sleep 60
END
chmod +x onlyhere
HOOP_SOCKET_IFNAME=127.0.0.0/8 PATH=$tmp:$PATH run --rsh ./half -H n1:2,n2:2 onlyhere
is 127 "$status" 'a program that one host lacks: 127'
like '^hooprun: n2: there is no program onlyhere in PATH \(/nowhere\)' "$err" 'names the host'
is 1 "$(wc -l <err | tr -d ' ')" 'once'

mkdir launchers
ln -s "$abs_top_builddir/bin/hoop-launch" launchers/hoop-launch
shell nopath <<'END'
case $1 in
/*) echo "$0: $1: not found" >&2; exit 127 ;;
esac
PATH=${0%/*}/launchers:$PATH exec "$@"
END
run --rsh "$tmp/nopath" -H n1 echo hello
is hello "$out" 'hoop-launch is looked for in PATH when it is not at the same place'
shell nolaunch <<'END'
echo "sh: 1: $1: not found" >&2
exit 127
END
run --rsh ./nolaunch -H n1,n2 true
is 1 "$status" 'no hoop-launch there: status 1'
like '^hooprun: n[12]: hoop-launch not found \(.*\); install hoop there, or name its folder with --prefix DIR' \
    "$err" 'said'
mkdir -p opt/bin
ln -s "$abs_top_builddir/bin/hoop-launch" opt/bin/hoop-launch
shell where <<'END'
echo "$1" >"${0%/*}/called"
exec "$@"
END
run --rsh "$tmp/where" --prefix "$tmp/opt" -H n1 echo hello
is "hello $tmp/opt/bin/hoop-launch" "$out $(cat called)" '--prefix'

mkdir opt/lib
: >opt/lib/libhoop.so.0
run --rsh ./clean --prefix "$tmp/opt" -H n1,n2 -x LD_LIBRARY_PATH=/else sh -c 'echo $LD_LIBRARY_PATH'
is "$tmp/opt/lib:/else $tmp/opt/lib:/else" "$(echo $out)" "... and ranks find hoop's library there"
run --rsh ./clean --prefix opt -H n1 sh -c 'echo $LD_LIBRARY_PATH'
is "$tmp/opt/lib" "$out" '... relative to our folder'
run --rsh ./clean -H n1 sh -c 'echo ${LD_LIBRARY_PATH-unset}'
is unset "$out" '... and without it are left alone'

# Shells that fail, hang, talk nonsense or die.
shell failing <<'END'
[ "$host" = n1 ] && exec "$@"
echo 'ssh: connect to host n2 port 22: No route to host' >&2
exit 255
END
run --rsh ./failing -H n1,n2,n1 sh -c 'echo ran'
is 1 "$status" 'a host that cannot be reached: status 1'
like '^hooprun: cannot start on n2: `./failing n2 [^`]*hoop-launch --agent` ended with status 255' "$err" 'host and command'
like '^n2\| ssh: connect to host n2 port 22: No route to host' "$err" 'and the shell'"'"'s own words'
is '' "$out" 'nothing ran anywhere'
run --rsh ./nonesuch -H n1 true
like '^hooprun: there is no program ./nonesuch to reach n1 with' "$err" 'a remote shell that is not there'
shell hanging <<'END'
[ "$host" = n1 ] && exec "$@"
echo $$ >>pids
sleep 300 &
echo $! >>pids
wait
END
hanging_started() { [ "$(wc -l <pids)" = 2 ]; }
: >pids
start "$hooprun" --rsh ./hanging -H n1,n2 true >out 2>err </dev/null
await hanging_started
kill -INT "$started"
ok 'Ctrl-C while a host does not answer' await gone "$started"
wait "$started"
is 130 $? 'has its status'
for p in $(cat pids); do
    ok 'and leaves nothing here' await gone "$p"
done
shell babbling <<'END'
printf '\nHOOP-AGENT 10 9.9.9 -\nthis is no packet at all'
sleep 60
END
run --rsh ./babbling -H n1 true
is 1 "$status" 'an agent that talks nonsense: status 1'
like '^hooprun: n1: received data that is not a hooprun message .*same version' "$err" 'said'
shell older <<'END'
printf '\nHOOP-AGENT 3 0.0.9 -\n'
sleep 60
END
run --rsh ./older -H n1 true
is 1 "$status" 'an agent of another version: status 1, at once'
like '^hooprun: n1: its hoop-launch \(0\.0\.9\) sends other messages than this hooprun understands; is it the same version' "$err" 'said'
shell littering <<'END'
printf '\nHOOP-AGENT 10 9.9.9 -\nthis is no packet at all'
for i in $(seq 300); do
    sleep 60 &
done
wait
END
clean_of_litter() { ! grep -qlazx "LITTER=$$" /proc/[0-9]*/environ 2>/dev/null; }
for round in 1 2 3; do
    LITTER=$$ run --rsh ./littering -H n1 true
    ok 'a remote shell that starts processes when it is ended: none is left' await clean_of_litter
done
shell dying <<'END'
exec 3<&0
"$@" <&3 &
until [ -e up ]; do sleep 0.1; done
kill -KILL $!
exit 1
END
run --rsh ./dying -H n1 sh -c 'touch up; exec sleep 60'
is 1 "$status" 'an agent that dies: status 1'
like '^hooprun: n1 is lost: ' "$err" 'said'

# A shell that stays when the launcher is killed: the agent sees the end of its input.
shell staying <<'END'
"$@"
END
: >pids
start "$hooprun" --rsh ./staying -H n1,n2 sh -c 'echo $$ >>pids; trap "" TERM; while :; do sleep 0.2; done' >out 2>err </dev/null
await hanging_started
kill -KILL "$started"
wait "$started" 2>/dev/null
for p in $(cat pids); do
    ok 'launcher killed: five seconds later the ranks are gone' await gone "$p"
done

# Many hosts.
hosts=$(awk 'BEGIN { for (i = 1; i <= 100; i++) printf "%sm%d", (i > 1 ? "," : ""), i }')
run --rsh ./clean -H "$hosts" sh -c 'echo $HOST'
is 100 "$(sort -u out | wc -l | tr -d ' ')" 'a hundred hosts'
done_testing
