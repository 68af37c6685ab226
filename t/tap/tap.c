/* SPDX-License-Identifier: MIT */
/*
 * tap.c - a small TAP producer for tests written in C.
 *
 * Each line leaves in one write(2), unbuffered, so that forks duplicate nothing and a crash loses nothing. One mutex
 * guards the counters; it is held across fork(), so that a child never inherits it locked by a thread that is not
 * there.
 */
#include "t/tap/tap.h"

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES = 2048, CASES = 20, PATIENCE_S = 30, ROOM_S = 5, SCENES = 32 };

static struct {
    pthread_mutex_t lock;
    pid_t owner;           /* the process that prints; 0 before the plan */
    bool lazy;             /* the plan is printed at the end */
    unsigned long planned; /* checks announced */
    unsigned long run;     /* checks done */
    unsigned long failed;
    char folder[256]; /* made by tap_tmpdir, to be removed; empty when it was given to us */
} tap = {.lock = PTHREAD_MUTEX_INITIALIZER};

static pthread_once_t seed_once = PTHREAD_ONCE_INIT;
static uint64_t seed;
static _Atomic uint64_t random_state;
static atomic_bool seeded;
static atomic_int cases; /* that failed since the last check */
static atomic_int noted; /* by tap_note */

static void
write_all(const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t n = write(STDOUT_FILENO, text, bytes);
        if (n < 0 && errno != EINTR)
            return;
        if (n > 0) {
            text += n;
            bytes -= (size_t)n;
        }
    }
}

static void say(const char *head, bool comment, const char *fmt, va_list args) TAP_PRINTF(3, 0);
static bool check(bool passed, const char *fmt, va_list args) TAP_PRINTF(2, 0);

/* One line: the head, then the formatted text with line ends and '#' (a directive in TAP) made harmless. */
static void
say(const char *head, bool comment, const char *fmt, va_list args)
{
    char line[LINE_BYTES];
    size_t used = (size_t)snprintf(line, sizeof(line), "%s", head);
    size_t start = used;
    int n = vsnprintf(line + used, sizeof(line) - used - 1, fmt, args);
    used += n < 0 ? 0 : (size_t)n;
    if (used > sizeof(line) - 2)
        used = sizeof(line) - 2;
    for (char *c = line + start; c < line + used; c++) {
        if (*c == '\n' || (*c == '#' && !comment))
            *c = ' ';
    }
    line[used++] = '\n';
    write_all(line, used);
}

static void
say_plan(unsigned long count)
{
    char line[64];
    int n = snprintf(line, sizeof(line), "1..%lu\n", count);
    write_all(line, (size_t)n);
}

static bool
is_owner(void)
{
    return tap.owner == getpid();
}

static void
before_fork(void)
{
    pthread_mutex_lock(&tap.lock);
}

static void
after_fork_parent(void)
{
    pthread_mutex_unlock(&tap.lock);
}

/* A child starts with no failures of its own. */
static void
after_fork_child(void)
{
    tap.failed = 0;
    cases = 0;
    pthread_mutex_unlock(&tap.lock);
}

static int
remove_entry(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    return remove(path);
}

/* The exit status says what the lines say. */
static void
at_end(void)
{
    if (!is_owner())
        return;
    if (tap.folder[0] != '\0')
        nftw(tap.folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    if (tap.lazy)
        say_plan(tap.run);
    bool complete = tap.lazy || tap.run == tap.planned;
    if (!complete)
        diag("planned %lu checks, ran %lu", tap.planned, tap.run);
    if (tap.failed > 0 || !complete) {
        diag("%lu of %lu failed", tap.failed, tap.run);
        fflush(NULL);
        _exit(1);
    }
}

static void
begin(void)
{
    if (tap.owner != 0)
        bail("plan() was called twice");
    tap.owner = getpid();
    pthread_atfork(before_fork, after_fork_parent, after_fork_child);
    atexit(at_end);
}

void
plan(unsigned long count)
{
    begin();
    tap.planned = count;
    say_plan(count);
}

void
plan_lazy(void)
{
    begin();
    tap.lazy = true;
}

void
skip_all(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    say("1..0 # SKIP ", false, fmt, args);
    va_end(args);
    exit(0);
}

static bool
check(bool passed, const char *fmt, va_list args)
{
    char head[64];
    if (tap.owner == 0)
        bail("a check came before plan()");
    pthread_mutex_lock(&tap.lock);
    cases = 0;
    if (!passed)
        tap.failed++;
    if (is_owner()) {
        tap.run++;
        snprintf(head, sizeof(head), "%s %lu - ", passed ? "ok" : "not ok", tap.run);
        say(head, false, fmt, args);
    } else if (!passed) {
        snprintf(head, sizeof(head), "# child %ld failed: ", (long)getpid());
        say(head, true, fmt, args);
    }
    pthread_mutex_unlock(&tap.lock);
    return passed;
}

/* Runs check() on the variable arguments of the caller and gives its verdict. */
#define CHECK(passed, fmt)                                                                                             \
    do {                                                                                                               \
        va_list args;                                                                                                  \
        va_start(args, fmt);                                                                                           \
        check((passed), (fmt), args);                                                                                  \
        va_end(args);                                                                                                  \
    } while (0)

bool
ok(bool condition, const char *fmt, ...)
{
    CHECK(condition, fmt);
    return condition;
}

bool
is_int(intmax_t wanted, intmax_t seen, const char *fmt, ...)
{
    CHECK(wanted == seen, fmt);
    if (wanted != seen)
        diag("wanted %jd, saw %jd", wanted, seen);
    return wanted == seen;
}

bool
is_uint(uintmax_t wanted, uintmax_t seen, const char *fmt, ...)
{
    CHECK(wanted == seen, fmt);
    if (wanted != seen)
        diag("wanted %ju (0x%jx), saw %ju (0x%jx)", wanted, wanted, seen, seen);
    return wanted == seen;
}

bool
is_string(const char *wanted, const char *seen, const char *fmt, ...)
{
    bool passed = wanted == seen || (wanted && seen && strcmp(wanted, seen) == 0);
    CHECK(passed, fmt);
    if (!passed) {
        diag("wanted \"%s\"", wanted ? wanted : "(null)");
        diag("saw    \"%s\"", seen ? seen : "(null)");
    }
    return passed;
}

bool
is_blob(const void *wanted, const void *seen, size_t bytes, const char *fmt, ...)
{
    const unsigned char *a = wanted, *b = seen;
    bool passed = bytes == 0 || memcmp(wanted, seen, bytes) == 0;
    CHECK(passed, fmt);
    if (!passed) {
        size_t at = 0, differ = 0;
        for (size_t i = bytes; i-- > 0;) {
            if (a[i] != b[i]) {
                at = i;
                differ++;
            }
        }
        diag("%zu of %zu bytes differ; the first at %zu: wanted %02x, saw %02x", differ, bytes, at, a[at], b[at]);
    }
    return passed;
}

static void say_case(const char *seen, const char *fmt, va_list args) TAP_PRINTF(2, 0);

static void
say_case(const char *seen, const char *fmt, va_list args)
{
    char text[LINE_BYTES / 2], of_seed[32] = "";
    int number = atomic_fetch_add(&cases, 1) + 1;
    if (number > CASES)
        return;
    if (seeded)
        snprintf(of_seed, sizeof(of_seed), ", seed %" PRIu64, seed);
    vsnprintf(text, sizeof(text), fmt, args);
    diag("failed%s: %s%s%s", of_seed, text, seen, number == CASES ? " (no further cases are printed)" : "");
}

bool
case_ok(bool holds, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    if (!holds)
        say_case("", fmt, args);
    va_end(args);
    return holds;
}

bool
case_int(intmax_t wanted, intmax_t seen, const char *fmt, ...)
{
    char both[96];
    va_list args;
    snprintf(both, sizeof(both), ": wanted %jd, saw %jd", wanted, seen);
    va_start(args, fmt);
    if (wanted != seen)
        say_case(both, fmt, args);
    va_end(args);
    return wanted == seen;
}

void
tap_note(bool holds)
{
    if (!holds)
        atomic_fetch_add(&noted, 1);
}

int
tap_noted(void)
{
    return atomic_load(&noted);
}

void
skip(unsigned long count, const char *fmt, ...)
{
    char head[64];
    pthread_mutex_lock(&tap.lock);
    for (unsigned long i = 0; i < count && is_owner(); i++) {
        va_list args;
        va_start(args, fmt);
        snprintf(head, sizeof(head), "ok %lu # SKIP ", ++tap.run);
        say(head, false, fmt, args);
        va_end(args);
    }
    pthread_mutex_unlock(&tap.lock);
}

void
diag(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    say("# ", true, fmt, args);
    va_end(args);
}

void
bail(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    say(tap.owner == 0 || is_owner() ? "Bail out! " : "# child bails out: ", true, fmt, args);
    va_end(args);
    fflush(NULL);
    _exit(255);
}

unsigned long
tap_failures(void)
{
    pthread_mutex_lock(&tap.lock);
    unsigned long failed = tap.failed;
    pthread_mutex_unlock(&tap.lock);
    return failed;
}

static void
on_alarm(int signal_number)
{
    static const char text[] = "Bail out! the time limit of this test has passed\n";
    if (write(STDOUT_FILENO, text, sizeof(text) - 1) < 0)
        _exit(125);
    _exit(124);
}

unsigned
tap_time_factor(void)
{
    const char *factor = getenv("HOOP_TEST_TIME_FACTOR");
    unsigned long times = factor ? strtoul(factor, NULL, 10) : 1;
    return times > 0 ? (unsigned)times : 1;
}

bool
tap_waits(tap_wait *wait)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    double now = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    if (wait->end <= 0)
        wait->end = now + PATIENCE_S * tap_time_factor();
    return now < wait->end;
}

double
tap_room(void)
{
    return ROOM_S * tap_time_factor();
}

void
tap_limit(unsigned seconds)
{
    struct sigaction action = {.sa_handler = on_alarm};
    sigemptyset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    alarm(seconds * tap_time_factor());
}

bool
tap_sanitized(void)
{
    const char *which = getenv("HOOP_TEST_SANITIZE");
    return which && *which != '\0' && strcmp(which, "no") != 0;
}

static void
choose_seed(void)
{
    const char *given = getenv("HOOP_TEST_SEED");
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    seed = (uint64_t)now.tv_nsec * 1000003u ^ (uint64_t)now.tv_sec << 20 ^ (uint64_t)getpid();
    if (given && *given != '\0')
        seed = strtoull(given, NULL, 0);
    atomic_store(&random_state, seed);
    seeded = true;
    diag("seed %" PRIu64, seed);
}

uint64_t
tap_seed(void)
{
    pthread_once(&seed_once, choose_seed);
    return seed;
}

/* splitmix64 (Steele, Lea, Flood 2014): a counter and a mixer, hence safe and cheap with threads. */
#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

uint64_t
tap_random(void)
{
    tap_seed();
    return tap_mix(atomic_fetch_add(&random_state, GOLDEN));
}

uint64_t
tap_pick(uint64_t below)
{
    return tap_random() % below;
}

void
tap_shuffle(int *order, int n)
{
    for (int i = 0; i < n; i++) {
        int j = (int)tap_pick((uint64_t)i + 1);
        order[i] = order[j];
        order[j] = i;
    }
}

const char *
tap_tmpdir(void)
{
    const char *given = getenv("HOOP_TEST_TMP");
    if (given && *given != '\0')
        return given;
    if (tap.folder[0] == '\0') {
        const char *parent = getenv("TMPDIR");
        snprintf(tap.folder, sizeof(tap.folder), "%s/hoop-test.XXXXXX", parent ? parent : "/tmp");
        if (!mkdtemp(tap.folder))
            bail("no scratch folder %s: %s", tap.folder, strerror(errno));
    }
    return tap.folder;
}

/* --- scenes --- */

static void be_scene(void (*play)(int scene), int scene, int out) __attribute__((noreturn));

/* Writes to the test, which numbers its lines. A scene that dies fails the test by its status. */
static void
be_scene(void (*play)(int scene), int scene, int out)
{
    char folder[300];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(folder, sizeof(folder), "%s/scene.%d.%ld", tap_tmpdir(), scene, (long)getpid());
    if (mkdir(folder, 0700) != 0 || setenv("HOOP_TEST_TMP", folder, 1) != 0 || dup2(out, STDOUT_FILENO) < 0)
        bail("no scratch folder %s: %s", folder, strerror(errno));
    close(out);
    atomic_store(&random_state, tap_mix(seed + (uint64_t)scene));
    tap.owner = getpid();
    play(scene);
    fflush(NULL);
    _exit(0);
}

/* The lines of all scenes: each comes in one piece. */
static void
tell_lines(FILE *from)
{
    char *line = NULL, text[LINE_BYTES + 32];
    size_t room = 0;
    while (getline(&line, &room, from) > 0) {
        bool failed = strncmp(line, "not ok ", 7) == 0, passed = strncmp(line, "ok ", 3) == 0;
        const char *rest = failed || passed ? strchr(line + (failed ? 7 : 3), ' ') : NULL;
        tap.run += rest != NULL;
        tap.failed += rest && failed;
        if (rest)
            snprintf(text, sizeof(text), "%s %lu%s", failed ? "not ok" : "ok", tap.run, rest);
        else
            snprintf(text, sizeof(text), "%s", line);
        write_all(text, strlen(text));
    }
    free(line);
}

void
tap_scenes(int n, void (*play)(int scene))
{
    pid_t pid[SCENES];
    int tube[2], status;
    tap_seed();
    tap_tmpdir();
    fflush(NULL);
    if (n > SCENES || pipe(tube) != 0)
        bail("%d scenes, or no pipe: %s", n, strerror(errno));
    for (int scene = 0; scene < n; scene++) {
        pid[scene] = fork();
        if (pid[scene] < 0)
            bail("cannot fork scene %d: %s", scene, strerror(errno));
        if (pid[scene] == 0)
            be_scene(play, scene, tube[1]);
    }
    close(tube[1]);
    FILE *from = fdopen(tube[0], "r");
    tell_lines(from);
    fclose(from);
    for (int scene = 0; scene < n; scene++)
        if (waitpid(pid[scene], &status, 0) != pid[scene] || status != 0)
            ok(false, "scene %d ended with status %#x", scene, (unsigned)status);
}
