#!/bin/sh
# SPDX-License-Identifier: MIT
# hooprun on poor machines: what the kernel kills a rank for, limits of files and of processor time, no /proc, a closed
# standard output, a hooprun inside another one, and signals to the whole process group.
# time limit: 240
. "$abs_top_srcdir/t/tap/tap.sh"
. "$abs_top_srcdir/t/sys/hooprun.sh"
plan_lazy
run() { timeout 60 "$@" >out 2>err </dev/null; }

run "$hooprun" -n 2 sh -c 'test $HOOP_RANK = 1 || exec sleep 60; ulimit -t 1; while :; do :; done'
like 'rank 1 .* killed by signal (9 \(SIGKILL\)|24 \(SIGXCPU\)), because it has used its processor time \(ulimit -t\), after' \
    "$(cat err)" 'a rank that has used its processor time'
run "$hooprun" -n 2 sh -c 'test $HOOP_RANK = 1 || exec sleep 60; ulimit -t 1; sh -c "while :; do :; done"; exit $?'
like 'rank 1 .* exited with status (137|152), because it has used its processor time' "$(cat err)" '... or its child has'

# A control group of version 1 or 2 with little memory. What one cannot make here, skips.
group=
for folder in /sys/fs/cgroup/memory /sys/fs/cgroup; do
    mkdir "$folder/hoop-test-$$" 2>/dev/null || continue
    for file in memory.limit_in_bytes memory.max; do
        [ -e "$folder/hoop-test-$$/$file" ] && echo 60000000 >"$folder/hoop-test-$$/$file" && group=$folder/hoop-test-$$
    done 2>/dev/null
    [ -n "$group" ] && break
    rmdir "$folder/hoop-test-$$"
done
trap '[ -z "$group" ] || rmdir "$group" 2>/dev/null; tap_cleanup' 0
case ${HOOP_TEST_SANITIZE:-no} in
no) ;;
*) [ -z "$group" ] || rmdir "$group"; group= ;;
esac
if [ -n "$group" ] && command -v python3 >/dev/null; then
    cat >eat.py <<'END'
import os, time
if os.environ["HOOP_RANK"] == "1":
    x = [b"x" * 1000000 for i in range(1000)]
time.sleep(60)
END
    run sh -c 'echo $$ >"$1/cgroup.procs" && exec "$0" -n 2 python3 eat.py' "$hooprun" "$group"
    is 137 $? 'a rank that the kernel kills for memory'
    like 'rank 1 .* killed by signal 9 \(SIGKILL\), because its host or its control group was out of memory, after' \
        "$(cat err)" '... by name'
    run sh -c 'echo $$ >"$1/cgroup.procs" && exec "$0" -n 2 sh -c "python3 eat.py; exit \$?"' "$hooprun" "$group"
    like 'rank 1 .* exited with status 137, because its host or its control group was out of memory, after' \
        "$(cat err)" '... or its child'
    run "$hooprun" -n 2 sh -c 'test $HOOP_RANK = 0 || echo $$ >"$0/cgroup.procs" && exec python3 eat.py' "$group"
    like 'rank 1 .* \(SIGKILL\), perhaps for lack of memory \(dmesg tells what the kernel has killed\), after' \
        "$(cat err)" '... or perhaps, in a group of its own'
    run sh -c 'echo $$ >"$1/cgroup.procs" && exec "$0" -n 2 sh -c "python3 eat.py || exit 1"' "$hooprun" "$group"
    like 'rank 1 .* exited with status 1, perhaps for lack of memory \(dmesg tells what the kernel has killed\), after' \
        "$(cat err)" '... or a program that has lost a process so, with a status of its own'
else
    skip 5 'no control group with a limit of memory can be made here, or there is no python3, or a sanitizer eats its memory'
fi

# What a program may not write into a file, it says through a pipe.
limited()
{
    wanted=$1
    shift
    sh -c 'ulimit -f 0; "$@"; echo "status $?" >&2' limited "$@" 2>&1 >full </dev/null | cat >err
    like "$wanted" "$(paste -sd ' ' err)" "no file may grow: ${1##*/}"
}
limited '^hooprun: .*: File too large \(raise "ulimit -f"\) status 1$' "$hooprun" -n 2 echo here
limited '^hoop-rendezvous: .*secret.*: File too large \(raise "ulimit -f"\) status 2$' \
    "$abs_top_builddir/bin/hoop-rendezvous" --new-secret secret
limited '^hoop-top: cannot write: File too large status 1$' "$abs_top_builddir/bin/hoop-top" --once --json
limited 'hoop-bench: cannot write all of json: File too large hoop-bench: cannot write all to standard output status 1$' \
    "$abs_top_builddir/bin/hoop-bench" -e 4 -J json
if [ "${HOOP_TEST_SANITIZE:-no}" = no ] && [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
    run unshare -m sh -c 'mount -t tmpfs none /proc && exec "$0" -n 2 sh -c "echo \$HOOP_RANK"' "$hooprun"
    is '0 0 1' "$? $(sort out | paste -sd ' ')" 'no /proc' || diag "$(cat err)"
    rm -f left?
    run unshare -m sh -c 'mount -t tmpfs none /proc && exec "$0" -n 2 sh -c "exec sleep 1000 & echo \$! >left\$HOOP_RANK"' \
        "$hooprun"
    is '0 0' "$? $(sort out | wc -l)" '... where the ranks leave something behind' || diag "$(cat err)"
    is '' "$(for file in left0 left1; do kill -0 "$(cat $file)" 2>/dev/null && echo "$file"; done)" '... which is ended'
    rm -f left?
    run unshare -m sh -c 'mount -t tmpfs none /proc && exec "$0" -n 2 sh -c "setsid sleep 1000 & echo \$! >left\$HOOP_RANK"' \
        "$hooprun"
    is '0 0' "$? $(sort out | wc -l)" '... in a session of its own, which hooprun cannot see' || diag "$(cat err)"
    kill $(cat left0 left1)
else
    skip 4 'only root can take /proc away, and a sanitizer needs it'
fi

run sh -c '"$0" -n 2 echo lost >&-' "$hooprun"
is 2 $? 'a closed standard output'
like '^hooprun: standard output is closed; to drop what the ranks print, write >/dev/null$' "$(cat err)" '... is refused'
run "$hooprun" -n 2 "$hooprun" -n 2 echo twice
like 'hooprun has started hooprun 2 times' "$(cat err)" 'hooprun in the place of the program'
is '' "$(cat out)" '... starts nothing'

# timeout(1), systemd, batch systems and a closed terminal signal the whole group, with the remote shells in it.
own_ports
start "$abs_top_builddir/t/sys/far_shell" serve "$port" >served 2>&1
ok 'a remote shell' await grep -q listening served
cat >far <<END
#!/bin/sh
shift
exec "$abs_top_builddir/t/sys/far_shell" call 127.0.0.1 $port "\$@"
END
cat >save <<'END'
#!/bin/sh
trap 'echo "rank $HOOP_RANK saved"; exit 0' TERM HUP USR1 USR2
echo $$ >>pids
while :; do sleep 0.1; done
END
chmod +x far save
for signal in TERM HUP USR1 USR2; do
    : >pids
    start setsid "$hooprun" --forward-signals --rsh ./far -H n1,n2 ./save >out 2>err </dev/null
    both() { [ "$(wc -l <pids)" = 2 ]; }
    await both || diag "$(cat err)"
    kill -$signal -"$started"
    wait "$started"
    is 'rank 0 saved rank 1 saved' "$(sort out | paste -sd ' ')" "$signal to the group: what ranks print after it arrives"
    nok '... and no host is said to be lost' grep -q 'did not answer\|is lost' err || diag "$(cat err)"
done
done_testing
