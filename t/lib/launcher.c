/* SPDX-License-Identifier: MIT */
/*
 * launcher: which launcher started a process, by its variables: rank, size, and how the ranks meet; what is missing is
 * said in one sentence.
 */
#include "lib/launcher.h"

#include "t/tap/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char variables[600];

/* The value of a variable in "NAME=value NAME=value". */
static const char *
look_up(const char *name)
{
    static char value[300];
    size_t n = strlen(name);
    for (const char *at = variables; *at; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        if (length > n && strncmp(at, name, n) == 0 && at[n] == '=') {
            snprintf(value, sizeof(value), "%.*s", (int)(length - n - 1), at + n + 1);
            return value;
        }
        at += length;
    }
    return NULL;
}

static hoop_result
find(hp_launcher *l, int size, const char *text, hoop_error *error)
{
    hp_launcher_settings settings = {size, -1, "hoop"};
    snprintf(variables, sizeof(variables), "%s", text);
    *error = (hoop_error){.size = sizeof(*error)};
    return hp_launcher_find(l, &settings, look_up, error);
}

static const char *const ways[] = {"none", "pmi", "pmix", "port"};

/* "srun 3/4 port one" is who, rank/size, the way, and whether all are on one host. */
static void
found(const char *text, const char *wanted)
{
    hp_launcher l;
    hoop_error error;
    char seen[200];
    hoop_result result = find(&l, 0, text, &error);
    snprintf(seen, sizeof(seen), "%s %d/%d %s%s", l.name ? l.name : "-", l.rank, l.size, ways[l.way],
             l.one_host ? " one" : "");
    is_string(wanted, result == HOOP_SUCCESS ? seen : error.text, "%s", text);
}

static void
refused(int size, const char *text, const char *part)
{
    static const char end[] = "; hoop_launch(7) has the steps";
    hp_launcher l;
    hoop_error error;
    hoop_result result = find(&l, size, text, &error);
    if (result == HOOP_SUCCESS && l.size != 1 && l.way == HP_BY_NONE)
        result = hp_launcher_refuse(&l, &error);
    size_t n = strlen(error.text);
    ok(result == HOOP_ERR_RENDEZVOUS && strstr(error.text, part) && n > strlen(end) &&
           strcmp(error.text + n - strlen(end), end) == 0,
       "%s: %s", text, error.text);
}

static void
test_found(void)
{
    found("", "- 0/1 none");
    found("PMI_RANK=2 PMI_SIZE=4 PMI_FD=7 MPI_LOCALNRANKS=4", "mpiexec (PMI) 2/4 pmi one");
    found("PMI_RANK=2 PMI_SIZE=4 PMI_FD=7 MPI_LOCALNRANKS=2", "mpiexec (PMI) 2/4 pmi");
    found("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=9 PMIX_RANK=1",
          "mpirun (Open MPI) 1/2 pmix one");
    found("PMIX_NAMESPACE=9 PMIX_RANK=1", "a launcher with PMIx 1/0 pmix");
    found("SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=4 SLURM_STEP_NUM_NODES=2 PMI_RANK=3 PMI_SIZE=4 PMI_FD=11",
          "mpiexec (PMI) 3/4 pmi");
    found("SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=4 SLURM_STEP_NUM_NODES=2 PMIX_NAMESPACE=s PMIX_RANK=3", "srun 3/4 pmix");
    found("SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=4 SLURM_STEP_NUM_NODES=2 SLURM_STEP_NODELIST=n[1-2] SLURM_JOB_ID=7",
          "srun 3/4 port");
    found("SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=4 SLURM_STEP_NUM_NODES=1 SLURM_JOB_ID=7", "srun 3/4 port one");
    found("SLURM_PROCID=0 SLURM_JOB_ID=7", "- 0/1 none");
    found("FLUX_TASK_RANK=1 FLUX_JOB_SIZE=2 FLUX_JOB_NNODES=2 PMI_FD=5 PMI_RANK=1 PMI_SIZE=2", "flux run 1/2 pmi");
    found("PALS_RANKID=1 PMI_RANK=1 PMI_SIZE=2 PALS_APID=4 MASTER_ADDR=x1", "mpiexec (PMI) 1/2 port");
    found("PALS_RANKID=1 PMIX_RANK=1 PMIX_NAMESPACE=4", "mpiexec (PALS) 1/0 pmix");
    found("RANK=1 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=29500 TORCHELASTIC_RUN_ID=none",
          "torchrun 1/2 port one");
    found("RANK=1 WORLD_SIZE=2 MASTER_ADDR=job-master-0 MASTER_PORT=23456", "torchrun 1/2 port");
    found("RANK=0 WORLD_SIZE=1 TORCHELASTIC_RUN_ID=none SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2", "torchrun 0/1 none");
    found("RANK=1 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 TORCHELASTIC_RUN_ID=7 PMI_RANK=1 PMI_SIZE=2 PMI_FD=3",
          "torchrun 1/2 port one");
    found("SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 PMIX_NAMESPACE=9 "
          "PMIX_RANK=1",
          "mpirun (Open MPI) 1/2 pmix");
}

static void
test_refused(void)
{
    hp_launcher l;
    hoop_error error;
    refused(0, "WORLD_SIZE=2", "torchrun started 2 processes (WORLD_SIZE), but RANK is not set");
    refused(0, "WORLD_SIZE=2 RANK=x", "but RANK is no number");
    refused(0, "WORLD_SIZE=2 RANK=2", "but RANK=2 is not below that");
    refused(0, "RANK=1", "torchrun started this process (RANK), and perhaps others");
    refused(0, "RANK=0 WORLD_SIZE=0", "torchrun started this process (RANK), and perhaps others");
    refused(0, "PMI_RANK=1 PMI_SIZE=2", "MASTER_ADDR, the host of rank 0, is not set");
    refused(0, "PMI_RANK=1 PMI_SIZE=2 MASTER_ADDR=h", "MASTER_PORT, which must differ");
    refused(0, "PMI_RANK=1 PMI_SIZE=2 PMI_FD=x", "MASTER_ADDR");
    refused(0, "SLURM_PROCID=1 SLURM_JOB_ID=7",
            "srun started this process (SLURM_PROCID), and perhaps others: set HOOP_SIZE");
    refused(0, "SLURM_PROCID=x", "srun started this process (SLURM_PROCID)");
    refused(0, "PMIX_RANK=0",
            "a launcher with PMIx started this process (PMIX_RANK), and perhaps others: set HOOP_SIZE");
    refused(0, "JOB_COMPLETION_INDEX=2 MASTER_ADDR=a MASTER_PORT=5", "set HOOP_SIZE");
    refused(2, "JOB_COMPLETION_INDEX=2 MASTER_ADDR=a MASTER_PORT=5", "JOB_COMPLETION_INDEX=2 is not below that");
    refused(3, "WORLD_SIZE=2 RANK=0", "torchrun started 2 processes (WORLD_SIZE), but HOOP_SIZE is 3");
    refused(1, "WORLD_SIZE=2 RANK=0", "but HOOP_SIZE is 1 (for a ring of one in each process set HOOP_RANK=0, too): ");
    refused(0, "SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_JOB_ID=3", "MASTER_ADDR");
    ok(find(&l, 4, "JOB_COMPLETION_INDEX=2 MASTER_ADDR=a MASTER_PORT=5", &error) == HOOP_SUCCESS && l.size == 4 &&
           l.rank == 2 && l.way == HP_BY_PORT && strcmp(l.host, "a") == 0 && l.first == 6 && l.last == 21,
       "an indexed Job of Kubernetes, with HOOP_SIZE");
    ok(find(&l, 1, "PMIX_RANK=0", &error) == HOOP_SUCCESS && l.size == 1, "HOOP_SIZE=1 is enough for one process");
}

/* The ports of a start; 0: refused. */
static int
port_of(const char *text)
{
    hp_launcher l;
    hoop_error error;
    return find(&l, 0, text, &error) == HOOP_SUCCESS && l.way == HP_BY_PORT ? l.first : 0;
}

static void
test_ports(void)
{
    static const char torch[] = "RANK=1 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 TORCHELASTIC_RUN_ID=none MASTER_PORT=";
    static const char slurm[] = "SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NUM_NODES=1 SLURM_JOB_ID=";
    char text[300], before[HP_LAUNCHER_JOB];
    hp_launcher l;
    hoop_error error;
    int inside = 1, differ = 0, last = 0;
    for (int job = 1; job < 200; job++) {
        snprintf(text, sizeof(text), "%s%d SLURM_STEP_ID=%d", slurm, job, job % 7);
        int port = port_of(text);
        inside &= case_ok(port >= 61440 && port + HP_LAUNCHER_PORTS - 1 <= 65535, "%s: port %d", text, port);
        differ += port != last;
        last = port;
    }
    ok(inside && differ > 190, "ports that follow from a job are above those of clients, and differ from job to job");
    snprintf(text, sizeof(text), "%s29500", torch);
    is_int(29501, port_of(text), "the ports after MASTER_PORT");
    snprintf(text, sizeof(text), "%s65535", torch);
    ok(port_of(text) >= 61440, "others where there are none after it");
    snprintf(text, sizeof(text), "%s29500", torch);
    find(&l, 0, text, &error);
    snprintf(before, sizeof(before), "%s", l.job);
    snprintf(text, sizeof(text), "%s29500 TORCHELASTIC_RESTART_COUNT=1", torch);
    find(&l, 0, text, &error);
    ok(strcmp(before, l.job) != 0, "a restart on the same port is another start: %s", l.job);
}

static void
test_hosts(void)
{
    static const char *const hosts[][2] = {{"red", "red"},
                                           {"red,blue", "red"},
                                           {"node[03-07,9],other", "node03"},
                                           {"node[9,11-12]", "node9"},
                                           {"r[1-2]n[3-4]-x,y", "r1n3-x"},
                                           {"a[5]", "a5"},
                                           {"a[5", ""},
                                           {"", ""},
                                           {",b", ""}};
    char long_name[HP_LAUNCHER_HOST + 10], out[HP_LAUNCHER_HOST];
    for (size_t i = 0; i < sizeof(hosts) / sizeof(*hosts); i++) {
        int known = hp_launcher_first_host(hosts[i][0], out);
        is_string(hosts[i][1], known ? out : "", "the first host of \"%s\"", hosts[i][0]);
    }
    memset(long_name, 'a', sizeof(long_name));
    long_name[sizeof(long_name) - 1] = 0;
    is_int(0, hp_launcher_first_host(long_name, out), "a name that is too long");
}

int
main(void)
{
    plan_lazy();
    test_found();
    test_refused();
    test_ports();
    test_hosts();
    return tap_failures() != 0;
}
