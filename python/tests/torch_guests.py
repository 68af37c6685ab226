# SPDX-License-Identifier: MIT
"""Programs of others' making, on hoop: each names gloo or hoop as its users do.

    torchrun ... torch_guests.py accelerate | told | unused | zero | pipeline | restart | killed | mixed | unmixed | store | secret | own_secret | fewer
        | spawned
"""

import datetime
import logging
import os
import sys
import tempfile
import time

import torch
import torch.distributed as dist
from torch_checks import batch, find_hoop, me, net, power_of_two, raises, ranks, same, train, trained_alone


def is_hoop():
    """The group is hoop's, whatever its name."""
    from hoop.torch.operations import _groups

    assert len(_groups) > 0, "gloo runs this"


def accelerate():
    """Accelerate on CPUs names gloo itself."""
    from accelerate import Accelerator

    helper = Accelerator(cpu=True)
    is_hoop()
    model = net(helper.process_index)
    rule = torch.optim.SGD(model.parameters(), lr=2.0**-8)
    model, rule = helper.prepare(model, rule)
    for step in range(2):
        rule.zero_grad()
        helper.backward(model(batch(me(), step)).sum())
        rule.step()
    for got, want in zip(model.parameters(), trained_alone() if power_of_two() else []):
        same(got.detach(), want.detach(), "a parameter after Accelerate")
    assert helper.gather(torch.tensor([me()])).tolist() == list(range(ranks()))
    helper.wait_for_everyone()
    helper.end_training()


def heard():
    """The list into which the lines of the package's logger go from now on."""
    lines = []
    teller = logging.Handler()
    teller.emit = lambda record: lines.append(record.getMessage())
    logging.getLogger("hoop").addHandler(teller)
    logging.getLogger("hoop").setLevel(logging.INFO)
    return lines


def told():
    """One INFO line, and one expression, tell that hoop is in use, also under gloo's name and with torch's own wrapper."""
    import hoop.torch

    lines = heard()
    hoop.torch.register()
    assert not hoop.torch.is_used()
    dist.init_process_group("gloo")
    assert hoop.torch.is_used() and hoop.torch.is_used(dist.new_group())
    assert len(lines) == 1 and f"hoop and gloo (HOOP_TORCH_REPLACE) of torch.distributed: rank {me()} of" in lines[0], lines
    dist.destroy_process_group()


def gloo_network():
    """In gloo's place hoop takes the interface that gloo is told to take."""
    del os.environ["HOOP_SOCKET_IFNAME"]
    os.environ["GLOO_SOCKET_IFNAME"] = "nosuch0"
    raises(RuntimeError, "HOOP_SOCKET_IFNAME==nosuch0", lambda: dist.init_process_group("gloo"))


def unused():
    """gloo is gloo if nobody has replaced it."""
    import hoop.torch

    dist.init_process_group("gloo")
    assert not hoop.torch.is_used()
    dist.destroy_process_group()


def zero():
    """As DeepSpeed on CPUs: gloo by name, gradients that are reduced and scattered, parameters that are gathered."""
    dist.init_process_group("gloo")
    is_hoop()
    model = net(me())
    flat = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    dist.broadcast(flat, 0, group=dist.new_group(list(range(ranks()))))
    torch.nn.utils.vector_to_parameters(flat, model.parameters())
    padded = torch.zeros(-(-flat.numel() // ranks()) * ranks(), dtype=flat.dtype)
    padded[: flat.numel()] = flat
    mine = padded.chunk(ranks())[me()].clone()
    for step in range(2):
        model.zero_grad()
        model(batch(me(), step)).sum().backward()
        gradients = torch.zeros_like(padded)
        gradients[: flat.numel()] = torch.cat([p.grad.view(-1) for p in model.parameters()])
        part = torch.empty_like(mine)
        work = dist.reduce_scatter_tensor(part, gradients, async_op=True)
        work.wait()
        mine -= part / ranks() * 2.0**-8
        dist.all_gather_into_tensor(padded, mine)
        torch.nn.utils.vector_to_parameters(padded[: flat.numel()].clone(), model.parameters())
    for got, want in zip(model.parameters(), trained_alone() if power_of_two() else []):
        same(got.detach(), want.detach(), "a parameter after ZeRO")
    dist.destroy_process_group()


def pipeline():
    """torch.distributed.pipelining: a stage on each rank, four batches in flight. The gradients are those of one process."""
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    def stage_of(rank):
        torch.manual_seed(rank)
        return torch.nn.Linear(8, 8)

    def loss_of(got, want):
        return ((got - want) ** 2).sum()

    dist.init_process_group("hoop")
    torch.manual_seed(100)
    x, y = torch.randn(16, 8), torch.randn(16, 8)
    mine, first, last = stage_of(me()), me() == 0, me() == ranks() - 1
    schedule = ScheduleGPipe(PipelineStage(mine, me(), ranks(), torch.device("cpu")), 4, loss_fn=loss_of, scale_grads=False)
    schedule.step(*([x] if first else []), **({"target": y} if last else {}))
    alone = torch.nn.Sequential(*[stage_of(rank) for rank in range(ranks())])
    for part, target in zip(x.chunk(4), y.chunk(4)):
        loss_of(alone(part), target).backward()
    torch.testing.assert_close(mine.weight.grad, alone[me()].weight.grad)
    dist.destroy_process_group()


def restart():
    """torchrun starts all ranks again after one has died; the second time meets at the same store."""
    dist.init_process_group("hoop")
    first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    model = torch.nn.parallel.DistributedDataParallel(net())
    if first and me() == 1:
        os._exit(3)
    train(model, lambda step: batch(me(), step))
    dist.destroy_process_group()


def killed():
    """A rank dies before the group is made, while the others meet; torchrun starts all of them again over the same store."""
    if os.environ["TORCHELASTIC_RESTART_COUNT"] in ("0", "1") and os.environ["RANK"] == "1":
        time.sleep(1)
        os._exit(3)
    dist.init_process_group("hoop", timeout=datetime.timedelta(seconds=40))
    dist.barrier()
    dist.destroy_process_group()


def mixed():
    """hoop for the CPU's tensors beside another backend for a GPU's, which needs no GPU as long as it has no tensor."""
    dist.init_process_group("cpu:hoop,cuda:gloo")
    is_hoop()
    x = torch.ones(3)
    dist.all_reduce(x)
    same(x, torch.full((3,), float(ranks())), "all_reduce of a group with two backends")
    dist.destroy_process_group()


def unmixed():
    """Before torch 2.14 a group has one backend; two are refused in either order, and hoop for both kinds is one."""
    for asked in ("cpu:hoop,cuda:gloo", "cuda:gloo,cpu:hoop"):
        why = raises(ValueError, f'backend "{asked}"', lambda: dist.init_process_group(asked))
        assert "use backend=" in str(why), why
    dist.init_process_group("cpu:hoop,cuda:hoop")
    is_hoop()
    dist.destroy_process_group()


def store():
    """The store dies before the group is made: one sentence, on every rank that is left."""
    dist.init_process_group("hoop")
    if me() == 0:
        host = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
        told = [host.port]
    else:
        told = [0]
    dist.broadcast_object_list(told, 0)
    if me() == 1:
        guest = dist.TCPStore("127.0.0.1", told[0], None, False, wait_for_workers=False)
    dist.barrier()
    if me() == 0:
        del host
    dist.barrier()
    if me() == 1:
        from hoop.torch.meeting import meet

        try:
            meet(guest, 1, 2, dist.default_pg_timeout)
            raise AssertionError("a dead store has an answer")
        except dist.DistStoreError as why:
            assert "is the process that runs the store still alive?" in str(why), why
    dist.barrier()
    dist.destroy_process_group()


def secret():
    """HOOP_SECRET_FILE on rank 0 only: every rank hears it at once, and the next group, which all have it for, works."""
    kept = os.environ["HOOP_SECRET_FILE"]
    if os.environ["RANK"] == "1":
        del os.environ["HOOP_SECRET_FILE"]
    start = time.monotonic()
    why = raises(ValueError, "rank 1 cannot", lambda: dist.init_process_group("hoop"))
    assert "HOOP_SECRET_FILE is not set there; set it on all ranks" in str(why), why
    assert time.monotonic() - start < 30
    os.environ["HOOP_SECRET_FILE"] = kept
    dist.init_process_group("hoop")
    x = torch.ones(1)
    dist.all_reduce(x)
    assert x.item() == ranks()
    dist.destroy_process_group()


def own_secret():
    """The user's own secret stays out of the store. A rank that has another one, or none, gets the key of the job, which
    does not stay in the store."""
    from hoop._library import lib
    from hoop.torch import secret
    from hoop.torch.meeting import meet

    rank, size, folder = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), os.environ["XDG_CONFIG_HOME"]
    with open(secret.own_file()) as file:
        own = file.read().strip()
    for of_last in "", "/other", "/nothing":
        if rank == size - 1:
            os.environ["XDG_CONFIG_HOME"] = folder + of_last
        path = os.path.join(os.environ["TMPDIR"], "store" + of_last.replace("/", "-"))
        store = dist.FileStore(path, size)
        comm, _ = meet(store, rank, size, datetime.timedelta(seconds=60))
        if rank == 0:
            left = [dist.PrefixStore(f"hoop/{size}", store).get(f"answers/{r}") for r in range(1, size)]
            assert set(left) == {b""}, left
        assert lib.hoop_comm_destroy(comm) == 0
        with open(path, errors="replace") as file:
            passed = file.read()
        assert own not in passed
        assert (" ~" in passed) == (size > 2 or not of_last) and (" hoop-job " in passed) == bool(of_last), passed
    assert all(map(secret._is_loopback, ("localhost", "127.0.1.1", "::1")))
    lines = heard()
    for host in "", "127.0.0.1", "192.0.2.1", "192.0.2.2":
        secret.warn_once(host)
    assert len(lines) == 1 and "store at 192.0.2.1" in lines[0] and "hoop-rendezvous --new-secret" in lines[0], lines


def fewer():
    """The next default group over a store that lives on has fewer ranks."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    for count in (size, size - 1, size):
        if rank < count:
            limit = datetime.timedelta(seconds=20)
            dist.init_process_group("hoop", store=store, rank=rank, world_size=count, timeout=limit)
            x = torch.ones(1)
            dist.all_reduce(x)
            assert x.item() == count
            dist.destroy_process_group()


def one_spawned(rank, folder):
    dist.init_process_group("hoop", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    if rank == 0:
        raise ValueError("the user's mistake")
    words = "rank 0 ended with ValueError: the user's mistake"
    raises(dist.DistBackendError, words, lambda: dist.recv(torch.zeros(1), 0))
    open(os.path.join(folder, "heard"), "w").close()


def spawned():
    """A function that torch.multiprocessing has spawned fails: the others hear why."""
    with tempfile.TemporaryDirectory() as folder:
        context = torch.multiprocessing.spawn(one_spawned, [folder], 2, join=False)
        for process in context.processes:
            process.join(60)
        assert os.path.exists(os.path.join(folder, "heard"))
        assert [process.exitcode for process in context.processes] == [1, 0]


def main():
    torch.set_num_threads(1)
    rank = os.environ["RANK"]
    find_hoop()
    globals()[sys.argv[1]]()
    if rank == "0":
        print(f"passed {sys.argv[1]}", flush=True)


if __name__ == "__main__":
    main()
