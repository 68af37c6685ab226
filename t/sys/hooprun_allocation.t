#!/bin/sh
# SPDX-License-Identifier: MIT
# hooprun inside a job of a batch system, by its variables; small scripts stand in for srun, ssh and flux.
# time limit: 120
. "$abs_top_srcdir/t/tap/tap.sh"
hooprun=$abs_top_builddir/bin/hooprun
unset HOOP_HOSTFILE HOOP_RSH HOOP_RANK SSH_CONNECTION SLURM_JOB_ID SLURM_JOB_NODELIST \
    SLURM_TASKS_PER_NODE SLURM_JOB_CPUS_PER_NODE SLURM_STEP_NUM_TASKS SLURM_EXPORT_ENV \
    SLURM_CPUS_PER_TASK SRUN_CPUS_PER_TASK SLURM_GPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_LABELIO \
    SLURM_NTASKS_PER_GPU SLURM_NTASKS_PER_TRES SLURM_GPU_BIND SRUN_EXPORT_ENV PBS_NODEFILE LSB_DJOB_HOSTFILE LSB_MCPU_HOSTS \
    OAR_NODEFILE OAR_NODE_FILE FLUX_URI FLUX_JOB_ID PBS_JOBID LSB_JOBID OAR_JOB_ID
HOOP_SOCKET_IFNAME=127.0.0.0/8 # all hosts are this machine
export HOOP_SOCKET_IFNAME
plan_lazy
cd "$tmp" || bail "no $tmp"
mkdir bin
PATH=$PWD/bin:$PATH

# A remote shell that runs the command here, and says in $BY which one it was and for which host.
cat >bin/ssh <<'END'
#!/bin/sh
host=$1
shift
BY=ssh:$host exec "$@"
END
# It takes what srun reads from its environment for each task, and gives the command what --export says.
cat >bin/srun <<'END'
#!/bin/sh
[ -z "$SLURM_CPUS_PER_TASK$SRUN_CPUS_PER_TASK$SLURM_GPUS_PER_TASK$SLURM_TRES_PER_TASK$SLURM_LABELIO" ] || exit 1
while [ "$1" != --nodelist ]; do
    case $1 in
    --export=ALL,*)
        IFS=,
        for word in ${1#--export=ALL,}; do export "$word"; done
        ;;
    esac
    shift
done
host=$2
shift 2
BY=srun:$host exec "$@"
END
cat >bin/flux <<'END'
#!/bin/sh
case "$*" in
hostlist) echo 'fl[1-2]' ;;
'resource list -n -s all -o {ncores}') echo 6 ;;
*) exit 1 ;;
esac
END
chmod +x bin/*

run()
{
    timeout 60 "$hooprun" "$@" >out 2>err </dev/null
    status=$?
    out=$(sort out | tr '\n' ,) err=$(cat err)
}
who='echo $HOOP_RANK $BY $HOOP_LOCAL_SIZE'

export SLURM_JOB_ID=7 SLURM_JOB_NODELIST='node[1-2]' SLURM_TASKS_PER_NODE='2,1'
run sh -c "$who"
is '0 srun:node1 2,1 srun:node1 2,2 srun:node2 1,' "$out" 'in a job of Slurm: all of it, by srun'
is 'hooprun: 3 ranks on 2 hosts of Slurm job 7 (node1, node2), by srun; -n and -H choose fewer' "$err" 'in one line'
run -n 2 sh -c "$who"
is '0 srun:node1 2,1 srun:node1 2,' "$out" '-n takes fewer'
run -H node2 sh -c "$who"
is '0 srun:node2 1,' "$out" '-H takes some of the hosts, with their slots'
is '' "$err" 'and there is nothing to say'
run -n 4 true
is 2 "$status" 'more ranks than slots'
is 'hooprun: 4 ranks do not fit: Slurm job 7 has 3 slots on 2 hosts; ask it for more tasks, or write where more ranks may run: -H node1:N' \
    "$err" 'is an error that names the job'
run -H node1:4 sh -c 'echo $BY'
is 'srun:node1,srun:node1,srun:node1,srun:node1,' "$out" 'unless the user writes the slots'
run -H node9 true
is 'hooprun: node9 is none of the hosts of Slurm job 7; list hosts of that job, or add --rsh ssh to reach any host' \
    "$err" 'a host elsewhere'
run --rsh ssh -H node9 sh -c "$who"
is '0 ssh:node9 1,' "$out" 'is reached with a remote shell that the user names'
run --rsh ssh sh -c "$who"
is '0 ssh:node1 2,1 ssh:node1 2,2 ssh:node2 1,' "$out" 'which also reaches the hosts of the job'
HOOP_RSH=ssh run -n 1 sh -c "$who"
is '0 ssh:node1 1,' "$out" 'also by HOOP_RSH'
printf 'node2 slots=2\n' >hosts
HOOP_HOSTFILE=hosts run sh -c "$who"
is '0 srun:node2 2,1 srun:node2 2,' "$out" 'HOOP_HOSTFILE lists hosts as -H does'
SLURM_STEP_NUM_TASKS=8 run true
is 'hooprun: srun has started hooprun 8 times, and each would start all ranks; start hooprun once, without srun, or start the program itself with srun' \
    "$err" 'srun hooprun is a mistake'
run --dry-run true
like 'node2 +rank 2, slots 1, by: srun .*--overlap .*--nodelist node2 [^ ]*hoop-launch --agent' "$out" '--dry-run shows the step'
SLURM_CPUS_PER_TASK=8 SRUN_CPUS_PER_TASK=8 SLURM_TRES_PER_TASK=cpu=8 SLURM_LABELIO=1 \
    run sh -c 'echo $SLURM_CPUS_PER_TASK $SRUN_CPUS_PER_TASK $SLURM_TRES_PER_TASK $BY'
is '8 8 cpu=8 srun:node1,8 8 cpu=8 srun:node1,8 8 cpu=8 srun:node2,' "$out" \
    'what Slurm gives to each task is not for the agent, but the ranks know it'
like 'by srun; -n and -H' "$err" '... and it is still srun'
run sh -c 'test $HOOP_RANK != 2 || exit 5; sleep 30'
is 5 "$status" 'the exit status of a rank'
like 'rank 2 \(node2, pid [0-9]+, sh\) exited with status 5' "$err" 'and its host'
run -n 1 "$hooprun" -n 1 sh -c 'echo one'
is 'one,' "$out" 'a rank that starts hooprun gets this machine'
unset SLURM_JOB_ID SLURM_JOB_NODELIST SLURM_TASKS_PER_NODE

printf 'p1\np1\np2\n' >nodes
PBS_JOBID=9.head PBS_NODEFILE=nodes run sh -c "$who"
is '0 ssh:p1 2,1 ssh:p1 2,2 ssh:p2 1,' "$out" 'PBS: the file names a host for each slot'
is 'hooprun: 3 ranks on 2 hosts of PBS job 9.head (p1, p2), by ssh; -n and -H choose fewer' "$err" 'and it says so'
PBS_JOBID=9.head PBS_NODEFILE=nodes run -N 2 true
is 'hooprun: -N 2 puts 2 ranks on p2, which has 1 slot; write a smaller -N or slots=2' "$err" 'more ranks on a host than its slots'
PBS_JOBID=9.head run -n 2 sh -c "$who"
is '0 2,1 2,' "$out" 'PBS without its file: here'
is 'hooprun: this is PBS job 9.head, but PBS_NODEFILE is not set, so all ranks run on this machine; write the hosts: -H node1:4,node2:4, or --hostfile FILE; -H localhost means this machine only' \
    "$err" 'and it says so, and how to write the hosts'
PBS_JOBID=9.head run -H localhost true
is '' "$err" 'but not where the user has written them'
PBS_JOBID=9.head PBS_NODEFILE=missing run true
is 'hooprun: PBS_NODEFILE: cannot open the hostfile missing: No such file or directory' "$err" 'an error names the variable'
LSB_JOBID=4 LSB_MCPU_HOSTS='l1 1 l2 2' run sh -c "$who"
is '0 ssh:l1 1,1 ssh:l2 2,2 ssh:l2 2,' "$out" 'LSF'
OAR_JOB_ID=4 OAR_NODEFILE=nodes run -N 1 sh -c "$who"
is '0 ssh:p1 1,1 ssh:p2 1,' "$out" 'OAR, a rank on each host'
FLUX_URI=local:///run/flux run sh -c "$who"
is '0 ssh:fl1 3,1 ssh:fl1 3,2 ssh:fl1 3,3 ssh:fl2 3,4 ssh:fl2 3,5 ssh:fl2 3,' "$out" 'Flux, by its commands'
rm bin/flux
FLUX_URI=local:///run/flux run true
is 'hooprun: FLUX_URI is local:///run/flux, but "flux hostlist" does not tell the hosts there; write them: -H node1:4,node2:4 --rsh ssh' \
    "$err" 'Flux without its commands'
done_testing
