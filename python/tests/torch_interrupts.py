# SPDX-License-Identifier: MIT
"""interrupts.py for backend="hoop" of PyTorch; the ranks meet through a file."""

import os
import signal
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from interrupts import at_it, main, refused

MINUTE = timedelta(seconds=60)


def group(size):
    for name in ("HOOP_SECRET_FILE", "HOOP_RENDEZVOUS"):
        os.environ.pop(name, None)
    path = os.path.join(os.environ["HOOP_TEST_TMP"], f"store-{os.environ['HOOP_JOB']}")
    dist.init_process_group("hoop", init_method=f"file://{path}", rank=int(os.environ["HOOP_RANK"]), world_size=size)


def joined():
    group(3)
    dist.barrier()


def late():
    sys.stdin.readline()
    dist.barrier()
    dist.barrier()


def create(rank):
    """Ranks 0 and 1 wait for rank 2."""
    if rank < 2:
        at_it(rank)
        group(3)


def invited(rank):
    """Rank 0, which has the server, is late: nobody is there who could tell the others."""
    at_it(rank)
    if rank == 0:
        sys.stdin.read()
    group(3)


def split(rank):
    joined()
    if rank < 2:
        at_it(rank)
        dist.new_group([0, 1, 2])
    sys.stdin.read()


def wait(rank, **limit):
    joined()
    work = dist.all_reduce(torch.ones(1), async_op=True) if rank == 1 else None
    if rank == 1:
        at_it(rank)
        try:
            work.wait(**limit)
        finally:
            refused(work.wait)
    late()


def wait_with_limit(rank):
    wait(rank, timeout=MINUTE)


def future(rank):
    """The wait is over, and the program ends by it."""
    joined()
    work = dist.all_reduce(torch.ones(1), async_op=True) if rank == 1 else None
    if rank == 1:
        ended = work.get_future()
        at_it(rank)
        try:
            ended.wait()
        except KeyboardInterrupt:
            assert not ended.done()
            raise
    late()


def call(rank):
    joined()
    if rank == 1:
        at_it(rank)
        dist.all_gather_object([None] * 3, "x")
    late()


def monitored(rank):
    joined()
    if rank == 1:
        at_it(rank)
        if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 14):  # before, torch has it for gloo alone
            dist.monitored_barrier(timeout=MINUTE)
        dist.barrier()
    late()


def backward(rank):
    """Rank 1 waits in torch's C++ for the others' gradients."""
    joined()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    if rank == 1:
        at_it(rank)
        model(torch.ones(1, 4)).sum().backward()
    late()


def leave(rank):
    joined()
    work = dist.all_reduce(torch.ones(1), async_op=True) if rank == 1 else None
    if rank == 1:
        at_it(rank)
        dist.destroy_process_group()
    late()
    return work


def leaves(rank, act):
    """As programs do that a batch system ends by a signal: wherever they are, they leave the group and exit."""
    joined()

    def handle(*_):
        dist.destroy_process_group()
        print("rank 1: interrupted", flush=True)
        sys.exit(0)

    if rank == 1:
        signal.signal(signal.SIGINT, handle)
        at_it(rank)
        act()
    late()


def started():
    return dist.all_reduce(torch.ones(1), async_op=True)


def leave_in_wait(rank):
    leaves(rank, lambda: started().wait())


def leave_in_call(rank):
    leaves(rank, lambda: dist.all_reduce(torch.ones(1)))


def leave_in_watched_wait(rank):
    def act():
        work = started()
        work.get_future()
        work.wait()

    leaves(rank, act)


def leave_in_polling(rank):
    def act():
        work = started()
        while not work.is_completed():
            pass

    leaves(rank, act)


def leave_while_leaving(rank):
    def act():
        kept.append(started())
        dist.destroy_process_group()

    kept = []
    leaves(rank, act)


if __name__ == "__main__":
    BOTH = 0, 2
    main(
        __file__,
        {
            create: [0],
            invited: None,
            split: [0],
            wait: BOTH,
            wait_with_limit: BOTH,
            future: BOTH,
            call: BOTH,
            monitored: BOTH,
            backward: BOTH,
            leave: BOTH,
            leave_in_wait: BOTH,
            leave_in_call: BOTH,
            leave_in_watched_wait: BOTH,
            leave_in_polling: BOTH,
            leave_while_leaving: BOTH,
        },
    )
