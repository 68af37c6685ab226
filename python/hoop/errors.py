# SPDX-License-Identifier: MIT
"""The exception of everything that libhoop refuses or fails in."""

import ctypes
from typing import Optional

from ._library import RESULTS, Error, lib
from .interrupt import raise_it

_NAMES = {number: name for name, number in RESULTS.items()}


class HoopError(RuntimeError):
    """What went wrong, in one sentence that names the rank and the likely mistake.

    code       HOOP_ERR_*, a number; `name` is it as text, such as "HOOP_ERR_PEER_LOST"
    rank       the rank that caused it, -1 if unknown
    reporter   the rank that saw it first, -1 if unknown
    sequence   the operation, counted from 1; 0: none
    sys_errno  errno of a failed system call, 0: none
    phase      0 none, 1 while joining, 2 in an operation, 3 while leaving
    flags      1: the server was gone, and `rank` may be the guess of a neighbour
    """

    def __init__(
        self,
        text: str,
        code: int,
        rank: int = -1,
        reporter: int = -1,
        sequence: int = 0,
        sys_errno: int = 0,
        phase: int = 0,
        flags: int = 0,
    ) -> None:
        super().__init__(text)
        self.code, self.rank, self.reporter, self.sequence = code, rank, reporter, sequence
        self.sys_errno, self.phase, self.flags = sys_errno, phase, flags

    def __reduce__(self) -> tuple[object, ...]:
        rest = self.reporter, self.sequence, self.sys_errno, self.phase, self.flags
        return type(self), (str(self), self.code, self.rank, *rest)

    @property
    def name(self) -> str:
        return _NAMES.get(self.code, f"HOOP_ERR_{self.code}")


def error_of(code: int, comm: Optional[int] = None) -> HoopError:
    """The exception for `code`, which a function of the library returned to this thread; comm: a handle, or None.

    If a signal's handler has ended that call, this raises its exception.
    """
    raise_it()
    e = Error(size=ctypes.sizeof(Error))
    lib.hoop_comm_error(comm, ctypes.byref(e))
    if e.code != code or not e.text:
        return HoopError(lib.hoop_strerror(code).decode(), code)
    text = e.text.decode(errors="replace")
    return HoopError(text, code, e.rank, e.reporter, e.sequence, e.sys_errno, e.phase, e.flags)


def check(code: int, comm: Optional[int] = None) -> None:
    """Raises HoopError unless `code` is HOOP_SUCCESS."""
    if code:
        raise error_of(code, comm)
