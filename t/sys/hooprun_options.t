#!/bin/sh
# SPDX-License-Identifier: MIT
# hooprun's command line and what can be wrong with it: advice for options that it has not, programs
# that are none, folders, files of a former run, one machine under several names.
# time limit: 240
. "$abs_top_srcdir/t/tap/tap.sh"
. "$abs_top_srcdir/t/sys/hooprun.sh"
plan_lazy

# --- options that there are not ---
for option in -q -j -z; do
    refused "there is no option $option. hooprun --help lists them all" "$option is near to nothing" $option true
done
refused 'there is no option -m; write the interpreter: hooprun -n 2 python3 -m MODULE' "torchrun's -m" -m train
refused 'there is no option -u; ranks get PYTHONUNBUFFERED=1' "python's -u" -u train.py
refused 'there is no option --report-bindings; --map prints' "mpirun's" --report-bindings true
refused 'there is no option --prepend-rank; write --tag-output' "MPICH's" --prepend-rank true
refused 'there is no option --outfile-pattern; --output-dir DIR' 'another' --outfile-pattern=x true
refused 'there is no option --timestamp-output; hooprun prints no times' 'one that is near to another' --timestamp-output true
run -n 1 -- echo a : b
is 'a : b' "$out" '... but behind -- they are arguments'
run -n 1 echo a :
is 'a :' "$out" '... and so is a last one'
run
is 2 "$status" 'hooprun alone: status 2'
like '^Usage: hooprun' "$err" '... and its usage'
run --rsh 'a | b' -n 1 true
like '^hooprun: --rsh a \| b: the value is a program and its arguments' "$err" '--rsh takes words, no pipeline'
printf '#!/bin/sh\nshift\nexec "$@"\n' >'my rsh'
chmod +x 'my rsh'
run --rsh "'$tmp/my rsh'" -H n1 echo hello
is hello "$out" 'quotes in --rsh are those of a shell'
refused 'host fe80::2: a link-local address needs the interface of this machine behind which it is; write fe80::2%eth0 if' \
    'a link-local address alone' -n 2 -H 'localhost:1,[fe80::2]:1' true
refused 'host root@fe80::2%nosuch0: this machine has no interface nosuch0; "ip link" lists' \
    '... with an interface of another machine' -n 2 -H 'localhost:1,root@fe80::2%nosuch0' true
refused '-x HOOP_SIZE: that variable is hooprun.s, which sets or removes it for each rank; leave it out' 'a variable of hooprun with -x' \
    -n 2 -x HOOP_SIZE=3 true
refused '-x RANK: that variable is hooprun.s' '... without a value' -n 2 -x RANK true
export HOOP_SHM=yes
refused 'HOOP_SHM=yes: give a whole number from 0 to 1' 'a wrong setting' -n 3 true
run -n 1 -x HOOP_SHM=0 sh -c 'echo $HOOP_SHM'
is 0 "$out" '... which -x mends'
unset HOOP_SHM
refused 'HOOP_SHM=yes: give a whole number from 0 to 1' '... with -x' -n 3 -x HOOP_SHM=yes true
refused 'window=4 is too small for slices=4' 'settings that do not go together, once' -n 3 -x HOOP_SLICES=4 -x HOOP_WINDOW=4 true
refused 'slice_bytes=1k is too small: use at least 4096' 'a slice that is too short' -n 3 -x HOOP_SLICE_BYTES=1k true
export HOOP_CONF_FILE=absent HOOP_SIZE=
run -n 1 echo here
is here "$out" 'the ranks read settings files themselves, and get a size of their own'
unset HOOP_CONF_FILE HOOP_SIZE

printf '[workers]\nn1\n' >inventory
refused 'inventory:1: word "workers" is not a range; .*; a hostfile has no \[groups\]' "another tool's hosts" -f inventory true

# --- programs that are none ---
fails()
{
    want=$1 pattern=$2 text=$3
    shift 3
    run "$@"
    is "$want" "$status" "$text: status $want"
    like "^hooprun: [^ ]+: $pattern" "$err" "$text: said"
}
echo 'print("hello")' >train.py
echo 'echo hello' >plain
: >empty
printf '\177ELFxxxxxxxx' >alien
chmod +x plain empty alien
fails 127 'train.py is not a program by itself; write hooprun -n 2 python3 train.py' 'a Python file' -n 2 train.py
fails 127 'there is no program nosuch.py in PATH .*; write ./nosuch.py if it is in the current folder' 'one that is not there' -n 2 nosuch.py
fails 126 './train.py is not a program by itself; write hooprun -n 3 python3 ./train.py' 'with its folder' -n 3 ./train.py
chmod +x train.py
fails 126 './train.py is not a program by itself; write hooprun -n 2 python3 ./train.py' 'executable, without #!' -n 2 ./train.py
fails 126 'cannot run ./plain: if it is a script, its first line must name its interpreter' 'a script without #!' -n 2 ./plain
fails 126 'cannot run ./empty: it is empty' 'an empty file' -n 2 ./empty
printf '#!/bin/sh\r\necho\r\n' >windows
printf '#! /no/such/sh -e\n' >strange
chmod +x windows strange
fails 127 'cannot run ./windows: its first line names /bin/sh with a carriage return behind it; .*: sed -i' 'lines of Windows' -n 2 ./windows
fails 127 'cannot run ./strange: the interpreter that its first line names, /no/such/sh, does not exist' 'a strange interpreter' -n 2 ./strange
fails 126 'cannot run ./alien: it was made for another kind of machine' 'a strange program' -n 2 ./alien
PATH=$tmp:$PATH fails 126 'cannot run plain: ' 'in PATH as well' -n 2 plain
fails 2 '--prefix .*/nowhere: there is no such folder; name the one where hoop is installed' 'no such prefix' -n 2 --prefix nowhere true
for pair in all_reduce_perf=allreduce ./build/all_gather_perf=allgather reduce_scatter_perf=reduce_scatter \
    alltoall_perf=alltoall sendrecv_perf=sendrecv; do
    fails 127 "there is no program ${pair%=*}; to measure with hoop, write hooprun -n 2 hoop-bench --coll ${pair#*=}\$" \
        "${pair%=*} of nccl-tests" -n 2 "${pair%=*}" -b 8 -e 128M
done
fails 127 'there is no program other_perf in PATH' 'another _perf is just not there' -n 2 other_perf
long=$(awk 'BEGIN { for (i = 0; i < 100; i++) printf "/some/folder%d:", i }')
PATH=$PATH:$long fails 127 'there is no program nonesuch in PATH \([^)]*folder[0-9]+:\.\.\.\); write' 'a long PATH ends with a whole folder' \
    nonesuch

# --- folders ---
if [ "$(id -u)" = 0 ]; then
    skip 2 'root may enter any folder: run it as another user'
else
    mkdir closed
    (cd closed && chmod 0 . && exec timeout 60 "$hooprun" -n 1 pwd) >out 2>err
    is 1 $? 'a folder that may not be entered: status 1'
    like '^hooprun: [^ ]+: cannot change into the folder .*/closed, in which hooprun was started: Permission denied' \
        "$(cat err)" '... said'
fi

# --- files of a former run ---
run -n 2 --output-dir runs/0 ./nosuch
is 127 "$status" 'a program that is not there: 127'
nok '... leaves no files of its ranks' test -e runs/0
mkdir runs/0
echo mine >runs/0/notes
run -n 2 --output-dir runs/0 ./nosuch
is 'runs/0 runs/0/notes' "$(echo $(find runs/0 | sort))" '... and takes no others away'
run -n 2 --output-dir runs/0 true
is 0 "$status" '... so that the next run can begin'
ok '... whose ranks have files, also empty ones' test -f runs/0/rank.1/stderr
run -n 2 --output-dir runs/1 echo first
refused '--output-dir .*/runs/1: rank.0/stdout is there already; name another folder, or write over it with --force' \
    'a former run' -n 2 --output-dir runs/1 echo second
is first "$(cat runs/1/rank.1/stdout)" '... is as it was'
run -n 2 --output-dir runs/1 --force echo third
is third "$(cat runs/1/rank.1/stdout)" '--force writes over it'
run -n 2 --output-dir runs/1 --force ./nosuch 2>/dev/null
is third "$(cat runs/1/rank.1/stdout)" 'not where no rank has run'
run -n 2 --output-dir runs/2 --tee sh -c 'echo "out $HOOP_RANK"; echo "err $HOOP_RANK" >&2'
is 'out 0 out 1 err 0 err 1' "$(echo $(sort out) $(sort err))" '--tee shows the lines'
is 'out 1 err 0' "$(cat runs/2/rank.1/stdout runs/2/rank.0/stderr | tr '\n' ' ' | sed 's/ $//')" '... and writes them'
run -n 2 --output-dir runs/3 --tee sh -c '[ $HOOP_RANK = 0 ] || { echo last words >&2; exit 1; }; sleep 60'
is 1 "$(grep -c 'last words' err)" '... and last words only once'
link='cannot make the files of rank [01] there: a symbolic link is in the way; hooprun does not follow it'
mkdir victim runs/4 runs/5 runs/5/rank.1
ln -s ../victim runs/dir
ln -s ../../victim runs/4/rank.0
ln -s ../../../victim/file runs/5/rank.1/stderr
refused "--output-dir .*/runs/dir: $link" 'a folder that is a link' -n 2 --output-dir runs/dir true
refused "--output-dir .*/runs/dir/: $link" '... with a / behind it' -n 2 --output-dir runs/dir/ true
refused "--output-dir .*/runs/4: $link" "a rank's folder" -n 2 --output-dir runs/4 true
refused "--output-dir .*/runs/5: $link" 'a file' -n 2 --output-dir runs/5 --force true
is '' "$(ls victim)" 'nothing came where they lead'
if [ "$(id -u)" = 0 ] && chown 1 runs/3 2>/dev/null; then
    refused '--output-dir .*/runs/3: .*: a folder there belongs to another user' "somebody else's folder" \
        -n 2 --output-dir runs/3 --force true
else
    skip 3 'only root can give a folder away: run it as root'
fi

# --- one machine under several names ---
name=$(hostname)
run -H "localhost:1,127.0.0.1:2,$name:1" sh -c 'echo $HOOP_RANK $LOCAL_RANK/$LOCAL_WORLD_SIZE $HOOP_LOCAL_RANK/$HOOP_LOCAL_SIZE'
is '0 0/4 0/4,1 1/4 1/4,2 2/4 2/4,3 3/4 3/4,' "$(sort out | tr '\n' ,)" 'local ranks differ on one machine'
run --rsh "'$tmp/my rsh'" -H n1:1,n2:2,alice@n1:2 sh -c 'echo $HOOP_RANK $LOCAL_RANK/$LOCAL_WORLD_SIZE'
is '0 0/3,1 0/2,2 1/2,3 1/3,4 2/3,' "$(sort out | tr '\n' ,)" '... also under two users'
printf 'a addr=127.0.0.7\nb\nc addr=127.0.0.7\n' >hosts
run --rsh "'$tmp/my rsh'" -f hosts sh -c 'echo $HOOP_RANK $LOCAL_RANK/$LOCAL_WORLD_SIZE'
is '0 0/2,1 0/1,2 1/2,' "$(sort out | tr '\n' ,)" '... and under two names with one address'
processors=$(nproc)
if [ "$processors" -ge 2 ]; then
    run --bind -H localhost:1,127.0.0.1:1 sh -c 'sed -n "s/^Cpus_allowed_list:.//p" /proc/self/status'
    is 2 "$(sort -u out | wc -l | tr -d ' ')" '--bind shares it out among all of them'
else
    skip 1 'one processor, and --bind needs two'
fi
done_testing
