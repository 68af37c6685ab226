# SPDX-License-Identifier: MIT
"""monitored_barrier: over the group's own part of its store, so that it ends when the ring does not.

Each rank says that it has come; rank 0 waits for each of them, and then tells all how it ended.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from torch.distributed import DistBackendError

_PASSED = b"passed"


def _comes(store: Any, key: str, limit: float) -> bool:
    """Whether the key is there within so many seconds. The wait inside torch's stores would keep Ctrl-C waiting as well."""
    end, pause = time.monotonic() + limit, 0.001
    while not store.check([key]):
        if time.monotonic() > end:
            return False
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
    return True


def _missing(store: Any, prefix: str, size: int, limit: timedelta, all_ranks: bool) -> list[int]:
    """The ranks that have not come in time; without all_ranks the first of them only."""
    missing = []
    end = time.monotonic() + limit.total_seconds()
    for rank in range(1, size):
        if _comes(store, f"{prefix}/{rank}", end - time.monotonic()):
            continue
        missing.append(rank)
        if not all_ranks:
            break
    return missing


def _complaint(missing: list[int], limit: timedelta, all_ranks: bool) -> str:
    """In gloo's words, which are "Ranks 1" where all ranks were waited for and one has not come."""
    who = ("Ranks " if all_ranks else "Rank ") + ", ".join(map(str, missing))
    return f"{who} failed to pass monitoredBarrier in {limit / timedelta(milliseconds=1):.0f} ms"


def _lead(store: Any, prefix: str, size: int, limit: timedelta, all_ranks: bool) -> None:
    if limit <= timedelta(0):
        raise DistBackendError(f"Rank 0 timed out in monitoredBarrier after {limit / timedelta(milliseconds=1):.0f} ms")
    missing = _missing(store, prefix, size, limit, all_ranks)
    text = _complaint(missing, limit, all_ranks) if missing else ""
    store.set(f"{prefix}/end", text.encode() or _PASSED)
    if missing:
        raise DistBackendError(text)


def _follow(store: Any, prefix: str, rank: int, limit: timedelta) -> None:
    store.set(f"{prefix}/{rank}", b"here")
    try:
        judged = _comes(store, f"{prefix}/end", 2 * limit.total_seconds() + 1)  # by rank 0
        end = bytes(store.get(f"{prefix}/end")) if judged else b"the timeout expired before rank 0 ended it"
    except RuntimeError as why:
        end = f"the store of rank 0 is gone ({why})".encode()
    if end != _PASSED:
        raise DistBackendError(
            f"Rank {rank} successfully reached monitoredBarrier, but received errors while waiting for send/recv from "
            f"rank 0: {end.decode()}"
        )


def monitored_barrier(
    store: Any, turn: int, rank: int, size: int, limit: timedelta, all_ranks: bool
) -> None:
    """Returns when all ranks have called it for the turn-th time, else raises within about the limit."""
    prefix = f"barrier/{turn}"
    if rank == 0:
        _lead(store, prefix, size, limit, all_ranks)
    else:
        _follow(store, prefix, rank, limit)
