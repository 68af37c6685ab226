/* SPDX-License-Identifier: MIT */
/*
 * environment: whatever another launcher has left, several processes never become rings of one in silence; one process does,
 * and says why at INFO.
 */
#include "hoop.h"
#include "t/tap/tap.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const names[] = {
    "FLUX_JOB_SIZE",        "FLUX_TASK_RANK",     "PALS_RANKID",  "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK",
    "JSM_NAMESPACE_SIZE",   "JSM_NAMESPACE_RANK", "HOROVOD_SIZE", "HOROVOD_RANK",        "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_RANK", "PMI_SIZE",           "PMI_RANK",     "WORLD_SIZE",          "RANK",
    "SLURM_STEP_NUM_TASKS", "SLURM_PROCID",       "PMIX_RANK",    "HOOP_RANK",           "HOOP_SIZE",
    "HOOP_RENDEZVOUS"};

static char said[512]; /* the line about the launcher, */
static char named[64]; /* and the name that this host has in it */

static void
keep_line(void *arg, int level, const char *line)
{
    snprintf(named, sizeof(named), "%.*s", (int)strcspn(line, ":"), line);
    if (strstr(line, "launcher: "))
        snprintf(said, sizeof(said), "%s", strstr(line, "launcher: "));
}

/* Starts with nothing but "NAME=value NAME=value". */
static hoop_result
start(const char *variables, hoop_error *error)
{
    char copy[300], *rest = copy;
    hoop_comm *comm;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        unsetenv(names[i]);
    snprintf(copy, sizeof(copy), "%s", variables);
    for (char *name; (name = strtok_r(rest, " ", &rest));) {
        char *value = strchr(name, '=');
        *value = 0;
        setenv(name, value + 1, 1);
    }
    said[0] = 0;
    *error = (hoop_error){.size = sizeof(*error)};
    hoop_result result = hoop_comm_create(&comm, NULL);
    if (result != HOOP_SUCCESS)
        hoop_comm_error(NULL, error);
    else if (hoop_comm_size(comm) != 1 || hoop_comm_destroy(comm) != HOOP_SUCCESS)
        return HOOP_ERR_INTERNAL;
    return result;
}

static void
refused(const char *variables, const char *begin)
{
    static const char end[] = "; hoop_launch(7) has the steps";
    hoop_error e = {0};
    hoop_result result = start(variables, &e);
    size_t n = strlen(e.text);
    ok(result == HOOP_ERR_RENDEZVOUS && strncmp(e.text, begin, strlen(begin)) == 0 && n > strlen(end) &&
           strcmp(e.text + n - strlen(end), end) == 0,
       "%s: %s", variables, e.text);
}

static void
alone(const char *variables, const char *line)
{
    hoop_error e = {0};
    is_int(HOOP_SUCCESS, start(variables, &e), "%s: a ring of one%s%s", variables, *e.text ? ", but " : "", e.text);
    is_string(line, said, "and says so at INFO");
}

static void
test_many(void)
{
    refused("FLUX_JOB_SIZE=2 FLUX_TASK_RANK=0", "flux run started 2 processes (FLUX_JOB_SIZE)");
    refused("MV2_COMM_WORLD_SIZE=999999999", "MVAPICH2's mpirun started 999999999 processes (MV2_COMM_WORLD_SIZE)");
    refused("JSM_NAMESPACE_SIZE=4 OMPI_COMM_WORLD_SIZE=4", "jsrun started 4 processes (JSM_NAMESPACE_SIZE)");
    refused("HOROVOD_SIZE=2", "horovodrun started 2 processes (HOROVOD_SIZE)");
    refused("OMPI_COMM_WORLD_SIZE=999999999", "mpirun (Open MPI) started 999999999 processes (OMPI_COMM_WORLD_SIZE)");
    refused("PMI_SIZE=2 PALS_RANKID=1", "mpiexec (PMI) started 2 processes (PMI_SIZE)");
    refused("WORLD_SIZE=8 RANK=3", "torchrun started 8 processes (WORLD_SIZE)");
    refused("SLURM_STEP_NUM_TASKS=16", "srun started 16 processes (SLURM_STEP_NUM_TASKS)");
    refused("SLURM_STEP_NUM_TASKS=1 OMPI_COMM_WORLD_SIZE=2", "mpirun (Open MPI) started 2 processes");
    refused("HOOP_SIZE=1 WORLD_SIZE=2", "torchrun started 2 processes");
}

static void
test_ranks_only(void)
{
    refused("PMIX_RANK=1", "a launcher with PMIx started this process (PMIX_RANK), and perhaps others: ");
    refused("PALS_RANKID=0", "mpiexec (PALS) started this process (PALS_RANKID), and perhaps others: ");
    refused("HOOP_RANK=3", "HOOP_RANK=3 but neither HOOP_RENDEZVOUS nor HOOP_SIZE is set: ");
    refused("HOOP_RANK=0 WORLD_SIZE=1", "HOOP_RANK=0 but neither ");
    refused("HOOP_SIZE=2 HOOP_RANK=0", "HOOP_SIZE=2 but HOOP_RENDEZVOUS is not set: ");
}

static void
test_one(void)
{
    alone("", "launcher: none, so a ring of one (no HOOP_RENDEZVOUS)");
    alone("SLURM_STEP_NUM_TASKS=1 PMIX_RANK=0", "launcher: srun, so a ring of one (no HOOP_RENDEZVOUS)");
    alone("OMPI_COMM_WORLD_SIZE=1", "launcher: mpirun (Open MPI), so a ring of one (no HOOP_RENDEZVOUS)");
    alone("FLUX_JOB_SIZE=1", "launcher: flux run, so a ring of one (no HOOP_RENDEZVOUS)");
    alone("WORLD_SIZE=", "launcher: none, so a ring of one (no HOOP_RENDEZVOUS)");
    alone("HOOP_SIZE=1 HOOP_RANK=0 PMI_SIZE=4 PMI_RANK=2",
          "launcher: HOOP_SIZE, so a ring of one (no HOOP_RENDEZVOUS)");
    alone("HOOP_SIZE=1 HOOP_RANK=0 PMIX_RANK=0", "launcher: HOOP_SIZE, so a ring of one (no HOOP_RENDEZVOUS)");
}

static void
test_long_name(void)
{
    char longest[65] = "";
    memset(longest, 'n', 64);
    if (unshare(CLONE_NEWUTS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWUTS) != 0) {
        skip(2, "this process may not give its host another name");
        return;
    }
    is_int(0, sethostname(longest, 64), "the longest name that a host can have");
    start("", &(hoop_error){0});
    ok(strncmp(named, longest, 37) == 0 && strcmp(named + 37, "...") == 0, "is cut in its ranks' lines: %s", named);
}

int
main(void)
{
    plan(31);
    setenv("HOOP_DEBUG", "info", 1);
    setenv("HOOP_CONF_FILE", "", 1);
    hoop_log_to(keep_line, NULL);
    test_many();
    test_ranks_only();
    test_one();
    test_long_name();
    return tap_failures() != 0;
}
