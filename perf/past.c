/* SPDX-License-Identifier: MIT */
/*
 * past: reads the results out of a JSON file of a former run and puts them beside those of this one. The reader
 * knows JSON's shape and nothing else: it walks through any file and picks up values by their path.
 */
#include "perf/coll.h"
#include "perf/report.h"
#include "perf/types.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 16, PATH_ROOM = 256, TEXT_ROOM = 4096 };

typedef struct scan {
    FILE *file;
    int depth;
    char path[PATH_ROOM], text[TEXT_ROOM];
    perf_past *past;
    perf_row row; /* the one being read */
} scan;

static int value(scan *s);

static int
next_sign(scan *s)
{
    int c;
    do
        c = getc(s->file);
    while (c == ' ' || c == '\t' || c == '\n' || c == '\r');
    return c;
}

/* A figure of one place: key is what its path ends in. */
static void
keep_figure(perf_side *side, const char *key, double figure)
{
    if (strcmp(key, "time") == 0)
        side->time = figure * 1e-6;
    else if (strcmp(key, "bus_bw") == 0)
        side->busbw = figure;
    else if (strcmp(key, "median_us") == 0)
        side->stats.median = figure * 1e-6;
    else if (strcmp(key, "ci95_low_us") == 0)
        side->stats.low = figure * 1e-6;
    else if (strcmp(key, "ci95_high_us") == 0)
        side->stats.high = figure * 1e-6;
}

static void
keep(scan *s)
{
    static const char out[] = "/results/out_of_place/", in[] = "/results/in_place/";
    const char *at = s->path, *text = s->text;
    perf_row *row = &s->row;
    if (strcmp(at, "/results/size") == 0)
        row->bytes = strtoull(text, NULL, 10);
    else if (strcmp(at, "/results/root") == 0)
        row->root = (int)strtol(text, NULL, 10);
    else if (strcmp(at, "/results/redop") == 0)
        row->op = perf_op_name(perf_op_named(text));
    else if (strcmp(at, "/results/type") == 0)
        row->type = perf_type_named(text) < 0 ? "none" : perf_type_at(perf_type_named(text))->name;
    else if (strcmp(at, "/results/experiment_name") == 0)
        row->coll = perf_coll_named(text) < 0 ? "" : perf_coll_at(perf_coll_named(text))->name;
    else if (strncmp(at, out, sizeof(out) - 1) == 0)
        keep_figure(&row->side[0], at + sizeof(out) - 1, strtod(text, NULL));
    else if (strncmp(at, in, sizeof(in) - 1) == 0)
        keep_figure(&row->side[1], at + sizeof(in) - 1, strtod(text, NULL));
    else if (strcmp(at, "/config/devices/rank") == 0)
        s->past->ranks++;
}

/* The rest of a string, its opening quote read. What does not fit is left out. */
static int
string(scan *s)
{
    size_t length = 0;
    for (int c = getc(s->file); c != '"'; c = getc(s->file)) {
        if (c == '\\')
            c = getc(s->file);
        if (c == EOF)
            return -1;
        if (length < TEXT_ROOM - 1)
            s->text[length++] = (char)c;
    }
    s->text[length] = '\0';
    return 0;
}

static int
number_or_word(scan *s, int c)
{
    size_t length = 0;
    for (; c != EOF && !strchr(",]} \t\r\n", c); c = getc(s->file))
        if (length < TEXT_ROOM - 1)
            s->text[length++] = (char)c;
    ungetc(c, s->file);
    s->text[length] = '\0';
    return length > 0 ? 0 : -1;
}

/* "key": value, the opening quote read. */
static int
member(scan *s)
{
    size_t length = strlen(s->path);
    if (string(s) != 0 || next_sign(s) != ':' || length + 1 + strlen(s->text) >= PATH_ROOM)
        return -1;
    snprintf(s->path + length, PATH_ROOM - length, "/%.200s", s->text);
    int failed = value(s);
    s->path[length] = '\0';
    return failed;
}

static int
object(scan *s)
{
    const perf_side none = {.stats = {.low = 1, .high = 0}};
    if (strcmp(s->path, "/results") == 0)
        s->row = (perf_row){.coll = "", .type = "none", .op = "none", .root = -1, .side = {none, none}};
    int c = next_sign(s);
    while (c == '"') {
        if (member(s) != 0)
            return -1;
        c = next_sign(s);
        if (c == ',')
            c = next_sign(s);
    }
    if (c == '}' && strcmp(s->path, "/results") == 0)
        return perf_rows_add(&s->past->rows, &s->row);
    return c == '}' ? 0 : -1;
}

static int
list(scan *s)
{
    int c = next_sign(s);
    if (c == ']')
        return 0;
    ungetc(c, s->file);
    do {
        if (value(s) != 0)
            return -1;
        c = next_sign(s);
    } while (c == ',');
    return c == ']' ? 0 : -1;
}

static int
scalar(scan *s, int c)
{
    if ((c == '"' ? string(s) : number_or_word(s, c)) != 0)
        return -1;
    keep(s);
    return 0;
}

static int
value(scan *s)
{
    int c = next_sign(s), failed;
    if (++s->depth > DEEPEST)
        return -1;
    failed = c == '{' ? object(s) : c == '[' ? list(s) : scalar(s, c);
    s->depth--;
    return failed;
}

int
perf_past_read(perf_past *past, const char *path, char *why, size_t size)
{
    scan s = {.file = fopen(perf_file_newest(path, past->path), "r"), .past = past};
    if (!s.file) {
        snprintf(why, size, "--compare cannot read %s: %s", past->path, strerror(errno));
        return -1;
    }
    int failed = value(&s);
    fclose(s.file);
    if (!failed && past->rows.count > 0)
        return 0;
    snprintf(why, size, "--compare needs a file that hoop-bench -J or nccl-tests -J has written; %s is not one",
             past->path);
    return -1;
}

const perf_row *
perf_past_find(const perf_past *past, const perf_row *now)
{
    for (size_t i = 0; i < past->rows.count; i++) {
        const perf_row *row = &past->rows.row[i];
        int same_coll = row->coll[0] == '\0' || strcmp(row->coll, now->coll) == 0;
        if (same_coll && row->bytes == now->bytes && row->root == now->root && strcmp(row->type, now->type) == 0 &&
            strcmp(row->op, now->op) == 0)
            return row;
    }
    return NULL;
}

typedef struct verdict {
    double logs;
    int count;      /* of ratios */
    int has_ranges; /* of those whose two runs both have a confidence interval */
} verdict;

/* A star where the two runs differ by more than each of them varies. */
static char
mark(const perf_side *now, const perf_side *past)
{
    int same_way = (now->stats.median < past->stats.median) == (now->time < past->time);
    return same_way && perf_stats_apart(&now->stats, &past->stats) ? '*' : ' ';
}

static void
ratio(const perf_side *now, const perf_side *past, verdict *v)
{
    if (now->time <= 0 || past->time <= 0) {
        printf("  %12s ", "-");
        return;
    }
    printf("  %12.3f%c", now->time / past->time, mark(now, past));
    v->has_ranges += perf_stats_has_interval(&now->stats) && perf_stats_has_interval(&past->stats);
    v->logs += log(now->time / past->time);
    v->count++;
}

static void
tell_marks(const verdict *v)
{
    if (v->has_ranges > 0)
        printf("# * the medians differ: each lies outside the other run's 95 %% confidence interval\n");
    else if (v->count > 0)
        printf(
            "# No stars: with fewer than 6 timed runs (-n) of hoop-bench, now or then, a difference may be chance\n");
}

void
perf_past_compare(const perf_report *report, const perf_past *past)
{
    verdict v = {0};
    printf("# Compared with %s: time now / time then, below 1 is faster now\n", past->path);
    if (past->ranks > 0 && past->ranks != report->ranks)
        printf("# Beware: the former run had %d ranks, this one has %d\n", past->ranks, report->ranks);
    printf("#\n");
    printf("# %14s  %10s  %8s  %6s  %6s  %12s   %12s\n", "collective", "size", "type", "redop", "root", "out-of-place",
           "in-place");
    for (size_t i = 0; i < report->rows.count; i++) {
        const perf_row *now = &report->rows.row[i], *then = perf_past_find(past, now);
        if (!then)
            continue;
        printf("# %14s  %10zu  %8s  %6s  %6d", now->coll, now->bytes, now->type, now->op, now->root);
        ratio(&now->side[0], &then->side[0], &v);
        ratio(&now->side[1], &then->side[1], &v);
        printf("\n");
    }
    tell_marks(&v);
    if (v.count == 0)
        printf("# %-20s : no size, type and operation in common\n#\n", "Compared");
    else
        printf("# %-20s : %.3f times the former time (geometric mean of %d)\n#\n", "Compared", exp(v.logs / v.count),
               v.count);
}
