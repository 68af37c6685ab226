/* SPDX-License-Identifier: MIT */
/* rank_exit: see rank_exit.h. */
#include "launch/rank_exit.h"

#include "launch/xalloc.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* --- in words --- */

static const struct {
    int number;
    const char *name;
} names[] = {
    {SIGHUP, "SIGHUP"},   {SIGINT, "SIGINT"},   {SIGQUIT, "SIGQUIT"}, {SIGILL, "SIGILL"},   {SIGTRAP, "SIGTRAP"},
    {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},   {SIGKILL, "SIGKILL"}, {SIGUSR1, "SIGUSR1"},
    {SIGSEGV, "SIGSEGV"}, {SIGUSR2, "SIGUSR2"}, {SIGPIPE, "SIGPIPE"}, {SIGALRM, "SIGALRM"}, {SIGTERM, "SIGTERM"},
    {SIGXCPU, "SIGXCPU"}, {SIGXFSZ, "SIGXFSZ"}, {SIGSYS, "SIGSYS"},
};

static const char *
signal_name(int number)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (names[i].number == number)
            return names[i].name;
    return "no common one";
}

int
hp_exit_status(int wait_status)
{
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

int
hp_rank_exit_precedes(int wait_status, int other)
{
    return WIFSIGNALED(wait_status) && !WIFSIGNALED(other);
}

char *
hp_rank_exit_sentence(const hp_rank_exit *e, int others)
{
    static const char *const why[] = {"", ", because its host or its control group was out of memory,",
                                      ", because it has used its processor time (ulimit -t),"};
    char how[160], then[40] = "";
    int number = WTERMSIG(e->status);
    if (WIFSIGNALED(e->status))
        snprintf(how, sizeof(how), "killed by signal %d (%s)%s%s", number, signal_name(number),
                 WCOREDUMP(e->status) ? ", core dumped," : "", why[e->cause]);
    else
        snprintf(how, sizeof(how), "exited with status %d", WEXITSTATUS(e->status));
    if (others > 0)
        snprintf(then, sizeof(then), "; stopping %d other%s", others, others == 1 ? "" : "s");
    return hp_xasprintf("rank %d (%s, pid %d, %s) %s after %llu.%llu s%s", e->rank, e->host, e->pid, e->program, how,
                        (unsigned long long)e->ms / 1000, (unsigned long long)e->ms / 100 % 10, then);
}

/* --- why --- */

/* The line "oom_kill N" of a file; 0 without one. */
static uint64_t
oom_kill_of(const char *root, const char *folder, const char *group, const char *name)
{
    char path[PATH_MAX], line[128];
    unsigned long long n = 0;
    snprintf(path, sizeof(path), "%s%s%s/%s", root, folder, group, name);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file) && sscanf(line, "oom_kill %llu", &n) != 1)
        continue;
    if (file)
        fclose(file);
    return n;
}

/* Lines are "4:memory:/group" for version 1, "0::/group" for version 2, which may be mounted below "unified". */
uint64_t
hp_exit_oom_kills(const char *groups, const char *root)
{
    char line[PATH_MAX];
    uint64_t n = 0;
    FILE *file = fopen(groups, "re");
    while (file && fgets(line, sizeof(line), file)) {
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        if (strcmp(group, "/") == 0)
            group = "";
        if (strcmp(controllers, ":memory") == 0)
            n += oom_kill_of(root, "/memory", group, "memory.oom_control");
        else if (strcmp(controllers, ":") == 0)
            n += oom_kill_of(root, "", group, "memory.events") + oom_kill_of(root, "/unified", group, "memory.events");
    }
    if (file)
        fclose(file);
    return n;
}

static uint64_t
oom_kills(void)
{
    return hp_exit_oom_kills("/proc/self/cgroup", "/sys/fs/cgroup");
}

static double
cpu_of_children(void)
{
    struct rusage used;
    if (getrusage(RUSAGE_CHILDREN, &used) < 0)
        return 0;
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

void
hp_exit_watch_open(hp_exit_watch *watch)
{
    *watch = (hp_exit_watch){.oom_kills = oom_kills(), .cpu = cpu_of_children()};
}

hp_exit_cause
hp_exit_cause_of(hp_exit_watch *watch, int status)
{
    struct rlimit limit;
    double before = watch->cpu;
    watch->cpu = cpu_of_children();
    if (!WIFSIGNALED(status) || (WTERMSIG(status) != SIGKILL && WTERMSIG(status) != SIGXCPU))
        return HP_EXIT_UNKNOWN;
    if (WTERMSIG(status) == SIGKILL && oom_kills() > watch->oom_kills) {
        watch->oom_kills++;
        return HP_EXIT_MEMORY;
    }
    /* the kernel counts ticks for the limit, and more exactly for what it reports */
    int is_over = getrlimit(RLIMIT_CPU, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
                  watch->cpu - before >= 0.75 * (double)limit.rlim_cur;
    return is_over || WTERMSIG(status) == SIGXCPU ? HP_EXIT_CPU_TIME : HP_EXIT_UNKNOWN;
}
