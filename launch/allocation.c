/* SPDX-License-Identifier: MIT */
/*
 * allocation: one row for each batch system. All but Slurm and Flux have a file that names a host once for each slot,
 * or a list of hosts and numbers; hostfile.c reads these. Slurm has a list of hosts and one of slots. Flux has commands.
 */
#include "launch/allocation.h"

#include "base/buffer.h"
#include "base/err.h"
#include "base/number.h"
#include "launch/hostfile.h"
#include "launch/xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct batch_system {
    const char *name, *job; /* the variable with the job's number */
    const char *key;        /* the variable that leads to the hosts; read is called only where it is set */
    const char *reach;      /* NULL: see reach_by_srun */
    hoop_result (*read)(hp_host_list *hosts, const char *key, hoop_error *error);
} batch_system;

static const char *
variable(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] != '\0' ? value : NULL;
}

/* --- Slurm --- */

static void
set_slots(hp_host_entry *host, int slots)
{
    host->slots = slots;
    host->mentions = 0;
}

/*
 * 1 if the text has slots for exactly these hosts. An item of "4(x2),3" has 4 slots on each of two hosts.
 */
static int
read_slots(hp_host_list *hosts, const char *text)
{
    int host = 0;
    while (*text != '\0') {
        size_t n = strcspn(text, ",");
        const char *times = memchr(text, '(', n);
        size_t digits = times ? (size_t)(times - text) : n;
        int slots, count = 1;
        if (!hp_number_parse_digits(text, digits, HP_SLOTS_MAX, &slots) || slots == 0)
            return 0;
        if (times && (n - digits < 4 || times[1] != 'x' || text[n - 1] != ')' ||
                      !hp_number_parse_digits(times + 2, n - digits - 3, HP_HOSTS_MAX, &count)))
            return 0;
        if (count == 0 || count > hosts->count - host)
            return 0;
        while (count-- > 0)
            set_slots(&hosts->entry[host++], slots);
        text += n + (text[n] == ',');
    }
    return host == hosts->count;
}

static hoop_result
read_slurm(hp_host_list *hosts, const char *key, hoop_error *error)
{
    const char *value = variable(key);
    const char *tasks = variable("SLURM_TASKS_PER_NODE"), *started = variable("SLURM_STEP_NUM_TASKS");
    const char *slots = tasks ? tasks : variable("SLURM_JOB_CPUS_PER_NODE");
    if (started && strcmp(started, "1") != 0)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "srun has started hooprun %s times, and each would start all ranks; start hooprun once, "
                          "without srun, or start the program itself with srun",
                          started);
    if (hp_hostfile_parse(hosts, key, 0, value, strlen(value), error) != HOOP_SUCCESS)
        return error->code;
    if (!slots || read_slots(hosts, slots))
        return HOOP_SUCCESS;
    return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                      "Slurm's variable %s is \"%.60s\", which does not fit its list of hosts, \"%.60s\"; write "
                      "-H node1:4,node2:4 --rsh ssh to use neither",
                      tasks ? "SLURM_TASKS_PER_NODE" : "SLURM_JOB_CPUS_PER_NODE", slots, value);
}

/*
 * A step for one agent, beside the steps of the user. Its number of tasks is written because srun would otherwise take
 * the job's; --mpi=none because the agent is no rank of MPI. Some variables of a job are limits of one task. The agent is
 * one task, and all ranks of its host would share them; labels would be in front of what it says. So srun does not see
 * these. It hands them on to the ranks, unless the user has said what srun exports.
 */
static const char *
reach_by_srun(void)
{
    static const char *const for_tasks[] = {"SLURM_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK",   "SLURM_GPUS_PER_TASK",
                                            "SLURM_TRES_PER_TASK", "SLURM_NTASKS_PER_GPU", "SLURM_NTASKS_PER_TRES",
                                            "SLURM_GPU_BIND",      "SLURM_LABELIO"};
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:=/-"; /* no quotes */
    static char command[2048];
    char without[512] = "", with[1024] = "";
    for (size_t i = 0; i < sizeof(for_tasks) / sizeof(for_tasks[0]); i++) {
        const char *value = variable(for_tasks[i]);
        size_t hidden = strlen(without), given = strlen(with);
        if (!value)
            continue;
        snprintf(without + hidden, sizeof(without) - hidden, "%s-u %s ", hidden ? "" : "env ", for_tasks[i]);
        if (!variable("SLURM_EXPORT_ENV") && !variable("SRUN_EXPORT_ENV") && value[strspn(value, plain)] == '\0' &&
            strlen(value) < 64)
            snprintf(with + given, sizeof(with) - given, "%s,%s=%s", given ? "" : " --export=ALL", for_tasks[i], value);
    }
    snprintf(command, sizeof(command),
             "%ssrun --quiet --overlap --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpu-bind=none --mpi=none "
             "--unbuffered%s --nodelist",
             without, with);
    return command;
}

/* --- PBS, LSF, OAR --- */

static hoop_result
read_file(hp_host_list *hosts, const char *key, hoop_error *error)
{
    hoop_error why;
    hoop_result result = hp_hostfile_read(hosts, variable(key), &why);
    for (int i = 0; i < hosts->count; i++)
        set_slots(&hosts->entry[i], hosts->entry[i].slots + hosts->entry[i].mentions);
    return result == HOOP_SUCCESS ? result : hp_err_set(error, result, "%s: %s", key, why.text);
}

/* "node1 4 node2 4" */
static hoop_result
read_pairs(hp_host_list *hosts, const char *key, hoop_error *error)
{
    const char *value = variable(key);
    hp_buffer text = {0};
    hoop_result result;
    for (int word = 0; *(value += strspn(value, " ")) != '\0'; word++) {
        size_t n = strcspn(value, " ");
        if (word > 0)
            hp_xbuffer_add(&text, word % 2 ? ":" : ",", 1);
        hp_xbuffer_add(&text, value, n);
        value += n;
    }
    result = hp_hostfile_parse(hosts, key, 0, (const char *)hp_buffer_first(&text), hp_buffer_size(&text), error);
    hp_buffer_free(&text);
    return result;
}

/* --- Flux --- */

/* What a command writes, at most `size` - 1 bytes and without the last newline. Returns 0 if it fails. */
static int
ask(const char *command, char *answer, size_t size)
{
    FILE *pipe = popen(command, "re");
    if (!pipe)
        return 0;
    size_t n = fread(answer, 1, size - 1, pipe);
    answer[n] = '\0';
    answer[strcspn(answer, "\n")] = '\0';
    return pclose(pipe) == 0 && answer[0] != '\0';
}

static hoop_result
read_flux(hp_host_list *hosts, const char *key, hoop_error *error)
{
    enum { ANSWER = 65536 };
    int cores;
    char *answer = hp_xcalloc(1, ANSWER);
    hoop_result result;
    if (ask("timeout 10 flux hostlist 2>/dev/null", answer, ANSWER))
        result = hp_hostfile_parse(hosts, "flux hostlist", 0, answer, strlen(answer), error);
    else
        result = hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                            "%s is %.60s, but \"flux hostlist\" does not tell the hosts there; write them: "
                            "-H node1:4,node2:4 --rsh ssh",
                            key, variable(key));
    /* The cores of each host; a host has one slot if the hosts are not alike. */
    if (result == HOOP_SUCCESS && hosts->count > 0 &&
        ask("timeout 10 flux resource list -n -s all -o {ncores} 2>/dev/null", answer, ANSWER) &&
        hp_number_parse_int(answer, 1, HP_SLOTS_MAX, &cores) && cores % hosts->count == 0)
        for (int i = 0; i < hosts->count; i++)
            set_slots(&hosts->entry[i], cores / hosts->count);
    free(answer);
    return result;
}

/* --- all of them --- */

static const batch_system systems[] = {
    {"Slurm", "SLURM_JOB_ID", "SLURM_JOB_NODELIST", NULL, read_slurm},
    {"PBS", "PBS_JOBID", "PBS_NODEFILE", "ssh", read_file},
    {"LSF", "LSB_JOBID", "LSB_DJOB_HOSTFILE", "ssh", read_file},
    {"LSF", "LSB_JOBID", "LSB_MCPU_HOSTS", "ssh", read_pairs},
    {"OAR", "OAR_JOB_ID", "OAR_NODEFILE", "ssh", read_file},
    {"OAR", "OAR_JOB_ID", "OAR_NODE_FILE", "ssh", read_file},
    {"Flux", "FLUX_JOB_ID", "FLUX_URI", "ssh", read_flux},
};

/* The first system whose variable is set: that of its hosts, or that of its job. */
static const batch_system *
find_system(int by_job)
{
    for (size_t i = 0; i < sizeof(systems) / sizeof(systems[0]); i++)
        if (variable(by_job ? systems[i].job : systems[i].key))
            return &systems[i];
    return NULL;
}

hoop_result
hp_allocation_find(hp_allocation *allocation, hoop_error *error)
{
    const batch_system *with_hosts = find_system(0), *system = with_hosts ? with_hosts : find_system(1);
    if (!system || variable("HOOP_RANK"))
        return HOOP_SUCCESS;
    const char *job = variable(system->job);
    snprintf(allocation->name, sizeof(allocation->name), "%s %s%.40s", system->name, job ? "job " : "allocation",
             job ? job : "");
    allocation->lacks = with_hosts ? NULL : system->key;
    if (!with_hosts)
        return HOOP_SUCCESS;
    allocation->reach = system->reach ? system->reach : reach_by_srun();
    return system->read(&allocation->hosts, system->key, error);
}

hoop_result
hp_allocation_narrow(const hp_allocation *allocation, hp_host_list *hosts, hoop_error *error)
{
    for (int i = 0; i < hosts->count; i++) {
        hp_host_entry *host = &hosts->entry[i];
        const hp_host_entry *given = NULL;
        for (int j = 0; j < allocation->hosts.count && !given; j++)
            if (hp_local_same_name(allocation->hosts.entry[j].name, hp_local_bare_name(host->name)))
                given = &allocation->hosts.entry[j];
        if (!given && !hp_local_is_host(host->name))
            return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                              "%.80s is none of the hosts of %s; list hosts of that job, or add --rsh ssh to reach "
                              "any host",
                              host->name, allocation->name);
        if (given && host->slots == 0 && host->mentions == 1)
            set_slots(host, given->slots + given->mentions);
    }
    return HOOP_SUCCESS;
}

void
hp_allocation_free(hp_allocation *allocation)
{
    hp_hostfile_free(&allocation->hosts);
    *allocation = (hp_allocation){0};
}
