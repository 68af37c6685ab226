/* SPDX-License-Identifier: MIT */
/* rank_exit: see rank_exit.h. Only hp_failure_report writes anything. */
#include "launch/rank_exit.h"

#include "base/clock.h"
#include "base/say.h"
#include "launch/xalloc.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum {
    TAIL_BYTES = 2048,   /* of a rank's standard error are kept, */
    TAIL_LINES = 10,     /* and so many lines of these repeated */
    SHOWN_RECENTLY = 10, /* if more than so many outputs came after them */
    STATUS_NOT_LOADED = 127
};

#define LOOK_EVERY (5 * HP_SEC)

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
hp_rank_exit_sentence(const hp_rank_exit *e, int others, int go_on)
{
    static const char *const why[] = {"", ", because its host or its control group was out of memory,",
                                      ", because it has used its processor time (ulimit -t),",
                                      ", perhaps for lack of memory (dmesg tells what the kernel has killed),"};
    char how[160];
    const char *name = "no common one";
    int number = WTERMSIG(e->status);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (names[i].number == number)
            name = names[i].name;
    if (WIFSIGNALED(e->status))
        snprintf(how, sizeof(how), "killed by signal %d (%s)%s%s", number, name,
                 WCOREDUMP(e->status) ? ", core dumped," : "", why[e->cause]);
    else
        snprintf(how, sizeof(how), "exited with status %d%s", WEXITSTATUS(e->status), why[e->cause]);
    return hp_xasprintf("rank %d (%s, pid %d, %s) %s after %llu.%llu s%s%s", e->rank, e->host, e->pid, e->program, how,
                        (unsigned long long)e->ms / 1000, (unsigned long long)e->ms / 100 % 10, e->note,
                        hp_say_others(others, go_on).text);
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

static hp_oom_kills
count_kills(void)
{
    return (hp_oom_kills){hp_exit_oom_kills("/proc/self/cgroup", "/sys/fs/cgroup"),
                          oom_kill_of("/proc", "", "", "vmstat")};
}

void
hp_exit_watch_open(hp_exit_watch *watch, uint64_t now)
{
    watch->old = watch->next = count_kills();
    watch->looked = now;
}

void
hp_exit_watch_look(hp_exit_watch *watch, uint64_t now)
{
    if (now - watch->looked < LOOK_EVERY)
        return;
    watch->old = watch->next;
    watch->next = count_kills();
    watch->looked = now;
}

/* Whether one more was killed than is explained. It explains one end. */
static int
explains(uint64_t now, uint64_t *old, uint64_t *next)
{
    if (now == *old)
        return 0;
    *next += *next == *old;
    ++*old;
    return 1;
}

/* limit: of its processor time, in seconds. */
static hp_exit_cause
find_why(hp_exit_watch *watch, int status, rlim_t limit, const struct rusage *used)
{
    int number = hp_exit_status(status) - 128;
    if (status == 0 || number == SIGXCPU)
        return number == SIGXCPU ? HP_EXIT_CPU_TIME : HP_EXIT_UNKNOWN;
    hp_oom_kills now = count_kills();
    if (number != SIGKILL) /* it may have lost a process of its own: that explains another's end, too */
        return now.group != watch->old.group ? HP_EXIT_PERHAPS_MEMORY : HP_EXIT_UNKNOWN;
    int is_ours = explains(now.group, &watch->old.group, &watch->next.group);
    int is_elsewhere = explains(now.host, &watch->old.host, &watch->next.host);
    if (is_ours)
        return HP_EXIT_MEMORY;
    /* the kernel counts ticks for the limit, which may be too many, and more exactly for what it reports */
    double seconds = (double)(used->ru_utime.tv_sec + used->ru_stime.tv_sec) +
                     (double)(used->ru_utime.tv_usec + used->ru_stime.tv_usec) * 1e-6;
    if (limit != RLIM_INFINITY && seconds >= 0.5 * (double)(limit ? limit : 1))
        return HP_EXIT_CPU_TIME;
    return is_elsewhere ? HP_EXIT_PERHAPS_MEMORY : HP_EXIT_UNKNOWN;
}

/* The child may have changed its own limits. It has them until it is waited for. */
pid_t
hp_exit_reap(hp_exit_watch *watch, int *status, hp_exit_cause *cause)
{
    struct rlimit limit = {.rlim_max = RLIM_INFINITY};
    struct rusage used = {0};
    siginfo_t child = {0};
    if (waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) < 0)
        return -1;
    if (child.si_pid == 0)
        return 0;
    prlimit(child.si_pid, RLIMIT_CPU, NULL, &limit);
    pid_t pid = wait4(child.si_pid, status, 0, &used);
    *cause = find_why(watch, *status, limit.rlim_max, &used);
    return pid;
}

/* --- which exit is the cause --- */

void
hp_failure_open(hp_failure *failure, int size)
{
    *failure = (hp_failure){.size = size, .spare = -1, .first.rank = -1, .ring_rank = -1};
    failure->rank = hp_xcalloc((size_t)size, sizeof(*failure->rank));
    for (int rank = 0; rank < size; rank++)
        failure->rank[rank].running = 1;
}

void
hp_failure_started(hp_failure *failure, int rank, int pid)
{
    failure->rank[rank].end.pid = pid;
}

void
hp_failure_again(hp_failure *failure, int rank)
{
    hp_failure_rank *r = &failure->rank[rank];
    r->running = 1;
    r->end = (hp_rank_exit){0};
    hp_buffer_drop(&r->tail, hp_buffer_size(&r->tail));
    failure->running++;
}

void
hp_failure_stderr(hp_failure *failure, int rank, const uint8_t *bytes, size_t n, uint64_t shown)
{
    hp_buffer *tail = &failure->rank[rank].tail;
    size_t skip = n > TAIL_BYTES ? n - TAIL_BYTES : 0;
    hp_xbuffer_add(tail, bytes + skip, n - skip);
    size_t size = hp_buffer_size(tail);
    if (size > TAIL_BYTES)
        hp_buffer_drop(tail, size - TAIL_BYTES);
    failure->rank[rank].shown = shown;
}

static int
pid_or_unknown(const hp_rank_exit *end)
{
    return end->pid > 0 ? end->pid : -1;
}

/* The rank with this process; -1: none, or several, each in a container of its own. */
static int
rank_of(const hp_failure *failure, uint32_t pid)
{
    int found = -1;
    for (int rank = 0; rank < failure->size; rank++)
        if (pid != 0 && (uint32_t)failure->rank[rank].end.pid == pid)
            found = found < 0 ? rank : failure->size;
    return found < failure->size ? found : -1;
}

/* Whether this is about a process without which the others go on. A split numbers its ranks in its own way. */
static int
is_got_over(const hp_failure *failure, const char *split, int about, uint32_t pid)
{
    for (int rank = 0; rank < failure->size; rank++)
        if (failure->rank[rank].spared && (split ? pid && (uint32_t)failure->rank[rank].spared == pid : rank == about))
            return 1;
    return 0;
}

static void
forget_ring(hp_failure *failure)
{
    free(failure->ring);
    free(failure->split);
    failure->ring = failure->split = NULL;
    failure->ring_judged = failure->ring_lost = 0;
}

hp_failure_word
hp_failure_exited(hp_failure *failure, const hp_rank_exit *ended, int again)
{
    int is_first = failure->first.rank < 0;
    if (!failure->rank[ended->rank].running)
        return HP_FAILURE_NONE;
    failure->rank[ended->rank].running = 0;
    failure->running--;
    failure->rank[ended->rank].end = *ended;
    failure->rank[ended->rank].spared = ended->status != 0 ? pid_or_unknown(ended) : 0;
    failure->well += ended->status == 0;
    if (ended->status != 0)
        failure->last = hp_exit_status(ended->status);
    if (ended->status != 0 && hp_failure_spare(failure, !again))
        return HP_FAILURE_SPARED;
    failure->rank[ended->rank].spared = 0;
    if (ended->status == 0 || failure->reported)
        return HP_FAILURE_NONE;
    if (is_first || hp_rank_exit_precedes(ended->status, failure->first.status))
        failure->first = *ended;
    return is_first ? HP_FAILURE_FIRST : HP_FAILURE_NONE;
}

int
hp_failure_lost(hp_failure *failure, int rank)
{
    hp_failure_rank *r = &failure->rank[rank];
    int lost = r->running;
    r->spared = lost ? pid_or_unknown(&r->end) : r->spared;
    r->running = 0;
    failure->running -= lost;
    failure->last = lost ? 1 : failure->last;
    return lost;
}

int
hp_failure_spare(hp_failure *failure, int lost)
{
    int spared = failure->first.rank < 0 && lost <= failure->spare;
    if (!spared)
        return 0;
    failure->spare -= lost;
    if (failure->ring && is_got_over(failure, failure->split, failure->ring_rank, failure->ring_pid))
        forget_ring(failure);
    return 1;
}

/* --- why the ring failed --- */

/* A rank that vanishes or aborts: after a ring has failed it is usually a consequence of that failure. */
static int
may_follow(const hoop_error *cause)
{
    return cause->code == HOOP_ERR_PEER_LOST || cause->code == HOOP_ERR_ABORTED;
}

void
hp_failure_ring_failed(hp_failure *failure, const char *split, const hoop_error *cause, uint32_t pid)
{
    int is_shared = !split && failure->ring && strcmp(failure->ring, cause->text) == 0;
    if (failure->ring && !is_shared && (failure->ring_judged || may_follow(cause)))
        return;
    if (is_got_over(failure, split, cause->rank, pid))
        return;
    forget_ring(failure);
    failure->ring = hp_xstrdup(cause->text);
    failure->split = split ? hp_xstrdup(split) : NULL;
    failure->ring_rank = split ? -1 : cause->rank;
    failure->ring_lost = may_follow(cause);
    failure->ring_pid = pid;
    failure->ring_judged = cause->code == HOOP_ERR_TIMEOUT || cause->code == HOOP_ERR_MISMATCH;
    failure->ring_worked = cause->phase == HOOP_PHASE_OPERATION;
}

/* The end of the rank that the ring has lost. A split numbers its ranks in its own way, so its rank is known by its process. */
static const hp_rank_exit *
find_cause(const hp_failure *failure)
{
    int rank = !failure->ring_lost ? -1 : failure->split ? rank_of(failure, failure->ring_pid) : failure->ring_rank;
    const hp_failure_rank *lost = rank >= 0 && rank < failure->size ? &failure->rank[rank] : NULL;
    return lost && lost->end.status != 0 && !lost->spared ? &lost->end : &failure->first;
}

/* --- the report --- */

/* The last lines of a stream as text, with control bytes replaced; free() it. */
static char *
last_lines(const hp_buffer *tail)
{
    size_t size = hp_buffer_size(tail), begin = size, lines = 0;
    const uint8_t *first = hp_buffer_first(tail);
    while (begin > 0 && (first[begin - 1] != '\n' || begin == size || ++lines < TAIL_LINES))
        begin--;
    char *text = hp_xcalloc(size - begin + 1, 1);
    for (size_t i = begin; i < size; i++)
        text[i - begin] = first[i] < ' ' && first[i] != '\t' && first[i] != '\n' ? '?' : (char)first[i];
    return text;
}

void
hp_failure_report(hp_failure *failure, hp_output *output, int hidden)
{
    if (failure->reported)
        return;
    failure->reported = 1;
    failure->first = *find_cause(failure);
    const hp_failure_rank *rank = &failure->rank[failure->first.rank];
    char *rest, *lines = last_lines(&rank->tail),
                *sentence = hp_rank_exit_sentence(&failure->first, failure->running, 0);
    hp_diag(output, "%s", sentence);
    free(sentence);
    /* The loader's complaint: LD_LIBRARY_PATH of this machine does not reach other hosts. */
    int missing = hp_exit_status(failure->first.status) == STATUS_NOT_LOADED &&
                  strstr(lines, "error while loading shared libraries: libhoop");
    if (hidden || hp_output_shown(output) - rank->shown > SHOWN_RECENTLY)
        for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
            char *labelled = hp_xasprintf("[%d] %s", failure->first.rank, line);
            hp_output_say(output, labelled);
            free(labelled);
        }
    free(lines);
    if (missing)
        hp_diag(output, "%s did not find hoop's library: name the folder where hoop is installed there, --prefix DIR",
                failure->first.host);
    /*
     * The reason adds something if it is more than that this rank was lost, and about an operation or not in the rank's
     * own words. A verdict on the ranks' calls may be about the rank that waits.
     */
    int same = failure->first.rank == (failure->split ? rank_of(failure, failure->ring_pid) : failure->ring_rank);
    int more = failure->ring && (failure->ring_judged || !same);
    size_t n = hp_buffer_size(&rank->tail);
    if (more && (failure->ring_worked || n == 0 ||
                 !memmem(hp_buffer_first(&rank->tail), n, failure->ring, strlen(failure->ring))))
        hp_diag(output, "%s had failed: %s", failure->split ? failure->split : "the ring", failure->ring);
}

void
hp_failure_close(hp_failure *failure)
{
    for (int i = 0; i < failure->size; i++)
        hp_buffer_free(&failure->rank[i].tail);
    forget_ring(failure);
    free(failure->rank);
}
