#!/bin/sh
# SPDX-License-Identifier: MIT
# launchers.t: programs that other launchers than hooprun start. Both MPIs' mpirun, where they are installed, and the
# variables of torchrun, srun and Kubernetes: ranks meet in any order, make several rings, leave no thread and no socket
# behind, and never meet another start; what is missing is said in one sentence on every rank.
# time limit: 240
. "$abs_top_srcdir/t/tap/tap.sh"

guest=$abs_top_builddir/t/sys/guest
server=$abs_top_builddir/bin/hoop-rendezvous
hooprun=$abs_top_builddir/bin/hooprun
unset HOOP_RANK HOOP_SIZE HOOP_RENDEZVOUS HOOP_SECRET_FD HOOP_SECRET_FILE HOOP_JOB HOOP_SECURITY HOOP_PORT_RANGE
unset RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
cd "$tmp" || bail "no scratch folder"
export HOOP_SOCKET_IFNAME=lo HOOP_BOOTSTRAP_TIMEOUT_MS=$((30000 * ${HOOP_TEST_TIME_FACTOR:-1}))
export HOOP_CONF_FILE=
unset XDG_CONFIG_HOME
plan_lazy

"$server" --new-secret secret
cp secret open
chmod 644 open
shared=$tmp

# A user of this scene's own, and a port and those behind it.
user()
{
    mkdir -m 700 runtime home
    export HOME="$tmp/home" XDG_RUNTIME_DIR="$tmp/runtime" TMPDIR="$tmp"
    own_ports 17 # hoop tries 16 after the first one
}

# process NAME COMMAND...: in the background; its words go to NAME, its exit status to NAME.status.
process()
{
    name=$1
    shift
    (
        "$@" >"$name" 2>&1 </dev/null
        echo $? >"$name.status"
    ) &
    tap_started="$tap_started $!"
}
ended() { for name; do [ -s "$name.status" ] || return 1; done; }
statuses() { for name; do cat "$name.status" 2>/dev/null || echo running; done | tr '\n' ' '; }

# What the ranks of a good job print, in the order of ranks; rank 0 has the server's thread and sockets, too.
good() { for r in 0 1 2; do echo "rank $r of 3: right"; done; }
rights() { sed -n 's/^\(rank .*: right\),.*/\1/p' "$@" | sort; }

# meet TEXT NAME: the ranks NAME0, NAME1, NAME2 that were started end well. Ranks of other jobs that knock at the server's
# port are nothing to warn of. A rank that has waited for the server for five seconds may say so: other tests run beside
# this one.
meet()
{
    wait_for 60 ended "$2"0 "$2"1 "$2"2
    is "$(good)" "$(rights "$2"0 "$2"1 "$2"2)" "$1" || diag "$(cat "$2"0 "$2"1 "$2"2)"
    is '0 0 0 ' "$(statuses "$2"0 "$2"1 "$2"2)" 'and they end well'
    is '' "$(grep -h WARN "$2"[012] | grep -vE 'WARN waiting for the server .*\(for ([5-9]|[0-9]{2,})\.[0-9] s\)$')" 'without a warning'
    rm -f "$2"[012]*
}

# refused TEXT PATTERN NAME: they all fail, each with a sentence that fits.
refused()
{
    wait_for 60 ended "$3"0 "$3"1 "$3"2
    is '1 1 1 ' "$(statuses "$3"0 "$3"1 "$3"2)" "$1"
    is 3 "$(grep -hE "^guest: .*($2)" "$3"[012] | wc -l | tr -d ' ')" 'each says why' || diag "$(cat "$3"[012])"
    diag "$(cat "$3"1)"
    rm -f "$3"[012]*
}

# --- MPI -------------------------------------------------------------------------------------------------------------

# Open MPI's mpirun wants to be asked as root, and where it may use more processes than processors.
# libpmix leaks memory of its own.
openmpi() { ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0" mpirun.openmpi --allow-run-as-root --oversubscribe --mca btl self,tcp --mca btl_tcp_if_include lo "$@"; }
hydra() { mpiexec.hydra "$@"; }

# launcher NAME: a job of three under a real launcher, whose channel leaves nothing in a process.
launcher()
{
    user
    name=$1
    "$name" -n 3 "$guest" >said 2>&1 </dev/null
    is 0 $? "$name"
    is "$(good)" "$(rights said)" "$name: three rings in three processes" || diag "$(cat said)"
    is 2 "$(grep -c 'rank [12] .*, 0 more threads, 6 more sockets' said)" \
        "$name: a rank that serves nothing has what it has under hooprun" || diag "$(cat said)"
    HOOP_BOOTSTRAP_TIMEOUT_MS=8000 "$name" -n 3 sh -c '[ "${PMI_RANK:-$OMPI_COMM_WORLD_RANK}" != 1 ] || sleep 10
exec "$0" again' "$guest" >said 2>&1 </dev/null
    is "$(good)" "$(rights said)" "$name: ranks that try again meet one that is late" || diag "$(cat said)"
    is 2 "$(grep -c '^guest: .* hoop_comm_create' said)" "$name: after they were told" || diag "$(cat said)"
    ASAN_OPTIONS=detect_leaks=0 "$name" -n 3 "$guest" fork >said 2>&1 </dev/null
    is 0 $? "$name: a child of each rank"
    is "$(good)" "$(rights said)" "$name: leaves the rings alone" || diag "$(cat said)"
    is 3 "$(grep -c '^child: this process was forked by rank .* hoop_launch(7)' said)" \
        "$name: and is told that the channel is not its own" || diag "$(cat said)"
    is "$(good)" "$(HOOP_SECRET_FILE=$shared/secret "$name" -n 3 "$guest" 2>&1 </dev/null | rights)" \
        "$name: HOOP_SECRET_FILE wins"
    HOOP_SECRET_FILE=$shared/open "$name" -n 3 sh -c '"$0" || :' "$guest" >said 2>&1 </dev/null
    is '3 2' "$(grep -c "^guest: .*$shared/open" said) $(grep -c "^guest: .*: rank 0: .*$shared/open" said)" \
        "$name: all ranks hear why rank 0 cannot serve" || diag "$(cat said)"
    "$name" -n 2 sh -c '"$0" -n 2 echo hello || :' "$hooprun" >said 2>&1 </dev/null # else mpirun ends the slower one
    is '2 0' "$(grep -c '^hooprun: .* has started hooprun 2 times .* hoop_launch(7) shows$' said) $(grep -c '^hello$' said)" \
        "$name: hooprun is not started twice" || diag "$(cat said)"
    "$name" -n 1 sh -c "exec '$hooprun' -n 2 echo hello >'$tmp/said' 2>&1" </dev/null
    is 2 "$(grep -c '^hello$' said)" "$name: hooprun is started once" || diag "$(cat said)"
    "$name" -n 1 sh -c "exec '$guest' >'$tmp/said' 2>&1" </dev/null # a launcher may lose what a short program prints
    like '^rank 0 of 1: right, 0 more threads, 0 more sockets$' "$(cat said)" "$name: one process is a ring of one"
}

# with_mpi NAME COMPILER: a program that uses MPI as well.
with_mpi()
{
    command -v "$2" >/dev/null || { skip 2 "no $2: install the -dev package of this MPI"; return; }
    [ "${HOOP_TEST_SANITIZE:-no}" = no ] || { skip 2 'MPI does not run with sanitizers'; return; }
    lib=$abs_top_builddir/.libs
    "$2" -I"$abs_top_srcdir/include" "$abs_top_srcdir/t/sys/with_mpi.c" -L"$lib" -lhoop -Wl,-rpath,"$lib" \
        -o "with_$1" >compiled 2>&1 || { fail "$2: $(cat compiled)"; return; }
    for when in after before; do
        "$1" -n 3 "./with_$1" $when >said 2>&1 </dev/null
        case "$1 $when" in
        'hydra before')
            is 3 "$(grep -c 'MPI is initialised .* MPI_Bcast, as hoop_launch(7) shows' said)" \
                "$1: MPI keeps its own channel" || diag "$(cat said)"
            ;;
        *) is 3 "$(grep -c '^rank [012]: right$' said)" "$1: MPI and hoop in one program: $when" || diag "$(cat said)" ;;
        esac
    done
}

# opens_mpi NAME LIBRARY: a program that opens an MPI library, whose names are not global then.
opens_mpi()
{
    library=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p | sed -n "s/.* => \(.*$2\)\$/\1/p" | head -n 1)
    [ -n "$library" ] || { skip 2 "no $2"; return; }
    [ "${HOOP_TEST_SANITIZE:-no}" = no ] || { skip 2 'MPI does not run with sanitizers'; return; }
    for when in loaded before; do
        "$1" -n 3 "$abs_top_builddir/t/sys/opens_mpi" "$library" $when >said 2>&1 </dev/null
        case "$1 $when" in
        'hydra before') is 3 "$(grep -c '^ring: MPI is initialised' said)" "$1: an MPI that is not global is seen" ;;
        *loaded) is 6 "$(grep -c '^ring: right' said)" "$1: MPI_Init and hoop work on after the first ring" ;;
        *) is 3 "$(grep -c '^ring: right' said)" "$1: and after MPI_Init" ;;
        esac || diag "$(cat said)"
    done
}

mpi()
{
    launcher "$1"
    with_mpi "$1" "$2"
    opens_mpi "$1" "$3"
}

if command -v mpiexec.hydra >/dev/null; then
    scene hydra mpi hydra mpicc.mpich libmpich.so.12
else
    skip 14 'no mpiexec.hydra: install mpich'
fi
if command -v mpirun.openmpi >/dev/null; then
    scene openmpi mpi openmpi mpicc.openmpi libmpi.so.40
else
    skip 14 'no mpirun.openmpi: install openmpi-bin'
fi

# --- torchrun --------------------------------------------------------------------------------------------------------

# torch NAME RANK [VARIABLE=VALUE...] [COMMAND...]: a rank as torchrun starts it, all on this host.
torch()
{
    name=$1 r=$2
    shift 2
    process "$name$r" env RANK="$r" WORLD_SIZE=3 LOCAL_RANK="$r" LOCAL_WORLD_SIZE=3 MASTER_ADDR=localhost \
        MASTER_PORT="$port" TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=0 "$@"
}

torchrun()
{
    user
    for r in 1 2; do torch a $r "$guest"; done
    sleep 1.5
    torch a 0 "$guest"
    meet 'torchrun on one host, rank 0 last, nothing prepared' a
    is 600 "$(stat -c %a runtime/hoop.secret)" "the host's secret is the user's alone"
    is hoop.secret "$(cd runtime && find . ! -type d | sed 's|.*/||')" 'and no other file is left in the runtime folder'

    for r in 0 1 2; do
        process n$r env RANK=$r WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" HOOP_SECURITY=none "$guest"
    done
    meet 'without security, where no variable says that there is one host only: on loopback' n

    chmod 644 runtime/hoop.secret
    for r in 0 1 2; do torch b $r "$guest"; done
    refused 'a secret that others can read' 'runtime/hoop.secret' b
    rm -f runtime/hoop.secret
    for r in 0 1; do torch q $r HOOP_BOOTSTRAP_TIMEOUT_MS=15000 "$guest" again; done
    told() { [ "$(cat q0 q1 | grep -c '^guest: .*rank 2 of 3 did not join')" -ge 2 ]; }
    ok 'ranks of which one is late are told' await told || diag "$(cat q0 q1)"
    torch q 2 "$guest"
    wait_for 60 ended q0 q1 q2
    is "$(good)" "$(rights q0 q1 q2)" 'and meet it when they try again' || diag "$(cat q0 q1 q2)"
    mkfifo hold
    for r in 0 1 2; do
        (
            env RANK=$r WORLD_SIZE=3 LOCAL_WORLD_SIZE=3 MASTER_ADDR=localhost MASTER_PORT=$port \
                TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=0 "$guest" hold <hold >"old$r" 2>&1
            echo $? >"old$r.status"
        ) &
        tap_started="$tap_started $!"
    done
    exec 3>hold
    up() { [ "$(cat old0 old1 old2 2>/dev/null | grep -c '^up$')" = 3 ]; }
    ok 'a job that goes on' wait_for 60 up
    for r in 2 1 0; do torch c $r TORCHELASTIC_RESTART_COUNT=1 "$guest"; done
    meet 'the ranks of a restart on the same port do not meet it' c
    for r in 0 1 2; do torch d $r TORCHELASTIC_RUN_ID=other "$guest"; torch e $r TORCHELASTIC_RUN_ID=more "$guest"; done
    meet 'nor do those of two other jobs at once' d
    meet 'which do not meet each other either' e
    exec 3>&-
    wait_for 30 ended old0 old1 old2
    is '0 0 0 ' "$(statuses old0 old1 old2)" 'the first job ends well'
}
scene torchrun torchrun

# pytorch NAME RANK ...: as a PyTorchJob of Kubernetes starts it, on several hosts.
pytorch()
{
    name=$1 r=$2
    shift 2
    process "$name$r" env RANK="$r" WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" "$@"
}

several_hosts()
{
    user
    for r in 0 1 2; do pytorch f $r "$guest"; done
    refused 'several hosts, and no secret' 'hoop-rendezvous --new-secret.* see hoop_launch\(7\)' f
    is 0 "$("$server" --new-secret >said; echo $?)" 'the user makes one'
    is 600 "$(stat -c %a home/.config/hoop/secret)" 'of mode 0600'
    is 700 "$(stat -c %a home/.config/hoop)" 'in a folder of mode 0700'
    cp home/.config/hoop/secret before
    is 2 "$("$server" --new-secret 2>said; echo $?)" 'a second one is not made'
    ok 'and the first one stays' cmp -s before home/.config/hoop/secret
    for r in 2 0 1; do pytorch g $r "$guest"; done
    meet 'several hosts, and the secret of the user' g
    "$server" --new-secret other
    start "$server" --port $((port + 1)) --secret-file other >lines 2>&1
    await grep -q 'listening on' lines
    for r in 1 2 0; do pytorch h $r HOOP_SECRET_FILE="$shared/secret" "$guest"; done
    meet "another server has the first port" h
    for r in 1 2; do pytorch i $r HOOP_BOOTSTRAP_TIMEOUT_MS=12000 "$guest"; done
    process i0 sh -c 'echo "guest: no server of this job"; exit 1'
    refused 'rank 0 does not come' "no server of this job" i
    stop "$started"
}
scene several_hosts several_hosts

nobody_serves()
{
    user
    "$server" --new-secret >said
    for r in 1 2; do pytorch j $r HOOP_BOOTSTRAP_TIMEOUT_MS=12000 "$guest"; done
    wait_for 60 ended j1 j2
    is 1 "$(grep -l 'WARN waiting for the server of rank 0 at 127.0.0.1, ports' j1 j2 | wc -l | tr -d ' ')" 'one rank says it after 5 s'
    like "$((port + 1)) to $((port + 16)) within the bring-up time-out: is rank 0 there" "$(cat j2)" 'and each in the end'
}
scene nobody_serves nobody_serves

stranger()
{
    user
    "$server" --new-secret >said
    "$server" --new-secret other
    pytorch p 0 HOOP_BOOTSTRAP_TIMEOUT_MS=12000 "$guest"
    pytorch p 1 HOOP_BOOTSTRAP_TIMEOUT_MS=60000 "$guest" # in which it hears of what the server of rank 0 has seen
    pytorch p 2 HOOP_BOOTSTRAP_TIMEOUT_MS=12000 HOOP_SECRET_FILE="$tmp/other" "$guest"
    ok 'another secret on one rank' await grep -q 'WARN closed 127.0.0.1:.*: its secret is not this job' p0
    refused 'all hear of it' 'rank 2 of 3 did not join .*; a process at 127.0.0.1:[0-9]* has another secret|at port [0-9]* something else answers: another program, a proxy with nothing behind it, or a job with another secret' p
}
scene stranger stranger

# --- srun, Kubernetes, and settings ----------------------------------------------------------------------------------

# slurm NAME RANK ...: as a plain srun starts it.
slurm()
{
    name=$1 r=$2
    shift 2
    process "$name$r" env SLURM_PROCID="$r" SLURM_STEP_NUM_TASKS=3 SLURM_STEP_NUM_NODES=2 \
        SLURM_STEP_NODELIST='127.0.0.[1-2]' SLURM_JOB_ID=$$ SLURM_STEP_ID=0 "$@"
}
settings()
{
    user
    "$server" --new-secret >said
    for r in 1 2 0; do slurm k $r "$guest"; done
    meet 'srun without a channel' k
    is 'hello hello' "$(SLURM_PROCID=0 SLURM_JOB_ID=$$ "$hooprun" -n 2 echo hello 2>said | xargs)" \
        'hooprun works in a batch script of Slurm'
    like 'hooprun: torchrun has started hooprun 2 times' "$(RANK=0 WORLD_SIZE=2 "$hooprun" -n 2 echo hello 2>&1)" \
        'and not as one of two processes'
    for r in 0 1 2; do slurm l $r HOOP_SIZE=2 "$guest"; done
    refused 'srun, and another HOOP_SIZE' 'but HOOP_SIZE is 2: .*hoop_launch\(7\)' l
    for r in 0 1 2; do process "m$r" env JOB_COMPLETION_INDEX=$r HOOP_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "$guest"; done
    meet 'an indexed Job of Kubernetes' m
    for r in 0 1 2; do process "n$r" env JOB_COMPLETION_INDEX=$r MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "$guest"; done
    refused 'and without HOOP_SIZE' 'set HOOP_SIZE' n
    start "$server" --secret-file "$shared/secret" >lines 2>&1
    await grep -q 'listening on' lines
    address=$(sed -n 's/^hoop-rendezvous: listening on //p' lines)
    for r in 0 1 2; do slurm o $r HOOP_RENDEZVOUS="$address" HOOP_SECRET_FILE="$shared/secret" "$guest"; done
    wait_for 60 ended o0 o1 o2
    is "$(good)" "$(rights o0 o1 o2)" 'HOOP_RENDEZVOUS wins, and srun gives the ranks' || diag "$(cat o0 o1 o2)"
    is 3 "$(cat o0 o1 o2 | grep -c ', 0 more threads, 6 more sockets')" 'no rank serves then'
}
scene settings settings
scenes_end
done_testing
