/* SPDX-License-Identifier: MIT */
/* share: see share.h. With r ranks and u units (cores, or processors where those do not suffice) rank i has the units
 * from i u / r on; with more ranks than units several have the same one. */
#include "launch/affinity.h"

#include "launch/xalloc.h"

#include <stdio.h>
#include <stdlib.h>

/* A number, or the first one of a list. */
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

/* The first of its core's processors: unlike the core's number it is no other core's. The older name is that of Linux
 * before 5.5. */
static int
core_of(int processor)
{
    return topology(processor, "core_cpus_list", topology(processor, "thread_siblings_list", processor));
}

void
hp_machine_read(hp_machine *machine)
{
    cpu_set_t mine;
    int i;
    *machine = (hp_machine){.list = hp_must_alloc(CPU_SETSIZE, sizeof(hp_processor))};
    CPU_ZERO(&mine);
    if (sched_getaffinity(0, sizeof(mine), &mine) < 0)
        return;
    for (i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET((size_t)i, &mine))
            machine->list[machine->count++] = (hp_processor){topology(i, "physical_package_id", 0), core_of(i), i};
    hp_machine_sort(machine);
}

static int
by_place(const void *a, const void *b)
{
    const hp_processor *x = a, *y = b;
    if (x->package != y->package)
        return x->package < y->package ? -1 : 1;
    if (x->core != y->core)
        return x->core < y->core ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

void
hp_machine_sort(hp_machine *machine)
{
    qsort(machine->list, (size_t)machine->count, sizeof(*machine->list), by_place);
}

void
hp_machine_free(hp_machine *machine)
{
    free(machine->list);
    *machine = (hp_machine){0};
}

static int
begins_core(const hp_machine *m, int at)
{
    return at == 0 || m->list[at].core != m->list[at - 1].core || m->list[at].package != m->list[at - 1].package;
}

/* Where in the list the k-th core begins; the end of the list, if there is no such core. */
static int
core_at(const hp_machine *m, int k)
{
    int at;
    for (at = 0; at < m->count; at++)
        if (begins_core(m, at) && k-- == 0)
            break;
    return at;
}

/* Where in the list the i-th rank's share begins. */
static int
border(const hp_machine *m, int ranks, int i)
{
    int cores = 0, at;
    for (at = 0; at < m->count; at++)
        cores += begins_core(m, at);
    if (ranks > cores)
        return (int)((long)i * m->count / ranks);
    return core_at(m, (int)((long)i * cores / ranks));
}

void
hp_share_cut(const hp_machine *machine, int ranks, int i, cpu_set_t *share)
{
    int at = border(machine, ranks, i), end = border(machine, ranks, i + 1);
    CPU_ZERO(share);
    if (end == at && at < machine->count)
        end = at + 1;
    for (; at < end; at++)
        CPU_SET((size_t)machine->list[at].number, share);
}
