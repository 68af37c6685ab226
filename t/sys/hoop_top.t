#!/bin/sh
# SPDX-License-Identifier: MIT
# hoop-top: the jobs of hooprun, of hoop-rendezvous and of a program's own server, at work and held up; as text, as JSON, on a
# screen; by address, with the secret and without; in both folders of the user; and what is left of servers that were killed.
# time limit: 240
. "$abs_top_srcdir/t/tools/own_shm.sh"
. "$abs_top_srcdir/t/tap/tap.sh"
PATH=$abs_top_builddir/bin:$PATH
unset HOOP_HOSTFILE HOOP_RSH HOOP_SOCKET_IFNAME TMUX
XDG_RUNTIME_DIR=$tmp
export XDG_RUNTIME_DIR
python=$(command -v python3) || python=
plan_lazy
cd "$tmp" || bail "no $tmp"

cat >rank <<'END_RANK'
#!/bin/sh
echo $$ >pid.$HOOP_RANK
exec hoop-bench -b 1M -e 1M -w 0 -c 0 -n 1000000
END_RANK
chmod +x rank
shows() { hoop-top --once >shown 2>&1 && grep -Eq "$1" shown; }
sockets() { ls hoop | grep -c 'socket$'; }
has_screen() { command -v tmux && grep -q HAVE_NCURSES "$abs_top_builddir/config.log"; } >/dev/null
# show LINES COMMAND: on a screen of 60 columns, by a server of its own: one that ends may still have the last one's name.
screens=0
screen() { TMUX_TMPDIR=$tmp LC_ALL=C.UTF-8 tmux -u -f /dev/null -L $screens "$@"; }
show() { screens=$((screens + 1)); screen new-session -d -x 60 -y "$1" "$2"; }
on_screen() { screen capture-pane -p >screen && grep -Eq "$1" screen; }
key() { screen send-keys "$@"; }
hide() { screen kill-server; }

is 1 "$(hoop-top >out 2>err; echo $?)" 'no job: status 1'
like '^hoop-top: no job of this user' "$(cat err)" 'and a sentence'
nok 'a wrong option' hoop-top --twice
is 2 "$(hoop-top -jsonx 2>err; echo $?)" 'one with a dash: status 2'
like '^hoop-top: there is no option -jsonx; the nearest one is --json; see' "$(cat err)" 'and it is named'
is '[]' "$(hoop-top -json 2>err)" 'an option with one dash'
nok 'a wrong number of rows' hoop-top --rows 0
if [ -w /dev/full ]; then
    for option in --help --version --complete-options; do
        is 1 "$(hoop-top $option 2>err >/dev/full; echo $?)" "$option with nowhere to write it: status 1"
        like '^hoop-top: cannot write to standard output: ' "$(cat err)" 'and a sentence'
    done
else
    skip 6 'there is no /dev/full'
fi
mkfifo hung_up
{
    read -r now <hung_up
    trap '' PIPE
    hoop-top --help 2>err
    echo $? >status
} | {
    exec <&-
    echo >hung_up
}
is 1 "$(cat status)" 'where nobody reads the help any more, too'
like '^hoop-top: cannot write to standard output: ' "$(cat err)" 'and a sentence'
is 1 "$(hoop-top 4711 2>/dev/null; echo $?)" 'what is no address'

start hooprun -n 3 ./rank >out 2>err </dev/null
await grep -q '^#' out || diag "no table of hoop-bench: $(cat err)"
ok 'a job at work' await shows '^job [0-9a-f]*, ring of 3 ranks: '
like "^hooprun, pid $started" "$(cat shown)" 'its server'
is 3 "$(grep -cE "^[012]  " shown)" 'a row a rank'
kill -STOP "$(cat pid.1)"
ok 'a stopped rank is named' await shows "ring of 3 ranks: rank 1 \(.*, pid $(cat pid.1)\)"
is 1 "$(hoop-top --rows 1 | grep -cE '^[012]  ')" '--rows 1: one row'
like '^1  ' "$(hoop-top --rows 1)" 'that of the stopped rank'
like '^and 2 more ranks: 2 in an operation' "$(hoop-top --rows 1)" 'and the others are counted'
if [ -n "$python" ]; then
    hoop-top --json >json
    is "1 hooprun running 3 [1] True" "$("$python" -c 'import json
job, = json.load(open("json"))
ring, = job["rings"]
awaited = [rank["rank"] for rank in ring["ranks"] if rank["awaited"]]
call = ring["ranks"][0]["operation"]["call"].split()[0]
print(job["version"], job["server"], ring["state"], ring["size"], awaited, call.isalpha())')" \
        '--json says so too'
else
    skip 1 'python3 is not installed'
fi

# On a terminal of 60 columns: drawn anew, until q.
if command -v script >/dev/null && grep -q HAVE_NCURSES "$abs_top_builddir/config.log"; then
    (sleep 8; printf q) | TERM=xterm timeout -s KILL 60 script -qec 'stty rows 12 cols 60; hoop-top; echo ended $?' typescript >/dev/null
    like 'ring of 3 ranks' "$(tr -d '\000' <typescript)" 'a screen'
    like 'ended 0' "$(tr -d '\000' <typescript)" 'until q'
    TERM=xterm timeout -s KILL 60 script -qec 'hoop-top </dev/null; echo ended $?' typescript </dev/null >/dev/null
    like 'ring of 3 ranks.*ended 0' "$(tr -d '\000' <typescript | tr '\n' ' ')" 'once, where nobody can press a key'
else
    skip 3 'hoop-top has no ncurses here, or script is not installed'
fi

# A screen of 12 lines, seen through tmux, has room for one rank; the keys reach the others.
if has_screen; then
    show 12 'hoop-top; echo ended $?; sleep 60'
    ok 'a screen' await on_screen '^1  '
    nok 'which is too small for the other ranks' on_screen '^[02]  '
    key Space
    ok 'space shows them' await on_screen '^2  '
    sleep 2
    ok 'and goes on to' on_screen '^2  '
    goes_up() { key Up; on_screen '^and 2 more ranks'; }
    ok 'up to the top: what fits' await goes_up || diag "$(cat screen)"
    key q
    ok 'until q' await on_screen '^ended 0'
    hide
    show 40 'hoop-top --rows 2'
    ok 'on a screen, too, --rows 2' await on_screen '^and 1 more rank'
    is 2 "$(grep -c '^[012]  ' screen)" 'is two rows'
    key Down
    sleep 1
    ok 'and keys change nothing' on_screen '^and 1 more rank'
    hide
else
    skip 9 'hoop-top has no ncurses here, or tmux is not installed'
fi

# A server that does not answer, or was killed.
read -r launcher <<END_PID
$started
END_PID
server=$(ls hoop/*.socket)
server=${server#hoop/}
server=${server%%-*}
kill -STOP "$server"
like 'does not answer' "$(hoop-top)" 'a stopped server: said, after two seconds'
kill -CONT "$server"
kill -CONT "$(cat pid.1)"
kill -STOP "$launcher" # so that it starts no other server
kill -KILL "$server"
kill -KILL "$launcher"
wait "$launcher" 2>/dev/null
is 1 "$(sockets)" 'a killed server leaves its socket'
dead=$(ls hoop/*.socket)
nok 'which is no job' hoop-top
is 0 "$(sockets)" 'and which hoop-top removes'

# hooprun removes it, too: a dead socket, but neither a living one, nor a link, nor a file of that name. A server gets its
# name when it listens, as hoop's does: before that it looks dead.
if [ -n "$python" ]; then
    "$python" -c 'import socket, sys
socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$dead"
    "$python" -c 'import socket, sys
socket.socket(socket.AF_UNIX).bind(sys.argv[1])' hoop/elsewhere
    ln -s elsewhere hoop/9-9.socket
    : >hoop/8-8.socket
    "$python" -c 'import os, socket, sys, time
living = socket.socket(socket.AF_UNIX)
living.bind("early")
living.listen()
os.rename("early", sys.argv[1])
time.sleep(100)' hoop/7-7.socket &
    alive=$!
    await test -S hoop/7-7.socket
    hooprun -n 1 true
    is "7-7.socket 8-8.socket 9-9.socket elsewhere " "$(ls hoop | grep -v 'flight$' | tr '\n' ' ')" \
        'hooprun removes dead sockets, and nothing else'
    kill "$alive"
    wait "$alive" 2>/dev/null
    rm -f hoop/[789]-*.socket hoop/elsewhere
    # Also where the ranks are elsewhere: for an agent with another runtime folder these sockets are not there.
    "$python" -c 'import socket, sys
socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$dead"
    mkdir -m 700 remote
    printf '#!/bin/sh\nshift\nXDG_RUNTIME_DIR=%s/remote exec "$@"\n' "$tmp" >shell
    chmod +x shell
    hooprun --rsh ./shell -H elsewhere:1 true
    is 0 "$(sockets)" 'on its own machine, if all ranks are on others'
else
    skip 2 'python3 is not installed'
fi

# A server of many ranks: a large answer.
if [ -n "$python" ]; then
    start "$python" -c 'import os, socket, sys
answer = b"[{\"size\":65536,\"ranks\":[" + b",".join([b"%1000d" % i for i in range(65536)]) + b"]}]"
server = socket.socket(socket.AF_UNIX)
server.bind("early")
server.listen()
os.rename("early", sys.argv[1])
while True:
    guest = server.accept()[0]
    try:
        guest.recv(100)
        guest.sendall(answer)
    except OSError:
        pass
    guest.close()' hoop/7-7.socket
    await test -S hoop/7-7.socket
    answers() { hoop-top --json >json && grep -q ' 65535\]}\]' json; }
    await answers
    is '65536 65535' "$("$python" -c 'import json
job, = json.load(open("json"))
ring, = job["rings"]
print(ring["size"], ring["ranks"][-1])')" 'the answer of a server of 65536 ranks, 64 MB'
    kill "$started"
    wait "$started" 2>/dev/null
    rm -f hoop/7-7.socket
else
    skip 1 'python3 is not installed'
fi

# A server of its own, with two jobs; ranks that are missing.
hoop-rendezvous --new-secret ring.secret >/dev/null
start hoop-rendezvous --port 0 --secret-file ring.secret >log 2>&1
server=$started
await grep -q 127.0.0.1: log
address=$(grep -o '127\.0\.0\.1:[0-9]*' log | head -1)
ok 'a server without a job' await shows 'no rank is in a ring now'
HOOP_RANK=0 HOOP_SIZE=3 HOOP_RENDEZVOUS=$address HOOP_SECRET_FILE=$tmp/ring.secret
export HOOP_RANK HOOP_SIZE HOOP_RENDEZVOUS HOOP_SECRET_FILE
start hoop-bench -b 4 -e 4 >out 2>err
ok 'a missing rank is named' await shows 'ring of 3 ranks: 1 joined it, ranks 1-2 are missing after'

# The same server by its address.
elsewhere() { (XDG_RUNTIME_DIR=$tmp/none; export XDG_RUNTIME_DIR; hoop-top "$@"); }
like 'ring of 3 ranks: 1 joined it, ranks 1-2 are missing' "$(elsewhere "$address")" 'hoop-top ADDRESS'
like "^$address" "$(elsewhere "$address" --once)" 'begins with the address'
like 'joined it' "$(unset HOOP_SECRET_FILE; elsewhere "$address" --secret-file ring.secret)" '--secret-file'
is ' 1' "$(elsewhere "$address" --job other 2>err; echo " $?")" 'another job: nothing of this one, and status 1'
like "^hoop-top: no rank of this job is in a ring of the server at $address now; .*--job" "$(cat err)" 'and a sentence'
is 1 "$(elsewhere "$address" --job other --json >json 2>err; echo $?)" 'as JSON, too'
like '"rings":\[\]' "$(cat json)" 'which says so'
like "^hoop-top: no rank of this job" "$(cat err)" 'beside the sentence'
if [ -n "$python" ]; then
    is '1 joining None' "$(elsewhere --json "$address" | "$python" -c 'import json, sys
server, = json.load(sys.stdin)
print(server["version"], server["rings"][0]["state"], server["pid"])')" '--json ADDRESS'
else
    skip 1 'python3 is not installed'
fi
hoop-rendezvous --job hoop --secret-file ring.secret --job-secret job.secret >/dev/null
like 'joined it' "$(HOOP_JOB=else elsewhere "$address" --secret-file job.secret)" 'the key of a job names it'
hoop-rendezvous --new-secret wrong.secret >/dev/null
is 1 "$(elsewhere "$address" --secret-file wrong.secret 2>err; echo $?)" 'a wrong secret: status 1'
like '^hoop-top: the rendezvous server at .* closed the connection without an answer: wrong secret' "$(cat err)" \
    'and a sentence, after one try'
await grep -q "its secret is not this job's" log
is 1 "$(grep -c "its secret is not this job's" log)" 'of which the server has one line'
is 1 "$(unset HOOP_SECRET_FILE; HOME=$tmp elsewhere "$address" 2>err; echo $?)" 'no secret: status 1'
like '^hoop-top: a server answers only those who have the secret of the job' "$(cat err)" 'and a sentence'
is 1 "$(unset HOOP_SECRET_FILE; HOME=$tmp elsewhere foo 2>err; echo $?)" 'no address and no secret: status 1'
like '^hoop-top: "foo" is not an address: the port is missing' "$(cat err)" 'the address is told first'
is 1 "$(elsewhere 127.0.0.1:1 2>err; echo $?)" 'nobody there: status 1'
like '^hoop-top: .*127.0.0.1:1' "$(cat err)" 'and a sentence'
nok 'two addresses' elsewhere "$address" "$address"
nok 'a job without an address' hoop-top --job hoop
kill -STOP "$server"
is 1 "$(elsewhere "$address" 2>err; echo $?)" 'a stopped server: status 1, in time'
like '^hoop-top: ' "$(cat err)" "and a sentence: $(cat err)"
kill -CONT "$server"
is 0 "$(find hoop -name '*.socket' ! -type s | wc -l)" 'the folder has sockets'
is 700 "$(stat -c %a hoop)" 'and is the user'"'"'s alone'
kill "$started"
wait "$started" 2>/dev/null
kill "$server"
wait "$server" 2>/dev/null
is 0 "$(sockets)" 'a server that ends removes its socket'
unset HOOP_RANK HOOP_SIZE HOOP_RENDEZVOUS HOOP_SECRET_FILE

# The user's two folders: jobs that were started with XDG_RUNTIME_DIR and without it see each other.
flight=$abs_top_builddir/t/sys/flight shm=/dev/shm/hoop-$(id -u)
if [ "$HOOP_TEST_SHM" = own ]; then
    start env -u XDG_RUNTIME_DIR hooprun -n 1 sleep 100 2>err </dev/null
    ok 'a job that was started without XDG_RUNTIME_DIR' await shows "^hooprun, pid $started\$"
    stop "$started"
    hooprun -n 3 env -u XDG_RUNTIME_DIR "$flight" kill >out 2>err </dev/null
    like 'hoop-top --flight hoop-.* explains' "$(cat err)" "hooprun collects recorders of ranks without it: $(cat err)"
    like '; rank 1 \(.*ended' "$(hoop-top --flight)" 'which hoop-top finds'
    hooprun -n 1 true
    is 0 "$(ls "$shm" | grep -c .)" 'and the next job removes'
    rmdir "$shm"
    mkdir -m 700 "$shm"
    if chown 65534 "$shm" 2>/dev/null; then
        start env -u XDG_RUNTIME_DIR hooprun -n 1 sh -c ': >begun; exec sleep 100' >out 2>err </dev/null
        await test -e begun
        is 0 "$(ls "$shm" | grep -c .)" 'a folder of another user is not used, not even by root'
        nok 'so that job is not seen' hoop-top
        stop "$started"
    else
        skip 2 'only root can give a folder to another user'
    fi
    rmdir "$shm"
else
    skip 6 'no mount namespace can be made here, and others may use /dev/shm'
fi

# A path that is too long for the address of a socket.
long=$tmp/$(printf '%0120d' 0)
mkdir "$long"
XDG_RUNTIME_DIR=$long
start hooprun -n 1 sleep 100 2>err </dev/null
ok 'a long XDG_RUNTIME_DIR' await shows "^hooprun, pid $started\$"
is 1 "$(ls "$long/hoop" | grep -c 'socket$')" 'has the socket'
stop "$started"
XDG_RUNTIME_DIR=$tmp

# A server inside a program, and a name with letters beyond ASCII.
mkfifo stay
exec 9<>stay
start sh -c 'exec "$0" <stay 9>&-' "$abs_top_builddir/t/sys/inside"
inside=$started
ok 'a program with a server inside' await shows '^job .* "größer", ring of 2 ranks: no operation lasts'
like "^inside, pid $inside\$" "$(cat shown)" 'is called by its name'
if [ -n "$python" ] && [ "$(id -u)" = 0 ]; then
    cat >ask.py <<'END_ASK'
import os, socket, sys
if sys.argv[2] != "0":
    try:
        os.setresuid(*[int(sys.argv[2])] * 3)
    except OSError:
        sys.exit("no such user")
server = socket.socket(socket.AF_UNIX)
server.settimeout(10)
server.connect(sys.argv[1])
answer = b""
try:
    server.sendall(b"json\n")
    answer = server.recv(100)
except ConnectionError:
    pass
print(answer[:1])
END_ASK
    socket=$(ls hoop/*.socket)
    chmod 711 . hoop
    chmod 666 "$socket"
    is "b'['" "$("$python" ask.py "$socket" 0)" 'root, whose server it is, gets an answer at the socket'
    others=$("$python" ask.py "$socket" 65534 2>&1)
    if [ "$others" = 'no such user' ]; then
        skip 1 'no other user can be had here'
    else
        is "b''" "$others" 'another user, who got that far, does not'
    fi
    chmod 700 . hoop
else
    skip 2 'only root becomes another user, with python3'
fi
if has_screen; then
    show 12 hoop-top
    ok 'on a screen its letters are letters' await on_screen '"größer", ring of 2 ranks'
    hide
else
    skip 1 'hoop-top has no ncurses here, or tmux is not installed'
fi
exec 9>&-
wait "$inside"
is 0 $? 'the program ends'
done_testing
