# SPDX-License-Identifier: MIT
"""Groups made with enable_reconfigure=True (PyTorch 2.15), and abort hooks.

    torch_reconfigure.py operations | smaller | ...      prints "passed ..."

Each story is run by three ranks, children of this process. They pass their handles on through a file. The store of the group
itself is each rank's own, so nothing of hoop can need it.
"""

import os
import secrets
import signal
import sys
import tempfile
import threading
import time
from datetime import timedelta

import torch
import torch._dynamo  # by DistributedDataParallel, and here before the ranks are forked
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from hoop.torch import compress
from torch.nn.parallel import DistributedDataParallel
from torch_checks import raises
from torch_starts import LIMIT, SIZE, all_end, start

LATER = timedelta(seconds=2)  # a limit that is to be reached
LONGEST = 240  # seconds of a story


def group(rank):
    """The group, and what torch calls its backend."""
    dist.init_process_group(
        "hoop", store=dist.HashStore(), rank=rank, world_size=SIZE, timeout=LIMIT, enable_reconfigure=True
    )
    assert dist._supports_reconfigure()
    backend = dist.get_backend_impl(None, torch.device("cpu"))
    assert backend.supports_reconfigure
    return dist.group.WORLD, backend


def handles(store, turn, name, names=range(SIZE)):
    """The handles of all names, after this process's own was passed on."""
    store.set(f"{turn}/{name}", dist._get_reconfigure_handle())
    return [store.get(f"{turn}/{other}").decode() for other in names]


def ring(uuid, members, rank, **more):
    """This process is rank `rank` of a ring that works."""
    dist._reconfigure(uuid, members, **more).wait()
    assert (dist.get_rank(), dist.get_world_size()) == (rank, len(members)), (dist.get_rank(), dist.get_world_size())
    x = torch.full((4,), rank + 1.0)
    dist.all_reduce(x)
    assert x.tolist() == [len(members) * (len(members) + 1) / 2] * 4, x


def meet(store, turn, name, names=range(SIZE)):
    """All of these names are in a ring, and at the end of their first operation there: one may end the ring now."""
    ring(turn, handles(store, turn, name, names), list(names).index(name))
    store.set(f"{turn}/up/{name}", "")
    for other in names:
        store.get(f"{turn}/up/{other}")


# --- stories ---------------------------------------------------------------------------------------------------------


def operations(store, rank):
    """All kinds of operations, from Python and from C++."""
    world, backend = group(rank)
    raises(dist.DistBackendError, "has no ring: call reconfigure()", lambda: dist.all_reduce(torch.ones(1)))
    meet(store, 1, rank)
    got = torch.zeros(4)
    works = [backend.send([torch.full((4,), float(rank))], (rank + 1) % SIZE, 0), backend.recv([got], (rank - 1) % SIZE, 0)]
    for work in works:
        work.wait()
    assert got.tolist() == [(rank - 1) % SIZE] * 4
    dist.broadcast(got, group_src=2)
    assert got.tolist() == [1] * 4
    parts = [torch.zeros(1) for _ in range(SIZE)]
    dist.all_gather(parts, torch.tensor([float(rank)]))
    assert [part.item() for part in parts] == list(range(SIZE))
    dist.all_reduce(got, async_op=True).wait()
    dist.barrier()
    whole = functional.all_gather_tensor(torch.tensor([rank]), 0, world)
    assert whole.tolist() == list(range(SIZE))
    torch.manual_seed(rank)
    model = DistributedDataParallel(torch.nn.Linear(3, 1))
    model(torch.randn(2, 3)).sum().backward()
    gradients = [torch.zeros_like(model.module.weight) for _ in range(SIZE)]
    dist.all_gather(gradients, model.module.weight.grad)
    assert all(torch.equal(gradient, gradients[0]) for gradient in gradients)
    raises(
        dist.DistBackendError, "needs a store that all ranks share", lambda: dist.monitored_barrier(timeout=LATER / 10)
    )


def smaller(store, rank):
    """Without the middle rank, whose next operation fails; then all are back. What DDP's hook keeps knows its ring."""
    world, _ = group(rank)
    meet(store, 1, rank)
    before = compress._operations(world).ring
    members = handles(store, 2, rank)
    if rank == 1:
        raises(dist.DistBackendError, "rank", lambda: dist.all_reduce(torch.ones(1)))
    else:
        ring(2, members[::2], rank // 2)
    meet(store, 3, rank)
    assert compress._operations(world).ring > before


def alone(store, rank):
    """From nothing to a ring of one, to all, and to a ring of one while others may still be in that."""
    group(rank)
    ring(10 + rank, [dist._get_reconfigure_handle()], 0)
    members = handles(store, 1, rank)
    dist._reconfigure(1, members).wait()
    ring(20 + rank, [dist._get_reconfigure_handle()], 0)


def flying(store, rank):
    """Operations in flight end when a rank leaves for another ring: its own, and that of a rank that waits."""
    group(rank)
    meet(store, 1, rank)
    why = "rank 1 reconfigures the process group"
    if rank == 0:
        raises(dist.DistBackendError, why, lambda: dist.all_reduce(torch.ones(1)))
    if rank == 1:
        work = dist.all_reduce(torch.ones(1), async_op=True)
        ring(10, [dist._get_reconfigure_handle()], 0)
        raises(dist.DistBackendError, why, work.wait)
    meet(store, 2, rank)


def threads(store, rank):
    """The operation that ends is one for which another thread waits."""
    group(rank)
    meet(store, 1, rank)
    if rank == 0:
        failed = []
        call = lambda: failed.append(raises(dist.DistBackendError, "rank 0", lambda: dist.all_reduce(torch.ones(1))))
        thread = threading.Thread(target=call)
        thread.start()
        time.sleep(0.5)  # most likely it waits by then; if not, it has no ring
        ring(10, [dist._get_reconfigure_handle()], 0)
        thread.join(LIMIT.total_seconds())
        assert failed
    meet(store, 2, rank)


def aborted(store, rank):
    world, backend = group(rank)
    meet(store, 1, rank)
    backend.abort()
    raises(dist.DistBackendError, "abort", lambda: dist.all_reduce(torch.ones(1)))
    meet(store, 2, rank)


def ordered(store, rank):
    """A list gives the ranks, a set keeps their order."""
    group(rank)
    meet(store, 1, rank)
    ring(2, handles(store, 2, rank)[::-1], 2 - rank)
    ring(3, set(handles(store, 3, rank)), 2 - rank)


def refused(store, rank):
    """What is wrong with handles and uuids; a ring whose members do not come, and the same handles afterwards."""
    group(rank)
    members = handles(store, 1, rank)
    refuse = lambda kind, words, uuid, of: raises(kind, words, lambda: dist._reconfigure(uuid, of, timeout=LATER))
    refuse(ValueError, "its own handle is not among the 2", 1, [m for m in members if m != members[rank]])
    refuse(ValueError, "one of the handles is there twice", 1, [members[rank]] * 2)
    refuse(ValueError, "no handle of a process on hoop: 'gloo:0:-1:0:'", 1, [members[rank], "gloo:0:-1:0:host:1"])
    began = time.monotonic()
    if rank != 1:  # each takes another one for the second member, or for the first: they do not meet
        refuse(dist.DistBackendError, "rank", 2, [members[0], members[1 if rank == 0 else 2]])
    assert time.monotonic() - began < LIMIT.total_seconds() / 2
    raises(dist.DistBackendError, "has no ring", lambda: dist.all_reduce(torch.ones(1)))
    ring(3, members, rank)
    refuse(ValueError, "is an old one", 4, members)
    refuse(dist.DistBackendError, "the uuid 3 was already used", 3, [dist._get_reconfigure_handle()])


def without_leader(store, rank):
    """The process of the first handle has ended: the others learn that they want that one, and go on without it."""
    group(rank)
    members = handles(store, 1, rank)
    if rank == 0:
        os._exit(0)
    raises(dist.DistBackendError, "in the process of the first handle: has it ended", lambda: dist._reconfigure(1, members, timeout=LATER))
    ring(2, members[1:], rank - 1)


def mixed(store, rank):
    """A group of two backends has no such rings."""
    asks = dict(store=dist.HashStore(), rank=rank, world_size=SIZE, enable_reconfigure=True)
    raises(ValueError, "has one backend", lambda: dist.init_process_group("cpu:hoop,cuda:nccl", **asks))


def secret_file(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
        file.write(secrets.token_hex(32) + "\n")
    return path


def own_secret(store, rank):
    """The user's own secret is in no handle. A process without it learns what it lacks."""
    folder = os.environ["HOOP_TEST_SCRATCH"]
    os.environ["XDG_CONFIG_HOME"] = folder if rank < 2 else folder + "/nothing"
    group(rank)
    members = handles(store, 1, rank)
    with open(f"{folder}/hoop/secret") as file:
        own = file.read().strip()
    assert not any(own in member for member in members)
    if rank == 2:
        raises(ValueError, "user's own secret", lambda: dist._reconfigure(1, members))
    else:
        ring(2, members[:2], rank)


def file_of_secret(store, rank):
    """HOOP_SECRET_FILE."""
    path = os.environ["HOOP_TEST_SCRATCH"] + "/hoop/secret"
    os.environ["HOOP_SECRET_FILE"] = path
    group(rank)
    members = handles(store, 1, rank)
    with open(path) as file:
        own = file.read().strip()
    assert not any(own in member for member in members)
    ring(1, members, rank)
    members = handles(store, 2, rank)
    if rank == 2:
        del os.environ["HOOP_SECRET_FILE"]
        raises(ValueError, "want the secret from HOOP_SECRET_FILE", lambda: dist._reconfigure(2, members))
    else:
        ring(3, members[:2], rank)


def hooks(store, rank):
    """Abort hooks run when an operation fails for which nobody waits, and before a call raises. One that fails is printed."""
    world, backend = group(rank)
    assert backend.supports_abort_hooks
    meet(store, 1, rank)
    called, of_world, never = threading.Event(), threading.Event(), threading.Event()
    failing = lambda: 1 / 0
    if rank == 1:
        store.get("started/0"), store.get("started/2")
        os._exit(0)
    if rank == 2:
        work = dist.all_reduce(torch.ones(1), async_op=True)
    for number, hook in enumerate((failing, called.set, never.set)):
        backend.register_abort_hook(number, hook)
    world.register_abort_hook(3, of_world.set)
    backend.unregister_abort_hook(2)
    if rank == 0:
        work = dist.all_reduce(torch.ones(1), async_op=True)
    raises(ValueError, "99", lambda: backend.send([torch.ones(1)], 99, 0))
    assert not called.is_set(), "a wrong argument ends no ring"
    store.set(f"started/{rank}", "")
    assert called.wait(LIMIT.total_seconds()) and of_world.wait(LIMIT.total_seconds())
    raises(dist.DistBackendError, "rank 1", work.wait)
    called.clear()
    raises(dist.DistBackendError, "rank 1", lambda: dist.all_reduce(torch.ones(1)))
    assert called.is_set() and not never.is_set()
    meet(store, 2, rank, (0, 2))


def waiting_hooks(store, rank):
    """A hook that waits gets an error, on whichever thread it runs, and none is called within another."""
    world, backend = group(rank)
    meet(store, 1, rank)
    members, refused = handles(store, 2, rank), threading.Event()
    if rank == 1:
        store.get("started/0"), store.get("started/2")
        os._exit(0)
    work = dist.all_reduce(torch.ones(1), async_op=True)
    calls = lambda: dist._reconfigure(2, members[::2]), work.wait, backend.shutdown

    def hook():
        raises(dist.DistBackendError, "rank 1", lambda: dist.all_reduce(torch.ones(1)))
        for call in calls:
            raises(RuntimeError, "in an abort hook", call)
        refused.set()

    if rank == 0:  # nobody waits for the operation; rank 2 does
        backend.register_abort_hook(0, hook)
    store.set(f"started/{rank}", "")
    if rank == 2:
        raises(dist.DistBackendError, "rank 1", work.wait)
        backend.register_abort_hook(0, hook)
        raises(dist.DistBackendError, "rank 1", lambda: dist.all_reduce(torch.ones(1)))
    assert refused.wait(LIMIT.total_seconds())
    ring(2, members[::2], rank // 2)


def late(store, rank):
    """Rank 0 does not enter an operation within the time limit, and nobody waits: the hooks run all the same."""
    world, backend = group(rank)
    world.set_timeout(LIMIT)
    meet(store, 1, rank)
    called = threading.Event()
    backend.register_abort_hook(0, called.set)
    backend.set_timeout(LATER)
    if rank != 0:
        work = dist.all_reduce(torch.ones(1), async_op=True)
        assert called.wait(LIMIT.total_seconds())
        raises(dist.DistBackendError, " timeout ", work.wait)
    backend.set_timeout(LIMIT)
    meet(store, 2, rank)


# --- a process that dies, and one that comes -------------------------------------------------------------------------


def until_it_fails():
    while True:
        dist.all_reduce(torch.ones(1))


def first_life(store, rank):
    group(rank)
    meet(store, 1, rank)
    if rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    raises(dist.DistBackendError, "rank 0", until_it_fails)
    meet(store, 2, rank, (1, 2))
    meet(store, 3, rank, (1, 2, 3))
    dist.destroy_process_group()


def second_life(store, name):
    group(0)
    meet(store, 3, name, (1, 2, 3))
    dist.destroy_process_group()


def replaced(make_store):
    """Rank 0, which led, is killed in a ring. The others go on, and later with a new process."""
    pids = start(make_store, range(SIZE), first_life)
    assert os.waitstatus_to_exitcode(os.waitpid(pids[0], 0)[1]) == -signal.SIGKILL
    all_end(pids[1:] + start(make_store, [3], second_life), "the two that are left, and a new one", LONGEST)


def told(name):
    """A story, and the end of its group."""

    def life(store, rank):
        globals()[name](store, rank)
        if dist.is_initialized():
            dist.destroy_process_group()

    return life


def main(name):
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["HOOP_TEST_SCRATCH"] = scratch
        secret_file(f"{scratch}/hoop/secret")
        keep = dist.FileStore(f"{scratch}/store", -1)  # the last to close a file removes it
        make_store = lambda: dist.FileStore(f"{scratch}/store", SIZE)
        if name == "replaced":
            replaced(make_store)
        else:
            all_end(start(make_store, range(SIZE), told(name)), name, LONGEST)
        del keep
    print(f"passed {name}", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1])
