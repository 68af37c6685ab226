/* SPDX-License-Identifier: MIT */
/*
 * spawn: fork, tidy up, exec. The child reports an error through a pipe that a successful exec closes, so the parent
 * knows at once. It knows nothing of agents or hosts. The sentence about a program that was not started looks at its file again, for the
 * common mistakes.
 *
 * Descendants: one pass over /proc makes a list of (process, parent); repeated passes over the list mark them. The next call
 * of hp_proctree_signal finds a process that is born meanwhile.
 */
#include "launch/spawn.h"

#include "base/limits.h"
#include "flight/collection.h"
#include "launch/xalloc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct report {
    hp_spawn_step step;
    int number; /* errno */
} report;

enum { REPORT_FD = 4, ASIDE = 10 };

static struct rlimit files; /* the limit we started with; rlim_max 0: not changed */

__attribute__((noreturn)) static void
give_up(int fd, hp_spawn_step step)
{
    report r = {.step = step, .number = errno};
    if (write(fd, &r, sizeof(r)) < 0)
        _exit(126);
    _exit(127);
}

/* Moves all descriptors out of the way, then each to its place: sources and places may overlap. */
static int
arrange(const int want[5])
{
    int aside[5];
    for (int i = 0; i < 5; i++) {
        aside[i] = want[i] >= 0 ? want[i] : i < 3 ? open("/dev/null", O_RDWR) : -1;
        if (aside[i] >= 0)
            aside[i] = fcntl(aside[i], F_DUPFD, ASIDE);
        if (aside[i] < 0 && (want[i] >= 0 || i < 3))
            return -1;
    }
    for (int i = 0; i < 5; i++) {
        if (aside[i] < 0)
            close(i);
        else if (dup2(aside[i], i) < 0)
            return -1;
    }
    long last = sysconf(_SC_OPEN_MAX);
    if (syscall(SYS_close_range, REPORT_FD + 1U, ~0U, 0) != 0) /* glibc has a function from 2.34 on only */
        for (int fd = REPORT_FD + 1; fd < (last > 0 ? last : 1024); fd++)
            close(fd);
    return fcntl(REPORT_FD, F_SETFD, FD_CLOEXEC);
}

static void
reset_signals(int shielded)
{
    static const int ours[] = {SIGINT, SIGQUIT, SIGTSTP, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXFSZ};
    sigset_t none;
    for (int i = 1; i < NSIG; i++)
        signal(i, SIG_DFL);
    for (size_t i = 0; shielded && i < sizeof(ours) / sizeof(*ours); i++)
        signal(ours[i], SIG_IGN);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Tries one folder. 1: the next one should be tried. */
static int
execute_in(const char *folder, size_t n, const hp_spawn *spawn)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%.*s/%s", (int)n, folder, spawn->argv[0]) >= (int)sizeof(path))
        return 1;
    execv(path, spawn->argv);
    if (errno == EACCES && access(path, F_OK) < 0)
        errno = ENOENT; /* the folder may not be entered */
    return errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == ELOOP || errno == ESTALE;
}

/* As execvp, but a file that the kernel cannot run is not given to a shell, which would take anything for a script. */
static void
execute(const hp_spawn *spawn)
{
    const char *at = getenv("PATH");
    int denied = 0;
    if (spawn->file || strchr(spawn->argv[0], '/')) {
        execv(spawn->file ? spawn->file : spawn->argv[0], spawn->argv);
        return;
    }
    for (at = at ? at : "/bin:/usr/bin"; at; at = strchr(at, ':') ? strchr(at, ':') + 1 : NULL) {
        size_t n = strcspn(at, ":");
        if (!execute_in(n ? at : ".", n ? n : 1, spawn))
            return;
        denied |= errno == EACCES;
    }
    if (spawn->also_dir)
        execute_in(spawn->also_dir, strlen(spawn->also_dir), spawn);
    errno = denied ? EACCES : ENOENT;
}

__attribute__((noreturn)) static void
child(const hp_spawn *spawn, int report_fd, pid_t parent)
{
    const int want[5] = {spawn->fd[0], spawn->fd[1], spawn->fd[2], spawn->fd[3], report_fd};
    reset_signals(spawn->shielded);
    if (arrange(want) < 0)
        give_up(report_fd, HP_SPAWN_SET_UP);
    if (spawn->session && setsid() < 0)
        give_up(REPORT_FD, HP_SPAWN_SET_UP);
    if (files.rlim_max != 0 && setrlimit(RLIMIT_NOFILE, &files) < 0)
        give_up(REPORT_FD, HP_SPAWN_SET_UP);
    if (spawn->affinity && sched_setaffinity(0, sizeof(*spawn->affinity), spawn->affinity) < 0)
        give_up(REPORT_FD, HP_SPAWN_SET_UP);
    if (spawn->death_signal && prctl(PR_SET_PDEATHSIG, spawn->death_signal) < 0)
        give_up(REPORT_FD, HP_SPAWN_SET_UP);
    if (spawn->death_signal && getppid() != parent)
        _exit(1); /* the parent died before the line above */
    if (spawn->environ)
        environ = (char **)spawn->environ;
    execute(spawn);
    give_up(REPORT_FD, HP_SPAWN_EXEC);
}

/* Waits for the exec or for the child's report. */
static pid_t
read_report(pid_t pid, int fd, hp_spawn_step *step)
{
    report r = {0};
    ssize_t n;
    while ((n = read(fd, &r, sizeof(r))) < 0 && errno == EINTR)
        continue;
    close(fd);
    if (n != (ssize_t)sizeof(r))
        return pid;
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    *step = r.step;
    errno = r.number;
    return -1;
}

static void
close_both(int fds[2])
{
    if (fds[0] >= 0)
        close(fds[0]);
    if (fds[1] >= 0)
        close(fds[1]);
    fds[0] = fds[1] = -1;
}

void
hp_spawn_pipes_close(hp_spawn_pipes *pipes)
{
    close_both(pipes->in);
    close_both(pipes->out);
    close_both(pipes->err);
}

int
hp_spawn_pipes_open(hp_spawn_pipes *pipes, int with_in)
{
    *pipes = (hp_spawn_pipes){{-1, -1}, {-1, -1}, {-1, -1}};
    if (pipe2(pipes->out, O_CLOEXEC) == 0 && pipe2(pipes->err, O_CLOEXEC) == 0 &&
        (!with_in || pipe2(pipes->in, O_CLOEXEC) == 0))
        return 0;
    int number = errno;
    hp_spawn_pipes_close(pipes);
    errno = number;
    return -1;
}

pid_t
hp_spawn_start(const hp_spawn *spawn, hp_spawn_step *step)
{
    pid_t parent = getpid(), pid;
    int fds[2];
    *step = HP_SPAWN_FORK;
    if (pipe2(fds, O_CLOEXEC) < 0)
        return -1;
    pid = fork();
    if (pid == 0)
        child(spawn, fds[1], parent);
    close(fds[1]);
    if (pid < 0) {
        close(fds[0]);
        return -1;
    }
    return read_report(pid, fds[0], step);
}

void
hp_spawn_many_files(void)
{
    hp_limits_raise_descriptors(&files);
}

void
hp_spawn_fill_standard(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd < 3);
    if (fd >= 3)
        close(fd);
}

void
hp_spawn_own_path(char path[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
    path[n > 0 ? n : 0] = '\0';
    if (n <= 0 && !realpath((const char *)getauxval(AT_EXECFN), path))
        path[0] = '\0';
}

/* --- why a program was not started --- */

enum { NOT_RUN = 126, NOT_THERE = 127, PATH_SHOWN = 400 };

void
hp_start_error_say(hp_start_error *e, int status, const char *format, ...)
{
    va_list ap;
    e->status = status;
    va_start(ap, format);
    vsnprintf(e->text, sizeof(e->text), format, ap);
    va_end(ap);
}

/* The interpreter that a script's first line names, with a carriage return if it ends with one; 0: it is no script. */
static int
read_interpreter(const char *program, char *out, size_t size)
{
    char line[256];
    int fd = open(program, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);
    if (fd >= 0)
        close(fd);
    line[n > 0 ? n : 0] = '\0';
    if (strncmp(line, "#!", 2) != 0)
        return 0;
    const char *begin = line + 2 + strspn(line + 2, " \t");
    snprintf(out, size, "%.*s", (int)strcspn(begin, " \t\n"), begin);
    return 1;
}

/* The program is there, but the kernel did not find what it runs it with. */
static void
say_no_interpreter(hp_start_error *e, const char *program)
{
    char interpreter[160];
    if (!read_interpreter(program, interpreter, sizeof(interpreter))) {
        hp_start_error_say(e, NOT_THERE, "cannot run %.160s: its loader does not exist", program);
        return;
    }
    char *end = strchr(interpreter, '\r');
    if (end)
        *end = '\0';
    if (end)
        hp_start_error_say(
            e, NOT_THERE,
            "cannot run %.160s: its first line names %s with a carriage return behind it; end its lines as Unix does: "
            "sed -i 's/\\r$//' %.160s",
            program, interpreter, program);
    else
        hp_start_error_say(e, NOT_THERE,
                           "cannot run %.160s: the interpreter that its first line names, %s, does not exist", program,
                           interpreter);
}

static void
say_not_there(hp_start_error *e, const char *program)
{
    char here[256], shown[PATH_SHOWN];
    const char *path = getenv("PATH");
    if (!getcwd(here, sizeof(here)))
        here[0] = '\0';
    if (snprintf(shown, sizeof(shown), "%s", path ? path : "not set") >= PATH_SHOWN) { /* its first folders */
        shown[PATH_SHOWN - 4] = '\0';
        char *end = strrchr(shown, ':');
        snprintf(end ? end + 1 : shown, 4, "...");
    }
    if (!strchr(program, '/'))
        hp_start_error_say(e, NOT_THERE,
                           "there is no program %.100s in PATH (%s); write ./%.60s if it is in the current folder",
                           program, shown, program);
    else if (access(program, F_OK) == 0)
        say_no_interpreter(e, program);
    else
        hp_start_error_say(
            e, NOT_THERE,
            "there is no program %.160s (in the folder %.120s); copy it there, or name the folder with --wdir", program,
            here);
}

/* What hoop-bench calls what this program of nccl-tests measures; NULL: it is none of them. */
static const char *
measured_by(const char *program)
{
    static const char *const known[][2] = {{"all_reduce_perf", "allreduce"}, {"reduce_scatter_perf", "reduce_scatter"},
                                           {"all_gather_perf", "allgather"}, {"broadcast_perf", "broadcast"},
                                           {"reduce_perf", "reduce"},        {"gather_perf", "gather"},
                                           {"scatter_perf", "scatter"},      {"alltoall_perf", "alltoall"},
                                           {"sendrecv_perf", "sendrecv"}};
    const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(name, known[i][0]) == 0)
            return known[i][1];
    return NULL;
}

/* The kernel knows neither its format nor an interpreter for it. */
static void
say_no_format(hp_start_error *e, const char *program, int ranks)
{
    int fd = open(program, O_RDONLY | O_CLOEXEC);
    char magic[4] = "";
    ssize_t n = fd < 0 ? -1 : read(fd, magic, sizeof(magic));
    if (fd >= 0)
        close(fd);
    if (n == 0)
        hp_start_error_say(e, NOT_RUN, "cannot run %.160s: it is empty", program);
    else if (n == (ssize_t)sizeof(magic) && memcmp(magic, "\177ELF", sizeof(magic)) == 0)
        hp_start_error_say(e, NOT_RUN, "cannot run %.160s: it was made for another kind of machine", program);
    else
        hp_start_error_say(
            e, NOT_RUN,
            "cannot run %.160s: if it is a script, its first line must name its interpreter, as #!/bin/sh does; or "
            "write hooprun -n %d sh %.160s",
            program, ranks, program);
}

void
hp_start_error_program(hp_start_error *e, const char *program, int ranks, hp_spawn_step step)
{
    int number = errno;
    size_t n = strlen(program);
    struct stat status = {0};
    int is_python = n > 3 && strcmp(program + n - 3, ".py") == 0;
    if (number == ENOENT) /* it was looked for in PATH */
        is_python = is_python && !strchr(program, '/') && access(program, F_OK) == 0;
    else
        is_python = is_python && (number == ENOEXEC || number == EACCES);
    if (step != HP_SPAWN_EXEC)
        hp_start_error_say(e, 1, "cannot start a process: %s", strerror(number));
    else if (is_python)
        hp_start_error_say(e, number == ENOENT ? NOT_THERE : NOT_RUN,
                           "%.160s is not a program by itself; write hooprun -n %d python3 %.160s", program, ranks,
                           program);
    else if (number == ENOENT && measured_by(program))
        hp_start_error_say(e, NOT_THERE,
                           "there is no program %.160s; to measure with hoop, write hooprun -n %d hoop-bench --coll %s",
                           program, ranks, measured_by(program));
    else if (number == ENOENT)
        say_not_there(e, program);
    else if (number == ENOEXEC)
        say_no_format(e, program, ranks);
    else
        hp_start_error_say(e, NOT_RUN, "cannot run %.160s: %s%s", program, strerror(number),
                           number != EACCES || stat(program, &status) < 0 ? ""
                           : S_ISDIR(status.st_mode)                      ? " (it is a folder)"
                           : status.st_mode & 0111                        ? ""
                                                                          : " (chmod +x makes a file a program)");
}

/* --- descendants --- */

/* How often a tree is looked at, a millisecond apart, until all of it is stopped: a process in the kernel may take long. */
enum { LOOKS = 100 };

typedef struct process {
    pid_t pid, parent;
    int stopped, marked;
} process;

typedef struct table {
    process *list;
    size_t count, room;
} table;

static void
read_table(table *all)
{
    DIR *proc = opendir("/proc");
    hp_flight_process seen;
    for (struct dirent *entry; proc && (entry = readdir(proc));) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid <= 0 || !hp_flight_find_process((uint32_t)pid, &seen))
            continue;
        all->list = hp_xgrow(all->list, &all->room, all->count + 1, sizeof(*all->list));
        all->list[all->count++] = (process){.pid = pid, .parent = (pid_t)seen.parent, .stopped = seen.stopped};
    }
    if (proc)
        closedir(proc);
}

static int
is_marked(const table *all, pid_t pid, pid_t ancestor)
{
    if (pid == ancestor)
        return 1;
    for (size_t i = 0; i < all->count; i++)
        if (all->list[i].marked && all->list[i].pid == pid)
            return 1;
    return 0;
}

/* Marks the descendants of a process; returns how many there are. */
static int
mark(table *all, pid_t ancestor)
{
    int found = 0, before;
    do {
        before = found;
        for (size_t i = 0; i < all->count; i++)
            if (!all->list[i].marked && is_marked(all, all->list[i].parent, ancestor)) {
                all->list[i].marked = 1;
                found++;
            }
    } while (found > before);
    return found;
}

/* Returns how many have got it. */
static int
signal_marked(const table *all, int signal)
{
    int n = 0;
    for (size_t i = 0; i < all->count; i++)
        n += all->list[i].marked && kill(all->list[i].pid, signal) == 0;
    return n;
}

size_t
hp_proctree_list(pid_t ancestor, pid_t **list)
{
    table all = {0};
    size_t n = 0;
    read_table(&all);
    *list = hp_xcalloc((size_t)mark(&all, ancestor) + 1, sizeof(**list));
    for (size_t i = 0; i < all.count; i++)
        if (all.list[i].marked)
            (*list)[n++] = all.list[i].pid;
    free(all.list);
    return n;
}

int
hp_proctree_signal(pid_t ancestor, int signal)
{
    table all = {0};
    read_table(&all);
    mark(&all, ancestor);
    int signalled = signal_marked(&all, signal);
    free(all.list);
    return signalled;
}

/* A pass that finds nothing running may have missed a child born during the pass, before its parent stopped: the second
 * such pass in a row has not. */
void
hp_proctree_end(pid_t root)
{
    table all = {0};
    kill(root, SIGSTOP);
    for (int look = 0, still = 0; look < LOOKS && still < 2; look++) {
        int running = 0; /* one that may not be signalled does not count */
        all.count = 0;
        read_table(&all);
        mark(&all, root);
        for (size_t i = 0; i < all.count; i++) {
            process *p = &all.list[i];
            running += (p->marked || p->pid == root) && !p->stopped && kill(p->pid, SIGSTOP) == 0;
        }
        still = running > 0 ? 0 : still + 1;
        if (still == 0)
            usleep(1000);
    }
    signal_marked(&all, SIGKILL);
    kill(root, SIGKILL);
    free(all.list);
}
