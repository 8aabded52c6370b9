"""What a job has of a node, or is promised of it, and from when until when.

Times are seconds since the epoch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

Shards = tuple[tuple[int, int], ...]
"""Parts of shared GPUs: (position of the GPU, how many)."""
Span = tuple[float, float]
Spans = tuple[Span, ...]
NOW = -math.inf
"""As a start: nobody leaves before it."""
HORIZON_S = 20 * 366 * 86_400.0
"""Nothing is promised, nor foretold, any further ahead: twenty years. Dates end, and ten thousand
tasks of a year each, one after the other, come to more than is left of them."""


@dataclass(frozen=True, slots=True)
class Part:
    """What a job has, or would have, of one node."""

    gpus: int = 0
    """A bit for each whole GPU."""
    shards: Shards = ()
    cpus: int = 0
    memory_mib: int = 0
    alone: bool = False
    """Nobody else may be on the node."""

    def touches(self) -> int:
        """A bit for each GPU of which it has anything."""
        bits = self.gpus
        for position, _ in self.shards:
            bits |= 1 << position
        return bits


@dataclass(frozen=True, slots=True)
class Hold:
    """A part that a job has until `end` at the latest, or is promised from `start` on."""

    job_id: int
    end: float
    part: Part
    start: float = NOW


def is_open(closed: Spans, start: float, until: float) -> bool:
    """Whether none of these times overlaps."""
    for begins, ends in closed:  # noqa: SIM110 - asked so often that a generator costs too much
        if begins < until and start < ends:
            return False
    return True
