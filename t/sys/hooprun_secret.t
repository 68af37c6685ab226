#!/bin/sh
# SPDX-License-Identifier: MIT
# The job's secret while a job runs: in no command line, no environment, no output of any process of the job, neither
# raw nor in hexadecimal nor in base64; ranks read it from a sealed descriptor. Through a remote shell as well.
# time limit: 120
. "$abs_top_srcdir/t/tap/tap.sh"
hooprun=$abs_top_builddir/bin/hooprun
unset HOOP_HOSTFILE HOOP_RSH HOOP_SOCKET_IFNAME SSH_CONNECTION
command -v od >/dev/null && command -v base64 >/dev/null || skip_all 'od or base64 is not installed (apt-get install coreutils)'
plan_lazy
cd "$tmp" || bail "no $tmp"

printf '#!/bin/sh\nshift\n"$@"\n' >shell
cat >rank <<'END'
#!/bin/sh
cat <&3 >secret.$HOOP_RANK.part && mv secret.$HOOP_RANK.part secret.$HOOP_RANK
[ ! -w /proc/self/fd/3 ] || ! echo changed 2>/dev/null >&3 || echo "rank $HOOP_RANK could write the secret"
while [ ! -e stop ]; do sleep 0.2; done
END
chmod +x shell rank
all_there() { [ -e secret.0 ] && [ -e secret.1 ] && [ -e secret.2 ]; }

# look TEXT PATTERN-FILE FILE...: the bytes of the first file occur in none of the others.
look()
{
    text=$1 pattern=$2
    shift 2
    found=$(grep -laF -f "$pattern" "$@" 2>/dev/null | grep -v "^/proc/\(self\|$$\)/")
    is '' "$found" "$text"
}

for how in 'here' 'there'; do
    rm -f secret.* stop
    case $how in
    here) set -- -n 3 ;;
    there) set -- --rsh ./shell -H n1:2,n2:1 ;;
    esac
    start "$hooprun" -v "$@" ./rank >out 2>err </dev/null
    job=$started
    ok "$how: three ranks have the secret" await all_there
    ok "$how: the key of this job, and whose it is" grep -Eqx 'hoop-job [0-9a-f]{32} [0-9a-f]{64}' secret.0
    is "$(cat secret.0)" "$(cat secret.1 secret.2 | sort -u)" "$how: the same for all"
    sed 's/.* //' secret.0 >hex
    tr 'a-f' 'A-F' <hex >HEX
    # The 32 bytes; a search for them is one for the longest run without NUL and newline.
    awk '{ for (i = 1; i <= 63; i += 2) { h = substr($0, i, 2)
        printf "\\%03o", (index("0123456789abcdef", substr(h, 1, 1)) - 1) * 16 + index("0123456789abcdef", substr(h, 2, 1)) - 1 } }' hex >octal
    printf "$(cat octal)" >raw
    is 32 "$(wc -c <raw | tr -d ' ')" "$how: its raw form"
    tr '\000' '\n' <raw | awk 'length($0) > length(best) { best = $0 } END { printf "%s", best }' >run
    base64 <raw | tr -d '=\n' >base64
    base64 <hex | head -c 60 >base64hex
    for form in hex HEX run base64 base64hex; do
        [ "$(wc -c <$form)" -ge 4 ] || continue
        look "$how: $form in no command line" $form /proc/[0-9]*/cmdline
        look "$how: $form in no environment" $form /proc/[0-9]*/environ
        look "$how: $form in no output" $form out err
    done
    nok "$how: the search would find it" sh -c 'cp hex copy; ! grep -qaF -f hex copy'
    ok "$how: the job is still running" kill -0 "$job"
    : >stop
    wait "$job"
    is 0 $? "$how: it ends well"
    is '' "$(cat out)" "$how: no rank could write to the secret"
done
done_testing
