# SPDX-License-Identifier: MIT
"""How a rank leaves its rings: when, what it still waits for, and what the others are told. Nothing is sent here."""

import atexit
import os
import sys
from typing import Callable, Optional, Sequence

# Seconds without progress that a rank which leaves gives a message; a collective has the limit of its ring.
PATIENCE = {"recv": 5.0, "send": 60.0}

Pending = tuple[str, str]  # an operation in progress: "send", "recv" or another word; and how the others are told of it


def told(rank: int, error: Optional[BaseException]) -> str:
    """What the others are told if this rank ends by `error`; "": it only leaves. sys.exit and a loop's end are none."""
    if error is None or isinstance(error, (SystemExit, GeneratorExit, StopIteration, StopAsyncIteration)):
        return ""
    if isinstance(error, KeyboardInterrupt):
        return f"rank {rank} was interrupted"
    try:
        words = str(error).strip().split("\n")[0]
    except Exception:  # of a class of the program's own
        words = ""
    return f"rank {rank} ended with {type(error).__name__}" + (f": {words}" if words else "")


def interrupted(rank: int, error: BaseException) -> str:
    """What the others are told if `error` ends a wait of this rank."""
    return told(rank, error) or f"rank {rank} was interrupted"


def encoded(why: str) -> bytes:
    """A reason as libhoop takes it. What UTF-8 cannot express, as parts of a file's name, becomes "?", and so does a null."""
    return why.replace("\0", "?").encode(errors="replace")


def verdict(rank: int, pending: Sequence[Pending], quiet: float) -> str:
    """Why a rank that leaves ends its ring now; "": it goes on waiting. quiet: seconds since something has moved.

    The most patient operation decides: a receive that nobody matches ends no collective that others still enter.
    """
    kind, call = max(pending, key=lambda one: PATIENCE.get(one[0], float("inf")))
    patience = PATIENCE.get(kind)
    if patience is None or quiet < patience:
        return ""
    return f"rank {rank} leaves, and nobody has matched its {call} for {patience:.0f} s"


_calls = 0
_left = (-1, 0.0)  # the calls so far and the time, when the program began to leave

_MARK = "_hoop_within"  # of an exception: where its traceback began at the last call


def note_handled() -> None:
    """A program that makes a call has not ended by the exception that it may be handling, and does not leave yet."""
    global _calls
    _calls += 1
    error = sys.exc_info()[1]
    if error is not None:
        error.__dict__[_MARK] = id(error.__traceback__)


def _behind(error: Optional[BaseException]) -> Optional[BaseException]:
    """sys.exit with another status than 0, while an exception is handled, is that one: torch.multiprocessing ends so."""
    if isinstance(error, SystemExit) and error.code and isinstance(error.__context__, Exception):
        return error.__context__
    return error


def in_flight() -> Optional[BaseException]:
    """The exception by which the program leaves. None: there is none, or it was handled at the last call."""
    error = _behind(sys.exc_info()[1])
    known = error is not None and error.__dict__.get(_MARK) == id(error.__traceback__)
    return None if known else error


def leaving_since(now: float) -> float:
    """When the program began to leave: the first time of asking since its last call. All its rings wait from then on."""
    global _left
    if _left[0] != _calls:
        _left = (_calls, now)
    return _left[1]


def uncaught() -> Optional[BaseException]:
    """The exception by which the interpreter ends. An interactive one does not end by those that it has shown."""
    return None if hasattr(sys, "ps1") else getattr(sys, "last_value", None)


_leavers: list[Callable[[Optional[BaseException]], None]] = []
_child = 0  # the process of multiprocessing whose end is watched


def at_end(leave: Callable[[Optional[BaseException]], None]) -> None:
    """Calls leave(error) when the program ends; error: the exception by which it does, or None."""
    _leavers.append(leave)
    atexit.register(lambda: leave(uncaught()))


def _end_child() -> None:
    error = in_flight()
    for leave in _leavers:
        leave(error)


def watch_child() -> None:
    """A process that multiprocessing has forked skips the interpreter's end; its own end is found here."""
    global _child
    process = sys.modules.get("multiprocessing.process")
    if process is None or process.parent_process() is None or _child == os.getpid():
        return
    from multiprocessing.util import Finalize

    _child = os.getpid()
    Finalize(None, _end_child, exitpriority=0)
