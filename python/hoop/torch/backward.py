# SPDX-License-Identifier: MIT
"""Ctrl-C in DistributedDataParallel's backward(), where the main thread waits in torch's C++ for the others' gradients.

No handler of a signal runs there, and the wait lasts until the others have come. But Python writes the number of each
signal into a pipe, and a thread reads it. If backward() then stands still, the thread ends the groups whose operations are
under way. That ends the wait, and the handler runs.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from types import FrameType
from typing import Callable, Optional

_STANDS = 0.5  # seconds; a handler that can run does so within 0.1 s

_Place = tuple[FrameType, int]
_reader = _writer = -1  # the pipe


def _in_backward() -> Optional[_Place]:
    """Where the main thread is, if that is a call of torch's autograd; else None."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    if frame is None or not frame.f_globals.get("__name__", "").startswith("torch.autograd"):
        return None
    return frame, frame.f_lasti


def _stands_in_backward() -> bool:
    place, since = _in_backward(), time.monotonic()
    while place is not None and time.monotonic() - since < _STANDS:
        time.sleep(_STANDS / 10)
        if _in_backward() != place:
            return False
    return place is not None


def _listen(end: Callable[[], None]) -> None:
    while True:
        for number in os.read(_reader, 64):
            if number == signal.SIGINT and signal.getsignal(number) is signal.default_int_handler and _stands_in_backward():
                end()


def _forget() -> None:
    """In the child of a fork: the pipe is the parent's."""
    if _writer >= 0 and threading.current_thread() is threading.main_thread():
        used = signal.set_wakeup_fd(-1)
        if used not in (-1, _writer):
            signal.set_wakeup_fd(used)


def listen(end: Callable[[], None]) -> None:
    """Calls end() on a thread when a Ctrl-C cannot be heard. A program's own handler, or wakeup descriptor, has its way."""
    global _reader, _writer
    if threading.current_thread() is not threading.main_thread():
        return
    used = signal.set_wakeup_fd(-1)
    if used >= 0:
        signal.set_wakeup_fd(used)
        return
    _reader, _writer = os.pipe()
    os.set_blocking(_writer, False)
    signal.set_wakeup_fd(_writer, warn_on_full_buffer=False)
    threading.Thread(target=_listen, args=[end], name="hoop-signals", daemon=True).start()
    os.register_at_fork(after_in_child=_forget)
