# SPDX-License-Identifier: MIT
"""Allreduce of GPU tensors by torch.distributed's Gloo, timed as bench/nccl_bench.c does: median of the slowest rank.

hooprun -n 4 python3 bench/gloo_gpu.py     (hooprun sets RANK and WORLD_SIZE; the ranks meet through a file)
"""
import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
# One job, one file: a file that another job has left would be taken for this one's. HOOP_JOB is new for every job.
job = "gloo-%d-%s" % (os.getuid(), os.environ["HOOP_JOB"].replace("/", "_"))
meet = os.path.join(tempfile.gettempdir(), job)
dist.init_process_group("gloo", init_method="file://" + meet, rank=rank, world_size=size)
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())


def sample(tensor, rounds):
    """Seconds of each round, the slowest rank's: the same list on every rank."""
    samples = []
    for _ in range(rounds):
        dist.barrier()
        torch.cuda.synchronize()
        start = time.perf_counter()
        dist.all_reduce(tensor)
        torch.cuda.synchronize()
        samples.append(time.perf_counter() - start)
    slowest = torch.tensor(samples, dtype=torch.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return slowest.tolist()


def measure(dtype):
    nbytes = 8
    while nbytes <= 256 << 20:
        tensor = torch.zeros(max(1, nbytes // dtype.itemsize), dtype=dtype, device="cuda")
        warm = statistics.median(sample(tensor, 3))
        median = statistics.median(sample(tensor, min(50, max(5, int(2 / warm)))))  # two seconds a size
        if rank == 0:
            print("%11d %14s %10.1f" % (nbytes, dtype, median * 1e6), flush=True)
        nbytes *= 8 if nbytes < 4096 else 4


if rank == 0:
    print("# Gloo, GPU tensors, %d ranks: bytes, type, median us" % size)
for dtype in (torch.float32, torch.bfloat16):
    try:
        measure(dtype)
    except RuntimeError as error:  # not every version of Gloo takes every type; all ranks are refused alike
        if rank == 0:
            print("# Gloo refused %s: %s" % (dtype, str(error).splitlines()[0]), flush=True)
dist.destroy_process_group()
