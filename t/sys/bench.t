#!/bin/sh
# SPDX-License-Identifier: MIT
# hoop-bench: nccl-tests' face letter for letter, sound arithmetic, every collective, type and operation right on three
# ranks, a wrong result seen, files that can be read back, and mistakes answered with a sentence.
# time limit: 400
. "$abs_top_srcdir/t/tap/tap.sh"
bin=$abs_top_builddir/bin bench=$abs_top_builddir/bin/hoop-bench liar=$abs_top_builddir/t/perf/liar
unset HOOPRUN_TTY
plan_lazy
cd "$tmp" || bail "no $tmp"

rows() { grep -vE '^#|^$' "$1"; }
run() { "$bin/hooprun" "$@" 2>err; }

# --- the face
run -n 4 "$bench" -b 8 -e 512K -f 16 -n 3 -w 2 >table
is 0 $? 'a run with four ranks ends well' || bail "$(tail -1 err)"
is '#                                                              out-of-place                       in-place          
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong 
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         ' \
    "$(grep -A2 'out-of-place' table)" 'the head of the table is that of nccl-tests'
is '# nThread 1 nGpus 0 minBytes 8 maxBytes 524288 step: 16(factor) warmup iters: 2 iters: 3 agg iters: 1 validation: 1 graph: 0 unalign: 0' \
    "$(grep nThread table)" 'so is the line of settings'
is 4 "$(grep -cE '^#  Rank +[0-3] Group  0 Pid +[0-9]+ on +[^ ]+ device  0 \[0000:00:00\] host memory$' table)" \
    'every rank introduces itself'
like '^# Out of bounds values : 0 OK$' "$(cat table)" 'the foot tells what is wrong'
like '^# Avg bus bandwidth    : [0-9.e+-]+ $' "$(cat table)" '... and the mean bandwidth'
like '^# First call           : up to [0-9.]+ times the median \(at [0-9.]+ ([KMGT]i)?B\); not counted in the table$' "$(cat table)" \
    '... and the first call, apart'
is '8 2;128 32;2048 512;32768 8192;524288 131072;' "$(rows table | awk '{ printf "%s %s;", $1, $2 }')" 'sizes and counts as asked'
sizes_of() { run -n 2 "$bench" -n 1 -w 0 "$@" | grep -vE '^#|^$' | awk '{ printf "%s ", $1 }'; }
is '0 4 16 64 ' "$(sizes_of -b 0 -e 64)" 'sizes from 0 on: one element is the next'
is '0 16 48 ' "$(sizes_of -b 0 -e 64 -f 3 --coll allgather -d double)" '... of each rank'
is '0 32 64 ' "$(sizes_of -b 0 -e 64 -i 32)" '... or a step'
is '0 ' "$(sizes_of -b 0 -e 64 --coll barrier)" '... and a barrier has no other'
columns='^ {0,11}[0-9]+  +[0-9]+  +float  +sum  +-1( +[0-9.e+]+ +[0-9.]+ +[0-9.]+ +0){2}$'
is 5 "$(rows table | grep -cE "$columns")" 'every row has its thirteen columns'
is '' "$(rows table | awk 'length($0) != 118')" '... at their places'

# busbw = algbw * 2(n-1)/n and algbw = size / time, as far as two decimals tell.
is '' "$(run -n 3 "$bench" -b 1M -e 4M -f 4 -n 3 | grep -vE '^#|^$' | awk '
    function off(a, b) { d = a - b; return (d < 0 ? -d : d) > 0.011 + 0.002 * b }
    off($7, $1 / $6 / 1000) || off($8, $7 * 4 / 3) || off($11, $1 / $10 / 1000) || off($12, $11 * 4 / 3)')" \
    'bandwidths follow from size and time'
for coll in broadcast:1 reduce:1 allgather:.66667 alltoall:.66667 gather:.66667 scatter:.66667 reduce_scatter:.66667 \
    allgatherv:.66667 reduce_scatterv:.66667; do
    is '' "$(run -n 3 "$bench" --coll ${coll%:*} -b 1M -e 1M -n 2 | grep -vE '^#|^$' | awk -v f=${coll#*:} '
        { d = $8 - f * $7; if (d > 0.011 || d < -0.011) print }')" "bus bandwidth of ${coll%:*}"
done

# --- everything is right, and what is wrong is seen
case ${HOOP_TEST_SANITIZE:-no} in
no) step=23 ;;
*) step=400 ;;
esac
run -n 3 "$bench" --coll all -d all -o all -r all -b 1 -e 30000 -f $step -n 1 -w 0 >soak
is 0 $? "all collectives, types, operations and roots, sizes by $step"
like '^# Out of bounds values : 0 OK$' "$(cat soak)" '... nothing is wrong'
sizes=$(awk -v f=$step 'BEGIN { for (s = 1; s <= 30000; s *= f) n++; print n }')
# allreduce, reduce_scatter(v): 8 integers, 8 operations; bool, 7; 6 floats, 5. reduce: and 3 roots; allgather(v),
# alltoall(v), sendrecv: 15; three with roots: 45.
is $((sizes * (3 * 101 + 303 + 5 * 15 + 3 * 45) + 1)) "$(rows soak | wc -l)" '... and nothing was left out'
is '' "$(rows soak | awk '$9 != 0 || ($13 != 0 && $13 != "N/A")')" '... row by row'
run -n 2 "$bench" --coll sendrecv -b 64 -e 64K -f 32 -J messages.json >messages
is '0 3 3' "$? $(rows messages | awk '$9 == 0' | wc -l) $(grep -o '"in_place": *null' messages.json | wc -l)" \
    'messages have no in-place form, in the table and in the file'
run -n 2 "$bench" --coll alltoallv -b 64 -e 64K -f 32 --stats >messages
is "0 3" "$? $(rows messages | grep -c 'N/A *N/A *N/A *N/A *N/A *N/A')" 'nor has alltoallv, with --stats'
like '    N/A *$' "$("$bench" -b 8 -e 8 -c 0 | grep -vE '^#|^$')" '-c 0 checks nothing and says so'

BENCH_LIE=256 run -n 2 "$liar" -b 64 -e 4096 -f 4 -n 1 >lies
is 1 $? 'one wrong bit ends hoop-bench with 1'
is '1024 1 1;' "$(rows lies | awk '$9 != 0 || $13 != 0 { printf "%s %s %s;", $1, $9, $13 }')" '... is counted at its size'
like '^# Out of bounds values : 2 FAILED$' "$(cat lies)" '... and in the foot'
ok 'the same program is content when nothing is falsified' "$liar" -b 64 -e 4096 -n 1

# --- files
"$bench" -b 8 -e 8K -f 8 -n 7 --stats --csv t.csv -J t.json >stats
is 4 "$(rows stats | awk 'NF == 27' | wc -l)" '--stats adds seven columns to each side' ||
    diag "$(rows stats | awk '{ print NF }')"
like '^# First call .*; it counts in the column first only$' "$(cat stats)" '... of which one is the first call'
is '' "$(rows stats | awk '$11 < $13 || $11 > $14 || $12 != $14 || $15 != $13 || $16 != $14')" \
    'the median lies between least and most, which enclose it in 95 % of seven runs; 99 % of them are all'
is 'coll,size,count,type,redop,root,place,iterations,time_us,algbw,busbw,wrong,first_us,median_us,p99_us,min_us,max_us,ci95_low_us,ci95_high_us' \
    "$(head -1 t.csv)" 'the CSV names its columns'
is "9 19" "$(awk -F, '{ if (NF != 19) bad = 1 } END { print NR, bad ? "ragged" : NF }' t.csv)" '... has a line for each size and place'
like 'Writing JSON output to t\.json$' "$(cat stats)" 'JSON is written where it was asked for'
for key in version start_time args env nccl_version config results out_of_bounds average_bus_bandwidth errors end_time; do
    like "\"$key\":" "$(cat t.json)" "JSON has $key"
done
if command -v python3 >/dev/null; then
    ok 'and is JSON' python3 -c 'import json; d = json.load(open("t.json")); assert len(d["results"]) == 4 and d["results"][1]["in_place"]["nwrong"] == 0 and d["version"] == 3'
else
    skip 1 'python3 is not installed (apt-get install python3)'
fi
like 'Writing JSON output to t\.0\.json$' "$("$bench" -b 8 -e 8 -n 1 -J t.json)" \
    'a file that exists is left alone, and the new one ends in .json too'
rm t.0.json
: >begun.json # as a run leaves it that is ended
like 'Writing JSON output to begun\.json$' "$("$bench" -b 8 -e 8 -n 1 -J begun.json)" 'an empty file is written to'
ok 'in full' grep -q '"results"' begun.json
if [ -w /dev/full ]; then
    nok 'a device is written to, and no file beside it' "$bench" -b 8 -e 8 -n 1 -J /dev/full
    nok '--help with nowhere to write it' sh -c '"$0" --help >/dev/full' "$bench"
else
    skip 2 'there is no /dev/full'
fi
mkdir a.b
for name in plain a.b/plain .dot; do
    "$bench" -b 8 -e 8 -n 1 -J $name >/dev/null
    like "Writing JSON output to $name\.0\$" "$("$bench" -b 8 -e 8 -n 1 -J $name)" "$name has no ending to keep"
done

if command -v gnuplot >/dev/null && command -v python3 >/dev/null; then
    "$bench" -b 8 -e 8K -f 8 -n 1 -J old.json >/dev/null
    ok 'bench/draw draws two runs' "$abs_top_srcdir/bench/draw" two.svg old.json t.json
    is 'old.json: allreduce of float, sum t.json: allreduce of float, sum' \
        "$(sed -n 's/.*>\([a-z]*\.json: .*\)<.*/\1/p' two.svg | paste -sd ' ')" '... with a curve for each'
else
    skip 2 'python3 or gnuplot is not installed (apt-get install python3 gnuplot-nox)'
fi
like 'Bus bandwidth of allreduce' "$(run -n 2 env HOOPRUN_TTY=1 "$bench" -b 1K -e 64K -n 2)" 'on a terminal there is a curve'
nok '... elsewhere there is none' grep -q 'Bus bandwidth' table

# --- elements that travel as bfloat16
for kind in allreduce reduce_scatter reduce_scatterv; do
    for op in sum avg; do
        is 0 "$(HOOP_SHM=0 run -n 3 "$bench" --wire bfloat16 -b 1K -e 1M -f 32 -n 2 -c 2 --coll $kind -o $op | sed -n 's/^# Out of bounds values : \([0-9]*\).*/\1/p')" \
            "$kind of three ranks as bfloat16, $op: all values are as they should be"
    done
done

# --- means in the order of hosts, two ranks on one
printf '#!/bin/sh\nHOOP_HOSTID=$((HOOP_RANK / 2)) exec "$@"\n' >on_hosts
chmod +x on_hosts
for type in bfloat16 half float8e5m2; do
    is 0 "$(HOOP_ORDER=host run -n 4 ./on_hosts "$bench" -b 1K -e 256K -f 16 -n 2 -c 2 -d $type -o avg | sed -n 's/^# Out of bounds values : \([0-9]*\).*/\1/p')" \
        "means of $type in the order of hosts: all values are as they should be"
done

# --- long sizes: on hooprun's terminal a line every five seconds, on our own one that is written over and taken away
BENCH_SLOW=300 run -n 2 env HOOPRUN_TTY=2 "$liar" -b 64 -e 64 -n 20 -w 0 -c 0 >out
is 2 "$(grep -c '^# allreduce of 64 bytes: run ' err)" 'a size that takes six seconds shows once a side how far it is' ||
    diag "$(cat err)"
like 'run 1[5-9] of 20, [0-9] s to go$' "$(cat err)" '... and how long it will take'
BENCH_SLOW=300 run -n 2 "$liar" -b 64 -e 64 -n 5 -w 0 -c 0 >out
is '' "$(grep '^#' err)" '... but in no file'
if command -v script >/dev/null; then
    BENCH_SLOW=150 script -qec "$liar -b 64 -e 64 -n 12 -w 0 -c 0 --csv typed.csv" typed >/dev/null </dev/null
    like "$(printf '\0337')  run [0-9]+ of 12, [0-9] s to go" "$(cat typed)" 'on a terminal of its own too'
    like "$(printf '\033')\\[K" "$(cat typed)" '... which is taken away in the end'
else
    skip 2 'script is not installed (apt-get install bsdutils)'
fi

ok "a line of nccl-tests' own flags runs" "$bench" -b 8 -e 8 -n 1 -t 1 -m 1 -p 0 -C 0 -T 0 -R 0 -O 1 -G 0 -y 0 -N 1 -S 0
ok '... also by their long names' "$bench" -b 8 -e 8 -n 1 --nthreads 1 --agg_iters=1 --parallel_init 0 --run_cycles 1
for flag in t m p C T R O G y N S; do
    nok "no value of -$flag but one" "$bench" -b 8 -e 8 -n 1 -$flag 7
    like "^-$flag 7: [a-z].*[a-z)]\$" "$("$bench" -$flag 7 2>&1 | sed 's/^hoop-bench: //')" '... and the sentence says why'
done

is float "$("$bench" -b 4 -e 4 -n 1 -d float32 | awk '!/^#/ { print $3 }')" 'types go by the names of hoop.h too'

# --- mistakes
refused()
{
    status=$1 pattern=$2
    shift 2
    run -n 2 "$bench" "$@" >out
    is $status $? "refused: $*"
    like "$pattern" "$(grep '^hoop-bench:' err)" '... with a sentence'
    is 1 "$(grep -c '^hoop-bench:' err)" '... said once'
}
refused 2 'no option -x: see' -x
refused 2 'no option -x: see' -xyz
refused 2 'no option --stat5; the nearest one is --stats: see' --stat5
refused 2 '--stats takes no value: see' --stats=1
refused 2 '--coll needs a value: see' --coll
refused 2 '-coll is written with two dashes, --coll: see' -coll barrier
refused 2 '-b needs a value' -b
refused 2 '-b takes a size such as .* not "3Q"' -b 3Q
refused 2 '-e takes a size such as .* not "1G1"' -e 1G1
refused 2 '-e takes a size such as .* not "8Kfoo"' -e 8Kfoo
refused 2 'no type called "real"' -d real
refused 2 'no operation called "mean"' -o mean
refused 2 'no collective called "shout"' --coll shout
refused 2 'no collective called "allreduc"; the nearest one is allreduce: see' --coll allreduc
refused 2 'no type called "flot"; the nearest one is float: see' -d flot
refused 2 'no operation called "summ"; the nearest one is sum: see' -o summ
refused 2 'float has no operation band: take one of integers, such as -d int32' -o band
refused 2 'bool has no operation avg: a bool has no mean' -d bool -o avg --coll reduce
refused 2 'there is no size between' -b 8 -e 4
refused 2 '--wire takes float32, bfloat16 or e4m3, not "half"' --wire half
refused 2 'rank that does not exist: there are 2' -r 2
refused 2 '-n takes a whole number' -n 0
refused 2 '^hoop-bench: -G 1: hoop-bench does not run CUDA graphs; leave -G out$' -G 1
refused 2 '-t 2: a rank of hoop-bench is one process; start more ranks' -t 2
refused 2 '-T 60: the time limit of a call is HOOP_OP_TIMEOUT_MS' --timeout 60
refused 2 '"more" is no option' more
refused 1 'cannot write nowhere/t.json: No such file' -J nowhere/t.json
refused 1 'cannot write nowhere/t.csv: No such file' --csv nowhere/t.csv
mkdir afolder
refused 1 'cannot write afolder: Is a directory' -J afolder
refused 1 'cannot write afolder/: Is a directory' -J afolder/
refused 1 'cannot write nowhere/: No such file' -J nowhere/
is afolder "$(find afolder*)" '... and nothing is made in it or beside it'
refused 1 "$(hostname) lacks memory: 2 ranks there with two buffers of 1099511627776 bytes each need 4096\.0 GiB, and [0-9.]+ GiB are available; try a smaller -e" \
    -b 1024G -e 1024G -n 1
[ -e /dev/nvidiactl ] || refused 1 'asks for GPU memory' -g 1
ok 'help fits a screen' test "$("$bench" --help | wc -l)" -le 26
ok '... a hundred columns wide' test -z "$("$bench" --help | awk 'length($0) > 100')"
like 'Example: hooprun' "$("$bench" --help)" '... with an example'
page=$abs_top_srcdir/man/hoop-bench.1
for option in $("$bench" --help | grep -oE -- '(^| )--?[a-zA-Z_]+' | sort -u); do
    ok "the manual has $option" grep -qE "Fl ${option#-}( |\$)" "$page"
done
like '^GPU: ' "$("$bench" --version)" '--version tells about the GPU'
done_testing
