/* SPDX-License-Identifier: MIT */
/* rank_exit: the counts of control groups of both versions, and what a killed child dies of. */
#include "launch/rank_exit.h"

#include "base/clock.h"
#include "t/tap/tap.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char root[400];

static void
put(const char *folder, const char *name, const char *text)
{
    char path[600];
    snprintf(path, sizeof(path), "%s%s", root, folder);
    mkdir(path, 0755);
    snprintf(path, sizeof(path), "%s%s/%s", root, folder, name);
    FILE *file = fopen(path, "we");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        bail("cannot write %s", path);
}

static uint64_t
kills(const char *groups)
{
    char path[500];
    put("", "groups", groups);
    snprintf(path, sizeof(path), "%s/groups", root);
    return hp_exit_oom_kills(path, root);
}

static void
check_groups(void)
{
    snprintf(root, sizeof(root), "%s/cgroup", tap_tmpdir());
    mkdir(root, 0755);
    put("", "memory.events", "low 0\noom 3\noom_kill 2\noom_group_kill 7\n");
    put("/job", "memory.events", "oom 1\noom_kill 5\n");
    put("/memory", "none", "");
    put("/memory/job", "memory.oom_control", "oom_kill_disable 0\nunder_oom 1\noom_kill 11\n");
    put("/unified", "none", "");
    put("/unified/job", "memory.events", "oom_kill 17\n");
    is_int(5 + 17, (int)kills("0::/job\n"), "version 2");
    is_int(2, (int)kills("0::/\n"), "at the top");
    is_int(11, (int)kills("9:name=systemd:/job\n4:memory:/job\n3:cpuset:/\n"), "version 1");
    is_int(11 + 2, (int)kills("4:memory:/job\n0::/\n"), "both");
    is_int(0, (int)kills("4:memory:/elsewhere\nnonsense\n0::/elsewhere\n"), "groups that are not there");
    is_int(0, (int)hp_exit_oom_kills("/nowhere", root), "no groups at all");
}

/* Why a child has ended that does so. */
static hp_exit_cause
cause_of(hp_exit_watch *watch, void (*fn)(void))
{
    hp_exit_cause cause = HP_EXIT_UNKNOWN;
    int status;
    pid_t pid = fork(), reaped;
    if (pid == 0) {
        fn();
        _exit(3);
    }
    while ((reaped = hp_exit_reap(watch, &status, &cause)) == 0)
        usleep(1000);
    is_int(pid, reaped, "the child that has ended");
    return cause;
}

static void
be_killed(void)
{
    raise(SIGKILL);
}

static void
exceed(void)
{
    raise(SIGXCPU);
}

static void
use_up(void)
{
    setrlimit(RLIMIT_CPU, &(struct rlimit){.rlim_cur = 2, .rlim_max = 2});
    for (volatile unsigned i = 0;; i++)
        continue;
}

static void
be_killed_early(void)
{
    setrlimit(RLIMIT_CPU, &(struct rlimit){.rlim_cur = 0, .rlim_max = 0});
    raise(SIGKILL);
}

static void
leave(void)
{
}

static void
report_killed(void)
{
    _exit(128 + SIGKILL);
}

static void
check_causes(void)
{
    hp_exit_watch watch;
    hp_exit_watch_open(&watch, 0);
    is_int(HP_EXIT_UNKNOWN, cause_of(&watch, leave), "a child that exits");
    is_int(HP_EXIT_UNKNOWN, cause_of(&watch, be_killed), "one that somebody kills");
    watch.old.group--;
    watch.old.host--;
    is_int(HP_EXIT_MEMORY, cause_of(&watch, be_killed), "one that the kernel kills for memory");
    is_int(HP_EXIT_UNKNOWN, cause_of(&watch, be_killed), "which explains no second one");
    watch.old.group--;
    watch.old.host--;
    is_int(HP_EXIT_MEMORY, cause_of(&watch, report_killed), "a shell whose child the kernel kills for memory");
    watch.old.host--;
    is_int(HP_EXIT_UNKNOWN, cause_of(&watch, leave), "a child that exits is not killed");
    is_int(HP_EXIT_PERHAPS_MEMORY, cause_of(&watch, be_killed), "the kernel kills in another control group");
    is_int(HP_EXIT_UNKNOWN, cause_of(&watch, be_killed), "... once");
    watch.old.group--;
    is_int(HP_EXIT_PERHAPS_MEMORY, cause_of(&watch, leave), "one that fails after the kernel has killed in its group");
    is_int(HP_EXIT_MEMORY, cause_of(&watch, be_killed), "... and the process that was killed");
    watch.old.group = watch.next.group - 1;
    hp_exit_watch_look(&watch, 4 * HP_SEC);
    ok(watch.old.group != watch.next.group, "what was killed a moment ago counts");
    hp_exit_watch_look(&watch, 5 * HP_SEC);
    is_int(HP_EXIT_UNKNOWN, cause_of(&watch, be_killed), "what was killed long ago explains nothing");
    is_int(HP_EXIT_CPU_TIME, cause_of(&watch, use_up), "one that has used the processor time that it set itself");
    is_int(HP_EXIT_UNKNOWN, cause_of(&watch, be_killed_early), "another one under such a limit");
    is_int(HP_EXIT_CPU_TIME, cause_of(&watch, exceed), "the signal that says so");
}

static void
check_words(void)
{
    hp_rank_exit e = {.rank = 1, .pid = 6888, .host = "vm", .program = "./eat", .status = SIGKILL, .ms = 149};
    static const char *const wanted[] = {
        "rank 1 (vm, pid 6888, ./eat) killed by signal 9 (SIGKILL) after 0.1 s",
        "rank 1 (vm, pid 6888, ./eat) killed by signal 9 (SIGKILL), because its host or its control group was out of "
        "memory, after 0.1 s",
        "rank 1 (vm, pid 6888, ./eat) killed by signal 9 (SIGKILL), because it has used its processor time (ulimit "
        "-t), "
        "after 0.1 s",
        "rank 1 (vm, pid 6888, ./eat) killed by signal 9 (SIGKILL), perhaps for lack of memory (dmesg tells what the "
        "kernel has killed), after 0.1 s"};
    for (int cause = HP_EXIT_UNKNOWN; cause <= HP_EXIT_PERHAPS_MEMORY; cause++) {
        e.cause = (hp_exit_cause)cause;
        char *sentence = hp_rank_exit_sentence(&e, 0, 0);
        is_string(wanted[cause], sentence, "in words");
        free(sentence);
    }
    e.status = 137 << 8;
    e.cause = HP_EXIT_MEMORY;
    char *sentence = hp_rank_exit_sentence(&e, 0, 0);
    is_string("rank 1 (vm, pid 6888, ./eat) exited with status 137, because its host or its control group was out of "
              "memory, after 0.1 s",
              sentence, "a shell's");
    free(sentence);
}

int
main(void)
{
    plan_lazy();
    check_groups();
    check_causes();
    check_words();
    return 0;
}
