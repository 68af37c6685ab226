# SPDX-License-Identifier: MIT
"""Future.wait() in the main thread heeds Ctrl-C.

torch waits in C++, where no handler of a signal runs until the operation ends; and what a program gets from
Work.get_future() is an object of torch's own class, so its wait() is replaced. Python's wait for an event is interrupted at
once; the operation goes on, and the future can be waited for again.
"""

from __future__ import annotations

from threading import Event, current_thread, main_thread
from typing import Any

import torch

_Future: Any = torch._C.Future
_wait_in_torch = _Future.wait


def _wait(future: Any) -> Any:
    if current_thread() is main_thread() and not future.done():
        ended = Event()
        future.add_done_callback(lambda _: ended.set())
        ended.wait()
    return _wait_in_torch(future)


_Future.wait = _wait
