/* SPDX-License-Identifier: MIT */
/*
 * hoop-bench over a library that lies: linked with --wrap, so that one chosen allreduce comes back with one wrong bit.
 * t/sys/bench.t proves with it that a wrong result is seen, shown and counted all the way to the exit status, and
 * bench_gpu.t that it is seen in a GPU's memory too.
 * BENCH_LIE is the count of float32 elements whose allreduces are falsified; on rank 0 only. BENCH_SLOW is a number of
 * milliseconds that every allreduce of float32 takes longer.
 */
#include "gpu/gpu.h"
#include "t/tools/cuda_device.h"

#include <stdlib.h>
#include <unistd.h>

hoop_result __real_hoop_allreduce(const void *sendbuf, void *recvbuf, size_t count, hoop_dtype dtype, hoop_op op,
                                  hoop_comm *comm);
hoop_result __wrap_hoop_allreduce(const void *sendbuf, void *recvbuf, size_t count, hoop_dtype dtype, hoop_op op,
                                  hoop_comm *comm);

static void
falsify(unsigned char *byte)
{
    unsigned char wrong;
    hp_device *gpu = NULL;
    if (hp_device_of(byte) == &hp_host_ops) {
        *byte ^= 1;
        return;
    }
    if (hp_cuda_ops.open(&gpu, byte, NULL) != HOOP_SUCCESS)
        abort();
    hp_cuda_copy(gpu, &wrong, byte, 1, NULL);
    wrong ^= 1;
    hp_cuda_copy(gpu, byte, &wrong, 1, NULL);
    gpu->ops->close(gpu);
}

hoop_result
__wrap_hoop_allreduce(const void *sendbuf, void *recvbuf, size_t count, hoop_dtype dtype, hoop_op op, hoop_comm *comm)
{
    const char *lie = getenv("BENCH_LIE"), *slow = getenv("BENCH_SLOW");
    hoop_result result = __real_hoop_allreduce(sendbuf, recvbuf, count, dtype, op, comm);
    if (slow && dtype == HOOP_FLOAT32)
        usleep((useconds_t)strtoul(slow, NULL, 10) * 1000);
    if (lie && dtype == HOOP_FLOAT32 && strtoull(lie, NULL, 10) == count && hoop_comm_rank(comm) == 0)
        falsify((unsigned char *)recvbuf + 4 * (count / 2));
    return result;
}
