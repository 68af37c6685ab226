# SPDX-License-Identifier: MIT
"""A communication hook of DistributedDataParallel: gradients travel in half the bytes or a quarter, and no rounding is lost.

The gradients travel as bfloat16 or e4m3 and are added up in float32 (hoop_allreduce(3)). What rounding has taken away on this
rank is added to the gradients of the next step (error feedback: Seide and others, "1-bit stochastic gradient descent",
2014; Karimireddy and others, "Error feedback fixes SignSGD", 2019).
"""

# DDP compares the annotations of a hook with its types: here they are no strings.

from typing import Any, Optional

import torch
import torch.distributed as dist
from torch import Tensor


class Compression:
    """What compress_hook keeps: model.register_comm_hook(Compression(), compress_hook).

    group: the model's process group, one of hoop; None: that of all ranks. wire_dtype: the type in which the gradients
    travel, "bfloat16" or "e4m3"; the same on all ranks. It takes as much memory as the gradients. A
    checkpoint need not have it: at a start nothing is left. Each model has one of its own.
    """

    def __init__(self, group: Any = None, wire_dtype: str = "bfloat16") -> None:
        if wire_dtype not in ("bfloat16", "e4m3"):
            raise ValueError(f"wire_dtype={wire_dtype!r}: compress_hook has bfloat16, e4m3")
        self.group = group
        self.wire_dtype = wire_dtype
        self._left: dict[int, tuple[list[Tensor], Tensor, int]] = {}

    def left(self, bucket: Any, ring: int) -> Tensor:
        """What rounding has taken from this bucket's gradients. DDP forms its buckets anew after the first step: then that
        of the first step is lost.

        ring: the number of the group's ring (Operations.ring). In another ring other elements may be this rank's to round, so
        what was left in the one before is added to the gradients at once."""
        parameters, gradients = list(bucket.parameters()), bucket.buffer()
        known, left, before = self._left.get(bucket.index(), ([], None, ring))
        same = len(known) == len(parameters) and all(a is b for a, b in zip(known, parameters))
        if left is None or not same or left.numel() != gradients.numel():
            left = torch.zeros_like(gradients)
        elif before != ring:
            gradients.add_(left)
            left.zero_()
        self._left[bucket.index()] = (parameters, left, ring)
        return left


def _operations(group: Any) -> Optional[Any]:
    """The Python half of a group of hoop; None: it is another backend's."""
    from .operations import Operations

    try:
        backend = group._get_backend(torch.device("cpu"))
    except RuntimeError:  # the group has none for the CPU
        backend = None
    for one in (group, backend):
        found = getattr(one, "wrapped_pg", one)
        if isinstance(found, Operations):
            return found
    return None


def compress_hook(state: Compression, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    """The mean of a bucket's gradients over the group. Other types than float32, and short buckets, keep all their bits."""
    group = state.group or dist.group.WORLD
    gradients = bucket.buffer()
    operations = _operations(group)
    if operations is None:
        raise TypeError(f"compress_hook is for groups of hoop, and this one is of {dist.get_backend(group)}")
    if not gradients.is_cpu:
        raise TypeError(f"compress_hook is for gradients on the CPU, and these are on {gradients.device}")
    if gradients.dtype != torch.float32:
        work = dist.all_reduce(gradients, dist.ReduceOp.AVG, group, async_op=True)
    else:
        work = operations.average_as(state.wire_dtype, gradients, state.left(bucket, operations.ring))
    return work.get_future().then(lambda future: future.value()[0])
