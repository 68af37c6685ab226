/* SPDX-License-Identifier: MIT */
/* options: one table of long names, one switch, and small readers, which write the sentence about a wrong value. */
#include "perf/options.h"

#include "base/number.h"
#include "base/option.h"
#include "perf/collectives.h"

#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct reader {
    perf_options *to;
    char *why;
    size_t size;
    int from_set, to_set, wrong;
} reader;

enum { WORDS_SIZE = 200 };
enum { OPT_COLL = 256, OPT_STATS, OPT_CSV, OPT_WIRE, OPT_VERSION, OPT_COMPLETE };

#define FOREIGN_FLAGS "t:m:p:C:T:R:O:G:y:N:S:" /* flags of nccl-tests without a meaning here */

static const char letters[] = ":b:e:i:f:n:w:c:o:d:r:z:a:J:g:h" FOREIGN_FLAGS;
static const struct option long_options[] = {
    {"minbytes", required_argument, NULL, 'b'},
    {"maxbytes", required_argument, NULL, 'e'},
    {"stepbytes", required_argument, NULL, 'i'},
    {"stepfactor", required_argument, NULL, 'f'},
    {"iters", required_argument, NULL, 'n'},
    {"warmup_iters", required_argument, NULL, 'w'},
    {"check", required_argument, NULL, 'c'},
    {"op", required_argument, NULL, 'o'},
    {"datatype", required_argument, NULL, 'd'},
    {"root", required_argument, NULL, 'r'},
    {"blocking", required_argument, NULL, 'z'},
    {"average", required_argument, NULL, 'a'},
    {"output_file", required_argument, NULL, 'J'},
    {"ngpus", required_argument, NULL, 'g'},
    {"help", no_argument, NULL, 'h'},
    {"coll", required_argument, NULL, OPT_COLL},
    {"stats", no_argument, NULL, OPT_STATS},
    {"csv", required_argument, NULL, OPT_CSV},
    {"wire", required_argument, NULL, OPT_WIRE},
    {"version", no_argument, NULL, OPT_VERSION},
    {"complete-options", no_argument, NULL, OPT_COMPLETE},
    {"nthreads", required_argument, NULL, 't'},
    {"agg_iters", required_argument, NULL, 'm'},
    {"parallel_init", required_argument, NULL, 'p'},
    {"report_cputime", required_argument, NULL, 'C'},
    {"timeout", required_argument, NULL, 'T'},
    {"local_register", required_argument, NULL, 'R'},
    {"out_of_place", required_argument, NULL, 'O'},
    {"cudagraph", required_argument, NULL, 'G'},
    {"stream_null", required_argument, NULL, 'y'},
    {"run_cycles", required_argument, NULL, 'N'},
    {"report_timestamps", required_argument, NULL, 'S'},
    {NULL, 0, NULL, 0},
};

const char *
perf_options_help(void)
{
    return "Usage: hooprun -n RANKS hoop-bench [options]\n"
           "Measures and checks the collectives of hoop, with the flags, columns and files of nccl-tests.\n\n"
           "  -b, --minbytes SIZE    smallest size, with K, M or G (4)\n"
           "  -e, --maxbytes SIZE    largest size (64M)\n"
           "  -f, --stepfactor N     sizes grow by this factor (4) ...\n"
           "  -i, --stepbytes SIZE   ... or by this many bytes\n"
           "  -n, --iters N          timed runs of each size (20)\n"
           "  -w, --warmup_iters N   runs before them, after the first call (1)\n"
           "  -c, --check N          runs after them of which every element is checked; 0: none (1)\n"
           "      --coll NAME        allreduce, reduce_scatter[v], allgather[v], broadcast, reduce,\n"
           "                         gather, scatter, alltoall[v], sendrecv, barrier, or all (allreduce)\n"
           "  -d, --datatype TYPE    [u]int8, 16, 32, 64, bool, half, float, double, bfloat16,\n"
           "                         f8e4m3, f8e5m2, or all (float)\n"
           "  -o, --op OP            sum, prod, max, min, avg, band, bor, bxor, or all (sum)\n"
           "      --wire TYPE        sums of float travel as float32, bfloat16 or e4m3 (HOOP_WIRE_DTYPE)\n"
           "  -r, --root RANK        root of collectives that have one, or all (0)\n"
           "  -a, --average N        time to show: 0 rank 0, 1 mean, 2 fastest rank, 3 slowest rank (3)\n"
           "  -z, --blocking N       barrier after each run, 1: timed, 3: not timed; 0, 2: none (0)\n"
           "  -g, --ngpus N          0: host memory, 1: GPU memory (0)\n"
           "      --stats            first, median, p99, min, max, 95 % confidence interval of the median\n"
           "  -J, --output_file F    write JSON as nccl-tests;   --csv F   write comma-separated values\n"
           "      --help, --version\n\n"
           "Example: hooprun -n 4 hoop-bench -b 1K -e 256M -f 4 --stats -J today.json\n";
}

/* --- flags of nccl-tests without a meaning here --- */

/* Each has one value that asks for what hoop-bench does anyway, so that a line written for nccl-tests runs here. */
typedef struct foreign_flag {
    char flag;
    int neutral;         /* the value that changes nothing */
    const char *instead; /* what to do in place of any other */
} foreign_flag;

static const foreign_flag foreign[] = {
    {'t', 1, "a rank of hoop-bench is one process; start more ranks (hooprun -n)"},
    {'m', 1, "hoop-bench times calls one by one; hoop_group_start(3) joins calls in a program"},
    {'p', 0, "every rank joins the ring by itself; leave -p out"},
    {'C', 0, "hoop-bench does not report processor time; put time(1) in front of hooprun"},
    {'T', 0, "the time limit of a call is HOOP_OP_TIMEOUT_MS, and that of the job is hooprun --timeout"},
    {'R', 0, "hoop does not register memory; leave -R out"},
    {'O', 1, "hoop-bench always measures both places; leave -O out"},
    {'G', 0, "hoop-bench does not run CUDA graphs; leave -G out"},
    {'y', 0, "hoop-bench does not use CUDA's default stream; leave -y out"},
    {'N', 1, "hoop-bench measures each size once; take more runs (-n), or start it again"},
    {'S', 0, "rows have no timestamps; -J records when the run began and ended"},
};

/* --- options that take a name --- */

static const char *const wires[] = {"float32", "bfloat16", "e4m3"};
enum { WIRES = sizeof(wires) / sizeof(wires[0]) };

/* Of the values that an option takes; NULL: there are no more. */
static const char *
name_at(int option, int index)
{
    switch (option) {
    case 'o': return index < PERF_OPS ? perf_op_name(index) : NULL;
    case 'd': return index < PERF_TYPES ? perf_type_at(index)->name : NULL;
    case OPT_WIRE: return index < WIRES ? wires[index] : NULL;
    default: return index < PERF_COLLS ? perf_coll_at(index)->name : NULL;
    }
}

/* --- for the completion of the shell --- */

/* The words of a choice: all names, and in the end the word for all of them where there is one. */
static const char *
choice(int option, char words[WORDS_SIZE])
{
    size_t n = 0;
    const char *name;
    for (int i = 0; (name = name_at(option, i)) && n < WORDS_SIZE; i++)
        n += (size_t)snprintf(words + n, WORDS_SIZE - n, "%s%s", i > 0 ? "|" : "", name);
    if (option != OPT_WIRE && n < WORDS_SIZE)
        snprintf(words + n, WORDS_SIZE - n, "|all");
    return words;
}

void
perf_options_list(void)
{
    char words[4][WORDS_SIZE];
    const hp_option_kind own[] = {{OPT_COLL, "choice", choice(OPT_COLL, words[0])},
                                  {'d', "choice", choice('d', words[1])},
                                  {'o', "choice", choice('o', words[2])},
                                  {'J', "file", "FILE"},
                                  {OPT_CSV, "file", "FILE"},
                                  {OPT_WIRE, "choice", choice(OPT_WIRE, words[3])},
                                  {OPT_COMPLETE, "hidden", ""}};
    enum { OWN = sizeof(own) / sizeof(own[0]), FOREIGN = sizeof(foreign) / sizeof(foreign[0]) };
    hp_option_kind kinds[OWN + FOREIGN + 1] = {0};
    memcpy(kinds, own, sizeof(own));
    for (int i = 0; i < FOREIGN; i++)
        kinds[OWN + i] = (hp_option_kind){foreign[i].flag, "hidden", ""};
    hp_option_list(stdout, long_options, letters, kinds);
}

/* --- readers of values --- */

static void complain(reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The first complaint stays. */
static void
complain(reader *r, const char *format, ...)
{
    va_list arguments;
    if (r->wrong)
        return;
    r->wrong = 1;
    va_start(arguments, format);
    vsnprintf(r->why, r->size, format, arguments);
    va_end(arguments);
}

static int
number(reader *r, const char *option, const char *text, int least, int most)
{
    int value = 0;
    if (!hp_number_parse_int(text, least, most, &value))
        complain(r, "%s takes a whole number of %d to %d, not \"%s\"", option, least, most, text);
    return value;
}

/* As nccl-tests: a number, and K, M or G, of which only the letter counts ("4M", "4MiB", "1.5g"). */
static size_t
bytes(reader *r, const char *option, const char *text)
{
    char *end;
    double value = strtod(text, &end), unit = 1;
    switch (*end) {
    case 'k':
    case 'K': unit = 1024.0; break;
    case 'm':
    case 'M': unit = 1024.0 * 1024; break;
    case 'g':
    case 'G': unit = 1024.0 * 1024 * 1024; break;
    default: break;
    }
    const char *rest = unit > 1 ? end + 1 : end;
    int is_over = *rest == '\0' || strcasecmp(rest, "B") == 0 || strcasecmp(rest, "iB") == 0;
    if (end == text || !is_over || !(value >= 0) || value * unit > 1e15) {
        complain(r, "%s takes a size such as 8, 64K, 128M or 1G, not \"%s\"", option, text);
        return 0;
    }
    return (size_t)(value * unit);
}

static int
named(reader *r, int option, const char *what, const char *text, int (*find)(const char *name))
{
    int all = strcmp(text, "all") == 0, index = all ? PERF_ALL : find(text);
    const char *best = NULL, *name;
    hp_nearest nearest = hp_nearest_of(text);
    for (int i = 0; (name = name_at(option, i)); i++)
        best = hp_nearest_try(&nearest, name) ? name : best;
    if (index < 0 && !all)
        complain(r, "there is no %s called \"%s\"%s%s: see hoop-bench --help", what, text,
                 best ? "; the nearest one is " : "", best ? best : "");
    return index;
}

static int
is_wire(const char *text)
{
    int i = 0;
    while (i < WIRES && strcmp(text, wires[i]) != 0)
        i++;
    return i < WIRES;
}

static void
take(reader *r, int option, const char *text)
{
    perf_options *o = r->to;
    switch (option) {
    case 'n': o->iterations = number(r, "-n", text, 1, 1000000); break;
    case 'w': o->warmup = number(r, "-w", text, 0, 1000000); break;
    case 'c': o->check = number(r, "-c", text, 0, 1000000); break;
    case 'o': o->op = named(r, option, "operation", text, perf_op_named); break;
    case 'd': o->type = named(r, option, "type", text, perf_type_named); break;
    case 'r':
        o->root = strcmp(text, "all") == 0 || strcmp(text, "-1") == 0 ? PERF_ALL : number(r, "-r", text, 0, INT_MAX);
        break;
    case 'z': o->blocking = number(r, "-z", text, 0, 3); break;
    case 'a': o->average = number(r, "-a", text, 0, 3); break;
    case 'g': o->gpus = number(r, "-g", text, 0, 1); break;
    case 'J': o->json = text; break;
    case OPT_COLL: o->coll = named(r, option, "collective", text, perf_coll_named); break;
    case OPT_STATS: o->stats = 1; break;
    case OPT_CSV: o->csv = text; break;
    case OPT_WIRE:
        o->wire = text;
        if (!is_wire(text))
            complain(r, "--wire takes float32, bfloat16 or e4m3, not \"%s\"", text);
        break;
    case 'f': o->step_factor = (size_t)number(r, "-f", text, 1, 1 << 20); break;
    case 'b':
        o->min_bytes = bytes(r, "-b", text);
        r->from_set = 1;
        break;
    case 'e':
        o->max_bytes = bytes(r, "-e", text);
        r->to_set = 1;
        break;
    case 'i':
        o->step_bytes = bytes(r, "-i", text);
        o->step_factor = 1;
        if (o->step_bytes == 0)
            complain(r, "-i 0 would never reach the largest size: give a step of 1 byte or more");
        break;
    }
}

/* Where only one of -b and -e was given, and they cross, the other one follows. */
static void
settle(reader *r, int blocking_set)
{
    perf_options *o = r->to;
    int reduces = o->coll == PERF_ALL || perf_coll_at(o->coll)->reduces;
    if (r->from_set && !r->to_set && o->max_bytes < o->min_bytes)
        o->max_bytes = o->min_bytes;
    if (r->to_set && !r->from_set && o->min_bytes > o->max_bytes)
        o->min_bytes = o->max_bytes;
    if (o->stats && !blocking_set)
        o->blocking = 3;
    if (o->min_bytes > o->max_bytes)
        complain(r, "-b %zu is larger than -e %zu: there is no size between them", o->min_bytes, o->max_bytes);
    if (reduces && o->type != PERF_ALL && o->op != PERF_ALL && !perf_op_applies(o->op, perf_type_at(o->type)))
        complain(r, "%s has no operation %s: %s", perf_type_at(o->type)->name, perf_op_name(o->op),
                 perf_type_at(o->type)->kind == PERF_BOOL ? "a bool has no mean"
                                                          : "take one of integers, such as -d int32");
}

/* A long name behind one dash, which getopt_long takes for letters, is what was wrong first. */
static void
look_for_long_names(reader *r, int argc, char **argv)
{
    for (int i = argc - 1; i > 0; i--)
        for (const struct option *one = long_options; one->name; one++)
            if (argv[i][0] == '-' && strcmp(argv[i] + 1, one->name) == 0) {
                r->wrong = 0;
                complain(r, "%s is written with two dashes, --%s: see hoop-bench --help", argv[i], one->name);
            }
}

int
perf_options_read(perf_options *options, int argc, char **argv, char *why, size_t size)
{
    reader r = {.to = options, .why = why, .size = size};
    char wrong[256];
    int option, value, blocking_set = 0;
    *options = (perf_options){.min_bytes = 4, .max_bytes = (size_t)64 << 20, .step_bytes = (size_t)1 << 20};
    options->step_factor = 4;
    options->iterations = 20;
    options->warmup = options->check = 1;
    options->average = 3;
    options->type = perf_type_named("float");
    options->plain = argc == 1;
    opterr = 0;
    while ((option = getopt_long(argc, argv, letters, long_options, NULL)) != -1) {
        if (option == 'h' || option == OPT_VERSION)
            return option == 'h' ? PERF_HELP : PERF_VERSION;
        if (option == OPT_COMPLETE)
            return PERF_LIST;
        const foreign_flag *flag = NULL;
        for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
            flag = foreign[i].flag == option ? &foreign[i] : flag;
        blocking_set |= option == 'z';
        if (option == '?' || option == ':')
            complain(&r, "%s: see hoop-bench --help",
                     hp_option_error(option, argv[optind - 1], optopt, long_options, wrong, sizeof(wrong)));
        else if (!flag)
            take(&r, option, optarg);
        else if (!hp_number_parse_int(optarg, flag->neutral, flag->neutral, &value)) /* its neutral value passes */
            complain(&r, "-%c %s: %s", option, optarg, flag->instead);
    }
    if (optind < argc)
        complain(&r, "\"%s\" is no option: see hoop-bench --help", argv[optind]);
    settle(&r, blocking_set);
    if (r.wrong)
        look_for_long_names(&r, argc, argv);
    return r.wrong ? PERF_WRONG : PERF_RUN;
}
