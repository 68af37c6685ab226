# SPDX-License-Identifier: MIT
"""A tensor as libhoop sees it: address, number of elements, type. No copy unless the tensor is not contiguous."""

from __future__ import annotations

from typing import Any, ContextManager, Optional

import torch
from torch import Tensor
from torch.distributed import ReduceOp

from .._library import DTYPES, OPS

_BY_NAME = {
    "int8": "int8",
    "uint8": "uint8",
    "int16": "int16",
    "uint16": "uint16",
    "int32": "int32",
    "uint32": "uint32",
    "int64": "int64",
    "uint64": "uint64",
    "float16": "float16",
    "float32": "float32",
    "float64": "float64",
    "bfloat16": "bfloat16",
    "float8_e4m3fn": "float8e4m3",
    "float8_e5m2": "float8e5m2",
    "bool": "bool",
}

# torch's types that libhoop can add up, and its number for each. A complex number is two real ones.
NUMBERS = {getattr(torch, name): DTYPES[ours] for name, ours in _BY_NAME.items() if hasattr(torch, name)}
COMPLEX = {torch.complex32: "float16", torch.complex64: "float32", torch.complex128: "float64"}

# libhoop's number of each reduction of torch, by torch's own number: torch's enumeration is slow to look up.
_Kind = ReduceOp.RedOpType
_REDUCTIONS = {
    _Kind.SUM.value: OPS["sum"],
    _Kind.PRODUCT.value: OPS["prod"],
    _Kind.MAX.value: OPS["max"],
    _Kind.MIN.value: OPS["min"],
    _Kind.AVG.value: OPS["avg"],
    _Kind.BAND.value: OPS["band"],
    _Kind.BOR.value: OPS["bor"],
    _Kind.BXOR.value: OPS["bxor"],
    _Kind.PREMUL_SUM.value: OPS["sum"],
}
_LINEAR = (_Kind.SUM, _Kind.AVG, _Kind.PREMUL_SUM)
_PREMUL_SUM = _Kind.PREMUL_SUM.value

# So many elements of libhoop's type: address, length, type. 0 elements may have the address 0. A plain tuple, because a
# call of 4 bytes takes microseconds.
Flat = tuple[int, int, int]


def is_flat(tensor: Tensor) -> bool:
    """True if the tensor's elements lie in memory one after the other, as they are, each at a multiple of its size."""
    aligned = tensor.data_ptr() % tensor.element_size() == 0  # not what torch.frombuffer made with an odd offset
    return aligned and tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


def dense(tensor: Tensor) -> Tensor:
    """The tensor itself, or a contiguous copy."""
    if tensor.layout != torch.strided:
        raise TypeError(f"hoop moves dense tensors only here, and this one is {tensor.layout}: call to_dense() first")
    if is_flat(tensor):
        return tensor
    copy = tensor.resolve_conj().resolve_neg().contiguous()
    return copy if copy.data_ptr() != tensor.data_ptr() else copy.clone()


def overlap(one: Tensor, other: Tensor) -> bool:
    """True if two dense tensors share memory."""
    first, second = one.data_ptr(), other.data_ptr()
    return first < second + other.nbytes and second < first + one.nbytes


def check_written(tensor: Tensor) -> None:
    """ValueError if two elements of the tensor share memory, so that it cannot take a result."""
    if any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape)):
        raise ValueError(
            f"an expanded tensor cannot take a result, because its elements share memory: this one has the shape "
            f"{tuple(tensor.shape)} and the strides {tensor.stride()}; pass a clone() of it"
        )


def in_place(tensor: Tensor) -> Tensor:
    """dense() of a tensor that gets the result, too. ValueError if its elements share memory."""
    work = dense(tensor)
    if work is not tensor:
        check_written(tensor)
    return work


def receiver(tensor: Tensor) -> Tensor:
    """Where the result for this tensor goes: itself, or a new contiguous one, to be copied. ValueError as in_place()."""
    if is_flat(tensor):
        return tensor
    check_written(tensor)
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def writing(tensor: Tensor) -> ContextManager[None]:
    """Within it a tensor may be written that is a parameter, or that was made under torch.inference_mode()."""
    return torch.inference_mode() if tensor.is_inference() else torch.no_grad()


def fill(tensor: Tensor, origin: Tensor) -> None:
    """Gives the tensor the elements of another one of its shape."""
    with writing(tensor):
        tensor.copy_(origin)


def joined(tensors: list[Tensor]) -> Tensor:
    """The elements of all tensors in one new array."""
    return torch.cat([dense(t).reshape(-1) for t in tensors])


def flat(tensor: Tensor) -> Flat:
    """A dense tensor's elements, to be moved. Types that libhoop does not know travel as bytes."""
    number = NUMBERS.get(tensor.dtype)
    if number is not None:
        return (tensor.data_ptr(), tensor.numel(), number)
    if tensor.dtype in COMPLEX:
        return (tensor.data_ptr(), 2 * tensor.numel(), DTYPES[COMPLEX[tensor.dtype]])
    return (tensor.data_ptr(), tensor.element_size() * tensor.numel(), DTYPES["uint8"])


def width(tensor: Tensor) -> int:
    """How many of libhoop's elements one element of the tensor is."""
    if tensor.dtype in NUMBERS:
        return 1
    return 2 if tensor.dtype in COMPLEX else tensor.element_size()


def summands(tensor: Tensor, kind: Any) -> Flat:
    """A dense tensor's elements, to be reduced by torch's operation `kind`."""
    number = NUMBERS.get(tensor.dtype)
    if number is not None:
        return (tensor.data_ptr(), tensor.numel(), number)
    if tensor.dtype not in COMPLEX:
        raise TypeError(f"hoop cannot reduce {tensor.dtype}: convert the tensor to a type such as torch.float32 first")
    if kind not in _LINEAR:
        raise TypeError(f"{kind.name} of {tensor.dtype} is not defined: complex tensors have SUM and AVG only")
    return flat(tensor)


def reduction(opts: Any) -> tuple[Any, int, Optional[Any]]:
    """torch's kind of reduction (no options: SUM), libhoop's number, and the factor of PREMUL_SUM (else None)."""
    if opts is None:
        return _Kind.SUM, OPS["sum"], None
    op = opts.reduceOp
    kind = op.op
    number = _REDUCTIONS.get(kind.value)
    if number is None:
        raise ValueError(f"hoop has no reduction {kind}")
    return kind, number, op.__getstate__()[1] if kind.value == _PREMUL_SUM else None


def same_type(tensors: list[Tensor]) -> None:
    """Raises TypeError unless all tensors have one type and one device."""
    first = tensors[0]
    for t in tensors:
        if t.dtype != first.dtype or t.device != first.device:
            raise TypeError(
                f"the tensors of one call have one type and one device, and these have {first.dtype} on {first.device} "
                f"and {t.dtype} on {t.device}"
            )
