/* SPDX-License-Identifier: MIT */
/*
 * bench: see bench.h. Small sizes are also run back to back, without a barrier in between, because the CPU time of one
 * small operation is below what the kernel's accounting can see.
 */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { RANKS_MAX = 64, SAMPLES_MAX = 1024, SMALL = 64 << 10, MIDDLE = 1 << 20, BIG = 16 << 20, PAGE = 4096 };

static const double WARM_SECONDS = 0.25;

enum { STOPPED = 124, PARTING = 5 }; /* exit status, as timeout(1)'s; seconds a peer may take to end */

/* What the ranks share; bench/compare makes the file, zeroed, anew for each run. */
typedef struct meeting {
    unsigned arrived, generation;
    int broken; /* a rank has given up: nobody waits for it */
    int enough; /* rank 0's verdict after an operation: the time is up */
    int repeats;
    double took[RANKS_MAX], cpu[RANKS_MAX];
    long peak_kb[RANKS_MAX], beyond_kb[RANKS_MAX], before_kb[RANKS_MAX], wrong[RANKS_MAX];
} meeting;

/* One size under measurement. */
typedef struct trial {
    const bench_peer *peer;
    float *data;
    size_t bytes, count;
    double sample[SAMPLES_MAX];
    int samples;
    double first, back_to_back;
    double cpu; /* of this rank, an operation */
    double wire;
} trial;

static meeting *shared;
static int rank, size;
static int sizes_begun;
static long before_kb; /* memory of the process before main */
static size_t largest; /* the largest array so far; there is one at a time */
static char last_words[96];

void
bench_die(const char *what)
{
    if (errno)
        fprintf(stderr, "bench: %s: %s\n", what, strerror(errno));
    else
        fprintf(stderr, "bench: %s\n", what);
    if (shared) {
        __atomic_store_n(&shared->broken, 1, __ATOMIC_RELEASE);
        __atomic_add_fetch(&shared->generation, 1, __ATOMIC_ACQ_REL);
        syscall(SYS_futex, &shared->generation, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
    exit(2);
}

const char *
bench_text(const char *name)
{
    const char *text = getenv(name);
    if (!text) {
        fprintf(stderr, "bench: %s is not set; this program is started by bench/compare\n", name);
        exit(2);
    }
    return text;
}

int
bench_number(const char *name)
{
    return (int)strtol(bench_text(name), NULL, 10);
}

static long
number_or(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtol(text, NULL, 10) : otherwise;
}

static double
now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double
cpu_seconds(void)
{
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) + 1e-6 * (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
}

/* A line of the process's status. Not getrusage's peak, which a program inherits from whoever started it. */
static long
status_kb(const char *name)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long kb = 0;
    while (file && fgets(line, sizeof(line), file))
        if (strncmp(line, name, strlen(name)) == 0)
            kb = strtol(line + strlen(name), NULL, 10);
    if (file)
        fclose(file);
    return kb;
}

/* Bytes sent by all interfaces of this network namespace so far. */
static double
bytes_on_wire(void)
{
    FILE *file = fopen("/proc/net/dev", "r");
    char line[512];
    unsigned long long sent;
    double total = 0;
    while (file && fgets(line, sizeof(line), file)) {
        const char *colon = strchr(line, ':');
        if (colon && sscanf(colon + 1, "%*u %*u %*u %*u %*u %*u %*u %*u %llu", &sent) == 1)
            total += (double)sent;
    }
    if (file)
        fclose(file);
    return total;
}

/* --- time limits --- */

static void
stop(int number)
{
    (void)number;
    ssize_t put = write(STDERR_FILENO, last_words, strlen(last_words));
    (void)put;
    _exit(STOPPED);
}

/* The peer hangs if it has not reached the next limit when this one's seconds are over. 0: nothing to be measured. */
static void
set_limit(long seconds, const char *during, size_t bytes)
{
    alarm(0);
    if (seconds <= 0)
        return;
    snprintf(last_words, sizeof(last_words), "bench: stopped after %ld s of %s %zu bytes\n", seconds, during, bytes);
    alarm((unsigned)seconds);
}

/* Item `index` of BENCH_LIMITS; 0: no limit. */
static long
limit_of(int index)
{
    const char *at = getenv("BENCH_LIMITS");
    for (int i = 0; at && i < index; i++) {
        at = strchr(at, ',');
        at = at ? at + 1 : NULL;
    }
    return at ? strtol(at, NULL, 10) : 0;
}

/* Before main, so that a peer's own initialization is seen and limited. */
__attribute__((constructor)) static void
begin(void)
{
    struct sigaction action = {.sa_handler = stop};
    before_kb = status_kb("VmRSS:");
    sigaction(SIGALRM, &action, NULL);
    set_limit(limit_of(0), "bring-up before", 0);
}

/* --- ranks --- */

void
bench_join(int my_rank, int my_size)
{
    int fd = open(bench_text("BENCH_SHM"), O_RDWR | O_CLOEXEC);
    rank = my_rank;
    size = my_size;
    errno = 0;
    if (size < 1 || size > RANKS_MAX)
        bench_die("1 to 64 ranks can be measured");
    if (fd < 0 || ftruncate(fd, (sizeof(meeting) + PAGE - 1) / PAGE * PAGE) != 0)
        bench_die("cannot open the file BENCH_SHM names");
    void *memory = mmap(NULL, sizeof(meeting), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        bench_die("cannot map the file BENCH_SHM names");
    shared = memory;
    close(fd);
}

/* A rank that gave up has said why; the others have nothing to add. */
static void
leave_if_broken(void)
{
    if (__atomic_load_n(&shared->broken, __ATOMIC_ACQUIRE))
        exit(2);
}

/*
 * Two ranks mostly have a core each and look for a while before they sleep; more of them sleep at once. Without the yield
 * a rank that is done would keep the other one, still in the operation, off a core that they share: 300 us more for it.
 */
void
bench_barrier(void)
{
    unsigned *generation = &shared->generation, mine = __atomic_load_n(generation, __ATOMIC_ACQUIRE);
    double start = now();
    leave_if_broken();
    if (__atomic_add_fetch(&shared->arrived, 1, __ATOMIC_ACQ_REL) == (unsigned)size) {
        __atomic_store_n(&shared->arrived, 0, __ATOMIC_RELEASE);
        __atomic_add_fetch(generation, 1, __ATOMIC_ACQ_REL);
        syscall(SYS_futex, generation, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
        return;
    }
    while (size <= 2 && now() - start < 300e-6 && __atomic_load_n(generation, __ATOMIC_ACQUIRE) == mine)
        sched_yield();
    while (__atomic_load_n(generation, __ATOMIC_ACQUIRE) == mine)
        syscall(SYS_futex, generation, FUTEX_WAIT, mine, NULL, NULL, 0);
    leave_if_broken();
}

/* --- one operation --- */

static double
timed(trial *t)
{
    double start = now();
    t->peer->run(t->peer->context, t->data, t->count);
    return now() - start;
}

/* The slowest rank's `took`, on rank 0, between two barriers. */
static double
slowest(double mine)
{
    double most = 0;
    shared->took[rank] = mine;
    bench_barrier();
    for (int r = 0; r < size && rank == 0; r++)
        most = shared->took[r] > most ? shared->took[r] : most;
    return most;
}

static float
addend(int of_rank, size_t i)
{
    return (float)(of_rank + 1) * (float)(1 + i % 13);
}

static int
is_right(const trial *t, float got, float right)
{
    return fabs((double)got - (double)right) <= t->peer->within * (double)right;
}

bench_kind
bench_kind_wanted(void)
{
    const char *name = getenv("BENCH_KIND");
    if (!name || !*name || strcmp(name, "allreduce") == 0)
        return BENCH_ALLREDUCE;
    if (strcmp(name, "reduce_scatter") == 0)
        return BENCH_REDUCE_SCATTER;
    if (strcmp(name, "allgather") == 0)
        return BENCH_ALLGATHER;
    errno = 0;
    bench_die("BENCH_KIND is allreduce, reduce_scatter or allgather");
}

/* What element i must be afterwards on this rank. */
static float
result(bench_kind kind, size_t each, size_t i)
{
    if (kind == BENCH_ALLGATHER)
        return addend((int)(i / each), i);
    return (float)(size * (size + 1) / 2) * (float)(1 + i % 13);
}

/* The first operation of a size: timed apart, and its result is checked. */
static void
check(trial *t)
{
    bench_kind kind = bench_kind_wanted();
    size_t each = t->count / (size_t)size, own = (size_t)rank * each;
    size_t first = kind == BENCH_REDUCE_SCATTER ? own : 0, count = kind == BENCH_REDUCE_SCATTER ? each : t->count;
    const float *got = t->data + (t->peer->at_start ? 0 : first);
    long wrong = 0;
    for (size_t i = 0; i < t->count; i++)
        t->data[i] = kind == BENCH_ALLGATHER && (i < own || i >= own + each) ? -1 : addend(rank, i);
    bench_barrier();
    t->first = slowest(timed(t));
    for (size_t i = 0; i < count && !t->peer->moves_only; i++)
        wrong += !is_right(t, got[i], result(kind, each, first + i));
    shared->wrong[rank] = wrong;
}

/* --- series --- */

/*
 * Runs operations for WARM_SECONDS; above a MiB only one. Young processes often share a processor for some milliseconds,
 * and a series of small operations would see nothing else.
 */
static void
warm_up(trial *t)
{
    double begun = now();
    shared->enough = 0;
    do {
        memset(t->data, 0, t->bytes);
        bench_barrier();
        timed(t);
        if (rank == 0)
            shared->enough = t->bytes > MIDDLE || now() - begun > WARM_SECONDS;
        bench_barrier();
    } while (!shared->enough);
    bench_barrier(); /* all have read it */
}

static int
wanted_samples(size_t bytes)
{
    long large = number_or("BENCH_LARGE", 4), wanted = large < 12 ? 12 : large;
    if (bytes > BIG)
        wanted = large;
    else if (bytes <= MIDDLE)
        wanted = bytes <= SMALL ? 1000 : 300;
    return wanted < 1 ? 1 : wanted > SAMPLES_MAX ? SAMPLES_MAX : (int)wanted;
}

static void
sample(trial *t)
{
    double begun = now(), cap = (double)number_or("BENCH_CAP", 6), wire = bytes_on_wire(), most;
    int wanted = wanted_samples(t->bytes);
    t->cpu = 0;
    shared->enough = 0;
    for (t->samples = 0; t->samples < wanted && !shared->enough; t->samples++) {
        double cpu, took;
        memset(t->data, 0, t->bytes);
        bench_barrier();
        cpu = t->bytes > MIDDLE ? cpu_seconds() : 0;
        took = timed(t);
        t->cpu += t->bytes > MIDDLE ? cpu_seconds() - cpu : 0;
        most = slowest(took);
        t->sample[t->samples] = most;
        if (rank == 0)
            shared->enough = now() - begun > cap && t->samples > 0;
        bench_barrier();
    }
    t->cpu /= t->samples;
    t->wire = (bytes_on_wire() - wire) / t->samples;
}

/* As many operations as fit a second, 5 to 500, one after the other. */
static void
run_back_to_back(trial *t)
{
    double sum = 0, cpu, start;
    int repeats;
    for (int i = 0; i < t->samples; i++)
        sum += t->sample[i];
    if (rank == 0)
        shared->repeats = sum / t->samples > 0.2 ? 5 : sum / t->samples < 0.002 ? 500 : (int)(t->samples / sum);
    memset(t->data, 0, t->bytes);
    bench_barrier();
    repeats = shared->repeats;
    cpu = cpu_seconds();
    start = now();
    for (int i = 0; i < repeats; i++)
        t->peer->run(t->peer->context, t->data, t->count);
    t->back_to_back = slowest(now() - start) / repeats;
    t->cpu = (cpu_seconds() - cpu) / repeats;
}

/* --- results --- */

static int
by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* One line, name=value; the samples come last and sorted. Returns whether a result was wrong. */
static int
report(trial *t)
{
    double cpu = 0, *s = t->sample;
    long peak = 0, beyond = 0, before = 0, wrong = 0;
    int n = t->samples;
    const char *label = bench_text("BENCH_LABEL");
    for (int r = 0; r < size; r++) {
        cpu += shared->cpu[r];
        wrong += shared->wrong[r];
        peak = shared->peak_kb[r] > peak ? shared->peak_kb[r] : peak;
        if (shared->beyond_kb[r] > beyond) {
            beyond = shared->beyond_kb[r];
            before = shared->before_kb[r];
        }
    }
    qsort(s, (size_t)n, sizeof(*s), by_value);
    printf("RES peer=%s ranks=%d bytes=%zu n=%d first=%.9f median=%.9f back_to_back=%.9f cpu=%.9f peak_kb=%ld "
           "beyond_kb=%ld "
           "before_kb=%ld wrong=%ld wire=%.0f opening=%d samples=",
           label, size, t->bytes, n, t->first, 0.5 * (s[n / 2] + s[(n - 1) / 2]), t->back_to_back, cpu, peak, beyond,
           before, wrong, t->wire, sizes_begun == 1);
    for (int i = 0; i < n; i++)
        printf("%s%.7f", i ? "," : "", s[i]);
    printf("\n");
    fflush(stdout);
    return wrong > 0;
}

static int
run_size(const bench_peer *peer, size_t bytes)
{
    static trial t;
    void *data;
    int bad = 0;
    t = (trial){0};
    t.peer = peer;
    t.count = bytes / sizeof(float);
    t.bytes = t.count * sizeof(float);
    set_limit(limit_of(++sizes_begun), "measuring", t.bytes);
    largest = t.bytes > largest ? t.bytes : largest;
    if (posix_memalign(&data, PAGE, (t.bytes + PAGE) / PAGE * PAGE) != 0)
        bench_die("no memory for the array");
    t.data = (float *)data;
    if (peer->prepare)
        peer->prepare(peer->context, t.data, t.count);
    check(&t);
    warm_up(&t);
    sample(&t);
    if (bytes <= MIDDLE)
        run_back_to_back(&t);
    shared->cpu[rank] = t.cpu;
    shared->peak_kb[rank] = status_kb("VmHWM:");
    shared->beyond_kb[rank] = shared->peak_kb[rank] - (long)(largest / 1024);
    shared->before_kb[rank] = before_kb;
    bench_barrier();
    if (rank == 0)
        bad = report(&t);
    bench_barrier();
    free(data);
    return bad;
}

int
bench_run(const bench_peer *peer)
{
    const char *at = bench_text("BENCH_SIZES");
    int bad = 0;
    while (*at) {
        char *end;
        size_t bytes = strtoull(at, &end, 10);
        if (end == at || bytes < sizeof(float))
            bench_die("BENCH_SIZES is a comma list of bytes, 4 or more");
        bad |= run_size(peer, bytes);
        at = *end == ',' ? end + 1 : end;
    }
    set_limit(limit_of(0) ? PARTING : 0, "parting, after", largest);
    return bad;
}
