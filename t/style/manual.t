#!/bin/sh
# SPDX-License-Identifier: MIT
# The manual: every page is lint clean, every exported function, result, type, setting, variable and option has its place
# in one, every cross reference leads somewhere, and every example compiles.
# time limit: 300
. "$abs_top_srcdir/t/tap/tap.sh"
cd "$abs_top_srcdir" || bail "no $abs_top_srcdir"
made=$abs_top_builddir/man
plan_lazy

pages="$(ls man/*.[1-8]) $made/hoop.conf.5 $made/hoop_env.7"
for page in $pages; do
    [ -s "$page" ] || bail "$page is not there"
done
is '' "$(for page in man/*.[1-8]; do grep -q "%D%/${page#man/}\( \|\$\)" man/part.am || echo "$page"; done)" \
    'every page of man/ is in man/part.am'
is '' "$(for page in $pages; do
    name=${page##*/}
    head -n 12 "$page" | grep -q "^\.Dt $(echo "${name%.*}" | tr a-z A-Z) ${name##*.}\$" || echo "$page"
done)" 'every page says its own name and section'

# --- lint, cross references ---

if command -v mandoc >/dev/null; then
    for page in $pages; do
        is '' "$(mandoc -Tlint -Wwarning "$page" 2>&1)" "${page##*/} is lint clean"
    done
else
    skip 1 'mandoc is not installed (apt-get install mandoc)'
fi

is '' "$(grep -nE '^\.S[sh] (.* )?(An|Ap|At|Do|In|Is|No|Ns|Op|So|Us)( |$)' $pages)" 'no word of a heading is taken for a macro'

# What stands in a column, roughly, without its macros. groff does not move what comes behind a cell that is too wide.
is '' "$(awk '
    function width(text) {
        gsub(/\\\(..|\\\[[^]]*\]|\\[&e]/, "x", text)
        gsub(/(^| )(Sy|Em|Li|Ql|Dq|Dv|Fn|Fa|Cm|Ev|Va|Vt|Pa|Ar|Fl|Xr|No|Pq) /, " ", text)
        gsub(/ ,/, ",", text)
        gsub(/^ +| +$/, "", text)
        return length(text)
    }
    /^\.(Bl|El)/ { columns = 0 }
    /^\.Bl -column/ { columns = split($0, part, "\"") }
    columns && /^\.It / {
        n = split(substr($0, 5), cell, / Ta /)
        for (i = 1; i < n; i++) if (width(cell[i]) > width(part[2 * i]) + 2) print FILENAME ":" FNR ": " cell[i]
    }' $pages)" 'no cell of a table is wider than its column'

# Pages of other packages that ours may send a reader to.
elsewhere=' accept.2 epoll.7 execve.2 fflush.3 fork.2 getrlimit.2 memfd_create.2 mpirun.1 nvcc.1 poll.2 ssh.1 tcp.7 '
for page in $pages; do
    sed -n 's/^\.Xr \([^ ]*\) \([1-8]\).*/\1 \2/p; s/^\.It Xr \([^ ]*\) \([1-8]\).*/\1 \2/p' "$page"
done | LC_ALL=C sort -u >"$tmp/references"
awk -f man/names.awk man/*.[1-8] >"$tmp/further"
while read -r name section; do
    case " $pages " in *"/$name.$section"*) continue ;; esac
    case $elsewhere in *" $name.$section "*) continue ;; esac
    grep -q "^$name $section " "$tmp/further" || echo "$name($section)"
done <"$tmp/references" >"$tmp/nowhere"
is '' "$(cat "$tmp/nowhere")" 'every cross reference leads to a page'

is '' "$(for program in $(sed -n 's/^\(dist_\)*bin_[A-Z]* += //p' bin/part.am | sed 's|%D%/||g'); do
    ls man/$program.[1-8] >/dev/null 2>&1 || grep -q "^$program [18] " "$tmp/further" || echo "$program"
done)" 'man finds every program by its name'
for word in allreduce GPU launcher mpirun hostfile Slurm PyTorch MPI NCCL hang tutorial; do
    ok "apropos finds $word" grep -qiE "^\.N[dm] .*$word" $pages
done
is '' "$(for page in $pages; do echo "${page##*/}"; done | LC_ALL=C sort >"$tmp/names"
    grep -v '^[#=]' man/contents | tr ' ' '\n' | LC_ALL=C sort | diff - "$tmp/names")" 'man/contents has every page once'

# --- the interface ---

${CC:-cc} -E -P include/hoop.h | tr '\n' ' ' | sed 's/{[^{}]*}//g' | tr ';' '\n' | grep -v typedef |
    sed -n 's/^[^(]*[ *]\(hoop_[a-z0-9_]*\) *(.*/\1/p' | LC_ALL=C sort -u >"$tmp/functions"
ok 'hoop.h has functions' test "$(wc -l <"$tmp/functions")" -gt 50
is '' "$(while read -r f; do
    grep -lE "^\.(Fn $f |Fn $f\$|Fo $f\$)" man/*.3 >/dev/null || echo "$f"
done <"$tmp/functions")" 'every function of hoop.h is in the synopsis of a page'
is '' "$(while read -r f; do
    [ -e "man/$f.3" ] || grep -q "^$f 3 " "$tmp/further" || echo "$f"
done <"$tmp/functions")" 'and man finds it by its name'
is '' "$(cat man/*.3 | sed -n 's/^\.F[no] \(hoop_[a-z0-9_]*\).*/\1/p' | LC_ALL=C sort -u | grep -vE '^hoop_(log|done|interrupt)_fn$' |
    LC_ALL=C comm -23 - "$tmp/functions")" 'no page has a function that is not in hoop.h'
is '' "$(grep -oE '\bHOOP_[A-Z0-9_]+' include/hoop.h | grep -v '^HOOP_H$' | LC_ALL=C sort -u |
    while read -r word; do grep -qE "\b(HOOP)?${word#HOOP}\b" man/*.3 || echo "$word"; done |
    grep -vE '^HOOP_(OP_TIMEOUT_MS|ERROR_|PHASE_)$')" 'every constant of hoop.h is in a page'

sed -n '/enum hoop_result/,/}/s/^ *\(HOOP_[A-Z_]*\) = \([0-9]*\).*/\1 Pq \2/p' include/hoop.h >"$tmp/codes"
ok 'hoop.h has result codes' test "$(wc -l <"$tmp/codes")" -gt 20
is '' "$(sed 's/^/.It Dv /' "$tmp/codes" | grep -vxFf man/hoop_comm_error.3)" 'hoop_comm_error(3) has every code and its number'
sed -n '/enum hoop_dtype/,/}/s/^ *\(HOOP_[A-Z0-9_]*\) = \([0-9]*\).*/\1 Ta \2/p' include/hoop.h >"$tmp/types"
is 15 "$(grep -cFf "$tmp/types" man/hoop.3)" 'hoop(3) has every type and its number'

# --- settings and variables ---

sed -n 's/^HP_SETTING(\([a-z0-9_]*\),.*/\1/p' lib/config.def >"$tmp/settings"
is "$(cat "$tmp/settings")" "$(sed -n 's/^\.It Ev HOOP_\([A-Z0-9_]*\)$/\1/p' "$made/hoop_env.7" | tr A-Z a-z | grep -v conf_file)" \
    'hoop_env(7) has every setting'
is "$(cat "$tmp/settings")" "$(sed -n 's/^\.It Cm //p' "$made/hoop.conf.5")" 'and so has hoop.conf(5)'
is '' "$(grep -rhoE 'getenv\("HOOP[A-Z_]+"\)' base flight lib net gpu rendezvous launch perf top bin | grep -oE 'HOOP[A-Z_]+' | LC_ALL=C sort -u |
    while read -r v; do grep -qE "^\.(It )?Ev .*\b$v\b" $pages || echo "$v"; done)" 'every variable that is read is in a page'
is '' "$(grep -ohE '\bHOOP_[A-Z0-9_]+' bin/hooprun | LC_ALL=C sort -u |
    while read -r v; do grep -qE "\b$v\b" man/hooprun.1 || echo "$v"; done)" 'and every one of the script hooprun'
cat $pages | sed -n 's/^\.\(It \)*Ev //p' | grep -oE '\bHOOP_[A-Z0-9_]+' | LC_ALL=C sort -u >"$tmp/mentioned"
is '' "$(while read -r v; do
    grep -qix "${v#HOOP_}" "$tmp/settings" || grep -rqE "\b$v\b" launch perf bin lib/config.c lib/environment.c examples python/hoop || case $v in
    HOOP_CONF_FILE | HOOP_) ;;
    *) echo "$v" ;;
    esac
done <"$tmp/mentioned")" 'no page has a variable that nobody reads'

is '' "$(grep -ohE '"[A-Z_]+=[%0-9]' launch/*.c | sed 's/^"//; s/=.$//' | LC_ALL=C sort -u |
    while read -r v; do grep -qE "^\.(It )?Ev (.* )?$v( |\$)" man/hooprun.1 || echo "$v"; done)" \
    'every variable that hooprun sets for ranks is in hooprun(1)'
is "$(sed -n '/^hp_entry_wait_call/,/^}/s/^  *\(hp_entry_wait[a-z_]*\)(.*/\1/p' lib/entry.c)" \
    "$(sed -n 's/^\.Fn \(hp_[a-z_]*\) ,$/\1/p' man/hoop_hang.7)" 'hoop_hang(7) names the function in which a call waits'

# --- programs ---

for program in hooprun hoop-bench hoop-rendezvous hoop-top; do
    page=$(ls man/$program.[1-8])
    "$abs_top_builddir/bin/$program" --help >"$tmp/help" 2>&1 || fail "$program --help"
    sed -n 's/^\.\(It\|Op\|Nm\)* *\(.*Fl .*\)/\2/p' "$page" | tr ' |,' '\n\n\n' | sed -n '/^Fl$/{n;s/^-//;p;}' >"$tmp/page"
    # one dash or two: all programs take both
    is '' "$(grep -oE '(^|[ (,;])--?[a-zA-Z][a-zA-Z0-9_-]*' "$tmp/help" | sed 's/^[ (,;]*-*//' | LC_ALL=C sort -u |
        while read -r option; do grep -qx -e "$option" "$tmp/page" || echo "$option"; done)" \
        "every option of $program --help is in ${page#man/}"

    # The list of options, a line for each with all its names, the synopsis, and --help have the same options.
    sed -n '/^\.Sh SYNOPSIS/,/^\.Sh DESCRIPTION/p' "$page" | tr ' |' '\n\n' | sed -n '/^\.*Fl$/{n;s/^-//;p;}' |
        LC_ALL=C sort -u >"$tmp/synopsis"
    sed -n 's/^\.It \(Fl .*\)/\1/p' "$page" | while read -r line; do
        echo "$line" | tr ' ' '\n' | sed -n '/^Fl$/{n;s/^-//;p;}' | tr '\n' ' '
        echo
    done >"$tmp/listed"
    grep -oE '(^|[ (,;])--?[a-zA-Z][a-zA-Z0-9_-]*' "$tmp/help" | sed 's/^[ (,;]*-*//' >"$tmp/helped"
    for where in synopsis helped; do
        is '' "$(while read -r names; do
            for name in $names; do ! grep -qx -e "$name" "$tmp/$where" || continue 2; done
            echo "$names"
        done <"$tmp/listed")" "every option of ${page#man/} is in its $([ $where = helped ] && echo --help || echo synopsis)"
    done
    is '' "$(while read -r name; do
        grep -qE "(^| )$name " "$tmp/listed" || echo "$name"
    done <"$tmp/synopsis")" "every option of the synopsis of ${page#man/} is in its list"
done

# hooprun's table of options, its page and its help say the same.
sed -n 's/^HP_[A-Z_]*OPTION([a-z_, ]*"\([^"|][^"]*\)".*/\1/p' launch/options.def >"$tmp/names"
sed -n '/^\.Sh SYNOPSIS/,/^\.Sh DESCRIPTION/p' man/hooprun.1 | grep -oE 'Fl -?[a-zA-Z-]+' | sed 's/Fl /-/' >"$tmp/synopsis"
sed -n '/^\.Sh OPTIONS/,/^\.Sh BEHAVIOUR/p' man/hooprun.1 | grep '^\.It ' | grep -oE 'Fl -?[a-zA-Z_-]+' | sed 's/Fl /-/' \
    >"$tmp/options"
ok 'options.def has options' test "$(wc -l <"$tmp/names")" -gt 15
is '' "$(sed 's/ .*//' "$tmp/names" | grep -vxFf "$tmp/synopsis")" 'each has its first name in the SYNOPSIS of hooprun(1)'
is '' "$(tr ' |' '\n\n' <"$tmp/names" | grep . | grep -vxFf "$tmp/options")" 'and all its names in OPTIONS'
is '' "$(cat "$tmp/synopsis" "$tmp/options" | sed 's/^-*//' | grep -vxF "$(tr ' |' '\n\n' <"$tmp/names" | sed 's/^-*//' | grep .)")" \
    'which has no others'

# --- examples ---

for page in man/*.[1-8]; do
    mkdir "$tmp/blocks"
    awk -v folder="$tmp/blocks" -f t/tools/blocks.awk "$page" >"$tmp/list"
    while read -r number mark; do
        case $mark in
        example* | file\ *.c)
            cp "$tmp/blocks/$number" "$tmp/example.c"
            ok "${page#man/}: block $number ($mark) compiles" ${CC:-cc} -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror \
                -Iinclude -I. -It/tools/cuda -fsyntax-only "$tmp/example.c"
            ;;
        *)
            ok "${page#man/}: block $number is no C program that nobody compiles" \
                test -z "$(grep '#include' "$tmp/blocks/$number")"
            ;;
        esac
    done <"$tmp/list"
    rm -r "$tmp/blocks"
done
ok 'pages of functions have examples' test "$(grep -lE '^\.\\" example' man/*.3 | wc -l)" -ge 7
done_testing
