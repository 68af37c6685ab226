/* SPDX-License-Identifier: MIT */
/*
 * affinity: with r ranks and u units (cores, or hyperthreads if there are more ranks than cores) rank i has the units
 * from i u / r on. If there are more ranks than units, several ranks share one.
 */
#include "launch/affinity.h"

#include "launch/xalloc.h"

#include <stdio.h>
#include <stdlib.h>

/* Reads a number, or the first one of a list. */
static int
topology(int processor, const char *what, int unknown)
{
    char path[96];
    FILE *file;
    int value;
    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/%s", processor, what);
    file = fopen(path, "re");
    if (!file)
        return unknown;
    if (fscanf(file, "%d", &value) != 1 || value < 0)
        value = unknown;
    fclose(file);
    return value;
}

void
hp_affinity_read(hp_cpu_list *cpus)
{
    cpu_set_t mine;
    *cpus = (hp_cpu_list){.list = hp_xcalloc(CPU_SETSIZE, sizeof(hp_cpu))};
    CPU_ZERO(&mine);
    if (sched_getaffinity(0, sizeof(mine), &mine) < 0)
        return;
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET((size_t)i, &mine))
            continue;
        /* The first of its core's processors is unique, unlike the core's number. Linux before 5.5 has the second name. */
        int core = topology(i, "core_cpus_list", topology(i, "thread_siblings_list", i));
        cpus->list[cpus->count++] = (hp_cpu){topology(i, "physical_package_id", 0), core, i};
    }
    hp_affinity_sort(cpus);
}

static int
by_place(const void *a, const void *b)
{
    const hp_cpu *x = a, *y = b;
    if (x->package != y->package)
        return x->package < y->package ? -1 : 1;
    if (x->core != y->core)
        return x->core < y->core ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

void
hp_affinity_sort(hp_cpu_list *cpus)
{
    qsort(cpus->list, (size_t)cpus->count, sizeof(*cpus->list), by_place);
}

void
hp_affinity_free(hp_cpu_list *cpus)
{
    free(cpus->list);
    *cpus = (hp_cpu_list){0};
}

static int
begins_core(const hp_cpu_list *m, int at)
{
    return at == 0 || m->list[at].core != m->list[at - 1].core || m->list[at].package != m->list[at - 1].package;
}

/* Where in the list the i-th rank's processors begin; the end of the list behind the last rank. */
static int
border(const hp_cpu_list *m, int ranks, int i)
{
    int cores = 0, at = 0;
    for (int k = 0; k < m->count; k++)
        cores += begins_core(m, k);
    if (ranks > cores)
        return (int)((long)i * m->count / ranks);
    for (int before = (int)((long)i * cores / ranks); at < m->count; at++)
        if (begins_core(m, at) && before-- == 0)
            break;
    return at;
}

void
hp_affinity_of_rank(const hp_cpu_list *cpus, int ranks, int i, cpu_set_t *set)
{
    int at = border(cpus, ranks, i), end = border(cpus, ranks, i + 1);
    CPU_ZERO(set);
    if (end == at && at < cpus->count)
        end = at + 1;
    for (; at < end; at++)
        CPU_SET((size_t)cpus->list[at].number, set);
}
