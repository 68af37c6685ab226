#!/bin/sh
# SPDX-License-Identifier: MIT
# hooprun over ssh: a real sshd on loopback with keys and configuration of its own in the scratch folder. ~/.ssh is not
# touched. Three ports: a plain host, one whose shell prints a greeting, one where the home folder is another.
# time limit: 180
. "$abs_top_srcdir/t/tap/tap.sh"
hooprun=$abs_top_builddir/bin/hooprun
unset HOOP_HOSTFILE HOOP_RSH HOOP_SOCKET_IFNAME SSH_CONNECTION SSH_AUTH_SOCK
PATH=$PATH:/usr/sbin:/sbin
sshd=$(command -v sshd) || skip_all 'sshd is not installed (apt-get install openssh-server; its own daemon need not run)'
command -v ssh >/dev/null && command -v ssh-keygen >/dev/null || skip_all 'ssh is not installed (apt-get install openssh-client)'
case $(getent passwd "$(id -u)") in
*/nologin | */false | '') skip_all "sshd starts this user's shell, which is none: run it as a user who may log in" ;;
esac
cd "$tmp" || bail "no $tmp"
tmp=$(pwd)
chmod 700 .
made_run=
trap '[ -z "$made_run" ] || rmdir /run/sshd 2>/dev/null; tap_cleanup' 0
if [ "$(id -u)" = 0 ] && [ ! -d /run/sshd ]; then
    mkdir /run/sshd && chmod 755 /run/sshd && made_run=1
fi

for key in host user other; do
    ssh-keygen -q -t ed25519 -N '' -C "$key" -f "$key" || bail 'no key'
done
cp user.pub authorized
mkdir -p home/work
cat >greet <<'END'
#!/bin/sh
echo "Welcome to this cluster!"
printf 'You have no new mail. '
echo "quota: 97 % used" >&2
exec sh -c "$SSH_ORIGINAL_COMMAND"
END
cat >rehome <<END
#!/bin/sh
HOME=$tmp/home
export HOME
cd "\$HOME" && exec sh -c "\$SSH_ORIGINAL_COMMAND"
END
chmod +x greet rehome

# configure PORT: sshd and ssh for PORT, PORT + 1, PORT + 2
configure()
{
    cat >sshd_config <<END
ListenAddress 127.0.0.1:$1
ListenAddress 127.0.0.1:$(($1 + 1))
ListenAddress 127.0.0.1:$(($1 + 2))
HostKey $tmp/host
AuthorizedKeysFile $tmp/authorized
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
PermitRootLogin yes
MaxStartups 100
Match LocalPort $(($1 + 1))
    ForceCommand $tmp/greet
Match LocalPort $(($1 + 2))
    ForceCommand $tmp/rehome
END
    cat >ssh_config <<END
Host greeting
    Port $(($1 + 1))
Host elsewhere
    Port $(($1 + 2))
Host closed
    Port 1
Host changed
    HostKeyAlias changed
Host *
    HostName 127.0.0.1
    Port $1
    User $(id -un)
    IdentityFile $tmp/user
    IdentitiesOnly yes
    UserKnownHostsFile $tmp/known
    GlobalKnownHostsFile /dev/null
    HostKeyAlias all
    BatchMode yes
    LogLevel INFO
END
}
{
    echo "all $(cut -d' ' -f1,2 host.pub)"
    echo "changed $(cut -d' ' -f1,2 other.pub)"
} >known

reached() { ssh -F ssh_config plain true; }
try=0
until reached 2>/dev/null; do
    try=$((try + 1))
    [ $try -lt 6 ] || { diag "$(cat sshd.log; ssh -F ssh_config plain true 2>&1)"; skip_all "sshd does not start here: $(tail -n 1 sshd.log)"; }
    configure $((20000 + ($$ * 7 + try * 1303) % 12000))
    start "$sshd" -D -e -f "$tmp/sshd_config" 2>sshd.log
    await reached || stop "$started"
done
plan_lazy

# run ARGUMENT...
run()
{
    timeout 60 "$hooprun" --rsh "ssh -F '$tmp/ssh_config'" "$@" >out 2>err </dev/null
    status=$?
    out=$(cat out) err=$(cat err)
}
run -H n1:2,n2:2 sh -c 'echo $HOOP_RANK $HOOP_LOCAL_RANK ${HOOP_RENDEZVOUS%:*}'
is '0 0 127.0.0.1,1 1 127.0.0.1,2 0 127.0.0.1,3 1 127.0.0.1,' "$(sort out | tr '\n' ,)" 'four ranks on two hosts'
is '' "$err" 'silently'
LOST=1 KEPT=2 HOOP_DEBUG=WARN run -H n1 -x KEPT -x "WORDS=a  b'c" sh -c 'echo ${LOST-none} $KEPT $HOOP_DEBUG "$WORDS" "$1"; pwd' x 'd  "e'
is "none 2 WARN a  b'c d  \"e,$tmp," "$(echo "$out" | tr '\n' ,)" 'variables, words and folder arrive as they are'
run -H n1,n2 sh -c '[ $HOOP_RANK = 0 ] || { echo why >&2; exit 7; }; sleep 60'
is 7 "$status" 'exit status'
like 'rank 1 \(n2, pid [0-9]+, sh\) exited with status 7' "$err" 'and verdict'
head -c 1000000 /dev/urandom >random
timeout 60 "$hooprun" --rsh "ssh -F '$tmp/ssh_config'" -H n1,n2 sh -c '[ $HOOP_RANK != 0 ] || cat' <random >out
ok 'a megabyte through rank 0 and back' cmp random out

run -H greeting,n1 echo hello
is 'hello hello' "$(echo $out)" 'a shell that prints a greeting'
is '' "$err" 'does not disturb'
run -v -H greeting echo hello
like '^greeting\| Welcome to this cluster!' "$err" 'and is shown with -v'
mkdir -p mine/work
printf '#!/bin/sh\necho mine\n' >mine/tool
printf '#!/bin/sh\necho theirs\n' >home/tool
chmod +x mine/tool home/tool
rm mine/tool && mkdir mine/only
HOME=$tmp/mine
export HOME
cd mine/only || bail 'no folder'
timeout 60 "$hooprun" --rsh "ssh -F '$tmp/ssh_config'" -H elsewhere "$HOME/tool" >../../out 2>../../err </dev/null
cd "$tmp" || bail 'no folder'
is theirs "$(cat out)" 'another home: the program is found there'

run -H closed true
is 1 "$status" 'nobody listens there: status 1'
like '^hooprun: cannot start on closed: `ssh -F .* closed .*hoop-launch --agent` ended with status 255' "$err" 'host and command'
like '^closed\| ssh: connect to host 127.0.0.1 port 1: Connection refused' "$err" "ssh's own words"
run -H n1,changed sh -c 'echo ran'
is 1 "$status" 'a host key that has changed: status 1'
like '^changed\|.*REMOTE HOST IDENTIFICATION HAS CHANGED' "$err" "ssh's own words"
is '' "$out" 'nothing ran'
run --ssh-port 1 -H n1 true
like 'port 1: Connection refused' "$err" '--ssh-port'
run -H n1,n2 ./nonesuch
is 127 "$status" 'a missing program: 127'
is 1 "$(grep -c nonesuch err)" 'said once' # ssh may be slow, which is said, too
run --prefix /nowhere -H n1 true
is 1 "$status" 'no hoop there: status 1'
like '^hooprun: n1: hoop-launch not found' "$err" 'said'

# The ends: Ctrl-C, and the launcher or the connection killed.
none_left() { gone $(cat pids); }
ready() { [ "$(wc -l <pids)" -ge 2 ]; }
launch()
{
    : >pids
    start "$hooprun" --rsh "ssh -F '$tmp/ssh_config'" -H n1,n2 \
        sh -c 'trap "" TERM HUP INT; echo $$ >>pids; while :; do sleep 0.2; done' >out 2>err </dev/null
    await ready
}
launch
kill -INT "$started"
wait "$started"
is 130 $? 'Ctrl-C: status'
ok 'nothing is left' await none_left
launch
kill -KILL "$started"
wait "$started" 2>/dev/null
ok 'launcher killed: five seconds later nothing is left' await none_left
launch
for p in $(cat "/proc/$started/task/$started/children"); do
    kill -KILL "$p"
    break
done
wait "$started"
is 1 $? 'one ssh killed: status 1'
like '^hooprun: n[12] is lost: ' "$(cat err)" 'said'
ok 'nothing is left' await none_left
done_testing
