/* SPDX-License-Identifier: MIT */
/* past: picks the figures that are compared out of the file, and leaves out what it does not know. */
#include "perf/past.h"

#include "perf/collectives.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- reading --- */

#ifdef HAVE_JANSSON
#include <jansson.h>

/* nccl-tests writes some numbers as texts, such as "root":"     0". */
static double
number_of(const json_t *object, const char *key, double otherwise)
{
    const json_t *value = json_object_get(object, key);
    if (json_is_string(value))
        return strtod(json_string_value(value), NULL);
    return json_is_number(value) ? json_number_value(value) : otherwise;
}

static const char *
text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static perf_side
side_of(const json_t *side)
{
    perf_side s = {.stats = {.low = 1, .high = 0}, .absent = !json_is_object(side)};
    s.time = number_of(side, "time", 0) * 1e-6;
    s.busbw = number_of(side, "bus_bw", 0);
    s.stats.median = number_of(side, "median_us", 0) * 1e-6;
    s.stats.low = number_of(side, "ci95_low_us", 1e6) * 1e-6;
    s.stats.high = number_of(side, "ci95_high_us", 0) * 1e-6;
    return s;
}

static perf_row
row_of(const json_t *result)
{
    int type = perf_type_named(text_of(result, "type")), coll = perf_coll_named(text_of(result, "experiment_name"));
    perf_row row = {.coll = coll < 0 ? "" : perf_coll_at(coll)->name,
                    .type = type < 0 ? "none" : perf_type_at(type)->name,
                    .op = perf_op_name(perf_op_named(text_of(result, "redop"))),
                    .bytes = (size_t)number_of(result, "size", 0),
                    .root = (int)number_of(result, "root", -1)};
    row.side[0] = side_of(json_object_get(result, "out_of_place"));
    row.side[1] = side_of(json_object_get(result, "in_place"));
    return row;
}

/* The number of rows, or -1 out of memory. */
static int
take_rows(perf_past *past, const json_t *file)
{
    const json_t *result, *results = json_object_get(file, "results");
    size_t i;
    json_array_foreach(results, i, result)
    {
        perf_row row = row_of(result);
        if (perf_rows_add(&past->rows, &row) != 0)
            return -1;
    }
    past->ranks = (int)json_array_size(json_object_get(json_object_get(file, "config"), "devices"));
    return (int)past->rows.count;
}

int
perf_past_read(perf_past *past, const char *path, char *why, size_t size)
{
    FILE *file = fopen(perf_file_newest(path, past->path), "r");
    if (!file) {
        snprintf(why, size, "--compare cannot read %s: %s", past->path, strerror(errno));
        return -1;
    }
    json_t *all = json_loadf(file, 0, NULL);
    fclose(file);
    int rows = take_rows(past, all);
    json_decref(all);
    if (rows > 0)
        return 0;
    snprintf(why, size, "--compare needs a file that hoop-bench -J or nccl-tests -J has written; %s is not one",
             past->path);
    return -1;
}

#else

int
perf_past_read(perf_past *past, const char *path, char *why, size_t size)
{
    (void)past;
    snprintf(why, size,
             "--compare %s: this hoop-bench was built without libjansson, which reads JSON; build it again where "
             "libjansson-dev is installed",
             path);
    return -1;
}

#endif

/* --- comparing --- */

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

/* What the ratios of all rows add up to. */
typedef struct ratios {
    double logs; /* their sum */
    int count;
    int has_ranges; /* those whose two runs both have a confidence interval */
} ratios;

/* A star where the two runs differ by more than each of them varies. */
static char
mark(const perf_side *now, const perf_side *past)
{
    int same_way = (now->stats.median < past->stats.median) == (now->time < past->time);
    return same_way && perf_stats_apart(&now->stats, &past->stats) ? '*' : ' ';
}

static void
ratio(const perf_side *now, const perf_side *past, ratios *r)
{
    if (now->time <= 0 || past->time <= 0) {
        printf("  %12s ", "-");
        return;
    }
    printf("  %12.3f%c", now->time / past->time, mark(now, past));
    r->has_ranges += perf_stats_has_interval(&now->stats) && perf_stats_has_interval(&past->stats);
    r->logs += log(now->time / past->time);
    r->count++;
}

static void
print_marks(const ratios *r)
{
    if (r->has_ranges > 0)
        printf("# * the medians differ: each lies outside the other run's 95 %% confidence interval\n");
    else if (r->count > 0)
        printf(
            "# No stars: with fewer than 6 timed runs (-n) of hoop-bench, now or then, a difference may be chance\n");
}

void
perf_past_compare(const perf_report *report, const perf_past *past)
{
    ratios r = {0};
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
        ratio(&now->side[0], &then->side[0], &r);
        ratio(&now->side[1], &then->side[1], &r);
        printf("\n");
    }
    print_marks(&r);
    if (r.count == 0)
        printf("# %-20s : no size, type and operation in common\n#\n", "Compared");
    else
        printf("# %-20s : %.3f times the former time (geometric mean of %d)\n#\n", "Compared", exp(r.logs / r.count),
               r.count);
}
