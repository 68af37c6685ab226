# SPDX-License-Identifier: MIT
"""One thread a process that ends the works whose end somebody waits for without a wait of libhoop.

libhoop writes into an eventfd when such a work has ended (hoop_signal_done). So no code of Python runs on a thread of
libhoop, and none is left when the interpreter ends: the thread is joined before that.

Futures are completed by other threads (Lanes), because that runs the program's functions, which may wait.
"""

from __future__ import annotations

import ctypes
import os
import threading
from queue import SimpleQueue
from typing import Callable, Optional

from .._library import IN_PROGRESS, lib
from .errors import failure


class Signal(ctypes.Structure):
    """hoop_signal."""

    _fields_ = [("fd", ctypes.c_int), ("result", ctypes.c_int)]


PATIENCE = 5  # seconds, for the program's functions
_DONE = ctypes.cast(lib.hoop_signal_done, ctypes.c_void_p)


class Lanes:
    """Threads that run functions of the program, in the order in which they come.

    A function that runs on a lane may start operations and wait for them: these are on the next lane. So the order of the
    operations that functions start is the same on all ranks.
    """

    def __init__(self) -> None:
        self._here = threading.local()
        self.forget()

    def forget(self) -> None:
        """In the child of a fork: the threads are the parent's."""
        self._lock = threading.Lock()
        self._queues: list[SimpleQueue[Optional[Callable[[], None]]]] = []
        self._threads: list[threading.Thread] = []

    def here(self) -> int:
        """The lane that this thread is; -1: a thread of the program."""
        return getattr(self._here, "lane", -1)

    def open(self) -> int:
        """The lane for what this thread starts now. Its thread runs: at the interpreter's end none can be started."""
        lane = self.here() + 1
        with self._lock:
            while len(self._threads) <= lane:
                queue: SimpleQueue[Optional[Callable[[], None]]] = SimpleQueue()
                name = f"hoop-futures-{len(self._threads)}"
                thread = threading.Thread(target=self._serve, args=[len(self._threads), queue], name=name, daemon=True)
                thread.start()
                self._queues.append(queue)
                self._threads.append(thread)
        return lane

    def run(self, lane: int, function: Callable[[], None]) -> None:
        """Returns at once; the lane runs the function."""
        self._queues[lane].put(function)

    def _serve(self, lane: int, queue: SimpleQueue[Optional[Callable[[], None]]]) -> None:
        self._here.lane = lane
        while function := queue.get():
            function()

    def stop(self) -> None:
        """Joins the threads, but for one whose function still waits after some seconds."""
        for queue, thread in zip(self._queues, self._threads):
            queue.put(None)
            thread.join(PATIENCE)


class _Watcher:
    def __init__(self) -> None:
        self._fd = -1
        self._thread: Optional[threading.Thread] = None
        self._lock = threading.Lock()
        self._works: list[tuple[Signal, Callable[[], None]]] = []
        self._ends = False

    def forget(self) -> None:
        """In the child of a fork: the thread, the eventfd and the works are the parent's."""
        _stranded.append(self._works)
        self._thread, self._lock, self._works = None, threading.Lock(), []

    def _start(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.eventfd(0, os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "eventfd")
        self._thread = threading.Thread(target=self._run, name="hoop-watcher", daemon=True)
        self._thread.start()

    def is_here(self) -> bool:
        """True on the watcher's thread."""
        return threading.current_thread() is self._thread

    def stop(self) -> None:
        """Joins the thread; nothing is watched any more."""
        self._ends = True
        if self._thread:
            os.write(self._fd, (1).to_bytes(8, "little"))
            self._thread.join()

    def _take(self) -> list[Callable[[], None]]:
        ended: list[Callable[[], None]] = []
        left: list[tuple[Signal, Callable[[], None]]] = []
        with self._lock:
            for signal, then in self._works:  # libhoop writes meanwhile: each result is read once
                if signal.result == IN_PROGRESS:
                    left.append((signal, then))
                else:
                    ended.append(then)
            self._works = left
        return ended

    def _run(self) -> None:
        while not self._ends:
            os.read(self._fd, 8)
            for then in self._take():
                then()

    def watch(self, work: int, comm: int, then: Callable[[], None]) -> None:
        """Calls `then` on the watcher's thread when libhoop's work has ended; the handle stays valid."""
        with self._lock:
            if not self._thread:
                self._start()
            signal = Signal(self._fd, IN_PROGRESS)
            self._works.append((signal, then))
        code = lib.hoop_work_on_done(work, _DONE, ctypes.addressof(signal))
        if code:  # libhoop forgets the signal
            with self._lock:
                self._works = [entry for entry in self._works if entry[0] is not signal]
            raise failure(code, comm)


_stranded: list[object] = []  # what a fork has copied; freeing it here would free what the parent still uses
_watcher, lanes = _Watcher(), Lanes()
watch, is_here = _watcher.watch, _watcher.is_here
os.register_at_fork(after_in_child=_watcher.forget)
os.register_at_fork(after_in_child=lanes.forget)


def stop() -> None:
    """Joins all threads of this module."""
    _watcher.stop()
    lanes.stop()
