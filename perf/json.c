/* SPDX-License-Identifier: MIT */
/*
 * json: writes the file that nccl-tests' -J writes (its version 3), with hoop's own figures as further keys. Of
 * the environment only HOOP_ variables are written: others may be nobody's business.
 */
#include "hoop.h"
#include "perf/report.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

static void
text(FILE *f, const char *value)
{
    fputc('"', f);
    for (; *value != '\0'; value++) {
        unsigned char c = (unsigned char)*value;
        if (c == '"' || c == '\\')
            fprintf(f, "\\%c", c);
        else if (c < 0x20)
            fprintf(f, "\\u%04x", c);
        else
            fputc(c, f);
    }
    fputc('"', f);
}

static void
pair(FILE *f, const char *key, const char *value)
{
    fprintf(f, "\"%s\":", key);
    text(f, value);
}

FILE *
perf_json_open(const char *path)
{
    char name[PATH_MAX];
    for (int try = 0; try < PERF_NUMBERED; try++) {
        FILE *file = fopen(perf_file_numbered(path, try, name), "wx");
        if (file) {
            printf("# Writing JSON output to %s\n", name);
            return file;
        }
        if (errno != EEXIST)
            break;
    }
    return NULL;
}

static void
head(FILE *f, const perf_report *report)
{
    fprintf(f, "{\"version\":3,");
    pair(f, "start_time", report->started);
    fprintf(f, ",\"args\":[");
    for (int i = 0; i < report->argc; i++) {
        fputs(i == 0 ? "" : ",", f);
        text(f, report->argv[i]);
    }
    fprintf(f, "],\"env\":[");
    const char *comma = "";
    for (char **e = environ; *e != NULL; e++)
        if (strncmp(*e, "HOOP_", 5) == 0) {
            fputs(comma, f);
            text(f, *e);
            comma = ",";
        }
    fprintf(f, "],\"nccl_version\":%d,", HOOP_VERSION_MAJOR * 10000 + HOOP_VERSION_MINOR * 100 + HOOP_VERSION_PATCH);
    pair(f, "hoop_version", hoop_version());
}

static void
config(FILE *f, const perf_report *report)
{
    const perf_options *o = report->options;
    fprintf(f, ",\"config\":{\"nthreads\":1,\"ngpus\":%d,\"minimum_bytes\":%zu,\"maximum_bytes\":%zu,\"%s\":%zu,",
            o->gpus, o->min_bytes, o->max_bytes, o->step_factor > 1 ? "step_factor" : "step_bytes",
            o->step_factor > 1 ? o->step_factor : o->step_bytes);
    fprintf(f, "\"warmup_iters\":%d,\"iterations\":%d,\"aggregated_iterations\":1,\"validation\":%d,\"graph\":0,",
            o->warmup, o->iterations, o->check);
    fprintf(f, "\"blocking_collectives\":\"%s\",\"per_iter_timing\":\"%s\",\"per_iter_skip\":0,",
            o->blocking ? "true" : "false", o->stats ? "true" : "false");
    if (report->line > 0)
        fprintf(f, "\"line_bits_per_second\":%.0f,", report->line);
    fprintf(f, "\"parallel_init\":\"false\",\"devices\":[");
    for (int i = 0; i < report->ranks; i++) {
        const perf_member *m = &report->members[i];
        fprintf(f, "%s{\"rank\":%d,\"group\":0,\"pid\":%d,", i == 0 ? "" : ",", m->rank, m->pid);
        pair(f, "hostname", m->host);
        fprintf(f, ",\"device\":0,\"device_hex\":\"0000:00:00\",");
        pair(f, "device_info", m->device);
        fputc('}', f);
    }
    fprintf(f, "]}");
}

static void
side_of(FILE *f, const char *key, const perf_row *row, const perf_side *side, double line)
{
    const perf_stats *s = &side->stats;
    fprintf(f, ",\"%s\":{\"time\":%f,\"alg_bw\":%f,\"bus_bw\":%f,\"nwrong\":", key, side->time * 1e6, side->algbw,
            side->busbw);
    if (row->checked)
        fprintf(f, "%f", (double)side->wrong);
    else
        fprintf(f, "null");
    if (line > 0)
        fprintf(f, ",\"line_percent\":%f", perf_line_share(side->busbw, line));
    fprintf(f, ",\"first_us\":%f,\"median_us\":%f,\"min_us\":%f,\"max_us\":%f", side->first * 1e6, s->median * 1e6,
            s->min * 1e6, s->max * 1e6);
    if (perf_stats_has_interval(s))
        fprintf(f, ",\"ci95_low_us\":%f,\"ci95_high_us\":%f", s->low * 1e6, s->high * 1e6);
    fputc('}', f);
}

static void
results(FILE *f, const perf_report *report)
{
    fprintf(f, ",\"results\":[");
    for (size_t i = 0; i < report->rows.count; i++) {
        const perf_row *row = &report->rows.row[i];
        fprintf(f, "%s{\"size\":%zu,\"count\":%zu,", i == 0 ? "" : ",", row->bytes, row->count);
        fprintf(f, "\"type\":\"%s\",\"redop\":\"%s\",\"root\":\"%6d\"", row->type, row->op, row->root);
        side_of(f, "out_of_place", row, &row->side[0], report->line);
        side_of(f, "in_place", row, &row->side[1], report->line);
        fprintf(f, ",\"actual_iterations\":%d,\"experiment_name\":\"%s\"}", report->options->iterations, row->coll);
    }
    fputc(']', f);
}

void
perf_json_write(FILE *f, const perf_report *report)
{
    char now[32];
    uint64_t wrong = perf_report_wrong(report);
    perf_report_clock(now, sizeof(now));
    head(f, report);
    config(f, report);
    results(f, report);
    fprintf(f, ",\"out_of_bounds\":{\"count\":%llu,\"okay\":\"%s\"}", (unsigned long long)wrong,
            wrong == 0 ? "true" : "false");
    fprintf(f, ",\"average_bus_bandwidth\":{\"bandwidth\":%f,\"okay\":\"unchecked\"},\"errors\":[],",
            perf_report_busbw(report));
    pair(f, "end_time", now);
    fprintf(f, "}\n");
}
