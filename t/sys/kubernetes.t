#!/bin/sh
# SPDX-License-Identifier: MIT
# kubernetes.t: the manifests in examples/. Their parts that Kubernetes itself defines fit its schemas; names, numbers and
# paths in them agree; and processes with the variables that they set make a ring. A cluster is not needed. The validator
# with the schemas, kubernetes-validate, is taken from PATH, or, with HOOP_TEST_DOWNLOAD, from the Python package index:
# 117 MB, which stay in the cache folder.
# time limit: 120
. "$abs_top_srcdir/t/tap/tap.sh"

guest=$abs_top_builddir/t/sys/guest
job=$abs_top_srcdir/examples/indexed-job.yaml torch=$abs_top_srcdir/examples/pytorchjob.yaml
for name in $(env | sed -n 's/^\(HOOP_[A-Z_]*\|MASTER_[A-Z]*\|[A-Z]*RANK\|[A-Z_]*SIZE\)=.*/\1/p' | grep -v '^HOOP_TEST_'); do
    unset "$name"
done
cd "$tmp" || bail 'no scratch folder'
plan_lazy

# --- the schemas -----------------------------------------------------------------------------------------------------

find_validator()
{
    validate=$(command -v kubernetes-validate) && return 0
    [ -n "${HOOP_TEST_DOWNLOAD:-}" ] || return 1
    folder=${XDG_CACHE_HOME:-$HOME/.cache}/hoop-tests/kubernetes
    validate=$folder/bin/kubernetes-validate
    mkdir -p "$folder" && exec 9>"$folder.lock" && flock 9 || return 1 # this test in another tree may be making it
    "$validate" --help >/dev/null 2>&1 && [ -e "$folder/complete" ] || { rm -rf "$folder"; python3 -m venv "$folder" &&
        timeout 60 "$folder/bin/pip" install -q kubernetes-validate && : >"$folder/complete"; } >installed 2>&1
    found=$?
    exec 9>&-
    return $found
}

# The operator's own schema is not in Kubernetes; the pods that it starts are.
pod_of()
{
    printf 'apiVersion: v1\nkind: Pod\nmetadata:\n  name: rank\n'
    awk '/template: &rank/ { inside = 1; next } /^    [A-Z]/ { inside = 0 } inside { print substr($0, 9) }' "$1"
}

if find_validator; then
    pod_of "$torch" >pod.yaml
    ok 'the indexed Job and its Service fit the schemas of Kubernetes' "$validate" --strict "$job"
    ok 'so do the pods of the PyTorchJob' "$validate" --strict pod.yaml
    sed 's/subdomain:/subdomin:/' "$job" >wrong.yaml
    nok 'a word that the schema does not know is found' "$validate" --strict wrong.yaml
else
    skip 3 'no kubernetes-validate, and HOOP_TEST_DOWNLOAD is not set'
fi

# --- what agrees with what -------------------------------------------------------------------------------------------

# value FILE KEY: of the first line "KEY: VALUE"
value() { sed -n "s/^ *$2: *//p" "$1" | head -n 1 | tr -d '"'; }
# variable FILE NAME: of an entry of env
variable() { sed -n "/- name: $2\$/{n;s/^ *value: *//p}" "$1" | tr -d '"'; }

size=$(variable "$job" HOOP_SIZE)
name=$(sed -n '/^kind: Job$/,$p' "$job" | sed -n 's/^  name: //p' | head -n 1)
service=$(sed -n '/^kind: Service$/,/^---$/p' "$job" | sed -n 's/^  name: //p' | head -n 1)
is "$size $size Indexed" "$(value "$job" completions) $(value "$job" parallelism) $(value "$job" completionMode)" \
    'all ranks run at once, each with its index'
is "$name-0.$service" "$(variable "$job" MASTER_ADDR)" "rank 0's host has the names of the Job and the Service"
is "$service $name" "$(value "$job" subdomain) $(value "$job" job-name)" 'the Service is that of the pods'
is 'None true' "$(value "$job" clusterIP) $(value "$job" publishNotReadyAddresses)" 'it gives each pod a name at once'
for file in "$job" "$torch"; do
    is "$(variable "$file" HOOP_SECRET_FILE) secret 0400" \
        "$(value "$file" mountPath) $(value "$file" subPath) $(value "$file" defaultMode)" \
        "${file##*/}: the secret is a file of its own, which only its owner reads"
done

# --- rings -----------------------------------------------------------------------------------------------------------

mkdir home
export HOME="$tmp/home" HOOP_SOCKET_IFNAME=lo HOOP_CONF_FILE=
export HOOP_BOOTSTRAP_TIMEOUT_MS=$((30000 * ${HOOP_TEST_TIME_FACTOR:-1}))
"$abs_top_builddir/bin/hoop-rendezvous" --new-secret secret
own_ports 17

# ring TEXT SIZE VARIABLE...: `R` in a variable stands for the rank, as the cluster sets it
ring()
{
    text=$1 n=$2 pids=
    shift 2
    for r in $(seq 0 $((n - 1))); do
        start env HOOP_SECRET_FILE="$tmp/secret" MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
            $(printf '%s\n' "$@" | sed "s/=R\$/=$r/") "$guest" >"said$r" 2>&1
        pids="$pids $started"
    done
    for pid in $pids; do wait "$pid"; done
    is "$n" "$(cat said* | grep -c "^rank [0-9]* of $n: right")" "$text" || diag "$(cat said*)"
    rm -f said*
}
ring 'the variables of the indexed Job make a ring' "$size" HOOP_SIZE="$size" JOB_COMPLETION_INDEX=R
workers=$(sed -n '/Worker:/,$s/^ *replicas: //p' "$torch")
ring 'so do those of the PyTorchJob' $((workers + 1)) WORLD_SIZE=$((workers + 1)) RANK=R
done_testing
