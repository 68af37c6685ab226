/* SPDX-License-Identifier: MIT */
/* measure: what is timed is one call of the library; everything else happens before or after. */
#include "perf/measure.h"

#include "perf/table.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* --- ends --- */

void
perf_need(const perf_run *run, hoop_result result)
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

void
perf_refuse(const perf_run *run, int status, const char *sentence)
{
    if (run->rank == 0)
        fprintf(stderr, "hoop-bench: %s\n", sentence);
    hoop_comm_destroy(run->comm);
    exit(status);
}

void
perf_abandon(const perf_run *run, const char *sentence)
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

int
perf_is_shown_by_hooprun(int fd)
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
    else if (perf_is_shown_by_hooprun(STDERR_FILENO))
        fprintf(stderr, "# %s of %zu bytes: run %d of %d, %.0f s to go\n", t->coll->name, t->row.bytes, done, of, left);
    run->progress = own;
}

static void
end_progress(perf_run *run)
{
    if (run->progress)
        fprintf(stderr, "\033[K");
    run->progress = 0;
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
        perf_need(run, t->coll->run(call));
        run->samples[i] = now() - before;
        sum += run->samples[i];
        if (barrier)
            perf_need(run, hoop_barrier(run->comm));
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
        perf_need(run, hoop_allreduce(times, times, count, HOOP_FLOAT64, ops[run->options.average], run->comm));
}

static void
time_side(perf_run *run, perf_task *t, const perf_call *call, perf_side *side)
{
    perf_need(run, hoop_barrier(run->comm));
    double before = now();
    perf_need(run, t->coll->run(call));
    side->first = now() - before;
    for (int i = 0; i < run->options.warmup; i++)
        perf_need(run, t->coll->run(call));
    perf_need(run, hoop_barrier(run->comm));
    double all = run_timed(run, t, call);
    perf_need(run, hoop_barrier(run->comm));
    agree(run, &side->first, 1);
    agree(run, &all, 1);
    agree(run, run->samples, (size_t)run->options.iterations);
    side->stats = perf_stats_of(run->samples, (size_t)run->options.iterations);
    side->time = all / run->options.iterations;
    side->algbw = side->time > 0 ? (double)t->row.bytes / side->time / 1e9 : 0;
    side->busbw = side->algbw * perf_coll_bus_factor(t->coll, run->ranks);
}

/* Runs with a pattern of its own each time, until one is wrong. */
static void
check_side(perf_run *run, const perf_task *t, const perf_call *call, int in_place, perf_side *side)
{
    perf_check *c = &run->check;
    c->coll = t->coll;
    c->call = call;
    c->in_place = in_place;
    c->pattern =
        (perf_pattern){.type = t->type, .op = t->coll->reduces ? (int)perf_op_at(t->op) : -1, .ranks = run->ranks};
    side->wrong = 0;
    for (int i = 0; i < run->options.check && side->wrong == 0; i++) {
        c->pattern.seed = ++run->seed;
        perf_check_fill(c);
        perf_need(run, t->coll->run(call));
        side->wrong = perf_check_wrong(c);
        perf_need(run, hoop_allreduce(&side->wrong, &side->wrong, 1, HOOP_UINT64, HOOP_SUM, run->comm));
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
    run->send.memory->fill(run->send.data, 0, t->row.bytes);
    run->recv.memory->fill(run->recv.data, 0, t->row.bytes);
    time_side(run, t, &call, &t->row.side[in_place]);
    if (run->options.check > 0 && t->row.checked)
        check_side(run, t, &call, in_place, &t->row.side[in_place]);
}

/* --- the row --- */

void
perf_measure_row(perf_run *run, perf_task *t, size_t bytes)
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
        end_progress(run);
        if (run->rank == 0)
            perf_table_side(&run->report, row, place);
    }
    if (run->row_open)
        perf_table_end();
    run->row_open = 0;
    if (perf_rows_add(&run->report.rows, row) != 0)
        perf_abandon(run, "has no memory for its results");
}
