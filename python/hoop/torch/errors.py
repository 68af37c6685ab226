# SPDX-License-Identifier: MIT
"""PyTorch's exceptions with libhoop's sentences; the HoopError with code and rank is the exception's hoop_error.

It is not the exception's __cause__, because a traceback of the interpreter would print every sentence twice then.
"""

from __future__ import annotations

import re
from typing import Any, Optional, Sequence

from torch.distributed import DistBackendError, DistStoreError

from .._library import RESULTS
from ..errors import error_of

_CLASSES: dict[int, type[Exception]] = {
    RESULTS["HOOP_ERR_INVALID_ARGUMENT"]: ValueError,
    RESULTS["HOOP_ERR_UNSUPPORTED"]: NotImplementedError,
}
_TIMEOUT = RESULTS["HOOP_ERR_TIMEOUT"]
_MISMATCH = RESULTS["HOOP_ERR_MISMATCH"]

# torch's names of libhoop's operations, where they differ.
_NAMES = {"allreduce": "all_reduce", "allgather": "all_gather", "reduce_scatterv": "reduce_scatter"}
_NAMES |= {"allgatherv": "all_gather", "alltoall": "all_to_all", "alltoallv": "all_to_all"}
_FUNCTION = re.compile(r"^hoop_(i(?!group))?")
_OPERATION = re.compile(r"\b(" + "|".join(sorted(_NAMES, key=len, reverse=True)) + r")\b")

_members: dict[int, list[int]] = {}  # of a handle: the ranks of its group as the program counts them


def name_members(comm: int, ranks: Sequence[int]) -> None:
    """From now on errors of `comm` say which ranks of the program its ranks are; none: no longer."""
    if list(ranks) == list(range(len(ranks))):
        _members.pop(comm, None)
    else:
        _members[comm] = list(ranks)


def _in_torch_words(text: str) -> str:
    return _OPERATION.sub(lambda match: _NAMES[match[0]], _FUNCTION.sub("", text))


def _who(text: str, comm: Optional[int]) -> str:
    """Which ranks of the program those of the sentence are, if the group counts differently."""
    members = _members.get(comm or 0, [])
    named = sorted({int(rank) for rank in re.findall(r"\brank (\d+)", text)})
    pairs = [f"rank {rank} is rank {members[rank]} of the program" for rank in named if rank < len(members)]
    return f" (in this group {', '.join(pairs)})" if pairs else ""


def _what(code: int, tensors: Any) -> str:
    """What this rank passed, if that differs from what other ranks did. tensors: a list, or a list of lists."""
    while tensors and isinstance(tensors[0], list):
        tensors = tensors[0]
    if code != _MISMATCH or not tensors:
        return ""
    shapes = ", ".join(str(tuple(tensor.shape)) for tensor in tensors[:4]) + ", ..." * (len(tensors) > 4)
    return f"; the result of this rank's call is {tensors[0].dtype} of shape {shapes}"


def failure(code: int, comm: Optional[int] = None, tensors: Any = ()) -> Exception:
    """The exception for `code`, which a function of libhoop returned to this thread.

    comm: a handle, or None. tensors: what the failed call should have filled.

    ValueError for arguments, NotImplementedError for what hoop cannot do, else DistBackendError. The text of a time-out
    contains " timeout ", by which programs recognize it.
    """
    why = error_of(code, comm)
    text = ("the timeout expired: " if code == _TIMEOUT else "") + _in_torch_words(str(why))
    text += _what(code, tensors) + _who(text, comm)
    error: Exception = _CLASSES.get(code, DistBackendError)(text)
    error.__dict__["hoop_error"] = why
    return error


def store_failure(rank: int, what: str, why: Exception) -> DistStoreError:
    """The exception of a rank that could not use the group's store."""
    short = str(why).splitlines()[0]  # torch adds its stack
    return DistStoreError(f"rank {rank} could not {what}: is the process that runs the store still alive? ({short})")
