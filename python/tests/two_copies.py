# SPDX-License-Identifier: MIT
"""The package's libhoop and a second one that the program has loaded for all the world to see."""

import array
import ctypes
import os
import sys

other = ctypes.CDLL(sys.argv[1], mode=os.RTLD_GLOBAL)

import hoop  # noqa: E402
from hoop._library import lib  # noqa: E402


def address(library, name):
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value


theirs = ctypes.c_void_p()
assert address(other, "hoop_allreduce") != address(lib, "hoop_allreduce")
assert other.hoop_comm_create(ctypes.byref(theirs), None) == 0
with hoop.Comm() as comm:
    assert comm.allreduce(array.array("i", [7]))[0] == 7
    comm.abort("only this one")
    x = ctypes.c_int(5)
    assert other.hoop_allreduce(ctypes.byref(x), ctypes.byref(x), ctypes.c_size_t(1), 2, 0, theirs) == 0
    try:
        comm.barrier()
        sys.exit("the package's communicator has not been aborted")
    except hoop.HoopError as error:
        assert error.name == "HOOP_ERR_ABORTED", error.name
    try:
        comm.destroy()
    except hoop.HoopError:
        pass
assert other.hoop_comm_destroy(theirs) == 0
