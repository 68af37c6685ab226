#!/bin/sh
# SPDX-License-Identifier: MIT
# A folder is a layer: who may include whom. Each row is a folder (or a group of files in it), then what it may include
# as an extended regular expression on the name between the quotes.
. "$abs_top_srcdir/t/tap/tap.sh"
cd "$abs_top_srcdir" || bail "no $abs_top_srcdir"
plan 17

# allowed TEXT PATTERN FILE...: no file includes anything else by quotes.
allowed()
{
    text=$1 pattern=$2
    shift 2
    found=$(grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "$@" /dev/null |
        grep -vE "include[[:space:]]*\"($pattern)\"")
    is '' "$found" "$text"
}

# ordered FOLDER FILE...: the folder's files from top to bottom, without their endings, are all there are, and each
# includes headers of its own and of files after it only.
ordered()
{
    folder=$1 wrong=
    shift
    listed=$(printf '%s\n' "$@" | LC_ALL=C sort)
    there=$(for file in "$folder"/*.[ch]; do basename "${file%.?}"; done | LC_ALL=C sort -u)
    [ "$listed" = "$there" ] || wrong="the list is not the files of $folder/"
    while [ $# -gt 0 ]; do
        may=$(printf '|%s' "$@")
        up=$(cat "$folder/$1".[ch] 2>/dev/null | sed -n "s|^#include \"$folder/\([a-z_]*\)\.h\".*|\1|p" | LC_ALL=C sort -u |
            grep -vxE "${may#|}" | tr '\n' ' ')
        [ -z "$up" ] || wrong="$wrong $1 includes $up"
        shift
    done
    is '' "$wrong" "$folder: each file includes only what is below it"
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

ordered net link stripe control flight pipe match link_state pieces door caller pool dial shake conn alarm remarks ports \
    secret secure frame sock addr lookup loop
ordered rendezvous server hall overseer roster meeting nag refusal breach silence blame order outlet client registration \
    debt line message
ordered base call dtype processors wire log clock text secmem mem err number limits distance hash

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
