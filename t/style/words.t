#!/bin/sh
# SPDX-License-Identifier: MIT
# Words that must not be used: functions that are unsafe or wrong here, names that mean nothing outside the place where
# this was written, and words of our own in pages for everybody (t/style/private_words). Comments and strings are taken out
# before code is searched.
. "$abs_top_srcdir/t/tap/tap.sh"
cd "$abs_top_srcdir" || bail "no $abs_top_srcdir"
plan 10

library=$(find base flight lib net gpu rendezvous -name '*.[ch]' | LC_ALL=C sort)
product="$library $(find include launch perf top bin examples -name '*.[ch]' | LC_ALL=C sort)"

# The code of files, each line with the file's name and number in front.
{
    cat t/style/code.awk
    echo '{ out = code_of($0); if (out ~ /[^ \t]/) print FILENAME ":" FNR ": " out }'
} >"$tmp/code.awk"
code() { awk -f "$tmp/code.awk" "$@"; }

code $library >"$tmp/library"
code $product >"$tmp/product"
not_in() { is '' "$(grep -E "$2" "$tmp/$1")" "$3"; }

not_in product '(^|[^a-zA-Z0-9_])(strcpy|strcat|stpcpy|sprintf|vsprintf|gets|atoi|atol|atof|alloca|gettimeofday|rand|srand|random|strtok|tmpnam|mktemp) *\(' \
    'no function that is banned'
is '' "$(grep -E '(^|[^a-zA-Z0-9_])(CLOCK_REALTIME|time *\( *(NULL|0) *\))' "$tmp/product" | grep -v '^flight/collection\.c:')" \
    'no clock that can be set, but for the recorders of several hosts'
not_in library '(^|[^a-zA-Z0-9_])(exit|_exit|_Exit|quick_exit|abort|assert) *\(' 'the library never ends the program'
not_in library '(^|[^a-zA-Z0-9_])((printf|puts|putchar|vprintf) *\(|stdout|STDOUT_FILENO|(write|dprintf) *\( *1 *,)' \
    'the library never writes to descriptor 1'
not_in library '(^|[^a-zA-Z0-9_])(signal|sigaction|raise|sigset) *\(' 'the library installs no signal handler'

everything="configure.ac Makefile.am bootstrap quickstart README.md NEWS hoop.pc.in include base flight lib net gpu rendezvous launch perf top bin examples
    fuzz bench man t"
for more in HACKING .ci .gitignore doc base launch perf; do
    [ ! -e $more ] || everything="$everything $more"
done
is '' "$(grep -rnIE '/wor[k]/|\.\./share[d]|T[O]DO|FI[X]ME|X[X]X[^X]' $everything --include='*' --exclude-dir=corpus --exclude='*.csv' |
    grep -v 'XXXXXX')" 'no path of the workplace, nothing left to be done'

# --- private words in public pages ---

# said_in LIST FILE...: each line of the files with a word of the list, and what to say instead. The list has lines
# "PATTERN -> INSTEAD"; a pattern matches whole words only.
said_in()
{
    list=$1
    shift
    sed -n '/^#/d; s/ -> /\t/p' "$list" | while IFS="$(printf '\t')" read -r pattern instead; do
        grep -nHiE "(^|[^A-Za-z_-])($pattern)([^A-Za-z_-]|\$)" "$@" | sed "s|\$|   [say: $instead]|"
    done
}
printf 'halls? -> job\n(is|was) said -> is printed\n# door -> acceptor\n' >"$tmp/list"
printf 'The Hall is full.\nA hallmark, and hall-of-fame\nNothing\nwas said here\nthe door\n' >"$tmp/page"
is 'page:1 [say: job],page:4 [say: is printed],' "$(said_in "$tmp/list" "$tmp/page" |
    sed 's/.*\(page:[0-9]*\):.*   /\1 /' | tr '\n' ',')" 'words are found as words, whatever their case'

words=t/style/private_words
is '' "$(grep -vnE '^(#|$)|^[^ ].* -> [^ ].*$' $words)" 'every line of private_words is a word, and what to say instead'
is '' "$(sed -n 's/^#? //; s/ -> .*//p' $words | while read -r pattern; do
    echo | grep -qE "($pattern)" 2>/dev/null
    [ $? -le 1 ] || echo "$pattern"
done)" '... and a regular expression'

for program in hooprun hoop-launch hoop-bench hoop-rendezvous hoop-top; do
    "$abs_top_builddir/bin/$program" --help >"$tmp/$program --help" 2>&1 </dev/null
    grep -q '[Uu]sage' "$tmp/$program --help" || bail "$program has no --help"
done
said=$(said_in $words README.md NEWS include/hoop.h $(ls man/*.[1-8]) "$abs_top_builddir/man/hoop.conf.5" \
    "$abs_top_builddir/man/hoop_env.7" "$tmp/hooprun --help" "$tmp/hoop-launch --help" "$tmp/hoop-bench --help" \
    "$tmp/hoop-rendezvous --help" "$tmp/hoop-top --help")
is '' "$said" 'public pages have no word that only we know'
done_testing
