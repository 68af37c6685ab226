/* SPDX-License-Identifier: MIT */
/*
 * Shares of a host's processors: every processor in one set, ranks side by side, cores whole while they suffice, on
 * made-up machines; and on this one.
 */
#include "launch/rank_env.h"

#include "t/tap/tap.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 64 };

typedef struct row {
    const char *what;
    const char *cpus; /* package.core of processor 0, 1, ... */
    int ranks;
    const char *shares; /* by rank, its processors */
} row;

static const row rows[] = {
    {"a core each", "0.0 0.1", 2, "0 | 1"},
    {"neighbours set one", "0.0 0.1", 4, "0 | 0 | 1 | 1"},
    {"as evenly as can be", "0.0 0.1", 5, "0 | 0 | 0 | 1 | 1"},
    {"one rank has them all", "0.0 0.1 0.2", 1, "0,1,2"},
    {"more for some", "0.0 0.1 0.2", 2, "0 | 1,2"},
    {"hyperthreads together", "0.0 0.1 0.0 0.1", 2, "0,2 | 1,3"},
    {"no core in two parts", "0.0 0.1 0.2 0.0 0.1 0.2", 2, "0,3 | 1,2,4,5"},
    {"divided where ranks outnumber cores", "0.0 0.1 0.0 0.1", 3, "0 | 2 | 1,3"},
    {"a hyperthread each", "0.0 0.1 0.0 0.1", 4, "0 | 2 | 1 | 3"},
    {"packages that Linux counts in turns", "0.0 1.0 0.1 1.1", 2, "0,2 | 1,3"},
    {"one processor for all", "0.0", 3, "0 | 0 | 0"},
};

static hp_cpu_list
cpus(const char *text)
{
    static hp_cpu list[MOST];
    hp_cpu_list m = {.list = list};
    for (int n; sscanf(text, "%d.%d%n", &list[m.count].package, &list[m.count].core, &n) == 2; text += n, m.count++)
        list[m.count].number = m.count;
    hp_affinity_sort(&m);
    return m;
}

static void
print(const cpu_set_t *set, char *text, size_t size)
{
    size_t used = strlen(text);
    const char *before = used ? " | " : "";
    for (int i = 0; i < MOST; i++)
        if (CPU_ISSET((size_t)i, set)) {
            used += (size_t)snprintf(text + used, size - used, "%s%d", before, i);
            before = ",";
        }
}

static void
test_rows(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        hp_cpu_list m = cpus(rows[i].cpus);
        char seen[256] = "";
        for (int rank = 0; rank < rows[i].ranks; rank++) {
            cpu_set_t set;
            hp_affinity_of_rank(&m, rows[i].ranks, rank, &set);
            print(&set, seen, sizeof(seen));
        }
        is_string(rows[i].shares, seen, "%s", rows[i].what);
    }
}

/* Nobody is without a processor; where they suffice each is in one set, and no set is twice another. */
static void
test_random(void)
{
    int bad = 0;
    for (int turn = 0; turn < 2000; turn++) {
        hp_cpu list[MOST];
        hp_cpu_list m = {list, 1 + (int)(tap_random() % MOST)};
        int threads = 1 + (int)(tap_random() % 2), ranks = 1 + (int)(tap_random() % (2 * MOST)), sum = 0;
        cpu_set_t all;
        for (int i = 0; i < m.count; i++)
            list[i] = (hp_cpu){0, i / threads, i};
        CPU_ZERO(&all);
        for (int rank = 0; rank < ranks; rank++) {
            cpu_set_t set;
            hp_affinity_of_rank(&m, ranks, rank, &set);
            bad += CPU_COUNT(&set) == 0 || CPU_COUNT(&set) > (m.count / ranks + 1) * threads;
            sum += CPU_COUNT(&set);
            CPU_OR(&all, &all, &set);
        }
        bad += ranks <= m.count ? sum != m.count || CPU_COUNT(&all) != m.count : sum != ranks;
    }
    is_int(0, bad, "2000 random machines: every set is fair");
}

static void
test_here(void)
{
    hp_cpu_list here;
    cpu_set_t mine, set;
    hp_affinity_read(&here);
    sched_getaffinity(0, sizeof(mine), &mine);
    is_int(CPU_COUNT(&mine), here.count, "this cpus's processors are read");
    hp_affinity_of_rank(&here, 1, 0, &set);
    ok(CPU_EQUAL(&mine, &set), "and are all of a single rank");
    hp_affinity_free(&here);
    hp_affinity_of_rank(&here, 2, 1, &set);
    is_int(0, CPU_COUNT(&set), "of no processors there is no set");
}

int
main(void)
{
    plan((int)(sizeof(rows) / sizeof(*rows)) + 4);
    test_rows();
    test_random();
    test_here();
    return 0;
}
