/* SPDX-License-Identifier: MIT */
/*
 * keys: while a job runs, no process of it has a key in memory that a core file would show: neither the ranks, nor the
 * launcher with its server, nor the agent, nor hoop-rendezvous. All memory is searched but that of which the kernel says
 * that it is not dumped. Launcher, agent and server leave no core file at all, a rank does. And a forked child of a rank
 * makes a communicator of its own.
 *     keys.t rank FOLDER     is a rank of it: waits for FOLDER/stop
 */
#include "base/mem.h"
#include "hoop.h"
#include "net/secret.h"
#include "t/tap/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 2, NEEDLES = 10, CHUNK = 1 << 20, LONGEST = 2 * HP_SECRET };

static void
nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

/* --- the rank --- */

static int
reduce_once(hoop_comm *comm)
{
    float mine = 1, sum = 0;
    return hoop_allreduce(&mine, &sum, 1, HOOP_FLOAT32, HOOP_SUM, comm) == HOOP_SUCCESS && sum == (float)RANKS;
}

/*
 * In a child of the rank: the inherited communicator is the parent's; one of its own works, where the secret is good for
 * another job.
 */
static int
be_forked(hoop_comm *inherited)
{
    hoop_comm *own = NULL;
    if (hoop_barrier(inherited) != HOOP_ERR_FORKED || hoop_comm_destroy(inherited) != HOOP_ERR_FORKED)
        return 1;
    if (!getenv("HOOP_SECRET_FILE"))
        return 0;
    hoop_config *config = hoop_config_new();
    if (!config || hoop_config_set(config, "job", "children") != HOOP_SUCCESS)
        return 2;
    hoop_result result = hoop_comm_create(&own, config);
    hoop_config_free(config);
    return result == HOOP_SUCCESS && reduce_once(own) && hoop_comm_destroy(own) == HOOP_SUCCESS ? 0 : 3;
}

static void
leave_mark(const char *folder, const char *what)
{
    char path[4200], part[4210];
    snprintf(path, sizeof(path), "%s/%s.%s", folder, what, getenv("HOOP_RANK"));
    snprintf(part, sizeof(part), "%s.part", path);
    FILE *file = fopen(part, "w");
    if (file) {
        fprintf(file, "%ld %ld\n", (long)getpid(), (long)getppid());
        fclose(file);
        rename(part, path);
    }
}

static int
be_rank(const char *folder)
{
    hoop_comm *comm = NULL, *part = NULL;
    char stop[4200];
    int status = 1;
    alarm(120);
    snprintf(stop, sizeof(stop), "%s/stop", folder);
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS || !reduce_once(comm) ||
        hoop_comm_split(comm, 0, 0, &part) != HOOP_SUCCESS || !reduce_once(part))
        return 1;
    pid_t child = fork();
    if (child == 0)
        _exit(be_forked(comm));
    waitpid(child, &status, 0);
    leave_mark(folder, status == 0 ? "ready" : "failed");
    while (access(stop, F_OK) != 0)
        nap();
    return hoop_comm_destroy(part) == HOOP_SUCCESS && hoop_comm_destroy(comm) == HOOP_SUCCESS ? 0 : 1;
}

/* --- what is looked for --- */

typedef struct needle {
    const char *what;
    size_t n;
    uint8_t bytes[LONGEST];
} needle;

static needle needles[NEEDLES];
static int needle_count;

static void
add_needle(const char *what, const void *bytes, size_t n)
{
    needle *next = &needles[needle_count++];
    next->what = what;
    next->n = n;
    memcpy(next->bytes, bytes, n);
}

static void
add_secret(const char *what, const char *digits_what, const hp_secret *secret)
{
    char text[HP_SECRET_TEXT];
    hp_secret_format(text, secret);
    add_needle(what, secret->key, HP_SECRET);
    add_needle(digits_what, text + strlen(text) - 1 - LONGEST, LONGEST);
}

static void
add_keys(const hp_secret *own)
{
    uint8_t salt[32] = "hoop-v1", prk[32];
    hp_keys keys;
    memcpy(salt + 7, own->job_id, HP_JOB_ID_BYTES);
    if (hp_mac(prk, salt, own->key, HP_SECRET) || hp_keys_derive(&keys, own->key, own->job_id, HP_MODE_AUTH, NULL))
        bail("no keys");
    add_secret("S", "S in digits", own);
    add_needle("PRK", prk, 32);
    add_needle("K_hello", keys.hello, 32);
    add_needle("K_resp", keys.resp, 32);
    add_needle("K_init", keys.init, 32);
    add_needle("K_welcome", keys.welcome, 32);
}

/* The needles in these bytes, as words. */
static void
search(const uint8_t *bytes, size_t n, char *found, size_t room)
{
    for (int i = 0; i < needle_count; i++)
        if (memmem(bytes, n, needles[i].bytes, needles[i].n) && !strstr(found, needles[i].what))
            snprintf(found + strlen(found), room - strlen(found), " %s;", needles[i].what);
}

/* --- where --- */

static void
search_range(int memory, unsigned long from, unsigned long to, char *found, size_t room)
{
    static uint8_t bytes[CHUNK + LONGEST];
    for (unsigned long at = from; at < to; at += CHUNK) {
        size_t n = to - at < sizeof(bytes) ? to - at : sizeof(bytes);
        ssize_t got = pread(memory, bytes, n, (off_t)at);
        if (got > 0)
            search(bytes, (size_t)got, found, room);
    }
}

/* All that a core file could hold. 0 where nobody may look, which is as good. */
static int
search_process(pid_t pid, char *found, size_t room)
{
    char path[64], line[512], mode[8] = "";
    unsigned long from = 0, to = 0;
    int ranges = 0;
    *found = 0;
    snprintf(path, sizeof(path), "/proc/%ld/mem", (long)pid);
    int memory = open(path, O_RDONLY | O_CLOEXEC);
    snprintf(path, sizeof(path), "/proc/%ld/smaps", (long)pid);
    FILE *maps = fopen(path, "re");
    while (maps && memory >= 0 && fgets(line, sizeof(line), maps)) {
        if (strchr(line, '-') && strchr(line, '-') < strchr(line, ' ')) /* else a line of words */
            sscanf(line, "%lx-%lx %7s", &from, &to, mode);
        if (strncmp(line, "VmFlags:", 8) != 0 || mode[0] != 'r' || strstr(line, " dd"))
            continue;
        search_range(memory, from, to, found, room);
        ranges++;
    }
    if (maps)
        fclose(maps);
    if (memory >= 0)
        close(memory);
    return ranges;
}

static void
has_no_keys(pid_t pid, const char *who)
{
    char found[256];
    if (search_process(pid, found, sizeof(found)) == 0)
        ok(kill(pid, 0) == 0, "%s: nobody may look into it", who);
    else
        is_string("", found, "%s has no key where a core file would show it", who);
}

/* --- the jobs --- */

static char folder[4096], self[4096];

static pid_t
start(char *const *argv)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int out = open("output", O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(out, 1);
    dup2(out, 2);
    execv(argv[0], argv);
    _exit(127);
}

static int
wait_for_file(const char *name)
{
    for (int i = 0; i < 3000; i++, nap())
        if (access(name, F_OK) == 0)
            return 1;
    return 0;
}

static int
end_of(pid_t pid)
{
    int status = -1;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Its process and the one that started it. */
static void
whose(int rank, long *pid, long *parent)
{
    char name[32];
    snprintf(name, sizeof(name), "ready.%d", rank);
    FILE *file = fopen(name, "re");
    if (!file || fscanf(file, "%ld %ld", pid, parent) != 2)
        bail("no %s", name);
    fclose(file);
}

static void
forget_marks(void)
{
    unlink("stop");
    unlink("ready.0");
    unlink("ready.1");
}

static void
stop_ranks(void)
{
    int fd = open("stop", O_WRONLY | O_CREAT, 0600);
    close(fd);
}

/* Ends the process as a crash would; whether a core file appears. */
static int
leaves_core(pid_t pid)
{
    unlink("core");
    kill(pid, SIGABRT);
    for (tap_wait w = {0}; kill(pid, 0) == 0 && tap_waits(&w);) {
        waitpid(pid, NULL, WNOHANG);
        nap();
    }
    return access("core", F_OK) == 0;
}

static int
cores_are_made(void)
{
    char pattern[8] = "", pid = '1';
    FILE *file = fopen("/proc/sys/kernel/core_pattern", "re");
    FILE *uses_pid = fopen("/proc/sys/kernel/core_uses_pid", "re");
    int plain = file && fgets(pattern, sizeof(pattern), file) && strcmp(pattern, "core\n") == 0;
    plain &= uses_pid && fread(&pid, 1, 1, uses_pid) == 1 && pid == '0';
    struct rlimit limit;
    if (file)
        fclose(file);
    if (uses_pid)
        fclose(uses_pid);
    /* a sanitizer sees to it that there is none */
    if (!plain || tap_sanitized() || getrlimit(RLIMIT_CORE, &limit) != 0 || limit.rlim_max != RLIM_INFINITY)
        return 0;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_CORE, &limit) == 0;
}

static void
search_core(const char *who)
{
    char found[256] = "";
    int fd = open("core", O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0)
        bail("no core file");
    search_range(fd, 0, (unsigned long)st.st_size, found, sizeof(found));
    close(fd);
    is_string("", found, "%s: no key in its core file of %lld bytes", who, (long long)st.st_size);
}

static pid_t
start_hooprun(void)
{
    char launcher[4200], script[9000];
    snprintf(launcher, sizeof(launcher), "%s/bin/hooprun", getenv("abs_top_builddir"));
    snprintf(script, sizeof(script),
             "cat <&3 >part.$HOOP_RANK && mv part.$HOOP_RANK secret.$HOOP_RANK; exec \"%s\" rank \"%s\"", self, folder);
    char *argv[] = {launcher, "-n", "2", "sh", "-c", script, NULL};
    pid_t pid = start(argv);
    if (!wait_for_file("ready.0") || !wait_for_file("ready.1"))
        bail("no job");
    return pid;
}

static void
under_hooprun(void)
{
    long pid[RANKS], agent;
    hp_secret own;
    forget_marks();
    pid_t launcher = start_hooprun();
    if (chmod("secret.0", 0600) != 0 || hp_secret_from_file(&own, "secret.0", NULL) || !own.of_job)
        bail("no secret");
    add_keys(&own);
    for (int i = 0; i < RANKS; i++) {
        whose(i, &pid[i], &agent);
        has_no_keys((pid_t)pid[i], "a rank under hooprun");
    }
    has_no_keys((pid_t)agent, "its agent");
    has_no_keys(launcher, "the launcher with its server");
    char found[256] = "";
    search((const uint8_t *)&own, sizeof(own), found, sizeof(found));
    is_string(" S;", found, "the search would find it");
    stop_ranks();
    is_int(0, end_of(launcher), "the job ends well, and so did the ranks' forked children");
}

static void
cores(void)
{
    long pid, agent;
    if (!cores_are_made()) {
        skip(4, "the system writes no core files into the current folder: sysctl kernel.core_pattern=core "
                "kernel.core_uses_pid=0, ulimit -c unlimited, and no sanitizer");
        return;
    }
    forget_marks();
    needle_count = 0;
    pid_t launcher = start_hooprun();
    hp_secret own;
    if (chmod("secret.0", 0600) != 0 || hp_secret_from_file(&own, "secret.0", NULL))
        bail("no secret");
    add_keys(&own);
    whose(0, &pid, &agent);
    ok(!leaves_core((pid_t)agent), "an agent that crashes leaves no core file");
    end_of(launcher);
    forget_marks();
    launcher = start_hooprun();
    ok(!leaves_core(launcher), "nor does a launcher");
    forget_marks();
    needle_count = 0;
    launcher = start_hooprun();
    if (chmod("secret.0", 0600) != 0 || hp_secret_from_file(&own, "secret.0", NULL))
        bail("no secret");
    add_keys(&own);
    whose(0, &pid, &agent);
    if (ok(leaves_core((pid_t)pid), "a rank does: it is the user's own program"))
        search_core("a rank");
    end_of(launcher);
}

static void
write_file(const char *name, const char *text)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) || close(fd) != 0)
        bail("cannot write %s", name);
}

/* What the server says that it listens on. */
static void
read_address(char *address, size_t n)
{
    char line[256];
    for (int i = 0; i < 1000 && !*address; i++, nap()) {
        FILE *file = fopen("output", "re");
        while (file && fgets(line, sizeof(line), file)) {
            const char *at = strstr(line, "listening on ");
            if (at && strchr(line, '\n'))
                snprintf(address, n, "%.*s", (int)strcspn(at + 13, "\n"), at + 13);
        }
        if (file)
            fclose(file);
    }
}

static void
under_rendezvous(void)
{
    char program[4200], path[4200], text[HP_SECRET_TEXT], address[128] = "", rank[8];
    uint8_t job_id[HP_JOB_ID_BYTES];
    hp_secret secret = {0}, own;
    pid_t ranks[RANKS];
    forget_marks();
    unlink("output");
    needle_count = 0;
    if (hp_random(secret.key, HP_SECRET, NULL) || hp_job_id(job_id, "by hand", NULL) ||
        hp_secret_of_job(&own, &secret, job_id, NULL))
        bail("no secret");
    hp_secret_format(text, &secret);
    write_file("ring.secret", text);
    add_secret("K", "K in digits", &secret);
    add_keys(&own);
    snprintf(program, sizeof(program), "%s/bin/hoop-rendezvous", getenv("abs_top_builddir"));
    snprintf(path, sizeof(path), "%s/ring.secret", folder);
    char *server_argv[] = {program, "--secret-file", path, NULL}, *rank_argv[] = {self, "rank", folder, NULL};
    pid_t server = start(server_argv);
    read_address(address, sizeof(address));
    setenv("HOOP_RENDEZVOUS", address, 1);
    setenv("HOOP_SECRET_FILE", path, 1);
    setenv("HOOP_JOB", "by hand", 1);
    setenv("HOOP_SIZE", "2", 1);
    for (int i = 0; i < RANKS; i++) {
        snprintf(rank, sizeof(rank), "%d", i);
        setenv("HOOP_RANK", rank, 1);
        ranks[i] = start(rank_argv);
    }
    if (!wait_for_file("ready.0") || !wait_for_file("ready.1"))
        bail("no job");
    has_no_keys(server, "hoop-rendezvous");
    for (int i = 0; i < RANKS; i++)
        has_no_keys(ranks[i], "a rank that was started by hand");
    stop_ranks();
    for (int i = 0; i < RANKS; i++)
        is_int(0, end_of(ranks[i]), "which ends well");
    kill(server, SIGTERM);
    is_int(0, end_of(server), "and so does the server");
}

int
main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "rank") == 0)
        return be_rank(argv[2]);
    tap_limit(240);
    plan_lazy();
    if (!getenv("abs_top_builddir") || readlink("/proc/self/exe", self, sizeof(self) - 1) <= 0)
        bail("abs_top_builddir is not set");
    snprintf(folder, sizeof(folder), "%s", tap_tmpdir());
    if (chdir(folder) != 0)
        bail("no folder");
    under_hooprun();
    under_rendezvous();
    unsetenv("HOOP_RENDEZVOUS");
    cores();
    return 0;
}
