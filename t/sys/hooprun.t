#!/bin/sh
# SPDX-License-Identifier: MIT
# hooprun on this machine: its options in every spelling, what ranks get, output by whole lines, input, exit statuses.
# time limit: 240
. "$abs_top_srcdir/t/tap/tap.sh"
. "$abs_top_srcdir/t/sys/hooprun.sh"
plan_lazy

# --- spellings ---
for spelling in '-n 3' '-np 3' '--np 3' '-n3' '-np=3' '--np=3' '-n=3' '-N 3' '-N3' '-ppn 3' '--ppn=3' '--npernode 3' \
    '-npernode 3' '--nproc-per-node=3' '-nproc-per-node 3' '-H localhost:3' '-host localhost:3' '--host=localhost:3' \
    '-H localhost:1,localhost:2'; do
    run $spelling sh -c 'echo $HOOP_RANK/$HOOP_SIZE'
    is '0/3 1/3 2/3' "$(sort out | tr '\n' ' ' | sed 's/ $//')" "$spelling starts three ranks"
done
printf 'localhost slots=2\n' >hosts
for spelling in '-f hosts' '-hostfile hosts' '--hostfile=hosts' '--machinefile hosts' '-machinefile=hosts'; do
    run $spelling sh -c 'echo $HOOP_SIZE'
    is '2 2' "$(echo $out)" "$spelling is read"
done
HOOP_HOSTFILE=hosts run sh -c 'echo $HOOP_SIZE'
is '2 2' "$(echo $out)" 'HOOP_HOSTFILE is read'
out=$(printf 'localhost slots=2\n' | "$hooprun" -f - cat)
is '' "$out" 'a hostfile from standard input leaves nothing for rank 0'
run -n 1 -- echo -n 5
is '5' "$out" 'options of the program are its own'
run -n 2 -x "A=it's
two  lines" -x B sh -c 'test "$A" = "it'"'"'s
two  lines" && test "${B-unset}" = unset && echo "$1|$2"' name 'a  b' ''
is 'a  b| a  b|' "$(echo "$out" | tr '\n' ' ' | sed 's/ $//')" 'words and variables arrive as they are'
like 'no such variable here' "$err" '-x of a variable that is not set is said'
HOOP_SECURITY=none run -n 1 sh -c 'echo $HOOP_SECURITY'
is auth "$out" 'ranks prove the secret, whatever the environment says'
B=seen run -n 1 -x B sh -c 'echo $B'
is seen "$out" '-x NAME hands on our value'
mkdir there
run -n 1 --wdir there sh -c 'basename "$PWD"'
is there "$out" '--wdir'
run -n 1 -wdir=there sh -c 'basename "$PWD"'
is there "$out" '-wdir='
run -n 1 --wdir nowhere true
is 1 "$status" '--wdir of a folder that is not there'
like 'cannot change into the folder .*/nowhere: No such file' "$err" 'is said'

# --- mistakes: a sentence and status 2 ---
refused 'there is no option --hosfile; the nearest one is --hostfile' 'an unknown option' --hosfile x true
refused 'there is no option -np4x; the nearest one is -np' 'another' -np4x true
refused 'there is no option --nonesuch. hooprun --help lists them all' 'one that is near to none' --nonesuch true
refused 'there is no option --bind-to; --bind binds each rank' 'another' --bind-to core true
refused 'there is no option -genv; write -x NAME=VALUE' 'another' -genv A 1 true
refused 'there is no option --nnodes; start hooprun once' "torchrun's" --nnodes=2 true
refused '-n needs a value' 'a value forgotten' -n
refused '-l takes no value' 'a value too many' -l=1 true
refused '-n x: write a whole number' 'no number' -n x true
refused '-n -4: write a whole number' 'fewer than none' -n -4 true
refused '--timeout soon: write a number of seconds' 'no time' --timeout soon true
refused '--timeout 1e-10: write a number of seconds' 'less time than a clock has' --timeout 1e-10 true
refused 'the name of the program is empty; is a variable of the shell not set' 'an empty program' -n 2 ''
refused 'cannot open the hostfile nofile: No such file' 'no hostfile' --hostfile nofile true
refused '3 ranks do not fit: 1 host offers 2 slots' 'too many ranks' -n 3 -H localhost:2 true
printf 'localhost slots=2\nnode1 slot=3\n' >bad
refused 'bad:2: word "slot=3" is not known; write slots=N' 'a bad hostfile' -f bad true
printf 'x' >file
refused '--output-dir .*/file: cannot make the files of rank 0 there: Not a directory' 'no folder' --output-dir file true

# --- help, version, map ---
run --help
is 0 "$status" '--help succeeds'
ok '--help fits a screen' test "$(wc -l <out)" -le 32
like 'hooprun -n 4 ./train' "$out" 'with an example'
run --version
like '^hooprun \(hoop\) [0-9]+\.[0-9]+\.[0-9]+$' "$out" '--version'
run --dry-run -n 4 -H localhost:1,far:3,idle ./train 'a b'
like 'localhost +rank 0, slots 1, here:' "$out" '--dry-run shows who runs here'
like 'far +ranks 1-3, slots 3, by: ssh far .*/hoop-launch --agent' "$out" 'who runs there, and how it is reached'
like 'idle +no ranks' "$out" 'who is not used'
like "each rank: ./train 'a b'" "$out" 'and what'
run --map -n 2 echo ran
is 2 "$(grep -c '^ran' out)" '--map runs it too'
like '2 ranks on 1 host' "$out" 'and shows it'

like 'is bound to its share' "$("$hooprun" --dry-run --bind -n 2 true)" '--dry-run shows --bind'

# --- processors ---
allowed()
{
    run "$@" sh -c 'echo "$HOOP_RANK $(sed -n "s/^Cpus_allowed_list:.//p" /proc/self/status)"'
    sort out | sed 's/^[0-9]* //'
}
mine=$(sed -n 's/^Cpus_allowed_list:.//p' /proc/self/status)
processors=$(nproc)
is "$(printf '%s\n%s' "$mine" "$mine")" "$(allowed -n 2)" 'ranks run on all processors'
is "$mine" "$(allowed -n 1 --bind)" '--bind: a single rank has them all'
is "$processors" "$(allowed -n "$processors" --bind | sort -u | grep -Ecx '[0-9]+')" '--bind: one for each rank'
pairs=$(allowed -n $((2 * processors)) --bind | uniq -c | awk '{print $1}' | sort -u)
is 2 "$pairs" '--bind: two ranks to a processor, neighbours'
is 1 "$(taskset -c "${mine%%[-,]*}" "$hooprun" --bind -n 3 sh -c 'nproc' | sort -u)" 'only those that we may use'
run --bind=yes -n 1 true
like '--bind takes no value' "$err" '--bind has no value'
refused 'there is no option --bindto; the nearest one is --bind' 'and other spellings are unknown' --bindto core true

# --- what ranks get ---
HOOP_RANK=9 HOOP_JOB=old RANK=9 HOOP_OP_TIMEOUT_MS=5 run -n 2 sh -c 'env; echo end'
for want in HOOP_RANK=1 HOOP_SIZE=2 HOOP_LOCAL_RANK=1 HOOP_LOCAL_SIZE=2 RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 \
    LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 HOOP_SECRET_FD=3 HOOP_OP_TIMEOUT_MS=5; do
    ok "$want" grep -qx "$want" out
done
ok 'HOOP_RENDEZVOUS' grep -Eqx 'HOOP_RENDEZVOUS=127\.0\.0\.1:[0-9]+' out
ok 'MASTER_PORT' grep -Eqx 'MASTER_PORT=[0-9]+' out
is 1 "$(grep '^HOOP_JOB=' out | sort -u | wc -l | tr -d ' ')" 'one HOOP_JOB'
nok 'nothing of an outer job' grep -Eq '^(HOOP_JOB=old|HOOP_RANK=9|RANK=9)$' out
nok 'no other launcher is faked' grep -Eq '^(OMPI_|PMI_|SLURM_)' out
run -n 2 sh -c 'cat <&3 | wc -c'
is '107 107' "$(echo $out)" 'each rank reads all of the secret'
timeout 60 "$hooprun" -n 2 \
    sh -c 'for f in /proc/$$/fd/*; do [ ! -e "$f" ] || printf "%s " "${f##*/}"; done; echo' >out 7</dev/null 9>/dev/null
is '0 1 2 3 0 1 2 3' "$(echo $(cat out))" 'descriptors 0, 1, 2 and the secret, and none of ours'
run -n 2 sh -c 'read -r pid name state parent group rest </proc/$$/stat && test "$group" = $$ && trap - INT && echo own'
is 'own own' "$(echo $out)" 'each rank is a process group of its own'
run -n 1 sh -c 'grep -E "^Sig(Blk|Ign)" /proc/self/status | tr -d "\t\n"'
# 32 and 33 are the C library's own; only it could change them.
is 'SigBlk:0000000000000000SigIgn:0000000000000000' "$(echo "$out" | sed 's/0000000180000000/0000000000000000/')" \
    'signals are at their defaults'

# --- output ---
run -n 4 -l sh -c 'printf "%s" "part of "; sleep 0.1; echo "rank $HOOP_RANK"; printf last'
is '[0] last [0] part of rank 0 [1] last [1] part of rank 1 [2] last [2] part of rank 2 [3] last [3] part of rank 3' \
    "$(sort out | tr '\n' ' ' | sed 's/ $//')" 'partial lines are held and labelled'
run -n 2 sh -c 'echo err >&2; echo out'
is 'out out err err' "$(echo $out $err)" 'standard output and error stay apart, without labels in a file'
cat >noisy <<'END'
#!/bin/sh
i=0
while [ $i -lt 400 ]; do
    printf '%s' "rank $HOOP_RANK says "
    echo "line $i $(printf '%0300d' $i)"
    i=$((i + 1))
done
END
chmod +x noisy
run -n 8 ./noisy
is 3200 "$(grep -Ecx 'rank [0-7] says line [0-9]+ 0[0-9]{299}' out)" 'eight ranks at once: 3200 whole lines'
is 3200 "$(wc -l <out | tr -d ' ')" 'and nothing else'
head -c 3000000 /dev/urandom >random
run -n 1 cat random
ok 'three megabytes of random bytes arrive as they are' cmp random out
run -n 2 sh -c 'if [ $HOOP_RANK = 1 ]; then cat random; fi'
ok 'from one of two ranks too' cmp random out
awk 'BEGIN { for (i = 0; i < 100000; i++) printf "%070d\n", i }' >text
run -n 2 sh -c 'if [ $HOOP_RANK = 1 ]; then cat text; else cat text >&2; fi'
ok 'seven megabytes of lines arrive' cmp text out
ok 'on standard error as well' cmp text err
timeout 60 "$hooprun" -n 2 cat text | { sleep 1; cat; } >slow
is 200000 "$(wc -l <slow | tr -d ' ')" 'a slow reader loses nothing'
run -n 2 -l sh -c '[ $HOOP_RANK = 0 ] || { head -c 200000 /dev/zero | tr "\0" x; echo; }'
is 200004 "$(awk '{ print length($0) }' out)" 'a line longer than 64 KiB stays in one piece when nobody else writes'
run -n 2 -l sh -c 'head -c 200000 /dev/zero | tr "\0" $HOOP_RANK; echo'
is '200000 200000' "$(sed 's/^\[.\] //' out | tr -cd 0 | wc -c | tr -d ' ') $(sed 's/^\[.\] //' out | tr -cd 1 | wc -c | tr -d ' ')" \
    'and loses nothing when somebody does'
nok 'nor are two ranks in one line' grep -Eq '01|10' out
run -n 3 --output-dir deep/down sh -c 'echo "out $HOOP_RANK"; printf "err $HOOP_RANK" >&2'
is '' "$out$err" '--output-dir: nothing on the terminal'
is 'out 2' "$(cat deep/down/rank.2/stdout)" 'DIR/rank.2/stdout'
is 'err 0' "$(cat deep/down/rank.0/stderr)" 'DIR/rank.0/stderr'
timeout 60 "$hooprun" -n 2 yes 2>err | head -1 >out
is y "$(cat out)" 'a reader that leaves ends the job'
is '' "$(cat err)" 'silently'
if [ -e /dev/full ]; then
    timeout 60 "$hooprun" -n 2 sh -c 'echo x; sleep 30' >/dev/full 2>err
    is 1 $? 'output that cannot be written: status 1'
    like 'cannot write the ranks. output: No space left' "$(cat err)" 'and the reason'
else
    skip 2 'there is no /dev/full: mknod /dev/full c 1 7'
fi

if command -v script >/dev/null && script -qec true /dev/null >/dev/null 2>&1; then
    script -qec "$hooprun -n 2 sh -c 'echo hello; sleep 2; echo again'" /dev/null </dev/null | tr -d '\r' | sort >out
    is '[0] again [1] again' "$(echo $(grep again out))" 'on a terminal lines are labelled'
    script -qec "$hooprun -n 2 sh -c 'test \$RANK = 1 || echo one; sleep 0.3; test \$RANK = 1 || echo two'" /dev/null </dev/null |
        tr -d '\r' >out
    is 'one two' "$(echo $(cat out))" '... but not where one rank alone writes'
    script -qec "$hooprun -n 1 echo hello" /dev/null </dev/null | tr -d '\r' >out
    is hello "$(cat out)" 'those of one rank alone are not'
else
    skip 3 'script is not installed (apt-get install bsdutils)'
fi
run -n 300 sh -c 'ulimit -Sn'
is 0 "$status" 'three hundred ranks'
is "$(ulimit -Sn)" "$(sort -u out)" 'have our limit of open files'

# --- input ---
out=$(printf 'one\ntwo\n' | "$hooprun" -n 3 sh -c 'echo "$HOOP_RANK $(wc -l | tr -d " ")"' | sort | tr '\n' ' ')
is '0 2 1 0 2 0 ' "$out" 'standard input goes to rank 0'
"$hooprun" -n 2 sh -c 'if [ $HOOP_RANK = 0 ]; then cat; fi' <random >out
ok 'three megabytes through rank 0' cmp random out
cat random | "$hooprun" -n 2 sh -c 'if [ $HOOP_RANK = 0 ]; then sleep 0.5; cat; fi' >out
ok 'from a pipe, to a rank that reads late' cmp random out
yes | timeout 60 "$hooprun" -n 2 sh -c 'sleep 0.3; echo done' >out
is 'done done' "$(echo $(cat out))" 'input that nobody reads stops nobody'
"$hooprun" -n 1 sh -c 'exec <&-; sleep 0.3; echo done' <random >out
is 'done' "$(cat out)" 'nor does input that rank 0 has closed'
timeout 60 "$hooprun" -n 2 sh -c 'cat; echo "$HOOP_RANK" >&2' <&- >out 2>err
is '0 1' "$(echo $(sort err))" 'closed standard input is an empty one'

"$hooprun" -n 1 cat <"$tmp" 2>err
like 'cannot read standard input: Is a directory; for rank 0 it ends here' "$(cat err)" 'input that cannot be read'
if [ -w /dev/full ]; then
    for what in --help --version '--dry-run -n 2 true' '--map -n 2 true'; do
        "$hooprun" $what 2>err >/dev/full
        is '1 1' "$? $(grep -c 'cannot write to standard output' err)" "$what, and nowhere to write it: status 1"
    done
else
    skip 4 'there is no /dev/full'
fi

# --- ends ---
run -n 4 sh -c '[ $HOOP_RANK != 2 ] || exit 7; sleep 60'
is 7 "$status" 'the status of the first rank to fail'
like '^hooprun: rank 2 \([^ ]+, pid [0-9]+, sh\) exited with status 7 after [0-9]+\.[0-9] s; stopping 3 others$' "$err" \
    'the verdict'
run -n 4 sh -c '[ $HOOP_RANK != 1 ] || kill -9 $$; sleep 60'
is 137 "$status" '128 + 9 for SIGKILL'
like '^hooprun: rank 1 \(.*\) killed by signal 9 \(SIGKILL\) after ' "$err" 'named'
is 1 "$(grep -c hooprun: err)" 'and only that one'
run -n 1 sh -c 'exit 3'
like '^hooprun: rank 0 \(.*\) exited with status 3 after [0-9.]+ s$' "$err" 'nobody else to stop'
run -n 2 --output-dir words sh -c '[ $HOOP_RANK = 0 ] || { echo one >&2; echo last words >&2; exit 1; }; sleep 60'
like '^\[1\] last words$' "$err" 'last words are shown when they went to a file'
run -n 2 sh -c '[ $HOOP_RANK = 0 ] || { echo last words >&2; exit 1; }; sleep 60'
is 1 "$(grep -c 'last words' err)" 'and not twice when they were just shown'
late='[ $HOOP_RANK != 1 ] || sleep 30; exec "$0" -e 4 -n 1'
HOOP_BOOTSTRAP_TIMEOUT_MS=6000 run -n 3 sh -c "$late 2>/dev/null" "$abs_top_builddir/bin/hoop-bench"
like '^hooprun: the ring had failed: rank 1 of 3 did not join within [0-9.]+ s; ' "$err" 'why the ring failed, which no rank has said'
HOOP_BOOTSTRAP_TIMEOUT_MS=6000 run -n 3 sh -c "$late" "$abs_top_builddir/bin/hoop-bench"
like 'rank 1 of 3 did not join within [0-9.]+ s; ' "$err" 'a rank says it'
is 0 "$(grep -c 'the ring had failed' err)" '... and hooprun not again'
begin=$(cut -d. -f1 /proc/uptime)
run -n 3 sh -c '[ $HOOP_RANK != 1 ] || exit 0; exec "$0" -e 4 -n 1' "$abs_top_builddir/bin/hoop-bench"
like 'rank 1 \([^ ]+\) ended before all ranks had joined; does the program call hoop_comm_create on every rank\?' "$err" \
    'a rank that ends well and has not joined is named'
ok '... at once' test $(($(cut -d. -f1 /proc/uptime) - begin)) -le $((10 + room))
run -n 2 sh -c '[ $HOOP_RANK = 1 ] || sleep 1; "$0" -e 4 -n 1; [ $HOOP_RANK = 1 ] || sleep 1' "$abs_top_builddir/bin/hoop-bench"
is 0 "$status" 'one that has joined may end before the others'
run -n 4 ./nonesuch
is 127 "$status" 'no such program: 127'
is 1 "$(wc -l <err | tr -d ' ')" 'said once, not per rank'
like 'there is no program ./nonesuch' "$err" 'by name'
run -n 4 nonesuch
is 127 "$status" 'not in PATH either'
like 'there is no program nonesuch in PATH' "$err" 'said'
run -n 4 ./hosts
is 126 "$status" 'a file that is no program: 126'
like 'cannot run ./hosts: Permission denied \(chmod \+x makes a file a program\)' "$err" 'what would make it one'
run -n 2 ./there
is 126 "$status" 'a folder: 126'
like 'cannot run ./there: Permission denied \(it is a folder\)' "$err" 'said'
printf '#!/no/such/shell\n' >script
chmod +x script
run -n 2 ./script
like 'interpreter' "$err" 'a script whose interpreter is missing'
run -n 2 --timeout 0.5 sleep 60
is 124 "$status" '--timeout: 124'
like 'the time limit of 0.5 s is reached; stopping 2 ranks' "$err" 'said'
run -n 2 --timeout 50 true
is 0 "$status" 'and not when all is well'
run -n 64 sh -c 'echo $HOOP_RANK'
is 64 "$(sort -un out | wc -l | tr -d ' ')" '64 ranks'
begin=$(cut -d. -f1 /proc/uptime)
run -n 64 true
end=$(cut -d. -f1 /proc/uptime)
ok '64 ranks start and end in two seconds or so' test $((end - begin)) -le $((3 + room))
run -n 2 sh -c 'sleep 0.3 & echo parent'
is 0 "$status" 'what a rank leaves in the background may finish'
(cd there && rm -rf ../there && exec timeout 60 "$hooprun" -n 1 true 2>../err)
is 1 $? 'a folder that is gone: status 1'
like '^hooprun: [^ ]+: cannot change into the folder .*/there \(deleted\), in which hooprun was started: No such file' "$(cat err)" \
    'said, with the host'
mkdir there
(cd there && rm -rf ../there && exec timeout 60 "$hooprun" -n 1 --wdir / pwd 2>/dev/null) >out
is / "$(cat out)" 'and --wdir gives another'
ln -s "$hooprun" link
is ok "$(./link -n 1 echo ok)" 'hooprun by a symbolic link'
done_testing
