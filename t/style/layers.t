#!/bin/sh
# SPDX-License-Identifier: MIT
# A folder is a layer: who may include whom. Each row is a folder (or a group of files in it), then what it may include
# as an extended regular expression on the name between the quotes.
. "$abs_top_srcdir/t/tap/tap.sh"
cd "$abs_top_srcdir" || bail "no $abs_top_srcdir"
plan 18

# allowed TEXT PATTERN FILE...: no file includes anything else by quotes.
allowed()
{
    text=$1 pattern=$2
    shift 2
    found=$(grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "$@" /dev/null |
        grep -vE "include[[:space:]]*\"($pattern)\"")
    is '' "$found" "$text"
}

# ordered FOLDER FILE...: calls go down only. Every file of the folder is in the list, from the top to the bottom, and
# includes only headers of files after it. A name covers its .c, .h and .cu; a name with an ending is that file alone.
ordered()
{
    folder=$1
    shift
    find "$folder" -maxdepth 1 \( -name '*.[ch]' -o -name '*.cu' -o -name '*.def' \) | LC_ALL=C sort >"$tmp/files"
    found=$(grep -HoE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"[^"]*"' $(cat "$tmp/files") /dev/null |
        awk -v folder="$folder" -v order="$*" -v files="$(tr '\n' ' ' <"$tmp/files")" '
            function place(path) {
                sub(/.*\//, "", path)
                if (!(path in at)) sub(/\.[a-z]*$/, "", path)
                return path
            }
            BEGIN {
                count = split(order, name, " ")
                for (i = 1; i <= count; i++) at[name[i]] = i
                count = split(files, file, " ")
                for (i = 1; i <= count; i++) if (!(place(file[i]) in at)) print file[i] " is not in the list"
                for (i = 1; i <= count; i++) seen[place(file[i])] = 1
                for (n in at) if (!(n in seen)) print n " is in the list, and not in " folder
            }
            {
                user = $0; sub(/:.*/, "", user)
                used = $0; sub(/^[^"]*"/, "", used); sub(/"$/, "", used)
                if (index(used, folder "/") != 1 || used ~ ("^" folder "/.*/")) next
                if (place(user) != place(used) && at[place(used)] <= at[place(user)])
                    print user " includes " used ", which is above it"
            }')
    is '' "$found" "in $folder each file includes only files below it"
}

bracketed=$(grep -hoE '^[[:space:]]*#[[:space:]]*include[[:space:]]*<[^>]*>' -r include base lib net gpu rendezvous bin t/tap |
    sed 's/.*<\(.*\)>/\1/' | LC_ALL=C sort -u)
own=$(for header in $bracketed; do
    [ ! -e "$header" ] && [ ! -e "include/$header" ] || echo "$header"
done)
is '' "$own" 'angle brackets are for the system, our own headers are included by quotes'
is '' "$(grep -n '#include' include/hoop.h | grep -vE '<(stddef|stdint)\.h>')" 'hoop.h needs stddef.h and stdint.h only'

allowed 'examples see hoop.h and themselves' 'hoop\.h|[a-z_]+\.h' examples/*.[ch] examples/*.cu
allowed 'base sees hoop.h' 'hoop\.h|base/[a-z_]+\.(h|def)' base/*.[ch]
allowed 'net sees base' 'hoop\.h|base/[a-z_]+\.h|net/[a-z_]+\.h' net/*.[ch]
allowed 'gpu sees base' 'hoop\.h|base/[a-z_]+\.h|gpu/[a-z_]+\.(h|c|def)' gpu/*.[ch] gpu/*.cu
allowed 'rendezvous sees net and base' 'hoop\.h|base/[a-z_]+\.h|net/[a-z_]+\.h|rendezvous/[a-z_]+\.h' rendezvous/*.[ch]
allowed 'lib sees rendezvous, net, gpu, base' 'hoop\.h|(lib|base|net|gpu|rendezvous)/[a-z_]+\.(h|def)' lib/*.[ch]
allowed 'bin sees the rooms, not t' 'hoop\.h|(lib|base|net|gpu|rendezvous|bin)/[a-z_]+\.(h|def)' bin/*.[ch]

ordered net link stripe control zerocopy pipe frame_check link_state iov acceptor candidate pending dial handshake_io handshake \
    alarm log_queue ports secret auth frame sock addr lookup loop
ordered rendezvous server job rings job_watch roster join_group stall_warning refused_call link_loss unreachable blame ring_order \
    events client registration resend control_conn message
ordered base call dtype processors wire log clock text secmem mem err number limits distance hash
ordered gpu \
    gpu host cuda cuda_memory cuda_stream_sync cuda_queue cuda_bounce cuda_launch cuda_memtype cuda_context cuda_internal \
    cuda_driver cuda_image kernels cuda_kernel reduce reduce_plain reduce_avx2 reduce_avx512 reduce_loops arith codec device

# Inside lib the order is a line: hoop -> comm -> {join, work, progress, fault} -> channel -> {place, schedule, plan}.
pure='hoop\.h|base/[a-z_]+\.h|gpu/gpu\.h|lib/(place|schedule|plan)\.h'
allowed 'plan, schedule and place are pure' "$pure" lib/plan.[ch] lib/schedule.[ch] lib/place.[ch]
allowed 'channel sees the pure files, works, links and queues' "$pure|net/(link|frame|loop)\.h|lib/(channel|slot|work)\.h" lib/channel.[ch] lib/slot.[ch]

# Limits stand still while a process is stopped: two clocks in one room would differ after that.
is '' "$(grep -n 'hp_now()' rendezvous/server.c rendezvous/client.c rendezvous/job.c rendezvous/join_group.c rendezvous/roster.c \
    net/dial.c net/handshake_io.c lib/comm.c lib/join.c lib/peer_heartbeat.c lib/stats.c)" 'who judges by time asks the loop for it (hp_loop_now)'

is '' "$(grep -lE '#include <openssl/' -r base lib net gpu rendezvous bin examples | grep -v '^net/auth\.c$')" \
    'net/auth.c is the only file that knows the crypto library'
is '' "$(grep -nE '#include <(cuda|cuda_runtime|nvml)' -r base lib net gpu rendezvous bin --include='*.[ch]')" \
    'no C file needs a CUDA header'
done_testing
