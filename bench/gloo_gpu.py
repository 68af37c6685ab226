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
# one job, one file: the ranks of a job share HOOP_RENDEZVOUS
meet = os.path.join(tempfile.gettempdir(), "gloo-%d-%s" % (os.getuid(), os.environ["HOOP_RENDEZVOUS"].replace("/", "_")))
dist.init_process_group("gloo", init_method="file://" + meet, rank=rank, world_size=size)
torch.cuda.set_device(0)
if rank == 0:
    print("# Gloo, GPU tensors, %d ranks: bytes, type, median us" % size)
for dtype in (torch.float32, torch.bfloat16):
    nbytes = 8
    while nbytes <= 256 << 20:
        tensor = torch.zeros(max(1, nbytes // dtype.itemsize), dtype=dtype, device="cuda")
        samples = []
        for i in range(3 + (20 if nbytes <= 16 << 20 else 7)):
            dist.barrier()
            torch.cuda.synchronize()
            start = time.monotonic()
            dist.all_reduce(tensor)
            torch.cuda.synchronize()
            samples.append(time.monotonic() - start)
        slowest = torch.tensor(samples[3:], dtype=torch.float64)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        if rank == 0:
            print("%11d %14s %10.1f" % (nbytes, dtype, statistics.median(slowest.tolist()) * 1e6), flush=True)
        nbytes *= 8 if nbytes < 4096 else 4
dist.destroy_process_group()
