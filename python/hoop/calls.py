# SPDX-License-Identifier: MIT
"""From the arrays of a call to the arguments of libhoop's function. Pure: nothing is started here.

The library cannot know how long an array of Python is, so its length is compared with what the call needs here.
"""

from operator import index
from typing import Any, Optional

from ._library import DTYPES, OPS, ORDERS, WIRES
from .arrays import View, name_of, numbers, placed, view

# What the C function gets before the communicator; the arrays to keep; the caller's result; a stream, or None. A plain
# tuple, because a call of 4 bytes takes microseconds.
Call = tuple[tuple[Any, ...], object, Any, Optional[int]]


def _op(op: str) -> int:
    if not isinstance(op, str):
        raise TypeError(f"op={op!r} is not a name: give one of {', '.join(OPS)}, as text")
    number = OPS.get(op)
    if number is None:
        raise ValueError(f"op={op!r}: hoop has {', '.join(OPS)}")
    return number


def _choice(what: str, name: str, numbers: dict[str, int]) -> int:
    number = numbers.get(name) if isinstance(name, str) else None
    if number is None:
        raise ValueError(f"{what}={name!r}: hoop has {', '.join(numbers)}")
    return number


def order(name: str) -> int:
    """A hoop_order."""
    return _choice("order", name, ORDERS)


def wire(name: str) -> int:
    """A hoop_wire."""
    return _choice("wire_dtype", name, WIRES)


def residual(x: Any) -> tuple[int, int, object]:
    """Its address, its elements, and what keeps it alive."""
    address, count, number, stream, keep = view(x, True, None)
    if stream is not None:
        raise ValueError("this residual is ordered in a CUDA stream: there is no form that waits for it")
    if number != DTYPES["float32"]:
        raise ValueError(f"residual has elements of the type {name_of(number)}: give an array of float32")
    return address, count, keep


def whole(what: str, number: Any) -> int:
    """A rank, tag or color, of any type of whole numbers, as one that C's int can hold."""
    try:
        value = index(number)
    except TypeError:
        raise TypeError(f"{what}={number!r} is a {type(number).__name__}: give a whole number") from None
    if not -(2**31) <= value < 2**31:
        raise ValueError(f"{what}={value}: give a number from {-(2**31)} to {2**31 - 1}")
    return value


def _same_type(x: View, out: View) -> None:
    if x[2] != out[2]:
        raise ValueError(f"x has elements of the type {name_of(x[2])} and out of {name_of(out[2])}: give both the same")


def _expect(what: str, found: int, wanted: int, why: str) -> None:
    if found != wanted:
        raise ValueError(f"{what} has {found} elements, and this call needs {wanted}: {why}")


def _pair(x: Any, out: Any, dtype: Optional[str]) -> tuple[View, View]:
    """Both arrays; the result goes to x if out is None."""
    if out is None:
        both = view(x, True, dtype)
        return both, both
    sent, received = view(x, False, dtype), view(out, True, dtype)
    _same_type(sent, received)
    return sent, received


def _call(x: View, out: View, result: Any, *arguments: Any) -> Call:
    return (x[0], out[0], *arguments), (x[4], out[4]), result, x[3] if x[3] is not None else out[3]


def _needed(x: Any, at: str) -> None:
    if x is None:
        raise ValueError(f"{at} is None on a rank that needs it: only ranks other than the root may leave it out")


def allreduce(x: Any, op: str, out: Any, dtype: Optional[str]) -> Call:
    if out is None:
        address, count, number, stream, keep = view(x, True, dtype)
        return (address, address, count, number, _op(op)), keep, x, stream
    sent, received = _pair(x, out, dtype)
    _expect("out", received[1], sent[1], "as many as x")
    return _call(sent, received, out, sent[1], sent[2], _op(op))


def reduce_scatter(size: int, x: Any, out: Any, op: str, dtype: Optional[str]) -> Call:
    sent, received = _pair(x, out, dtype)
    _expect("x", sent[1], size * received[1], f"those of out for each of the {size} ranks")
    return _call(sent, received, out, received[1], received[2], _op(op))


def allgather(size: int, x: Any, out: Any, dtype: Optional[str]) -> Call:
    sent, received = _pair(x, out, dtype)
    _expect("out", received[1], size * sent[1], f"those of x for each of the {size} ranks")
    return _call(sent, received, out, sent[1], sent[2])


def broadcast(rank: int, x: Any, root: int, out: Any, dtype: Optional[str]) -> Call:
    root = whole("root", root)
    if out is None and root == rank:
        sent = received = view(x, False, dtype)
    else:
        sent, received = _pair(x, out, dtype)
    _expect("out", received[1], sent[1], "as many as x")
    return _call(sent, received, x if out is None else out, sent[1], sent[2], root)


def reduce(rank: int, x: Any, op: str, root: int, out: Any, dtype: Optional[str]) -> Call:
    root = whole("root", root)
    if root == rank:
        sent, received = _pair(x, out, dtype)
        _expect("out", received[1], sent[1], "as many as x")
        return _call(sent, received, x if out is None else out, sent[1], sent[2], _op(op), root)
    sent = view(x, False, dtype)
    return (sent[0], None, sent[1], sent[2], _op(op), root), sent[4], None, sent[3]


def gather(size: int, rank: int, x: Any, out: Any, root: int, dtype: Optional[str]) -> Call:
    root = whole("root", root)
    sent = view(x, False, dtype)
    if root != rank:
        return (sent[0], None, sent[1], sent[2], root), sent[4], None, sent[3]
    _needed(out, "out")
    received = view(out, True, dtype)
    _same_type(sent, received)
    _expect("out", received[1], size * sent[1], f"those of x for each of the {size} ranks")
    return _call(sent, received, out, sent[1], sent[2], root)


def scatter(size: int, rank: int, x: Any, out: Any, root: int, dtype: Optional[str]) -> Call:
    root = whole("root", root)
    received = view(out, True, dtype)
    if root != rank:
        return (None, received[0], received[1], received[2], root), received[4], out, received[3]
    _needed(x, "x")
    sent = view(x, False, dtype)
    _same_type(sent, received)
    _expect("x", sent[1], size * received[1], f"those of out for each of the {size} ranks")
    return _call(sent, received, out, received[1], received[2], root)


def alltoall(size: int, x: Any, out: Any, dtype: Optional[str]) -> Call:
    sent, received = _pair(x, out, dtype)
    _expect("out", received[1], sent[1], "as many as x")
    if sent[1] % size:
        raise ValueError(f"x has {sent[1]} elements, which is no multiple of the {size} ranks")
    return _call(sent, received, x if out is None else out, sent[1] // size, sent[2])


def message(x: Any, writes: bool, peer: int, tag: int, dtype: Optional[str]) -> Call:
    array = view(x, writes, dtype)
    return (array[0], array[1], array[2], whole("peer", peer), whole("tag", tag)), array[4], x, array[3]


# --- blocks of different sizes -------------------------------------------------------------------------------------


def _blocks_fit(what: str, array: View, counts: Any, displs: Any) -> None:
    if displs is None:
        _expect(what, array[1], sum(counts), "the sum of the counts")
        return
    end = max((start + count for start, count in zip(displs, counts) if count), default=0)
    if end > array[1]:
        raise ValueError(f"{what} has {array[1]} elements, and a block ends at {end}")


def allgatherv(size: int, rank: int, x: Any, out: Any, counts: Any, displs: Any, dtype: Optional[str]) -> Call:
    sent, received = _pair(x, out, dtype)
    counts, displs = numbers(counts, size, "counts"), placed(displs, size, "displs")
    _expect("x", sent[1], counts[rank], f"counts[{rank}]")
    _blocks_fit("out", received, counts, displs)
    return _call(sent, received, out, sent[1], counts, displs, sent[2])


def reduce_scatterv(
    size: int, rank: int, x: Any, out: Any, counts: Any, displs: Any, op: str, dtype: Optional[str]
) -> Call:
    sent, received = _pair(x, out, dtype)
    counts, displs = numbers(counts, size, "counts"), placed(displs, size, "displs")
    _expect("out", received[1], counts[rank], f"counts[{rank}]")
    _blocks_fit("x", sent, counts, displs)
    return _call(sent, received, out, counts, displs, sent[2], _op(op))


def alltoallv(
    size: int,
    x: Any,
    out: Any,
    sendcounts: Any,
    recvcounts: Any,
    senddispls: Any,
    recvdispls: Any,
    dtype: Optional[str],
) -> Call:
    sent, received = _pair(x, out, dtype)
    sendcounts, senddispls = numbers(sendcounts, size, "sendcounts"), placed(senddispls, size, "senddispls")
    recvcounts, recvdispls = numbers(recvcounts, size, "recvcounts"), placed(recvdispls, size, "recvdispls")
    _blocks_fit("x", sent, sendcounts, senddispls)
    _blocks_fit("out", received, recvcounts, recvdispls)
    return _call(sent, received, out, sendcounts, senddispls, recvcounts, recvdispls, sent[2])
