# SPDX-License-Identifier: MIT
"""libhoop: where it is, the numbers and the prototypes of hoop.h. t/python/library.t compares both with the header.

The library is $HOOP_LIBRARY, else the package's own copy (a wheel has one), else the system's. It is loaded with
RTLD_LOCAL: another libhoop in the process is another library.
"""

import ctypes
import os
from ctypes import POINTER, c_char, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint, c_uint32, c_uint64, c_void_p
from pathlib import Path

from . import __version__

# --- numbers -------------------------------------------------------------------------------------------------------

RESULTS = {
    "HOOP_SUCCESS": 0,
    "HOOP_ERR_CUDA": 1,
    "HOOP_ERR_SYSTEM": 2,
    "HOOP_ERR_INTERNAL": 3,
    "HOOP_ERR_INVALID_ARGUMENT": 4,
    "HOOP_ERR_INVALID_USAGE": 5,
    "HOOP_ERR_PEER_LOST": 6,
    "HOOP_IN_PROGRESS": 7,
    "HOOP_ERR_TIMEOUT": 8,
    "HOOP_ERR_MISMATCH": 32,
    "HOOP_ERR_ABORTED": 33,
    "HOOP_ERR_RENDEZVOUS": 34,
    "HOOP_ERR_AUTH": 35,
    "HOOP_ERR_VERSION": 36,
    "HOOP_ERR_PROTOCOL": 37,
    "HOOP_ERR_CORRUPT": 38,
    "HOOP_ERR_NO_MEMORY": 39,
    "HOOP_ERR_UNSUPPORTED": 40,
    "HOOP_ERR_BUSY": 41,
    "HOOP_ERR_FORKED": 42,
    "HOOP_ERR_STALE_EPOCH": 43,
    "HOOP_ERR_NO_QUORUM": 44,
}

INVALID_ARGUMENT = RESULTS["HOOP_ERR_INVALID_ARGUMENT"]
INVALID_USAGE = RESULTS["HOOP_ERR_INVALID_USAGE"]
IN_PROGRESS = RESULTS["HOOP_IN_PROGRESS"]
BUSY = RESULTS["HOOP_ERR_BUSY"]
FORKED = RESULTS["HOOP_ERR_FORKED"]

DTYPES = {
    "int8": 0,
    "uint8": 1,
    "int32": 2,
    "uint32": 3,
    "int64": 4,
    "uint64": 5,
    "float16": 6,
    "float32": 7,
    "float64": 8,
    "bfloat16": 9,
    "float8e4m3": 10,
    "float8e5m2": 11,
    "int16": 64,
    "uint16": 65,
    "bool": 66,
}

OPS = {"sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4, "band": 64, "bor": 65, "bxor": 66}
ORDERS = {"auto": 1, "rank": 2, "host": 3}
WIRES = {"float32": 1, "bfloat16": 2, "e4m3": 3}

SECRET_TEXT = 65
SERVER_TEXT = 72
ADDRESS_TEXT = 64
ANY_RANK = -1


class Error(ctypes.Structure):
    """hoop_error."""

    _fields_ = [
        ("size", c_size_t),
        ("code", c_int),
        ("rank", c_int),
        ("reporter", c_int),
        ("sequence", c_uint64),
        ("sys_errno", c_int),
        ("phase", c_int),
        ("flags", c_int),
        ("text", ctypes.c_char * 256),
    ]


class Stats(ctypes.Structure):
    """hoop_stats."""

    _fields_ = [
        ("size", c_size_t),
        ("operations", c_uint64),
        ("messages", c_uint64),
        ("bytes_sent", c_uint64),
        ("bytes_received", c_uint64),
        ("inside_ns", c_uint64),
        ("outside_ns", c_uint64),
        ("waited_peer_ns", c_uint64),
        ("waited_link_ns", c_uint64),
        ("waited_stream_ns", c_uint64),
        ("waited_reduction_ns", c_uint64),
        ("slowest_ns", c_uint64),
        ("slowest_rank", c_int32),
        ("rtt_us", c_uint32),
        ("retransmits", c_uint64),
        ("delivery_rate", c_uint64),
        ("entries", c_uint64),
        ("entered_ns", c_uint64),
        ("entered_error_ns", c_uint64),
        ("clock_offset_ns", c_int64),
        ("clock_error_ns", c_uint64),
        ("shares_memory", c_int32),
        ("in_rank_order", c_int32),
        ("algorithm", c_char * 16),
        ("repairs", c_uint64),
        ("narrowed", c_uint64),
        ("narrowed_e4m3", c_uint64),
        ("levels", c_uint64),
    ]


class CallOptions(ctypes.Structure):
    """hoop_call_options."""

    _fields_ = [
        ("size", c_size_t),
        ("order", c_int),
        ("wire", c_int),
        ("residual", c_void_p),
        ("residual_count", c_size_t),
    ]


class Signal(ctypes.Structure):
    """hoop_signal."""

    _fields_ = [("fd", c_int), ("result", c_int)]


DONE_FN = ctypes.CFUNCTYPE(None, c_void_p, c_int)
LOG_FN = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p)

# --- prototypes ----------------------------------------------------------------------------------------------------

_HANDLE = c_void_p  # hoop_comm *, hoop_work *, hoop_config *, hoop_server *
_OUT = POINTER(c_void_p)  # where a handle is stored
_ARRAY = c_void_p  # an array, or const size_t * with an entry for each rank
_STREAM = c_void_p

# The operations without communicator, work and stream: each has a blocking, an i and an _on_stream form.
_OPERATIONS: dict[str, list[object]] = {
    "allreduce": [_ARRAY, _ARRAY, c_size_t, c_int, c_int],
    "reduce_scatter": [_ARRAY, _ARRAY, c_size_t, c_int, c_int],
    "allgather": [_ARRAY, _ARRAY, c_size_t, c_int],
    "broadcast": [_ARRAY, _ARRAY, c_size_t, c_int, c_int],
    "reduce": [_ARRAY, _ARRAY, c_size_t, c_int, c_int, c_int],
    "gather": [_ARRAY, _ARRAY, c_size_t, c_int, c_int],
    "scatter": [_ARRAY, _ARRAY, c_size_t, c_int, c_int],
    "alltoall": [_ARRAY, _ARRAY, c_size_t, c_int],
    "barrier": [],
    "allgatherv": [_ARRAY, _ARRAY, c_size_t, _ARRAY, _ARRAY, c_int],
    "reduce_scatterv": [_ARRAY, _ARRAY, _ARRAY, _ARRAY, c_int, c_int],
    "send": [_ARRAY, c_size_t, c_int, c_int, c_int],
    "recv": [_ARRAY, c_size_t, c_int, c_int, c_int],
    "alltoallv": [_ARRAY, _ARRAY, _ARRAY, _ARRAY, _ARRAY, _ARRAY, c_int],
}

# Result and arguments of every other function.
_OTHERS: dict[str, tuple[object, list[object]]] = {
    "config_new": (_HANDLE, []),
    "config_set": (c_int, [_HANDLE, c_char_p, c_char_p]),
    "config_free": (None, [_HANDLE]),
    "secret_new": (c_int, [c_char_p, c_size_t]),
    "server_start": (c_int, [_OUT, _HANDLE]),
    "server_address": (c_int, [_HANDLE, c_char_p, c_size_t]),
    "server_stop": (c_int, [_HANDLE]),
    "comm_create": (c_int, [_OUT, _HANDLE]),
    "comm_destroy": (c_int, [_HANDLE]),
    "comm_abort": (c_int, [_HANDLE, c_char_p]),
    "comm_set_timeout": (c_int, [_HANDLE, c_int]),
    "received": (c_int, [POINTER(c_int), POINTER(c_size_t)]),
    "work_received": (c_int, [_HANDLE, POINTER(c_int), POINTER(c_size_t)]),
    "comm_set_name": (c_int, [_HANDLE, c_char_p]),
    "comm_set_call_name": (c_int, [_HANDLE, c_char_p]),
    "comm_split": (c_int, [_HANDLE, c_int, c_int, _OUT]),
    "comm_shrink": (c_int, [_HANDLE, _OUT]),
    "comm_grow": (c_int, [_HANDLE, _OUT]),
    "comm_rank": (c_int, [_HANDLE]),
    "comm_size": (c_int, [_HANDLE]),
    "comm_local_rank": (c_int, [_HANDLE]),
    "comm_local_size": (c_int, [_HANDLE]),
    "comm_completed": (c_uint64, [_HANDLE]),
    "comm_epoch": (c_uint64, [_HANDLE]),
    "comm_history": (c_int, [_HANDLE, POINTER(c_uint64), POINTER(c_uint64)]),
    "comm_local_address": (c_int, [_HANDLE, c_char_p, c_size_t]),
    "comm_stats": (c_int, [_HANDLE, POINTER(Stats)]),
    "comm_fd": (c_int, [_HANDLE]),
    "comm_fd_close": (c_int, [_HANDLE]),
    "comm_progress": (c_int, [_HANDLE]),
    "comm_error": (c_int, [_HANDLE, POINTER(Error)]),
    "iallreduce_with": (c_int, [*_OPERATIONS["allreduce"], _HANDLE, POINTER(CallOptions), _OUT]),
    "work_test": (c_int, [_HANDLE, POINTER(c_int)]),
    "work_wait": (c_int, [_HANDLE, c_int]),
    "work_wait_or_fail": (c_int, [_HANDLE, c_int]),
    "wait_all": (c_int, [_OUT, c_size_t]),
    "wait_any": (c_int, [_OUT, c_size_t, c_int, POINTER(c_size_t)]),
    "work_on_done": (c_int, [_HANDLE, c_void_p, c_void_p]),
    "signal_done": (None, [c_void_p, c_int]),
    "work_free": (c_int, [_HANDLE]),
    "group_start": (c_int, [_HANDLE]),
    "group_end": (c_int, [_HANDLE]),
    "igroup_end": (c_int, [_HANDLE, _OUT]),
    "strerror": (c_char_p, [c_int]),
    "dtype_size": (c_size_t, [c_int]),
    "log_to": (None, [c_void_p, c_void_p]),
    "interrupt_by": (None, [c_void_p, c_void_p]),
    "version": (c_char_p, []),
    "gpu_ordinal": (c_int, [POINTER(c_int)]),
    "gpu_describe": (c_int, [c_char_p, c_size_t]),
}


def prototypes() -> dict[str, tuple[object, list[object]]]:
    """Result and arguments of every function of hoop.h, by its full name."""
    table: dict[str, tuple[object, list[object]]] = {}
    for name, arguments in _OPERATIONS.items():
        table[f"hoop_{name}"] = c_int, [*arguments, _HANDLE]
        table[f"hoop_i{name}"] = c_int, [*arguments, _HANDLE, _OUT]
        table[f"hoop_{name}_on_stream"] = c_int, [*arguments, _HANDLE, _STREAM]
    for name, (result, others) in _OTHERS.items():
        table[f"hoop_{name}"] = result, others
    return table


# --- the library -----------------------------------------------------------------------------------------------------


_OWN = Path(__file__).parent / "lib" / "libhoop.so.0"


def _path() -> str:
    return os.environ.get("HOOP_LIBRARY") or (str(_OWN) if _OWN.exists() else "libhoop.so.0")


def _where() -> str:
    """Where _path() has looked."""
    if os.environ.get("HOOP_LIBRARY"):
        return "HOOP_LIBRARY names the file"
    return f"there is no {_OWN}, so the system was asked for libhoop.so.0"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("-")[0].split("."))


def load() -> ctypes.CDLL:
    """The library with its prototypes; ImportError with one sentence if there is none, or an older one."""
    path = _path()
    try:
        library = ctypes.CDLL(path, mode=os.RTLD_LOCAL | os.RTLD_NOW)
    except OSError as why:
        raise ImportError(
            f"the package hoop found no libhoop ({why}; {_where()}): install a wheel, which brings it (make -C build wheel, in "
            "hoop's sources), or run make install and ldconfig in the build folder, or name a libhoop.so.0 in HOOP_LIBRARY"
        ) from None
    try:
        for name, (result, arguments) in prototypes().items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except AttributeError:
        raise ImportError(
            f"{path} has no {name}: the package hoop {__version__} needs a libhoop of the same version or a newer one"
        ) from None
    found = library.hoop_version().decode()
    if _numbers(found) < _numbers(__version__):
        raise ImportError(f"{path} is version {found}, and the package hoop {__version__} needs at least that version")
    return library


lib = load()
