/* SPDX-License-Identifier: MIT */
/* json: one function for each part of the file, in its order. */
#include "perf/json.h"

#include "base/json.h"
#include "hoop.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

enum { NUMBERED = 10000 };

/* a.json, a.0.json, a.1.json ... for number 0, 1, 2 ...: before the last dot, so that the name keeps its ending. */
static const char *
numbered(const char *path, int number, char name[PATH_MAX])
{
    const char *slash = strrchr(path, '/'), *own = slash ? slash + 1 : path, *dot = strrchr(own, '.');
    if (!dot || dot == own)
        dot = own + strlen(own);
    if (number == 0)
        snprintf(name, PATH_MAX, "%s", path);
    else
        snprintf(name, PATH_MAX, "%.*s.%d%s", (int)(dot - path), path, number - 1, dot);
    return name;
}

FILE *
perf_json_open(const char *path)
{
    char name[PATH_MAX];
    for (int try = 0; try < NUMBERED; try++) {
        FILE *file = fopen(numbered(path, try, name), "wx");
        if (file) {
            printf("# Writing JSON output to %s\n", name);
            return file;
        }
        if (errno != EEXIST)
            break;
    }
    return NULL;
}

static const char *
truth(int value)
{
    return value ? "true" : "false"; /* nccl-tests has these as texts */
}

static void
write_start(hp_json *json, const perf_report *report)
{
    hp_json_integer(json, "version", 3);
    hp_json_text(json, "start_time", report->started);
    hp_json_list(json, "args");
    for (int i = 0; i < report->argc; i++)
        hp_json_text(json, NULL, report->argv[i]);
    hp_json_close(json);
    hp_json_list(json, "env");
    for (char **variable = environ; *variable; variable++)
        if (strncmp(*variable, "HOOP_", 5) == 0)
            hp_json_text(json, NULL, *variable);
    hp_json_close(json);
    hp_json_integer(json, "nccl_version", HOOP_VERSION_MAJOR * 10000 + HOOP_VERSION_MINOR * 100 + HOOP_VERSION_PATCH);
    hp_json_text(json, "hoop_version", hoop_version());
}

static void
write_devices(hp_json *json, const perf_report *report)
{
    hp_json_list(json, "devices");
    for (int i = 0; i < report->ranks; i++) {
        const perf_member *member = &report->members[i];
        hp_json_object(json, NULL);
        hp_json_integer(json, "rank", member->rank);
        hp_json_integer(json, "group", 0);
        hp_json_integer(json, "pid", member->pid);
        hp_json_text(json, "hostname", member->host);
        hp_json_integer(json, "device", 0);
        hp_json_text(json, "device_hex", "0000:00:00");
        hp_json_text(json, "device_info", member->device);
        hp_json_close(json);
    }
    hp_json_close(json);
}

static void
write_config(hp_json *json, const perf_report *report)
{
    const perf_options *o = report->options;
    hp_json_object(json, "config");
    hp_json_integer(json, "nthreads", 1);
    hp_json_integer(json, "ngpus", o->gpus);
    hp_json_count(json, "minimum_bytes", o->min_bytes);
    hp_json_count(json, "maximum_bytes", o->max_bytes);
    if (o->step_factor > 1)
        hp_json_count(json, "step_factor", o->step_factor);
    else
        hp_json_count(json, "step_bytes", o->step_bytes);
    hp_json_integer(json, "warmup_iters", o->warmup);
    hp_json_integer(json, "iterations", o->iterations);
    hp_json_integer(json, "aggregated_iterations", 1);
    hp_json_integer(json, "validation", o->check);
    hp_json_integer(json, "graph", 0);
    hp_json_text(json, "blocking_collectives", truth(o->blocking));
    hp_json_text(json, "per_iter_timing", truth(o->stats));
    hp_json_integer(json, "per_iter_skip", 0);
    hp_json_text(json, "parallel_init", "false");
    write_devices(json, report);
    hp_json_close(json);
}

static void
write_side(hp_json *json, const char *key, const perf_row *row, const perf_side *side)
{
    const perf_stats *s = &side->stats;
    if (side->absent) {
        hp_json_null(json, key);
        return;
    }
    hp_json_object(json, key);
    hp_json_decimal(json, "time", side->time * 1e6, 6);
    hp_json_decimal(json, "alg_bw", side->algbw, 6);
    hp_json_decimal(json, "bus_bw", side->busbw, 6);
    if (row->checked)
        hp_json_decimal(json, "nwrong", (double)side->wrong, 6);
    else
        hp_json_null(json, "nwrong");
    hp_json_decimal(json, "first_us", side->first * 1e6, 6);
    hp_json_decimal(json, "median_us", s->median * 1e6, 6);
    hp_json_decimal(json, "min_us", s->min * 1e6, 6);
    hp_json_decimal(json, "max_us", s->max * 1e6, 6);
    if (perf_stats_has_interval(s)) {
        hp_json_decimal(json, "ci95_low_us", s->low * 1e6, 6);
        hp_json_decimal(json, "ci95_high_us", s->high * 1e6, 6);
    }
    hp_json_close(json);
}

static void
write_results(hp_json *json, const perf_report *report)
{
    hp_json_list(json, "results");
    for (size_t i = 0; i < report->rows.count; i++) {
        const perf_row *row = &report->rows.row[i];
        char root[16];
        snprintf(root, sizeof(root), "%6d", row->root);
        hp_json_object(json, NULL);
        hp_json_count(json, "size", row->bytes);
        hp_json_count(json, "count", row->count);
        hp_json_text(json, "type", row->type);
        hp_json_text(json, "redop", row->op);
        hp_json_text(json, "root", root);
        write_side(json, "out_of_place", row, &row->side[0]);
        write_side(json, "in_place", row, &row->side[1]);
        hp_json_integer(json, "actual_iterations", report->options->iterations);
        hp_json_text(json, "experiment_name", row->coll);
        hp_json_close(json);
    }
    hp_json_close(json);
}

static void
write_end(hp_json *json, const perf_report *report)
{
    char now[32];
    uint64_t wrong = perf_report_wrong(report);
    perf_report_clock(now, sizeof(now));
    hp_json_object(json, "out_of_bounds");
    hp_json_count(json, "count", wrong);
    hp_json_text(json, "okay", truth(wrong == 0));
    hp_json_close(json);
    hp_json_object(json, "average_bus_bandwidth");
    hp_json_decimal(json, "bandwidth", perf_report_busbw(report), 6);
    hp_json_text(json, "okay", "unchecked");
    hp_json_close(json);
    hp_json_list(json, "errors");
    hp_json_close(json);
    hp_json_text(json, "end_time", now);
}

int
perf_json_close(FILE *file, const perf_report *report)
{
    hp_json json;
    hp_json_begin(&json, hp_json_to_file, file);
    hp_json_object(&json, NULL);
    write_start(&json, report);
    write_config(&json, report);
    write_results(&json, report);
    write_end(&json, report);
    hp_json_close(&json);
    int failed = hp_json_end(&json) != 0 || fputs("\n", file) == EOF;
    return fclose(file) != 0 || failed ? -1 : 0;
}
