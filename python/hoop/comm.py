# SPDX-License-Identifier: MIT
"""A communicator: one rank's membership in a ring, and the operations on it."""

import ctypes
import os
import sys
import threading
from ctypes import byref, c_uint64, c_void_p
from threading import get_ident
from types import TracebackType
from typing import Any, Callable, Optional, Sequence

from . import calls, ending, interrupt
from ._library import ADDRESS_TEXT, ANY_RANK, BUSY, FORKED, IN_PROGRESS, INVALID_ARGUMENT, INVALID_USAGE, CallOptions, Signal, lib
from ._library import Stats as _StatsStruct
from .bell import DONE
from .calls import Call, whole
from .errors import HoopError, check, error_of
from .handle import Handle
from .settings import config_of
from .stats import Stats, stats_of
from .work import Work, block, received, wait_whole

# The functions of an operation: it blocks or is queued in a group; it starts; it is added to a CUDA stream.
_Form = tuple[Callable[..., int], Callable[..., int], Callable[..., int]]


def _form(name: str) -> _Form:
    return getattr(lib, f"hoop_{name}"), getattr(lib, f"hoop_i{name}"), getattr(lib, f"hoop_{name}_on_stream")


_ALLREDUCE, _REDUCE_SCATTER, _ALLGATHER = _form("allreduce"), _form("reduce_scatter"), _form("allgather")
_BROADCAST, _REDUCE, _GATHER, _SCATTER = _form("broadcast"), _form("reduce"), _form("gather"), _form("scatter")
_ALLTOALL, _BARRIER, _ALLGATHERV = _form("alltoall"), _form("barrier"), _form("allgatherv")
_REDUCE_SCATTERV, _ALLTOALLV, _SEND, _RECV = _form("reduce_scatterv"), _form("alltoallv"), _form("send"), _form("recv")
_NOTHING: Call = ((), None, None, None)

_Queued = tuple[Callable[..., int], tuple[Any, ...], object, str]  # a call of a group, its arrays, and the call_name


Array = Any  # whatever hoop.arrays can read


class Comm(Handle):
    """This rank's membership in a ring.

        with hoop.Comm() as comm:
            comm.allreduce(x)

    Comm() takes rank, size and server from the environment that hooprun or another launcher sets; alone it is a ring of
    one. Keywords are settings, see hoop_env(7): Comm(rank=0, size=4, rendezvous="10.0.0.1:7000", secret=secret). It
    returns when all ranks have joined; HoopError after `bootstrap_timeout_ms`.

    Arrays are contiguous, of numpy, torch, cupy, jax or anything else with the buffer protocol, DLPack or
    __cuda_array_interface__; shapes below count elements. Element types: int8 to int64, uint8 to uint64, float16 to
    float64, bool, bfloat16, float8e4m3, float8e5m2. dtype= names the type if the array cannot: x.view(uint16) with
    dtype="bfloat16". All ranks call the same operations in the same order. TypeError and ValueError: this rank's
    arrays do not fit, and nothing was started. HoopError: everything that libhoop reports.

    Each collective blocks until this rank's result is complete, and returns the array that has it. Its `i` form
    returns a Work at once. Other threads of Python run meanwhile; any number of them may wait and call. A
    Ctrl-C in a blocking call raises KeyboardInterrupt within 0.1 s, and ends the ring: the others are told. In
    Work.wait() it does not end it, and the work goes on.

    Arrays of a GPU whose __cuda_array_interface__ names a stream, and calls with stream= (a cudaStream_t as a number),
    are ordered in that stream: the call returns at once, and the stream continues with the result.

    On leaving a `with` block by an exception the ring is aborted: the other ranks get the reason. A communicator that
    is never destroyed is destroyed when the interpreter ends.
    """

    # Guards handles and what holds them. It is one for all communicators, and its owner may take it again: a finalizer
    # runs anywhere, also inside a locked region, and frees a work of any communicator. Nothing blocks while it is held.
    _lock = threading.RLock()

    def __init__(self, **settings: Any) -> None:
        if settings.get("size") == 0:
            raise ValueError("size=0: a ring has at least one rank; without size= its size is that of the environment")
        handle = c_void_p()
        with config_of(settings) as config:
            check(block(lib.hoop_comm_create, byref(handle), config))
        self._adopt(handle.value or 0)

    def _adopt(self, handle: int) -> None:
        self._handle: int = handle
        self._rank: int = lib.hoop_comm_rank(handle)
        self._size: int = lib.hoop_comm_size(handle)
        self._held: set[object] = set()  # works that a thread waits for; or this, while a thread destroys it
        self._groups: dict[int, list[_Queued]] = {}  # the calls of each thread's open group
        self._dropped: list[tuple[Signal, object]] = []  # the arrays of works in flight that the program has dropped
        self._grouped: list[tuple[Any, object]] = []  # works in flight that were dropped in a group, and their arrays
        self._unwatched: list[Work] = []  # works with callbacks that came while a thread destroyed this
        self._error: Optional[HoopError] = None  # of destroying
        self._name = self._call_name = ""
        self._told = ""  # the last error that the program has got
        ending.note_handled()
        ending.watch_child()
        _open.add(self)

    def __repr__(self) -> str:
        return f"<hoop.Comm rank {self._rank} of {self._size}{'' if self._handle else ', destroyed'}>"

    # --- what it is ---

    @property
    def rank(self) -> int:
        """This rank, from 0."""
        return self._rank

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self._size

    @property
    def local_rank(self) -> int:
        """This rank among those of this host."""
        return int(lib.hoop_comm_local_rank(self._alive()))

    @property
    def local_size(self) -> int:
        """The number of ranks on this host."""
        return int(lib.hoop_comm_local_size(self._alive()))

    @property
    def completed(self) -> int:
        """The number of operations that this rank has completed; messages do not count."""
        return int(lib.hoop_comm_completed(self._alive()))

    @property
    def epoch(self) -> int:
        """How many shrinks and grows lie behind this communicator."""
        return int(lib.hoop_comm_epoch(self._alive()))

    @property
    def history(self) -> tuple[int, int]:
        """Of the communicator that was shrunk to this one: the operations that all, and that any, ranks had completed."""
        least, most = c_uint64(), c_uint64()
        check(lib.hoop_comm_history(self._alive(), byref(least), byref(most)), self._handle)
        return least.value, most.value

    @property
    def name(self) -> str:
        """What errors, tables and the flight recorder call this communicator, as it was set here.

        "" is no name, unless the setting `name` has given it one. It can be set at any time, to text of at most 63
        bytes in UTF-8 without control characters. This rank alone is concerned: the ranks need not give one name.
        """
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        if "\0" in name:
            raise ValueError("the name of a communicator must not contain the character 0")
        check(lib.hoop_comm_set_name(self._alive(), name.encode()), self._handle)
        self._name = name

    @property
    def call_name(self) -> str:
        """What errors, tables and the flight recorder call operations: "allreduce 1041 (gradients)"; "": no name.

        It holds for what any thread calls on this communicator from now on. It can be set at any time, before each
        call if need be, to text of at most 31 bytes in UTF-8 without control characters; at most 64 different ones.
        After a HoopError operations have none. This rank alone is concerned.
        """
        return self._call_name

    @call_name.setter
    def call_name(self, name: str) -> None:
        if "\0" in name:
            raise ValueError("the name of operations must not contain the character 0")
        text = name.encode()
        self._call_name = ""
        check(lib.hoop_comm_set_call_name(self._alive(), text), self._handle)
        self._call_name = name

    @property
    def local_address(self) -> str:
        """This rank's address on the network of the ring, without a port; "" in a ring of one."""
        text = ctypes.create_string_buffer(ADDRESS_TEXT)
        check(lib.hoop_comm_local_address(self._alive(), text, ADDRESS_TEXT), self._handle)
        return text.value.decode()

    def stats(self) -> Stats:
        """What this rank knows of its operations and waits. Any thread may ask, at any time."""
        struct = _StatsStruct(size=ctypes.sizeof(_StatsStruct))
        check(lib.hoop_comm_stats(self._alive(), byref(struct)), self._handle)
        return stats_of(struct)

    @property
    def handle(self) -> int:
        """The hoop_comm * of C, as a number."""
        return self._alive()

    # --- errors ---

    def _alive(self) -> int:
        if not self._handle:
            raise self._failure(INVALID_ARGUMENT)
        return self._handle

    def _failure(self, code: int) -> HoopError:
        """The error of a call that returned `code`, for the program."""
        if not self._handle and code == INVALID_ARGUMENT:  # it was NULL
            return HoopError(f"rank {self._rank} has destroyed this communicator already", INVALID_USAGE)
        error = error_of(code, self._handle)
        self._told = str(error)
        return error

    def _last_error(self) -> Optional[HoopError]:
        return self._error

    # --- operations ---

    def _run(self, form: _Form, call: Call, stream: Optional[int]) -> Any:
        arguments, keep, result, own_stream = call
        ending.note_handled()
        if stream is None:
            stream = own_stream
        if stream is None and self._groups and get_ident() in self._groups:
            self._groups[get_ident()].append((form[0], arguments, keep, self._call_name))
            return result
        if stream is None:
            code = block(form[0], *arguments, self._handle)
        else:
            code = form[2](*arguments, self._handle, stream)
        if code:
            raise self._failure(code)
        return result

    def _start(self, form: _Form, call: Call, receives: bool = False) -> Work:
        arguments, keep, result, stream = call
        ending.note_handled()
        if stream is not None:
            raise ValueError(
                "this array is ordered in a CUDA stream: call the form without i, which does not wait there"
            )
        work = c_void_p()
        code = form[1](*arguments, self._handle, byref(work))
        if code:
            raise self._failure(code)
        return Work(self, work.value or 0, keep, result, receives)

    # --- collectives and messages ---

    def allreduce(
        self,
        x: Array,
        op: str = "sum",
        out: Optional[Array] = None,
        *,
        dtype: Optional[str] = None,
        stream: Optional[int] = None,
    ) -> Array:
        """The reduction of x over all ranks, in place or in out (as many elements as x).

        op: sum, prod, max, min, avg; for integers and bool also band, bor, bxor.
        """
        return self._run(_ALLREDUCE, calls.allreduce(x, op, out, dtype), stream)

    def iallreduce(
        self,
        x: Array,
        op: str = "sum",
        out: Optional[Array] = None,
        *,
        dtype: Optional[str] = None,
        order: Optional[str] = None,
        wire_dtype: Optional[str] = None,
        residual: Optional[Array] = None,
    ) -> Work:
        """allreduce() that does not wait.

        order: in which order the elements of the ranks are combined: "auto", "rank" or "host"; wire_dtype: the type in
        which those of a long sum or mean of float32 travel, "float32", "bfloat16" or "e4m3"; see hoop_allreduce(3).
        None: as the setting of that name says. The same on all ranks. residual: an array of float32, of as many
        elements, zeros at first: what rounding to wire_dtype takes away is kept in it, and added at the next call.
        """
        call = calls.allreduce(x, op, out, dtype)
        if order is None and wire_dtype is None and residual is None:
            return self._start(_ALLREDUCE, call)
        options = CallOptions(ctypes.sizeof(CallOptions))
        options.order = 0 if order is None else calls.order(order)
        options.wire = 0 if wire_dtype is None else calls.wire(wire_dtype)
        if residual is not None:
            options.residual, options.residual_count, keep = calls.residual(residual)
            call = (call[0], (call[1], keep), *call[2:])

        def start(*arguments: Any) -> int:
            return int(lib.hoop_iallreduce_with(*arguments[:-1], byref(options), arguments[-1]))

        return self._start((_ALLREDUCE[0], start, _ALLREDUCE[2]), call)

    def reduce_scatter(
        self, x: Array, out: Array, op: str = "sum", *, dtype: Optional[str] = None, stream: Optional[int] = None
    ) -> Array:
        """Block `rank` of the reduction of x (size * n elements) in out (n)."""
        return self._run(_REDUCE_SCATTER, calls.reduce_scatter(self._size, x, out, op, dtype), stream)

    def ireduce_scatter(self, x: Array, out: Array, op: str = "sum", *, dtype: Optional[str] = None) -> Work:
        """reduce_scatter() that does not wait."""
        return self._start(_REDUCE_SCATTER, calls.reduce_scatter(self._size, x, out, op, dtype))

    def allgather(self, x: Array, out: Array, *, dtype: Optional[str] = None, stream: Optional[int] = None) -> Array:
        """The ranks' x (n elements each) in rank order in out (size * n)."""
        return self._run(_ALLGATHER, calls.allgather(self._size, x, out, dtype), stream)

    def iallgather(self, x: Array, out: Array, *, dtype: Optional[str] = None) -> Work:
        """allgather() that does not wait."""
        return self._start(_ALLGATHER, calls.allgather(self._size, x, out, dtype))

    def broadcast(
        self,
        x: Array,
        root: int = 0,
        out: Optional[Array] = None,
        *,
        dtype: Optional[str] = None,
        stream: Optional[int] = None,
    ) -> Array:
        """The root's x on every rank, in place or in out (as many elements as x)."""
        return self._run(_BROADCAST, calls.broadcast(self._rank, x, root, out, dtype), stream)

    def ibroadcast(self, x: Array, root: int = 0, out: Optional[Array] = None, *, dtype: Optional[str] = None) -> Work:
        """broadcast() that does not wait."""
        return self._start(_BROADCAST, calls.broadcast(self._rank, x, root, out, dtype))

    def reduce(
        self,
        x: Array,
        op: str = "sum",
        root: int = 0,
        out: Optional[Array] = None,
        *,
        dtype: Optional[str] = None,
        stream: Optional[int] = None,
    ) -> Array:
        """The reduction at the root, in place or in out (as many elements as x); other ranks get None."""
        return self._run(_REDUCE, calls.reduce(self._rank, x, op, root, out, dtype), stream)

    def ireduce(
        self, x: Array, op: str = "sum", root: int = 0, out: Optional[Array] = None, *, dtype: Optional[str] = None
    ) -> Work:
        """reduce() that does not wait."""
        return self._start(_REDUCE, calls.reduce(self._rank, x, op, root, out, dtype))

    def gather(
        self,
        x: Array,
        out: Optional[Array] = None,
        root: int = 0,
        *,
        dtype: Optional[str] = None,
        stream: Optional[int] = None,
    ) -> Array:
        """The ranks' x (n elements each) in rank order in the root's out (size * n); other ranks get None."""
        return self._run(_GATHER, calls.gather(self._size, self._rank, x, out, root, dtype), stream)

    def igather(self, x: Array, out: Optional[Array] = None, root: int = 0, *, dtype: Optional[str] = None) -> Work:
        """gather() that does not wait."""
        return self._start(_GATHER, calls.gather(self._size, self._rank, x, out, root, dtype))

    def scatter(
        self,
        x: Optional[Array],
        out: Array,
        root: int = 0,
        *,
        dtype: Optional[str] = None,
        stream: Optional[int] = None,
    ) -> Array:
        """Block `rank` of the root's x (size * n elements; None elsewhere) in out (n)."""
        return self._run(_SCATTER, calls.scatter(self._size, self._rank, x, out, root, dtype), stream)

    def iscatter(self, x: Optional[Array], out: Array, root: int = 0, *, dtype: Optional[str] = None) -> Work:
        """scatter() that does not wait."""
        return self._start(_SCATTER, calls.scatter(self._size, self._rank, x, out, root, dtype))

    def alltoall(
        self, x: Array, out: Optional[Array] = None, *, dtype: Optional[str] = None, stream: Optional[int] = None
    ) -> Array:
        """Block r of x (size * n elements) goes to rank r, in place or to block `rank` of its out."""
        return self._run(_ALLTOALL, calls.alltoall(self._size, x, out, dtype), stream)

    def ialltoall(self, x: Array, out: Optional[Array] = None, *, dtype: Optional[str] = None) -> Work:
        """alltoall() that does not wait."""
        return self._start(_ALLTOALL, calls.alltoall(self._size, x, out, dtype))

    def allgatherv(
        self,
        x: Array,
        out: Array,
        counts: Sequence[int],
        displs: Optional[Sequence[int]] = None,
        *,
        dtype: Optional[str] = None,
        stream: Optional[int] = None,
    ) -> Array:
        """allgather of blocks of different sizes: rank r has counts[r] elements, and they go to out[displs[r]:].

        displs None: one block behind the other. All ranks pass the same counts.
        """
        return self._run(_ALLGATHERV, calls.allgatherv(self._size, self._rank, x, out, counts, displs, dtype), stream)

    def iallgatherv(
        self,
        x: Array,
        out: Array,
        counts: Sequence[int],
        displs: Optional[Sequence[int]] = None,
        *,
        dtype: Optional[str] = None,
    ) -> Work:
        """allgatherv() that does not wait."""
        return self._start(_ALLGATHERV, calls.allgatherv(self._size, self._rank, x, out, counts, displs, dtype))

    def reduce_scatterv(
        self,
        x: Array,
        out: Array,
        counts: Sequence[int],
        displs: Optional[Sequence[int]] = None,
        op: str = "sum",
        *,
        dtype: Optional[str] = None,
        stream: Optional[int] = None,
    ) -> Array:
        """reduce_scatter of blocks of different sizes: rank r gets the counts[r] elements of the reduction from displs[r] on."""
        return self._run(
            _REDUCE_SCATTERV, calls.reduce_scatterv(self._size, self._rank, x, out, counts, displs, op, dtype), stream
        )

    def ireduce_scatterv(
        self,
        x: Array,
        out: Array,
        counts: Sequence[int],
        displs: Optional[Sequence[int]] = None,
        op: str = "sum",
        *,
        dtype: Optional[str] = None,
    ) -> Work:
        """reduce_scatterv() that does not wait."""
        return self._start(
            _REDUCE_SCATTERV, calls.reduce_scatterv(self._size, self._rank, x, out, counts, displs, op, dtype)
        )

    def alltoallv(
        self,
        x: Array,
        out: Array,
        sendcounts: Sequence[int],
        recvcounts: Sequence[int],
        senddispls: Optional[Sequence[int]] = None,
        recvdispls: Optional[Sequence[int]] = None,
        *,
        dtype: Optional[str] = None,
        stream: Optional[int] = None,
    ) -> Array:
        """sendcounts[r] elements from x[senddispls[r]:] go to rank r, recvcounts[r] of rank r to out[recvdispls[r]:].

        Displacements None: one block behind the other.
        """
        return self._run(
            _ALLTOALLV,
            calls.alltoallv(self._size, x, out, sendcounts, recvcounts, senddispls, recvdispls, dtype),
            stream,
        )

    def ialltoallv(
        self,
        x: Array,
        out: Array,
        sendcounts: Sequence[int],
        recvcounts: Sequence[int],
        senddispls: Optional[Sequence[int]] = None,
        recvdispls: Optional[Sequence[int]] = None,
        *,
        dtype: Optional[str] = None,
    ) -> Work:
        """alltoallv() that does not wait."""
        return self._start(
            _ALLTOALLV, calls.alltoallv(self._size, x, out, sendcounts, recvcounts, senddispls, recvdispls, dtype)
        )

    def send(
        self, x: Array, peer: int, tag: int = 0, *, dtype: Optional[str] = None, stream: Optional[int] = None
    ) -> Array:
        """Sends x to rank `peer`, whose recv with this tag (0 to 2**31 - 1) has room for them, of the same type.

        Up to 64 KiB travel ahead of their receive; a longer message is complete when it has been received.
        """
        return self._run(_SEND, calls.message(x, False, peer, tag, dtype), stream)

    def isend(self, x: Array, peer: int, tag: int = 0, *, dtype: Optional[str] = None) -> Work:
        """send() that does not wait."""
        return self._start(_SEND, calls.message(x, False, peer, tag, dtype))

    def recv(
        self,
        x: Array,
        peer: Optional[int],
        tag: int = 0,
        *,
        dtype: Optional[str] = None,
        stream: Optional[int] = None,
    ) -> Array:
        """Receives into x the oldest message of rank `peer` with this tag; None: of whatever rank, the first one read.

        A message of fewer elements fills the start of x; received() tells how many came.
        """
        return self._run(_RECV, calls.message(x, True, ANY_RANK if peer is None else peer, tag, dtype), stream)

    def irecv(self, x: Array, peer: Optional[int], tag: int = 0, *, dtype: Optional[str] = None) -> Work:
        """recv() that does not wait."""
        return self._start(_RECV, calls.message(x, True, ANY_RANK if peer is None else peer, tag, dtype), receives=True)

    @staticmethod
    def received() -> tuple[int, int]:
        """Of the last recv() of this thread: the rank that sent, and how many elements came. Not in a group, nor on a
        CUDA stream. HoopError if there was none. Work.received() tells of irecv()."""
        return received()

    def barrier(self, *, stream: Optional[int] = None) -> None:
        """Returns when all ranks have entered it."""
        self._run(_BARRIER, _NOTHING, stream)

    def ibarrier(self) -> Work:
        """barrier() that does not wait."""
        return self._start(_BARRIER, _NOTHING)

    # --- groups ---

    def group(self) -> "Group":
        """`with comm.group():` calls of this thread inside are started together, and complete when the block ends.

        Small allreduces of one type and op travel as one. Each call returns its array at once; it has the result after
        the block, or that raises what libhoop refuses in them. If the block raises an exception, the whole group is dropped.
        """
        return Group(self, waits=True)

    def igroup(self) -> "Group":
        """group() that does not wait: `with comm.igroup() as group: ...`, and then `group.work` is the Work of all."""
        return Group(self, waits=False)

    # --- life ---

    def split(self, color: int, key: int = 0) -> Optional["Comm"]:
        """All ranks call it; those of one color form a new communicator, ranked by key, then by old rank.

        A rank with a color below 0 takes no part, and gets None.
        """
        return self._derive(lib.hoop_comm_split, whole("color", color), whole("key", key))

    def shrink(self) -> "Comm":
        """After an error has ended this communicator: one of the ranks that are left, in the old order from 0.

        All of them call it. A rank that comes too late gets HoopError with HOOP_ERR_STALE_EPOCH. This communicator
        remains to be destroyed; hoop_comm_create(3) has the rules.
        """
        comm = self._derive(lib.hoop_comm_shrink)
        assert comm
        return comm

    def grow(self) -> "Comm":
        """All ranks call it: a communicator with those that wait (HOOP_JOIN=1) as its last ranks; this one if none does.

        Else this communicator remains to be destroyed; hoop_comm_create(3) has the rules.
        """
        comm = self._derive(lib.hoop_comm_grow)
        assert comm
        return comm

    def _derive(self, function: Callable[..., int], *arguments: int) -> Optional["Comm"]:
        handle = c_void_p()
        code = block(function, self._handle, *arguments, byref(handle))
        if code:
            raise self._failure(code)
        if not handle.value or handle.value == self._handle:
            return self if handle.value else None
        comm = Comm.__new__(Comm)
        comm._adopt(handle.value)
        return comm

    def set_timeout(self, seconds: float) -> None:
        """The time without progress after which this rank's operations fail, `op_timeout_ms`; 0: no limit."""
        if not 0 <= seconds <= 86400:
            raise ValueError(f"a time-out of {seconds} s: give 0 to 86400 seconds; 0: no limit")
        check(lib.hoop_comm_set_timeout(self._alive(), round(1000 * seconds)), self._handle)

    def abort(self, why: Optional[str] = None) -> None:
        """Ends every operation on every rank with HOOP_ERR_ABORTED and this reason. Any thread may call it."""
        check(lib.hoop_comm_abort(self._alive(), ending.encoded(str(why)) if why else None), self._handle)

    def destroy(self) -> None:
        """Leaves the ring, after the works in flight; other ranks need not call it at the same time. Twice is fine.

        HoopError if the communicator has failed; with code HOOP_ERR_BUSY, and nothing is destroyed, if another thread
        is in a blocking call or a wait on it. In a `finally` behind an exception of the program it aborts the ring, as
        the end of a `with` block does; one that the program was already handling at its last call does not count.
        """
        error = ending.in_flight() or ending.uncaught()
        why = "" if isinstance(error, HoopError) else ending.told(self._rank, error)
        if why and self._handle:
            self._abandon(why)
        else:
            self._leave()

    def _leave(self) -> None:
        with self._lock:
            if not self._handle:
                return
            if self._held:
                raise HoopError("another thread waits for an operation of this communicator, or destroys it", BUSY)
            self._held.add(self)
            handle, self._handle = self._handle, 0
        code = lib.hoop_comm_destroy(handle)
        interrupted = interrupt.take()
        refused = code in (BUSY, FORKED, INVALID_USAGE)
        error = error_of(code, handle if refused else None) if code else None
        dropped: list[tuple[Signal, object]] = []  # freed outside the locked region: finalizers may be the program's
        grouped: list[tuple[Any, object]] = []
        with self._lock:
            if refused:
                self._handle = handle
            else:
                self._error = error
                dropped, self._dropped = self._dropped, dropped
                grouped, self._grouped = self._grouped, grouped
            self._held.discard(self)
            unwatched, self._unwatched = self._unwatched, []
        dropped.clear()
        grouped.clear()
        for work in unwatched:
            work._attend_later()
        if refused and error:
            raise error
        _open.discard(self)
        if interrupted is not None:
            raise interrupted
        if error:
            raise error

    def __enter__(self) -> "Comm":
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        where: Optional[TracebackType],
    ) -> None:
        why = ending.told(self._rank, error)
        if why:
            self._abandon(why)
        else:
            self._leave()

    def _abandon(self, why: str) -> None:
        """The program ends by an error, which says more than those of leaving."""
        try:
            self.abort(why)
            self._leave()
        except HoopError:
            pass

    # --- an event loop of the program's own ---

    def fileno(self) -> int:
        """A descriptor that is readable when progress() has something to do; from now on the program must call that.

        asyncio needs none of this: `await` a Work.
        """
        return int(lib.hoop_comm_fd(self._alive()))

    def progress(self) -> None:
        """Moves what can move, without blocking."""
        check(lib.hoop_comm_progress(self._alive()), self._handle)

    def fd_close(self) -> None:
        """Closes the descriptor of fileno(); the library's own thread drives again."""
        check(lib.hoop_comm_fd_close(self._alive()), self._handle)

    # --- works that the program has dropped ---

    def _let_go(self, handle: Any, keep: object) -> None:
        """Frees a work. keep: its arrays, which the operation still uses; None if it has ended."""
        with self._lock:
            if not self._handle and self not in self._held:
                return
            if keep is not None:
                entry = Signal(-1, IN_PROGRESS), keep
                self._dropped.append(entry)
            if not self._handle:  # a thread destroys the communicator, with its works; it drops the arrays afterwards
                return
            if keep is not None and lib.hoop_work_on_done(handle, DONE, ctypes.addressof(entry[0])) == INVALID_USAGE:
                self._dropped.remove(entry)  # this thread is in a group, whose end frees it
                self._grouped.append((handle, keep))
                return
            lib.hoop_work_free(handle)
            dropped = self._dropped
            if len(dropped) & 15 == 0:
                self._dropped = [entry for entry in dropped if entry[0].result == IN_PROGRESS]


    def _let_grouped_go(self) -> None:
        with self._lock:
            grouped, self._grouped = self._grouped, []
        for handle, keep in grouped:
            self._let_go(handle, keep)


class Group:
    """Calls that are started together; made by Comm.group() and Comm.igroup()."""

    def __init__(self, comm: Comm, waits: bool) -> None:
        self._comm, self._waits = comm, waits
        self.work: Optional[Work] = None

    def __enter__(self) -> "Group":
        code = lib.hoop_group_start(self._comm._handle)
        if code:
            raise self._comm._failure(code)
        self._comm._groups[get_ident()] = []
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        where: Optional[TracebackType],
    ) -> None:
        calls = self._comm._groups.pop(get_ident(), [])
        try:
            self._close(calls, error)
        finally:
            self._comm._let_grouped_go()

    def _close(self, calls: list[_Queued], error: Optional[BaseException]) -> None:
        if error is not None:  # libhoop has got none of the calls, so it has nothing to refuse, and nobody is told of it
            lib.hoop_group_end(self._comm._handle)
            return
        keep, work = [arrays for _, _, arrays, _ in calls], c_void_p()
        try:
            code = self._start(calls, work)
        except BaseException as interrupt:
            self._give_up(interrupt, keep, work)
            raise
        if self._waits and not code:
            code = wait_whole(work.value or 0, self._comm._handle, self._comm._rank)
        if code:
            raise self._comm._failure(code)
        if not self._waits:
            self.work = Work(self._comm, work.value or 0, keep, None)

    def _start(self, calls: list[_Queued], work: c_void_p) -> int:
        handle, name = self._comm._handle, self._comm._call_name
        for function, arguments, _, call_name in calls:
            if call_name != name:
                name = call_name
                lib.hoop_comm_set_call_name(handle, name.encode())
            function(*arguments, handle)  # an error is kept, and the end of the group returns it
        if name != self._comm._call_name:
            lib.hoop_comm_set_call_name(handle, self._comm._call_name.encode())
        return int(lib.hoop_igroup_end(handle, byref(work)))

    def _give_up(self, interrupt: BaseException, keep: object, work: c_void_p) -> None:
        """A signal's handler has raised this in the start of the group: the ring is over, as in a blocking call."""
        why = ending.interrupted(self._comm._rank, interrupt)
        lib.hoop_comm_abort(self._comm._handle, ending.encoded(why))
        if not work.value:
            lib.hoop_igroup_end(self._comm._handle, byref(work))
        Work(self._comm, work.value or 0, keep, None)  # dropped, it keeps the arrays until it has ended


# --- the end of the interpreter, and forks ---------------------------------------------------------------------------

_open: set[Comm] = set()


def _leave_all(error: Optional[BaseException]) -> None:
    """Destroys what the program has not, as libhoop may still use arrays that the interpreter is about to free."""
    for comm in list(_open):
        why = ending.told(comm._rank, error)
        if why:
            comm._abandon(why)
            continue
        try:
            comm._leave()
        except HoopError as why:
            if str(why) != comm._told:
                print(f"hoop: {why}", file=sys.stderr)


def _forget() -> None:
    """In the child of a fork: the threads that held works are the parent's."""
    for comm in _open:
        comm._held.clear()
    _open.clear()


ending.at_end(_leave_all)
os.register_at_fork(before=Comm._lock.acquire, after_in_parent=Comm._lock.release, after_in_child=Comm._lock.release)
os.register_at_fork(after_in_child=_forget)
