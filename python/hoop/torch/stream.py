# SPDX-License-Identifier: MIT
"""Operations on a GPU's tensors: in the order of a CUDA stream. Not tried on a GPU yet; see hoop_torch(7)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Optional

import torch
from torch import Tensor
from torch._C._distributed_c10d import Work as _TorchWork
from torch.futures import Future

from .work import ANSWER, answers

_side: dict[tuple[torch.device, str], Any] = {}  # for asynchronous operations: one stream a device and road


def op_stream(tensors: list[Tensor], asynchronous: bool, road: str) -> Any:
    """The current stream; for an asynchronous operation the device's side stream, ordered behind it.

    Operations on one road keep their order. Messages to each rank, and those from it, have a road of their own: two
    ranks that both send before they receive would else wait for each other.
    """
    device = tensors[0].device
    current = torch.cuda.current_stream(device)
    if not asynchronous:
        return current
    stream = _side.get((device, road))
    if stream is None:
        stream = _side[device, road] = torch.cuda.Stream(device=device)
    stream.wait_stream(current)
    for tensor in tensors:
        tensor.record_stream(stream)
    return stream


class StreamWork(_TorchWork):
    """An operation on a stream: who waits lets its own current stream wait, not the thread."""

    def __init__(self, stream: Any, result: Any) -> None:
        super().__init__()
        self._stream, self._result = stream, result
        self._event = torch.cuda.Event()
        self._event.record(stream)

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        self._event.wait(torch.cuda.current_stream(self._stream.device))
        return True

    synchronize = wait

    def is_completed(self) -> bool:
        return bool(self._event.query())

    def result(self) -> Any:
        return self._result

    def get_future(self) -> Any:
        if answers(self):
            return ANSWER
        future: Any = Future(devices=[self._stream.device])
        with torch.cuda.stream(self._stream):
            future.set_result(self._result)
        return future
