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
run -n 2 "$bench" --coll alltoallv -b 64 -e 64K -f 32 --stats --compare messages.json >messages
is "0 3" "$? $(rows messages | grep -c 'N/A *N/A *N/A *N/A *N/A *N/A')" 'nor has alltoallv, with --stats and --compare'
like '    N/A *$' "$("$bench" -b 8 -e 8 -c 0 | grep -vE '^#|^$')" '-c 0 checks nothing and says so'

BENCH_LIE=256 run -n 2 "$liar" -b 64 -e 4096 -f 4 -n 1 >lies
is 1 $? 'one wrong bit ends hoop-bench with 1'
is '1024 1 1;' "$(rows lies | awk '$9 != 0 || $13 != 0 { printf "%s %s %s;", $1, $9, $13 }')" '... is counted at its size'
like '^# Out of bounds values : 2 FAILED$' "$(cat lies)" '... and in the foot'
ok 'the same program is content when nothing is falsified' "$liar" -b 64 -e 4096 -n 1

# --- the share of the line
is '' "$(grep -c %line table | sed '/^0$/d')" 'where the line is unknown there is no share of it'
run -n 2 "$bench" -b 64K -e 4M -f 8 -n 3 --line 10G --csv line.csv -J line.json >line
is 0 $? '--line is taken'
like '^# Line 10 Gbit/s each way, as --line says$' "$(cat line)" '... repeated'
like ' #wrong   %line   %line $' "$(cat line)" '... has its columns at the end of the row'
is 15 "$(rows line | awk '{ print NF }' | sort -u)" '... all rows have them'
is '' "$(rows line | awk '
    function off(share, busbw) { d = share - 100 * busbw * 8 / 10; return (d < 0 ? -d : d) > 0.5 }
    off($14, $8) || off($15, $12)')" '... bits of bus bandwidth by bits of the line, in per cent'
is '' "$(awk -F, 'NR > 1 { d = $19 - 100 * $11 * 8 / 10; if (d > 0.001 || d < -0.001) print }' line.csv)" '... in the CSV'
like '"bus_bw":[0-9.]+,"nwrong":0.000000,"line_percent":[0-9.]+,' "$(cat line.json)" '... in the JSON'
like '^# Share of the line    : at best [0-9.]+ % \([0-9]+ B\)$' "$(cat line)" '... and summed up'

# --- files
"$bench" -b 8 -e 8K -f 8 -n 7 --stats --csv t.csv -J t.json >stats
is 4 "$(rows stats | awk 'NF == 25' | wc -l)" '--stats adds six columns to each side' ||
    diag "$(rows stats | awk '{ print NF }')"
like '^# First call .*; it counts in the column first only$' "$(cat stats)" '... of which one is the first call'
is '' "$(rows stats | awk '$11 < $12 || $11 > $13 || $14 != $12 || $15 != $13')" \
    'the median lies between least and most, which enclose it in 95 % of seven runs'
is 'coll,size,count,type,redop,root,place,iterations,time_us,algbw,busbw,wrong,first_us,median_us,min_us,max_us,ci95_low_us,ci95_high_us,line_percent' \
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
mkdir a.b
for name in plain a.b/plain .dot; do
    "$bench" -b 8 -e 8 -n 1 -J $name >/dev/null
    like "Writing JSON output to $name\.0\$" "$("$bench" -b 8 -e 8 -n 1 -J $name)" "$name has no ending to keep"
done

# --- a former run, which libjansson reads
past='--compare t.json'
if "$bench" -b 8 -e 8 -n 1 $past 2>&1 >/dev/null | grep 'built without libjansson, which reads JSON' >/dev/null; then
    past=
    skip 18 'hoop-bench was built without libjansson: install libjansson-dev, and configure again'
else
    "$bench" -b 8 -e 8K -f 8 -n 7 -J t.json --compare t.json >compared
    like 'Writing JSON output to t\.0\.json$' "$(cat compared)" 'a run is written beside the one that it is compared with'
    like '^# Compared with t\.json: time now / time then' "$(cat compared)" '... the run is compared with what was there before'
    "$bench" -b 8 -e 8 -n 1 -J t.json --compare t.json >again
    like 'Writing JSON output to t\.1\.json$' "$(cat again)" '... and so on'
    like '^# Compared with t\.0\.json: ' "$(cat again)" '--compare takes the newest of the name'
    touch -d '1 hour ago' t.0.json t.1.json
    like '^# Compared with t\.json: ' "$("$bench" -b 8 -e 8 -n 1 --compare t.json)" '... by its time, not by its number'
    rm t.0.json t.1.json
    is 4 "$(grep -cE '^# +allreduce .* [0-9.]+[ *] +[0-9.]+[ *]$' compared)" '--compare sets every row beside the former one'
    like '^# Compared +: [0-9.]+ times the former time \(geometric mean of 8\)' "$(cat compared)" '... and sums up'
    nok '... of as many ranks' grep -q Beware compared
    like 'Beware: the former run had 1 ranks, this one has 2' "$(run -n 2 "$bench" -b 8 -e 8 -n 2 --compare t.json)" \
        '... a run of other ranks is said to be one'
    # A former run that took a second for everything, and one that varied from nothing to a second.
    sed 's/"\(time\|median_us\|ci95_[a-z]*_us\)":\([0-9]*\)/"\1":99999\2/g' t.json >slower.json
    sed 's/"ci95_low_us":[0-9.]*,"ci95_high_us":[0-9.]*/"ci95_low_us":0,"ci95_high_us":1000000/g' slower.json >vague.json
    "$bench" -b 8 -e 8K -f 8 -n 7 --compare slower.json >compared
    is 4 "$(grep -cE '^# +allreduce .* 0[0-9.]+\* +0[0-9.]+\*$' compared)" 'a star marks what lies outside both intervals' ||
        diag "$(cat compared)"
    like "^# \\* the medians differ: each lies outside the other run's 95 % confidence interval\$" "$(cat compared)" '... and is explained'
    "$bench" -b 8 -e 8K -f 8 -n 7 --compare vague.json >compared
    is 0 "$(grep -c '^# .*[0-9]\*' compared)" '... what lies inside one of them has none'
    "$bench" -b 8 -e 8K -f 8 -n 5 --compare slower.json >compared
    is 0 "$(grep -c '^# .*\*' compared)" '... nor what has no interval'
    like '^# No stars: with fewer than 6 timed runs' "$(cat compared)" '... which is said'
    sed 's/allreduce//' t.json >nccl.json
    like 'geometric mean of 8' "$("$bench" -b 8 -e 8K -f 8 -n 7 --compare nccl.json)" "nccl-tests' own files will do"
    printf '{"results":[{"size":8,"type":"float"' >cut.json
    for not in cut.json table /dev/null; do
        like "^hoop-bench: --compare needs .*; $not is not one\$" "$("$bench" -b 8 -e 8 -n 1 --compare $not 2>&1 >/dev/null)" \
            "$not cannot be compared with"
    done
fi

mkdir empty
env PATH="$tmp/empty" "$bench" -b 8 -e 8K -f 8 -n 2 --plot p.png >plot
is 0 $? 'without gnuplot --plot is no error'
like 'gnuplot could not be run here; its script and data are p\.png\.gp and p\.png\.dat' "$(cat plot)" '... one line says so'
is 4 "$(grep -c '^[0-9]' p.png.dat)" '... and the data stay'
if command -v gnuplot >/dev/null; then
    ok '--plot draws' "$bench" -b 8 -e 8K -f 8 -n 2 --coll all --plot q.svg
    like '<svg' "$(head -5 q.svg)" '... an SVG'
    is '' "$(ls | grep '^q.svg\.')" '... and leaves nothing else behind'
    mkdir "it's"
    "$bench" -b 8 -e 8K -f 8 -n 2 --line 1G $past --plot "it's/r.svg" >plot
    like "^# Plot: it's/r\.svg\$" "$(cat plot)" '... into folders with any name'
    for word in 'allreduce: time' 'allreduce: bus bandwidth, GB/s' 'float sum' "float sum, in place${past:+, before}" 'the line' '2 KiB' \
        "hoop-bench $("$bench" --version | sed -n 's/hoop-bench //p'): 1 rank on $(hostname), 20[0-9-]+ [0-9:]+${past:+; dashed: t\.json}"; do
        like ">$word<" "$(cat "it's/r.svg")" "... $word"
    done
    is 1 "$("$bench" -b 8 -e 8 -n 2 --plot s.svg 2>&1 | grep -c 's\.svg\|arning')" 'a single size makes gnuplot say nothing'
    ok '... and is drawn' test -s s.svg
    run -n 2 "$bench" -b 8 -e 8K -f 8 -n 7 --coll all --stats --plot all.svg >plot
    is 'allgather allgatherv allreduce alltoall alltoallv broadcast gather reduce reduce_scatter reduce_scatterv scatter sendrecv ' \
        "$(sed -n 's/.*>\([a-z_]*\): bus bandwidth.*/\1/p' all.svg | LC_ALL=C sort | tr '\n' ' ')" \
        'every collective has a panel of its own, but the barrier, which has no sizes'
    is 12 "$(grep -c 'median time and its 95 % interval' all.svg)" '... with --stats of the medians'
    like '^# Plot: there is nothing to draw' "$("$bench" --coll barrier -n 2 --plot b.svg)" 'a barrier alone is not drawn'
else
    skip 16 'gnuplot is not installed (apt-get install gnuplot-nox)'
fi
mkdir bad
printf '#!/bin/sh\necho no such terminal >&2\nexit 1\n' >bad/gnuplot
chmod +x bad/gnuplot
PATH="$tmp/bad:$PATH" "$bench" -b 8 -e 8K -f 8 -n 7 --stats ${past:+--compare slower.json} --plot s.svg >plot 2>err
is '' "$(cat err)" 'what gnuplot says does not leak'
like 'gnuplot was not content; its script and data are s.svg.gp and s.svg.dat' "$(cat plot)" \
    '... what it cannot draw is said to be so'
is 'no such terminal' "$(cat s.svg.log)" '... and its words are kept'
for place in '' ', in place'; do
    style=$(sed -n "s/.* with yerrorlines \(linecolor rgb '[^']*'\) .* dashtype 1 title 'float sum$place'.*/\1/p" s.svg.gp)
    like "^linecolor rgb '#" "$style" "float sum$place has intervals"
    [ -z "$past" ] || like " with yerrorlines $style .* dashtype 2 title 'float sum$place, before'" "$(cat s.svg.gp)" \
        '... and the colour of what was before, which is dashed'
done
is 4 "$(awk '/^[0-9]/ && NF == 25 && $3 <= $2 && $2 <= $4' s.svg.dat | wc -l)" \
    '... between their ends' || diag "$(cat s.svg.dat)"
like 'Bus bandwidth of allreduce' "$(run -n 2 env HOOPRUN_TTY=1 "$bench" -b 1K -e 64K -n 2)" 'on a terminal there is a curve'
nok '... elsewhere there is none' grep -q 'Bus bandwidth' table

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
refused 2 'no option -x' -x
refused 2 '-b needs a value' -b
refused 2 '-b takes a size such as .* not "3Q"' -b 3Q
refused 2 '-e takes a size such as .* not "1G1"' -e 1G1
refused 2 '-e takes a size such as .* not "8Kfoo"' -e 8Kfoo
refused 2 'no type called "real"' -d real
refused 2 'no operation called "mean"' -o mean
refused 2 'no collective called "shout"' --coll shout
refused 2 'float has no operation band: take one of integers, such as -d int32' -o band
refused 2 'bool has no operation avg: a bool has no mean' -d bool -o avg --coll reduce
refused 2 'there is no size between' -b 8 -e 4
refused 2 'rank that does not exist: there are 2' -r 2
refused 2 '-n takes a whole number' -n 0
refused 2 '^hoop-bench: -G 1: hoop-bench does not run CUDA graphs; leave -G out$' -G 1
refused 2 '-t 2: a rank of hoop-bench is one process; start more ranks' -t 2
refused 2 '-T 60: the time limit of a call is HOOP_OP_TIMEOUT_MS' --timeout 60
refused 2 'ends in .png or .svg' --plot picture
refused 2 '--line takes a rate .* not "10Gb"' --line 10Gb
refused 2 '"more" is no option' more
if [ -n "$past" ]; then
    refused 1 'cannot read .*nothing.json' --compare nothing.json
    refused 1 'is not one' --compare table
else
    refused 1 '--compare t.json: this hoop-bench was built without libjansson, which reads JSON; build it again where' --compare t.json
fi
refused 1 'cannot write nowhere/t.json: No such file' -J nowhere/t.json
refused 1 'cannot write nowhere/t.csv: No such file' --csv nowhere/t.csv
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
