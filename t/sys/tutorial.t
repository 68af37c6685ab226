#!/bin/sh
# SPDX-License-Identifier: MIT
# Every command of README.md, hoop_tutorial(7), hoop_coming_from(7), hoop_two_hosts(7) and hoop_hang(7), in the order in
# which they stand there, what they are said to print, the commands of hoop_launch(7), and every example of the manual,
# alone and as a ring of three. The home is a folder of this test's own, a script stands for the remote shell, and the library is the one of
# the build tree. A block that is marked "sample" is only shown.
# time limit: 300
. "$abs_top_srcdir/t/tap/tap.sh"
: "${PKG_CONFIG:=pkg-config}" "${CC:=cc}"
[ -e "$abs_top_builddir/.libs/libhoop.so" ] || skip_all 'no shared library in this tree: configure without --disable-shared'
plan_lazy
for variable in $(env | sed -n 's/^\(HOOP_[A-Z_]*\)=.*/\1/p' | grep -v '^HOOP_TEST_'); do
    unset "$variable"
done
cd "$tmp" || bail "no $tmp"
mkdir tools pc home

# --- the machine that the pages speak of ---

sed -e "s|^Cflags:.*|Cflags: -I$abs_top_srcdir/include|" \
    -e "s|^Libs:.*|Libs: -L$abs_top_builddir/.libs -Wl,-rpath,$abs_top_builddir/.libs -lhoop|" \
    "$abs_top_builddir/hoop.pc" >pc/hoop.pc
# The tree's own tools under their common names; a path in front, or they would call themselves.
named() { printf '#!/bin/sh\nexec %s "$@"\n' "$(command -v "${2%% *}")${2#"${2%% *}"}" >"tools/$1"; }
named cc "$CC"
named pkg-config "$PKG_CONFIG"
printf '#!/bin/sh\nshift\nexec "$@"\n' >tools/ssh
cat >tools/srun <<'END'
#!/bin/sh
export SLURM_NTASKS=$2 SLURM_STEP_NUM_TASKS=$2 SLURM_PROCID=0
shift 2
while [ $SLURM_PROCID -lt $SLURM_NTASKS ]; do
    "$@" &
    SLURM_PROCID=$((SLURM_PROCID + 1))
done
wait
END
chmod +x tools/*
export PATH="$tmp/tools:$abs_top_builddir/bin:$PATH" HOME="$tmp/home" HOOP_RSH="$tmp/tools/ssh"
export PKG_CONFIG_PATH="$tmp/pc${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"

# A port that was free a moment ago stands for the pages' 5801.
start hoop-rendezvous --security none >listening
await grep -q listening listening
port=$(sed -n 's/.*://p' listening)
stop "$started"

# --- blocks ---

# A shell that stops at the first failure, unless the block has processes in the background, which it awaits by itself.
# Whatever settings the block has added to the shell are in the file "left".
run_block()
{
    sed "s/5801/$port/g" "$1" >script
    strict=-e
    grep -q '&' script && strict=
    echo 'tutorial=$?; export -p | grep " HOOP_" | grep -v " HOOP_\(RSH\|TEST_.*\)=" >left || :; exit $tutorial' >>script
    : >left
    timeout 100 sh $strict ./script >printed 2>&1 </dev/null
    status=$?
}

# Numbers and names differ from machine to machine.
even()
{
    sed -e "s/($(hostname)/(node1/g" -e 's/job [0-9a-f]\{8\}/job N/g' -e 's/[0-9][0-9.]*/N/g' "$@"
}

check_output()
{
    even printed >seen
    even "$1" >wanted
    while read -r line; do
        grep -qF -e "$line" seen || { diag "not printed: $line"; diag "$(cat printed)"; return 1; }
    done <wanted
}

# look FILE [gdb]: a block that looks at rank 2 of ./hang, for which 4711 stands, while the ranks hang.
look()
{
    if [ -n "${2:-}" ] && ! gdb -p $$ -batch >/dev/null 2>&1; then
        skip 1 "$name: block $number: gdb is not installed (apt-get install gdb), or may not attach (sysctl kernel.yama.ptrace_scope=0)"
        return
    fi
    rm -f pid.*
    start hooprun -n 3 sh -c 'echo $$ >pid.$HOOP_RANK; exec ./hang' 2>hang.log
    hung=$started
    await test -s pid.2
    pid=$(cat pid.2)
    await grep -qx hang /proc/$pid/comm
    sed "s/4711/$pid/g" "$1" >script.look
    run_block script.look
    ok "$name: block $number looks at a rank" sh -c "test $status -eq 0 && grep -qE '^ *$pid .*(hang|HOOP_RANK=2)|main \\(\\)' printed" ||
        diag "$(cat printed)"
    stop $hung
}

# page FILE FOLDER: its blocks, in the order in which they stand, in that folder.
page()
{
    name=${1##*/}
    mkdir -p "$2" "$tmp/$name"
    awk -v folder="$tmp/$name" -f "$abs_top_srcdir/t/tools/blocks.awk" "$1" >"$tmp/list"
    cd "$2" || bail "no $2"
    while read -r number mark; do
        block=$tmp/$name/$number
        case $mark in
        run)
            run_block "$block"
            is 0 $status "$name: block $number runs" || diag "$(cat printed)"
            is '' "$(cat left)" '... and leaves no setting in the shell'
            ;;
        'run fails')
            run_block "$block"
            ok "$name: block $number fails, as it says" test $status -ne 0
            ;;
        file\ *)
            cp "$block" "${mark#file }"
            ;;
        output) ok "$name: block $number is what was printed" check_output "$block" ;;
        sample) ;;
        look*) look "$block" ${mark#look} ;;
        skip\ *) skip 1 "$name: block $number: ${mark#skip }" ;;
        *) fail "$name: block $number is not marked" ;;
        esac
    done <"$tmp/list"
    cd "$tmp" || bail "no $tmp"
}

page "$abs_top_srcdir/README.md" "$tmp/readme"
page "$abs_top_srcdir/man/hoop_tutorial.7" "$tmp/tutorial"
page "$abs_top_srcdir/man/hoop_coming_from.7" "$tmp/coming_from"
page "$abs_top_srcdir/man/hoop_two_hosts.7" "$tmp/two_hosts"
page "$abs_top_srcdir/man/hoop_hang.7" "$tmp/hang"
like 'rank 2 \(.*\) has not entered operation 1 .*3 ranks have waited 2\.' "$(cat "$tmp/hang/printed")" \
    'hoop_hang(7): every rank learns who was late'
like 'ring of N ranks, N channel: N \(nodeN\) -> N \(nodeN\)' \
    "$(HOOP_DEBUG=info hooprun -n 2 "$tmp/tutorial/sum" 2>&1 | even)" 'HOOP_DEBUG=info shows the ring'
like 'rank N \(nodeN\) called allreduce of N x floatN, sum as operation N, but rank N \(nodeN\) called allreduce of N x floatN, sum' \
    "$(cd "$tmp/tutorial" && hooprun -n 2 ./differ 2>&1 | even)" 'ranks that disagree learn of both calls'

# hoop_launch(7) is one story: the server that its first block starts goes on to the end.
mkdir blocks launch
awk -v folder=blocks -f "$abs_top_srcdir/t/tools/blocks.awk" "$abs_top_srcdir/man/hoop_launch.7" >list
cp tutorial/sum launch/program
{
    while read -r number mark; do
        [ "$mark" = run ] || continue
        cat "blocks/$number"
        echo ': "${server:=$!}"'
    done <list
    echo 'kill $server; wait'
} | sed "s/5801/$port/g" >launch/script
(cd launch && timeout 60 sh ./script >printed 2>&1)
is 4 "$(grep -c '^rank [01] of 2: 3$' launch/printed)" 'hoop_launch(7): two ranks by hand, and two under srun' ||
    diag "$(cat launch/printed)"

# --- the examples of the manual; one that runs alone starts its own ranks ---

for page in "$abs_top_srcdir"/man/*.3; do
    rm -rf blocks
    mkdir blocks
    awk -v folder=blocks -f "$abs_top_srcdir/t/tools/blocks.awk" "$page" >list
    while read -r number mark; do
        case $mark in example | 'example alone') ;; *) continue ;; esac
        cp "blocks/$number" example.c
        name="${page##*/}, block $number"
        ok "$name builds" sh -c 'cc -Wall -Werror example.c $(pkg-config --cflags --libs hoop) -o example' || continue
        ok "$name runs alone" timeout 60 ./example
        [ "$mark" = 'example alone' ] || ok "$name runs as a ring of three" timeout 60 hooprun -n 3 ./example
    done <list
done
done_testing
