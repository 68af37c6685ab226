#!/bin/sh
# SPDX-License-Identifier: MIT
# The programs and commands of hoop_python(7), and what they are said to print.
# time limit: 100
. "$abs_top_srcdir/t/tap/tap.sh"
. "$abs_top_srcdir/t/python/python.sh"
plan_lazy
cd "$tmp" || bail 'no scratch folder'
mkdir tools blocks
printf '#!/bin/sh\nexec %s "$@"\n' "$(command -v "$HOOP_TEST_PYTHON")" >tools/python3
chmod +x tools/python3
export PATH="$tmp/tools:$abs_top_builddir/bin:$PATH"
awk -v folder=blocks -f "$abs_top_srcdir/t/tools/blocks.awk" "$abs_top_srcdir/man/hoop_python.7" >list

while read -r number mark; do
    case $mark in
    file\ *) cp "blocks/$number" "${mark#file }" ;;
    run)
        timeout $((60 * ${HOOP_TEST_TIME_FACTOR:-1})) sh -e "blocks/$number" >printed 2>&1 </dev/null
        is 0 $? "$(cat "blocks/$number")" || diag "$(cat printed)"
        ;;
    output) is '' "$(while read -r line; do grep -F -q -e "$line" printed || echo "$line"; done <"blocks/$number")" '... prints this' ;;
    skip*) skip 1 "block $number: ${mark#skip }" ;;
    *) fail "block $number is not marked" ;;
    esac
done <list
done_testing
