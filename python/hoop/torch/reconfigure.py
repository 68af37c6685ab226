# SPDX-License-Identifier: MIT
"""Rings that follow one another in one group (enable_reconfigure): who is in the next one, and where its ranks meet.

A handle names a process until its next ring is up, and has what the others need if that process leads: the way to its
rendezvous server, see meeting.offer(). The process of the first handle leads. The job's name is made of the uuid and all
handles, so only ranks of one and the same ring meet. The group's store serves monitored_barrier() only.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta
from typing import Any, NamedTuple, Optional

from torch.distributed import DistBackendError, PrefixStore

from .meeting import meet_at, offer


class Ring(NamedTuple):
    """Who is in it, from this process's view."""

    job: str
    number: str  # of the first handle
    offered: str  # by that process
    rank: int
    size: int


def _read(handle: str) -> tuple[str, str]:
    """The number and the offer in a handle. Errors have the start only, because the rest is secret."""
    kind, *rest = handle.split(":", 3)
    if kind != "hoop" or len(rest) != 3 or ":" not in rest[2]:
        raise ValueError(f"this is no handle of a process on hoop: {handle[:12]!r}...")
    return rest[1], rest[2]


class Epochs:
    """The rings of one group, as far as this process knows them."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._handle = ""
        self._used: set[int] = set()

    def handle(self, rank: int) -> str:
        """This process's, the same until its next ring is up. Handles sort by their ranks."""
        if not self._handle:
            number = secrets.token_hex(8)
            self._handle = f"hoop:{rank:08d}:{number}:{offer(self._store, number)}"
        return self._handle

    def plan(self, uuid: int, handles: Any, rank: int) -> Ring:
        """The ring of these handles. A list has the order of its ranks, a set that of the text, as with gloo."""
        order = list(handles) if isinstance(handles, (list, tuple)) else sorted(handles)
        offers = [_read(handle) for handle in order]
        if len(set(order)) < len(order):
            raise ValueError("a process is in the new ring twice: one of the handles is there twice")
        if self._handle not in order:
            raise ValueError(
                f"rank {rank} is not in the new ring: its own handle is not among the {len(order)}, or is an old one, for "
                "each ring needs new handles"
            )
        if uuid in self._used:
            raise DistBackendError(f"rank {rank}: the uuid {uuid} was already used, and each reconfigure() needs a new one")
        self._used.add(uuid)
        digest = hashlib.sha256("\n".join(order).encode()).hexdigest()
        return Ring(f"torch-{uuid}-{digest[:16]}", *offers[0], order.index(self._handle), len(order))

    def join(self, ring: Ring, start: timedelta, limit: timedelta, chosen: Optional[dict[str, str]]) -> tuple[int, Any]:
        """Its communicator, and its part of the store. start: the limit of this; limit: of its operations."""
        place = ring.rank, ring.size
        comm = meet_at(ring.offered, ring.number, ring.job, self._store, place, start, limit, chosen)
        self._handle = ""
        return comm, PrefixStore(ring.job, self._store)
