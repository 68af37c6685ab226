# SPDX-License-Identifier: MIT
"""An operation in flight."""

import asyncio
import ctypes
import sys
import time
from collections import deque
from contextlib import ExitStack
from ctypes import c_void_p
from typing import TYPE_CHECKING, Any, Callable, Generator, Iterable, Optional

from . import bell, ending
from ._library import BUSY, FORKED, IN_PROGRESS, INVALID_USAGE, lib
from .errors import HoopError, error_of
from .handle import Handle
from .interrupt import raise_it

if TYPE_CHECKING:
    from .comm import Comm

LONGEST_MS = 2**31 - 1  # the most that C's int holds, 24 days
SLICE_MS = 100  # the interpreter looks for signals, such as that of Ctrl-C, between two waits of this length


def milliseconds(seconds: float) -> int:
    """As C's int: negative ones are 0, and what is too long is the most that it holds."""
    return round(min(max(1000 * seconds, 0), LONGEST_MS))


def deadline_in(seconds: Optional[float]) -> Optional[float]:
    """The time in so many seconds, of time.monotonic; None: without limit, as what no program lives to see."""
    return None if seconds is None or 1000 * seconds > LONGEST_MS else time.monotonic() + seconds


class Waited:
    """Works of which wait() frees the first that has ended. The exception of a signal may strike just after that, and
    take the result along: freed() and code() tell nevertheless."""

    __slots__ = ("places", "_found", "_code")

    def __init__(self, *handles: Optional[int]) -> None:
        self.places, self._found, self._code = (c_void_p * len(handles))(*handles), ctypes.c_size_t(), IN_PROGRESS

    def freed(self) -> int:
        """The index of the work that was freed; -1: none."""
        index = self._found.value
        return -1 if index >= len(self.places) or self.places[index] else index

    def over(self) -> bool:
        """A work was freed. A call that was refused, as in a group, has ended none."""
        return self.freed() >= 0

    def forked(self) -> bool:
        """The call was refused, as this process is the child of a fork."""
        return self._code == FORKED and not self.over()

    def check(self) -> None:
        """Raises HoopError if the call was refused: the works go on."""
        if self._code != IN_PROGRESS and not self.over():
            raise error_of(self._code)

    def wait(self, ms: int) -> int:
        self._code = lib.hoop_wait_any(self.places, len(self.places), ms, ctypes.byref(self._found))
        return self._code

    def wait_until(self, deadline: Optional[float]) -> int:
        """wait() until the deadline (seconds of time.monotonic; None: without limit), open to signals of Python."""
        if deadline is None:
            while self.wait(SLICE_MS) == IN_PROGRESS:
                pass
            return self._code
        while True:
            left = milliseconds(deadline - time.monotonic())
            if self.wait(min(left, SLICE_MS)) != IN_PROGRESS or left <= SLICE_MS:
                return self._code

    def code(self, comm: int) -> int:
        """The result of the work that was freed; if that is lost, the error of its communicator, or success."""
        return kept(comm) if self._code == IN_PROGRESS else self._code


def kept(comm: int) -> int:
    """The error by which a communicator has ended, as every call on it returns it; 0: none."""
    return int(lib.hoop_comm_progress(comm))


def wait_whole(handle: int, comm: int, rank: int) -> int:
    """hoop_work_wait without limit. An exception of a signal handler, as Ctrl-C's, ends the ring: the operation is half
    done, and the others are told."""
    waited = Waited(handle)
    try:
        return waited.wait_until(None)
    except BaseException as error:
        if waited.places[0]:
            lib.hoop_comm_abort(comm, ending.encoded(ending.interrupted(rank, error)))
            lib.hoop_work_free(waited.places[0])
        raise


def block(function: Callable[..., int], *arguments: Any) -> int:
    """A blocking call of libhoop: its result, or the exception of a signal's handler by which it was interrupted."""
    code = function(*arguments)
    raise_it()
    return code


def received(handle: Optional[int] = None) -> tuple[int, int]:
    """(rank, elements) of what a receive got: a work's that has ended; None: the last of this thread. HoopError if there
    is none."""
    peer, count = ctypes.c_int(), ctypes.c_size_t()
    places = ctypes.byref(peer), ctypes.byref(count)
    code = lib.hoop_work_received(handle, *places) if handle else lib.hoop_received(*places)
    if code:
        raise error_of(code)
    return peer.value, count.value


class _Hold:
    """The right to touch the handle of a work: one thread's, and nobody's while a thread destroys the communicator."""

    __slots__ = ("_work",)

    def __init__(self, work: "Work") -> None:
        self._work = work

    def __enter__(self) -> None:
        comm = self._work._comm
        with comm._lock:
            if self._work in comm._held or comm in comm._held:
                raise _busy()
            comm._held.add(self._work)

    def __exit__(self, *error: object) -> None:
        with self._work._comm._lock:
            self._work._comm._held.discard(self._work)
        self._work._attend_later()


def _busy() -> HoopError:
    return HoopError("another thread waits for this operation, or destroys its communicator", BUSY)


class Work(Handle):
    """An operation that a method with an `i` in front has started. Its arrays are in use until it has ended.

    wait() or `await work` give the call's result, the array. A work that the program drops goes on, and its arrays are
    kept until then. All methods raise HoopError if the operation has failed.
    """

    __slots__ = (
        *("_comm", "_handle", "_keep", "_result", "_code", "_error", "_bell", "_rang", "_callbacks"),
        *("_receives", "_received", "__weakref__"),
    )

    def __init__(self, comm: "Comm", handle: int, keep: object, result: Any, receives: bool = False) -> None:
        self._comm, self._handle, self._keep, self._result = comm, handle, keep, result
        self._receives = receives
        self._received: Optional[tuple[int, int]] = None
        self._code: Optional[int] = None
        self._error: Optional[HoopError] = None
        self._bell: Optional[bell.Bell] = None  # which is rung at the end
        self._rang: Optional[int] = None  # the result, as the bell's sweep has it
        self._callbacks: deque[Callable[["Work"], object]] = deque()

    def __repr__(self) -> str:
        state = "in progress" if self._code is None else "failed" if self._code else "complete"
        return f"<hoop.Work of rank {self._comm.rank}, {state}>"

    def __del__(self) -> None:
        if self._handle:
            self._comm._let_go(self._handle, self._keep if self._code is None else None)

    # --- its end ---

    def _end(self, code: int) -> None:
        """The operation has ended; the handle is freed by a wait, or with this object. Who calls this has _Hold, or the
        lock while no thread has _Hold."""
        if self._code is None:
            self._error = self._comm._failure(code) if code else None
            if self._receives and not code and (self._comm._handle or not self._handle):  # else it is being destroyed
                self._received = received(self._handle or None)  # without a handle: a wait was this thread's last
            self._code, self._keep = code, None

    def received(self) -> tuple[int, int]:
        """Of irecv() that has ended: the rank that sent, and how many elements came. ValueError for any other work."""
        if self._received is None:
            raise ValueError(f"{self!r} is no receive, or has not ended well")
        return self._received

    def _value(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._result

    def _ended(self) -> bool:
        """Has it ended, as far as Python knows? A communicator that was destroyed has no work in flight."""
        if self._code is None and not self._comm._handle:
            keep = self._keep  # freed outside the lock
            with self._comm._lock:
                if self._code is None and not self._comm._handle and self._comm not in self._comm._held:
                    self._handle = 0
                    self._error = self._comm._last_error()
                    self._code, self._keep = (self._error.code if self._error else 0), None
            del keep
        return self._code is not None

    def wait(self, timeout: Optional[float] = None) -> Any:
        """The call's result, when the operation has ended. timeout: seconds; then TimeoutError, and the work goes on.

        Threads may wait for different works at the same time; a second one that waits for the same work gets HoopError
        with code HOOP_ERR_BUSY.
        """
        if not self._ended():
            deadline = deadline_in(timeout)
            with _Hold(self):
                if not self._ended():
                    self._wait_until(deadline)
        if self._code is None:
            raise TimeoutError(f"{self!r} has not ended within {timeout} s")
        return self._value()

    def wait_or_fail(self, timeout: float) -> Any:
        """wait() with a limit that counts for all ranks: after `timeout` seconds, at most 24 days, the operation fails on
        every rank.

        The error, HOOP_ERR_TIMEOUT, names the rank that holds it up. The communicator has failed then.
        """
        ms = milliseconds(timeout)
        if not self._ended():
            with _Hold(self):
                if not self._ended():
                    self._wait_or_fail(ms)
        return self._value()

    def _wait_until(self, deadline: Optional[float]) -> None:
        waited = Waited(self._handle)
        try:
            waited.wait_until(deadline)
        finally:  # also after the exception of a signal
            if waited.over():
                self._handle = 0
                self._end(waited.code(self._comm._handle))
        waited.check()

    def _look(self) -> tuple[int, bool]:
        """hoop_work_test: its result, and whether the work has ended. HoopError if it is refused: nothing is known then."""
        done = ctypes.c_int()
        code = lib.hoop_work_test(self._handle, ctypes.byref(done))
        if code and not done.value:
            raise error_of(code)
        return code, bool(done.value)

    def _wait_or_fail(self, ms: int) -> None:
        self._look()  # refused where the wait would be; that frees the work otherwise, whatever its result is
        code = IN_PROGRESS
        try:
            code = block(lib.hoop_work_wait_or_fail, self._handle, ms)
        finally:  # the handle is gone, also after the exception of a signal
            self._handle = 0
            self._end(kept(self._comm._handle) if code == IN_PROGRESS else code)

    def test(self) -> bool:
        """Has the operation ended? Makes some progress, never blocks."""
        if not self._ended():
            with _Hold(self):
                code, done = (0, False) if self._ended() else self._look()
                if done:
                    self._end(code)
        if self._error is not None:
            raise self._error
        return self._code is not None

    # --- tell when it has ended ---

    def _rung(self, code: int) -> None:
        """A sweep of the bell has found the end."""
        self._rang = code
        self._attend()

    def _call_back(self) -> None:
        while self._callbacks:
            try:
                self._callbacks.popleft()(self)
            except IndexError:  # another thread was faster
                return
            except BaseException:
                sys.excepthook(*sys.exc_info())

    def _attend(self, ring: Optional[bell.Bell] = None) -> None:
        """Calls the callbacks if the work has ended; else the bell watches it, unless one does already.

        While a thread has _Hold, nobody else may touch the handle: that thread comes here when it lets go. While a thread
        destroys the communicator, that one does so at its end.
        """
        comm, keep = self._comm, self._keep  # freed outside the lock
        with comm._lock:
            if not self._ended():
                if self in comm._held:
                    return
                if self._rang is None:
                    if not comm._handle:
                        comm._unwatched.append(self)
                    elif ring and not self._bell:
                        ring.watch(self._handle, comm._handle, self._rung)
                        self._bell = ring
                    return
                self._end(self._rang)
        del keep
        self._call_back()

    def _attend_later(self) -> None:
        """A thread has let go of the work. Callbacks that came meanwhile are not its own: no error of theirs is raised."""
        if self._rang is None and (self._bell or not self._callbacks):  # a sweep is still to come, or nobody is to be called
            return
        ring = None
        try:
            ring = None if self._bell or self._ended() else bell.of_thread()
            self._attend(ring)
        except HoopError as error:
            if ring and error.code == INVALID_USAGE:  # this thread is in a group
                ring.call(lambda: self._attend(ring))
        except RuntimeError:  # no thread can be started
            sys.excepthook(*sys.exc_info())

    def _on_end(self, callback: Callable[["Work"], object], ring: bell.Bell) -> None:
        """Calls callback(self) when the work has ended: in a sweep of the bell, or now."""
        with self._comm._lock:
            if not self._ended() and self._comm in self._comm._held:
                raise _busy()
            self._callbacks.append(callback)
            other = self._bell
        try:
            if other and not other.is_ours() and not self._ended():
                raise error_of(kept(self._comm._handle))
            if other and other is not ring:  # its loop may be closed, now or soon
                bell.of_thread(adopts=other)
            self._attend(ring)
            faster = self._bell
            if faster and faster not in (other, ring):  # another thread has come meanwhile
                bell.of_thread(adopts=faster)
        except BaseException:
            if callback in self._callbacks:
                self._callbacks.remove(callback)
            raise

    def add_done_callback(self, callback: Callable[["Work"], object]) -> None:
        """Calls callback(work) once when the operation has ended: on a thread of this package, at once if it has ended
        already, or on a thread that is in a wait for the work at the moment.

        The callback must not block. It may start operations; it raises to no one: an exception is printed.
        """
        self._on_end(callback, bell.of_thread())

    def __await__(self) -> Generator[Any, None, Any]:
        if not self._ended():
            loop = asyncio.get_running_loop()
            ended = loop.create_future()
            self._on_end(lambda work: _tell(loop, ended), bell.of_loop(loop))
            yield from ended
        return self._value()


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _tell(loop: asyncio.AbstractEventLoop, future: "asyncio.Future[None]") -> None:
    """Resolves the loop's future; if another thread calls it, the loop must be woken."""
    if asyncio._get_running_loop() is loop:
        _resolve(future)
        return
    try:
        loop.call_soon_threadsafe(_resolve, future)
    except RuntimeError:
        if not loop.is_closed():  # then nobody awaits it any more
            raise


# --- several -------------------------------------------------------------------------------------------------------


def wait_all(works: Iterable[Work]) -> list[Any]:
    """The results of all works, when all have ended; after that the first error is raised, if there is one."""
    results, first = [], None
    for work in works:
        try:
            results.append(work.wait())
        except HoopError as error:
            first = first or error
    if first is not None:
        raise first
    return results


def wait_any(works: Iterable[Work], timeout: Optional[float] = None) -> int:
    """The index of a work that has ended, also by an error, which its wait() raises. The works may be of several
    communicators. timeout: seconds; then TimeoutError. ValueError if there is no work."""
    listed = list(works)  # an iterator can be read once
    if not listed:
        raise ValueError("wait_any of no works would never end")
    deadline = deadline_in(timeout)
    with ExitStack() as stack:
        for work in {work for work in listed if not work._ended()}:
            stack.enter_context(_Hold(work))
        for index, work in enumerate(listed):
            if work._ended():
                return index
        waited = Waited(*[work._handle for work in listed])
        try:
            waited.wait_until(deadline)
        finally:
            index = waited.freed()
            if index >= 0:
                listed[index]._handle = 0
                listed[index]._end(waited.code(listed[index]._comm._handle))
        waited.check()
    if index < 0:
        raise TimeoutError(f"none of {len(listed)} works has ended within {timeout} s")
    return index
