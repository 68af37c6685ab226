#!/bin/sh
# SPDX-License-Identifier: MIT
# frozen: what it runs stands still again and again, with its children, and nothing of it is left.
. "$abs_top_srcdir/t/tap/tap.sh"
cd "$tmp" || bail "no $tmp"
frozen="$abs_top_srcdir/t/tools/frozen"
sh "$frozen" 1 1 true 2>why
[ $? -ne 77 ] || skip_all "$(cat why)"
plan_lazy

# Counts in a child, every tenth of a second; ends when three steps took half a second.
cat >steps <<'END'
gaps=0 last=$(date +%s%N)
while [ $gaps -lt 3 ]; do
    sleep 0.1
    now=$(date +%s%N)
    [ $((now - last)) -lt 500000000 ] || gaps=$((gaps + 1))
    last=$now
done
END
ok 'a command and its child stand still' timeout 60 sh "$frozen" 0.2 0.5 sh -c 'sh steps & wait'
sh "$frozen" 0.2 0.5 sh -c 'exit 7' 2>/dev/null
is 7 $? 'its exit status'
sh "$frozen" 5 0.5 sh -c 'sleep 100 & echo $! >left' 2>/dev/null
ok 'what it leaves behind ends' await gone "$(cat left)"
sh "$frozen" 0.2 0.5 sh -c 'sleep 1; exec cat /proc/self/cgroup' >groups 2>/dev/null
group=$(grep -o 'hoop-frozen\.[0-9]*' groups | head -n 1)
like '^hoop-frozen' "$group" 'it was in a group of its own'
is '' "$(find /sys/fs/cgroup -maxdepth 2 -name "$group" 2>/dev/null)" 'which is gone'
done_testing
