/* SPDX-License-Identifier: MIT */
/* fake_process: see fake_process.h. */
#include "t/launch/fake_process.h"

#include "launch/rank_exit.h"
#include "t/tap/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 80 };

int fake_processes;
char fake_self_signals[256];

static fake_process process[MOST];
static hp_spawn_step failing_step;
static int failing_number;

pid_t __wrap_hp_spawn_start(const hp_spawn *spawn, hp_spawn_step *step);
int __real_kill(pid_t pid, int signal);
int __wrap_kill(pid_t pid, int signal);
pid_t __wrap_waitpid(pid_t pid, int *status, int options);
int __wrap_waitid(idtype_t type, id_t group, siginfo_t *child, int options);
pid_t __wrap_hp_exit_reap(hp_exit_watch *watch, int *status, hp_exit_cause *cause);
int __wrap_hp_proctree_signal(pid_t ancestor, int signal);
void __wrap_hp_proctree_end(pid_t root);

fake_process *
fake_process_at(int i)
{
    if (i < 0 || i >= fake_processes)
        bail("process %d of %d was asked for", i, fake_processes);
    return &process[i];
}

void
fake_process_fail(hp_spawn_step step, int number)
{
    failing_step = step;
    failing_number = number;
}

static char **
copy_environ(char *const *from)
{
    size_t count = 0;
    while (from[count])
        count++;
    char **copy = calloc(count + 1, sizeof(*copy));
    for (size_t i = 0; i < count; i++)
        copy[i] = strdup(from[i]);
    return copy;
}

pid_t
__wrap_hp_spawn_start(const hp_spawn *spawn, hp_spawn_step *step)
{
    if (failing_number != 0) {
        *step = failing_step;
        errno = failing_number;
        failing_number = 0;
        return -1;
    }
    if (fake_processes == MOST)
        bail("more than %d processes", MOST);
    fake_process *p = &process[fake_processes];
    *p = (fake_process){.running = 1, .session = spawn->session, .death_signal = spawn->death_signal};
    p->bound = spawn->affinity != NULL;
    for (int i = 0; i < 4; i++)
        p->fd[i] = spawn->fd[i] >= 0 ? fcntl(spawn->fd[i], F_DUPFD_CLOEXEC, 10) : -1;
    for (int i = 0; spawn->argv[i]; i++)
        snprintf(p->command + strlen(p->command), sizeof(p->command) - strlen(p->command), "%s%s", i ? " " : "",
                 spawn->argv[i]);
    p->environ = spawn->environ ? copy_environ(spawn->environ) : NULL;
    return FAKE_PID + fake_processes++;
}

static void
close_all(fake_process *p)
{
    for (int i = 0; i < 4; i++) {
        if (p->fd[i] >= 0)
            close(p->fd[i]);
        p->fd[i] = -1;
    }
}

void
fake_process_forget(void)
{
    for (int i = 0; i < fake_processes; i++) {
        close_all(&process[i]);
        for (char **e = process[i].environ; e && *e; e++)
            free(*e);
        free(process[i].environ);
    }
    fake_processes = 0;
    fake_self_signals[0] = '\0';
}

void
fake_process_exit(fake_process *p, int wait_status)
{
    sigset_t blocked;
    close_all(p);
    p->running = 0;
    p->ended = 1;
    p->status = wait_status;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    if (sigismember(&blocked, SIGCHLD))
        __real_kill(getpid(), SIGCHLD);
}

size_t
fake_process_read(fake_process *p, int fd, void *bytes, size_t n)
{
    struct pollfd ready = {.fd = p->fd[fd], .events = POLLIN};
    ssize_t got = p->fd[fd] >= 0 && poll(&ready, 1, 0) > 0 ? read(p->fd[fd], bytes, n) : 0;
    return got > 0 ? (size_t)got : 0;
}

void
fake_process_write(fake_process *p, int fd, const void *bytes, size_t n)
{
    if (write(p->fd[fd], bytes, n) != (ssize_t)n)
        bail("a fake process cannot write %zu bytes to its descriptor %d", n, fd);
}

const char *
fake_process_getenv(const fake_process *p, const char *name)
{
    size_t n = strlen(name);
    for (char **e = p->environ; e && *e; e++)
        if (strncmp(*e, name, n) == 0 && (*e)[n] == '=')
            return *e + n + 1;
    return NULL;
}

/* --- what the code under test calls --- */

static void
note(char signals[256], int signal)
{
    snprintf(signals + strlen(signals), 256 - strlen(signals), "%d ", signal);
}

int
__wrap_kill(pid_t pid, int signal)
{
    int i = abs(pid) - FAKE_PID;
    if (pid == getpid()) {
        note(fake_self_signals, signal);
        return 0;
    }
    if (i >= 0 && i < fake_processes && process[i].running) {
        note(process[i].signals, signal);
        return 0;
    }
    errno = ESRCH;
    return -1;
}

/* Whether a group has children of ours: its one process, which may be a zombie. */
int
__wrap_waitid(idtype_t type, id_t group, siginfo_t *child, int options)
{
    int i = (int)group - FAKE_PID;
    if (type != P_PGID || options != (WEXITED | WNOHANG | WNOWAIT))
        bail("waitid(%d, %u, ..., %d)", (int)type, (unsigned)group, options);
    *child = (siginfo_t){0};
    if (i >= 0 && i < fake_processes && (process[i].running || process[i].ended))
        return 0;
    errno = ECHILD;
    return -1;
}

pid_t
__wrap_waitpid(pid_t pid, int *status, int options)
{
    int running = 0;
    if (pid != -1) { /* once it was killed */
        fake_process *p = fake_process_at(pid - FAKE_PID);
        if (!strstr(p->signals, "9 "))
            bail("waitpid(%d, %d) is for a process that runs", pid, options);
        close_all(p);
        p->running = 0;
        return pid;
    }
    for (int i = 0; i < fake_processes; i++) {
        running += process[i].running;
        if (!process[i].ended)
            continue;
        process[i].ended = 0;
        if (status)
            *status = process[i].status;
        return FAKE_PID + i;
    }
    if (running && options != WNOHANG)
        bail("waitpid(%d, %d) would wait", pid, options);
    errno = ECHILD;
    return running ? 0 : -1;
}

pid_t
__wrap_hp_exit_reap(hp_exit_watch *watch, int *status, hp_exit_cause *cause)
{
    (void)watch;
    *cause = HP_EXIT_UNKNOWN;
    return __wrap_waitpid(-1, status, WNOHANG);
}

/* The descendants of the test are all fake processes, those of a fake process none. KILL ends them. */
int
__wrap_hp_proctree_signal(pid_t ancestor, int signal)
{
    int found = 0;
    for (int i = 0; i < fake_processes && ancestor == getpid(); i++) {
        if (!process[i].running)
            continue;
        found++;
        note(process[i].signals, signal);
        if (signal == SIGKILL)
            fake_process_exit(&process[i], SIGKILL);
    }
    return found;
}

void
__wrap_hp_proctree_end(pid_t root)
{
    kill(root, SIGKILL);
}
