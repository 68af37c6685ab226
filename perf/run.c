/* SPDX-License-Identifier: MIT */
/* run: every decision that could leave a rank waiting for another one is taken by all ranks together. */
#include "perf/run.h"

#include "perf/json.h"
#include "perf/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
        perf_measure_row(run, t, bytes);
        size_t next = o->step_factor > 1 ? bytes * o->step_factor : bytes + o->step_bytes;
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

static void
measure_all(perf_run *run)
{
    perf_turns colls = choice(run->options.coll, PERF_COLLS, 1);
    for (int coll = colls.first; coll <= colls.last; coll++)
        measure_coll(run, perf_coll_at(coll));
}

/* --- before --- */

static void
introduce(perf_run *run)
{
    perf_member own = {.rank = run->rank, .pid = getpid()};
    perf_member *all = calloc((size_t)run->ranks, sizeof(*all));
    if (!all)
        perf_abandon(run, "has no memory for the list of ranks");
    gethostname(own.host, sizeof(own.host) - 1);
    snprintf(own.device, sizeof(own.device), "%s", run->recv.memory->name);
    perf_need(run, hoop_allgather(&own, all, sizeof(own), HOOP_UINT8, run->comm));
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
    perf_need(run, hoop_allreduce(&first, &first, 1, HOOP_UINT64, HOOP_MIN, run->comm));
    if (first == (uint64_t)run->ranks)
        return;
    perf_need(run, hoop_broadcast(why, why, WHY, HOOP_UINT8, (int)first, run->comm));
    perf_refuse(run, 1, why);
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
    if (perf_memory_is_host(memory))
        refuse_unless_all(run, has_room(run, why, sizeof(why)), why);
    run->samples = calloc((size_t)run->options.iterations, sizeof(*run->samples));
    run->counts = calloc((size_t)run->ranks, sizeof(*run->counts));
    run->check.send = &run->send;
    run->check.recv = &run->recv;
    run->check.rank = run->rank;
    lacking |= perf_buffer_open(&run->send, memory, run->options.max_bytes) != 0;
    lacking |= perf_buffer_open(&run->recv, memory, run->options.max_bytes) != 0;
    lacking |= !run->samples || !run->counts || perf_check_open(&run->check) != 0;
    perf_need(run, hoop_allreduce(&lacking, &lacking, 1, HOOP_UINT64, HOOP_SUM, run->comm));
    if (lacking == 0)
        return;
    snprintf(why, sizeof(why), "%llu of %d ranks lack memory for two buffers of %zu bytes: try a smaller -e",
             (unsigned long long)lacking, run->ranks, run->options.max_bytes);
    perf_refuse(run, 1, why);
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

/* A file that rank 0 cannot write ends the run on all ranks, before anything is measured. */
static void
open_files(perf_run *run)
{
    char why[WHY] = "";
    uint64_t failed = run->rank == 0 && open_outputs(run, why, sizeof(why)) != 0;
    perf_need(run, hoop_broadcast(&failed, &failed, 1, HOOP_UINT64, 0, run->comm));
    if (failed)
        perf_refuse(run, 1, why);
}

/* --- after --- */

/* Rank 0's files. 0, or -1 when one could not be written. */
static int
write_files(perf_run *run)
{
    const perf_options *o = &run->options;
    int failed = 0;
    if (run->json && perf_json_close(run->json, &run->report) != 0) {
        fprintf(stderr, "hoop-bench: cannot write all of %s: %s\n", o->json, strerror(errno));
        failed = 1;
    }
    if (o->csv && perf_csv_write(o->csv, &run->report) != 0)
        failed = 1;
    return failed ? -1 : 0;
}

static int
print_end(perf_run *run)
{
    if (run->rank != 0)
        return 0;
    perf_table_foot(&run->report);
    if (isatty(STDOUT_FILENO) || perf_is_shown_by_hooprun(STDOUT_FILENO))
        perf_curve_draw(&run->report);
    if (run->options.plain)
        printf("# Read next: man hoop-bench for the columns and the options, man 7 hoop for the library,\n"
               "# and examples/digits.c trains on real data: hooprun -n 4 examples/digits\n");
    return write_files(run);
}

static void
finish(perf_run *run)
{
    perf_buffer_close(&run->send);
    perf_buffer_close(&run->recv);
    perf_check_close(&run->check);
    free(run->samples);
    free(run->counts);
    free(run->report.rows.row);
    free((void *)(uintptr_t)run->report.members);
}

int
perf_run_all(perf_run *run)
{
    char why[128];
    if (run->options.root >= run->ranks) {
        snprintf(why, sizeof(why), "-r %d names a rank that does not exist: there are %d, counted from 0",
                 run->options.root, run->ranks);
        perf_refuse(run, 2, why);
    }
    take_memory(run);
    introduce(run);
    open_files(run);
    perf_report_clock(run->report.started, sizeof(run->report.started));
    if (run->rank == 0)
        perf_table_head(&run->report);
    measure_all(run);
    int failed = print_end(run) != 0 || perf_report_wrong(&run->report) != 0;
    finish(run);
    return failed;
}
