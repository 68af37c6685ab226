# SPDX-License-Identifier: MIT
"""What a rank does in the tests of backend="hoop": every check compares to the bit with values it computes alone.

    torchrun --nproc-per-node N torch_checks.py [CHECK ...]

Rank 0 prints a line "passed CHECK" for each. The data are small whole numbers, so that every order of additions gives the
same bits. BACKEND names the backend (default hoop); with HOOP_TORCH_REPLACE=gloo it may be gloo.
"""

import os
import sys
import threading
import time
import types
import warnings
import weakref
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
WHOLES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
COMPLEX = [torch.complex64, torch.complex128]
SMALL_FLOATS = [torch.float8_e4m3fn, torch.float8_e5m2]


def me():
    return dist.get_rank()


def ranks():
    return dist.get_world_size()


def numbers(rank, count, dtype, seed=0):
    """The data of a rank: 0 to 3, which any rank can compute."""
    made = torch.Generator().manual_seed(1000 * seed + rank)
    whole = torch.randint(0, 4, (count,), generator=made)
    return whole.bool() if dtype == torch.bool else whole.to(dtype)


def poison(count, dtype):
    return torch.full((count,), 77, dtype=torch.float32).to(dtype) if dtype != torch.bool else torch.ones(count).bool()


def same(got, want, what):
    got, want = got.contiguous(), want.contiguous()
    assert got.dtype == want.dtype and got.shape == want.shape, f"{what}: {got.dtype} {got.shape}"
    if got.is_complex():
        got, want = torch.view_as_real(got), torch.view_as_real(want)
    equal = got.view(-1).view(torch.uint8).equal(want.view(-1).view(torch.uint8))
    assert equal, f"rank {me()}: {what}: {got} instead of {want}"


def raises(kind, words, call):
    try:
        call()
    except kind as why:
        assert words in str(why), f"{words!r} is not in {why}"
        return why
    raise AssertionError(f"rank {me()}: no {kind}, which should say {words!r}")


def reduced(op, inputs):
    """The reduction of all ranks' arrays by a way of its own: exact whole numbers."""
    if inputs[0].dtype == torch.bool:
        stacked = torch.stack(inputs)
        return stacked.any(0) if op in (ReduceOp.SUM, ReduceOp.MAX, ReduceOp.BOR) else stacked.all(0)
    wide = torch.complex128 if inputs[0].is_complex() else torch.float64
    stacked = torch.stack([x.to(wide) for x in inputs])
    if op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR):
        bits = {ReduceOp.BAND: torch.bitwise_and, ReduceOp.BOR: torch.bitwise_or, ReduceOp.BXOR: torch.bitwise_xor}
        total = inputs[0]
        for x in inputs[1:]:
            total = bits[op](total, x)
        return total
    ways = {
        ReduceOp.SUM: lambda s: s.sum(0),
        ReduceOp.PRODUCT: lambda s: s.prod(0),
        ReduceOp.MAX: lambda s: s.max(0)[0],
        ReduceOp.MIN: lambda s: s.min(0)[0],
    }
    return ways[op](stacked).to(inputs[0].dtype)


# --- operations ----------------------------------------------------------------------------------------------------------


def check_reductions():
    plain = [ReduceOp.SUM, ReduceOp.PRODUCT, ReduceOp.MAX, ReduceOp.MIN]
    table = [(d, op) for d in FLOATS + WHOLES for op in plain]
    table += [(d, op) for d in WHOLES for op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)]
    table += [(torch.bool, op) for op in (ReduceOp.SUM, ReduceOp.MIN, ReduceOp.BAND, ReduceOp.BOR)]
    table += [(d, ReduceOp.SUM) for d in COMPLEX] + [(d, ReduceOp.MAX) for d in SMALL_FLOATS]
    for count in (0, 1, 1000, 70001):
        for dtype, op in table:
            inputs = [numbers(r, count, dtype) for r in range(ranks())]
            if dtype in SMALL_FLOATS:
                want = torch.stack([x.float() for x in inputs]).max(0)[0].to(dtype)
            else:
                want = reduced(op, inputs)
            for asynchronous in (False, True):
                x = inputs[me()].clone()
                work = dist.all_reduce(x, op, async_op=asynchronous)
                if asynchronous:
                    work.wait()
                same(x, want, f"all_reduce {op} of {count} {dtype}")
            x = inputs[me()].clone()
            dist.reduce(x, 1, op)
            same(x, want if me() == 1 else inputs[me()], f"reduce {op} of {count} {dtype}")
    x = numbers(me(), 5, torch.float32)
    dist.group.WORLD.allreduce([x]).wait()
    same(x, reduced(ReduceOp.SUM, [numbers(r, 5, torch.float32) for r in range(ranks())]), "allreduce without options")


def check_overlaps():
    """As with gloo, the part of a rank may be any part of the whole array."""
    n, at = 10, (me() + 1) % ranks()
    for where in (at * n, me() * n, me() * n + 3 if me() < ranks() - 1 else 0):
        whole = numbers(me(), n * ranks(), torch.float32)
        dist.reduce_scatter_tensor(whole[where : where + n], whole)
        total = reduced(ReduceOp.SUM, [numbers(r, n * ranks(), torch.float32) for r in range(ranks())])
        same(whole[where : where + n], total.chunk(ranks())[me()], f"reduce_scatter_tensor into its input at {where}")
        whole = numbers(me(), n * ranks(), torch.float32)
        part = whole[where : where + n].clone()
        dist.all_gather_into_tensor(whole, whole[where : where + n])
        parts = [torch.empty(n) for _ in range(ranks())]
        dist.all_gather(parts, part)
        same(whole, torch.cat(parts), f"all_gather_into_tensor from its output at {where}")


def check_unaligned():
    """Elements need not be at multiples of their size, as torch.frombuffer makes them of a packet behind its header."""

    def odd(values):
        packet = bytearray(3 + values.nbytes)
        x = torch.frombuffer(packet, dtype=values.dtype, offset=3)
        return x.copy_(values)

    for dtype in (torch.float32, torch.int64, torch.complex64):
        x = odd(numbers(me(), 33, dtype))
        dist.all_reduce(x)
        same(x, reduced(ReduceOp.SUM, [numbers(r, 33, dtype) for r in range(ranks())]), f"all_reduce of odd {dtype}")
        x = odd(numbers(me(), 33, dtype))
        dist.broadcast(x, 1)
        same(x, numbers(1, 33, dtype), f"broadcast of odd {dtype}")
        whole = odd(poison(33 * ranks(), dtype))
        dist.all_gather_into_tensor(whole, odd(numbers(me(), 33, dtype)))
        same(whole, torch.cat([numbers(r, 33, dtype) for r in range(ranks())]), f"all_gather of odd {dtype}")


def check_average():
    for dtype in FLOATS:
        x = numbers(me(), 500, dtype) * ranks()
        dist.all_reduce(x, ReduceOp.AVG)
        same(x, reduced(ReduceOp.SUM, [numbers(r, 500, dtype) for r in range(ranks())]), f"AVG of {dtype}")


def check_factor():
    half = dist._make_nccl_premul_sum(0.5)
    x = numbers(me(), 100, torch.float32)
    dist.all_reduce(x, half)
    want = reduced(ReduceOp.SUM, [numbers(r, 100, torch.float32) for r in range(ranks())]) / 2
    same(x, want, "PREMUL_SUM")
    source, part = numbers(me(), 10 * ranks(), torch.float32), poison(10, torch.float32)
    before = source.clone()
    dist.reduce_scatter_tensor(part, source, half)
    total = reduced(ReduceOp.SUM, [numbers(r, 10 * ranks(), torch.float32) for r in range(ranks())]) / 2
    same(part, total.chunk(ranks())[me()], "reduce_scatter PREMUL_SUM")
    same(source, before, "the input of reduce_scatter")
    whole = torch.zeros(10 * ranks(), dtype=torch.int64)
    raises(TypeError, "PREMUL_SUM", lambda: dist.reduce_scatter_tensor(whole[:10].clone(), whole, half))
    group, left, options = dist.new_group(), torch.ones(4), dist.AllreduceOptions()
    options.reduceOp, backend = half, group._get_backend(torch.device("cpu"))
    dist.destroy_process_group(group)
    raises(RuntimeError, "destroyed", lambda: backend.allreduce([left], options))
    same(left, torch.ones(4), "what a call that is refused has left")


def check_moves():
    n = ranks()
    others = [getattr(torch, name) for name in ("uint16", "uint32", "uint64", "float8_e4m3fnuz") if hasattr(torch, name)]
    for dtype in FLOATS + WHOLES + COMPLEX + SMALL_FLOATS + [torch.bool, *others]:
        for count in (0, 1, 3333):
            data = [numbers(r, count, dtype) for r in range(n)]
            x = data[1].clone() if me() == 1 else poison(count, dtype)
            dist.broadcast(x, 1)
            same(x, data[1], f"broadcast of {count} {dtype}")
            parts = [poison(count, dtype) for _ in range(n)]
            dist.all_gather(parts, data[me()])
            for r in range(n):
                same(parts[r], data[r], f"all_gather of {count} {dtype}")
            parts = [poison(count, dtype) for _ in range(n)]
            dist.gather(data[me()], parts if me() == 0 else None, 0)
            for r in range(n if me() == 0 else 0):
                same(parts[r], data[r], f"gather of {count} {dtype}")
            x = poison(count, dtype)
            dist.scatter(x, data if me() == 1 else None, 1)
            same(x, data[me()], f"scatter of {count} {dtype}")
            x = poison(count, dtype)
            if me() == 0:
                dist.send(data[0], 1, tag=7)
            if me() == 1:
                dist.recv(x, 0, tag=7)
                same(x, data[0], f"recv of {count} {dtype}")


def check_blocks():
    n = ranks()
    for dtype in (torch.float32, torch.bfloat16, torch.int16, torch.bool, torch.complex64):
        whole = poison(40 * n, dtype)
        dist.all_gather_into_tensor(whole, numbers(me(), 40, dtype))
        want = torch.cat([numbers(r, 40, dtype) for r in range(n)])
        same(whole, want, f"all_gather_into_tensor of {dtype}")
        if dtype == torch.complex64:
            continue
        part, total = poison(40, dtype), reduced(ReduceOp.SUM, [numbers(r, 40 * n, dtype) for r in range(n)])
        dist.reduce_scatter_tensor(part, numbers(me(), 40 * n, dtype))
        same(part, total.chunk(n)[me()], f"reduce_scatter_tensor of {dtype}")
        part = poison(40, dtype)
        dist.reduce_scatter(part, list(numbers(me(), 40 * n, dtype).chunk(n)))
        same(part, total.chunk(n)[me()], f"reduce_scatter of {dtype}")
    uneven = [r + 1 for r in range(n)]
    parts = [poison(k, torch.float32) for k in uneven]
    dist.all_gather(parts, numbers(me(), me() + 1, torch.float32))
    for r in range(n):
        same(parts[r], numbers(r, r + 1, torch.float32), "uneven all_gather")


def check_all_to_all():
    n = ranks()
    for dtype in (torch.float32, torch.int64, torch.complex64, torch.bool):
        rows = [[(a + 2 * b) % 4 for b in range(n)] for a in range(n)]  # rank a sends rows[a][b] rows to rank b
        data = [numbers(r, 3 * sum(rows[r]), dtype).view(-1, 3) for r in range(n)]
        receiving = [rows[r][me()] for r in range(n)]
        out = poison(3 * sum(receiving), dtype).view(-1, 3)
        dist.all_to_all_single(out, data[me()], receiving, rows[me()])
        want = torch.cat([data[r].split(rows[r])[me()] for r in range(n)])
        same(out, want, f"all_to_all_single of {dtype} with splits")
        outs = [poison(3 * k, dtype).view(-1, 3) for k in receiving]
        dist.all_to_all(outs, list(data[me()].split(rows[me()])))
        same(torch.cat(outs), want, f"all_to_all of {dtype}")
        out = poison(5 * n, dtype)
        dist.all_to_all_single(out, numbers(me(), 5 * n, dtype))
        want = torch.cat([numbers(r, 5 * n, dtype).chunk(n)[me()] for r in range(n)])
        same(out, want, f"all_to_all_single of {dtype}")


def check_strides():
    n = ranks()
    wide = numbers(me(), 60, torch.float32).view(6, 10)
    want = reduced(ReduceOp.SUM, [numbers(r, 60, torch.float32) for r in range(n)]).view(6, 10)
    for asynchronous in (False, True):
        x = wide.clone()
        work = dist.all_reduce(x.t(), async_op=asynchronous)
        if asynchronous:
            work.wait()
        same(x, want, "all_reduce of a transposed tensor")
    x = wide.clone()
    dist.broadcast(x[:, ::2], 0)
    same(x[:, ::2], numbers(0, 60, torch.float32).view(6, 10)[:, ::2], "broadcast of every second column")
    same(x[:, 1::2], wide[:, 1::2], "the other columns")
    parts = [torch.zeros_like(wide) for _ in range(n)]
    dist.all_gather(parts, torch._neg_view(wide + 1))  # in memory it has the other sign
    same(parts[0], -(numbers(0, 60, torch.float32).view(6, 10) + 1), "all_gather of a negative view")
    parameter = torch.nn.Parameter(wide.clone().t())
    dist.broadcast(parameter, 0)
    same(parameter.data.t(), numbers(0, 60, torch.float32).view(6, 10), "broadcast of a parameter that is not contiguous")


def check_sparse():
    n, total = ranks(), torch.zeros(10, 3)
    for r in range(n):
        total[r], total[9] = total[r] + r + 1, total[9] + 1
    for asynchronous in (False, True):
        x = torch.sparse_coo_tensor([[me(), 9]], torch.stack([torch.full((3,), me() + 1.0), torch.ones(3)]), (10, 3))
        work = dist.all_reduce(x, async_op=asynchronous)
        if asynchronous:
            work.wait()
        same(x.to_dense(), total, "all_reduce of a sparse tensor")


def check_sparse_shapes():
    rows = 10 + me()
    x = torch.sparse_coo_tensor([[rows - 1]], torch.ones(1, 3), (rows, 3))
    raises(ValueError, "rank 0 has the shape [10, 3] with 1 sparse dimensions, but rank 1 has", lambda: dist.all_reduce(x))
    same(x.to_dense()[rows - 1], torch.ones(3), "the tensor after that")


def check_coalesced():
    n = ranks()
    xs = [numbers(me(), k, torch.float32, k) for k in (3, 500, 0)]
    wants = [reduced(ReduceOp.SUM, [numbers(r, k, torch.float32, k) for r in range(n)]) for k in (3, 500, 0)]
    for asynchronous in (False, True):
        ys = [x.clone() for x in xs]
        with dist._coalescing_manager(async_ops=asynchronous) as manager:
            for y in ys:
                dist.all_reduce(y)
        if asynchronous:
            manager.wait()
        for y, want in zip(ys, wants):
            same(y, want, "coalesced all_reduce")
    outs = [poison(n * k, torch.float32) for k in (3, 500)]
    with dist._coalescing_manager():
        for out, x in zip(outs, xs):
            dist.all_gather_into_tensor(out, x)
    for out, k in zip(outs, (3, 500)):
        same(out, torch.cat([numbers(r, k, torch.float32, k) for r in range(n)]), "coalesced all_gather")


def check_messages():
    n, right, left = ranks(), (me() + 1) % ranks(), (me() - 1) % ranks()
    for count in (1, 100000):
        got = poison(count, torch.float32)
        ops = [dist.P2POp(dist.isend, numbers(me(), count, torch.float32), right)]
        ops.append(dist.P2POp(dist.irecv, got, left))
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        same(got, numbers(left, count, torch.float32), "batch_isend_irecv")
        receive_larger(count, left, right)
    receive_from_any(n)


def receive_from_any(n):
    """recv() without a source tells the rank of the program that sent, also in a group that counts differently."""
    for group in (None, dist.new_group([n - 1, 0])):
        members = range(n) if group is None else [n - 1, 0]
        if me() == 0:
            sources = []
            time.sleep(0.2 if group is None else 0)  # what has come by then ends each receive as it starts
            for _ in range(len(members) - 1):
                x = torch.zeros(5)
                sources.append(dist.recv(x, group=group, tag=3))
                same(x, torch.tensor([sources[-1] + 0.0] * 3 + [0.0] * 2), "a receive from any rank")
            assert sorted(sources) == sorted(rank for rank in members if rank), sources
        elif me() in members:
            dist.send(torch.full((3,), me() + 0.0), 0, group=group, tag=3)


def receive_larger(count, left, right):
    """A message fills the start of a larger tensor, contiguous or not, and leaves the rest as it was."""
    for dtype in (torch.float32, torch.complex64, torch.float8_e5m2):
        for got in (poison(2 * count + 6, dtype), poison(4 * count + 12, dtype)[::2]):
            before = got.clone()
            works = [dist.isend(numbers(me(), count, dtype), right), dist.irecv(got, left)]
            for work in works:
                work.wait()
            same(got, torch.cat([numbers(left, count, dtype), before[count:]]), f"a larger tensor of {dtype}")


def check_objects():
    n = ranks()
    got = [None] * n
    dist.all_gather_object(got, {"rank": me(), "text": "x" * me()})
    assert got == [{"rank": r, "text": "x" * r} for r in range(n)], got
    things = [{"a": 1}, [2, 3]] if me() == 1 else [None, None]
    dist.broadcast_object_list(things, 1)
    assert things == [{"a": 1}, [2, 3]], things
    got = [None]
    dist.scatter_object_list(got, [f"for {r}" for r in range(n)] if me() == 0 else None, 0)
    assert got == [f"for {me()}"], got
    got = [None] * n if me() == 1 else None
    dist.gather_object(("from", me()), got, 1)
    assert me() != 1 or got == [("from", r) for r in range(n)], got


def check_groups():
    odd = dist.new_group([r for r in range(ranks()) if r % 2])
    even = dist.new_group([r for r in range(ranks()) if r % 2 == 0])
    mine, members = (odd, range(1, ranks(), 2)) if me() % 2 else (even, range(0, ranks(), 2))
    x = numbers(me(), 10, torch.float32)
    dist.all_reduce(x, group=mine)
    same(x, reduced(ReduceOp.SUM, [numbers(r, 10, torch.float32) for r in members]), "all_reduce of a group")
    dist.destroy_process_group(mine)


def check_order():
    """Sums in rank order: of bfloat16 in float32, and the same bits in a longer tensor."""
    if os.environ.get("BACKEND", "hoop") != "hoop":
        return
    import hoop.torch

    group = dist.new_group(pg_options=hoop.torch.Options(order="rank"))
    for dtype in (torch.bfloat16, torch.float32):
        every = torch.randn(ranks(), 1001, generator=torch.Generator().manual_seed(5)).to(dtype)
        want = every[0].float()
        for r in range(1, ranks()):
            want = want + every[r].float()
        for copies in (1, 200):
            x = every[me()].repeat(copies)
            dist.all_reduce(x, group=group)
            same(x, want.to(dtype).repeat(copies), f"{copies} times {dtype} in rank order")
    dist.destroy_process_group(group)
    raises(ValueError, "order='size': hoop has auto, rank", lambda: hoop.torch.Options(order="size"))


def group_over_tcp(**options):
    """In memory no element travels narrower."""
    import hoop.torch

    chosen = hoop.torch.Options(**options)
    chosen.settings["shm"] = "0"
    return dist.new_group(pg_options=chosen)


def check_wire():
    """A group whose elements travel as bfloat16: each is rounded, and the sum in float32 once more."""
    if os.environ.get("BACKEND", "hoop") != "hoop":
        return
    import hoop.torch

    group = group_over_tcp(wire_dtype="bfloat16")
    every = torch.randn(ranks(), 300001, generator=torch.Generator().manual_seed(6))
    want = every[0].bfloat16().float()
    for r in range(1, ranks()):
        want = want + every[r].bfloat16().float()
    x = every[me()].clone()
    dist.all_reduce(x, group=group)
    same(x, want.bfloat16().float() if ranks() > 1 else every[0], "all_reduce as bfloat16")
    dist.destroy_process_group(group)
    raises(ValueError, "wire_dtype='half': hoop has float32, bf", lambda: hoop.torch.Options(wire_dtype="half"))


def settings_of(group):
    return group._get_backend(torch.device("cpu")).options.settings


def limit_of(group):
    return group._get_backend(torch.device("cpu")).options._timeout


def fails_as(group, program_rank):
    """Rank 1 of this group aborts it, and the error tells which rank of the program that is."""
    dist.barrier(group=group)
    if dist.get_rank(group) == 1:
        group._get_backend(torch.device("cpu")).abort()
    words = f"in this group rank 1 is rank {program_rank} of the program"
    raises(RuntimeError, words if program_rank != 1 else "rank 1 (", lambda: dist.barrier(group=group))


def check_split_group():
    if not hasattr(dist.distributed_c10d.Backend, "_ensure_backend_registered"):
        return  # a ProcessGroup in Python cannot be split
    pairs = [list(range(k, min(k + 2, ranks()))) for k in range(0, ranks(), 2)]
    part = dist.split_group(split_ranks=pairs)
    members = pairs[me() // 2]
    x = numbers(me(), 10, torch.float32)
    dist.all_reduce(x, group=part)
    same(x, reduced(ReduceOp.SUM, [numbers(r, 10, torch.float32) for r in members]), "all_reduce of a split group")
    if len(members) == 2:
        fails_as(part, members[1])


def check_split_options():
    """A group that is split off has the order of its parent, or options of its own, and knows its ranks."""
    if not hasattr(dist.distributed_c10d.Backend, "_ensure_backend_registered") or ranks() < 3:
        return
    import hoop.torch

    last = list(range(ranks() - 2, ranks()))
    parent = dist.new_group(last, pg_options=hoop.torch.Options(order="rank"))
    if me() in last:
        dist.distributed_c10d._set_pg_timeout(timedelta(minutes=7), parent)
        assert limit_of(parent) == timedelta(minutes=7), limit_of(parent)
        part = dist.split_group(parent, [[0, 1]])
        chosen = hoop.torch.Options(wire_dtype="bfloat16")
        own = dist.split_group(parent, [[0, 1]], pg_options=chosen, timeout=timedelta(minutes=2))
        assert settings_of(part) == {"order": "rank"}, settings_of(part)
        assert settings_of(own) == {"wire_dtype": "bfloat16"} and limit_of(own) == timedelta(minutes=2), settings_of(own)
        for group in (part, own):
            fails_as(group, last[1])
    dist.barrier()
    dist.destroy_process_group()  # torch counts the groups that a rank has made, and these not on every rank
    join()


def check_shared_options():
    """Options belong to the program: several groups may have the same ones, and each its own time limit."""
    if VERSION < (2, 14):
        return
    import hoop.torch

    chosen = hoop.torch.Options(order="rank")
    groups = [dist.new_group(pg_options=chosen, timeout=timedelta(minutes=m)) for m in (5, 1)]
    assert [limit_of(group) for group in groups] == [timedelta(minutes=5), timedelta(minutes=1)]
    assert hoop.torch.Options(wire_dtype="e4m3").settings == {"wire_dtype": "e4m3"}
    for group in groups:
        dist.destroy_process_group(group)


def check_device_of_group():
    """torch's checkpoints, and objects, go by the device of the group."""
    assert dist.distributed_c10d._get_pg_default_device().type == "cpu"
    if hasattr(dist.group.WORLD, "_device_types"):
        assert torch.device("cpu") in dist.group.WORLD._device_types


def check_barrier_finishes():
    """After a barrier what was called before has arrived, also where nobody waits for it."""
    for asynchronous, watched in ((False, False), (True, False), (False, True), (True, True)):
        parts = [torch.full((3, 2), 9.0).t() for _ in range(ranks())]
        work = dist.all_gather(parts, torch.full((2, 3), float(me())), async_op=True)
        future = work.get_future() if watched else None
        after = dist.barrier(async_op=asynchronous)
        if asynchronous:
            after.wait()
        for r, part in enumerate(parts):
            same(part, torch.full((2, 3), float(r)), f"all_gather before a barrier: {asynchronous}, {watched}")
        del work, future


def check_second_waiter():
    """While a thread waits, another one gets a future at once, and a wait of its own has its own limit."""
    group, x = dist.new_group(), torch.zeros(4)
    right, left = (me() + 1) % ranks(), (me() - 1) % ranks()
    late, never = (dist.irecv(x, left, group=group, tag=tag) for tag in (1, 2))
    waits = [threading.Thread(target=call) for call in (late.wait, lambda: raises(RuntimeError, "", never.wait))]
    for thread in waits:
        thread.start()
    time.sleep(0.3)
    future = late.get_future() if VERSION >= (2, 14) else None
    dist.barrier()
    dist.send(torch.full((4,), float(me())), right, group=group, tag=1)
    waits[0].join()
    if future:
        future.wait()
    same(x, torch.full((4,), float(left)), "a message for which two threads wait")
    dist.barrier()
    began = time.monotonic()
    raises(RuntimeError, "", lambda: never.wait(timedelta(seconds=1)))
    assert time.monotonic() - began < 30, "a second wait has no limit"
    waits[1].join()


def check_aborted_groups():
    """A group that was aborted is let go when the next one is made."""
    if VERSION < (2, 14):
        return
    import hoop.torch.group

    hoop.torch.group._LET_GO_S = 0  # after the abort
    used = []
    for _ in range(4):
        group = dist.new_group()
        group._get_backend(torch.device("cpu")).abort()
        raises(RuntimeError, "", lambda: dist.barrier(group=group))
        dist.barrier()
        used.append(len(os.listdir("/proc/self/fd")))
    assert used[3] < used[1] + 12, f"descriptors after each aborted group: {used}"  # a ring has nine and more


def check_futures():
    order = []
    works = [dist.all_reduce(numbers(me(), k, torch.float32), async_op=True) for k in (1, 200000, 5)]
    futures = [w.get_future().then(lambda f, k=k: order.append((k, f.value()[0].sum().item()))) for k, w in enumerate(works)]
    torch.futures.wait_all(futures)
    assert all(w.get_future().done() for w in works)
    wants = [reduced(ReduceOp.SUM, [numbers(r, k, torch.float32) for r in range(ranks())]).sum().item() for k in (1, 200000, 5)]
    assert sorted(order) == list(enumerate(wants)), order
    works[0].wait()


def check_polled():
    """A work is complete by polling alone, and tells its result; a work of gloo's is as before."""
    got, x = torch.zeros(5), numbers(me(), 5, torch.float32)
    total = x.clone()
    parts = [torch.empty(3) for _ in range(ranks())]
    ring = (me() + 1) % ranks(), (me() - 1) % ranks()
    works = [dist.all_reduce(total, async_op=True), dist.isend(x, ring[0]), dist.irecv(got, ring[1])]
    works.append(dist.all_gather(parts, torch.full((3,), me() + 0.0), async_op=True))
    works.append(dist.all_reduce(torch.ones(2), async_op=True, group=dist.new_group(backend="gloo")))
    end = time.monotonic() + 60
    while not all([work.is_completed() for work in works]) and time.monotonic() < end:
        time.sleep(0.001)
    assert all(work.is_completed() and work.is_success() for work in works), [work.is_completed() for work in works]
    same(total, reduced(ReduceOp.SUM, [numbers(r, 5, torch.float32) for r in range(ranks())]), "a polled all_reduce")
    same(works[0].result()[0], total, "result() of all_reduce")
    same(works[2].result()[0], numbers(ring[1], 5, torch.float32), "result() of a receive")
    same(torch.stack(list(works[3].result())), torch.stack(parts), "result() of all_gather")
    same(works[4].result()[0], torch.full((2,), ranks() + 0.0), "result() of gloo")
    for work in works:
        work.wait()
        assert work.is_completed()


def check_polled_while_ending():
    """Who polls sees no end before the outputs are there, though another thread, for the future, ends the work."""
    n = 1 << 20
    for k in range(8):
        parts = [torch.zeros(n) for _ in range(ranks())]
        work = dist.all_gather(parts, torch.full((n,), k + 1.0), async_op=True)
        work.get_future()
        while not work.is_completed():
            pass
        assert all(part[-1] == k + 1.0 for part in parts), [part[-1] for part in parts]
        work.wait()


def check_future_before_wait():
    """wait() returns when the future is completed, and what follows that has run."""

    def doubled(future):
        time.sleep(0.02)
        return future.value()[0] * 2

    for k in range(10):
        work = dist.all_reduce(torch.full((3,), float(k)), async_op=True)
        follows = work.get_future().then(doubled)
        work.wait()
        assert follows.done(), k
        same(follows.value(), torch.full((3,), 2.0 * k * ranks()), "what follows a future")


def check_let_go():
    """What has ended keeps no tensor, waited for or not, also behind a receive that is in progress."""
    if VERSION < (2, 7):  # torch keeps the C++ half of a work, and hoop the other one
        return
    late = dist.irecv(torch.zeros(1), (me() - 1) % ranks(), tag=99)
    for waits in (True, False):
        alive = []
        for _ in range(20):
            x = torch.ones(5)
            alive.append(weakref.ref(x))
            work = dist.all_reduce(x, async_op=True)
            if waits:
                work.wait()
            del x, work
            assert not waits or alive[-1]() is None
        for _ in range(20):
            dist.all_reduce(torch.ones(5), async_op=True).wait()
        assert not any(one() is not None for one in alive), [one() for one in alive]
    dist.send(torch.ones(1), (me() + 1) % ranks(), tag=99)
    late.wait()


def check_interrupted_group():
    """A Ctrl-C in the middle of one call's operations leaves nothing open."""
    from hoop.torch import operations

    plain, calls = operations._BLOCKING["allreduce"], []

    def interrupted(*args):
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return plain(*args)

    operations._BLOCKING["allreduce"] = interrupted
    try:
        raises(KeyboardInterrupt, "", lambda: dist.all_reduce_coalesced([torch.ones(3), torch.ones(5)]))
    finally:
        operations._BLOCKING["allreduce"] = plain
    x = torch.ones(4)
    dist.all_reduce(x)
    same(x, torch.full((4,), float(ranks())), "the next call")


def check_one_tensor():
    """torch's own calls of a group take one tensor, too."""
    group, x = dist.group.WORLD, torch.full((3,), float(me()))
    group.allreduce(x).wait()
    same(x, torch.full((3,), float(sum(range(ranks())))), "allreduce of one tensor")
    group.allreduce(x, ReduceOp.MAX).wait()
    x = torch.full((3,), float(me()))
    group.broadcast(x, 1).wait()
    same(x, torch.ones(3), "broadcast of one tensor")


def check_many_futures():
    """Operations that end while the watcher looks."""
    for k in range(700):
        futures = [dist.all_reduce(torch.full((n,), 1.0), async_op=True).get_future() for n in (1, 3, 1000)]
        assert all(f.wait()[0][0] == ranks() for f in futures), k


def check_nested_futures():
    """Functions of futures start operations and wait for them, one in another.

    One at a time: all ranks must start a group's operations in the same order.
    """

    def sum_of(value, depth):
        future = dist.all_reduce(torch.full((3,), value), async_op=True).get_future()
        return future.then(lambda f: sum_of(f.value()[0][0].item(), depth - 1)) if depth else future.wait()[0][0].item()

    def outer(k):
        future = dist.all_reduce(torch.full((5,), float(k)), async_op=True).get_future()
        return future.then(lambda f: sum_of(f.value()[0][0].item(), 0))

    for k in range(100):
        assert outer(k).wait() == k * ranks() ** 2, k
    assert sum_of(1.0, 1).wait().__class__ is float


def check_threads():
    import threading

    errors = []
    groups = [dist.new_group() for _ in range(2)]

    def work(group):
        try:
            for _ in range(50):
                x = numbers(me(), 100, torch.float32)
                dist.all_reduce(x, group=group)
                same(x, want, "all_reduce of two threads")
        except BaseException as why:
            errors.append(why)

    want = reduced(ReduceOp.SUM, [numbers(r, 100, torch.float32) for r in range(ranks())])
    threads = [threading.Thread(target=work, args=(g,)) for g in groups]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors, errors


def has_monitored_barrier():
    """Before 2.14 torch asks for the name gloo, and what takes gloo's place is named hoop there."""
    return VERSION >= (2, 14)


def check_monitored_barrier():
    for _ in range(3 if has_monitored_barrier() else 0):
        dist.monitored_barrier(timeout=timedelta(seconds=20), wait_all_ranks=True)


# --- training ------------------------------------------------------------------------------------------------------------


def net(seed=0):
    """A net with whole weights: with whole data and steps that are powers of two, all sums are exact in float64."""
    layers = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8)).double()
    made = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in layers.parameters():
            p.copy_(torch.randint(-2, 3, p.shape, generator=made))
    return layers


def batch(rank, step):
    made = torch.Generator().manual_seed(100 * step + rank)
    return torch.randint(-2, 3, (4, 8), generator=made).double()


def train(model, data_of, steps=2):
    rule = torch.optim.SGD(model.parameters(), lr=2.0**-8)
    for step in range(steps):
        rule.zero_grad()
        model(data_of(step)).sum().backward()
        rule.step()


def trained_alone():
    """The same training without torch.distributed: the mean of the ranks' gradients is that of all data over the ranks."""
    alone = net()
    rule = torch.optim.SGD(alone.parameters(), lr=2.0**-8)
    for step in range(2):
        rule.zero_grad()
        (alone(torch.cat([batch(r, step) for r in range(ranks())])).sum() / ranks()).backward()
        rule.step()
    return list(alone.parameters())


def power_of_two():
    return ranks() & (ranks() - 1) == 0


def check_ddp():
    model = torch.nn.parallel.DistributedDataParallel(net(me()), bucket_cap_mb=0.0005)  # several buckets; rank 0's weights
    train(model, lambda step: batch(me(), step))
    if power_of_two():  # else a mean is not exact
        for got, want in zip(model.parameters(), trained_alone()):
            same(got.detach(), want.detach(), "a parameter after DDP")


def check_compress_hook():
    """Gradients that are the same in every step: after 20 steps no more is missing than what one call leaves behind."""
    if os.environ.get("BACKEND", "hoop") != "hoop":
        return
    import hoop.torch

    layer = torch.nn.Linear(500, 600, bias=False)
    torch.nn.init.zeros_(layer.weight)
    group = group_over_tcp()
    model = torch.nn.parallel.DistributedDataParallel(layer, process_group=group)
    model.register_comm_hook(hoop.torch.Compression(group), hoop.torch.compress_hook)
    every = torch.randn(ranks(), 600, 500, generator=torch.Generator().manual_seed(9))
    for _ in range(20):
        model(torch.eye(500)).mul(every[me()].t()).sum().backward()
        with torch.no_grad():
            layer.weight += layer.weight.grad
            layer.weight.grad = None
    off = ((layer.weight.detach() - 20 * every.mean(0)).abs() / every.abs().mean(0)).max()
    assert off < 2.3 / 256, f"the sums of 20 steps are off by {off} of the magnitudes"
    gradients, parameters = torch.zeros(4), list(layer.parameters())
    bucket = types.SimpleNamespace(index=lambda: 0, buffer=lambda: gradients, parameters=lambda: parameters)
    state = hoop.torch.Compression()
    state.left(bucket, 1).fill_(0.5)
    assert state.left(bucket, 1).tolist() == [0.5] * 4 and gradients.tolist() == [0.0] * 4
    assert state.left(bucket, 2).tolist() == [0.0] * 4 and gradients.tolist() == [0.5] * 4, "another ring: at once"
    half = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).bfloat16())
    half.register_comm_hook(hoop.torch.Compression(), hoop.torch.compress_hook)
    half(torch.ones(1, 4, dtype=torch.bfloat16)).sum().backward()
    dist.destroy_process_group(group)


def check_ddp_hook():
    """PowerSGD: its function of a future waits for other operations."""
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power

    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64))
    model = torch.nn.parallel.DistributedDataParallel(layers)
    state = power.PowerSGDState(None, start_powerSGD_iter=2, min_compression_rate=0.5)
    model.register_comm_hook(state, power.powerSGD_hook)
    rule = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(5):
        rule.zero_grad()
        model(torch.full((4, 64), me() + 1.0)).pow(2).mean().backward()
        rule.step()
    for p in model.parameters():
        others = [torch.empty_like(p) for _ in range(ranks())]
        dist.all_gather(others, p.detach())
        for other in others:
            same(other, others[0], "a parameter on two ranks")


def check_ddp_sparse():
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Embedding(10, 4, sparse=True).double())
    model(torch.tensor([me(), 9])).sum().backward()
    want = torch.zeros(10, 4).double()
    for r in range(ranks()):
        want[r] += 1
        want[9] += 1
    if power_of_two():
        same(model.module.weight.grad.to_dense(), want / ranks(), "the gradient of an embedding")


def check_fsdp2():
    if VERSION < (2, 7):
        return  # FSDP2 wants a GPU there
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError:
        from torch.distributed._composable.fsdp import fully_shard
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (ranks(),))
    model = net()
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    train(model, lambda step: batch(me(), step))
    for got, want in zip(model.parameters(), trained_alone() if power_of_two() else []):
        same(got.full_tensor().detach(), want.detach(), "a parameter after FSDP2")


def check_dtensor():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh("cpu", (ranks(),))
    want = net()(batch(0, 0)).detach()
    model = parallelize_module(net(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    if 8 % ranks() == 0:
        same(model(batch(0, 0)).detach(), want, "a tensor-parallel forward pass")
    if ranks() == 4:
        square = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        x = numbers(me(), 6, torch.float32)
        dist.all_reduce(x, group=square["tp"].get_group())
        first = me() // 2 * 2
        same(x, numbers(first, 6, torch.float32) + numbers(first + 1, 6, torch.float32), "all_reduce in a mesh")


def check_sharded_tensor():
    """It takes the device for its collectives from what the backend serves."""
    from torch.distributed._shard.sharded_tensor import Shard, init_from_local_shards

    if torch.cuda.is_available():  # then that is a GPU, and this file's tensors are in main memory
        return
    parts = [numbers(rank, 4, torch.float32).view(2, 2) for rank in range(ranks())]
    shard = Shard.from_tensor_and_offsets(parts[me()], [2 * me(), 0], me())
    whole = poison(4 * ranks(), torch.float32).view(-1, 2) if me() == 0 else None
    init_from_local_shards([shard], [2 * ranks(), 2]).gather(0, whole)
    if me() == 0:
        same(whole, torch.cat(parts), "gather of a sharded tensor")


def check_functional():
    import torch.distributed._functional_collectives as functional

    n, group = ranks(), list(range(ranks()))
    x = numbers(me(), 12 * n, torch.float32)
    total = reduced(ReduceOp.SUM, [numbers(r, 12 * n, torch.float32) for r in range(n)])
    same(functional.all_reduce(x, "sum", group).clone(), total, "functional all_reduce")
    same(functional.reduce_scatter_tensor(x, "sum", 0, group).clone(), total.chunk(n)[me()], "functional reduce_scatter")
    whole = functional.all_gather_tensor(x, 0, group).clone()
    same(whole, torch.cat([numbers(r, 12 * n, torch.float32) for r in range(n)]), "functional all_gather")

    @torch.compile(backend="aot_eager")
    def compiled(y):
        return functional.all_reduce(y * 2, "sum", group) + 1

    same(compiled(x).clone(), total * 2 + 1, "a compiled functional all_reduce")


def check_compiled():
    """torch.compile leaves the calls of DDP to Python, and does not warn of what it finds there."""
    model = torch.nn.parallel.DistributedDataParallel(net(me()))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        compiled = torch.compile(model, backend="aot_eager")
        for step in range(2):  # in the second one DDP makes its buckets anew
            compiled(batch(me(), step)).sum().backward()
    assert not [entry for entry in told if "does not know how to trace" in str(entry.message)], told


def check_workers():
    loader = torch.utils.data.DataLoader(list(range(8)), batch_size=4, num_workers=2)
    assert [b.tolist() for b in loader] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    dist.barrier()


def check_inference():
    """Tensors that were made under inference_mode() take results outside it, contiguous or not."""
    n = ranks()
    with torch.inference_mode():
        plain, turned, parts = torch.ones(3), torch.ones(3, 4).t(), [torch.ones(2) for _ in range(n)]
    for tensor in plain, turned:
        dist.all_reduce(tensor)
        same(tensor, torch.full(tensor.shape, float(n)), "all_reduce of an inference tensor")
    dist.all_gather(parts, torch.full((2,), float(me())))
    same(torch.stack(parts), torch.arange(float(n)).repeat(2, 1).t(), "all_gather into inference tensors")


def check_misuse():
    n = ranks()
    raises(ValueError, "needs an output of", lambda: dist.all_gather_into_tensor(torch.zeros(n + 5 * n), torch.zeros(5)))
    raises(ValueError, "needs an input of", lambda: dist.reduce_scatter_tensor(torch.zeros(5), torch.zeros(5 * n + 5)))
    if hasattr(torch, "float8_e4m3fnuz"):
        raises(TypeError, "cannot reduce", lambda: dist.all_reduce(torch.zeros(3).to(torch.float8_e4m3fnuz)))
    raises(ValueError, "band combines", lambda: dist.all_reduce(torch.zeros(3), ReduceOp.BAND))
    if me() == 0 and n > 1:
        parts = [torch.zeros(1), torch.zeros(3), *(torch.zeros(2) for _ in range(n - 2))]
        raises(ValueError, "each output of gather needs", lambda: dist.gather(torch.zeros(2), parts, 0))
        raises(ValueError, "each input of scatter needs", lambda: dist.scatter(torch.zeros(2), parts, 0))
    check_torch_words()
    x = numbers(me(), 3, torch.float32)  # and the group is unharmed
    dist.all_reduce(x)
    same(x, reduced(ReduceOp.SUM, [numbers(r, 3, torch.float32) for r in range(n)]), "all_reduce after mistakes")


def check_torch_words():
    """Refused before anything is sent, in the words of torch's calls."""
    n = ranks()
    flat, wide = torch.zeros(1), torch.zeros(1).expand(4)
    shares = "an expanded tensor cannot take a result"
    raises(ValueError, shares, lambda: dist.all_reduce(wide))
    raises(ValueError, shares, lambda: dist.all_reduce_coalesced([wide]))
    raises(ValueError, shares, lambda: dist.broadcast(wide, 0))
    raises(ValueError, shares, lambda: dist.reduce(wide, me()))
    raises(ValueError, shares, lambda: dist.all_gather_into_tensor(flat.expand(4 * n), torch.zeros(4)))
    raises(ValueError, shares, lambda: dist.all_gather([wide for _ in range(n)], torch.zeros(4)))
    raises(ValueError, shares, lambda: dist.reduce_scatter_tensor(wide, torch.zeros(4 * n)))
    raises(ValueError, shares, lambda: dist.all_to_all_single(flat.expand(4 * n), torch.zeros(4 * n)))
    raises(ValueError, shares, lambda: dist.recv(wide, (me() + 1) % n))
    parts = [torch.zeros(2, 3) for _ in range(n)]
    words = f"output {me()} of all_gather on rank {me()} takes what this rank itself sends, and has the shape (2, 3), but"
    raises(ValueError, words, lambda: dist.all_gather(parts, torch.zeros(2, 4)))
    words = words.replace("all_gather", "all_to_all")
    raises(ValueError, words, lambda: dist.all_to_all(parts, [torch.zeros(7) for _ in range(n)]))
    words = f"rank {me()} sends itself 2 elements in all_to_all, and takes 3"
    raises(ValueError, words, lambda: dist.all_to_all_single(torch.zeros(3 * n), torch.zeros(2 * n)))
    sizes = [-1, 1 + n] + [1] * (n - 2)
    if n > 1:
        raises(ValueError, "none below 0", lambda: dist.all_to_all_single(torch.zeros(n), torch.zeros(n), sizes, sizes))
    why = raises(ValueError, "root 77 is not a rank", lambda: dist.broadcast(torch.zeros(4), 77))
    assert "hoop_" not in str(why), why
    if VERSION < (2, 14):  # later ones end such a call themselves
        raises(TypeError, "on device meta", lambda: dist.all_reduce(torch.zeros(4, device="meta")))


def check_names():
    """An error says which group it is of: by its description, or by its name where it has none."""
    for desc in ("dp \u00e9" + 70 * "x", None):
        group = dist.new_group(group_desc=desc)
        wanted = desc.encode()[:63].decode() if desc else group.group_name
        dist.barrier(group=group)
        dist.barrier()  # of another ring: no rank is in the group's any more
        if me() == 0:
            group._get_backend(torch.device("cpu")).abort() if VERSION >= (2, 14) else group.abort()
        try:
            dist.barrier(group=group)
            raise AssertionError("an aborted group works")
        except RuntimeError as error:
            assert f'"{wanted}": rank 0 (' in str(error), error


def ended_within(seconds, child):
    """The exit status of a child; one that still runs then is killed, and -9."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(0.05)
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
    os.kill(child, 9)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def check_forked_child():
    """A child of a process whose futures were completed by a thread completes its own."""
    dist.all_reduce(torch.ones(1), async_op=True).get_future().wait()
    dist.destroy_process_group()
    child = os.fork()
    if child == 0:
        dist.init_process_group(os.environ.get("BACKEND", "hoop"), store=dist.HashStore(), rank=0, world_size=1)
        x = torch.ones(1)
        dist.all_reduce(x, async_op=True).get_future().wait()
        os._exit(0 if x.item() == 1 else 1)
    status = ended_within(30, child)
    assert status == 0, f"the forked child of rank {os.environ['RANK']} did not end well: {status}"
    join()


def check_again():
    """A second life of the default group, over the same store, where it must not read what the first one left there.

    Rank 0 comes late, so that an old invitation could be read, and alone to a barrier that the first life has passed.
    """
    check_monitored_barrier()
    dist.destroy_process_group()
    time.sleep(0 if int(os.environ["RANK"]) else 1)
    join()
    x = torch.ones(1)
    dist.all_reduce(x)
    assert x.item() == ranks()
    if me() == 0 and has_monitored_barrier():
        limit = timedelta(seconds=1)
        raises(dist.DistBackendError, "Rank 1 failed to pass", lambda: dist.monitored_barrier(timeout=limit))
        words = f"Ranks {', '.join(map(str, range(1, ranks())))} failed to pass"
        raises(dist.DistBackendError, words, lambda: dist.monitored_barrier(timeout=limit, wait_all_ranks=True))


# --- groups that fail: each is started alone ---------------------------------------------------------------------------


def fault_timeout():
    group = dist.new_group(timeout=timedelta(seconds=2))
    if me() == 0:
        raises(dist.DistBackendError, " timeout ", lambda: dist.all_reduce(torch.ones(5), group=group))
    else:
        time.sleep(5)


def fault_wait_timeout():
    if me() == 0:
        work = dist.all_reduce(torch.ones(5), async_op=True)
        raises(dist.DistBackendError, " timeout ", lambda: work.wait(timedelta(seconds=1)))
    else:
        time.sleep(5)


def fault_shapes():
    why = raises(dist.DistBackendError, "rank", lambda: dist.all_reduce(torch.ones(5 + me())))
    assert why.__cause__ is None, "a traceback has the sentence once"
    assert why.hoop_error.name == "HOOP_ERR_MISMATCH", why


def fault_types():
    x = torch.ones(5, dtype=torch.float32 if me() else torch.int32)
    why = raises(dist.DistBackendError, "rank", lambda: dist.all_reduce(x))
    assert why.hoop_error.name == "HOOP_ERR_MISMATCH", why


def fault_words():
    """A list of tensors whose shapes differ between the ranks: torch's name of the call, and what this rank passed."""
    parts = [torch.zeros(3 + me(), 2) for _ in range(ranks())]
    why = raises(dist.DistBackendError, "called all_gather", lambda: dist.all_gather(parts, torch.zeros(3 + me(), 2)))
    shapes = ", ".join([f"({3 + me()}, 2)"] * ranks())
    assert f"the result of this rank's call is torch.float32 of shape {shapes}" in str(why), why


def fault_message():
    """Both ends hear of a message that is longer than its receive, also a sender that has gone on."""
    x = torch.zeros(4 - me())
    why = raises(dist.DistBackendError, "send of 4 x float32", lambda: [dist.send(x, 1) if me() == 0 else dist.recv(x, 0), dist.barrier()])
    assert "recv of 3 x float32" in str(why), why


def fault_ranks_of_a_group():
    """A group that counts its ranks differently says which ranks of the program they are."""
    group = dist.new_group([1, 0], sort_ranks=False) if VERSION >= (2, 14) else None
    why = raises(dist.DistBackendError, "rank 0", lambda: dist.all_reduce(torch.zeros(3 + me()), group=group))
    if group:
        assert "(in this group rank 0 is rank 1 of the program, rank 1 is rank 0 of the program)" in str(why), why


def fault_death():
    if me() == 1:
        os._exit(0)
    why = raises(dist.DistBackendError, "rank 1", lambda: [dist.all_reduce(torch.ones(5)) for _ in range(1000)])
    assert why.hoop_error.rank == 1, why


def fault_death_in_ddp():
    model = torch.nn.parallel.DistributedDataParallel(net())
    train(model, lambda step: batch(me(), step))
    if me() == 1:
        os._exit(0)
    raises(RuntimeError, "rank 1", lambda: train(model, lambda step: batch(me(), step), 1000))


def fault_future():
    future = dist.all_reduce(torch.ones(3 + me()), async_op=True).get_future()
    raises(RuntimeError, "called all_reduce of", future.wait)


def fault_exit_in_flight():
    """The program ends with an operation in progress, which rank 1 never enters, and without destroy_process_group."""
    if me() == 0:
        dist.all_reduce(torch.ones(5), async_op=True).get_future()
        print("passed fault_exit_in_flight", flush=True)
    sys.exit(0)


def fault_unmatched_in_finally():
    """An exception with a receive that nobody matches, and destroy_process_group in a finally."""
    start = time.time()
    try:
        if me() == 0:
            dist.irecv(torch.zeros(4), 1, tag=7)
            raise ValueError("the user's mistake")
        raises(dist.DistBackendError, "rank 0 ended with ValueError: the user's mistake", lambda: dist.all_reduce(torch.ones(5)))
    except ValueError:
        dist.destroy_process_group()
        assert time.time() - start < 20
        print("passed fault_unmatched_in_finally", flush=True)
        sys.exit(0)


def fault_thread_in_operation():
    """A thread is in an operation that rank 1 never starts, and the main one destroys the group."""
    start, why = time.time(), "rank 0 leaves while another of its threads is in an operation"
    if VERSION < (2, 14):  # every operation is one that starts and is waited for
        print("passed fault_thread_in_operation", flush=True)
    elif me() == 0:
        call = lambda: raises(dist.DistBackendError, why, lambda: dist.all_reduce(torch.ones(5)))
        thread = threading.Thread(target=call)
        thread.start()
        time.sleep(1)
        dist.destroy_process_group()
        thread.join(20)
        assert not thread.is_alive() and time.time() - start < 25
        print("passed fault_thread_in_operation", flush=True)
    else:
        raises(dist.DistBackendError, why, lambda: dist.recv(torch.zeros(1), 0))
    sys.exit(0)


def fault_futures_at_exit():
    """Rank 0 ends with two operations in progress, whose futures nobody has waited for; rank 1 comes later."""
    if me() == 0:
        for _ in range(2):
            dist.all_reduce(torch.ones(5), async_op=True).get_future()
        print("passed fault_futures_at_exit", flush=True)
        sys.exit(0)
    time.sleep(3)
    for _ in range(2):
        x = torch.ones(5)
        dist.all_reduce(x)
        same(x, torch.full((5,), 2.0), "with a rank that has ended")
    sys.exit(0)


def fault_fork_in_flight():
    """A child that was forked while an operation with a future was in progress ends by itself."""
    if me() == 1:
        time.sleep(3)
        dist.all_reduce(torch.ones(5))
        sys.exit(0)
    future = dist.all_reduce(torch.ones(5), async_op=True).get_future()
    child = os.fork()
    if child == 0:
        sys.exit(7)
    assert ended_within(30, child) == 7
    same(future.wait()[0], torch.full((5,), 2.0), "the parent's")
    print("passed fault_fork_in_flight", flush=True)
    sys.exit(0)


def fault_start_limit():
    """The limit of a new group is that of its start, too."""
    if me() == 1:
        start, limit = time.time(), timedelta(seconds=6)
        raises(dist.DistStoreError, "rank 1 has waited 6 s for rank 0", lambda: dist.new_group([0, 1], timeout=limit))
        assert 5 < time.time() - start < 30
        dist.send(torch.ones(1), 0)
    else:
        dist.recv(torch.zeros(1), 1)
        print("passed fault_start_limit", flush=True)
    sys.exit(0)


def fault_unmatched_in_groups():
    """Receives that nobody matches, one in each of five groups: their five seconds pass together."""
    groups = [dist.group.WORLD] + [dist.new_group() for _ in range(4)]
    for group in groups if me() == 0 else ():
        dist.irecv(torch.zeros(4), 1, tag=7, group=group)
    if me() == 0:
        start = time.time()
        dist.destroy_process_group()
        assert time.time() - start < 15, time.time() - start
        print("passed fault_unmatched_in_groups", flush=True)
    else:
        for group in groups:
            raises(dist.DistBackendError, "rank 0 leaves, and nobody has matched its recv", lambda: dist.all_reduce(torch.ones(5), group=group))
    sys.exit(0)


def fault_sent_at_exit():
    """Rank 0 ends without a wait for what it has sent, short and long; rank 1 takes it later."""
    counts = 4, 1 << 20
    if me() == 0:
        for tag, count in enumerate(counts):
            dist.isend(torch.full((count,), 3.0), 1, tag=tag)
        print("passed fault_sent_at_exit", flush=True)
        sys.exit(0)
    time.sleep(3)
    for tag, count in enumerate(counts):
        x = torch.zeros(count)
        dist.recv(x, 0, tag=tag)
        same(x, torch.full((count,), 3.0), "what a rank sent that has ended")


def find_hoop():
    """Before torch 2.5 nothing loads a backend by itself."""
    if VERSION < (2, 5):
        import hoop.torch

        hoop.torch.register()


def join():
    dist.init_process_group(os.environ.get("BACKEND", "hoop"), timeout=timedelta(seconds=60))


def main(checks):
    torch.set_num_threads(1)
    names = sys.argv[1:] or [name for name in checks if name.startswith("check_")]
    find_hoop()
    join()
    for name in names:
        checks[name]()
        if name.startswith("check_"):
            dist.barrier()
        if me() == 0:
            print(f"passed {name}", flush=True)
    if name.startswith("check_"):
        dist.destroy_process_group()


if __name__ == "__main__":
    main(globals())
