/* SPDX-License-Identifier: MIT */
/* launcher: see launcher.h. To add a launcher, add a row to the table; hoop_launch(7) has the same table for users. */
#include "lib/launcher.h"

#include "base/err.h"
#include "base/number.h"
#include "base/wire.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define LINES "; hoop_launch(7) has the steps"

enum {
    LOWEST_PORT = 61440, /* above the ports that Linux assigns to clients */
    DERIVED_PORTS = 65536 - LOWEST_PORT - HP_LAUNCHER_PORTS,
    MOST_PROCESSES = 999999999
};

/*
 * The order matters: a launcher whose variables others set as well comes last, and one that starts another launcher's
 * daemons (srun) comes after that other.
 */
typedef struct known_launcher {
    const char *name, *rank, *size;
    const char *local_rank;         /* of this process, among those of its host */
    const char *local_size, *hosts; /* how many of its processes are on this host; on how many hosts there are any */
    const char *ids[3];             /* what tells two starts apart; the first one must be set */
} known_launcher;

static const known_launcher rows[] = {
    {"flux run", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", NULL, "FLUX_JOB_NNODES", {"FLUX_JOB_ID"}},
    {"MVAPICH2's mpirun",
     "MV2_COMM_WORLD_RANK",
     "MV2_COMM_WORLD_SIZE",
     "MV2_COMM_WORLD_LOCAL_RANK",
     "MV2_COMM_WORLD_LOCAL_SIZE",
     NULL,
     {NULL}},
    {"jsrun",
     "JSM_NAMESPACE_RANK",
     "JSM_NAMESPACE_SIZE",
     "JSM_NAMESPACE_LOCAL_RANK",
     "JSM_NAMESPACE_LOCAL_SIZE",
     NULL,
     {NULL}},
    {"horovodrun", "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE", NULL, {NULL}},
    {"mpirun (Open MPI)",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     NULL,
     {NULL}},
    {"mpiexec (PMI)", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL, {"PALS_APID"}},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", NULL, {"MASTER_PORT"}},
    {"srun",
     "SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS",
     "SLURM_LOCALID",
     NULL,
     "SLURM_STEP_NUM_NODES",
     {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"}},
    {"mpiexec (PALS)", "PALS_RANKID", NULL, "PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE", NULL, {"PALS_APID"}},
    {"an indexed Job of Kubernetes", "JOB_COMPLETION_INDEX", NULL, NULL, NULL, NULL, {"MASTER_PORT"}},
    {"a launcher with PMIx", "PMIX_RANK", NULL, NULL, NULL, NULL, {NULL}}};

/* torchrun sets more than RANK and WORLD_SIZE, which others set as well; then it is the one that started the process. */
static const known_launcher elastic = {"torchrun",
                                       "RANK",
                                       "WORLD_SIZE",
                                       "LOCAL_RANK",
                                       "LOCAL_WORLD_SIZE",
                                       NULL,
                                       {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}};

/* An empty variable is no variable. */
static const char *
value_of(hp_lookup_fn *lookup, const char *name)
{
    const char *value = name ? lookup(name) : NULL;
    return value && *value ? value : NULL;
}

/* -1: it is not set, or is no number. */
static int
number_of(hp_lookup_fn *lookup, const char *name)
{
    const char *value = value_of(lookup, name);
    int number = -1;
    if (value)
        hp_number_parse_int(value, 0, MOST_PROCESSES, &number);
    return number;
}

/* --- who started this process --- */

/* In a batch script of Slurm SLURM_PROCID is 0, although srun did not start it. */
static int
shows_many(const known_launcher *r, hp_lookup_fn *lookup)
{
    int is_batch = strcmp(r->name, "srun") == 0 && number_of(lookup, r->rank) == 0;
    return value_of(lookup, r->rank) && number_of(lookup, r->size) < 1 && !is_batch;
}

/* The first row with several processes; else the first one that knows that there is one; else one with a rank alone. */
static const known_launcher *
find_row(hp_lookup_fn *lookup)
{
    const known_launcher *one = NULL, *ranked = NULL;
    if (value_of(lookup, "TORCHELASTIC_RUN_ID") && number_of(lookup, elastic.size) > 0)
        return &elastic;
    for (const known_launcher *r = rows; r < rows + sizeof(rows) / sizeof(*rows); r++) {
        int size = number_of(lookup, r->size);
        if (size > 1)
            return r;
        if (size == 1 && !one)
            one = r;
        if (shows_many(r, lookup) && !ranked)
            ranked = r;
    }
    return one ? one : ranked;
}

static hoop_result
refuse(const hp_launcher *l, const char *what, hoop_error *error)
{
    if (l->size > 0)
        return hp_err_set(error, HOOP_ERR_RENDEZVOUS,
                          "%s started %d processes (%s), but %s: use hooprun, or set HOOP_RENDEZVOUS, HOOP_SIZE and "
                          "HOOP_RANK" LINES,
                          l->name, l->size, l->size_name, what);
    return hp_err_set(error, HOOP_ERR_RENDEZVOUS,
                      "%s started this process (%s), and perhaps others: %s, or use hooprun, or set HOOP_RENDEZVOUS, "
                      "HOOP_SIZE and HOOP_RANK, or HOOP_SIZE=1 for one process" LINES,
                      l->name, l->size_name, what);
}

hoop_result
hp_launcher_refuse(const hp_launcher *l, hoop_error *error)
{
    return refuse(l, l->why_none, error);
}

static hoop_result
find_rank(hp_launcher *l, const known_launcher *r, hp_lookup_fn *lookup, hoop_error *error)
{
    char what[64];
    l->rank = number_of(lookup, r->rank);
    if (l->size == 1)
        l->rank = 0;
    if (l->rank >= 0 && (l->size == 0 || l->rank < l->size))
        return HOOP_SUCCESS;
    if (l->rank < 0)
        snprintf(what, sizeof(what), "%s is %s", r->rank, value_of(lookup, r->rank) ? "no number" : "not set");
    else
        snprintf(what, sizeof(what), "%s=%d is not below that", r->rank, l->rank);
    return refuse(l, what, error);
}

/* --- how they meet --- */

int
hp_launcher_first_host(const char *list, char out[HP_LAUNCHER_HOST])
{
    size_t used = 0;
    for (const char *at = list; *at && *at != ',';) {
        const char *end = strchr(at, ']');
        size_t length = *at == '[' ? strcspn(at + 1, ",-]") : 1;
        if (used + length >= HP_LAUNCHER_HOST || (*at == '[' && !end))
            return 0;
        memcpy(out + used, *at == '[' ? at + 1 : at, length);
        used += length;
        at = *at == '[' ? end + 1 : at + 1;
    }
    out[used] = 0;
    return used > 0;
}

/* A variable of the channel that an outer launcher left behind names another rank or size. */
static int
has_pmi(hp_launcher *l, hp_lookup_fn *lookup)
{
    l->fd = number_of(lookup, "PMI_FD");
    return l->fd >= 0 && number_of(lookup, "PMI_RANK") == l->rank && number_of(lookup, "PMI_SIZE") == l->size;
}

/* The texts that tell this start from all others, one behind the other. 0: nothing does. */
static int
name_job(hp_launcher *l, const known_launcher *r, const hp_launcher_settings *settings, hp_lookup_fn *lookup)
{
    const char *port = value_of(lookup, "MASTER_PORT");
    size_t used = (size_t)snprintf(l->job, sizeof(l->job), "%s, %d processes, %.64s, MASTER_PORT=%.8s", r->name,
                                   l->size, settings->job, port ? port : "");
    for (size_t i = 0; i < sizeof(r->ids) / sizeof(*r->ids) && r->ids[i] && used < sizeof(l->job); i++) {
        const char *value = value_of(lookup, r->ids[i]);
        used += (size_t)snprintf(l->job + used, sizeof(l->job) - used, ", %s=%.40s", r->ids[i], value ? value : "");
    }
    return port || value_of(lookup, r->ids[0]);
}

/* The address that the user or the launcher gives, or the first host of Slurm's list. */
static int
find_host(hp_launcher *l, const known_launcher *r, hp_lookup_fn *lookup)
{
    const char *given = value_of(lookup, "MASTER_ADDR"), *list = value_of(lookup, "SLURM_STEP_NODELIST");
    if (given)
        return (size_t)snprintf(l->host, sizeof(l->host), "%s", given) < sizeof(l->host);
    return strcmp(r->name, "srun") == 0 && list && hp_launcher_first_host(list, l->host);
}

static void
find_way(hp_launcher *l, const known_launcher *r, const hp_launcher_settings *settings, hp_lookup_fn *lookup)
{
    int local = number_of(lookup, r->local_size);
    l->one_host = (local >= 0 && local == l->size) || number_of(lookup, r->hosts) == 1;
    if (r != &elastic && l->size && has_pmi(l, lookup))
        l->way = HP_BY_PMI;
    else if (r != &elastic && value_of(lookup, "PMIX_NAMESPACE") && number_of(lookup, "PMIX_RANK") == l->rank)
        l->way = HP_BY_PMIX;
    else if (!l->size)
        l->why_none = "set HOOP_SIZE";
    else if (!l->one_host && !find_host(l, r, lookup))
        l->why_none = "MASTER_ADDR, the host of rank 0, is not set";
    else if (!name_job(l, r, settings, lookup))
        l->why_none = "MASTER_PORT, which must differ from other jobs', is not set";
    else
        l->way = HP_BY_PORT;
    if (l->way == HP_BY_PORT) {
        int port = number_of(lookup, "MASTER_PORT");
        if (port < 1 || port > USHRT_MAX - HP_LAUNCHER_PORTS)
            port = LOWEST_PORT + (int)(hp_hash_text(HP_HASH_START, l->job) % DERIVED_PORTS) - 1;
        l->first = (uint16_t)(port + 1);
        l->last = (uint16_t)(port + HP_LAUNCHER_PORTS);
    }
}

hoop_result
hp_launcher_find(hp_launcher *l, const hp_launcher_settings *settings, hp_lookup_fn *lookup, hoop_error *error)
{
    const known_launcher *r = find_row(lookup);
    char what[96];
    *l = (hp_launcher){.size = 1, .fd = -1};
    if (!r || (settings->size == 1 && settings->rank == 0))
        return HOOP_SUCCESS;
    l->name = r->name;
    l->size = number_of(lookup, r->size);
    l->size_name = l->size > 0 ? r->size : r->rank;
    if (l->size < 0)
        l->size = settings->size > 0 ? settings->size : 0;
    if (settings->size > 0 && l->size != settings->size) {
        snprintf(what, sizeof(what), "HOOP_SIZE is %d%s", settings->size,
                 settings->size == 1 ? " (for a ring of one in each process set HOOP_RANK=0, too)" : "");
        return refuse(l, what, error);
    }
    hoop_result result = find_rank(l, r, lookup, error);
    if (result == HOOP_SUCCESS && l->size != 1)
        find_way(l, r, settings, lookup);
    return result;
}

int
hp_launcher_local_rank(hp_lookup_fn *lookup)
{
    int local = number_of(lookup, "HOOP_LOCAL_RANK");
    for (const known_launcher *r = rows; local < 0 && r < rows + sizeof(rows) / sizeof(*rows); r++)
        local = number_of(lookup, r->local_rank);
    return local;
}
