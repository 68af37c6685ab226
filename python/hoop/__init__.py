# SPDX-License-Identifier: MIT
"""Collectives over TCP on arrays of any library: numpy, torch, cupy, jax, or anything with the buffer protocol.

    import hoop, numpy

    with hoop.Comm() as comm:              # rank, size, server: from the environment that hooprun sets
        x = numpy.ones(1000, numpy.float32)
        comm.allreduce(x)                  # in place; x[0] is now the number of ranks

`hooprun -n 4 python3 program.py` starts four ranks here. hoop_python(7) is the manual.

libhoop is loaded at the first use of a name, not by `import hoop`, which is cheap and never fails.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .comm import Comm as Comm
    from .comm import Group as Group
    from .errors import HoopError as HoopError
    from .process import gpu_describe as gpu_describe
    from .process import gpu_ordinal as gpu_ordinal
    from .process import log_to as log_to
    from .server import Server as Server
    from .server import new_secret as new_secret
    from .stats import Stats as Stats
    from .work import Work as Work
    from .work import wait_all as wait_all
    from .work import wait_any as wait_any

__version__ = "0.1.0"

# Each public name, and the module that has it.
_OWNERS = {
    "Comm": "comm",
    "Group": "comm",
    "HoopError": "errors",
    "Server": "server",
    "Stats": "stats",
    "Work": "work",
    "gpu_describe": "process",
    "gpu_ordinal": "process",
    "log_to": "process",
    "new_secret": "server",
    "wait_all": "work",
    "wait_any": "work",
}

__all__ = sorted(_OWNERS)


if not TYPE_CHECKING:  # else a type checker would take every name for one of the package

    def __getattr__(name: str) -> Any:
        if name not in _OWNERS:
            raise AttributeError(f"module 'hoop' has no attribute {name!r}")
        from importlib import import_module

        try:
            value = getattr(import_module("." + _OWNERS[name], __name__), name)
        except ImportError as why:  # its sentence is for the user, and the way to it is not
            raise ImportError(str(why)) from None
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_OWNERS])
