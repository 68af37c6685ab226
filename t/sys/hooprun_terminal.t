#!/bin/sh
# SPDX-License-Identifier: MIT
# hooprun at a terminal, for which script(1) stands: what ranks print is seen when they print it, also when they are killed
# then; no byte is changed; the window's size; progress bars; and Ctrl-Z, with and without one.
# time limit: 240
. "$abs_top_srcdir/t/tap/tap.sh"
. "$abs_top_srcdir/t/sys/hooprun.sh"
talker=$abs_top_builddir/t/sys/talker
unset PYTHONUNBUFFERED
plan_lazy
export hooprun talker

# A shell whose child was stopped between vfork and exec sleeps in the kernel.
stopped() { for p; do grep -q '^[^)]*) [TD]' "/proc/$p/stat" || return 1; done; }
seen() { grep -q "$@" out; }
lines() { [ "$(cat counts 2>/dev/null | wc -l)" -ge "$1" ]; }

# --- Ctrl-Z: hooprun and its ranks, in sessions of their own, stop and go on together ---

cat >counter <<'EOF'
#!/bin/sh
echo $$ >>pids
until [ -e enough ]; do echo >>counts; sleep 0.2; done
EOF
cat >clean <<'EOF'
#!/bin/sh
shift
exec env -i PATH="$PATH" HOME="$HOME" "$@"
EOF
chmod +x counter clean
export counter=$tmp/counter
stop_and_go()
{
    : >pids >counts
    rm -f enough
    start "$hooprun" --timeout $((8 * ${HOOP_TEST_TIME_FACTOR:-1})) "$@" "$counter" >out 2>err </dev/null
    await lines 2
    kill -TSTP "$started"
    ok "$*: Ctrl-Z stops hooprun and its ranks" await stopped "$started" $(cat pids)
    before=$(wc -l <counts)
    sleep $((9 * ${HOOP_TEST_TIME_FACTOR:-1}))
    is "$before" "$(wc -l <counts)" '... and nothing goes on'
    kill -CONT "$started"
    ok '... fg lets them go on' await lines $((before + 4))
    : >enough
    wait "$started"
    is 0 $? '... to their end, and the time between does not count'
}
killed_while_stopped()
{
    : >pids >counts
    rm -f enough
    start "$hooprun" -n 2 "$counter" >out 2>err </dev/null
    await lines 2
    kill -TSTP "$started"
    await stopped "$started"
    kill -KILL "$started"
    wait "$started" 2>/dev/null
    for p in $(cat pids); do
        ok 'hooprun killed while all are stopped: the ranks end too' await gone "$p"
    done
}
scene local stop_and_go -n 2
scene hosts stop_and_go --rsh "$tmp/clean" -H n1,n2
scene killed killed_while_stopped

# --- without a terminal ---

is '1' "$("$hooprun" -n 1 sh -c 'echo "$PYTHONUNBUFFERED"')" 'PYTHONUNBUFFERED=1'
is '' "$("$hooprun" -n 1 -x PYTHONUNBUFFERED= sh -c 'echo "$PYTHONUNBUFFERED"')" 'except where it is set'
: >go
is pipe "$("$hooprun" -n 1 sh -c 'test -t 1 || echo pipe')" 'in a pipe ranks have a pipe'
is '' "$("$hooprun" -n 1 "$talker" 2>err)" 'a rank that is killed loses what is in its buffer there'
is 4 "$("$hooprun" -n 1 --pty=always "$talker" 2>err | wc -l | tr -d ' ')" 'but not with --pty=always'
"$hooprun" -n 1 --pty=always printf 'a\nb\r\nc\td\004\003e\n' >out 2>err
printf 'a\nb\r\nc\td\004\003e\n' >wanted
ok 'which changes no byte' cmp wanted out
"$hooprun" -n 2 --pty=always printf 'a\nb\r\nc\td\004\003e\n' 2>err | LC_ALL=C sort >out # whose line comes first is open
printf 'a\na\nb\r\nb\r\nc\td\004\003e\nc\td\004\003e\n' >wanted
ok 'of two ranks neither' cmp wanted out
head -c 1000000 /dev/urandom >random
"$hooprun" -n 1 --pty=always cat random >out
ok 'of a megabyte' cmp random out
"$hooprun" -n 1 --pty=sometimes true 2>err
is 2 $? 'another --pty is refused'
like '^hooprun: --pty=sometimes: write one of auto\|always\|never' "$(cat err)" 'with what there is'

scenes_end

# --- at a terminal ---

if ! command -v script >/dev/null || ! script -qec true /dev/null >/dev/null 2>&1; then
    skip 1 'script is not installed (apt-get install bsdutils)'
    done_testing
fi

# terminal COMMAND: a shell's line, in a window of 40 x 100 that adds nothing to what it gets.
terminal()
{
    : >out
    start script -qefc "stty raw rows 40 cols 100; $1" /dev/null >out 2>&1 </dev/null
}
rm -f go
terminal '"$hooprun" -n 2 "$talker"'
ok 'lines are there while the ranks run' await sh -c 'test "$(grep -c "standard output is a terminal" out)" = 2'
ok 'standard input is none' seen '\[0\] standard input is none'
ok "the window's size, less the label" await seen '\[1\] first: 40 rows, 96 columns'
: >go
wait "$started"
is 2 "$(grep -c 'last line' out)" 'the last line before SIGKILL too'
nok 'without carriage returns' grep -q "$(printf '\r')" out

rm -f go
terminal '"$hooprun" -n 1 "$talker" & sleep 1; stty cols 61; wait'
ok 'a new size is passed on' await seen 'later: 40 rows, 61 columns'
: >go
wait "$started"
rm -f go
terminal '"$hooprun" --rsh ./clean -H n1 "$talker" & sleep 1; stty cols 61; wait'
ok 'to other hosts as well' await seen 'later: 40 rows, 61 columns'
: >go
wait "$started"
terminal '"$hooprun" -n 1 --pty=never "$talker"'
wait "$started"
nok '--pty=never is a pipe' seen 'standard output'
terminal '"$hooprun" -n 1 --output-dir files "$talker"'
wait "$started"
ok 'so are files' test ! -s files/rank.0/stdout

# Progress bars, of which one is seen at a time; a prompt.
cat >bar <<'EOF'
#!/bin/sh
await() { until [ -e "$1" ]; do sleep 0.1; done; }
for i in 1 2; do printf '\rrank %s: %s of 3' "$HOOP_RANK" $i >&2; done
await bar.seen
printf '\rrank %s: 3 of 3\n' "$HOOP_RANK" >&2
[ "$HOOP_RANK" != 0 ] || { printf 'name? '; await name.seen; echo; }
EOF
chmod +x bar
terminal '"$hooprun" -n 2 ./bar'
ok 'a progress bar is shown' await seen 'rank [01]: 2 of 3'
: >bar.seen
ok 'and an unfinished line' await seen 'name? '
: >name.seen
wait "$started"
tr '\r' '\n' <out | sed 's/^\[.\] //' >words
for r in 0 1; do
    ok "rank $r's bar has come to its end" grep -q "rank $r: 3 of 3" words
done
is '' "$(grep -n 'of 3.*rank' words)" 'and never in a line of the other'

# Here hooprun is what the terminal began with, as under "ssh -t host hooprun": no shell could let it go on.
: >pids >counts
rm -f enough
mkfifo keys
exec 7<>keys
start sh -c 'exec script -qefc "exec \"\$hooprun\" -n 1 \"\$counter\"" /dev/null <keys' >out 2>&1
await lines 2
printf '\032' >&7
ok 'Ctrl-Z is read' await seen '\^Z'
ok 'Ctrl-Z where no shell could let the job go on: it goes on' await lines $(($(wc -l <counts) + 10))
: >enough
wait "$started"
exec 7>&-
done_testing
