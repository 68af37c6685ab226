# SPDX-License-Identifier: MIT
"""Abort hooks: functions of the program that are called when an operation has failed.

The thread that calls them is the one that has seen the end of the operation. What waits for operations would wait for this
thread itself, for ever, so it is refused there; and a hook whose own operation fails calls no hooks.
"""

from __future__ import annotations

import sys
import threading
from typing import Callable, Iterable

_here = threading.local()  # .running: this thread is in a hook


def _running() -> bool:
    return getattr(_here, "running", False)


def run(hooks: Iterable[Callable[[], None]]) -> None:
    """Calls them. The error of one is printed."""
    if _running():
        return
    _here.running = True
    try:
        for hook in hooks:
            try:
                hook()
            except Exception:
                sys.excepthook(*sys.exc_info())
    finally:
        _here.running = False


def refuse(what: str) -> None:
    """RuntimeError in a hook."""
    if _running():
        raise RuntimeError(
            f"{what} in an abort hook would wait for the operation whose end the hook tells: let the hook note it, and the "
            "program do this when it has the error"
        )
