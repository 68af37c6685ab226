/* SPDX-License-Identifier: MIT */
/* hello: the smallest program. Every rank brings a number and all learn the sum.     hooprun -n 4 hello */
#include <hoop.h>
#include <stdio.h>

int
main(void)
{
    hoop_comm *comm;
    hoop_error error = {.size = sizeof(error)};
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS) {
        hoop_comm_error(NULL, &error);
        fprintf(stderr, "hello: %s\n", error.text);
        return 1;
    }
    int rank = hoop_comm_rank(comm), size = hoop_comm_size(comm);
    float mine = (float)(rank + 1), sum;
    if (hoop_allreduce(&mine, &sum, 1, HOOP_FLOAT32, HOOP_SUM, comm) != HOOP_SUCCESS) {
        hoop_comm_error(comm, &error);
        fprintf(stderr, "hello: %s\n", error.text);
        return 1;
    }
    printf("rank %d of %d: the sum of 1 to %d is %.0f\n", rank, size, size, (double)sum);
    return hoop_comm_destroy(comm) == HOOP_SUCCESS ? 0 : 1;
}
