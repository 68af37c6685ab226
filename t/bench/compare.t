#!/bin/sh
# SPDX-License-Identifier: MIT
# bench/compare: mistakes are answered with a sentence; results are shown as they come; a peer that hangs, lies or dies is
# said to have, and costs no more than its time; an interrupt loses nothing and leaves nothing; namespaces; hoop itself.
# The peers are made up, but for the last.
# time limit: 240
. "$abs_top_srcdir/t/tap/tap.sh"
compare=$abs_top_srcdir/bench/compare idler=$abs_top_builddir/t/bench/idler
unset HOOP_PREFIX HOOP_BUILD BENCH_CAP IDLER_SLEEPS IDLER_QUITS IDLER_LIES IDLER_EATS
plan_lazy
cd "$tmp" || bail "no $tmp"
export TMPDIR="$tmp"

run() { "$compare" "$@" >out 2>err </dev/null; }
# The cells of a peer's row in table.md of folder $1, for size $2: $3 is the peer, $4 ... the cells' numbers.
cells()
{
    awk -F ' *[|] *' -v size="### .* ranks, $2\$" -v peer="$3" -v which="$4" '
        /^### / { here = $0 ~ size }
        here && $2 == peer { n = split(which, w, " "); for (i = 1; i <= n; i++) printf "%s%s", $(w[i] + 1), i < n ? " " : "\n" }
    ' "$1/table.md"
}

# --- peers: quick has an answer to everything, slow hears nothing, dead is dead at once
cat >quick <<'END'
#!/bin/sh
[ "$BENCH_RANK" = 0 ] || exit 0
echo 'words that are no result'
IFS=,
for bytes in $BENCH_SIZES; do
    echo "[0] RES peer=$BENCH_LABEL ranks=$BENCH_RANKS bytes=$bytes n=3 first=0.004 median=0.002 back_to_back=0.002 cpu=0.003" \
        "peak_kb=20480 beyond_kb=5120 before_kb=1536 wrong=0 wire=100 opening=1 samples=0.001,0.002,0.0025"
done
END
printf '#!/bin/sh\ntrap "" INT TERM\nsleep 100\n' >slow
printf '#!/bin/sh\necho "no such thing as a peer" >&2\nexit 7\n' >dead
printf '#!/bin/sh\nexit 0\n' >mute
chmod +x quick slow dead mute

# --- mistakes
refused()
{
    pattern=$1
    shift
    run "$@"
    is 2 $? "refused: $*"
    like "^compare: $pattern" "$(cat err)" '... with a sentence'
    is '' "$(cat out)" '... and nothing else'
}
refused '-p takes a whole number of 1 to 64, not "many"' -p '2 many' ./quick
refused '-p takes a whole number of 1 to 64, not "65"' -p 65 ./quick
refused '-r takes a whole number' -r 0 ./quick
refused '-i takes a whole number' -i x ./quick
refused '-t takes a whole number' -t 1.5 ./quick
export BENCH_CAP=0.5
refused 'BENCH_CAP takes a whole number' ./quick
unset BENCH_CAP
refused '-s: 3q is no size' -s '4 3q' ./quick
refused '-s: 3 is less than one float' -s 3 ./quick
refused '-m says how many ranks -n has' -n -p 8 ./quick
refused '-n has a fixed number of hosts: -g' -n -g ./quick
refused '-m goes with -n' -m 2x4 ./quick
refused '-m 5x1: it takes 2 to 4 hosts' -n -m 5x1 ./quick
refused '-k scan: it takes allreduce, reduce_scatter or allgather' -k scan ./quick
refused '-s: 64 bytes are no block of whole floats for each of 3 ranks' -k allgather -p '2 3' -s 64 ./quick
refused '-f reduces an array in pieces' -f -k allgather ./quick
refused 'hoop:fused is left out: an array in pieces is reduced' -k allgather hoop:fused
refused 'there is no peer smoke' smoke
refused 'there is no peer hooper' hooper
refused './nothing is no program that can be run' ./nothing
refused 'hoop:fussed: fussed is neither a setting, KEY=VALUE, nor fused nor apart' hoop:fussed
refused 'ompi:x=1: only hoop takes settings' ompi:x=1
refused 'gloo_ring@reno: only hoop and the limits' gloo_ring@reno
refused 'compare -h lists the options' -Q
HOOP_PREFIX=$tmp refused 'HOOP_PREFIX=.*: there is no bin/hooprun' ./quick
is '' "$(ls | grep -vxE 'quick|slow|dead|mute|out|err')" 'and nothing was made'
run -h
is 0 $? 'help is no mistake'
for option in $(sed -n '/^usage: /,/^END$/s/^  -\([a-z]\) .*/\1/p' "$compare"); do
    ok "-$option is an option" grep -qE "^    $option\\)" "$compare"
done
ok 'help is as wide as a terminal' test -z "$(awk 'length > 120' out)"
run -l
is "$(printf '%s\n' limit_ring hoop:apart)" "$(sed -n '1p;$s/: .*//;$p' out)" '-l lists the peers'
refused '-r: options come before the peers' ./quick -r 2

# --- results as they come, and at the end
run -p '2 3' -s '4 64k 70002' -r 2 -o res ./quick ./mute ./dead
is 0 $? 'a run' || diag "$(cat err)"
is 'round 1 of 2, 2 ranks, ./quick
         4 B  median 2.00 ms    first 4.00 ms    3 samples
      64 KiB  median 2.00 ms    first 4.00 ms    3 samples
   68.36 KiB  median 2.00 ms    first 4.00 ms    3 samples' "$(sed 's/ (at most.*//' err | head -n 4)" \
    'shows each result when it comes'
is 2 "$(grep -c 'no result: ended without one' err | awk '{ print $1 / 2 }')" '... and who had none'
like 'no result: ended with status 7: no such thing as a peer' "$(cat err)" '... and what it said'
is "$(cat out)" "$(cat res/table.md)" 'the table is printed, too'
is '6' "$(grep -c '^### [23] ranks, ' res/table.md)" '... one for each size and number of ranks' ||
    diag "$(cat res/table.md)"
is '2.00 ms 1.00 1.00 ms 2.50 ms 2.00 ms / 2.00 ms 4.00 ms 20 5.0 1.5 6' "$(cells res '4 B' quick '2 3 4 5 6 7 10 11 12 14' | head -n 1)" \
    '... with median, least, most, rounds, first run, memory and samples'
is '0.0328' "$(cells res '64 KiB' quick 8 | head -n 1)" '... and bus bandwidth'
is 'no result: ended with status 7 / ended with status 7' "$(cells res '4 B' dead 2 | head -n 1)" \
    'who fails without hanging is tried again'
is 12 "$(grep -c '^RES peer=quick' res/raw.txt)" 'raw.txt has a line for each size and round, and nothing else'
is 12 "$(wc -l <res/raw.txt)" '... of nobody else'
like 'no such thing as a peer' "$(cat res/errors.txt)" 'errors.txt has what was said'
if command -v gnuplot >/dev/null; then
    is 'P2.png P2.svg P3.png P3.svg' "$(echo $(cd res && ls P*))" 'and there are pictures'
    like '>quick<' "$(cat res/P2.svg)" '... with a curve for each peer'
    nok '... that has results' grep -q '>dead<' res/P2.svg
else
    skip 3 'gnuplot is not installed'
fi
run -r 1 -p 2 -s 4 ./dead
is 2 $? 'a run without a single result fails'

# --- peers that hang
begun=$(cut -d. -f1 /proc/uptime)
run -p 2 -s '4 8' -r 3 -t 8 -o hang ./slow ./quick
is 0 $? 'a peer that hangs, and does not hear TERM'
took=$(($(cut -d. -f1 /proc/uptime) - begun))
ok "... costs its time once ($took s)" test $took -le $((20 + room))
is 1 "$(grep -c 'ranks, ./slow' err)" '... and is not tried again'
like '^no result: stopped after [0-9]+ s$' "$(cells hang '4 B' slow 2)" '... which the table says'
like '^no result: stopped after [0-9]+ s$' "$(cells hang '8 B' slow 2)" '... for each size'
is '2.00 ms / 2.00 ms / 2.00 ms' "$(cells hang '4 B' quick 6)" '... beside those that work'
IDLER_SLEEPS=8192 run -p 2 -s '4 8k 16' -r 2 -t 8 -o half "$idler"
is 0 $? 'a peer that hangs at one size'
like '^[0-9]' "$(cells half '4 B' idler 2)" '... has a result for those before it'
like '^no result: stopped after [0-9]+ s$' "$(cells half '8 KiB' idler 2)" '... and none for it'
like '^no result: stopped' "$(cells half '16 B' idler 2)" '... nor for those behind it'
head -c 65536 /dev/zero >shm
BENCH_SHM=shm BENCH_LABEL=x BENCH_SIZES=4,8 BENCH_RANK=0 BENCH_RANKS=1 BENCH_LIMITS=50,1,1 IDLER_SLEEPS=8 \
    timeout 30 "$idler" >lone 2>err
is 124 $? 'the harness itself ends a size whose time is up'
is 'bench: stopped after 1 s of measuring 8 bytes' "$(cat err)" '... in words'
is 1 "$(grep -c '^RES' lone)" '... after those before it'
begun=$(cut -d. -f1 /proc/uptime)
IDLER_QUITS=8 run -p 3 -s '4 8' -r 1 -o quits "$idler"
took=$(($(cut -d. -f1 /proc/uptime) - begun))
is 'no result: ended with status 2' "$(cells quits '8 B' idler 2)" 'one rank that gives up'
like 'bench: has had enough' "$(cat err)" '... says why'
ok "... and takes the others along ($took s)" test $took -le $((15 + room))
run -p 2 -s '4 256m' -r 1 -o limits ./quick
is 81 "$(sed -n 's/.*at most \([0-9]*\) s.*/\1/p' err)" 'how long a peer may take comes from the sizes'
run -p 8 -s '4 256m' -r 1 -o limits ./quick
is 105 "$(sed -n 's/.*at most \([0-9]*\) s.*/\1/p' err)" '... and from the ranks'
run -p 2 -s 4 -i 50 -r 1 -o limits ./quick
is 113 "$(sed -n 's/.*at most \([0-9]*\) s.*/\1/p' err)" '... and from the samples'

# --- the harness sees what is wrong, and what memory is taken
IDLER_LIES=8192 run -p 3 -s '4 8k' -r 1 -o lies "$idler"
is 0 "$(cells lies '4 B' idler 15)" 'a right result'
is 1 "$(cells lies '8 KiB' idler 15)" 'a wrong element is counted'
like '8 KiB .* 1 elements WRONG' "$(cat err)" '... and shown at once'
case ${HOOP_TEST_SANITIZE:-no} in
no)
    run -p 2 -s '4 8m' -r 1 -o lean "$idler"
    IDLER_EATS=40 run -p 2 -s '4 8m' -r 1 -o fat "$idler"
    is 40 "$(echo "$(cells lean '8 MiB' idler 11) $(cells fat '8 MiB' idler 11)" | awk '{ print int(($2 - $1 + 1) / 2) * 2 }')" \
        'memory is that beyond the array' || diag "$(cells lean '8 MiB' idler 11) $(cells fat '8 MiB' idler 11)"
    ok '... which is not in it' test "$(cells lean '8 MiB' idler 11 | cut -d. -f1)" -le 4
    ;;
*) skip 2 'sanitizers take memory of their own' ;;
esac

# --- interrupts
# A peer of this test's own runs.
marked() { grep -laF "TMPDIR=$tmp" /proc/[0-9]*/environ 2>/dev/null | xargs -r grep -qaF "BENCH_LABEL=$1" 2>/dev/null; }
interrupted()
{
    signal=$1 target=$2
    rm -rf cut
    # a process group of its own, as a terminal would give it one
    start setsid env --default-signal=INT "$compare" -p 2 -s '4 8' -r 2 -o cut ./quick ./slow >out 2>err </dev/null
    pid=$started
    await marked slow || diag "slow was not started: $(cat err)"
    kill -$signal $target$pid
    wait "$pid"
    is 130 $? "$signal ends a run ($target)"
    like '^\*\*Interrupted in round 1 of 2, at 2 ranks, ./slow: what was measured until then\.\*\*$' "$(cat cut/table.md)" \
        '... which the table says'
    is '2.00 ms' "$(cells cut '8 B' quick 2)" '... and still has what was measured'
    is "$(cat out)" "$(cat cut/table.md)" '... as does the screen'
    is '' "$(cells cut '8 B' slow 2)" '... and nothing of whom it met'
    nok '... who is gone' marked slow
}
interrupted INT -
interrupted INT ''
interrupted TERM ''
rm -rf cut
start setsid env --default-signal=INT "$compare" -p 2 -s 4 -o cut ./slow >out 2>err </dev/null
await marked slow
kill -INT "$started"
wait "$started"
is 130 $? 'an interrupt before there is anything'
like '^\*\*Interrupted in round 1' "$(cat cut/table.md)" '... is said to be one'
is '' "$(ls | grep '^hoop-compare')" 'nothing is left behind'
nok '... running, either' marked quick

# --- namespaces
can_enter_namespaces()
{
    [ "$(id -u)" = 0 ] && command -v tc >/dev/null && ip netns add "hct$$" 2>/dev/null || return 1
    ip netns exec "hct$$" true 2>/dev/null
    entered=$?
    ip netns del "hct$$"
    return $entered
}
if can_enter_namespaces; then
    # Those of this run alone: their names have its pid.
    start "$compare" -n -w 200mbit -s 4k -r 1 -o net ./quick >out 2>err </dev/null
    wait "$started"
    is 0 $? 'four namespaces' || diag "$(cat err)"
    like 'namespaces x ranks: 4x1, at 200mbit$' "$(head -n 1 net/table.md)" '... are said to be'
    is '0.00307 12.3 %' "$(cells net '4 KiB' quick '8 9')" \
        '... with the share of the line'
    is '' "$(ip netns | grep "^hc$started-")" '... and go away'
    start "$compare" -n -w fast -s 4k -r 1 -o net ./quick >out 2>err </dev/null
    wait "$started"
    is 2 $? 'a rate that is none'
    like '-w fast: tc refuses it' "$(cat err)" '... is said to be'
    is '' "$(ip netns | grep "^hc$started-")" '... and leaves nothing'
else
    skip 7 'network namespaces are not to be had here'
fi

# --- hoop itself
if [ "${HOOP_TEST_SANITIZE:-no}" = no ] && [ -e "$abs_top_builddir/.libs/libhoop.so" ] && command -v cc >/dev/null; then
    HOOP_BUILD=$abs_top_builddir run -p 2 -s '4 4000 40k' -r 1 -o own hoop hoop:fused hoop:apart,slices=2,window=4 limit_ring \
        limit_hops@reno
    is 0 $? 'hoop, as it comes, fused, in pieces with settings, and two limits' || diag "$(cat err own/errors.txt)"
    is 15 "$(grep -c '^RES .* wrong=0 ' own/raw.txt)" '... is right every time'
    is '' "$(grep WARN own/errors.txt)" '... and has nothing to say'
    run -p 3 -s 4 -r 1 -o odd limit_hops
    is 2 $? 'a limit that needs another number of ranks'
    like 'limit_hops needs 2, 4, 8' "$(cat err)" '... says so'
else
    skip 5 'there is no plain libhoop.so, or no cc'
fi
done_testing
