# SPDX-License-Identifier: MIT
"""What a rank knows of itself."""

from dataclasses import dataclass
from typing import Optional

from ._library import Stats as _Struct

_UNKNOWN = 2**64 - 1


@dataclass(frozen=True)
class Stats:
    """What a rank knows of its operations and waits; hoop_comm_stats(3) defines every figure. Times are nanoseconds.

    Those of the present: outside_ns, slowest_rank (-1: none), rtt_us, delivery_rate, clock_offset_ns, clock_error_ns
    (None: the clocks were not compared), shares_memory (data to the next rank passes through memory), in_rank_order and
    algorithm (of the collective that ended last). All others count since the communicator was made.
    """

    operations: int
    messages: int
    bytes_sent: int
    bytes_received: int
    inside_ns: int
    outside_ns: int
    waited_peer_ns: int
    waited_link_ns: int
    waited_stream_ns: int
    waited_reduction_ns: int
    slowest_ns: int
    slowest_rank: int
    rtt_us: int
    retransmits: int
    delivery_rate: int
    entries: int
    entered_ns: int
    entered_error_ns: int
    clock_offset_ns: int
    clock_error_ns: Optional[int]
    shares_memory: bool
    in_rank_order: bool
    algorithm: str
    repairs: int
    narrowed: int
    narrowed_e4m3: int
    levels: int


def stats_of(struct: _Struct) -> Stats:
    """The figures of a filled hoop_stats."""
    figures = {name: getattr(struct, name) for name, *_ in _Struct._fields_ if name != "size"}
    if figures["clock_error_ns"] == _UNKNOWN:
        figures["clock_error_ns"] = None
    figures["shares_memory"] = bool(figures["shares_memory"])
    figures["in_rank_order"] = figures["in_rank_order"] == 1
    figures["algorithm"] = figures["algorithm"].decode()
    return Stats(**figures)
