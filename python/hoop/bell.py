# SPDX-License-Identifier: MIT
"""How the end of an operation reaches Python: libhoop writes to an eventfd, and never runs Python's code.

A function of Python on a thread of the library would wait there for the interpreter's lock, and the communicator with
it. So hoop_signal_done rings a bell, an eventfd, and Python looks which of the operations that ring it have ended. An
event loop of asyncio watches its own bell; a thread that sleeps on another one serves add_done_callback. That thread adopts
a loop's bell when others than the loop want to know of an end, as the loop may be closed before it sweeps.
"""

import asyncio
import atexit
import ctypes
import os
import select
import sys
import threading
from collections import deque
from ctypes import c_void_p
from typing import Callable, Optional
from weakref import WeakKeyDictionary

from ._library import IN_PROGRESS, Signal, lib
from .errors import check

DONE = ctypes.cast(lib.hoop_signal_done, c_void_p)

Listener = Callable[[int], None]  # gets the operation's result


class Bell:
    """An eventfd, and the operations that ring it."""

    def __init__(self) -> None:
        self.fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._waited: list[tuple[Signal, Listener]] = []
        self._calls: deque[Callable[[], None]] = deque()
        self._process = os.getpid()

    def watch(self, handle: int, comm: int, listener: Listener) -> None:
        """Calls listener(result) in a later sweep(), when the work `handle` has ended."""
        signal = Signal(self.fd, IN_PROGRESS)
        entry = signal, listener
        self._waited.append(entry)
        try:
            check(lib.hoop_work_on_done(handle, DONE, ctypes.addressof(signal)), comm)
        except BaseException:
            self._waited.remove(entry)
            raise

    def call(self, function: Callable[[], None]) -> None:
        """Calls the function in a later sweep()."""
        self._calls.append(function)
        os.eventfd_write(self.fd, 1)

    def sweep(self) -> None:
        """Reads the eventfd, and calls the listeners of what has ended, in the order in which they came.

        It looks from the last to the first: what ends meanwhile may be missed before what has ended, never behind it. Two
        threads may sweep at the same time.
        """
        try:
            os.eventfd_read(self.fd)
        except BlockingIOError:
            pass
        ended = [entry for entry in reversed(list(self._waited)) if entry[0].result != IN_PROGRESS]
        for entry in reversed(ended):
            try:
                self._waited.remove(entry)
            except ValueError:  # another thread was faster
                continue
            entry[1](entry[0].result)
        while self._calls:
            try:
                self._calls.popleft()()
            except BaseException:
                sys.excepthook(*sys.exc_info())

    def is_ours(self) -> bool:
        """It was made by this process, and not by one that this one was forked from."""
        return self._process == os.getpid()

    def is_awaited(self) -> bool:
        """Operations that ring it have not been swept yet."""
        return bool(self._waited)

    def __del__(self) -> None:
        if self._waited:
            _stranded.append((self.fd, self._waited))
        else:
            os.close(self.fd)


_stranded: list[object] = []  # eventfds and signals to which the library still writes; nobody listens any more

# --- the bell of an event loop -------------------------------------------------------------------------------------

_of_loops: "WeakKeyDictionary[asyncio.AbstractEventLoop, Bell]" = WeakKeyDictionary()


def of_loop(loop: asyncio.AbstractEventLoop) -> Bell:
    """The loop's bell; the loop sweeps it."""
    bell = _of_loops.get(loop)
    if bell is None:
        bell = _of_loops[loop] = Bell()
        loop.add_reader(bell.fd, bell.sweep)
    return bell


# --- the bell of a thread ------------------------------------------------------------------------------------------


class _Thread:
    def __init__(self) -> None:
        self.bell = Bell()
        self._bells = {self.bell.fd: self.bell}  # which it sweeps, by their descriptors
        self._epoll = select.epoll()
        self._epoll.register(self.bell.fd, select.EPOLLIN)
        self._ends = False
        self._thread = threading.Thread(target=self._serve, name="hoop-done", daemon=True)
        self._thread.start()
        atexit.register(self._end)

    def adopt(self, bell: Bell) -> None:
        """Sweeps this bell, too, until nothing is left that rings it. The caller has the lock."""
        self._drop()
        if bell.is_awaited() and bell.fd not in self._bells:
            self._bells[bell.fd] = bell
            self._epoll.register(bell.fd, select.EPOLLIN)

    def _drop(self) -> None:
        """Lets go of adopted bells that have been rung, by whomever they were swept. The caller has the lock."""
        for bell in list(self._bells.values()):
            if bell is not self.bell and not bell.is_awaited():
                self._epoll.unregister(bell.fd)
                del self._bells[bell.fd]

    def _sweep(self, fd: int) -> None:
        bell = self._bells.get(fd)  # None: it was dropped meanwhile
        if bell:
            bell.sweep()
        if bell is not self.bell:
            with _lock:
                self._drop()

    def _serve(self) -> None:
        while not self._ends:
            try:
                for fd, _ in self._epoll.poll():
                    self._sweep(fd)
            except BaseException:
                sys.excepthook(*sys.exc_info())

    def _end(self) -> None:
        if _thread is self:  # and not a copy in a child process, which has no such thread
            self._ends = True
            os.eventfd_write(self.bell.fd, 1)
            self._thread.join()


_lock = threading.Lock()
_thread: Optional[_Thread] = None


def of_thread(adopts: Optional[Bell] = None) -> Bell:
    """The bell of a thread of this process, which sweeps it. From now on it sweeps `adopts`, too, until that has rung."""
    global _thread
    with _lock:
        if _thread is None:
            _thread = _Thread()
        if adopts is not None:
            _thread.adopt(adopts)
        return _thread.bell


def _forget() -> None:
    """In the child of a fork: the bells are the parent's, who would miss what the child reads."""
    global _thread, _lock
    _stranded.extend([_thread, *_of_loops.values()])
    _thread, _lock = None, threading.Lock()
    _of_loops.clear()


os.register_at_fork(after_in_child=_forget)
