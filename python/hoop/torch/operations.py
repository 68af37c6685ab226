# SPDX-License-Identifier: MIT
"""torch.distributed's operations over a communicator of libhoop.

A synchronous call is libhoop's blocking form, on the caller's thread. An asynchronous one is the i form and a HoopWork.
Several operations of one call (the coalesced ones) are a group of libhoop. On a GPU's tensor an operation is added to
the current stream.
"""

from __future__ import annotations

import collections
import ctypes
import itertools
import os
import sys
import threading
import time
import weakref
from contextlib import suppress
from datetime import timedelta
from typing import Any, Callable, Iterable, Optional, Sequence

import torch
from torch import Tensor
from torch.distributed import DistBackendError

from .. import ending
from .._library import ANY_RANK, BUSY, DTYPES, OPS, WIRES, CallOptions, Stats, lib
from . import backward, hooks, watcher
from ..work import block, kept
from .barrier import monitored_barrier
from .errors import failure, name_members
from .meeting import meet
from .stream import StreamWork, op_stream
from .tensors import check_written, dense, fill, flat, in_place, joined, overlap, receiver, reduction, same_type, summands
from .tensors import width, writing
from .work import Done, HoopWork, Threads, milliseconds

_UNSET = timedelta(0)
_LOOKS = 2  # at works in progress, when another one starts
_LOOK_MS = 50  # between two looks at what a group that leaves still waits for
_MOST_DIMENSIONS = 65  # of a sparse tensor that is compared between ranks, and their number
_FORMS = "allreduce reduce reduce_scatter reduce_scatterv allgather allgatherv broadcast gather scatter".split()
_FORMS += "alltoall alltoallv barrier send recv".split()
_BLOCKING = {name: getattr(lib, f"hoop_{name}") for name in _FORMS}
_STARTING = {name: getattr(lib, f"hoop_i{name}") for name in _FORMS}
_ON_STREAM = {name: getattr(lib, f"hoop_{name}_on_stream") for name in _FORMS}

_Call = tuple[str, tuple[Any, ...]]  # the name of an operation, and libhoop's arguments before the communicator
_Finish = Optional[Callable[[], None]]

ring_numbers = itertools.count(1)
_groups: weakref.WeakSet[Operations] = weakref.WeakSet()
_left_within: list[Operations] = []  # by a signal's handler, within a wait: their rings go when the program ends


def _counts(numbers: Iterable[int]) -> ctypes.Array[ctypes.c_size_t]:
    listed = list(numbers)
    return (ctypes.c_size_t * len(listed))(*listed)


def _one(tensors: Any, what: str) -> Any:
    if len(tensors) != 1:
        raise ValueError(f"hoop's {what} takes one tensor a call, and this one has {len(tensors)}")
    return tensors[0]


def _copy_parts(whole: Tensor, parts: list[Tensor]) -> None:
    """Fills the parts, in order, from one array."""
    for part, piece in zip(parts, whole.split([p.numel() for p in parts])):
        fill(part, piece.view(part.shape))


def _copier(pairs: list[tuple[Tensor, Tensor]]) -> _Finish:
    """Copies (to, from) of those that are not the same tensor; None: nothing to copy."""
    real = [(to, origin) for to, origin in pairs if to is not origin]

    def copy() -> None:
        for to, origin in real:
            fill(to, origin)

    return copy if real else None


def _check_device(tensor: Tensor) -> None:
    if not tensor.is_cuda:
        raise TypeError(
            f"a tensor of shape {tuple(tensor.shape)} on device {tensor.device}: hoop has tensors of the CPU and of CUDA"
        )


def _scaled(tensor: Tensor, factor: Any) -> Tensor:
    if factor is None:
        return tensor
    scaled = tensor * factor
    if scaled.dtype != tensor.dtype or scaled.shape != tensor.shape:
        raise TypeError(
            f"PREMUL_SUM: a tensor of {tensor.dtype} and shape {tuple(tensor.shape)} times its factor has {scaled.dtype} and "
            f"shape {tuple(scaled.shape)}; the factor must leave both as they are"
        )
    return scaled


class Operations:
    """What a group of ranks can do. A class of torch's is the other base; it has rank() and size()."""

    _without_ring = "was destroyed"

    def _prepare(self, rank: int, size: int, limit: timedelta) -> None:
        """A group without a ring."""
        self._rank, self._size, self._limit = rank, size, limit
        self._comm: Optional[int] = None
        self._blocked = Threads()  # in a blocking call of libhoop
        self.ring = 0  # a number that no other ring of this process has; 0: there was none yet
        self._store: Any = None
        self._pending: collections.OrderedDict[int, Any] = collections.OrderedDict()  # by id: works in progress, and ended ones at which nobody has looked yet
        self._naming = threading.Lock()  # held while an error of _comm is read
        self._process = os.getpid()
        self._done = Done()
        self._sequence = self._barriers = 0
        self._hooks: dict[int, Callable[[], None]] = {}
        ending.note_handled()
        ending.watch_child()
        _groups.add(self)

    def _join(
        self, store: Any, rank: int, size: int, limit: timedelta, chosen: Any = None, members: Sequence[int] = ()
    ) -> None:
        """chosen: the program's pg_options. members: this group's ranks as the program counts them; empty: as it does."""
        self._prepare(rank, size, limit)
        self._comm, self._store = meet(store, rank, size, limit, getattr(chosen, "settings", None))
        self.ring = next(ring_numbers)
        name_members(self._comm, members)

    def _call_it(self, name: str) -> None:
        """The group's name in errors and tables, as far as it is one: 63 bytes that print."""
        text = "".join(c if c.isprintable() else "?" for c in name)
        lib.hoop_comm_set_name(self._handle(), text.encode()[:63].decode(errors="ignore").encode())

    # --- how it fails ------------------------------------------------------------------------------------------------

    def _failure(self, code: int, comm: int, tensors: Any = ()) -> Exception:
        """The exception for a call on `comm` that has failed on this thread. If the ring is over, the abort hooks run."""
        with self._naming:
            known = comm == self._comm
            why = failure(code, comm if known else None, tensors)
            over = bool(self._hooks) and not (known and kept(comm) == 0)
        if over:
            hooks.run(list(self._hooks.values()))
        return why

    def registerAbortHook(self, hook_id: int, hook: Callable[[], None]) -> None:
        """Calls hook() when an operation has failed, before the program gets the error, and also if it does not wait.

        It may run on any thread, and more than once. It must not wait for operations.
        """
        self._hooks[hook_id] = hook
        for work in list(self._pending.values()):
            work.attend()

    def unregisterAbortHook(self, hook_id: int) -> None:
        self._hooks.pop(hook_id, None)

    register_abort_hook, unregister_abort_hook = registerAbortHook, unregisterAbortHook

    # --- how an operation runs ---------------------------------------------------------------------------------------

    def _handle(self) -> int:
        if self._comm is None:
            raise DistBackendError(f"rank {self._rank} uses a process group that {self._without_ring}")
        return self._comm

    def _count(self) -> None:
        """Counts a call."""
        self._sequence += 1
        ending.note_handled()

    def _run(
        self, form: str, args: tuple[Any, ...], opts: Any, keep: list[Tensor], result: Any, finish: _Finish = None
    ) -> Any:
        comm = self._comm or self._handle()
        self._count()
        if keep and not keep[0].is_cpu:
            return self._run_on_stream([(form, args)], opts, keep, result, finish)
        if not getattr(opts, "asyncOp", True) and opts.timeout <= _UNSET:
            with self._blocked:
                code = block(_BLOCKING[form], *args, comm)
            if code == 0:
                if finish:
                    finish()
                return self._done
            raise self._failure(code, comm, result)
        handle = ctypes.c_void_p()
        code = _STARTING[form](*args, comm, ctypes.byref(handle))
        return self._started(code, handle, opts, keep, result, finish)

    def _run_group(self, calls: list[_Call], opts: Any, keep: list[Tensor], result: Any, finish: _Finish = None) -> Any:
        comm = self._handle()
        self._count()
        if not calls:
            return self._done
        if not keep[0].is_cpu:
            return self._run_on_stream(calls, opts, keep, result, finish)
        handle = ctypes.c_void_p()
        code = lib.hoop_group_start(comm)
        if code:
            raise self._failure(code, comm)
        try:
            for form, args in calls:
                _BLOCKING[form](*args, comm)  # an error is kept, and the end of the group returns it
            code = lib.hoop_igroup_end(comm, ctypes.byref(handle))
        except BaseException:  # of a signal: a wrong call makes libhoop drop all of a group that is still open
            if handle.value:
                self._started(0, handle, opts, keep, result, finish)
            else:
                lib.hoop_allreduce(None, None, 1, -1, -1, comm)
                lib.hoop_group_end(comm)
            raise
        return self._started(code, handle, opts, keep, result, finish)

    def _run_on_stream(
        self, calls: list[_Call], opts: Any, keep: list[Tensor], result: Any, finish: _Finish, road: str = ""
    ) -> Any:
        comm = self._handle()
        _check_device(keep[0])
        stream = op_stream(keep, getattr(opts, "asyncOp", True), road)
        for form, args in calls:
            code = _ON_STREAM[form](*args, comm, stream.cuda_stream)
            if code:
                raise self._failure(code, comm, result)
        with torch.cuda.stream(stream):
            if finish:
                finish()
            return StreamWork(stream, result)

    def _started(
        self, code: int, handle: ctypes.c_void_p, opts: Any, keep: list[Tensor], result: Any, finish: _Finish,
        pending: ending.Pending = ("collective", ""),
    ) -> HoopWork:
        comm = self._handle()
        if code:
            raise self._failure(code, comm, result)
        assert handle.value
        limit = milliseconds(getattr(opts, "timeout", None))
        work = HoopWork(handle.value, comm, self._rank, keep, result, finish, limit, self._failure, self._drop, pending)
        self._hold(work)
        self._look_round()
        if self._hooks:
            work.attend()
        return work

    def _hold(self, work: Any) -> None:
        """Its tensors live until the operation has ended, also if nobody waits for it."""
        self._pending[id(work)] = work

    def _drop(self, work: Any) -> None:
        self._pending.pop(id(work), None)

    def _look_round(self) -> None:
        """Works that nobody waits for leave when they are seen to have ended: a look at some, in turns."""
        for key, work in list(itertools.islice(self._pending.items(), _LOOKS)):
            if work.is_completed():
                self._drop(work)
            else:
                with suppress(KeyError):  # another thread has seen its end
                    self._pending.move_to_end(key)

    # --- reductions --------------------------------------------------------------------------------------------------

    def allreduce(self, tensors: list[Tensor], opts: Any = None) -> Any:
        tensor = _one(tensors, "all_reduce")
        if tensor.layout != torch.strided:
            return self._allreduce_sparse(tensor, opts)
        kind, op, factor = reduction(opts)
        work = in_place(tensor)
        address, count, dtype = summands(work, kind)
        self._scale(work, factor)
        finish = None if work is tensor else _copier([(tensor, work)])
        return self._run("allreduce", (address, address, count, dtype, op), opts, [work], tensors, finish)

    def _scale(self, tensor: Tensor, factor: Any) -> None:
        """In place, and so not before the call can only be accepted."""
        if factor is not None:
            self._handle()
            with writing(tensor):
                tensor.mul_(factor)

    def average_as(self, wire_dtype: str, tensor: Tensor, residual: Tensor) -> HoopWork:
        """The mean of a contiguous float32 tensor on the CPU, in place. residual: what rounding has taken from it."""
        comm, count, handle = self._handle(), tensor.numel(), ctypes.c_void_p()
        address, left = tensor.data_ptr(), residual.data_ptr()
        options = CallOptions(ctypes.sizeof(CallOptions), 0, WIRES[wire_dtype], left, residual.numel())
        self._count()
        with writing(tensor):
            code = lib.hoop_iallreduce_with(
                address, address, count, DTYPES["float32"], OPS["avg"], comm, options, ctypes.byref(handle)
            )
        return self._started(code, handle, None, [tensor, residual], [tensor], None)

    def allreduce_coalesced(self, tensors: list[Tensor], opts: Any = None) -> Any:
        kind, op, factor = reduction(opts)
        works = [in_place(t) for t in tensors]
        calls: list[_Call] = []
        for work in works:
            address, count, dtype = summands(work, kind)
            calls.append(("allreduce", (address, address, count, dtype, op)))
        for work in works:
            self._scale(work, factor)
        return self._run_group(calls, opts, works, tensors, _copier(list(zip(tensors, works))))

    def _allreduce_sparse(self, tensor: Tensor, opts: Any) -> Any:
        """As Gloo does it: all ranks' indices and values are gathered, and each rank adds them up."""
        kind, _, factor = reduction(opts)
        if tensor.layout != torch.sparse_coo or kind.name not in ("SUM", "PREMUL_SUM"):
            raise NotImplementedError(
                f"hoop reduces sparse tensors of layout sparse_coo with SUM only, not {kind.name} of {tensor.layout}"
            )
        mine = tensor.coalesce()
        lengths = self._gather_lengths(mine)
        indices, values = mine.indices(), mine.values()
        rows = indices.size(0)
        all_indices = self._gather_now(indices.t().contiguous(), [n * rows for n in lengths]).view(-1, rows).t()
        each = values[0].numel() if len(values) else values.shape[1:].numel()
        all_values = self._gather_now(values, [n * each for n in lengths]).view(-1, *values.shape[1:])
        total = torch.sparse_coo_tensor(all_indices, all_values, tensor.shape, check_invariants=False).coalesce()
        fill(tensor, _scaled(total, factor))
        done = Done([tensor])
        self._hold(done)  # torch before 2.7 keeps the C++ half only
        return done

    def _gather_lengths(self, mine: Tensor) -> list[int]:
        """The number of values of each rank; all ranks get ValueError if their tensors differ in shape."""
        shape = [mine.sparse_dim(), *mine.shape][:_MOST_DIMENSIONS]
        row = [mine._nnz(), len(shape), *shape] + [0] * (_MOST_DIMENSIONS - len(shape))
        rows = self._gather_now(torch.tensor(row, device="cpu"), [len(row)] * self._size).view(self._size, -1).tolist()
        for rank, other in enumerate(rows):
            if other[1:] != rows[0][1:]:
                shapes = [f"{r[3 : 2 + r[1]]} with {r[2]} sparse dimensions" for r in (rows[0], other)]
                raise ValueError(
                    f"allreduce of sparse tensors: rank 0 has the shape {shapes[0]}, but rank {rank} has {shapes[1]}"
                )
        return [r[0] for r in rows]

    def _gather_now(self, mine: Tensor, counts: list[int]) -> Tensor:
        """All ranks' elements in one array; counts are the elements of each rank."""
        mine = dense(mine)
        whole = torch.empty(sum(counts), dtype=mine.dtype, device=mine.device)
        address, count, dtype = flat(mine)
        sizes = _counts(n * width(mine) for n in counts)
        handle = ctypes.c_void_p()
        code = _STARTING["allgatherv"](
            address, whole.data_ptr(), count, sizes, None, dtype, self._handle(), ctypes.byref(handle)
        )
        self._started(code, handle, None, [mine, whole], None, None).wait()
        return whole

    def reduce(self, tensors: list[Tensor], opts: Any) -> Any:
        tensor = _one(tensors, "reduce")
        kind, op, factor = reduction(opts)
        at_root = self._rank == opts.rootRank
        source = _scaled(in_place(tensor) if at_root else dense(tensor), factor)
        address, count, dtype = summands(source, kind)
        args = (address, address if at_root else None, count, dtype, op, opts.rootRank)
        return self._run("reduce", args, opts, [source], tensors, _copier([(tensor, source)]) if at_root else None)

    def reduce_scatter_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Any:
        call, keep, target = self._reduce_scatter_call(output, input, opts)
        return self._run(*call, opts, keep, [output], _copier([(output, target)]))

    def reduce_scatter_single_coalesced(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> Any:
        calls, keep, pairs = [], [], []
        for output, input in zip(outputs, inputs):
            call, kept, target = self._reduce_scatter_call(output, input, opts)
            calls.append(call)
            keep += kept
            pairs.append((output, target))
        return self._run_group(calls, opts, keep, outputs, _copier(pairs))

    def _reduce_scatter_call(self, output: Tensor, input: Tensor, opts: Any) -> tuple[_Call, list[Tensor], Tensor]:
        kind, op, factor = reduction(opts)
        same_type([input, output])
        if input.numel() != self._size * output.numel():
            raise ValueError(
                f"reduce_scatter on {self._size} ranks needs an input of {self._size} times the output's elements: it "
                f"has {input.numel()}, and the output {output.numel()}"
            )
        source = _scaled(dense(input), factor)
        target = receiver(output)
        if overlap(source, target) and target.data_ptr() != source.data_ptr() + self._rank * target.nbytes:
            target = torch.empty_like(target)  # as with gloo, it may be any part of the input
        address, count, dtype = summands(target, kind)
        return ("reduce_scatter", (source.data_ptr(), address, count, dtype, op)), [source, target], target

    def reduce_scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any = None) -> Any:
        output, parts = _one(outputs, "reduce_scatter"), _one(inputs, "reduce_scatter")
        self._check_parts(parts, "reduce_scatter", "input")
        same_type([output, *parts])
        kind, op, factor = reduction(opts)
        source = _scaled(joined(parts), factor)
        target = receiver(output)
        if parts[self._rank].numel() != output.numel():
            raise ValueError(
                f"the output of reduce_scatter has {output.numel()} elements, and input {self._rank}, which belongs to "
                f"it, has {parts[self._rank].numel()}"
            )
        address, _, dtype = summands(target, kind)
        sizes = _counts(width(p) * p.numel() for p in parts)
        args = (source.data_ptr(), address, sizes, None, dtype, op)
        return self._run("reduce_scatterv", args, opts, [source, target], outputs, _copier([(output, target)]))

    # --- data that only moves ----------------------------------------------------------------------------------------

    def _check_parts(self, parts: list[Any], what: str, which: str) -> None:
        if len(parts) != self._size:
            raise ValueError(
                f"{what} on {self._size} ranks needs a list of {self._size} {which} tensors, not {len(parts)}"
            )

    def _check_outputs(self, parts: list[Tensor], what: str, own: Tensor, of: str) -> None:
        """A list of outputs: one for each rank, each can be written, and this rank's has as many elements as `own`."""
        self._check_parts(parts, what, "output")
        for part in parts:
            check_written(part)
        mine = parts[self._rank]
        if mine.numel() != own.numel():
            raise ValueError(
                f"output {self._rank} of {what} on rank {self._rank} takes what this rank itself sends, and has the shape "
                f"{tuple(mine.shape)}, but {of} has {tuple(own.shape)}"
            )

    def broadcast(self, tensors: list[Tensor], opts: Any) -> Any:
        tensor = _one(tensors, "broadcast")
        work = in_place(tensor)
        address, count, dtype = flat(work)
        args = (address, address, count, dtype, opts.rootRank)
        return self._run("broadcast", args, opts, [work], tensors, _copier([(tensor, work)]))

    def all_gather_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Any:
        call, keep, target = self._allgather_call(output, input)
        return self._run(*call, opts, keep, [output], _copier([(output, target)]))

    def all_gather_single_coalesced(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> Any:
        calls, keep, pairs = [], [], []
        for output, input in zip(outputs, inputs):
            call, kept, target = self._allgather_call(output, input)
            calls.append(call)
            keep += kept
            pairs.append((output, target))
        return self._run_group(calls, opts, keep, outputs, _copier(pairs))

    def _allgather_call(self, output: Tensor, input: Tensor) -> tuple[_Call, list[Tensor], Tensor]:
        same_type([input, output])
        if output.numel() != self._size * input.numel():
            raise ValueError(
                f"all_gather on {self._size} ranks needs an output of {self._size} times the input's elements: it has "
                f"{output.numel()}, and the input {input.numel()}"
            )
        source = dense(input)
        target = receiver(output)
        if overlap(source, target) and source.data_ptr() != target.data_ptr() + self._rank * source.nbytes:
            source = source.clone()  # as with gloo, it may be any part of the output
        address, count, dtype = flat(source)
        return ("allgather", (address, target.data_ptr(), count, dtype)), [source, target], target

    def allgather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None) -> Any:
        parts, input = _one(outputs, "all_gather"), _one(inputs, "all_gather")
        call, keep, whole = self._allgather_list_call(parts, input)
        return self._run(*call, opts, keep, outputs, lambda: _copy_parts(whole, parts))

    def _allgather_list_call(self, parts: list[Tensor], input: Tensor) -> tuple[_Call, list[Tensor], Tensor]:
        self._check_outputs(parts, "all_gather", input, "the input")
        same_type([input, *parts])
        source = dense(input)
        whole = torch.empty(sum(p.numel() for p in parts), dtype=input.dtype, device=input.device)
        address, count, dtype = flat(source)
        sizes = _counts(width(p) * p.numel() for p in parts)
        return ("allgatherv", (address, whole.data_ptr(), count, sizes, None, dtype)), [source, whole], whole

    def allgather_coalesced(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None) -> Any:
        self._check_parts(outputs, "all_gather_coalesced", "lists of output")
        calls, keep, wholes = [], [], []
        for i, input in enumerate(inputs):
            parts = [of_rank[i] for of_rank in outputs]
            call, kept, whole = self._allgather_list_call(parts, input)
            calls.append(call)
            keep += kept
            wholes.append((whole, parts))

        def finish() -> None:
            for whole, parts in wholes:
                _copy_parts(whole, parts)

        return self._run_group(calls, opts, keep, outputs, finish)

    def gather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any) -> Any:
        input = _one(inputs, "gather")
        source = dense(input)
        address, count, dtype = flat(source)
        if self._rank != opts.rootRank:
            return self._run("gather", (address, None, count, dtype, opts.rootRank), opts, [source], [])
        parts = _one(outputs, "gather")
        self._check_parts(parts, "gather", "output")
        same_type([input, *parts])
        if any(p.numel() != input.numel() for p in parts):
            raise ValueError(f"each output of gather needs the input's {input.numel()} elements")
        for part in parts:
            check_written(part)
        whole = torch.empty(self._size * input.numel(), dtype=input.dtype, device=input.device)
        args = (address, whole.data_ptr(), count, dtype, opts.rootRank)
        return self._run("gather", args, opts, [source, whole], outputs, lambda: _copy_parts(whole, parts))

    def scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any) -> Any:
        output = _one(outputs, "scatter")
        target = receiver(output)
        address, count, dtype = flat(target)
        keep, source = [target], None
        if self._rank == opts.rootRank:
            parts = _one(inputs, "scatter")
            self._check_parts(parts, "scatter", "input")
            same_type([output, *parts])
            keep.append(joined(parts))
            source = keep[1].data_ptr()
            if any(p.numel() != output.numel() for p in parts):
                raise ValueError(f"each input of scatter needs the output's {output.numel()} elements")
        args = (source, address, count, dtype, opts.rootRank)
        return self._run("scatter", args, opts, keep, outputs, _copier([(output, target)]))

    def all_to_all_single(
        self, output: Tensor, input: Tensor, output_splits: list[int], input_splits: list[int], opts: Any = None
    ) -> Any:
        same_type([input, output])
        sending = self._splits(input, input_splits, "input")
        receiving = self._splits(output, output_splits, "output")
        if sending[self._rank] != receiving[self._rank]:
            raise ValueError(
                f"rank {self._rank} sends itself {sending[self._rank] // width(input)} elements in all_to_all, and takes "
                f"{receiving[self._rank] // width(output)}: part {self._rank} of the input, of shape {tuple(input.shape)}, "
                f"differs from part {self._rank} of the output, of shape {tuple(output.shape)}"
            )
        source = dense(input)
        target = receiver(output)
        call = self._alltoall_call(source, target, sending, receiving)
        return self._run(*call, opts, [source, target], [output], _copier([(output, target)]))

    def _splits(self, tensor: Tensor, rows: list[int], which: str) -> list[int]:
        """libhoop's elements for each rank."""
        length = tensor.size(0) if tensor.dim() else 1
        if not rows and length % self._size:
            raise ValueError(
                f"the first dimension of all_to_all's {which}, {length}, is not a multiple of {self._size} ranks"
            )
        rows = rows or [length // self._size] * self._size
        if len(rows) != self._size or sum(rows) != length or min(rows) < 0:
            raise ValueError(
                f"all_to_all on {self._size} ranks needs {self._size} sizes of {which} parts, none below 0, that add up to the "
                f"first dimension, {length}: these are {rows}"
            )
        row = width(tensor) * (tensor.numel() // length) if length else 0
        return [n * row for n in rows]

    def _alltoall_call(self, source: Tensor, target: Tensor, sending: list[int], receiving: list[int]) -> _Call:
        address, _, dtype = flat(source)
        args = (address, target.data_ptr(), _counts(sending), None, _counts(receiving), None, dtype)
        return "alltoallv", args

    def alltoall(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> Any:
        self._check_parts(inputs, "all_to_all", "input")
        self._check_outputs(outputs, "all_to_all", inputs[self._rank], f"input {self._rank}")
        same_type([*inputs, *outputs])
        source = joined(inputs)
        target = source.new_empty(sum(t.numel() for t in outputs))
        sending, receiving = ([width(t) * t.numel() for t in tensors] for tensors in (inputs, outputs))
        call = self._alltoall_call(source, target, sending, receiving)
        return self._run(*call, opts, [source, target], outputs, lambda: _copy_parts(target, outputs))

    def barrier(self, opts: Any = None) -> Any:
        device = getattr(opts, "device", None)
        if device is not None and device.type == "cuda":
            torch.cuda.current_stream(device).synchronize()
        before = [work for work in list(self._pending.values()) if work.pending[0] == "collective"]

        def finish() -> None:  # their outputs are there, too; what the watcher has it must end itself
            for work in before:
                work.ends_within(0 if watcher.is_here() else 1000 * watcher.PATIENCE)

        return self._run("barrier", (), opts, [], [], finish if before else None)

    # --- messages ----------------------------------------------------------------------------------------------------

    def _message(self, form: str, tensor: Tensor, work: Tensor, peer: int, tag: int, finish: _Finish) -> Any:
        address, count, dtype = flat(work)
        ending.note_handled()
        if not tensor.is_cpu:
            call = form, (address, count, dtype, peer, tag)
            return self._run_on_stream([call], None, [work], [tensor], finish, f"{form} {peer}")
        handle = ctypes.c_void_p()
        code = _STARTING[form](address, count, dtype, peer, tag, self._handle(), ctypes.byref(handle))
        way = "from" if form == "recv" else "to"
        who = "any rank" if peer == ANY_RANK else f"rank {peer}"
        pending = form, f"{form} of {work.numel()} elements {way} {who} (tag {tag})"
        return self._started(code, handle, None, [work], [tensor], finish, pending)

    def send(self, tensors: list[Tensor], peer: int, tag: int = 0) -> Any:
        tensor = _one(tensors, "send")
        return self._message("send", tensor, dense(tensor), peer, tag, None)

    def recv(self, tensors: list[Tensor], peer: int, tag: int = 0) -> Any:
        tensor = _one(tensors, "recv")
        work = in_place(tensor)
        return self._message("recv", tensor, work, peer, tag, _copier([(tensor, work)]))

    def recv_anysource(self, tensors: list[Tensor], tag: int = 0) -> Any:
        return self.recv(tensors, ANY_RANK, tag)

    recvAnysource = recv_anysource

    # --- the group's life --------------------------------------------------------------------------------------------

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        """timeout: a timedelta, or torch's BarrierOptions; None: the group's limit."""
        self._handle()
        limit = getattr(timeout, "timeout", timeout)
        self._barriers += 1
        unset = limit is None or limit < _UNSET
        monitored_barrier(
            self._store, self._barriers, self._rank, self._size, self._limit if unset else limit, wait_all_ranks
        )

    monitoredBarrier = monitored_barrier

    def set_timeout(self, limit: timedelta) -> None:
        self._limit = limit
        code = lib.hoop_comm_set_timeout(self._handle(), max(milliseconds(limit), 0))
        if code:
            raise failure(code, self._comm)

    setTimeout = _set_default_timeout = set_timeout

    def getSequenceNumberForGroup(self) -> int:
        return self._sequence

    _get_sequence_number_for_group = getSequenceNumberForGroup

    def setSequenceNumberForGroup(self) -> None:
        pass

    _set_sequence_number_for_group = setSequenceNumberForGroup

    def waitForPendingWorks(self) -> None:
        while self._pending:
            for work in list(self._pending.values()):
                work.settle(-1)
                self._drop(work)

    _wait_for_pending_works = waitForPendingWorks

    def eager_connect_single_device(self, device: Any = None) -> None:
        """The ring is up since the group was made."""

    def abort(self) -> None:
        """Ends the operations on all ranks."""
        self._abort("the process group was aborted")

    def _abort(self, why: str) -> None:
        if self._comm is not None:
            lib.hoop_comm_abort(self._comm, ending.encoded(why))

    def shutdown(self) -> None:
        """Leaves the ring. An exception by which the program leaves ends it for all ranks, else see _leave()."""
        self._leave(ending.in_flight() or ending.uncaught())

    def _leave(self, error: Optional[BaseException]) -> None:
        """Waits for the operations in progress, as long as ending.verdict() says."""
        if self._comm is None or self._process != os.getpid():  # the child of a fork is no rank of it
            return
        hooks.refuse("the end of a process group")
        if self._blocked.has_this() or any(work.within.has_this() for work in list(self._pending.values())):
            self._abort(f"rank {self._rank} was interrupted: the handler of a signal left the group within a wait")
            _left_within.append(self)  # the wait ends after the handler, and needs the ring until then
            return
        try:
            why = ending.told(self._rank, error)
            if not why:
                why = self._finish(ending.leaving_since(time.monotonic()))
                if why:  # no exception of this rank's says so
                    print(f"hoop: {why}", file=sys.stderr)
            if why:
                self._abort(why)
        except BaseException as interrupt:
            self._abort(ending.told(self._rank, interrupt))
            raise
        finally:
            self.waitForPendingWorks()
            why, patience = f"rank {self._rank} leaves while another of its threads is in an operation", ending.PATIENCE["recv"]
            if not self._destroy(why, patience, 2 * patience):
                print(f"hoop: {why}, which does not end: the ring is not left", file=sys.stderr)

    def _destroy(self, why: str, patience: float, limit: float) -> bool:
        """An operation that another thread is in is ended with `why` after `patience` seconds. False: it goes on at the limit."""
        comm, began = self._forget_ring(), time.monotonic()
        while block(lib.hoop_comm_destroy, comm) == BUSY:
            lasts = time.monotonic() - began
            if lasts > limit:
                return False
            if lasts >= patience:
                lib.hoop_comm_abort(comm, ending.encoded(why))
            time.sleep(0.01)
        return True

    def _forget_ring(self) -> int:
        """The communicator, which nothing uses from now on."""
        comm = self._handle()
        with self._naming:
            self._comm = None
        name_members(comm, ())
        return comm

    def _finish(self, since: float) -> str:
        """Returns when no operation is in progress, or else why the ring is to be ended."""
        seen: Any = None
        while True:
            works = [work for work in list(self._pending.values()) if not work.is_completed()]
            if not works:
                return ""
            moved = self._moved()
            if moved != seen:
                since, seen = since if seen is None else time.monotonic(), moved
            why = ending.verdict(self._rank, [work.pending for work in works], time.monotonic() - since)
            if why:
                return why
            works[0].ends_within(_LOOK_MS)

    def _moved(self) -> tuple[int, ...]:
        """Changes when anything moves in this ring."""
        now = Stats(size=ctypes.sizeof(Stats))
        lib.hoop_comm_stats(self._comm, ctypes.byref(now))
        return now.operations, now.messages, now.bytes_sent, now.bytes_received, len(self._pending)


def _leave_all(error: Optional[BaseException]) -> None:
    """A program that ends without destroy_process_group leaves its rings as that does."""
    for group in list(_groups):
        group._leave(error)
    watcher.stop()


def _end_interrupted() -> None:
    """A Ctrl-C that no handler can hear ends the groups with operations in progress."""
    for group in list(_groups):
        if not all(work.is_completed() for work in list(group._pending.values())):
            group._abort(ending.told(group._rank, KeyboardInterrupt()))


ending.at_end(_leave_all)
backward.listen(_end_interrupted)
