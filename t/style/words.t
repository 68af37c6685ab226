#!/bin/sh
# SPDX-License-Identifier: MIT
# Words that must not be said: functions that are unsafe or wrong here, and names that mean nothing outside the place
# where this was written. Comments and strings are taken out before code is searched.
. "$abs_top_srcdir/t/tap/tap.sh"
cd "$abs_top_srcdir" || bail "no $abs_top_srcdir"
plan 6

library=$(find base lib net gpu rendezvous -name '*.[ch]' | LC_ALL=C sort)
product="$library $(find include launch perf bin examples -name '*.[ch]' | LC_ALL=C sort)"

# The code of a file, each line with the file's name and number in front.
code()
{
    for file; do
        awk -v file="$file" '
            {
                line = $0; out = ""
                while (line != "") {
                    if (inside) {
                        end = index(line, "*/")
                        if (!end) break
                        line = substr(line, end + 2); inside = 0
                    } else if (match(line, /^"([^"\\]|\\.)*"/) || match(line, /^\047([^\047\\]|\\.)*\047/)) {
                        line = substr(line, RLENGTH + 1); out = out "\"\""
                    } else if (substr(line, 1, 2) == "/*") {
                        line = substr(line, 3); inside = 1
                    } else if (substr(line, 1, 2) == "//") {
                        break
                    } else {
                        out = out substr(line, 1, 1); line = substr(line, 2)
                    }
                }
                if (out ~ /[^ \t]/) print file ":" FNR ": " out
            }' "$file"
    done
}

code $library >"$tmp/library"
code $product >"$tmp/product"
not_in() { is '' "$(grep -E "$2" "$tmp/$1")" "$3"; }

not_in product '(^|[^a-zA-Z0-9_])(strcpy|strcat|stpcpy|sprintf|vsprintf|gets|atoi|atol|atof|alloca|gettimeofday|rand|srand|random|strtok|tmpnam|mktemp) *\(' \
    'no function that is banned'
not_in product '(^|[^a-zA-Z0-9_])(CLOCK_REALTIME|time *\( *(NULL|0) *\))' 'no clock that can be set'
not_in library '(^|[^a-zA-Z0-9_])(exit|_exit|_Exit|quick_exit|abort|assert) *\(' 'the library never ends the program'
not_in library '(^|[^a-zA-Z0-9_])((printf|puts|putchar|vprintf) *\(|stdout|STDOUT_FILENO|(write|dprintf) *\( *1 *,)' \
    'the library never writes to descriptor 1'
not_in library '(^|[^a-zA-Z0-9_])(signal|sigaction|raise|sigset) *\(' 'the library installs no signal handler'

everything="configure.ac Makefile.am bootstrap quickstart README.md NEWS hoop.pc.in include base lib net gpu rendezvous launch perf bin examples
    fuzz bench man t"
for more in HACKING .ci .gitignore doc; do
    [ ! -e $more ] || everything="$everything $more"
done
is '' "$(grep -rnIE '/wor[k]/|\.\./share[d]|T[O]DO|FI[X]ME|X[X]X[^X]' $everything --include='*' --exclude-dir=corpus --exclude='*.csv' |
    grep -v 'XXXXXX')" 'no path of the workplace, nothing left to be done'
done_testing
