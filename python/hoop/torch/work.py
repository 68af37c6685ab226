# SPDX-License-Identifier: MIT
"""torch's Work over a work of libhoop.

Who waits drives: wait() is a wait in libhoop. Where a future is wanted, the handle is the watcher's from then on, and
wait() waits for the watcher; a thread of its own completes the future.

PyTorch 2.14 and later hand the program a Work of C++ that forwards wait() and get_future() only. forward_questions() lets
its other methods find the work behind it, by get_future().
"""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any, Callable, Optional

import torch
from torch import Tensor
from torch._C._distributed_c10d import Work as _TorchWork
from torch.distributed import DistBackendError
from torch.futures import Future

from .._library import lib
from ..ending import Pending, encoded, interrupted
from ..work import Waited, block, received, wait_whole
from . import futures as _  # waits for futures heed Ctrl-C
from . import hooks
from .errors import failure
from .watcher import PATIENCE, lanes, watch

_NO_LIMIT = -1


def milliseconds(limit: Optional[timedelta]) -> int:
    """A limit as libhoop wants it; torch's none, 0, negative ones and more than a day: -1, no limit but the communicator's own."""
    if limit is None or limit <= timedelta(0) or limit > timedelta(days=1):
        return _NO_LIMIT
    return max(1, int(limit / timedelta(milliseconds=1)))


# Before 2.7, torch keeps only the C++ half of a Work that Python made, and calls wait() or get_future() later.
_PINS = tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 7)
_pinned: set[Any] = set()

_question = threading.local()  # .open: this thread looks for the work behind one of C++; .found: that work
ANSWER: Any = Future()
ANSWER.set_result(None)


def answers(work: Any) -> bool:
    """For get_future() of a class of this package: True if it was called to find the work, and ANSWER is enough."""
    if not getattr(_question, "open", False):
        return False
    _question.found = work
    return True


def _behind(work: Any) -> Any:
    """This package's work behind a Work of torch's; None: there is none, or it is that work itself."""
    _question.open, _question.found = True, None
    try:
        work.get_future()
    except Exception:  # other backends have works without a future
        return None
    finally:
        _question.open = False
    return None if _question.found is work else _question.found


def _forwarded(name: str) -> Callable[[Any], Any]:
    plain = getattr(_TorchWork, name)

    def method(self: Any) -> Any:
        work = _behind(self)
        return plain(self) if work is None else getattr(work, name)()

    method.__name__, method.__doc__ = name, plain.__doc__
    return method


def forward_questions() -> None:
    """Lets torch's own class of works ask those of this package; works of other backends are as before."""
    for name in "is_completed is_success exception result source_rank _source_rank".split():
        if hasattr(_TorchWork, name) and not hasattr(getattr(_TorchWork, name), "of_hoop"):
            method: Any = _forwarded(name)
            method.of_hoop = True
            setattr(_TorchWork, name, method)


class Threads(set[int]):
    """The threads that are in a `with` of it."""

    def __enter__(self) -> None:
        self.add(threading.get_ident())

    def __exit__(self, *_: object) -> None:
        self.discard(threading.get_ident())

    def has_this(self) -> bool:
        """In a signal's handler: whether it has come while its thread was in there. That goes on after it, not before."""
        return threading.get_ident() in self


def _flat_result(tensors: Any) -> Any:
    """torch's result of a call with a list of lists is the first of these."""
    return tensors[0] if tensors and isinstance(tensors[0], list) else tensors


def _nothing(work: Any) -> None:
    pass


class Done(_TorchWork):
    """An operation that has ended well before it was returned."""

    pending: Pending = ("collective", "")
    within = Threads()

    def __init__(self, tensors: Any = None) -> None:
        super().__init__()
        self._tensors = [] if tensors is None else tensors

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        return True

    def settle(self, limit: int) -> None:
        pass

    def attend(self) -> None:
        pass

    def is_completed(self) -> bool:
        return True

    def ends_within(self, limit: int) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def exception(self) -> None:
        return None

    def synchronize(self) -> None:
        pass

    def result(self) -> Any:
        return _flat_result(self._tensors)

    def get_future(self) -> Any:
        if answers(self):
            return ANSWER
        future: Any = Future()
        future.set_result(self._tensors)
        return future


class HoopWork(_TorchWork):
    """An operation in progress.

    `keep` are the tensors that must live until it has ended, `result` is what its future gets, `finish` what remains to
    be done then, `limit` the milliseconds of a wait without a limit of its own, and `explain` makes the exception. `over` is
    called once it has ended, and `pending` says meanwhile what it is (hoop.ending).
    """

    def __init__(
        self,
        handle: int,
        comm: int,
        rank: int,
        keep: list[Tensor],
        result: Any,
        finish: Optional[Callable[[], None]],
        limit: int = _NO_LIMIT,
        explain: Callable[[int, int, Any], Exception] = failure,
        over: Callable[[Any], None] = _nothing,
        pending: Pending = ("collective", ""),
    ) -> None:
        super().__init__()
        self._handle: Optional[int] = handle
        self._comm, self._rank, self._keep, self._result, self._finish = comm, rank, keep, result, finish
        self._limit, self._explain, self._over = limit, explain, over
        self.pending, self.sender = pending, -1  # sender: of a receive that has ended
        self._error: Optional[Exception] = None
        self._has_ended = False  # only then its outputs are there, or its error
        self.within = Threads()  # that wait for it, look whether it has ended, or end it
        self._source: Any = None  # completed when the operation has ended; the future, which the program has, follows it
        self._future: Any = None
        self._filled: Optional[threading.Event] = None  # set once the future is completed
        self._lane = 0
        self._fills = False  # somebody completes the future, or has
        self._asking = threading.Lock()  # held while the future is made
        self._ended: Optional[threading.Event] = None  # once the watcher has the handle
        self._lock = threading.Lock()  # held by the one who waits, or changes the owner of the handle
        if _PINS:
            _pinned.add(self)

    def _end(self, code: int) -> None:
        """The handle is gone, and libhoop has returned `code` for it to this thread."""
        self._handle = None
        try:
            if code:
                self._error = self._explain(code, self._comm, self._result)
                return
            if self.pending[0] == "recv":  # this thread's last
                self.sender = received()[0]
            if self._finish:
                self._finish()
        except Exception as why:
            self._error = why
        except BaseException as interrupt:  # of a signal: the outputs are not whole
            self._error = DistBackendError(interrupted(self._rank, interrupt))
            raise
        finally:
            try:
                self._let_go()
            finally:
                self._has_ended = True

    def _let_go(self) -> None:
        """The operation needs nothing any more, and this work no longer knows its group."""
        self._keep, self._finish, self._explain = [], None, failure
        self._over(self)
        self._over = _nothing

    def _fill_future(self) -> None:
        _pinned.discard(self)
        assert self._filled
        self._source.set_result(None)
        self._filled.set()

    def _serve_future(self, fill: Callable[[], None]) -> None:
        """For who wants a future, and after each hold of the lock: who wanted one meanwhile has not waited for that."""
        if self._future is None or self._fills or not self._lock.acquire(blocking=False):
            return
        try:
            self._give_to_watcher()
            fills = self._fills = self._handle is None
        finally:
            self._lock.release()
        if fills:
            fill()

    def _release(self) -> None:
        self._lock.release()
        self._serve_future(self._fill_later)

    def _fill_later(self) -> None:
        lanes.run(self._lane, self._fill_future)

    def _outcome(self, _: Any) -> Any:
        """What the future gets. It raises here, since torch's C++ takes what Future.set_exception stores for a value."""
        if self._error:
            raise self._error
        return self._result

    def _watched_end(self) -> None:
        self._lock.acquire()
        try:
            assert self._handle and self._ended
            self._end(lib.hoop_work_wait(self._handle, _NO_LIMIT))
            self._ended.set()
        finally:
            self._release()

    def _give_to_watcher(self) -> None:
        if self._ended or not self._handle:
            return
        watch(self._handle, self._comm, self._watched_end)  # that waits for the lock, which this thread has
        self._ended = threading.Event()

    def attend(self) -> None:
        """Its end is seen from now on also if nobody waits for it."""
        if self._lock.acquire(blocking=False):  # else a thread waits, and sees it
            try:
                self._give_to_watcher()
            finally:
                self._release()

    def _expire(self, limit: int) -> None:
        why = f"the timeout expired: a wait for an operation lasted {limit} ms, its limit"
        lib.hoop_comm_abort(self._comm, encoded(why))

    def _wait_for_watcher(self, limit: int) -> None:
        assert self._ended
        try:
            ended = self._ended.wait(None if limit < 0 else limit / 1000)
        except BaseException as interrupt:
            lib.hoop_comm_abort(self._comm, encoded(interrupted(self._rank, interrupt)))
            raise
        if not ended:
            self._expire(limit)
            self._ended.wait()

    def _wait_in_libhoop(self, limit: int) -> int:
        """Without a limit of its own the wait is open to signals, such as that of Ctrl-C, which ends the group."""
        try:
            if limit >= 0:
                return block(lib.hoop_work_wait_or_fail, self._handle, limit)
            return wait_whole(self._handle or 0, self._comm, self._rank)
        except BaseException as interrupt:  # the handle is gone in either case
            self._handle = None
            self._error = DistBackendError(interrupted(self._rank, interrupt))
            self._let_go()
            self._has_ended = True
            raise

    def settle(self, limit: int) -> None:
        """Returns when the operation has ended."""
        hooks.refuse("a wait")
        if self.within.has_this():
            raise RuntimeError("this thread waits for the operation already: a signal's handler cannot wait for it, too")
        with self.within:
            if not self._lock.acquire(timeout=limit / 1000 if limit >= 0 else -1):  # another thread waits
                self._expire(limit)
                self._lock.acquire()
            try:
                if self._handle and not self._ended:
                    self._end(self._wait_in_libhoop(limit))
            finally:
                self._release()
            if self._ended:
                self._wait_for_watcher(limit)

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        limit = milliseconds(timeout)
        self.settle(self._limit if limit < 0 else limit)
        _pinned.discard(self)
        if self._filled and lanes.here() < 0:
            self._filled.wait(PATIENCE)  # as with gloo: what follows the future has run, unless that waits itself
        if self._error:
            raise self._error
        return True

    def is_completed(self) -> bool:
        return self.ends_within(0)

    def ends_within(self, limit: int) -> bool:
        """Waits for some milliseconds. True: the operation has ended."""
        if self._has_ended or self.within.has_this():
            return self._has_ended
        with self.within:
            if self._ended:
                self._ended.wait(limit / 1000)
            elif self._lock.acquire(timeout=limit / 1000):
                try:
                    if self._handle and not self._ended:
                        self._look(limit)
                finally:
                    self._release()
        return self._has_ended

    def _look(self, limit: int) -> None:
        waited = Waited(self._handle)
        try:
            waited.wait(limit)
        finally:  # also after the exception of a signal
            if waited.over() or waited.forked():  # in the child of a fork nothing uses the tensors
                self._end(waited.code(self._comm))
        if not waited.forked():
            waited.check()

    def is_success(self) -> bool:
        return self.is_completed() and self._error is None

    def exception(self) -> Optional[Exception]:
        return self._error

    def synchronize(self) -> None:
        self.wait()

    def result(self) -> Any:
        """The tensors of the call, which must have ended; RuntimeError before that, its error if it has failed."""
        if not self.is_completed():
            raise RuntimeError("the operation has not ended: call wait(), or poll is_completed(), before result()")
        if self._error:
            raise self._error
        return _flat_result(self._result)

    def source_rank(self) -> int:
        return self.sender

    _source_rank = source_rank

    def get_future(self) -> Any:
        if answers(self):
            return ANSWER
        with self._asking:
            if self._future is None:
                self._lane, self._source, self._filled = lanes.open(), Future(), threading.Event()
                self._future = self._source.then(self._outcome)
        self._serve_future(self._fill_future)
        return self._future
