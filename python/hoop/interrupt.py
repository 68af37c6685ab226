# SPDX-License-Identifier: MIT
"""Ctrl-C during a call of libhoop: the handlers of signals run every 0.1 s, and what one raises ends the call.

libhoop calls a generator of Python's on the main thread. It is one because handlers run where it goes on, which is inside
its `try`; a function's first instruction would be outside.
"""

from ctypes import CFUNCTYPE, c_int, c_void_p
from threading import current_thread, main_thread
from typing import Generator, Optional

from ._library import lib

_raised: list[Optional[BaseException]] = [None]  # by a handler during the call; take() is next


def _listen() -> Generator[bool, None, None]:
    """Yields whether a handler has raised an exception. Nothing after the exception calls anything: another may come."""
    while True:
        try:
            while True:
                yield _raised[0] is not None
        except GeneratorExit:
            return
        except BaseException as error:
            _raised[0] = error


def take() -> Optional[BaseException]:
    """The exception by which a handler has ended this thread's last call, once; only the main thread has one."""
    error = None
    if _raised[0] is not None and current_thread() is main_thread():
        error, _raised[0] = _raised[0], None
    return error


def raise_it() -> None:
    """After a call of libhoop that may have been interrupted."""
    error = take()
    if error is not None:
        raise error


_listener = _listen()
next(_listener)
_function = CFUNCTYPE(c_int, c_void_p)(_listener.send)
lib.hoop_interrupt_by(_function, None)
