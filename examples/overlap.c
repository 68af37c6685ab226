/* SPDX-License-Identifier: MIT */
/*
 * overlap: several operations in flight while the program computes.     hooprun -n 2 overlap
 *
 * A chain of layers is worked through twice: first each result is reduced before the next is computed, then each is
 * started and left to travel while the next is computed. The answers are the same; the times are printed, not promised.
 */
#include <hoop.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LAYERS = 8, COUNT = 256 * 1024 };

static float layer[LAYERS][COUNT], reference[LAYERS][COUNT];
static hoop_comm *comm;

static double
now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void
check(hoop_result result)
{
    if (result == HOOP_SUCCESS)
        return;
    hoop_error error = {.size = sizeof(error)};
    hoop_comm_error(comm, &error);
    fprintf(stderr, "overlap: %s\n", error.text);
    exit(1);
}

/* Stands for the backward pass of one layer. */
static void
compute(float *out, int which)
{
    float start = (float)(hoop_comm_rank(comm) + which);
    for (int i = 0; i < COUNT; i++)
        out[i] = sinf(start + (float)(i % 1000));
}

static double
one_after_the_other(void)
{
    double start = now();
    for (int i = LAYERS - 1; i >= 0; i--) {
        compute(layer[i], i);
        check(hoop_allreduce(layer[i], layer[i], COUNT, HOOP_FLOAT32, HOOP_AVG, comm));
    }
    return now() - start;
}

static double
all_in_flight(void)
{
    hoop_work *work[LAYERS];
    double start = now();
    for (int i = LAYERS - 1; i >= 0; i--) {
        compute(layer[i], i);
        check(hoop_iallreduce(layer[i], layer[i], COUNT, HOOP_FLOAT32, HOOP_AVG, comm, &work[i]));
    }
    check(hoop_wait_all(work, LAYERS));
    return now() - start;
}

int
main(void)
{
    check(hoop_comm_create(&comm, NULL));
    double apart = one_after_the_other();
    memcpy(reference, layer, sizeof(layer));
    double together = all_in_flight();
    int same = memcmp(reference, layer, sizeof(layer)) == 0;
    if (hoop_comm_rank(comm) == 0)
        printf(
            "%d layers of %d KiB over %d ranks: %.1f ms one after the other, %.1f ms in flight, the results are %s\n",
            (int)LAYERS, (int)(sizeof(layer[0]) / 1024), hoop_comm_size(comm), 1e3 * apart, 1e3 * together,
            same ? "the same" : "DIFFERENT");
    check(hoop_comm_destroy(comm));
    return same ? 0 : 1;
}
