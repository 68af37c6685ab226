# SPDX-License-Identifier: MIT
"""One thread a process that completes the works whose end somebody waits for without a wait of libhoop.

libhoop writes into an eventfd when such a work has ended (hoop_signal_done). So no code of Python runs on a thread of
libhoop, and none is left when the interpreter ends: the thread is joined before that.
"""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Callable, Optional

from .._library import IN_PROGRESS, lib
from .errors import failure


class Signal(ctypes.Structure):
    """hoop_signal."""

    _fields_ = [("fd", ctypes.c_int), ("result", ctypes.c_int)]


_DONE = ctypes.cast(lib.hoop_signal_done, ctypes.c_void_p)


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

    def stop(self) -> None:
        """Joins the thread; nothing is watched any more."""
        self._ends = True
        if self._thread:
            os.write(self._fd, (1).to_bytes(8, "little"))
            self._thread.join()

    def _take(self) -> list[Callable[[], None]]:
        with self._lock:
            ended = [then for signal, then in self._works if signal.result != IN_PROGRESS]
            self._works = [entry for entry in self._works if entry[0].result == IN_PROGRESS]
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
        if code:
            signal.result = code
            raise failure(code, comm)


_stranded: list[object] = []  # what a fork has copied; freeing it here would free what the parent still uses
_watcher = _Watcher()
watch, stop = _watcher.watch, _watcher.stop
os.register_at_fork(after_in_child=_watcher.forget)
