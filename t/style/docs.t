#!/bin/sh
# SPDX-License-Identifier: MIT
# README.md, HACKING, NEWS and examples/README.md speak of what is there: files, functions, settings, make targets. Their
# commands are run by t/sys/tutorial.t.
. "$abs_top_srcdir/t/tap/tap.sh"
cd "$abs_top_srcdir" || bail "no $abs_top_srcdir"
plan 18
pages='README.md HACKING NEWS examples/README.md'

is '' "$(for page in README.md examples/README.md; do
    grep -oE '\]\([^)]*\)' $page | sed 's/^](//; s/)$//' | while read -r link; do
        case $link in
        http*) ;;
        *) [ -e "$(dirname $page)/$link" ] || echo "$page: $link" ;;
        esac
    done
done)" 'every link leads to a file'

is '' "$(for file in $(cd python && find hoop tests -name '*.py' | LC_ALL=C sort); do
    grep -q "%D%/$file\( \|\$\)" python/part.am || echo "$file"
done)" 'every file of the Python package and its tests is in python/part.am'

# Names with a folder in front; * and <folder> stand for others, examples/ says its own names without.
is '' "$(grep -ohE '(^|[ (`])(include|base|flight|lib|net|gpu|rendezvous|launch|perf|top|bin|examples|t|man|fuzz|bench)/[A-Za-z0-9_./*-]*' $pages |
    sed 's/^[ (`]*//; s/[.,;:]*$//' | LC_ALL=C sort -u | while read -r name; do
    ls -d $name >/dev/null 2>&1 || [ "$name" = t/net/frame.log ] || [ "$name" = t/net/frame.t ] || [ "$name" = t/x.t ] || echo "$name"
done)" 'every file that is named is there'
is '' "$(grep -oE '\b[a-z_]+\.[ch]\b' HACKING | LC_ALL=C sort -u | while read -r name; do
    [ -n "$(find include base flight lib net gpu rendezvous launch perf top bin examples t -name "$name")" ] || echo "$name"
done)" 'and every source that HACKING names without its folder'
is '' "$(grep -ohE '\bh(p|oop)_[a-z0-9_]+\b' $pages | LC_ALL=C sort -u | while read -r name; do
    grep -rqE "\b$name" include base flight lib net gpu rendezvous launch man || echo "$name"
done)" 'every function and type that is named is there'
is '' "$(grep -ohE '\bHOOP_[A-Z0-9_]+\b' $pages | LC_ALL=C sort -u | while read -r name; do
    grep -qE "\b$name\b" include/hoop.h && continue
    grep -qi "^HP_SETTING(${name#HOOP_}," lib/config.def && continue
    grep -rqE "\b$name\b" t/tap examples/*.c python/hoop || echo "$name"
done)" 'every constant and variable that is named is there'

is '' "$(grep -ohE '`?make (-C build )?[a-z-]+' README.md HACKING | sed 's/`//; s/^make //; s/^-C build //' | LC_ALL=C sort -u | while read -r target; do
    case $target in # what automake makes, and words of English
    check | install | html) continue ;;
    esac
    grep -rqE "^$target:" Makefile.am */part.am t/*/part.am || echo "$target"
done)" 'every make target that is named is there'
is '' "$(grep -oE 'check-[a-z]+' HACKING | LC_ALL=C sort -u | while read -r target; do
    grep -qE "^$target:" t/part.am || echo "$target"
done)" 'and every check'
ok 'the two commands are one script, and continuous integration calls the second' \
    sh -c 'test -x quickstart && grep -q "quickstart check plain " .ci/run && grep -q "^    \./quickstart " README.md'
awk '/^(ranks_here|what_next)\(\)/,/^}/' quickstart >"$tmp/end"
is '2 2 3 4 4 ' "$(for n in 1 2 3 4 64; do (nproc() { echo $n; }; . "$tmp/end"; ranks_here); done | tr '\n' ' ')" \
    'quickstart trains with a rank for each processor, but 2 to 4'
awk '/^(first|have|have_library|missing_packages)\(\)/ { copy = 1 } copy; /\}$/ { copy = 0 }' quickstart >"$tmp/missing"
lacks() { (. "$tmp/missing"; CC=$1; missing_packages) | grep -x gcc; }
is '' "$(lacks 'env gcc')" '... takes a compiler of several words'
is gcc "$(lacks 'nosuchcache gcc')" '... and misses its first one'
(. "$tmp/end"; what_next) >"$tmp/next"
is "    export PATH=$PWD/build/bin:\$PATH" "$(grep 'export PATH' "$tmp/next")" '... and ends with the line for PATH'
like '^    hooprun -n 4 hoop-bench ' "$(cat "$tmp/next")" '... with the first measurement'
ok '... and with the tutorial' test -e "$(sed -n 's/^    man \([^ ]*\) .*/\1/p' "$tmp/next")"
is '' "$(sed -n '/^\.Bl -enum/,/^\.El/p' man/hoop_tuning.7 | grep -oE '[0-9.]+ (us|ms|%)' | while read -r figure; do
    grep -qF -e "$figure" bench/RESULTS.md || echo "$figure"
done)" 'every figure at the beginning of hoop_tuning(7) is in bench/RESULTS.md'
is "hoop $(sed -n 's/.*define HOOP_VERSION_M[AI][JN]OR //p; s/.*define HOOP_VERSION_PATCH //p' include/hoop.h | paste -sd. -)" \
    "$(head -n 1 NEWS)" 'NEWS begins with this version'
is '' "$(awk 'length > 120 && !/^\|/ { print FILENAME ":" FNR }' $pages)" 'no line is longer than 120 columns'
done_testing
