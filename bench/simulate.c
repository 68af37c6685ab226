/* SPDX-License-Identifier: MIT */
/* simulate: predicts operations by the model of model.h and prints a line for each, beside 2N(n-1)/n. --help tells how.
 */
#include "bench/model.h"

#include <ctype.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIST_MAX = 64, RUNS_MAX = 1001, RANKS_MAX = 65536, ELEM = 4 };

typedef struct request {
    model_options model;
    uint64_t ranks[LIST_MAX], bytes[LIST_MAX];
    int ranks_count, bytes_count;
    int runs;  /* seeds; the median counts */
    int group; /* hierarchy: ranks of a group; 0: none */
    int csv;
} request;

static const char usage[] =
    "usage: simulate [OPTION...]      how long an allreduce of float32 takes, from the library's own plan and "
    "schedule\n"
    "\n"
    "  --ranks LIST           2,4,8                          --bytes LIST      64m,1k; k, m or g behind (default 64m)\n"
    "  --alpha US             latency of a hop (30)          --beta NS         a byte on the wire, each way (8: 1 "
    "Gbit/s)\n"
    "  --gamma NS             a byte reduced or copied (0.1) --overhead US     processor time of a frame, each end "
    "(2)\n"
    "  --delay US             a job's result comes later (0) --jitter PERCENT  of every transfer, latency and job (0)\n"
    "  --straggler RANK:FACTOR   this rank is so many times slower\n"
    "  --late RANK:US         this rank begins so much later than the others\n"
    "  --slices S  --window W  --slice-bytes BYTES  --channels C     default: the library's\n"
    "  --shape SHAPE          auto (default), ring, spread (chords), doubling (of 2^k ranks), halves (over chords)\n"
    "  --host L               ranks of a host: they share its wire, and memory among them (1)\n"
    "  --memory US:NS         a hop through memory, and a byte (2:0.1)\n"
    "  --levels               within each host, between the hosts, within each host\n"
    "  --hierarchy G          rings of G ranks reduce-scatter, rings across them allreduce, rings of G all-gather\n"
    "  --buffer BYTES         a socket holds so much that was not asked for (0)\n"
    "  --taken                a slot is free when its receiver says so: sending without a copy\n"
    "  --runs K  --seed X     with jitter: the median of K runs (1)\n"
    "  --csv                  comma-separated values\n"
    "\n"
    "share is the share of the wire's speed: 2N(n-1)/n bytes at beta, divided by the time.\n"
    "  simulate --ranks 2,4,8,16 --bytes 64m --jitter 100 --runs 11\n";

static void
die(const char *option, const char *value, const char *wanted)
{
    fprintf(stderr, "simulate: --%s %s: %s is wanted; --help tells more\n", option, value, wanted);
    exit(2);
}

/* --- the command line --- */

static double
number(const char *option, const char *text, const char **end)
{
    char *stop;
    double value = strtod(text, &stop);
    if (stop == text || value < 0 || value > 1e18 || (!end && *stop))
        die(option, text, "a number of 0 or more");
    if (end)
        *end = stop;
    return value;
}

static uint64_t
size(const char *option, const char *text, const char **end)
{
    static const char units[] = "kmg";
    const char *stop, *unit;
    double value = number(option, text, &stop);
    if (*stop && (unit = strchr(units, tolower((unsigned char)*stop)))) {
        value *= (double)(UINT64_C(1024) << (10 * (unit - units)));
        stop++;
    }
    if (end)
        *end = stop;
    else if (*stop)
        die(option, text, "a size such as 64k");
    return (uint64_t)value;
}

static int
list(const char *option, const char *text, uint64_t values[LIST_MAX])
{
    const char *at = text;
    int count = 0;
    while (count < LIST_MAX) {
        values[count++] = size(option, at, &at);
        if (*at != ',')
            break;
        at++;
    }
    if (*at)
        die(option, text, "a list such as 2,4,8, of at most 64 values");
    return count;
}

/* RANK:VALUE */
static double
rank_and(const char *option, const char *text, int *rank)
{
    const char *colon;
    double value = number(option, text, &colon);
    *rank = (int)value;
    if (*colon != ':')
        die(option, text, "RANK:VALUE");
    return number(option, colon + 1, NULL);
}

/* US:VALUE; the former in seconds at *first. */
static double
pair(const char *option, const char *text, double *first)
{
    const char *colon;
    *first = number(option, text, &colon) * 1e-6;
    if (*colon != ':')
        die(option, text, "US:NS");
    return number(option, colon + 1, NULL);
}

static int
algorithm(const char *text)
{
    static const hp_algorithm algorithms[] = {HP_ALG_RING, HP_ALG_SPREAD, HP_ALG_DOUBLING, HP_ALG_HALVES};
    for (size_t i = 0; i < sizeof(algorithms) / sizeof(*algorithms); i++)
        if (strcmp(text, hp_algorithm_name(algorithms[i])) == 0)
            return (int)algorithms[i];
    if (strcmp(text, "auto") != 0)
        die("shape", text, "auto, ring, spread, doubling or halves");
    return -1;
}

enum {
    RANKS = 256,
    BYTES,
    ALPHA,
    BETA,
    GAMMA,
    OVERHEAD,
    DELAY,
    JITTER,
    STRAGGLER,
    LATE,
    SLICES,
    WINDOW,
    SLICE_BYTES,
    CHANNELS,
    SHAPE,
    HIERARCHY,
    HOST,
    MEMORY,
    LEVELS,
    BUFFER,
    TAKEN,
    RUNS,
    SEED,
    CSV,
    HELP
};

static const struct option options[] = {{"ranks", 1, NULL, RANKS},
                                        {"bytes", 1, NULL, BYTES},
                                        {"alpha", 1, NULL, ALPHA},
                                        {"beta", 1, NULL, BETA},
                                        {"gamma", 1, NULL, GAMMA},
                                        {"overhead", 1, NULL, OVERHEAD},
                                        {"delay", 1, NULL, DELAY},
                                        {"jitter", 1, NULL, JITTER},
                                        {"straggler", 1, NULL, STRAGGLER},
                                        {"late", 1, NULL, LATE},
                                        {"slices", 1, NULL, SLICES},
                                        {"window", 1, NULL, WINDOW},
                                        {"slice-bytes", 1, NULL, SLICE_BYTES},
                                        {"channels", 1, NULL, CHANNELS},
                                        {"shape", 1, NULL, SHAPE},
                                        {"hierarchy", 1, NULL, HIERARCHY},
                                        {"host", 1, NULL, HOST},
                                        {"memory", 1, NULL, MEMORY},
                                        {"levels", 0, NULL, LEVELS},
                                        {"buffer", 1, NULL, BUFFER},
                                        {"taken", 0, NULL, TAKEN},
                                        {"runs", 1, NULL, RUNS},
                                        {"seed", 1, NULL, SEED},
                                        {"csv", 0, NULL, CSV},
                                        {"help", 0, NULL, HELP},
                                        {NULL, 0, NULL, 0}};

/* What the link, the processor and the ranks are like. */
static int
physical_option(model_options *m, int option, const char *name, const char *value)
{
    switch (option) {
    case ALPHA: m->alpha = number(name, value, NULL) * 1e-6; break;
    case BETA: m->beta = number(name, value, NULL) * 1e-9; break;
    case GAMMA: m->gamma = number(name, value, NULL) * 1e-9; break;
    case OVERHEAD: m->overhead = number(name, value, NULL) * 1e-6; break;
    case DELAY: m->delay = number(name, value, NULL) * 1e-6; break;
    case JITTER: m->jitter = number(name, value, NULL) / 100; break;
    case STRAGGLER: m->slowness = rank_and(name, value, &m->straggler); break;
    case LATE: m->lateness = rank_and(name, value, &m->late) * 1e-6; break;
    case MEMORY: m->memory_beta = pair(name, value, &m->memory_alpha) * 1e-9; break;
    case BUFFER: m->buffer = size(name, value, NULL); break;
    case TAKEN: m->taken = 1; break;
    case SEED: m->seed = (uint64_t)number(name, value, NULL); break;
    default: return 0;
    }
    return 1;
}

static void
logical_option(request *r, int option, const char *name, const char *value)
{
    switch (option) {
    case RANKS: r->ranks_count = list(name, value, r->ranks); break;
    case BYTES: r->bytes_count = list(name, value, r->bytes); break;
    case SLICES: r->model.plan.slices = (uint32_t)size(name, value, NULL); break;
    case WINDOW: r->model.window = (uint32_t)size(name, value, NULL); break;
    case SLICE_BYTES: r->model.plan.slice_bytes = (uint32_t)size(name, value, NULL); break;
    case CHANNELS: r->model.plan.channels = (uint32_t)size(name, value, NULL); break;
    case HOST: r->model.host_ranks = (int)size(name, value, NULL); break;
    case LEVELS: r->model.plan.levels = HP_LEVELS_ALL; break;
    case SHAPE: r->model.algorithm = algorithm(value); break;
    case HIERARCHY: r->group = (int)size(name, value, NULL); break;
    case RUNS: r->runs = (int)size(name, value, NULL); break;
    case CSV: r->csv = 1; break;
    case HELP: fputs(usage, stdout); exit(0);
    default: fputs(usage, stderr); exit(2);
    }
}

static void
check_request(const request *r)
{
    const model_options *m = &r->model;
    for (int i = 0; i < r->ranks_count; i++)
        if (r->ranks[i] < 2 || r->ranks[i] > RANKS_MAX || (r->group && r->ranks[i] % (uint64_t)r->group))
            die("ranks", "", r->group ? "2 or more, a multiple of the hierarchy's group," : "2 to 65536");
    for (int i = 0; i < r->ranks_count && m->algorithm == HP_ALG_DOUBLING; i++)
        if (r->ranks[i] & (r->ranks[i] - 1))
            die("ranks", "", "a power of two where the shape is doubling");
    for (int i = 0; i < r->bytes_count; i++)
        if (r->bytes[i] < ELEM)
            die("bytes", "", "4 or more");
    if (m->plan.slices < 1 || m->window < 1 || m->plan.channels < 1 || m->plan.slice_bytes < 64)
        die("slices, window, channels, slice-bytes", "", "1 or more, for slice-bytes 64,");
    if (m->jitter > 1)
        die("jitter", "", "0 to 100");
    if (r->runs < 1 || r->runs > RUNS_MAX)
        die("runs", "", "1 to 1001");
}

static void
read_options(request *r, int argc, char **argv)
{
    int option, index = 0;
    model_defaults(&r->model);
    physical_option(&r->model, ALPHA, "alpha", "30");
    physical_option(&r->model, BETA, "beta", "8");
    physical_option(&r->model, GAMMA, "gamma", "0.1");
    physical_option(&r->model, OVERHEAD, "overhead", "2");
    physical_option(&r->model, MEMORY, "memory", "2:0.1");
    while ((option = getopt_long(argc, argv, "", options, &index)) != -1)
        if (!physical_option(&r->model, option, options[index].name, optarg))
            logical_option(r, option, options[index].name, optarg);
    if (optind < argc)
        die("", argv[optind], "an option");
    if (!r->ranks_count)
        r->ranks_count = list("ranks", "2", r->ranks);
    if (!r->bytes_count)
        r->bytes_count = list("bytes", "64m", r->bytes);
    check_request(r);
}

/* --- predictions --- */

static void
simulate(const model_options *o, model_result *result)
{
    const char *why;
    if (model_run(o, result, &why) != 0) {
        fprintf(stderr, "simulate: %s\n", why);
        exit(1);
    }
}

static void
add(model_result *sum, const model_options *o)
{
    model_result part;
    simulate(o, &part);
    sum->locked |= part.locked;
    sum->time += part.time;
    sum->sent += part.sent;
    sum->frames += part.frames;
}

/* Three collectives, one after the other: within groups, across them, within groups. */
static void
simulate_hierarchy(const request *r, const model_options *whole, model_result *result)
{
    model_options part = *whole;
    uint64_t group = (uint64_t)r->group;
    *result = (model_result){.algorithm = HP_ALG_RING, .channels = whole->plan.channels, .slices = whole->plan.slices};
    part.ranks = r->group;
    part.count = (whole->count + group - 1) / group;
    if (part.straggler >= r->group)
        part.straggler = 0;
    if (part.late >= r->group)
        part.late = 0;
    part.kind = HP_REDUCE_SCATTER;
    if (group > 1)
        add(result, &part);
    part.kind = HP_ALLGATHER;
    part.late = -1;
    if (group > 1)
        add(result, &part);
    part.kind = HP_ALLREDUCE;
    part.ranks = whole->ranks / r->group;
    if (part.ranks > 1)
        add(result, &part);
}

static int
by_time(const void *a, const void *b)
{
    double x = ((const model_result *)a)->time, y = ((const model_result *)b)->time;
    return (x > y) - (x < y);
}

static model_result
predict(const request *r, int ranks, uint64_t bytes)
{
    static model_result results[RUNS_MAX];
    model_options o = r->model;
    o.ranks = ranks;
    o.count = bytes / ELEM;
    for (int i = 0; i < r->runs; i++) {
        if (r->group)
            simulate_hierarchy(r, &o, &results[i]);
        else
            simulate(&o, &results[i]);
        o.seed++;
    }
    qsort(results, (size_t)r->runs, sizeof(*results), by_time);
    return results[r->runs / 2];
}

/* --- printing --- */

static const char *
algorithm_name(const request *r, const model_result *result)
{
    if (r->group)
        return "hierarchy";
    return hp_algorithm_name(result->algorithm);
}

static void
print(const request *r, int ranks, uint64_t bytes, const model_result *result)
{
    double least = 2 * (double)bytes * (ranks - 1) / ranks, wire = least * r->model.beta;
    double share = result->time > 0 ? wire / result->time : 0;
    const char *name = algorithm_name(r, result);
    if (r->csv)
        printf("%d,%llu,%s,%u,%u,%u,%.9f,%.9f,%.4f,%llu,%.0f,%llu,%d\n", ranks, (unsigned long long)bytes, name,
               result->slices, r->model.window, result->channels, result->time, wire, share,
               (unsigned long long)result->sent, least, (unsigned long long)result->frames, result->locked);
    else if (result->locked)
        printf("%6d %12llu %-9s %3u %3u   locked: a window of %u is too small for %u slices\n", ranks,
               (unsigned long long)bytes, name, result->slices, r->model.window, r->model.window, result->slices);
    else
        printf("%6d %12llu %-9s %3u %3u %13.3f %13.3f %6.1f %% %14llu %7.4f %9llu\n", ranks, (unsigned long long)bytes,
               name, result->slices, r->model.window, result->time * 1e3, wire * 1e3, 100 * share,
               (unsigned long long)result->sent, (double)result->sent / least, (unsigned long long)result->frames);
    fflush(stdout);
}

int
main(int argc, char **argv)
{
    static request r = {.runs = 1};
    int locked = 0;
    read_options(&r, argc, argv);
    if (r.csv)
        printf("ranks,bytes,shape,slices,window,channels,time_s,wire_s,share,sent,least,frames,locked\n");
    else
        printf("%6s %12s %-9s %3s %3s %13s %13s %8s %14s %7s %9s\n", "ranks", "bytes", "shape", "S", "W", "time ms",
               "wire ms", "share", "sent B/rank", "/least", "frames");
    for (int i = 0; i < r.ranks_count; i++)
        for (int k = 0; k < r.bytes_count; k++) {
            model_result result = predict(&r, (int)r.ranks[i], r.bytes[k]);
            print(&r, (int)r.ranks[i], r.bytes[k], &result);
            locked |= result.locked;
        }
    return locked;
}
