#!/bin/sh
# SPDX-License-Identifier: MIT
# slurm.t: programs that srun starts: with PMI-1 (--mpi=pmi2), with PMIx, and without either. Slurm itself comes from
# Debian's packages, unpacked into the scratch folder: one controller and two nodes on this machine, on loopback, at
# ports of their own, without munge. Nothing is installed, and all daemons end with the test. It downloads 4 MB, so it
# runs only with HOOP_TEST_DOWNLOAD, which quickstart check all sets.
# time limit: 400
. "$abs_top_srcdir/t/tap/tap.sh"

guest=$abs_top_builddir/t/sys/guest
packages='slurmd slurmctld slurm-client slurm-wlm-basic-plugins liblua5.1-0 libmunge2 libhwloc15'
for name in $(env | sed -n 's/^\(HOOP_[A-Z_]*\|SLURM[A-Z_]*\|PMI[A-Z_]*\)=.*/\1/p'); do
    case $name in
    HOOP_TEST_*) ;;
    *) unset "$name" ;;
    esac
done
[ -n "${HOOP_TEST_DOWNLOAD:-}" ] || skip_all 'HOOP_TEST_DOWNLOAD is not set, and this test downloads Slurm'
[ "$(id -u)" = 0 ] || skip_all 'the daemons of Slurm want to be root'
command -v apt-get >/dev/null && command -v dpkg >/dev/null || skip_all 'no apt-get: Slurm comes from Debian packages'
case ${HOOP_TEST_SANITIZE:-no} in
no) ;;
*) skip_all 'the tree without sanitizers runs this' ;;
esac
cd "$tmp" || bail 'no scratch folder'
mkdir debs root state home
# apt-get may drop its rights for a download, and then cannot write here
(cd debs && timeout 60 apt-get -q -o APT::Sandbox::User=root download $packages) >downloaded 2>&1 ||
    skip_all "Slurm's packages cannot be downloaded: $(tail -n 1 downloaded)"
for deb in debs/*.deb; do dpkg -x "$deb" root; done
plan 17

# --- a cluster -------------------------------------------------------------------------------------------------------

here=$(hostname)
own_ports 17
lib=$(dirname "$(find "$tmp/root" -name slurm-wlm -type d -path '*/lib/*' | head -n 1)")
export LD_LIBRARY_PATH="$lib/slurm-wlm:$lib" SLURM_CONF="$tmp/slurm.conf" HOME="$tmp/home"
export HOOP_SOCKET_IFNAME=lo HOOP_BOOTSTRAP_TIMEOUT_MS=$((30000 * ${HOOP_TEST_TIME_FACTOR:-1})) HOOP_CONF_FILE=
cat >slurm.conf <<END
ClusterName=box
SlurmctldHost=$here(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
StateSaveLocation=$tmp/state
SlurmdSpoolDir=$tmp/spool.%n
SlurmctldPidFile=$tmp/slurmctld.pid
SlurmdPidFile=$tmp/slurmd.%n.pid
SlurmctldPort=$port
SlurmdParameters=config_overrides
PluginDir=$lib/slurm-wlm
NodeName=red NodeHostname=$here NodeAddr=127.0.0.1 Port=$((port + 1)) CPUs=8 CoresPerSocket=8
NodeName=blue NodeHostname=$here NodeAddr=127.0.0.1 Port=$((port + 2)) CPUs=8 CoresPerSocket=8
PartitionName=all Nodes=ALL Default=YES State=UP
END
start root/usr/sbin/slurmctld-wlm -i -D >controller 2>&1
daemons=$started
for node in red blue; do
    start root/usr/sbin/slurmd-wlm -D -N $node -d "$tmp/root/usr/sbin/slurmstepd-wlm" >$node 2>&1
    daemons="$daemons $started"
done
two_nodes_idle() { [ "$(root/usr/bin/sinfo -h -t idle -o %D)" = 2 ]; }
ok 'a controller and two nodes' wait_for 30 two_nodes_idle || { tail -n 20 controller red blue | sed 's/^/# /'; bail 'no cluster'; }

# --- jobs ------------------------------------------------------------------------------------------------------------

srun() { timeout 60 root/usr/bin/srun -Q "$@" 2>&1 </dev/null; }
good() { for r in 0 1 2 3; do echo "rank $r of 4: right"; done; }
rights() { sed -n 's/^\(rank .*: right\),.*/\1/p' | sort; }

# job TEXT OPTION...: four ranks on two nodes
job()
{
    text=$1
    shift
    srun "$@" "$guest" >said
    is "$(good)" "$(rights <said)" "$text" || diag "$(cat said)"
}

job 'srun --mpi=pmi2: four ranks on two nodes' -N 2 -n 4 --mpi=pmi2
is 3 "$(grep -c 'rank [123] .*, 0 more threads, 6 more sockets' said)" 'one rank serves'
srun -N 2 -n 2 --mpi=none env HOOP_SOCKET_IFNAME=lo MASTER_ADDR=127.0.0.1 "$guest" >said
like 'hoop-rendezvous --new-secret' "$(cat said)" 'plain srun wants a secret' || diag "$(cat said)"
"$abs_top_builddir/bin/hoop-rendezvous" --new-secret >/dev/null
# the nodes red and blue are no hosts with addresses here
MASTER_ADDR=127.0.0.1 job 'plain srun, with the secret of the user' -N 2 -n 4 --mpi=none
MASTER_ADDR=127.0.0.1 job 'once more' -N 2 -n 4 --mpi=none
unset MASTER_ADDR
job 'plain srun on one node needs no address' -N 1 -n 4 --mpi=none
if ls /usr/lib/*/libpmix.so.2 >/dev/null 2>&1; then
    job 'srun --mpi=pmix on one node' -N 1 -n 4 --mpi=pmix
else
    skip 1 'no libpmix.so.2: install libpmix2'
fi
PATH=$tmp/root/usr/bin:$PATH # hooprun calls srun
timeout 60 salloc -Q -N 2 -n 6 "$abs_top_builddir/bin/hooprun" -n 4 "$guest" >said 2>err </dev/null
is "$(good)" "$(rights <said)" 'hooprun inside an allocation' || diag "$(cat said err)"
like '^hooprun: 4 ranks on [12] hosts? of Slurm job [0-9]+ \(.*\), by srun; -n and -H choose fewer$' "$(grep '^hooprun' err)" \
    'takes its hosts, and says so'
timeout 60 salloc -Q -N 2 -n 6 "$abs_top_builddir/bin/hooprun" -n 2 sh -c 'test $HOOP_RANK != 1 || exit 5; sleep 30' \
    >said 2>err </dev/null
is 5 $? 'a rank that fails there ends the job with its status'

# --- PyTorch -----------------------------------------------------------------------------------------------------------

. "$abs_top_srcdir/t/python/python.sh"
. "$abs_top_srcdir/t/python/torch.sh"
if torch=$(python_with torch); then
    install_package
    export PYTHONPATH="$tmp/site" PYTHONWARNINGS=ignore OMP_NUM_THREADS=1
    # red and blue have no addresses, so the ranks find the store at this one
    printf '#!/bin/sh\nMASTER_ADDR=127.0.0.1 exec %s %s/examples/torch_ddp.py\n' "$torch" "$abs_top_srcdir" >train
    chmod +x train
    timeout 120 salloc -Q -N 2 -n 4 "$abs_top_builddir/bin/hooprun" ./train >said 2>err </dev/null
    like 'step 50: mean squared error 0\.0' "$(cat said)" 'PyTorch in an allocation' || diag "$(cat said err)"
    # hoop_slurm(7), from its first command; the ranks wait at "hold", to be looked at
    mkdir -p page home/train/bin
    awk -v folder=page -f "$abs_top_srcdir/t/tools/blocks.awk" "$abs_top_srcdir/man/hoop_slurm.7" >list
    block() { sed "s/4711/$id/" "page/$(sed -n "s/^\([0-9]*\) $1.*/\1/p" list)"; }
    block file >train.sbatch
    cp "$abs_top_srcdir/examples/torch_ddp.py" .
    printf '#!/bin/sh\nwhile [ -e hold ]; do sleep 0.1; done\nMASTER_ADDR=127.0.0.1 exec %s "$@"\n' "$torch" >home/train/bin/python
    chmod +x home/train/bin/python
    echo "PATH=$tmp/home/train/bin:$abs_top_builddir/bin:\$PATH" >home/train/bin/activate
    submit() { block "$1" | sed 's/sbatch/sbatch --parsable/' | sh >id 2>&1; id=$(cat id); }
    touch hold
    submit run
    printed() { grep -q "$1" "slurm-$id.out" 2>/dev/null; }
    looked() { block look | sh >/dev/null 2>&1; printed '^hooprun: no rank is in a ring of hoop now'; }
    ok 'hoop_slurm(7): a batch job, and the command that looks at it' wait_for 60 looked || diag "$(cat "slurm-$id.out")"
    rm hold
    trained() { printed 'step 50: mean squared error 0\.0'; }
    ok '... and then it trains' wait_for 120 trained || diag "$(cat "slurm-$id.out")"
    ok '... after the line that the page shows' printed "^hooprun: 4 ranks on 2 hosts of Slurm job $id"
    (sed '/^exec/d' train.sbatch && block srun | sed 's/\$(hostname)/127.0.0.1/') >srun.sbatch
    id=$(sbatch --parsable srun.sbatch)
    ok '... as it does without hooprun' wait_for 120 trained || diag "$(cat "slurm-$id.out")"
    all_over() { [ -z "$(squeue -h)" ]; }
    wait_for 30 all_over # the daemons of the job's steps end with it
else
    skip 5 'no python with torch: quickstart check all runs this'
fi
for pid in $daemons; do stop "$pid"; done
ended() { for pid in $daemons; do gone "$pid" || return 1; done; }
ok 'the daemons end' ended
done_testing
