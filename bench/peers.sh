# SPDX-License-Identifier: MIT
# peers: what compare measures: which there are, what they need, how each is compiled and started. Read by compare. Uses
# here, scratch, network, each, hosts, subnet, on_host; measure also n (ranks), bytes, large, cap, limits, limit, meeting.

everyone='limit_ring limit_hot limit_splice limit_hops ompi ompi_ring ompi_segring ompi_rab ompi_shm mpich mpich_shm gloo_ring
    gloo_bcube gloo_ring_chunked gloo_hd hoop hoop:fused hoop:apart'

# Sets hooprun, hoop_include and hoop_library; without a hooprun hoop is left out. hoop itself warns of variables that begin
# like its own and are none: they go.
find_hoop()
{
    hooprun= hoop_include=$here/../include
    if [ -n "${HOOP_PREFIX:-}" ]; then
        [ -x "$HOOP_PREFIX/bin/hooprun" ] || die "HOOP_PREFIX=$HOOP_PREFIX: there is no bin/hooprun below it"
        hooprun=$HOOP_PREFIX/bin/hooprun hoop_include=$HOOP_PREFIX/include
        hoop_library=$(dirname "$(find "$HOOP_PREFIX/" -name libhoop.so | head -n 1)")
    else
        for build in ${HOOP_BUILD:+"$HOOP_BUILD"} "$here/.." "$here/../build" .; do
            if [ -e "$build/.libs/libhoop.so" ] && [ -x "$build/bin/hoop-launch" ]; then
                build=$(cd "$build" && pwd)
                hooprun=$here/../bin/hooprun hoop_library=$build/.libs
                export PATH="$build/bin:$PATH"
                break
            fi
        done
    fi
    unset HOOP_PREFIX HOOP_BUILD
}

installed()
{
    for program; do
        command -v "$program" >/dev/null || return 1
    done
}

# A program of the user's own: its name is a path.
is_own()
{
    case $1 in
    hoop:*) return 1 ;;
    */*) ;;
    *) return 1 ;;
    esac
}

# Dies of a name that is nobody's, and of a setting that is none.
check_name()
{
    if is_own "$1"; then
        [ -x "$1" ] && [ ! -d "$1" ] || die "$1 is no program that can be run"
        return
    fi
    case $1 in
    -*) die "$1: options come before the peers" ;;
    hoop:*)
        for word in $(echo "${1#*:}" | tr , ' '); do
            case $word in
            fused | apart | [a-z]*=*) ;;
            *) die "$1: $word is neither a setting, KEY=VALUE, nor fused nor apart" ;;
            esac
        done
        ;;
    *:*) die "$1: only hoop takes settings behind a colon" ;;
    hoop | hoop@?* | limit_*) ;;
    *@*) die "$1: only hoop and the limits take a congestion control behind an @" ;;
    esac
    case " $(echo $everyone) " in
    *" ${1%%[@:]*} "*) ;;
    *) die "there is no peer $1; compare -l lists them" ;;
    esac
}

# Why a peer cannot be measured here; nothing when it can.
obstacle()
{
    case $1 in
    hoop:*fused* | hoop:*apart*) [ $collective = allreduce ] || { echo 'an array in pieces is reduced'; return; } ;;
    hoop | hoop[:@]* | ompi* | mpich*) ;;
    *) [ $collective = allreduce ] || { echo 'only hoop and the MPIs have other collectives here'; return; }
       [ "$each" = 1 ] || { echo 'only hoop and the MPIs know of several ranks on a host'; return; } ;;
    esac
    ! is_own "$1" || return 0
    case $1 in
    *_shm) [ -z "$network" ] || echo 'shared memory does not reach other hosts' ;;
    esac
    case $1 in
    ompi | ompi_*) installed mpicc.openmpi mpirun.openmpi || echo 'Open MPI is not installed (openmpi-bin libopenmpi-dev)' ;;
    mpich | mpich_*) installed mpicc.mpich mpiexec.mpich || echo 'MPICH is not installed (mpich libmpich-dev)' ;;
    gloo_*) [ -e /usr/include/gloo/allreduce.h ] && installed g++ || echo 'Gloo is not installed (libgloo-dev g++)' ;;
    hoop*) [ -n "$hooprun" ] || echo 'hoop is neither built nor installed; say where with HOOP_PREFIX or HOOP_BUILD' ;;
    esac
}

# ---- compiling -----------------------------------------------------------------------------------------------------

compile()
{
    "$@" >>"$scratch/compiled" 2>&1 || { cat "$scratch/compiled" >&2; die "cannot compile: $*"; }
}

# $1: a peer; compiles the program behind it, once, and the harness.
compile_peer()
{
    fast="-O3 -march=native -D_GNU_SOURCE -std=gnu11" o=$scratch/bench.o
    ! is_own "$1" || return 0
    case $1 in
    limit_hops*) program=limit_hops ;;
    limit_*) program=limit_ring ;;
    ompi*) program=openmpi ;;
    mpich*) program=mpich ;;
    *) program=${1%%[_@:]*} ;;
    esac
    [ ! -x "$scratch/$program" ] || return 0
    [ -e "$o" ] || compile cc $fast -c "$here/bench.c" -o "$o"
    case $program in
    limit_*) compile cc $fast "$here/$program.c" "$here/limit_socket.c" "$o" -o "$scratch/$program" ;;
    openmpi | mpich) compile mpicc.$program $fast "$here/mpi_bench.c" "$o" -o "$scratch/$program" ;;
    gloo) compile g++ -O3 -march=native -std=c++17 "$here/gloo_bench.cc" "$o" -o "$scratch/gloo" -lgloo -lpthread ;;
    hoop) compile cc $fast -I"$hoop_include" "$here/hoop_bench.c" "$o" -o "$scratch/hoop" -L"$hoop_library" -lhoop \
        -Wl,-rpath,"$hoop_library" ;;
    esac
}

# ---- starting, one peer at one number of ranks ---------------------------------------------------------------------

passed='BENCH_SHM BENCH_LABEL BENCH_SIZES BENCH_CAP BENCH_LARGE BENCH_LIMITS BENCH_HOOP BENCH_KIND'

# Starts a program that knows no launcher: a process a rank. Its status: that of the first rank that failed.
each_rank()
{
    pids= rank=0 failed=0
    while [ $rank -lt "$n" ]; do
        address=127.0.0.1
        [ -z "$network" ] || address=$subnet$((rank + 1))
        env BENCH_RANK=$rank BENCH_RANKS="$n" BENCH_ADDRESS=$address ${network:+BENCH_NET=$subnet} \
            timeout -k 2 "$limit" $(on_host $rank) "$@" &
        pids="$pids $!"
        rank=$((rank + 1))
    done
    for pid in $pids; do
        wait "$pid" || { status=$?; [ $failed -ne 0 ] || failed=$status; }
    done
    return $failed
}

open_mpi()
{
    set -- "$@" "$scratch/openmpi"
    for variable in $passed; do
        set -- -x "$variable" "$@"
    done
    [ -z "$network" ] || set -- --host "$hosts" --mca plm_rsh_agent "$scratch/agent" --mca plm_rsh_no_tree_spawn 1 \
        --mca oob_tcp_if_include eth0 "$@"
    [ "$n" -le 2 ] || set -- --mca mpi_yield_when_idle 1 "$@"
    env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout -k 2 "$limit" $(on_host 0) mpirun.openmpi \
        --oversubscribe --bind-to none -np "$n" "$@"
}

# $1: its number for the algorithm, 0 is its own choice.
open_mpi_tcp()
{
    device=lo algorithm=$1 within=
    [ -z "$network" ] || device=eth0
    [ "$each" = 1 ] || within=,vader # memory within a host, as hoop has it
    shift
    [ "$algorithm" = 0 ] || set -- --mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_allreduce_algorithm "$algorithm" "$@"
    open_mpi --mca pml ob1 --mca btl tcp,self$within --mca btl_tcp_if_include $device "$@"
}

mpich()
{
    set -- "$@" -np "$n" -genvall "$scratch/mpich"
    [ -z "$network" ] || set -- -launcher rsh -launcher-exec "$scratch/agent" -hosts "$hosts" -iface eth0 "$@"
    timeout -k 2 "$limit" $(on_host 0) mpiexec.mpich "$@"
}

mpich_tcp()
{
    device=lo
    [ -z "$network" ] || device=eth0
    UCX_TLS=tcp,self UCX_NET_DEVICES=$device MPIR_CVAR_NOLOCAL=1 mpich
}

# $1: words with commas in between: KEY=VALUE, handed on as HOOP_KEY; fused or apart, for hoop_bench.
hoop()
{
    case ,$1, in
    *,fused,*) BENCH_HOOP=fused ;;
    *,apart,*) BENCH_HOOP=apart ;;
    esac
    set -- $(echo "$1" | tr ',' '\n' | awk -F= 'NF > 1 { sub(/^[^=]*/, "HOOP_" toupper($1)); print }')
    set -- env "$@" timeout -k 2 "$limit" $(on_host 0) "$hooprun" -n "$n"
    [ -z "$network" ] || set -- "$@" -H "$hosts" --rsh "$scratch/agent"
    for variable in $passed; do
        set -- "$@" -x "$variable"
    done
    "$@" "$scratch/hoop"
}

gloo()
{
    BENCH_STORE=$(mktemp -d "$scratch/store.XXXXXX")
    export BENCH_STORE
    each_rank "$scratch/gloo" "$1"
}

limit()
{
    case $1 in
    *@*) export LIMIT_CC="${1#*@}" ;;
    esac
    case $1 in
    limit_hot*) export LIMIT_HOT=1 ;;
    limit_splice*) export LIMIT_HOT=1 LIMIT_SPLICE=1 ;;
    esac
    case $1 in
    limit_hops*) each_rank "$scratch/limit_hops" ;;
    *) each_rank "$scratch/limit_ring" ;;
    esac
}

# The name under which a peer stands in the tables.
label()
{
    if is_own "$1"; then
        basename "$1" | tr ' \t' '__'
    else
        echo "$1"
    fi
}

# To be called in a subshell, so that what a peer exports ends with it.
measure()
{
    BENCH_SHM=$meeting BENCH_LABEL=$(label "$1") BENCH_SIZES=$bytes BENCH_LARGE=$large BENCH_CAP=$cap BENCH_LIMITS=$limits
    BENCH_HOOP= BENCH_KIND=$collective
    export $passed
    if is_own "$1"; then
        each_rank "$1"
        return
    fi
    case $1 in
    limit_*) limit "$1" ;;
    ompi) open_mpi_tcp 0 ;;
    ompi_ring) open_mpi_tcp 4 ;;
    ompi_segring) open_mpi_tcp 5 --mca coll_tuned_allreduce_algorithm_segmentsize 1048576 ;;
    ompi_rab) open_mpi_tcp 6 ;;
    ompi_shm) open_mpi ;;
    mpich) mpich_tcp ;;
    mpich_shm) mpich ;;
    gloo_*) gloo "${1#gloo_}" ;;
    hoop) hoop '' ;;
    hoop@*) hoop "tcp_congestion=${1#*@}" ;;
    hoop:*) hoop "${1#*:}" ;;
    esac
}

# Ends what a peer has left behind, known by the file where its ranks meet, which no other process has.
sweep()
{
    tries=0
    while left=$(grep -laF "BENCH_SHM=$meeting" /proc/[0-9]*/environ 2>/dev/null | sed 's|^/proc/\([0-9]*\)/.*|\1|')
        [ -n "$left" ] && [ $tries -lt 20 ]; do
        case $tries in
        0) kill -TERM $left 2>/dev/null ;;
        10) kill -KILL $left 2>/dev/null ;;
        esac
        tries=$((tries + 1))
        sleep 0.1
    done
}
