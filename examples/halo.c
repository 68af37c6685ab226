/* SPDX-License-Identifier: MIT */
/*
 * halo: heat spreads along a rod that is cut into one piece a rank.     hooprun -n 3 halo
 *
 * Each step needs the outermost cell of both neighbours, so the ranks exchange these halo cells as messages: tag 0 goes
 * up, tag 1 goes down. In a group all four messages of a rank run at once, in whatever order they are called. Then every
 * rank compares its piece with the whole rod, computed without messages.
 */
#include <hoop.h>
#include <stdio.h>
#include <stdlib.h>

enum { CELLS = 240, STEPS = 200, UP = 0, DOWN = 1 };

static hoop_comm *comm;

static void
check(hoop_result result)
{
    if (result == HOOP_SUCCESS)
        return;
    hoop_error error = {.size = sizeof(error)};
    hoop_comm_error(comm, &error);
    fprintf(stderr, "halo: %s\n", error.text);
    exit(1);
}

/* One step on cells 1 to n; cells 0 and n + 1 are the halo. */
static void
spread(const double *from, double *to, int n)
{
    for (int i = 1; i <= n; i++)
        to[i] = from[i] + 0.25 * (from[i - 1] - 2 * from[i] + from[i + 1]);
}

/* The ends of the rod have no neighbour: there the halo stays 0. */
static void
exchange(double *cells, int n, int rank, int size)
{
    check(hoop_group_start(comm));
    if (rank + 1 < size) {
        hoop_send(&cells[n], 1, HOOP_FLOAT64, rank + 1, UP, comm);
        hoop_recv(&cells[n + 1], 1, HOOP_FLOAT64, rank + 1, DOWN, comm);
    }
    if (rank > 0) {
        hoop_send(&cells[1], 1, HOOP_FLOAT64, rank - 1, DOWN, comm);
        hoop_recv(&cells[0], 1, HOOP_FLOAT64, rank - 1, UP, comm);
    }
    check(hoop_group_end(comm));
}

/* The rod at the beginning: one hot cell in each ten. */
static double
heat_at(int cell)
{
    return cell % 10 == 3 ? 100 : 0;
}

int
main(void)
{
    static double whole[2][CELLS + 2], piece[2][CELLS + 2];
    check(hoop_comm_create(&comm, NULL));
    int rank = hoop_comm_rank(comm), size = hoop_comm_size(comm);
    int first = rank * CELLS / size, n = (rank + 1) * CELLS / size - first, wrong = 0;
    if (size > CELLS) {
        fprintf(stderr, "halo: %d ranks are too many: each needs one of the %d cells\n", size, CELLS);
        return 1;
    }
    for (int i = 0; i < CELLS; i++)
        whole[0][i + 1] = heat_at(i);
    for (int i = 0; i < n; i++)
        piece[0][i + 1] = heat_at(first + i);
    for (int step = 0; step < STEPS; step++) {
        exchange(piece[step % 2], n, rank, size);
        spread(piece[step % 2], piece[(step + 1) % 2], n);
        spread(whole[step % 2], whole[(step + 1) % 2], CELLS);
    }
    for (int i = 1; i <= n; i++)
        wrong += piece[STEPS % 2][i] != whole[STEPS % 2][first + i];
    printf("rank %d of %d: %d cells after %d steps, %d differ from the whole rod\n", rank, size, n, STEPS, wrong);
    check(hoop_comm_destroy(comm));
    return wrong > 0;
}
