#!/bin/sh
# SPDX-License-Identifier: MIT
# A folder is a layer: who may include whom. Each row is a folder (or a group of files in it), then what it may include
# as an extended regular expression on the name between the quotes.
. "$abs_top_srcdir/t/tap/tap.sh"
cd "$abs_top_srcdir" || bail "no $abs_top_srcdir"
plan 38

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
# includes only headers of files after it. A name covers its .c, .h, .cu and .cuh; a name with an ending is that file alone.
ordered()
{
    folder=$1
    shift
    find "$folder" -maxdepth 1 \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.def' \) | LC_ALL=C sort >"$tmp/files"
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

# calls FOLDER FILE...: the same of calls, by the symbols of the objects that were built: a function may be declared anywhere.
calls()
{
    folder=$1
    shift
    objects=$(for name; do
        for object in "$abs_top_builddir/$folder/.libs/$name.o" "$abs_top_builddir/$folder/$name.o"; do
            [ ! -f "$object" ] || { echo "$object"; break; }
        done
    done)
    [ -n "$objects" ] || { is 'objects' 'none' "$folder has been built"; return; }
    command -v nm >/dev/null || { skip 1 'no nm: install binutils'; return; }
    is '' "$(nm -A -P $objects | awk -v order="$*" '
        BEGIN { n = split(order, name, " "); for (i = 1; i <= n; i++) at[name[i]] = i }
        {
            file = $1; sub(/:$/, "", file); sub(/.*\//, "", file); sub(/\.o$/, "", file)
            if ($3 == "U") users[$2] = users[$2] " " file
            else if ($3 ~ /^[TDBRC]$/) owner[$2] = file
        }
        END {
            for (symbol in owner) {
                n = split(users[symbol], user, " ")
                for (i = 1; i <= n; i++)
                    if (at[user[i]] >= at[owner[symbol]] && user[i] != owner[symbol])
                        print user[i] " uses " symbol " of " owner[symbol] ", which is above it"
            }
        }' | LC_ALL=C sort)" "in $folder each file calls only files below it"
}

# downward FOLDER FILE...: both.
downward()
{
    ordered "$@"
    calls "$@"
}

bracketed=$(grep -hoE '^[[:space:]]*#[[:space:]]*include[[:space:]]*<[^>]*>' -r include base flight lib net gpu rendezvous launch perf top bin t/tap |
    sed 's/.*<\(.*\)>/\1/' | LC_ALL=C sort -u)
own=$(for header in $bracketed; do
    [ ! -e "$header" ] && [ ! -e "include/$header" ] || echo "$header"
done)
is '' "$own" 'angle brackets are for the system, our own headers are included by quotes'
is '' "$(grep -n '#include' include/hoop.h | grep -vE '<(stddef|stdint)\.h>')" 'hoop.h needs stddef.h and stdint.h only'

allowed 'examples see hoop.h and themselves' 'hoop\.h|[a-z_]+\.h' examples/*.[ch] examples/*.cu
allowed 'base sees hoop.h' 'hoop\.h|base/[a-z_]+\.h' base/*.[ch]
allowed 'net sees base' 'hoop\.h|(base|net)/[a-z_]+\.h' net/*.[ch]
allowed 'flight sees base' 'hoop\.h|(base|flight)/[a-z0-9_]+\.h' flight/*.[ch]
allowed 'gpu sees base' 'hoop\.h|base/[a-z_]+\.h|gpu/[a-z_]+\.(h|cuh)' gpu/*.[ch] gpu/*.cu gpu/*.cuh
allowed 'rendezvous sees net, flight and base' 'hoop\.h|(base|flight|net|rendezvous)/[a-z_]+\.h' rendezvous/*.[ch]
allowed 'lib sees rendezvous, net, gpu, flight, base' 'hoop\.h|(base|flight|net|gpu|rendezvous|lib)/[a-z_]+\.(h|def)' lib/*.[ch]
allowed 'launch sees rendezvous, net, flight, base and the settings' \
    'hoop\.h|lib/config\.(h|def)|(base|flight|net|rendezvous|launch)/[a-z_]+\.(h|def)' launch/*.[ch]
allowed 'perf sees hoop.h, the writer of JSON, numbers and options, nothing else of the library' \
    'hoop\.h|base/(json|number|option)\.h|perf/[a-z_]+\.h' \
    perf/*.[ch] bin/hoop-bench.c
allowed 'top sees net, flight, base, the settings and files of secrets' \
    'hoop\.h|lib/(config|secret_file)\.h|(base|flight|net|top)/[a-z_]+\.h' top/*.[ch]
allowed 'bin sees everything but t' 'hoop\.h|(base|flight|net|rendezvous|launch|perf|top|lib)/[a-z_]+\.(h|def)' bin/*.[ch]

# The files of each folder, from the top to the bottom.
downward base say call dtype limits wire buffer log count thread clock text mem err number option json
downward flight report story ring sweep collection folder format wait_graph
downward net link parting stripe link_state medium shm receiver sender unacked post acceptor incoming race dial handshake \
    secret auth frame sock interface addr tcp loop socket
downward gpu gpu host cuda cuda_stream_sync cuda_queue cuda_bounce cuda_launch cuda_memtype cuda_context \
    cuda_internal cuda_driver kernels kernel_types cuda_kernel \
    reduce_plain reduce_avx2 reduce_avx512 reduce_loops arith codec device
downward rendezvous server inquiry job_keys table rank_row lookout job recall half_split note admission job_watch hold_up whereabouts shrink grow job_state columns roster join_group straggler stall_warning disagreement refused_call ring_names departure link_loss blame \
    events client reporting membership registration statement control_conn message_fits message lateness
downward lib create hoop bootstrap wait calls serve group leave entry join visit progress spin \
    standby round links overdue fault cut_off reports stats message_waits messages message_works devices works account \
    request registry baton comm exchange ways pmi server_search bounded_wait environment launcher config config.def \
    secret_file listener server_thread peer_heartbeat \
    channel slot work pair matching place schedule levels plan host_map step blocks
downward launch agent ranks run silence recorders host places job_server server_process job_ranks rank_exit agent_conn mapping options rank_env \
    allocation hostfile output screen streams lease agent_msg spawn options.def xalloc
downward top servers
downward perf data memory report options collectives

# Pure: no sockets, no threads, no clock.
pure='hoop\.h|base/[a-z_]+\.h|gpu/gpu\.h|lib/(place|schedule|levels|step|plan|host_map|blocks)\.h'
allowed 'blocks, host_map, plan, levels, schedule and place are pure' "$pure" lib/blocks.[ch] lib/host_map.[ch] lib/plan.[ch] \
    lib/step.h lib/levels.[ch] lib/schedule.[ch] lib/place.[ch]
allowed 'the belt sees the pure files, works, links and queues' \
    "$pure|net/(link|frame|loop)\.h|lib/(channel|slot|work)\.h" \
    lib/channel.[ch] lib/slot.[ch]

# Limits stop while a process is stopped: two clocks in one room would differ after that.
is '' "$(grep -n 'hp_now()' $(ls rendezvous/*.c | grep -v -e control_conn) net/dial.c net/handshake.c lib/round.c lib/reports.c lib/links.c lib/join.c \
    lib/peer_heartbeat.c lib/stats.c | grep -vE 'hp_now\(\) - r->born|hp_(clock_offset_take|question_put|answer_put)\(.*hp_now\(\)\);')" 'limits by which others are judged are in the time of the loop (hp_loop_now)'

# A forked child closes the sockets that net/socket.c knows. One that was closed behind its back would be another file.
is '' "$(grep -nE '(^|[^_a-z>])(socket|accept4?)\(' net/*.c rendezvous/*.c lib/*.c | grep -v '^net/socket\.c:')" \
    'net/socket.c makes all sockets of the library'
is '' "$(grep -nE '(^|[^_a-z>.])close\(' net/*.c rendezvous/*.c lib/*.c |
    grep -vE '^(net/(socket|acceptor|loop|shm|secret)|lib/secret_file|rendezvous/inquiry)\.c:')" \
    'and closes them; the other files that close descriptors have no sockets'

is '' "$(grep -lE '#include <openssl/' -r base flight lib net gpu rendezvous launch perf top bin examples | grep -v '^net/auth\.c$')" \
    'net/auth.c is the only file that knows the crypto library'
is '' "$(grep -nE '#include <(cuda|cuda_runtime|nvml)' -r base flight lib net gpu rendezvous launch perf top bin --include='*.[ch]')" \
    'no C file needs a CUDA header'
done_testing
