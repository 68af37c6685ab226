#!/bin/sh
# SPDX-License-Identifier: MIT
# run-test: what it promises to every other test, tried with small scripts.
. "$abs_top_srcdir/t/tap/tap.sh"
plan 13
unset HOOP_TEST_TIME_FACTOR
run_test="$abs_top_srcdir/t/tools/run-test"

script()
{
    printf '#!/bin/sh\n%s\n' "$2" >"$tmp/$1"
    chmod +x "$tmp/$1"
}

script passes 'echo 1..1; echo ok 1'
ok 'a passing test passes' sh "$run_test" "$tmp/passes"

script seven 'exit 7'
sh "$run_test" "$tmp/seven" >/dev/null
is 7 $? 'the exit status is the test'"'"'s own'

script folder 'echo "$HOOP_TEST_TMP"; mkdir "$HOOP_TEST_TMP/d"; touch "$HOOP_TEST_TMP/d/f"; chmod 0 "$HOOP_TEST_TMP/d"'
folder=$(sh "$run_test" "$tmp/folder" | head -n 1)
like '/hoop-test\.' "$folder" 'a test has a scratch folder'
nok 'the scratch folder is gone afterwards' test -e "$folder"
is '' "$(ls -d "$folder"* 2>/dev/null)" '... and nothing beside it is left'

script works 'i=0; while [ $i -lt 30000 ]; do i=$((i + 1)); done; sleep 0.3'
times=$(sh "$run_test" "$tmp/works" | sed -n '$s/^# run-test: \([0-9]*\.[0-9]\) s, \([0-9]*\.[0-9]\) s of CPU$/\1 \2/p')
ok "the last line says how long it took and what the processors worked ($times)" \
    awk -v times="$times" 'BEGIN { exit !(split(times, t) == 2 && t[1] >= 0.3 && t[2] < t[1]) }'

script slow '# time limit: 1
sleep 50'
output=$(sh "$run_test" "$tmp/slow")
is 124 $? 'a test that takes too long is stopped'
like '^Bail out! .*/slow was stopped after 1 s' "$output" 'and the reason is told'

script forgets 'setsid sleep 1000 >/dev/null 2>&1 & echo $!; sleep 0.5'
output=$(sh "$run_test" "$tmp/forgets")
is 99 $? 'a process left running is an error'
ok 'and is killed, in a session of its own too' await gone "$(printf '%s\n' "$output" | head -n 1)"

script tidies 'trap "sleep 0.5; touch $0.cleaned" 0
trap "trap : TERM; exit 99" TERM
touch $0.begun
sleep 100'
start sh "$run_test" "$tmp/tidies" >/dev/null
await test -e "$tmp/tidies.begun"
kill "$started"
wait "$started"
is 99 $? 'a test that is interrupted'
ok '... may clean up' test -e "$tmp/tidies.cleaned"

# Not of run-test, but of what tests in sh share: scenes, the first of which awaits the second.
script scenes '. "$abs_top_srcdir/t/tap/tap.sh"
plan_lazy
pass before
first() { ok awaits await test -e ../second/there; is 1 2 "a # b"; skip 1 reason; }
second() { touch there; bail "no way"; }
scene first first
scene second second
scenes_end
is 3 "$tap_failed" failures
done_testing'
sed 's/$/;/' >"$tmp/wanted" <<END
ok 1 - before
ok 2 - awaits
not ok 3 - a   b
# wanted: 1
# saw:    2
ok 4 # SKIP reason
Bail out! no way
not ok 5 - the scene second ended with status 99
END
is "$(cat "$tmp/wanted")" "$(HOOP_TEST_TMP= "$tmp/scenes" | sed '/failures/,$d; s/$/;/')" 'scenes, side by side'
