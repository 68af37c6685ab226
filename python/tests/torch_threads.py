# SPDX-License-Identifier: MIT
"""Several threads of a rank on one process group of backend="hoop": futures and waits beside blocking calls.

    torchrun --nproc-per-node 2 torch_threads.py [CHECK ...]

Rank 0 prints a line "passed CHECK" for each.
"""

import threading

import torch
import torch.distributed as dist
import torch.distributed.nn
from torch.nn.parallel import DistributedDataParallel

from torch_checks import main, me, ranks, same


def in_threads(*functions):
    """Runs them at the same time; the first exception is raised here."""
    failed = []

    def run(function):
        try:
            function()
        except Exception as why:
            failed.append(why)

    threads = [threading.Thread(target=run, args=[function]) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def check_future_beside_blocking():
    """A future completes, with its value, while this thread is in blocking calls of the same group."""
    for step in range(1000):
        x, y = torch.full((3,), float(step)), torch.ones(5)
        future = dist.all_reduce(x, async_op=True).get_future()
        dist.all_reduce(y)
        value = future.wait()
        same(value[0], torch.full((3,), float(step * ranks())), "the future's value")
        same(y, torch.full((5,), float(ranks())), "the blocking call's")


def check_waits_of_two_threads():
    """Handles that one thread has got are waited for by another, which has none of its own to drive."""
    handed, ready = [], threading.Semaphore(0)

    def start():
        for step in range(300):
            x = torch.full((2,), float(step))
            handed.append((step, x, dist.all_reduce(x, async_op=True)))
            ready.release()
            dist.all_reduce(torch.ones(1))

    def wait():
        for _ in range(300):
            ready.acquire()
            step, x, work = handed.pop(0)
            work.wait()
            same(x, torch.full((2,), float(step * ranks())), f"step {step}")

    in_threads(start, wait)


def messages(tag, count):
    """To the next rank, and from the one before, one after the other."""
    after, before = (me() + 1) % ranks(), (me() - 1) % ranks()
    for step in range(count):
        x = torch.full((4,), -1, dtype=torch.int64)
        work = dist.isend(torch.full((4,), 1000 * tag + step, dtype=torch.int64), after, tag=tag)
        dist.recv(x, before, tag=tag)
        work.wait()
        same(x, torch.full((4,), 1000 * tag + step, dtype=torch.int64), f"message {step} with tag {tag}")


def check_messages_of_two_threads():
    in_threads(lambda: messages(1, 200), lambda: messages(2, 200))


def check_one_sends_one_receives():
    after, before = (me() + 1) % ranks(), (me() - 1) % ranks()

    def send():
        for step in range(300):
            dist.send(torch.tensor([step]), after)

    def receive():
        for step in range(300):
            x = torch.tensor([-1])
            dist.recv(x, before)
            same(x, torch.tensor([step]), f"message {step}")

    in_threads(send, receive)


def check_collectives_beside_messages():
    def collectives():
        for step in range(200):
            x = torch.full((100,), float(step))
            dist.all_reduce(x)
            same(x, torch.full((100,), float(step * ranks())), f"step {step}")
            dist.barrier()

    in_threads(collectives, lambda: messages(1, 200), lambda: messages(2, 200))


def check_groups_of_two_threads():
    """Batches of messages: each is a group of libhoop, which belongs to its thread."""

    def batches(tag):
        after, before = (me() + 1) % ranks(), (me() - 1) % ranks()
        for step in range(100):
            x = torch.tensor([-1])
            batch = [
                dist.P2POp(dist.isend, torch.tensor([step]), after, tag=tag),
                dist.P2POp(dist.irecv, x, before, tag=tag),
            ]
            for work in dist.batch_isend_irecv(batch):
                work.wait()
            same(x, torch.tensor([step]), f"batch {step} with tag {tag}")

    in_threads(lambda: batches(1), lambda: batches(2))


# --- DDP with layers that have collectives of their own --------------------------------------------------------------


def centred(group):
    """Subtracts the mean over all ranks; the gradients go over the ranks, too."""

    class Centred(torch.nn.Module):
        def forward(self, x):
            return x - torch.distributed.nn.all_reduce(x.mean(0), group=group) / ranks()

    return Centred()


def synchronised(group):
    """Averages the gradients over all ranks by a blocking call in the backward pass."""

    class Synchronise(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            gradient = gradient.clone()
            dist.all_reduce(gradient, group=group)
            return gradient / ranks()

    class Synchronised(torch.nn.Module):
        def forward(self, x):
            return Synchronise.apply(x)

    return Synchronised()


def trained(layer, group, steps=20):
    """The weights after some steps of a net with four such layers."""
    torch.manual_seed(0)
    layers = [part for _ in range(4) for part in (torch.nn.Linear(64, 64), layer(group), torch.nn.ReLU())]
    model = DistributedDataParallel(torch.nn.Sequential(*layers), process_group=group, bucket_cap_mb=0.01)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    data = torch.Generator().manual_seed(me())
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(8, 64, generator=data)).square().mean().backward()
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def check_ddp_with_collectives():
    """The weights are gloo's, to the bit on two ranks."""
    gloo = dist.new_group(backend="gloo")
    for layer in centred, synchronised:
        same(trained(layer, dist.group.WORLD), trained(layer, gloo), layer.__name__)
    dist.destroy_process_group(gloo)


if __name__ == "__main__":
    main(globals())
