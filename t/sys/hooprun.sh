# SPDX-License-Identifier: MIT
# hooprun.sh: what the tests of hooprun on this machine share. Read it behind tap.sh: it goes to the scratch folder.
#
#     run ARGUMENT...                     hooprun's output, error and status in $out, $err and $status
#     refused PATTERN TEXT ARGUMENT...    it says one line, and its status is 2
hooprun=$abs_top_builddir/bin/hooprun
unset HOOP_HOSTFILE HOOP_RSH HOOP_SOCKET_IFNAME SSH_CONNECTION
cd "$tmp" || bail "no $tmp"
tmp=$(pwd)

run()
{
    timeout 60 "$hooprun" "$@" >out 2>err </dev/null
    status=$?
    out=$(cat out) err=$(cat err)
}

refused()
{
    pattern=$1 text=$2
    shift 2
    run "$@"
    is 2 "$status" "$text: status 2"
    like "^hooprun: $pattern" "$err" "$text: said"
    is 1 "$(wc -l <err | tr -d ' ')" "$text: in one line"
}
