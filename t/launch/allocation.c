/* SPDX-License-Identifier: MIT */
/* The variables of each batch system become hosts and slots; what cannot be understood is an error. */
#include "launch/allocation.h"

#include "base/err.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const variables[] = {
    "SLURM_JOB_ID",
    "SLURM_JOB_NODELIST",
    "SLURM_TASKS_PER_NODE",
    "SLURM_JOB_CPUS_PER_NODE",
    "SLURM_STEP_NUM_TASKS",
    "PBS_JOBID",
    "PBS_NODEFILE",
    "LSB_JOBID",
    "LSB_DJOB_HOSTFILE",
    "LSB_MCPU_HOSTS",
    "OAR_JOB_ID",
    "OAR_NODEFILE",
    "OAR_NODE_FILE",
    "FLUX_JOB_ID",
    "FLUX_URI",
    "HOOP_RANK",
};

/* Sets "A=1;B=2", and nothing else of a batch system; FILE stands for the name of a file with three slots. */
static void
set_variables(const char *text)
{
    char line[512], path[400], *rest = line;
    snprintf(path, sizeof(path), "%s/hosts", tap_tmpdir());
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        unsetenv(variables[i]);
    snprintf(line, sizeof(line), "%s", text);
    for (char *word = strtok_r(rest, ";", &rest); word; word = strtok_r(NULL, ";", &rest)) {
        char *value = strchr(word, '=');
        *value++ = '\0';
        setenv(word, strcmp(value, "FILE") == 0 ? path : value, 1);
    }
}

static const char *
print(const hp_host_list *hosts)
{
    static char out[4096];
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < hosts->count; i++)
        used += (size_t)snprintf(out + used, sizeof(out) - used, "%s:%d ", hosts->entry[i].name,
                                 hosts->entry[i].slots + hosts->entry[i].mentions);
    return out;
}

static const struct {
    const char *set, *name, *hosts, *reach;
} good[] = {
    {"", "", "", NULL},
    {"SLURM_JOB_ID=7", "Slurm job 7", "", NULL},
    {"PBS_JOBID=9.head", "PBS job 9.head", "", NULL},
    {"PBS_JOBID=9.head;HOOP_RANK=0", "", "", NULL},
    {"PBS_JOBID=9.head;LSB_MCPU_HOSTS=x 9", "LSF allocation", "x:9 ", "ssh"},
    {"SLURM_JOB_ID=7;SLURM_JOB_NODELIST=node[1-2];SLURM_TASKS_PER_NODE=4(x2)", "Slurm job 7", "node1:4 node2:4 ",
     "srun"},
    {"SLURM_JOB_ID=7;SLURM_JOB_NODELIST=n[1-3],m;SLURM_TASKS_PER_NODE=4,2(x2),8", "Slurm job 7", "n1:4 n2:2 n3:2 m:8 ",
     "srun"},
    {"SLURM_JOB_ID=7;SLURM_JOB_NODELIST=n1;SLURM_JOB_CPUS_PER_NODE=16", "Slurm job 7", "n1:16 ", "srun"},
    {"SLURM_JOB_ID=7;SLURM_JOB_NODELIST=n1;SLURM_JOB_CPUS_PER_NODE=16;SLURM_TASKS_PER_NODE=2", "Slurm job 7", "n1:2 ",
     "srun"},
    {"SLURM_JOB_NODELIST=r[0-1]n[3,07-08]", "Slurm allocation", "r0n3:1 r0n07:1 r0n08:1 r1n3:1 r1n07:1 r1n08:1 ",
     "srun"},
    {"SLURM_JOB_ID=7;SLURM_JOB_NODELIST=n1;SLURM_TASKS_PER_NODE=2;SLURM_STEP_NUM_TASKS=1", "Slurm job 7", "n1:2 ",
     "srun"},
    {"PBS_JOBID=12.server;PBS_NODEFILE=FILE", "PBS job 12.server", "a:2 b:1 ", "ssh"},
    {"LSB_JOBID=3;LSB_DJOB_HOSTFILE=FILE;LSB_MCPU_HOSTS=x 9", "LSF job 3", "a:2 b:1 ", "ssh"},
    {"LSB_JOBID=3;LSB_MCPU_HOSTS=hosta 4  hostb 16 ", "LSF job 3", "hosta:4 hostb:16 ", "ssh"},
    {"OAR_JOB_ID=5;OAR_NODEFILE=FILE", "OAR job 5", "a:2 b:1 ", "ssh"},
    {"OAR_JOB_ID=5;OAR_NODE_FILE=FILE", "OAR job 5", "a:2 b:1 ", "ssh"},
    {"SLURM_JOB_ID=7;SLURM_JOB_NODELIST=n1;HOOP_RANK=0", "", "", NULL},
};

static const struct {
    const char *set, *error;
} bad[] = {
    {"SLURM_JOB_NODELIST=n[1-2];SLURM_TASKS_PER_NODE=4", "SLURM_TASKS_PER_NODE is \"4\", which does not fit"},
    {"SLURM_JOB_NODELIST=n[1-2];SLURM_TASKS_PER_NODE=4(x3)", "\"4(x3)\", which does not fit"},
    {"SLURM_JOB_NODELIST=n[1-2];SLURM_TASKS_PER_NODE=4(x2),1", "\"4(x2),1\", which does not fit"},
    {"SLURM_JOB_NODELIST=n[1-2];SLURM_TASKS_PER_NODE=4(x", "\"4(x\", which does not fit"},
    {"SLURM_JOB_NODELIST=n[1-2];SLURM_TASKS_PER_NODE=4(x)", "\"4(x)\", which does not fit"},
    {"SLURM_JOB_NODELIST=n[1-2];SLURM_TASKS_PER_NODE=4(y2)", "\"4(y2)\", which does not fit"},
    {"SLURM_JOB_NODELIST=n[1-2];SLURM_TASKS_PER_NODE=0(x2)", "\"0(x2)\", which does not fit"},
    {"SLURM_JOB_NODELIST=n[1-2];SLURM_TASKS_PER_NODE=many", "\"many\", which does not fit"},
    {"SLURM_JOB_NODELIST=n[1-2];SLURM_JOB_CPUS_PER_NODE=,", "SLURM_JOB_CPUS_PER_NODE is \",\", which does not fit"},
    {"SLURM_JOB_NODELIST=n[1-", "SLURM_JOB_NODELIST: word \"n[1-\" has a '[' that is not closed"},
    {"SLURM_JOB_NODELIST=n1;SLURM_STEP_NUM_TASKS=8", "srun has started hooprun 8 times"},
    {"PBS_NODEFILE=/nonexistent/nodes", "PBS_NODEFILE: cannot open the hostfile /nonexistent/nodes: No such file"},
    {"OAR_NODEFILE=/dev/null", "OAR_NODEFILE: /dev/null names no host"},
    {"LSB_MCPU_HOSTS=hosta four", "has no valid number of slots"},
};

static void
write_hosts(void)
{
    char path[400];
    snprintf(path, sizeof(path), "%s/hosts", tap_tmpdir());
    FILE *file = fopen(path, "w");
    fputs("a\na\nb\n", file);
    fclose(file);
}

static void
check_good(void)
{
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        hp_allocation allocation = {0};
        hoop_error error;
        hp_err_clear(&error);
        set_variables(good[i].set);
        is_int(HOOP_SUCCESS, hp_allocation_find(&allocation, &error), "\"%s\" %s", good[i].set, error.text);
        is_string(good[i].name, allocation.name, "is this job");
        is_string(good[i].hosts, print(&allocation.hosts), "with these hosts and slots");
        ok(good[i].reach ? strncmp(allocation.reach, good[i].reach, strlen(good[i].reach)) == 0 : !allocation.reach,
           "reached so");
        hp_allocation_free(&allocation);
    }
}

static void
check_bad(void)
{
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        hp_allocation allocation = {0};
        hoop_error error;
        hp_err_clear(&error);
        set_variables(bad[i].set);
        is_int(HOOP_ERR_INVALID_ARGUMENT, hp_allocation_find(&allocation, &error), "\"%s\" is an error", bad[i].set);
        ok(strstr(error.text, bad[i].error) != NULL, "that says so: %s", error.text);
        hp_allocation_free(&allocation);
    }
}

/* Hosts that the user lists in "Slurm job 7", which has node1 to node3 with 4 slots each. */
static void
check_narrow(void)
{
    static const char *const lists[][2] = {
        {"node2", "node2:4 "},       {"node3,node1", "node3:4 node1:4 "},   {"node1:2", "node1:2 "},
        {"node1:9", "node1:9 "},     {"node2.cluster", "node2.cluster:4 "}, {"me@node1", "me@node1:4 "},
        {"node1,node1", "node1:2 "}, {"localhost", "localhost:1 "},         {"node4", NULL},
        {"node1,other:2", NULL},
    };
    hp_allocation allocation = {0};
    hoop_error error;
    set_variables("SLURM_JOB_ID=7;SLURM_JOB_NODELIST=node[1-3];SLURM_TASKS_PER_NODE=4(x3)");
    is_int(HOOP_SUCCESS, hp_allocation_find(&allocation, &error), "an allocation of three hosts");
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        const char *list = lists[i][0], *wanted = lists[i][1];
        hp_host_list hosts = {0};
        hp_hostfile_parse(&hosts, "-H", 0, list, strlen(list), &error);
        hp_err_clear(&error);
        hoop_result result = hp_allocation_narrow(&allocation, &hosts, &error);
        is_int(wanted ? HOOP_SUCCESS : HOOP_ERR_INVALID_ARGUMENT, result, "-H %s %s", list, error.text);
        if (wanted)
            is_string(wanted, print(&hosts), "takes these slots");
        else
            ok(strstr(error.text, "is none of the hosts of Slurm job 7") != NULL, "and the job is named");
        hp_hostfile_free(&hosts);
    }
    hp_allocation_free(&allocation);
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    write_hosts();
    check_good();
    check_bad();
    check_narrow();
    return 0;
}
