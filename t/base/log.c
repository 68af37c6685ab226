/* SPDX-License-Identifier: MIT */
/* log: where lines go, which go, how many go; whole lines from many threads; nothing on descriptor 1. */
#include "base/log.h"

#include "t/tap/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 8, LINES = 200 };

static char seen[1 << 18];
static int saved_out, saved_err;

static int
capture_file(const char *name)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", tap_tmpdir(), name);
    return open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
}

/* From here on descriptors 1 and 2 are files; `seen` gets what standard error has between begin and end. */
static void
begin(int out, int err)
{
    fflush(stdout);
    saved_out = dup(1);
    saved_err = dup(2);
    dup2(out, 1);
    dup2(err, 2);
}

static void
end(int out, int err)
{
    ssize_t got;
    dup2(saved_out, 1);
    dup2(saved_err, 2);
    close(saved_out);
    close(saved_err);
    got = pread(err, seen, sizeof(seen) - 1, 0);
    seen[got > 0 ? got : 0] = '\0';
    if (ftruncate(err, 0) != 0)
        bail("cannot empty the file that stands for standard error");
    is_int(0, (int)lseek(out, 0, SEEK_END), "nothing was written to standard output");
}

static void
check_lines(int out, int err)
{
    int number;
    begin(out, err);
    hp_log(HP_LOG_WARN, "rank %d is late", 3);
    hp_log(HP_LOG_INFO, "not shown by default");
    hp_log_prefix("node2:811 [3]");
    hp_log_level(HP_LOG_INFO);
    errno = ENOENT;
    hp_log(HP_LOG_INFO, "one\ntwo\x7f\x1b[31m");
    number = errno;
    hp_log(HP_LOG_TRACE, "not shown at INFO");
    end(out, err);
    is_int(ENOENT, number, "errno is left alone");
    is_string("hoop WARN rank 3 is late\nnode2:811 [3] hoop INFO one?two??[31m\n", seen,
              "levels, prefix, and control characters made harmless");
}

static void
check_levels(void)
{
    hp_log_level(HP_LOG_NONE);
    ok(!hp_log_enabled(HP_LOG_WARN), "NONE silences warnings");
    hp_log_level(HP_LOG_TRACE);
    ok(hp_log_enabled(HP_LOG_WARN) && hp_log_enabled(HP_LOG_TRACE), "TRACE shows all");
    hp_log_level(HP_LOG_WARN);
    ok(hp_log_enabled(HP_LOG_WARN) && !hp_log_enabled(HP_LOG_INFO), "WARN shows warnings only");
}

static void
check_long(int out, int err)
{
    char text[4000], prefix[200];
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    memset(prefix, 'p', sizeof(prefix));
    prefix[sizeof(prefix) - 1] = '\0';
    begin(out, err);
    hp_log_prefix(prefix);
    hp_log(HP_LOG_WARN, "%s", text);
    hp_log_prefix(NULL);
    end(out, err);
    ok(strlen(seen) > 900 && strlen(seen) < 1200 && strchr(seen, '\n') == seen + strlen(seen) - 1,
       "a very long line is cut and still one line (%zu bytes)", strlen(seen));
    is_uint(63, strspn(seen, "p"), "a prefix has 63 bytes at most");
}

static void
keep(void *arg, int level, const char *line)
{
    snprintf(arg, 100, "%d|%s", level, line);
    hp_log(HP_LOG_WARN, "from within");
}

static void
check_function(int out, int err)
{
    char kept[100] = "";
    begin(out, err);
    hoop_log_to(keep, kept);
    hp_log(HP_LOG_WARN, "to the program");
    hoop_log_to(NULL, NULL);
    hp_log(HP_LOG_WARN, "back again");
    end(out, err);
    is_string("1|hoop WARN to the program", kept, "the program's function gets level and line, without a newline");
    is_string("hoop WARN from within\nhoop WARN back again\n", seen,
              "a line logged from within it, and lines after it, go to standard error");
}

static size_t
count(const char *what)
{
    size_t found = 0;
    for (const char *at = seen; (at = strstr(at, what)); at++)
        found++;
    return found;
}

static void
check_rate(int out, int err)
{
    static const char flood[] = "flood", other[] = "other";
    begin(out, err);
    for (int i = 0; i < 500; i++)
        hp_log_class(flood, HP_LOG_WARN, "stranger %d knocked", i);
    hp_log_class(other, HP_LOG_WARN, "something else");
    nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 100000000}, NULL);
    hp_log_class(flood, HP_LOG_WARN, "and later");
    end(out, err);
    ok(count("knocked") >= 10 && count("knocked") <= 30, "500 lines of a class at once are about 10 (%zu)",
       count("knocked"));
    is_uint(1, count("something else"), "another class is not held back");
    ok(strstr(seen, "and later (and 4") != NULL, "the next line says how many were dropped");
}

static void
check_classes(int out, int err)
{
    static const char names[100][4];
    begin(out, err);
    for (int i = 0; i < 300; i++)
        hp_log_class(names[i % 100], HP_LOG_WARN, "class %d", i % 100);
    end(out, err);
    is_uint(300, count("class"), "a hundred classes, few lines each: none is lost");
}

static void *
chatter(void *arg)
{
    for (int i = 0; i < LINES; i++)
        hp_log(HP_LOG_WARN, "<%d %d aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa>",
               *(int *)arg, i);
    return NULL;
}

static void
check_threads(int out, int err)
{
    pthread_t threads[THREADS];
    int number[THREADS];
    size_t whole = 0;
    begin(out, err);
    for (int i = 0; i < THREADS; i++) {
        number[i] = i;
        pthread_create(&threads[i], NULL, chatter, &number[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    end(out, err);
    for (char *line = strtok(seen, "\n"); line; line = strtok(NULL, "\n"))
        whole += strncmp(line, "hoop WARN <", 11) == 0 && strcspn(line, ">") == strlen(line) - 1;
    is_uint(THREADS * LINES, whole, "lines of 8 threads are whole");
}

/* In a child: what is written to the closed descriptor must neither end it nor go into the next file that takes its
 * number. */
static void
check_deaf(void)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        close(2);
        hp_log(HP_LOG_WARN, "this line is lost");
        _exit(fcntl(2, F_GETFD) != -1);
    }
    waitpid(child, &status, 0);
    is_int(0, status, "a warning with standard error closed neither ends the process nor opens descriptor 2");
}

static double
seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int
fill(int fd)
{
    static const char bytes[4096];
    int total = 0;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    for (size_t n = sizeof(bytes); n > 0; n /= 2)
        for (ssize_t wrote; (wrote = write(fd, bytes, n)) > 0;)
            total += (int)wrote;
    fcntl(fd, F_SETFL, 0);
    return total;
}

static void
drain(int fd, int total)
{
    static char bytes[1 << 17];
    for (ssize_t n;
         total > 0 && (n = read(fd, bytes, (size_t)total < sizeof(bytes) ? (size_t)total : sizeof(bytes))) > 0;)
        total -= (int)n;
}

/* Standard error is a pipe that nobody reads, full or with room for half a line, and later is read again. */
static void
check_full(int room)
{
    int ends[2];
    char line[4096] = "";
    if (pipe(ends) != 0)
        bail("no pipe");
    int total = fill(ends[1]), err = dup(2);
    if (room) {
        drain(ends[0], 4096);
        if (write(ends[1], line, 4096 - (size_t)room) != 4096 - room)
            bail("the pipe has less room than was read");
        total -= room;
    }
    dup2(ends[1], 2);
    double begin = seconds();
    for (int i = 0; i < 300; i++)
        hp_log(HP_LOG_WARN, "%0*d", room ? 1000 : 1, i);
    double took = seconds() - begin;
    int flags = fcntl(2, F_GETFL);
    drain(ends[0], total);
    hp_log(HP_LOG_WARN, "again");
    ssize_t n = read(ends[0], line, sizeof(line) - 1);
    line[n > 0 ? n : 0] = '\0';
    dup2(err, 2);
    close(err);
    close(ends[0]);
    close(ends[1]);
    ok(took < 2 + tap_room(), "300 lines for a pipe with room for %d bytes that nobody reads take %.2f s", room, took);
    ok(!(flags & O_NONBLOCK), "and those who share it may wait for it as before");
    ok(strstr(line, "hoop WARN again (") && strstr(line, "lines before it are lost"),
       "the next one gives their number: %s", line);
}

int
main(void)
{
    int out, err;
    tap_limit(240);
    plan_lazy();
    out = capture_file("out");
    err = capture_file("err");
    check_lines(out, err);
    hp_log_prefix(NULL);
    check_levels();
    check_long(out, err);
    check_function(out, err);
    check_rate(out, err);
    check_classes(out, err);
    check_threads(out, err);
    check_deaf();
    check_full(0);
    check_full(500);
    close(out);
    close(err);
    return 0;
}
