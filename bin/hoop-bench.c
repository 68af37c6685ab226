/* SPDX-License-Identifier: MIT */
/*
 * hoop-bench: times and checks the collectives, with nccl-tests' face. This file owns the run: which collectives,
 * types, operations, roots and sizes; warm-up, timing and checking of one of them. What a collective looks like in
 * memory is in perf_coll, what is right in perf_pattern and perf_check, what is printed in perf_table and its
 * neighbours.
 *
 * All ranks do the same; rank 0 alone prints results. An error of the library ends the program with its sentence.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "gpu/gpu.h"
#include "perf/check.h"
#include "perf/options.h"
#include "perf/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct bench {
    perf_options options;
    perf_report report;
    hoop_comm *comm;
    int rank, ranks;
    perf_buffer send, recv;
    perf_check check;
    double *samples; /* seconds of each timed run, then those of the rank that options.average names */
    uint64_t seed;   /* another one for every checked run */
    FILE *json;
    int terminal; /* standard error is one */
    int progress; /* a progress line stands there */
    int row_open; /* a row of the table has begun, and not ended */
} bench;

/* One line of the table in the making. */
typedef struct task {
    const perf_coll *coll;
    const perf_type *type;
    int op, root;
    perf_row row;
} task;

static void
need(const bench *b, hoop_result result)
{
    hoop_error error = {.size = sizeof(error)};
    if (result == HOOP_SUCCESS)
        return;
    hoop_comm_error(b->comm, &error);
    if (b->row_open)
        perf_table_end();
    fprintf(stderr, "hoop-bench: %s\n", error.text[0] != '\0' ? error.text : hoop_strerror(result));
    exit(1);
}

/* A mistake that all ranks notice alike: one of them says so. */
static void
refuse(bench *b, int status, const char *sentence)
{
    if (b->rank == 0)
        fprintf(stderr, "hoop-bench: %s\n", sentence);
    hoop_comm_destroy(b->comm);
    exit(status);
}

/* One rank alone is in trouble: the others must not wait for it. */
static void
abandon(const bench *b, const char *sentence)
{
    fprintf(stderr, "hoop-bench: rank %d %s\n", b->rank, sentence);
    hoop_comm_abort(b->comm, sentence);
    exit(1);
}

static double
seconds(uint64_t from, uint64_t to)
{
    return (double)(to - from) / (double)HP_SEC;
}

/* hooprun reads our output through pipes and tells whether descriptor fd ends at a terminal of its own. */
static int
is_behind_pipe(int fd)
{
    const char *terminals = getenv("HOOPRUN_TTY");
    return !isatty(fd) && terminals && strchr(terminals, '0' + fd) != NULL;
}

/* --- one row --- */

/*
 * On a terminal of our own, behind the row in the making, the cursor goes back to where it was; on hooprun's, which
 * takes whole lines only, a line now and then.
 */
static void
show_progress(bench *b, const task *t, int done, uint64_t start, uint64_t *shown)
{
    uint64_t now = hp_now();
    int own = b->terminal, of = b->options.iterations;
    if (b->rank != 0 || now - start < HP_SEC || now - *shown < (own ? HP_SEC / 4 : 5 * HP_SEC))
        return;
    double left = seconds(start, now) / done * (of - done);
    *shown = now;
    if (own)
        fprintf(stderr, "\0337  run %d of %d, %.0f s to go\033[K\0338", done, of, left);
    else if (is_behind_pipe(STDERR_FILENO))
        fprintf(stderr, "# %s of %zu bytes: run %d of %d, %.0f s to go\n", t->coll->name, t->row.bytes, done, of, left);
    b->progress = own;
}

static void
end_progress(bench *b)
{
    if (b->progress)
        fprintf(stderr, "\033[K");
    b->progress = 0;
}

/* The timed runs: fills b->samples and returns the seconds of all of them. */
static double
run_timed(bench *b, const task *t, const perf_call *call)
{
    int barrier = b->options.blocking == 1 || b->options.blocking == 3;
    uint64_t start = hp_now(), shown = start;
    double sum = 0;
    for (int i = 0; i < b->options.iterations; i++) {
        uint64_t before = hp_now();
        need(b, t->coll->run(call));
        b->samples[i] = seconds(before, hp_now());
        sum += b->samples[i];
        if (barrier)
            need(b, hoop_barrier(b->comm));
        show_progress(b, t, i + 1, start, &shown);
    }
    return b->options.blocking == 3 ? sum : seconds(start, hp_now());
}

/* Which rank's times count: 0 rank 0's own, 1 their mean, 2 the fastest, 3 the slowest rank. */
static void
agree(bench *b, double *times, size_t count)
{
    static const hoop_op ops[] = {HOOP_SUM, HOOP_AVG, HOOP_MIN, HOOP_MAX};
    if (b->options.average != 0)
        need(b, hoop_allreduce(times, times, count, HOOP_FLOAT64, ops[b->options.average], b->comm));
}

static void
time_side(bench *b, task *t, const perf_call *call, perf_side *side)
{
    uint64_t before;
    double all;
    need(b, hoop_barrier(b->comm));
    before = hp_now();
    need(b, t->coll->run(call));
    side->first = seconds(before, hp_now());
    for (int i = 0; i < b->options.warmup; i++)
        need(b, t->coll->run(call));
    need(b, hoop_barrier(b->comm));
    all = run_timed(b, t, call);
    need(b, hoop_barrier(b->comm));
    agree(b, &side->first, 1);
    agree(b, &all, 1);
    agree(b, b->samples, (size_t)b->options.iterations);
    side->stats = perf_stats_of(b->samples, (size_t)b->options.iterations);
    side->time = all / b->options.iterations;
    side->algbw = side->time > 0 ? (double)t->row.bytes / side->time / 1e9 : 0;
    side->busbw = side->algbw * perf_coll_bus_factor(t->coll, b->ranks);
}

/* Runs with a pattern of its own each time, until one is wrong. */
static void
check_side(bench *b, const task *t, const perf_call *call, int in_place, perf_side *side)
{
    perf_check *c = &b->check;
    c->coll = t->coll;
    c->call = call;
    c->in_place = in_place;
    c->pattern = (perf_pattern){.type = t->type, .op = t->coll->reduces ? t->op : -1, .ranks = b->ranks};
    side->wrong = 0;
    for (int i = 0; i < b->options.check && side->wrong == 0; i++) {
        c->pattern.seed = ++b->seed;
        perf_check_fill(c);
        need(b, t->coll->run(call));
        side->wrong = perf_check_wrong(c);
        need(b, hoop_allreduce(&side->wrong, &side->wrong, 1, HOOP_UINT64, HOOP_SUM, b->comm));
    }
}

static void
measure_side(bench *b, task *t, int in_place)
{
    perf_call call = {.send = b->send.data, .recv = b->recv.data, .count = t->row.count, .dtype = t->type->dtype};
    call.op = t->op < 0 ? HOOP_SUM : (hoop_op)t->op;
    call.root = t->root < 0 ? 0 : t->root;
    call.comm = b->comm;
    if (in_place)
        perf_coll_in_place(t->coll, &call, b->recv.data, t->type->size, b->rank);
    /* Zeros stay zeros: however often a sum in place is repeated, no run meets infinities or subnormal numbers. */
    b->send.memory->fill(b->send.data, 0, t->row.bytes);
    b->recv.memory->fill(b->recv.data, 0, t->row.bytes);
    time_side(b, t, &call, &t->row.side[in_place]);
    if (b->options.check > 0 && t->row.checked)
        check_side(b, t, &call, in_place, &t->row.side[in_place]);
}

static void
measure_row(bench *b, task *t, size_t bytes)
{
    perf_row *row = &t->row;
    row->count = perf_coll_count(t->coll, bytes, t->type->size, b->ranks);
    row->bytes = perf_coll_total(t->coll, row->count, b->ranks) * t->type->size;
    row->checked = b->options.check > 0;
    b->row_open = b->rank == 0;
    if (b->row_open)
        perf_table_begin(row);
    for (int place = 0; place < 2; place++) {
        measure_side(b, t, place);
        end_progress(b);
        if (b->rank == 0)
            perf_table_side(&b->report, row, place);
    }
    if (b->row_open)
        perf_table_end();
    b->row_open = 0;
    if (perf_rows_add(&b->report.rows, row) != 0)
        abandon(b, "has no memory for its results");
}

/* --- all rows --- */

static void
measure_sizes(bench *b, task *t)
{
    const perf_options *o = &b->options;
    t->row.coll = t->coll->name;
    t->row.type = t->coll->send == PERF_NOTHING ? "none" : t->type->name;
    t->row.op = perf_op_name(t->coll->reduces ? t->op : -1);
    t->row.root = t->coll->rooted ? t->root : -1;
    for (size_t bytes = o->min_bytes; bytes <= o->max_bytes;) {
        measure_row(b, t, bytes);
        size_t next = o->step_factor > 1 ? bytes * o->step_factor : bytes + o->step_bytes;
        if (next <= bytes || t->coll->send == PERF_NOTHING)
            return;
        bytes = next;
    }
}

/* From `first` up to and with `last`: one choice, or all of them; a single turn where there is nothing to choose. */
typedef struct range {
    int first, last;
} range;

static range
choice(int chosen, int all, int applies)
{
    if (!applies)
        return (range){0, 0};
    return chosen == PERF_ALL ? (range){0, all - 1} : (range){chosen, chosen};
}

static void
measure_coll(bench *b, const perf_coll *coll)
{
    range types = choice(b->options.type, PERF_TYPES, coll->send != PERF_NOTHING);
    range ops = choice(b->options.op, PERF_OPS, coll->reduces);
    range roots = choice(b->options.root, b->ranks, coll->rooted);
    if (b->rank == 0)
        perf_table_columns(&b->report, coll->name);
    for (int type = types.first; type <= types.last; type++)
        for (int op = ops.first; op <= ops.last; op++)
            for (int root = roots.first; root <= roots.last; root++) {
                task t = {.coll = coll, .type = perf_type_at(type), .op = op, .root = root};
                measure_sizes(b, &t);
            }
}

static void
measure_all(bench *b)
{
    range colls = choice(b->options.coll, PERF_COLLS, 1);
    for (int coll = colls.first; coll <= colls.last; coll++)
        measure_coll(b, perf_coll_at(coll));
}

/* --- before and after --- */

/* The slowest interface's speed; 0 unless all ranks know theirs and the ring leaves this host. */
static double
slowest_line(const bench *b, const perf_member *all)
{
    double least = all[0].line;
    for (int i = 1; i < b->ranks; i++)
        least = all[i].line < least ? all[i].line : least;
    return hoop_comm_local_size(b->comm) < b->ranks ? least : 0;
}

static void
introduce(bench *b)
{
    perf_member own = {.rank = b->rank, .pid = getpid()};
    perf_member *all = hp_alloc((size_t)b->ranks, sizeof(*all));
    if (!all)
        abandon(b, "has no memory for the list of ranks");
    gethostname(own.host, sizeof(own.host) - 1);
    perf_line_interface(b->comm, own.interface);
    own.line = perf_line_speed("/sys/class/net", own.interface);
    snprintf(own.device, sizeof(own.device), "%s", b->recv.memory->name);
    need(b, hoop_allgather(&own, all, sizeof(own), HOOP_UINT8, b->comm));
    b->report.members = all;
    b->report.line = b->options.line > 0 ? b->options.line : slowest_line(b, all);
}

/* Whether this host has the memory that its ranks will take; else a sentence in why. */
static int
has_room(const bench *b, char *why, size_t size)
{
    double gib = 1 << 30, all = 2.0 * hoop_comm_local_size(b->comm) * (double)perf_buffer_takes(b->options.max_bytes);
    uint64_t available = perf_memory_available("/proc/meminfo");
    char name[65] = "this host";
    if (available == UINT64_MAX || all <= (double)available)
        return 1;
    gethostname(name, sizeof(name) - 1);
    snprintf(why, size,
             "%s lacks memory: %d rank%s there with two buffers of %zu bytes each need %.1f GiB, and %.1f GiB are "
             "available; try a smaller -e",
             name, hoop_comm_local_size(b->comm), hoop_comm_local_size(b->comm) == 1 ? "" : "s", b->options.max_bytes,
             all / gib, (double)available / gib);
    return 0;
}

/*
 * Nobody takes memory before all have looked: the kernel promises more than there is, and kills whoever believes it.
 * The first rank whose host lacks it words the sentence that rank 0 says.
 */
static void
check_room(bench *b)
{
    char why[512] = "";
    uint64_t first = (uint64_t)(has_room(b, why, sizeof(why)) ? b->ranks : b->rank);
    need(b, hoop_allreduce(&first, &first, 1, HOOP_UINT64, HOOP_MIN, b->comm));
    if (first == (uint64_t)b->ranks)
        return;
    need(b, hoop_broadcast(why, why, sizeof(why), HOOP_UINT8, (int)first, b->comm));
    refuse(b, 1, why);
}

/* All ranks take their memory, or all give up: a rank alone without would leave the others waiting. */
static void
take_memory(bench *b)
{
    char why[512];
    const perf_memory *memory = perf_memory_open(b->options.gpus, why, sizeof(why));
    uint64_t lacking = 0;
    if (!memory)
        refuse(b, 1, why);
    if (perf_memory_is_host(memory))
        check_room(b);
    b->samples = hp_alloc((size_t)b->options.iterations, sizeof(*b->samples));
    b->check.send = &b->send;
    b->check.recv = &b->recv;
    b->check.rank = b->rank;
    lacking |= perf_buffer_open(&b->send, memory, b->options.max_bytes) != 0;
    lacking |= perf_buffer_open(&b->recv, memory, b->options.max_bytes) != 0;
    lacking |= !b->samples || perf_check_open(&b->check) != 0;
    need(b, hoop_allreduce(&lacking, &lacking, 1, HOOP_UINT64, HOOP_SUM, b->comm));
    if (lacking == 0)
        return;
    snprintf(why, sizeof(why), "%llu of %d ranks lack memory for two buffers of %zu bytes: try a smaller -e",
             (unsigned long long)lacking, b->ranks, b->options.max_bytes);
    refuse(b, 1, why);
}

static void
finish(bench *b)
{
    perf_buffer_close(&b->send);
    perf_buffer_close(&b->recv);
    perf_check_close(&b->check);
    free(b->samples);
    free(b->report.rows.row);
    free((void *)(uintptr_t)b->report.members);
}

/* Rank 0's files. 0, or -1 when one could not be written. */
static int
tell_files(bench *b, const perf_past *past)
{
    const perf_options *o = &b->options;
    int failed = 0;
    if (b->json) {
        perf_json_write(b->json, &b->report);
        failed |= fclose(b->json) != 0;
    }
    if (o->csv)
        failed |= perf_csv_write(o->csv, &b->report);
    if (o->plot)
        failed |= perf_plot_write(o->plot, &b->report, past);
    if (o->compare)
        perf_past_compare(&b->report, past);
    return failed ? -1 : 0;
}

static int
tell(bench *b, const perf_past *past)
{
    if (b->rank != 0)
        return 0;
    perf_table_foot(&b->report);
    if (isatty(STDOUT_FILENO) || is_behind_pipe(STDOUT_FILENO))
        perf_curve_draw(&b->report);
    if (b->options.plain)
        printf("# Read next: man hoop-bench for the columns and the options, man 7 hoop for the library,\n"
               "# and examples/digits.c trains on real data: hooprun -n 4 examples/digits\n");
    return tell_files(b, past);
}

/* Rank 0's output files are opened before hours are spent on what would go into them. 0, or -1 and why. */
static int
open_outputs(bench *b, char *why, size_t size)
{
    const perf_options *o = &b->options;
    const char *path = o->json;
    FILE *csv;
    if (path && (b->json = perf_json_open(path)) == NULL)
        goto failed;
    path = o->csv;
    if (!path)
        return 0;
    csv = fopen(path, "a"); /* what is there stays until there is something better */
    if (csv && fclose(csv) == 0)
        return 0;
failed:
    snprintf(why, size, "cannot write %s: %s", path, strerror(errno));
    return -1;
}

/* What only rank 0 can know goes wrong before anything is measured, on all ranks. */
static void
open_files(bench *b, perf_past *past)
{
    char why[512] = "";
    uint64_t failed = 0;
    if (b->rank == 0 && b->options.compare)
        failed = perf_past_read(past, b->options.compare, why, sizeof(why)) != 0;
    if (b->rank == 0 && !failed)
        failed = open_outputs(b, why, sizeof(why)) != 0;
    need(b, hoop_broadcast(&failed, &failed, 1, HOOP_UINT64, 0, b->comm));
    if (failed)
        refuse(b, 1, why);
}

static int
run(bench *b)
{
    perf_past past = {0};
    char why[128];
    if (b->options.root >= b->ranks) {
        snprintf(why, sizeof(why), "-r %d names a rank that does not exist: there are %d, counted from 0",
                 b->options.root, b->ranks);
        refuse(b, 2, why);
    }
    take_memory(b);
    introduce(b);
    open_files(b, &past);
    perf_report_clock(b->report.started, sizeof(b->report.started));
    if (b->rank == 0)
        perf_table_head(&b->report);
    measure_all(b);
    int failed = tell(b, &past) != 0 || perf_report_wrong(&b->report) != 0;
    free(past.rows.row);
    return failed;
}

int
main(int argc, char **argv)
{
    bench b = {.report = {.argc = argc, .argv = argv}};
    char why[256], gpu[256];
    int wanted = perf_options_read(&b.options, argc, argv, why, sizeof(why));
    if (wanted == PERF_HELP)
        return fputs(perf_options_help(), stdout) < 0;
    if (wanted == PERF_VERSION)
        return printf("hoop-bench %s\nGPU: %s\n", hoop_version(), hp_gpu_describe(gpu, sizeof(gpu))) < 0;
    need(&b, hoop_comm_create(&b.comm, NULL));
    b.rank = hoop_comm_rank(b.comm);
    b.terminal = isatty(STDERR_FILENO);
    b.ranks = b.report.ranks = hoop_comm_size(b.comm);
    b.report.options = &b.options;
    if (wanted == PERF_WRONG)
        refuse(&b, 2, why);
    int failed = run(&b);
    finish(&b);
    need(&b, hoop_comm_destroy(b.comm));
    return failed;
}
