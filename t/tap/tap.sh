# SPDX-License-Identifier: MIT
# tap.sh: TAP for tests written in POSIX sh. Read it with
#     . "$abs_top_srcdir/t/tap/tap.sh"
# A test calls plan N or plan_lazy, then ok and its kin, and ends with done_testing. Programs are started in the
# background with `start`, which remembers them; whatever happens, the exit trap kills those that still run, and only
# those. tmp is a scratch folder of this test's own; run by hand, the test makes one.
#
#     plan COUNT | plan_lazy | skip_all REASON
#     ok TEXT COMMAND [ARG...]        the command succeeds (its output becomes comments when it does not)
#     nok TEXT COMMAND [ARG...]       the command fails
#     is WANTED SEEN TEXT             two strings are equal
#     like PATTERN SEEN TEXT          an extended regular expression matches
#     pass TEXT | fail TEXT | skip COUNT REASON | diag TEXT | bail TEXT
#     start COMMAND [ARG...]          runs it in the background; its process id is in $started
#     wait_for SECONDS COMMAND...     repeats the command until it succeeds; fails when the time is up
#     await COMMAND...                the same for 30 seconds, since other tests run beside this one; $room is how many
#                                     seconds later than promised something may be seen then
#     scene NAME FUNCTION [ARG...]    runs a function of the test in the background, in a folder NAME of its own, with
#                                     runtime files of its own; scenes that mostly sleep run side by side; $tap_pid is the
#                                     number of the scene's process
#     scenes_end                      waits for all scenes; their checks become checks of this test, scene by scene
#     own_ports [N]                   in $port the first of N ports in a row, by default 1, that are this test's or scene's
#                                     alone, and on which nobody listens
#     gone PID...                     true when these processes have ended
#     stop PID                        TERM, two seconds, KILL

tap_pid=$$ tap_run=0 tap_failed=0 tap_planned= tap_started= tap_scenes= started=
abs_top_srcdir=${abs_top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
abs_top_builddir=${abs_top_builddir:-$abs_top_srcdir/build}

# MPICH's UCX fails if an interface goes away while it looks at all of them, and those of other tests do.
export UCX_NET_DEVICES=lo

if [ -n "${HOOP_TEST_TMP:-}" ]; then
    tmp=$HOOP_TEST_TMP tap_own=
else
    tmp=$(mktemp -d "${TMPDIR:-/tmp}/hoop-test.XXXXXX") || exit 99
    tap_own=$tmp
fi

tap_cleanup()
{
    for tap_pid in $tap_started; do
        kill -KILL "$tap_pid" 2>/dev/null
    done
    [ -z "$tap_scenes" ] || kill -TERM $(echo "$tap_scenes" | sed 's/[^ ]*://g') 2>/dev/null
    [ -z "$tap_own" ] || rm -rf "$tap_own"
}
trap tap_cleanup 0
trap 'trap "" HUP INT TERM; exit 99' HUP INT TERM

plan() { tap_planned=$1; echo "1..$1"; }
plan_lazy() { tap_planned=lazy; }
skip_all() { echo "1..0 # SKIP $*"; exit 0; }
bail() { echo "Bail out! $*"; exit 99; }
diag() { printf '%s\n' "$*" | sed 's/^/# /'; }

tap_line()
{
    tap_run=$((tap_run + 1))
    printf '%s %s - %s\n' "$1" "$tap_run" "$(printf '%s' "$2" | tr '#\n' '  ')"
}
pass() { tap_line ok "$*"; }
fail() { tap_failed=$((tap_failed + 1)); tap_line 'not ok' "$*"; return 1; }

ok()
{
    tap_text=$1
    shift
    if tap_output=$("$@" 2>&1); then
        pass "$tap_text"
    else
        fail "$tap_text"
        diag "failed: $*"
        diag "$tap_output" | head -n 30
        return 1
    fi
}

nok()
{
    tap_text=$1
    shift
    if tap_output=$("$@" 2>&1); then
        fail "$tap_text"
        diag "succeeded: $*"
        diag "$tap_output" | head -n 30
        return 1
    fi
    pass "$tap_text"
}

is()
{
    if [ "$1" = "$2" ]; then
        pass "$3"
    else
        fail "$3"
        diag "wanted: $1"
        diag "saw:    $2"
        return 1
    fi
}

like()
{
    if printf '%s\n' "$2" | grep -Eq -e "$1"; then
        pass "$3"
    else
        fail "$3"
        diag "wanted a match of: $1"
        diag "saw: $2"
        return 1
    fi
}

skip()
{
    tap_count=$1
    shift
    while [ "$tap_count" -gt 0 ]; do
        tap_count=$((tap_count - 1))
        tap_run=$((tap_run + 1))
        echo "ok $tap_run # SKIP $*"
    done
}

start()
{
    "$@" &
    started=$!
    tap_started="$tap_started $started"
}

scene()
{
    mkdir "$tmp/$1" || bail "no scratch folder $tmp/$1"
    (
        tmp=$tmp/$1 tap_own= tap_run=0 tap_failed=0 tap_started= tap_scenes=
        tap_pid=$(exec sh -c 'echo $PPID')
        trap tap_cleanup 0
        trap 'trap "" HUP INT TERM; exit 99' HUP INT TERM
        export XDG_RUNTIME_DIR="$tmp"
        cd "$tmp" || exit
        shift
        "$@"
        exit 0
    ) >"$tmp/$1.tap" &
    tap_scenes="$tap_scenes $1:$!"
}

scenes_end()
{
    for tap_scene in $tap_scenes; do
        wait "${tap_scene#*:}"
        tap_status=$?
        while IFS= read -r tap_text; do
            case $tap_text in
            'ok '* | 'not ok '*)
                tap_run=$((tap_run + 1))
                tap_word=${tap_text%%ok *}ok
                [ "$tap_word" = ok ] || tap_failed=$((tap_failed + 1))
                tap_text=${tap_text#*ok }
                tap_text="$tap_word $tap_run ${tap_text#* }"
                ;;
            esac
            printf '%s\n' "$tap_text"
        done <"$tmp/${tap_scene%%:*}.tap"
        [ $tap_status -eq 0 ] || fail "the scene ${tap_scene%%:*} ended with status $tap_status"
    done
    tap_scenes=
}

# Counts tenths of a second of sleep, so that changing the wall clock cannot stretch it.
wait_for()
{
    tap_left=$(($1 * ${HOOP_TEST_TIME_FACTOR:-1} * 10))
    shift
    until "$@" >/dev/null 2>&1; do
        tap_left=$((tap_left - 1))
        [ "$tap_left" -gt 0 ] || return 1
        sleep 0.1
    done
}

await() { wait_for 30 "$@"; }

# So many seconds later than promised may something be seen beside other tests.
room=$((5 * ${HOOP_TEST_TIME_FACTOR:-1}))

# A zombie is gone too: nobody may have waited for it yet.
gone()
{
    for tap_process; do
        case $(sed 's/^.*) //' "/proc/$tap_process/stat" 2>/dev/null) in
        '' | [ZX]*) ;;
        *) return 1 ;;
        esac
    done
}

stop()
{
    kill "$1" 2>/dev/null
    wait_for 2 gone "$1" || kill -KILL "$1" 2>/dev/null
    wait "$1" 2>/dev/null
}

# A process holds them until the test or the scene ends.
own_ports()
{
    mkfifo "$tmp/own_ports" || bail "no fifo in $tmp"
    "$abs_top_builddir/t/tap/hold_ports" "${1:-1}" >"$tmp/own_ports" &
    tap_started="$tap_started $!"
    read -r port <"$tmp/own_ports" || bail 'no free ports'
    rm "$tmp/own_ports"
}

done_testing()
{
    [ "$tap_planned" != lazy ] || echo "1..$tap_run"
    [ "$tap_failed" -eq 0 ] || exit 1
    exit 0
}
