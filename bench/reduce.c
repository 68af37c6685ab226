/* SPDX-License-Identifier: MIT */
/*
 * reduce: how fast the CPU reduces, in GB of one operand a second (slot = slot op input), beside memcpy, for array
 * sizes from level-1 cache to memory, as Markdown tables. "avg/3" divides by 3, or of 16- and 8-bit floats joins a mean
 * of two ranks with a third one's array; "sum, two" writes two destinations; what a type does not have is left out. float32
 * has also how fast it is converted to and from what it can travel as, in GB of float32 a second.
 * Usage: reduce [avx512|avx2|plain|all] [TYPE...]
 */
#include "base/clock.h"
#include "base/dtype.h"
#include "gpu/host.h"
#include "t/tools/type_named.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZES = 6, ROUNDS = 5, LARGEST = 16 << 20, BYTES_A_ROUND = 32 << 20 };
enum { SLOT = 2 }; /* the size that stands for the others: that of a slot, lib/config.def's slice_bytes */

static const size_t sizes[SIZES] = {16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20};

typedef struct bench_case {
    const char *name;
    hoop_op op;
    int destinations;
    uint32_t divisor;
} bench_case;

static const bench_case cases[] = {
    {"sum", HOOP_SUM, 1, 0},   {"prod", HOOP_PROD, 1, 0}, {"max", HOOP_MAX, 1, 0},   {"min", HOOP_MIN, 1, 0},
    {"avg/2", HOOP_AVG, 1, 2}, {"avg/3", HOOP_AVG, 1, 3}, {"bxor", HOOP_BXOR, 1, 0}, {"sum, two", HOOP_SUM, 2, 0},
};

/* float32 to the wire, or from there. */
static const struct conversion {
    bench_case what;
    hoop_dtype wire;
    int leaves;
} conversions[] = {
    {{"to bfloat16", HOOP_SUM, 1, 0}, HOOP_BFLOAT16, 0},
    {{"from bfloat16", HOOP_SUM, 1, 0}, HOOP_BFLOAT16, 1},
    {{"to e4m3", HOOP_SUM, 1, 0}, HP_SCALED, 0},
    {{"from e4m3", HOOP_SUM, 1, 0}, HP_SCALED, 1},
};

static const hp_arith *arith;
static void *slot, *input, *output;

static void
copy_once(const bench_case *what, hoop_dtype dtype, size_t bytes)
{
    (void)what;
    (void)dtype;
    memcpy(slot, input, bytes);
    __asm__ volatile("" ::: "memory");
}

static void
reduce_once(const bench_case *what, hoop_dtype dtype, size_t bytes)
{
    hp_command command = {.elem = dtype, .wire = dtype, .op = what->op, .divisor = what->divisor};
    if (what->divisor > 1 && hp_narrow_index(dtype) >= 0) {
        command.ranks[0] = what->divisor - 1;
        command.ranks[1] = 1;
        command.divisor = 0;
    }
    command.sources = 2;
    command.destinations = what->destinations;
    command.src[0].ptr = command.dst[0].ptr = slot;
    command.src[1].ptr = input;
    command.dst[1].ptr = output;
    command.count = bytes / hp_dtype_size(dtype);
    hp_host_run_with(arith, &command);
}

static void
convert_once(const bench_case *what, hoop_dtype dtype, size_t bytes)
{
    const struct conversion *c = (const struct conversion *)what;
    hp_command command = {.elem = dtype, .wire = c->wire, .sources = 1, .destinations = 1};
    command.src[0] = (hp_operand){c->leaves ? input : slot, c->leaves};
    command.dst[0] = (hp_operand){c->leaves ? slot : output, !c->leaves};
    command.count = bytes / hp_dtype_size(dtype);
    hp_host_run_with(arith, &command);
}

/* The best of ROUNDS, in GB/s. */
static double
rate(void (*once)(const bench_case *, hoop_dtype, size_t), const bench_case *what, hoop_dtype dtype, size_t bytes)
{
    size_t repeats = BYTES_A_ROUND / 4 / bytes + 1;
    double best = 0;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t start = hp_now();
        double speed;
        for (size_t i = 0; i < repeats; i++)
            once(what, dtype, bytes);
        speed = (double)(repeats * bytes) / (double)(hp_now() - start);
        best = speed > best ? speed : best;
    }
    return best;
}

/* Ones: they stay what they are under every operation but sums and bxor, and no value becomes denormal. */
static void
fill(hoop_dtype dtype)
{
    static const uint64_t one[HP_DTYPES] = {[HOOP_INT8] = 1,
                                            [HOOP_UINT8] = 1,
                                            [HOOP_INT32] = 1,
                                            [HOOP_UINT32] = 1,
                                            [HOOP_INT64] = 1,
                                            [HOOP_UINT64] = 1,
                                            [HOOP_FLOAT16] = 0x3c00,
                                            [HOOP_FLOAT32] = 0x3f800000,
                                            [HOOP_FLOAT64] = 0x3ff0000000000000,
                                            [HOOP_BFLOAT16] = 0x3f80,
                                            [HOOP_FLOAT8E4M3] = 0x38,
                                            [HOOP_FLOAT8E5M2] = 0x3c,
                                            [HP_INT16] = 1,
                                            [HP_UINT16] = 1,
                                            [HP_BOOL] = 1};
    size_t size = hp_dtype_size(dtype);
    for (size_t i = 0; i < LARGEST; i += size) {
        memcpy((char *)slot + i, &one[hp_dtype_index(dtype)], size);
        memcpy((char *)input + i, &one[hp_dtype_index(dtype)], size);
    }
}

static double memcpy_rate[SIZES];

static void
print_row(const char *type, const char *operation, const double *rates)
{
    printf("| %s | %s |", type, operation);
    for (int s = 0; s < SIZES; s++)
        printf(" %.1f |", rates[s]);
    printf(" %.2f |\n", rates[SLOT] / memcpy_rate[SLOT]);
    fflush(stdout);
}

static void
print_type(hoop_dtype dtype)
{
    double rates[SIZES];
    for (size_t c = 0; c < sizeof(cases) / sizeof(*cases); c++) {
        if (!hp_op_applies(cases[c].op, dtype))
            continue;
        fill(dtype);
        for (int s = 0; s < SIZES; s++)
            rates[s] = rate(reduce_once, &cases[c], dtype, sizes[s]);
        print_row(hp_dtype_name(dtype), cases[c].name, rates);
    }
    for (size_t c = 0; c < sizeof(conversions) / sizeof(*conversions) && dtype == HOOP_FLOAT32; c++) {
        fill(dtype);
        for (int s = 0; s < SIZES; s++)
            rates[s] = rate(convert_once, &conversions[c].what, dtype, sizes[s]);
        print_row(hp_dtype_name(dtype), conversions[c].what.name, rates);
    }
}

/* Every type that was asked for, with the loops in `arith`. */
static void
print_table(const char *wanted)
{
    printf("\n### %s loops, GB/s of one operand\n\n| type | operation |", arith->name);
    for (int s = 0; s < SIZES; s++)
        printf(" %zu KiB |", sizes[s] >> 10);
    printf(" to memcpy, %zu KiB |\n|---|---|", sizes[SLOT] >> 10);
    for (int s = 0; s <= SIZES; s++)
        printf("---|");
    printf("\n");
    fill(HOOP_UINT8);
    for (int s = 0; s < SIZES; s++)
        memcpy_rate[s] = rate(copy_once, cases, HOOP_UINT8, sizes[s]);
    print_row("any", "memcpy", memcpy_rate);
    for (int i = 0; i < HP_DTYPES; i++)
        if (wanted[i])
            print_type(hp_dtype_at(i));
}

/* The loops called `name`; NULL where there are none, or this CPU cannot run them, and a sentence says so. */
static const hp_arith *
loops_named(const char *name)
{
    for (const hp_arith *const *next = hp_ariths; *next; next++) {
        if (strcmp((*next)->name, name) != 0)
            continue;
        if ((*next)->usable())
            return *next;
        fprintf(stderr, "reduce: this CPU cannot run the %s loops\n", name);
        return NULL;
    }
    fprintf(stderr, "reduce: no loops are called %s: try avx512, avx2, plain or all\n", name);
    return NULL;
}

/* Marks the types that are named, all if none is. 0, or -1 after a sentence. */
static int
choose_types(char *wanted, int count, char **names)
{
    memset(wanted, count == 0, HP_DTYPES);
    for (int i = 0; i < count; i++) {
        int dtype = type_named(names[i]);
        if (dtype < 0) {
            fprintf(stderr, "reduce: there is no type %s: try float32, half, int8\n", names[i]);
            return -1;
        }
        wanted[hp_dtype_index((hoop_dtype)dtype)] = 1;
    }
    return 0;
}

static void
print_machine(void)
{
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256];
    while (file && fgets(line, sizeof(line), file))
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':')) {
            printf("One core of %s", strchr(line, ':') + 2);
            break;
        }
    if (file)
        fclose(file);
}

static int
print_all(const char *loops, const char *wanted)
{
    int all = loops && strcmp(loops, "all") == 0;
    arith = !loops || all ? hp_arith_best() : loops_named(loops);
    if (!arith)
        return 2;
    print_machine();
    if (!all)
        print_table(wanted);
    for (const hp_arith *const *next = hp_ariths; all && *next; next++)
        if ((*next)->usable()) {
            arith = *next;
            print_table(wanted);
        }
    return 0;
}

int
main(int argc, char **argv)
{
    char wanted[HP_DTYPES];
    int status = 2;
    slot = aligned_alloc(4096, LARGEST);
    input = aligned_alloc(4096, LARGEST);
    output = aligned_alloc(4096, LARGEST);
    if (!slot || !input || !output) {
        fprintf(stderr, "reduce: not enough memory for three arrays of 16 MiB\n");
        return 1;
    }
    memset(output, 0, LARGEST);
    if (choose_types(wanted, argc > 2 ? argc - 2 : 0, argv + 2) == 0)
        status = print_all(argc > 1 ? argv[1] : NULL, wanted);
    free(slot);
    free(input);
    free(output);
    return status;
}
