# SPDX-License-Identifier: MIT
"""Arrays of any library, seen through the protocols that they share: where the elements are, how many, of which type.

The buffer protocol (numpy, array, bytearray), DLPack (torch, jax, cupy) and __cuda_array_interface__ (cupy, numba) are
enough; no library is imported and nothing is copied. What hoop cannot use is refused with a sentence.
"""

import ctypes
import sys
from ctypes import c_char, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint8, c_uint16, c_uint64, c_void_p
from operator import index
from typing import Any, Callable, Optional

from ._library import DTYPES, lib

# Address, number of elements, hoop_dtype, CUDA stream that the array asks for, and what keeps the memory where it is.
View = tuple[int, int, int, Optional[int], object]
Reader = Callable[[Any, bool], View]

_NAMES = {number: name for name, number in DTYPES.items()}
_SIZES: dict[int, int] = {number: lib.hoop_dtype_size(number) for number in DTYPES.values()}


def _name(x: object) -> str:
    return f"{type(x).__module__}.{type(x).__qualname__}"


def _refuse_type(x: object, found: str) -> TypeError:
    """found: the type as the protocol has it; the array's own name for it is better."""
    own = str(getattr(x, "dtype", found))
    if "complex" in own:
        hint = "A complex number is two real ones: pass a view of them as floats; sum, avg and what only moves are right so"
    else:
        hint = "View them as one of these, or name theirs with dtype= if they only look like another of the same size"
    return TypeError(f"elements of the type {own} in a {_name(x)}: hoop has {', '.join(DTYPES)}. {hint}")


def _refuse_gaps(x: object, fortran: bool = False) -> ValueError:
    if fortran:
        return ValueError(
            f"a {_name(x)} in Fortran's order: pass its transpose, x.T, which hoop takes without a copy; on all ranks, as "
            "its elements lie in another order"
        )
    return ValueError(
        f"a {_name(x)} with gaps between its elements, or in another order, or expanded: pass a contiguous copy"
    )


def _refuse_read_only(x: object) -> ValueError:
    return ValueError(f"a read-only {_name(x)} cannot take a result: pass out=, an array that can be written")


# --- the buffer protocol -------------------------------------------------------------------------------------------

_KINDS = {**dict.fromkeys("bhilqn", "int"), **dict.fromkeys("BHILQN", "uint"), **dict.fromkeys("efd", "float")}
_NOTHING = c_char * 0


def _formats() -> dict[tuple[str, int], int]:
    """(struct's letter, size): hoop_dtype."""
    table = {("?", 1): DTYPES["bool"]}
    for letter, kind in _KINDS.items():
        for size in 1, 2, 4, 8:
            if f"{kind}{8 * size}" in DTYPES:
                table[letter, size] = DTYPES[f"{kind}{8 * size}"]
    own = "<" if sys.byteorder == "little" else ">"
    return {(order + letter, size): t for (letter, size), t in table.items() for order in ("", "@", "=", own)}


_FORMATS = _formats()


class _Buffer(ctypes.Structure):
    """Py_buffer, as far as it is needed; the rest is room."""

    _fields_ = [("address", c_void_p), ("owner", ctypes.py_object), ("rest", c_void_p * 20)]


_get_buffer = ctypes.PYFUNCTYPE(c_int, ctypes.py_object, c_void_p, c_int)(("PyObject_GetBuffer", ctypes.pythonapi))
_release_buffer = ctypes.PYFUNCTYPE(None, c_void_p)(("PyBuffer_Release", ctypes.pythonapi))


def _address_of_read_only(memory: memoryview) -> int:
    buffer = _Buffer()
    _get_buffer(memory, ctypes.byref(buffer), 0)
    address: Optional[int] = buffer.address
    _release_buffer(ctypes.byref(buffer))
    return address or 0


# numpy's names of types that struct has no letter for, as the package ml_dtypes adds them.
_NAMED = {"bfloat16": "bfloat16", "float8_e4m3fn": "float8e4m3", "float8_e5m2": "float8e5m2"}


def _read_named(x: Any, writes: bool, why: object) -> View:
    """An array of numpy's through a view of it as integers; jax's array says by DLPack what it is."""
    name = _NAMED.get(str(getattr(x, "dtype", "")))
    if name is None or not hasattr(x, "__array_interface__"):
        return _read_dlpack(x, writes, why)
    dtype = DTYPES[name]
    address, count, _, stream, keep = _read_buffer(x.view(f"uint{8 * _SIZES[dtype]}"), writes)
    return address, count, dtype, stream, keep


def _read_buffer(x: Any, writes: bool) -> View:
    try:
        memory = memoryview(x)
    except (ValueError, BufferError) as why:
        return _read_named(x, writes, why)
    if not memory.c_contiguous:
        raise _refuse_gaps(x, memory.f_contiguous)
    size = memory.itemsize
    dtype = _FORMATS.get((memory.format, size))
    if dtype is None:
        raise _refuse_type(x, repr(memory.format))
    if not memory.readonly:
        return ctypes.addressof(_NOTHING.from_buffer(memory)), memory.nbytes // size, dtype, None, memory
    if writes:
        raise _refuse_read_only(x)
    return _address_of_read_only(memory), memory.nbytes // size, dtype, None, memory


# --- DLPack --------------------------------------------------------------------------------------------------------


class _Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [
        ("data", c_void_p),
        ("device", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", ctypes.POINTER(c_int64)),
        ("strides", ctypes.POINTER(c_int64)),
        ("offset", c_uint64),
    ]


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", _Tensor),
    ]


_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED = 1, 2, 3, 13
_READ_ONLY = 1
_CODES = {
    **{(0, 8 * size): DTYPES[f"int{8 * size}"] for size in (1, 2, 4, 8)},
    **{(1, 8 * size): DTYPES[f"uint{8 * size}"] for size in (1, 2, 4, 8)},
    **{(2, 8 * size): DTYPES[f"float{8 * size}"] for size in (2, 4, 8)},
    (4, 16): DTYPES["bfloat16"],
    (6, 8): DTYPES["bool"],
    (10, 8): DTYPES["float8e4m3"],
    (12, 8): DTYPES["float8e5m2"],
}

_pointer = ctypes.PYFUNCTYPE(c_void_p, ctypes.py_object, c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
_capsule_name = ctypes.PYFUNCTYPE(c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
_takes_no_version: set[type] = set()


def _export(x: Any) -> object:
    """The capsule of x. The caller orders the array's stream itself, so a GPU's is exported without waiting (-1)."""
    order = {"stream": -1} if x.__dlpack_device__()[0] == _CUDA else {}
    if type(x) not in _takes_no_version:
        try:
            return x.__dlpack__(max_version=(1, 0), **order)
        except TypeError:
            _takes_no_version.add(type(x))
    return x.__dlpack__(**order)


def _tensor_of(x: Any, why: object) -> tuple[_Tensor, bool, object]:
    """The tensor, whether it is read-only, and the capsule that keeps it. jax tells that it is only by its name."""
    try:
        capsule = _export(x)
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as refusal:
        raise TypeError(
            f"a {_name(x)} that its library does not share: {why or refusal}. If that is for the type of its elements, "
            "pass a view of them as integers of the same size, and name their type with dtype="
        ) from None
    name = _capsule_name(capsule)
    address = _pointer(capsule, name)
    if name != b"dltensor_versioned":
        return _Tensor.from_address(address), _name(x).startswith("jax"), capsule
    managed = _Versioned.from_address(address)
    return managed.tensor, bool(managed.flags & _READ_ONLY) or _name(x).startswith("jax"), capsule


def _is_contiguous(shape: list[int], strides: list[int]) -> bool:
    expected = 1
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True


def _stream_of(x: Any) -> Optional[int]:
    """The stream that x asks for. DLPack does not say it; arrays of cupy also have the other interface, which does."""
    stream: Optional[int] = getattr(x, "__cuda_array_interface__", {}).get("stream")
    return stream


def _read_dlpack(x: Any, writes: bool, why: object = None) -> View:
    tensor, read_only, capsule = _tensor_of(x, why)
    if tensor.device not in (_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED):
        raise TypeError(
            f"a {_name(x)} on a device of DLPack's type {tensor.device}: hoop has host memory and NVIDIA's GPUs"
        )
    dtype = _CODES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if dtype is None:
        raise _refuse_type(x, f"{tensor.code}:{tensor.bits} (DLPack's code:bits)")
    shape = tensor.shape[: tensor.ndim]
    count = 1
    for extent in shape:
        count *= extent
    if count and tensor.strides and not _is_contiguous(shape, tensor.strides[: tensor.ndim]):
        raise _refuse_gaps(x)
    if writes and read_only:
        raise _refuse_read_only(x)
    stream = _stream_of(x) if tensor.device == _CUDA else None
    return (tensor.data or 0) + tensor.offset, count, dtype, stream, (x, capsule)


# --- __cuda_array_interface__ --------------------------------------------------------------------------------------


def _cuda_dtype(x: object, typestr: str) -> int:
    kind = {"i": "int", "u": "uint", "f": "float", "b": "bool"}.get(typestr[1], "")
    name = kind if kind == "bool" else f"{kind}{8 * int(typestr[2:])}"
    if typestr[0] == ">" or name not in DTYPES:
        raise _refuse_type(x, repr(typestr))
    return DTYPES[name]


def _read_cuda(x: Any, writes: bool) -> View:
    interface = x.__cuda_array_interface__
    dtype = _cuda_dtype(x, interface["typestr"])
    shape, strides = list(interface["shape"]), interface.get("strides")
    size, count = _SIZES[dtype], 1
    for extent in shape:
        count *= extent
    if count and strides and not _is_contiguous(shape, [stride // size for stride in strides]):
        raise _refuse_gaps(x)
    address, read_only = interface["data"]
    if writes and read_only:
        raise _refuse_read_only(x)
    return address, count, dtype, interface.get("stream"), x


# --- any of them ---------------------------------------------------------------------------------------------------


def _reader_of(x: Any) -> Reader:
    try:
        memoryview(x).release()
        return _read_buffer
    except TypeError:
        pass
    except (ValueError, BufferError):  # the type has the protocol, but not for these elements
        return _read_buffer
    if hasattr(x, "__dlpack__"):
        return _read_dlpack
    if hasattr(x, "__cuda_array_interface__"):
        return _read_cuda
    hint = "; pass what numpy.asarray() makes of it" if hasattr(x, "__array__") else ""
    raise TypeError(
        f"a {_name(x)} is no array that hoop can use: it has neither the buffer protocol nor DLPack nor "
        f"__cuda_array_interface__{hint}"
    )


_readers: dict[type, Reader] = {}  # how arrays of a type are read


def _retyped(x: object, found: View, name: str) -> View:
    if not isinstance(name, str):
        raise TypeError(f"dtype={name!r} is not a name: give one of {', '.join(DTYPES)}, as text")
    dtype = DTYPES.get(name)
    if dtype is None:
        raise ValueError(f"dtype={name!r}: hoop has {', '.join(DTYPES)}")
    address, count, old, stream, keep = found
    if _SIZES[dtype] != _SIZES[old]:
        raise ValueError(
            f"dtype={name!r} has {_SIZES[dtype]} bytes, and the elements of this {_name(x)} have {_SIZES[old]}"
        )
    return address, count, dtype, stream, keep


def view(x: Any, writes: bool, dtype: Optional[str] = None) -> View:
    """x as libhoop sees it; writes: a result goes there; dtype: what its elements are, if the array's own type cannot say."""
    read = _readers.get(type(x))
    if read is None:
        read = _readers[type(x)] = _reader_of(x)
    found = read(x, writes)
    return found if dtype is None else _retyped(x, found, dtype)


def name_of(dtype: int) -> str:
    """ "float32" for HOOP_FLOAT32."""
    return _NAMES[dtype]


def numbers(values: Any, size: int, what: str) -> Any:
    """One number a rank as an array of size_t, for the counts and displacements of libhoop."""
    try:
        listed = [index(value) for value in values]
    except TypeError:
        raise TypeError(f"{what}={values!r}: give {size} whole numbers, one for each rank") from None
    if len(listed) != size or min(listed) < 0 or max(listed) >= 2**64:
        raise ValueError(f"{what}={listed}: give {size} numbers, one for each rank, from 0 to 2**64 - 1")
    return (c_size_t * size)(*listed)


def placed(displs: Any, size: int, what: str) -> Any:
    """numbers() of displacements; None, one block behind the other, stays None."""
    return None if displs is None else numbers(displs, size, what)
