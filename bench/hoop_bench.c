/* SPDX-License-Identifier: MIT */
/* hoop_bench: hoop under the harness of bench.h. A program of the public interface only; started by hooprun. */
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "hoop.h"

static void
must(hoop_result result, const hoop_comm *comm)
{
    hoop_error error = {.size = sizeof error};
    if (result == HOOP_SUCCESS)
        return;
    hoop_comm_error(comm, &error);
    fprintf(stderr, "hoop_bench: %s\n", error.text);
    exit(1);
}

static void
allreduce(void *context, float *data, size_t count)
{
    hoop_comm *comm = context;
    must(hoop_allreduce(data, data, count, HOOP_FLOAT32, HOOP_SUM, comm), comm);
}

int
main(void)
{
    hoop_comm *comm;
    bench_peer peer = {.allreduce = allreduce};
    int bad;
    must(hoop_comm_create(&comm, NULL), NULL);
    peer.context = comm;
    bench_join(hoop_comm_rank(comm), hoop_comm_size(comm));
    bad = bench_run(&peer);
    hoop_comm_destroy(comm);
    return bad;
}
