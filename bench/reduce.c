/* SPDX-License-Identifier: MIT */
/*
 * reduce: how fast the CPU reduces, in GB of one operand a second (slot = slot op input), beside memcpy, for array
 * sizes from level-1 cache to memory. "avg" divides by 3; "sum, two" writes two destinations. Usage: reduce
 * [avx512|avx2|plain]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/host.h"
#include "lib/base/clock.h"
#include "lib/base/dtype.h"

enum { SIZES = 6, ROUNDS = 5, LARGEST = 16 << 20, BYTES_A_ROUND = 32 << 20 };

static const size_t sizes[SIZES] = {16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20};

typedef struct bench_case {
    const char *name;
    hoop_op op;
    int destinations;
    uint32_t divisor;
} bench_case;

static const bench_case cases[] = {
    {"sum", HOOP_SUM, 1, 0},   {"prod", HOOP_PROD, 1, 0}, {"max", HOOP_MAX, 1, 0},      {"min", HOOP_MIN, 1, 0},
    {"avg/2", HOOP_AVG, 1, 2}, {"avg/3", HOOP_AVG, 1, 3}, {"sum, two", HOOP_SUM, 2, 0},
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
    hp_job job = {.elem = dtype, .wire = dtype, .op = what->op, .divisor = what->divisor};

    job.sources = 2;
    job.destinations = what->destinations;
    job.src[0].ptr = job.dst[0].ptr = slot;
    job.src[1].ptr = input;
    job.dst[1].ptr = output;
    job.count = bytes / hp_dtype_size(dtype);
    hp_host_run_with(arith, &job);
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

/* Ones: they stay what they are under every operation but sums, and no value becomes denormal. */
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
                                            [HOOP_FLOAT8E5M2] = 0x3c};
    size_t size = hp_dtype_size(dtype);

    for (size_t i = 0; i < LARGEST; i += size) {
        memcpy((char *)slot + i, &one[dtype], size);
        memcpy((char *)input + i, &one[dtype], size);
    }
}

static void
print_type(hoop_dtype dtype)
{
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        fill(dtype);
        printf("%-12s %-9s", hp_dtype_name(dtype), cases[c].name);
        for (int s = 0; s < SIZES; s++)
            printf(" %8.1f", rate(reduce_once, &cases[c], dtype, sizes[s]));
        printf("\n");
    }
}

static int
choose(const char *name)
{
    arith = hp_arith_best();
    for (const hp_arith *const *next = hp_ariths; name != NULL; next++) {
        if (*next == NULL) {
            fprintf(stderr, "reduce: no loops are called %s: try avx512, avx2 or plain\n", name);
            return -1;
        }
        arith = *next;
        if (strcmp(arith->name, name) == 0)
            break;
    }
    if (!arith->usable()) {
        fprintf(stderr, "reduce: this CPU cannot run the %s loops\n", arith->name);
        return -1;
    }
    return 0;
}

int
main(int argc, char **argv)
{
    slot = aligned_alloc(4096, LARGEST);
    input = aligned_alloc(4096, LARGEST);
    output = aligned_alloc(4096, LARGEST);
    if (slot == NULL || input == NULL || output == NULL) {
        fprintf(stderr, "reduce: not enough memory for three arrays of 16 MiB\n");
        return 1;
    }
    if (choose(argc > 1 ? argv[1] : NULL) != 0)
        return 2;
    fill(HOOP_UINT8);
    memset(output, 0, LARGEST);
    printf("GB/s of operand, %s loops\n%-12s %-9s", arith->name, "", "");
    for (int s = 0; s < SIZES; s++)
        printf(" %4zu KiB", sizes[s] >> 10);
    printf("\n%-12s %-9s", "memcpy", "");
    for (int s = 0; s < SIZES; s++)
        printf(" %8.1f", rate(copy_once, cases, HOOP_UINT8, sizes[s]));
    printf("\n");
    for (int dtype = 0; dtype < HP_DTYPES; dtype++)
        print_type((hoop_dtype)dtype);
    free(slot);
    free(input);
    free(output);
    return 0;
}
