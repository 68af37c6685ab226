/* SPDX-License-Identifier: MIT */
/*
 * sweep: what jobs leave behind is removed when they have ended, in both folders of the user; not while a process of theirs
 * runs, nor while an agent of hooprun has yet to collect their recorders. A folder that is another user's is not used.
 */
#include "flight/sweep.h"

#include "base/err.h"
#include "flight/collection.h"
#include "t/tap/tap.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char runtime[512];

/* --- processes --- */

typedef struct left {
    pid_t pid;
    char path[HP_FLIGHT_PATH + 128]; /* of the file that it has made */
} left;

static void
become_rank(const char *job, left *out)
{
    hp_flight_head head = {.size = 2, .comm = 7};
    hp_flight_file file;
    hoop_error error;
    if (hp_flight_file_make(&file, &error) != HOOP_SUCCESS)
        bail("no recorder: %s", error.text);
    snprintf(head.job, sizeof(head.job), "%s", job);
    hp_flight_sign(&head);
    hp_flight_begin(file.words, &head);
    snprintf(out->path, sizeof(out->path), "%s", file.path);
}

static void
become_agent(const char *job, left *out)
{
    hp_flight_claim claim;
    hp_flight_claim_make(&claim, job);
    snprintf(out->path, sizeof(out->path), "%s", claim.path);
}

/* A process that has made a file, and runs. */
static left
run(void (*become)(const char *job, left *out), const char *job)
{
    left one = {0};
    int ready[2];
    if (pipe(ready) != 0 || (one.pid = fork()) < 0)
        bail("no process");
    if (one.pid == 0) {
        become(job, &one);
        if (write(ready[1], &one, sizeof(one)) == (ssize_t)sizeof(one))
            pause();
        _exit(1);
    }
    pid_t pid = one.pid;
    close(ready[1]);
    if (read(ready[0], &one, sizeof(one)) != (ssize_t)sizeof(one))
        bail("a process has made no file");
    close(ready[0]);
    one.pid = pid;
    return one;
}

static void
kill_it(const left *one)
{
    kill(one->pid, SIGKILL);
    waitpid(one->pid, NULL, 0);
}

/* A file that a process has left which was killed. */
static left
leave(void (*become)(const char *job, left *out), const char *job)
{
    left one = run(become, job);
    kill_it(&one);
    return one;
}

static int
is_there(const left *one)
{
    return access(one->path, F_OK) == 0;
}

/* --- what is removed --- */

static void
test_jobs(void)
{
    left ended = leave(become_rank, "ended"), first = leave(become_rank, "running"),
         second = run(become_rank, "running");
    ok(is_there(&ended) && is_there(&first) && is_there(&second), "each rank has a recorder");
    hp_flight_sweep();
    ok(!is_there(&ended), "the recorder of a job that has ended is removed");
    ok(is_there(&first) && is_there(&second), "of a job with a process that runs, none");
    kill(second.pid, SIGSTOP);
    waitpid(second.pid, NULL, WUNTRACED);
    hp_flight_sweep();
    ok(is_there(&first), "nor with one that is stopped");
    kill_it(&second);
    hp_flight_sweep();
    ok(!is_there(&first) && !is_there(&second), "when it has ended, all");
}

static void
test_agents(void)
{
    left rank = leave(become_rank, "collected"), other = leave(become_rank, "collecte"),
         gone = leave(become_agent, "other");
    left agent = run(become_agent, "collected");
    hp_flight_sweep();
    ok(is_there(&rank) && is_there(&agent), "an agent that runs has yet to collect the recorders of its job");
    ok(!is_there(&other), "but not those of another job");
    ok(!is_there(&gone), "one that has ended collects nothing, and its file is removed");
    kill_it(&agent);
    hp_flight_sweep();
    ok(!is_there(&rank) && !is_there(&agent), "after it the recorders of its job are, too");
    hp_flight_claim claim;
    hp_flight_claim_make(&claim, "mine");
    ok(access(claim.path, F_OK) == 0, "an agent has a file");
    hp_flight_claim_end(&claim);
    ok(!claim.path[0], "until its end");
}

/* Overwrites a word of the head of a file, which hoop_flight(5) lists. */
static void
put_word(const left *one, off_t offset, uint64_t value)
{
    int fd = open(one->path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || pwrite(fd, &value, sizeof(value), offset) != (ssize_t)sizeof(value))
        bail("cannot write %s", one->path);
    close(fd);
}

/* Another pid namespace, as that of a container, may share the folder; and a pid is used again. */
static void
test_strange_agents(void)
{
    enum { STARTED = 48, PID_SPACE = 56 };
    left rank = leave(become_rank, "strange"), strange = leave(become_agent, "strange");
    left again = run(become_agent, "again");
    put_word(&strange, PID_SPACE, 1);
    put_word(&again, STARTED, 1);
    hp_flight_sweep();
    ok(is_there(&strange) && is_there(&rank), "an agent of another pid namespace may run");
    ok(!is_there(&again), "one whose pid a later process has does not");
    kill_it(&again);
    unlink(strange.path);
    hp_flight_sweep();
    ok(!is_there(&rank), "without the agent, the recorders are removed");
}

/* What a job without XDG_RUNTIME_DIR leaves is found by one with it, and the other way round. */
static void
test_folders(void)
{
    unsetenv("XDG_RUNTIME_DIR");
    left one = leave(become_rank, "without");
    ok(strncmp(one.path, "/dev/shm/hoop-", 14) == 0, "without XDG_RUNTIME_DIR recorders are in %s", one.path);
    setenv("XDG_RUNTIME_DIR", runtime, 1);
    left rank = run(become_rank, "without");
    hp_flight_sweep();
    ok(is_there(&one), "they are kept for a job that goes on in the other folder");
    kill_it(&rank);
    hp_flight_sweep();
    ok(!is_there(&one) && !is_there(&rank), "and removed with that");
}

/* --- folders of others --- */

/* What the process of another user finds where root has made a folder of its name. 0: that it is not its own. */
static int
refuses(uid_t user, int mode_for_all)
{
    char path[HP_FLIGHT_PATH];
    hoop_error error;
    unsetenv("XDG_RUNTIME_DIR");
    if (setresuid(user, user, user) != 0)
        return 1;
    int opened = hp_flight_folder_open(1, path, &error) >= 0, named = strstr(error.text, path) != NULL;
    int made = hp_flight_folder_make(path, &error) >= 0;
    return opened || made || !named || (mode_for_all && !strstr(error.text, "is not this user's alone"));
}

static void
test_owner(void)
{
    const uid_t other = 900000 + (uid_t)getpid() % 100000;
    char path[HP_FLIGHT_PATH];
    snprintf(path, sizeof(path), "/dev/shm/hoop-%u", (unsigned)other);
    if (geteuid() != 0 || mkdir(path, 0700) != 0) {
        skip(2, "only root can make a folder that is another user's, and become that user");
        return;
    }
    for (int mode_for_all = 0; mode_for_all <= 1; mode_for_all++) {
        int status = 0;
        chmod(path, mode_for_all ? 0777 : 0700);
        pid_t child = fork();
        if (child == 0)
            _exit(refuses(other, mode_for_all));
        waitpid(child, &status, 0);
        is_int(0, status, "a folder of another user in /dev/shm is refused%s",
               mode_for_all ? ", also where all may write" : "");
    }
    rmdir(path);
}

/* Where the system permits it, a /dev/shm of this test's own: every rank of another job sweeps the common one. */
static void
own_shm(void)
{
    if (unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0)
        mount("none", "/dev/shm", "tmpfs", 0, NULL);
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    own_shm();
    snprintf(runtime, sizeof(runtime), "%s", tap_tmpdir());
    setenv("XDG_RUNTIME_DIR", runtime, 1);
    test_jobs();
    test_agents();
    test_strange_agents();
    test_folders();
    test_owner();
    return 0;
}
