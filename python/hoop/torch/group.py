# SPDX-License-Identifier: MIT
"""The two classes that torch knows: a Backend where torch lets Python write one (2.14), before that a ProcessGroup."""

from __future__ import annotations

import functools
import os
import sys
import time
import types
from datetime import timedelta
from typing import Any, Optional

import torch
from torch._C._distributed_c10d import Backend as _TorchBackend
from torch._C._distributed_c10d import ProcessGroup as _TorchGroup
from torch.distributed import DistBackendError, ReduceOp

from .._library import BUSY, lib
from ..calls import order as check_order
from ..calls import wire as check_wire
from ..work import block, kept
from . import hooks
from .operations import Operations, ring_numbers
from .reconfigure import Epochs
from .work import forward_questions

forward_questions()


def _hide_from_dynamo(kind: type) -> None:
    """torch.compile does not follow calls into this package, where it would only warn, or fail."""
    from torch._C._dynamo import eval_frame as dynamo

    functions = [(name, f) for name, f in vars(kind).items() if isinstance(f, types.FunctionType)]
    if hasattr(dynamo, "set_code_exec_strategy"):  # torch 2.7 and later: for what they call, too
        skip = dynamo._FrameAction.SKIP
        for _, function in functions:
            dynamo.set_code_exec_strategy(function.__code__, dynamo._FrameExecStrategy(skip, skip))
    elif hasattr(dynamo, "set_eval_frame"):
        for name, function in functions:
            setattr(kind, name, _without_dynamo(function, dynamo))


def _without_dynamo(function: Any, dynamo: Any) -> Any:
    """The function, for torch before 2.7: Dynamo is off while it runs, as in torch.compiler.disable."""

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        before = dynamo.set_eval_frame(None)
        try:
            return function(*args, **keywords)
        finally:
            dynamo.set_eval_frame(before)

    dynamo.skip_code(call.__code__)
    return call


_hide_from_dynamo(Operations)


def _asked(what: str) -> Any:
    """An argument of the program's, which torch does not tell a group's creator: it is in torch's caller."""
    frame = sys._getframe()
    while frame and frame.f_code.co_name not in ("_new_process_group_helper", "split_group"):
        frame = frame.f_back  # type: ignore[assignment]
    return frame.f_locals.get(what) if frame else None


_TorchOptions: Any = getattr(_TorchBackend, "Options", None)  # some versions before 2.13 have none


class Options(_TorchOptions or object):  # type: ignore[misc]
    """A group's own settings: init_process_group(..., pg_options=hoop.torch.Options(order="rank")), or new_group.

    order: in which order the ranks' elements are combined, "auto", "rank" or "host". wire_dtype: the type in which those
    of long sums and means of float32 travel, "float32", "bfloat16" or "e4m3", hoop_allreduce(3). All ranks must pass the
    same. For what is None, and without this object, the settings of these names count (hoop_env(7)).
    """

    def __init__(self, *, order: Optional[str] = None, wire_dtype: Optional[str] = None) -> None:
        if _TorchOptions:
            _TorchOptions.__init__(self, "hoop")
        self.settings: dict[str, str] = {}
        if order is not None:
            check_order(order)
            self.settings["order"] = order
        if wire_dtype is not None:
            check_wire(wire_dtype)
            self.settings["wire_dtype"] = wire_dtype


def _options_of(chosen: Any, limit: timedelta, members: list[int], name: str) -> Any:
    """A group's own options: torch writes to them, and the program may have given the same ones to another group.

    chosen: the program's, if any. members: the group's ranks as the program counts them.
    """
    ours: Any = Options()
    ours.settings = dict(getattr(chosen, "settings", {}))
    ours._timeout, ours.global_ranks_in_group, ours.group_name = limit, members, name
    return ours


_LET_GO_S = 5  # after an abort


def _readable(name: str, desc: Optional[str]) -> str:
    """A group by its description, "default_pg", or by its name where the program has given it none."""
    return desc if desc and desc != "undefined" else name


class HoopBackend(Operations, _TorchBackend):
    """The backend of one kind of device in a process group: "cpu:hoop,cuda:nccl" is possible."""

    _alive: set[HoopBackend] = set()  # torch's wrapper for debugging keeps the C++ half only

    def __init__(self, store: Any, rank: int, size: int, options: Any) -> None:
        for group in list(self._alive):
            group._let_go()
        _TorchBackend.__init__(self, rank, size)
        self._options = options
        self._aborted: Optional[float] = None  # when
        self._title = _readable(options.group_name, _asked("group_desc"))
        self._begin(store, rank, size)
        self._alive.add(self)

    def _begin(self, store: Any, rank: int, size: int) -> None:
        self._join(store, rank, size, self._options._timeout, self._options, self._options.global_ranks_in_group)
        self._call_it(self._title)

    def set_timeout(self, limit: timedelta) -> None:
        super().set_timeout(limit)
        self._options._timeout = limit  # torch gives it to groups that it splits off

    setTimeout = _set_default_timeout = set_timeout

    def shutdown(self) -> None:
        self._alive.discard(self)
        super().shutdown()

    def abort(self) -> None:
        super().abort()
        self._aborted = time.monotonic()  # a program that goes on makes new groups, and nobody shuts this one down

    def _let_go(self) -> None:
        """Of a group that was aborted long ago: no thread is in a call any more, unless in a wait."""
        if self._aborted is None or time.monotonic() < self._aborted + _LET_GO_S or self._process != os.getpid():
            return
        self._alive.discard(self)
        if self._comm is not None:
            self.waitForPendingWorks()
            self._destroy("the process group was aborted", 0, 1)

    # Properties of this class, because torch's own ask this class again, without end.
    @property
    def options(self) -> Any:
        return self._options

    supports_splitting = property(lambda self: True)
    supports_coalescing = property(lambda self: False)
    supports_shrinking = property(lambda self: False)
    supports_reconfigure = property(lambda self: False)
    supports_window = property(lambda self: False)
    supports_abort_hooks = property(lambda self: True)
    supports_completion_hooks = property(lambda self: False)
    _supports_time_estimate = property(lambda self: False)

    def getBackendName(self) -> str:
        return "hoop"

    def split(self, store: Any, ranks: list[int], options: Any) -> Optional[HoopBackend]:
        """A group of some ranks of this one; the members meet through their own store, and the others do nothing."""
        if self._rank not in ranks:
            return None
        parent, asked = self._options, _asked("pg_options")  # torch passes a copy, without what is Python's
        program = parent.global_ranks_in_group or range(self._size)
        ours = _options_of(
            asked if hasattr(asked, "settings") else parent,
            (options or parent)._timeout,
            [program[rank] for rank in ranks],
            (options or parent).group_name,
        )
        return HoopBackend(store, list(ranks).index(self._rank), len(ranks), ours)

    def perform_nocolor_split(self, device: Any) -> None:
        """Ranks outside a new group have nothing to do."""


class ReconfigurableBackend(HoopBackend):
    """Of a group made with enable_reconfigure: it has no ring before reconfigure(), and another one after each."""

    _without_ring = "has no ring: call reconfigure() with the handles of its members"

    def _begin(self, store: Any, rank: int, size: int) -> None:
        self._prepare(rank, size, self._options._timeout)
        self._epochs = Epochs(store)

    supports_reconfigure = property(lambda self: True)

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    def set_timeout(self, limit: timedelta) -> None:
        self._limit = self._options._timeout = limit  # of the next ring, if this one is over, or there is none
        if self._comm is not None and kept(self._comm) == 0:
            super().set_timeout(limit)

    setTimeout = _set_default_timeout = set_timeout

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        self._handle()
        try:
            super().monitored_barrier(timeout, wait_all_ranks)
        except DistBackendError as why:
            raise DistBackendError(
                f"{why}; a monitored barrier needs a store that all ranks share: was this group made with one for each process?"
            ) from None

    monitoredBarrier = monitored_barrier

    def get_reconfigure_handle(self) -> str:
        """What the other members need of this process, and what it is in the next reconfigure(); it has a secret."""
        return self._epochs.handle(self._rank)

    def reconfigure(self, opts: Any) -> Any:
        """Leaves the ring and joins the one of these handles; returns when that is up. After an error there is none."""
        hooks.refuse("reconfigure()")
        limit = opts.timeout if opts.timeout and opts.timeout > timedelta(0) else self._limit
        ring = self._epochs.plan(opts.uuid, opts.handles, self._rank)
        self._end_ring(f"rank {self._rank} reconfigures the process group", limit)
        self._aborted = None
        self._comm, self._store = self._epochs.join(ring, limit, self._limit, getattr(self._options, "settings", None))
        self.ring = next(ring_numbers)
        self._rank, self._size, self._sequence, self._barriers = ring.rank, ring.size, 0, 0
        self._call_it(self._title)
        return self._done

    def _end_ring(self, why: str, limit: timedelta) -> None:
        """Operations in flight end with `why` on all ranks, also those for which other threads wait.

        Without any, the others hear nothing, for they may be at the end of the last one.
        """
        if self._comm is None:
            return
        if not all(work.is_completed() for work in list(self._pending.values())):
            self._abort(why)
        self.waitForPendingWorks()
        if not self._destroy(why, 0, limit.total_seconds()):
            raise DistBackendError(f"rank {self._rank}: another thread still waits in an operation of the last ring")


class ReconfigurableGroup(_TorchGroup):
    """The process group of such a backend. torch's own would keep the first rank and size for ever."""

    def __init__(self, store: Any, backend: ReconfigurableBackend) -> None:
        _TorchGroup.__init__(self, store, backend.rank(), backend.size())
        self._backend = backend
        kind = _TorchGroup.BackendType.CUSTOM
        for device in ("cpu", "cuda"):
            self._register_backend(torch.device(device), kind, backend)
        self._set_default_backend(kind)

    def rank(self) -> int:
        return self._backend.rank()

    def size(self) -> int:
        return self._backend.size()

    getRank, getSize = rank, size


def _reduce_op(op: Any) -> Any:
    return ReduceOp(op) if isinstance(op, ReduceOp.RedOpType) else op


def _listed(tensors: Any, opts: Any, op: Any = ReduceOp.SUM) -> tuple[Any, Any]:
    """The arguments of a call: (tensors, options) as they are; (tensor, operation) or (tensor, root) as these."""
    tensors = [tensors] if isinstance(tensors, torch.Tensor) else tensors
    if isinstance(opts, int):
        opts = types.SimpleNamespace(rootRank=opts, reduceOp=_reduce_op(op))
    elif isinstance(opts, (ReduceOp, ReduceOp.RedOpType)):
        opts = types.SimpleNamespace(reduceOp=_reduce_op(opts))
    return tensors, opts


class HoopGroup(Operations, _TorchGroup):
    """A whole process group, for every kind of device."""

    def __init__(self, store: Any, rank: int, size: int, limit: timedelta) -> None:
        _TorchGroup.__init__(self, rank, size)
        self._name = self._desc = ""
        chosen = _asked("backend_options") or _asked("pg_options")
        self._join(store, rank, size, limit, chosen, _asked("global_ranks_in_group") or ())

    def __del__(self) -> None:
        self._leave(None)

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    # What torch's own code asks of a group before it splits it, or picks a device for objects, checkpoints and time limits.
    supports_splitting = False

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device(kind) for kind in (("cpu", "cuda") if torch.cuda.is_available() else ("cpu",))]

    def _get_backend(self, device: Any) -> HoopGroup:
        return self

    def getBackendName(self) -> str:
        return "hoop"

    _get_backend_name = name = getBackendName

    def getGroupName(self) -> str:
        return self._name

    def _set_group_name(self, name: str) -> None:
        self._name = name

    def getGroupDesc(self) -> str:
        return self._desc

    def _set_group_desc(self, desc: str) -> None:
        self._desc = desc
        self._call_it(_readable(self._name, desc))

    group_name = property(getGroupName)
    group_desc = property(getGroupDesc)

    # torch's own takes one tensor as well, from DDP's join() for instance.
    def allreduce(self, tensors: Any, opts: Any = None) -> Any:
        return super().allreduce(*_listed(tensors, opts))

    def broadcast(self, tensors: Any, opts: Any) -> Any:
        return super().broadcast(*_listed(tensors, opts))

    def reduce(self, tensors: Any, opts: Any, op: Any = ReduceOp.SUM) -> Any:
        return super().reduce(*_listed(tensors, opts, op))

    # The names of torch before 2.13.
    _allgather_base = Operations.all_gather_single
    _reduce_scatter_base = Operations.reduce_scatter_single
    alltoall_base = Operations.all_to_all_single
    allgather_into_tensor_coalesced = Operations.all_gather_single_coalesced
    reduce_scatter_tensor_coalesced = Operations.reduce_scatter_single_coalesced


_hide_from_dynamo(HoopGroup)


def _is_mixed(asked: str) -> bool:
    """"cpu:hoop,cuda:nccl" is."""
    return len({pair.split(":")[-1] for pair in asked.split(",")}) > 1


def create_backend(options: Any, chosen: Any) -> Any:
    """torch's DistributedBackendOptions, and the program's pg_options, to a group's backend, or to a whole group."""
    ours = _options_of(chosen, options.timeout, options.global_ranks_in_group, options.group_id)
    place = options.store, options.group_rank, options.group_size
    if not getattr(options, "enable_reconfigure", False):  # torch before 2.15 has no such groups
        return HoopBackend(*place, ours)
    if _is_mixed(str(_asked("backend") or "hoop")):
        raise ValueError("a group with enable_reconfigure=True has one backend")
    return ReconfigurableGroup(options.store, ReconfigurableBackend(*place, ours))


def create_group(store: Any, rank: int, size: int, limit: timedelta) -> HoopGroup:
    """Before 2.14. ValueError if the group shall have another backend, too: torch would drop it without a word."""
    asked = str(_asked("backend") or "hoop")
    if _is_mixed(asked):
        raise ValueError(
            f'rank {rank} asked for backend "{asked}", but before PyTorch 2.14 hoop is the backend of a whole group, and '
            f'this is PyTorch {torch.__version__}: use backend="hoop", or a group for each backend'
        )
    return HoopGroup(store, rank, size, limit)
