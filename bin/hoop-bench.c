/* SPDX-License-Identifier: MIT */
/*
 * hoop-bench: times and checks the collectives, with nccl-tests' face: memory and files before anything is timed, the ranks'
 * introductions, all rows that the options name, and what rank 0 prints and writes after them. A row is a first call,
 * warm-up, timed runs and checked runs, out of place and in place. What is timed is one call of the library; everything else
 * happens before or after. Every decision that could leave a rank waiting for another one is taken by all ranks together.
 */
#include "perf/data.h"
#include "perf/report.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A rank's part of a run. */
typedef struct perf_run {
    perf_options options;
    perf_report report;
    hoop_comm *comm;
    int rank, ranks;
    perf_buffer send, recv;
    perf_check check;
    size_t *counts;    /* of each rank, of the row that is measured */
    double *samples;   /* seconds of each timed run, then those of the rank that options.average names */
    uint64_t seed;     /* another one for every checked run */
    hoop_stats before; /* the timed runs */
    FILE *json;
    int terminal; /* standard error is one */
    int progress; /* a progress line is on it */
    int row_open; /* a row of the table has begun, and not ended */
} perf_run;

/* A row in the making: one collective, type, operation, root and size. All ranks do the same; rank 0 alone prints. */
typedef struct perf_task {
    const perf_coll *coll;
    const perf_type *type;
    int op, root; /* op: its place in the table of perf_op_at */
    perf_row row; /* its names and its root are set before measure_row */
} perf_task;

/* --- ends --- */

/* An error of the library ends the program with its sentence. */
static void
need(const perf_run *run, hoop_result result)
{
    hoop_error error = {.size = sizeof(error)};
    if (result == HOOP_SUCCESS)
        return;
    hoop_comm_error(run->comm, &error);
    if (run->row_open)
        perf_table_end();
    fprintf(stderr, "hoop-bench: %s\n", error.text[0] != '\0' ? error.text : hoop_strerror(result));
    exit(1);
}

/* For a mistake that all ranks notice alike: rank 0 prints the sentence, and all end with the status. */
__attribute__((noreturn)) static void
refuse(const perf_run *run, int status, const char *sentence)
{
    if (run->rank == 0)
        fprintf(stderr, "hoop-bench: %s\n", sentence);
    hoop_barrier(run->comm); /* hooprun ends all ranks at the first that fails: not before it is said */
    hoop_comm_destroy(run->comm);
    exit(status);
}

/* For trouble of one rank alone, for which the others must not wait: "rank 3 <sentence>". */
__attribute__((noreturn)) static void
abandon(const perf_run *run, const char *sentence)
{
    fprintf(stderr, "hoop-bench: rank %d %s\n", run->rank, sentence);
    hoop_comm_abort(run->comm, sentence);
    exit(1);
}

/* --- progress --- */

/* Seconds on a clock that only grows. */
static double
now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Whether descriptor fd is a pipe to hooprun, which copies it to a terminal of its own. */
static int
is_shown_by_hooprun(int fd)
{
    const char *terminals = getenv("HOOPRUN_TTY");
    return !isatty(fd) && terminals && strchr(terminals, '0' + fd);
}

/*
 * On a terminal of our own, behind the row in the making, the cursor returns to its place; hooprun takes whole lines
 * only, so its terminal gets a line now and then.
 */
static void
show_progress(perf_run *run, const perf_task *t, int done, double start, double *shown)
{
    double time = now(), left = (time - start) / done * (run->options.iterations - done);
    int own = run->terminal, of = run->options.iterations;
    if (run->rank != 0 || time - start < 1 || time - *shown < (own ? 0.25 : 5))
        return;
    *shown = time;
    if (own)
        fprintf(stderr, "\0337  run %d of %d, %.0f s to go\033[K\0338", done, of, left);
    else if (is_shown_by_hooprun(STDERR_FILENO))
        fprintf(stderr, "# %s of %zu bytes: run %d of %d, %.0f s to go\n", t->coll->name, t->row.bytes, done, of, left);
    run->progress = own;
}

/* --- one side of a row --- */

/* The timed runs: fills run->samples and returns the seconds of all of them. */
static double
run_timed(perf_run *run, const perf_task *t, const perf_call *call)
{
    int barrier = run->options.blocking == 1 || run->options.blocking == 3;
    double start = now(), shown = start, sum = 0;
    for (int i = 0; i < run->options.iterations; i++) {
        double before = now();
        need(run, perf_coll_run(t->coll, call));
        run->samples[i] = now() - before;
        sum += run->samples[i];
        if (barrier)
            need(run, hoop_barrier(run->comm));
        show_progress(run, t, i + 1, start, &shown);
    }
    return run->options.blocking == 3 ? sum : now() - start;
}

/* The times that count: 0 rank 0's own, 1 the mean of all ranks, 2 the fastest rank's, 3 the slowest rank's. */
static void
agree(perf_run *run, double *times, size_t count)
{
    static const hoop_op ops[] = {HOOP_SUM, HOOP_AVG, HOOP_MIN, HOOP_MAX};
    if (run->options.average != 0)
        need(run, hoop_allreduce(times, times, count, HOOP_FLOAT64, ops[run->options.average], run->comm));
}

static void
time_side(perf_run *run, perf_task *t, const perf_call *call, perf_side *side)
{
    need(run, hoop_barrier(run->comm));
    double before = now();
    need(run, perf_coll_run(t->coll, call));
    side->first = now() - before;
    for (int i = 0; i < run->options.warmup; i++)
        need(run, perf_coll_run(t->coll, call));
    need(run, hoop_barrier(run->comm));
    double all = run_timed(run, t, call);
    need(run, hoop_barrier(run->comm));
    agree(run, &side->first, 1);
    agree(run, &all, 1);
    agree(run, run->samples, (size_t)run->options.iterations);
    side->stats = perf_stats_of(run->samples, (size_t)run->options.iterations);
    side->time = all / run->options.iterations;
    side->algbw = side->time > 0 ? (double)t->row.bytes / side->time / 1e9 : 0;
    side->busbw = side->algbw * perf_coll_bus_factor(t->coll, run->ranks);
}

/* The digits with which elements have travelled in the timed runs; 0: with all. */
static int
digits(const perf_run *run)
{
    hoop_stats stats = {.size = sizeof(stats)};
    hoop_comm_stats(run->comm, &stats);
    if (stats.narrowed_e4m3 > run->before.narrowed_e4m3)
        return 4;
    return stats.narrowed > run->before.narrowed ? 8 : 0;
}

/* Runs with a pattern of its own each time, until one is wrong. */
static void
check_side(perf_run *run, const perf_task *t, const perf_call *call, int in_place, perf_side *side)
{
    perf_check *c = &run->check;
    hoop_stats stats = {.size = sizeof(stats)};
    c->coll = t->coll;
    c->call = call;
    c->in_place = in_place;
    c->pattern =
        (perf_pattern){.type = t->type, .op = t->coll->reduces ? (int)perf_op_at(t->op) : -1, .ranks = run->ranks};
    c->pattern.brief = digits(run);
    c->pattern.rounded = c->pattern.brief && t->coll == perf_coll_at(perf_coll_named("allreduce"));
    side->wrong = 0;
    for (int i = 0; i < run->options.check && side->wrong == 0; i++) {
        c->pattern.seed = ++run->seed;
        perf_check_fill(c);
        need(run, perf_coll_run(t->coll, call));
        need(run, hoop_comm_stats(run->comm, &stats));
        c->pattern.ordered = stats.in_rank_order;
        side->wrong = perf_check_wrong(c);
        need(run, hoop_allreduce(&side->wrong, &side->wrong, 1, HOOP_UINT64, HOOP_SUM, run->comm));
    }
}

static void
measure_side(perf_run *run, perf_task *t, int in_place)
{
    perf_call call = {.send = run->send.data, .recv = run->recv.data, .count = t->row.count, .dtype = t->type->dtype};
    call.counts = run->counts;
    call.op = perf_op_at(t->op);
    call.root = t->root < 0 ? 0 : t->root;
    call.comm = run->comm;
    if (in_place)
        perf_coll_in_place(t->coll, &call, run->recv.data, t->type->size, run->ranks, run->rank);
    /* Zeros stay zeros: however often a sum in place is repeated, no run meets infinities or subnormal numbers. */
    perf_memory_fill(run->send.memory, run->send.data, 0, t->row.bytes);
    perf_memory_fill(run->recv.memory, run->recv.data, 0, t->row.bytes);
    run->before = (hoop_stats){.size = sizeof(run->before)};
    hoop_comm_stats(run->comm, &run->before);
    time_side(run, t, &call, &t->row.side[in_place]);
    if (run->options.check > 0 && t->row.checked)
        check_side(run, t, &call, in_place, &t->row.side[in_place]);
}

/* --- the row --- */

static void
measure_row(perf_run *run, perf_task *t, size_t bytes)
{
    perf_row *row = &t->row;
    row->count = perf_coll_count(t->coll, bytes, t->type->size, run->ranks);
    row->bytes = perf_coll_total(t->coll, row->count, run->ranks) * t->type->size;
    row->checked = run->options.check > 0;
    for (int rank = 0; rank < run->ranks; rank++)
        run->counts[rank] = perf_coll_block(t->coll, row->count, run->ranks, rank).count;
    run->row_open = run->rank == 0;
    if (run->row_open)
        perf_table_begin(row);
    for (int place = 0; place < 2; place++) {
        row->side[place].absent = place == 1 && t->coll->messages;
        if (!row->side[place].absent)
            measure_side(run, t, place);
        if (run->progress)
            fprintf(stderr, "\033[K");
        run->progress = 0;
        if (run->rank == 0)
            perf_table_side(&run->report, row, place);
    }
    if (run->row_open)
        perf_table_end();
    run->row_open = 0;
    if (perf_rows_add(&run->report.rows, row) != 0)
        abandon(run, "has no memory for its results");
}

/* --- all rows --- */

static void
measure_sizes(perf_run *run, perf_task *t)
{
    const perf_options *o = &run->options;
    t->row.coll = t->coll->name;
    t->row.type = t->coll->send == PERF_NOTHING ? "none" : t->type->name;
    t->row.op = perf_op_name(t->coll->reduces ? t->op : -1);
    t->row.root = t->coll->rooted ? t->root : -1;
    for (size_t bytes = o->min_bytes; bytes <= o->max_bytes;) {
        measure_row(run, t, bytes);
        size_t next = o->step_factor > 1 ? bytes * o->step_factor : bytes + o->step_bytes;
        if (next == 0) /* no factor leads away from 0: one element does */
            next = perf_coll_total(t->coll, 1, run->ranks) * t->type->size;
        if (next <= bytes || t->coll->send == PERF_NOTHING)
            return;
        bytes = next;
    }
}

/* From `first` up to and with `last`: one choice, or all of them; a single turn where there is nothing to choose. */
typedef struct perf_turns {
    int first, last;
} perf_turns;

static perf_turns
choice(int chosen, int all, int applies)
{
    if (!applies)
        return (perf_turns){0, 0};
    return chosen == PERF_ALL ? (perf_turns){0, all - 1} : (perf_turns){chosen, chosen};
}

static void
measure_coll(perf_run *run, const perf_coll *coll)
{
    perf_turns types = choice(run->options.type, PERF_TYPES, coll->send != PERF_NOTHING);
    perf_turns ops = choice(run->options.op, PERF_OPS, coll->reduces);
    perf_turns roots = choice(run->options.root, run->ranks, coll->rooted);
    if (run->rank == 0)
        perf_table_columns(&run->report, coll->name);
    for (int type = types.first; type <= types.last; type++)
        for (int op = ops.first; op <= ops.last; op++)
            for (int root = roots.first; root <= roots.last; root++) {
                perf_task t = {.coll = coll, .type = perf_type_at(type), .op = op, .root = root};
                if (!coll->reduces || perf_op_applies(op, t.type))
                    measure_sizes(run, &t);
            }
}

/* --- before --- */

static void
introduce(perf_run *run)
{
    perf_member own = {.rank = run->rank, .pid = getpid()};
    perf_member *all = calloc((size_t)run->ranks, sizeof(*all));
    if (!all)
        abandon(run, "has no memory for the list of ranks");
    gethostname(own.host, sizeof(own.host) - 1);
    snprintf(own.device, sizeof(own.device), "%s", run->recv.memory->name);
    need(run, hoop_allgather(&own, all, sizeof(own), HOOP_UINT8, run->comm));
    run->report.members = all;
}

enum { WHY = 512 }; /* bytes of a sentence */

/* Whether this host has the memory that its ranks will take; else a sentence in why. */
static int
has_room(const perf_run *run, char *why, size_t size)
{
    double gib = 1 << 30,
           all = 2.0 * hoop_comm_local_size(run->comm) * (double)perf_buffer_takes(run->options.max_bytes);
    uint64_t available = perf_memory_available("/proc/meminfo");
    char name[65] = "this host";
    if (available == UINT64_MAX || all <= (double)available)
        return 1;
    gethostname(name, sizeof(name) - 1);
    snprintf(why, size,
             "%s lacks memory: %d rank%s there with two buffers of %zu bytes each need %.1f GiB, and %.1f GiB are "
             "available; try a smaller -e",
             name, hoop_comm_local_size(run->comm), hoop_comm_local_size(run->comm) == 1 ? "" : "s",
             run->options.max_bytes, all / gib, (double)available / gib);
    return 0;
}

/* Ends the run unless every rank is fine. Rank 0 prints the sentence of the first rank that is not. */
static void
refuse_unless_all(perf_run *run, int is_fine, char why[WHY])
{
    uint64_t first = (uint64_t)(is_fine ? run->ranks : run->rank);
    need(run, hoop_allreduce(&first, &first, 1, HOOP_UINT64, HOOP_MIN, run->comm));
    if (first == (uint64_t)run->ranks)
        return;
    need(run, hoop_broadcast(why, why, WHY, HOOP_UINT8, (int)first, run->comm));
    refuse(run, 1, why);
}

/* All ranks take their memory, or all end: the others would wait for a rank without. */
static void
take_memory(perf_run *run)
{
    char why[WHY] = "";
    uint64_t lacking = 0;
    const perf_memory *memory = perf_memory_open(run->options.gpus, why, sizeof(why));
    refuse_unless_all(run, memory ? 1 : 0, why);
    /* All ranks look before the first one takes memory: the kernel promises more than there is, and kills its users. */
    if (run->options.gpus == 0)
        refuse_unless_all(run, has_room(run, why, sizeof(why)), why);
    run->samples = calloc((size_t)run->options.iterations, sizeof(*run->samples));
    run->counts = calloc((size_t)run->ranks, sizeof(*run->counts));
    run->check.send = &run->send;
    run->check.recv = &run->recv;
    run->check.rank = run->rank;
    lacking |= perf_buffer_open(&run->send, memory, run->options.max_bytes) != 0;
    lacking |= perf_buffer_open(&run->recv, memory, run->options.max_bytes) != 0;
    lacking |= !run->samples || !run->counts || perf_check_open(&run->check) != 0;
    need(run, hoop_allreduce(&lacking, &lacking, 1, HOOP_UINT64, HOOP_SUM, run->comm));
    if (lacking == 0)
        return;
    snprintf(why, sizeof(why), "%llu of %d ranks lack memory for two buffers of %zu bytes: try a smaller -e",
             (unsigned long long)lacking, run->ranks, run->options.max_bytes);
    refuse(run, 1, why);
}

/* Rank 0 opens its output files before hours are spent on measuring. 0, or -1 and why. */
static int
open_outputs(perf_run *run, char *why, size_t size)
{
    const perf_options *o = &run->options;
    const char *path = o->json;
    if (path && !(run->json = perf_json_open(path)))
        goto failed;
    path = o->csv;
    if (!path)
        return 0;
    FILE *csv = fopen(path, "a"); /* a former file stays until this run has results */
    if (csv && fclose(csv) == 0)
        return 0;
failed:
    snprintf(why, size, "cannot write %s: %s", path, strerror(errno));
    return -1;
}

/* --- after --- */

static int
is_unwritten(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    fprintf(stderr, "hoop-bench: cannot write all to standard output\n");
    return 1;
}

/* What rank 0 prints and writes. 0, or -1 when a file could not be written. */
static int
print_end(perf_run *run)
{
    if (run->rank != 0)
        return 0;
    perf_table_foot(&run->report);
    if (isatty(STDOUT_FILENO) || is_shown_by_hooprun(STDOUT_FILENO))
        perf_curve_draw(&run->report);
    if (run->options.plain)
        printf("# Read next: man hoop-bench for the columns and the options, man 7 hoop for the library,\n"
               "# and examples/digits.c trains on real data: hooprun -n 4 examples/digits\n");
    const perf_options *o = &run->options;
    int failed = run->json && perf_json_close(run->json, &run->report) != 0;
    if (failed)
        fprintf(stderr, "hoop-bench: cannot write all of %s: %s\n", o->json, strerror(errno));
    if (o->csv && perf_csv_write(o->csv, &run->report) != 0)
        failed = 1;
    return is_unwritten() || failed ? -1 : 0;
}

/* 0; 1: a result was wrong, or a file could not be written. Other errors end the program. */
static int
run_all(perf_run *run)
{
    char why[WHY] = "";
    if (run->options.root >= run->ranks) {
        snprintf(why, sizeof(why), "-r %d names a rank that does not exist: there are %d, counted from 0",
                 run->options.root, run->ranks);
        refuse(run, 2, why);
    }
    take_memory(run);
    introduce(run);
    /* A file that rank 0 cannot write ends the run on all ranks, before anything is measured. */
    uint64_t unwritable = run->rank == 0 && open_outputs(run, why, sizeof(why)) != 0;
    need(run, hoop_broadcast(&unwritable, &unwritable, 1, HOOP_UINT64, 0, run->comm));
    if (unwritable)
        refuse(run, 1, why);
    perf_report_clock(run->report.started, sizeof(run->report.started));
    if (run->rank == 0)
        perf_table_head(&run->report);
    perf_turns colls = choice(run->options.coll, PERF_COLLS, 1);
    for (int coll = colls.first; coll <= colls.last; coll++)
        measure_coll(run, perf_coll_at(coll));
    int failed = print_end(run) != 0 || perf_report_wrong(&run->report) != 0;
    need(run, hoop_barrier(run->comm)); /* as in refuse() */
    perf_buffer_close(&run->send);
    perf_buffer_close(&run->recv);
    perf_check_close(&run->check);
    free(run->samples);
    free(run->counts);
    free(run->report.rows.row);
    free(run->report.members);
    return failed;
}

int
main(int argc, char **argv)
{
    perf_run run = {.report = {.argc = argc, .argv = argv}};
    char why[256], gpu[256] = "";
    int wanted = perf_options_read(&run.options, argc, argv, why, sizeof(why));
    signal(SIGXFSZ, SIG_IGN); /* a limit of file size (ulimit -f) is an error of the write */
    if (wanted == PERF_HELP)
        fputs(perf_options_help(), stdout);
    if (wanted == PERF_VERSION) {
        hoop_gpu_describe(gpu, sizeof(gpu));
        printf("hoop-bench %s\nGPU: %s\n", hoop_version(), gpu);
    }
    if (wanted == PERF_LIST)
        perf_options_list();
    if (wanted == PERF_HELP || wanted == PERF_VERSION || wanted == PERF_LIST)
        return is_unwritten();
    hoop_config *config = run.options.wire ? hoop_config_new() : NULL;
    if (run.options.wire && wanted != PERF_WRONG)
        need(&run, config ? hoop_config_set(config, "wire_dtype", run.options.wire) : HOOP_ERR_NO_MEMORY);
    need(&run, hoop_comm_create(&run.comm, config));
    hoop_config_free(config);
    run.rank = hoop_comm_rank(run.comm);
    run.ranks = run.report.ranks = hoop_comm_size(run.comm);
    run.terminal = isatty(STDERR_FILENO);
    run.report.options = &run.options;
    if (wanted == PERF_WRONG)
        refuse(&run, 2, why);
    int failed = run_all(&run);
    need(&run, hoop_comm_destroy(run.comm));
    return failed;
}
