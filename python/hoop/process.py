# SPDX-License-Identifier: MIT
"""What concerns the whole process, not one communicator: its GPU, and where its log lines go."""

import atexit
import ctypes
from typing import Any, Callable, Optional

from ._library import LOG_FN, lib
from .errors import check

GPU_TEXT = 512  # bytes, more than any sentence of hoop_gpu_describe


def gpu_ordinal() -> int:
    """The CUDA ordinal of the GPU that hoop uses if no array determines another; HoopError if there is none.

    It starts CUDA in the process, so fork before it.
    """
    ordinal = ctypes.c_int()
    check(lib.hoop_gpu_ordinal(ctypes.byref(ordinal)))
    return ordinal.value


def gpu_describe() -> str:
    """One sentence on GPUs and driver, or on why the process has none. It starts CUDA, too."""
    text = ctypes.create_string_buffer(GPU_TEXT)
    check(lib.hoop_gpu_describe(text, GPU_TEXT))
    return text.value.decode(errors="replace")


def log_to(function: Optional[Callable[[int, str], object]]) -> None:
    """Log lines go to function(level, line), and no longer to standard error; None: to standard error again.

    level: 1 warning, 2 information, 3 trace; the line has no newline. Any thread may call the function, which must
    return soon and must not call hoop. At the end of the interpreter the lines go to standard error again.
    """
    if function is None:
        lib.hoop_log_to(None, None)
        return
    if not callable(function):
        raise TypeError(f"log_to({function!r}): give a function of level and line, or None")

    def sink(_: Any, level: int, line: bytes) -> None:
        function(level, line.decode(errors="replace"))

    _sinks.append(LOG_FN(sink))
    lib.hoop_log_to(ctypes.cast(_sinks[-1], ctypes.c_void_p), None)


_sinks: list[Any] = []  # never freed: a thread of libhoop may still be in a former one
atexit.register(log_to, None)
