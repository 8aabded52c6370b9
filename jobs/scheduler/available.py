"""What nobody has of a node at one moment, and whether a request fits into that.

GPUs are bits of an integer, in the order of their indices, so that a node is asked in a few
operations whatever it holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Sized

from jobs.scheduler.holds import Shards
from jobs.scheduler.snapshot import Gpu
from jobs.spec import Resources


class Available:
    """Of one node. Whoever comes and goes changes it."""

    __slots__ = ("alone", "cpus", "free", "gpus", "holds", "memory_mib", "shared")

    gpus: Sequence[Gpu]
    free: int
    """GPUs of which nobody has anything."""
    shared: dict[int, int]
    """Of the GPUs that are shared now: how many shards are taken."""
    cpus: int
    memory_mib: int
    alone: bool
    """Somebody has the node to itself."""
    holds: Sized
    """Who is there."""

    def fits(self, asked: Resources, mask: int) -> bool:
        """Whether the node can take its part of the request now, whatever is promised.

        `mask` has the GPUs that may serve it. Only for nodes that `fit.could_hold` it.
        """
        if self.alone or self.cpus < asked.cpus:
            return False
        if (self.free & mask).bit_count() < asked.gpus_per_node:
            return False
        if asked.memory_mib is not None and self.memory_mib < asked.memory_mib:
            return False
        if asked.exclusive and self.holds:
            return False
        return not asked.shards or self.shares_gpu(asked, mask) is not None

    def shares_gpu(self, asked: Resources, mask: int) -> int | None:
        """The GPU that its shards come from now; None if none has enough."""
        return tightest(self.gpus, asked.shards, mask, self.free, self.shared)


def tightest(
    gpus: Sequence[Gpu], number: int, mask: int, free: int, shared: Mapping[int, int]
) -> int | None:
    """Of the GPUs in `mask` the one with the fewest free shards that are enough.

    Nobody has anything of those in `free`, and of those in `shared` so many shards are taken.
    """
    enough = [one for one in free_shards(gpus, mask, free, shared) if one[0] >= number]
    return min(enough)[1] if enough else None


def free_shards(
    gpus: Sequence[Gpu], mask: int, free: int, shared: Mapping[int, int]
) -> Iterator[tuple[int, int]]:
    """How many shards are free of each of these GPUs, and its position. Of a GPU that somebody has
    alone there are none to be had."""
    for at, gpu in enumerate(gpus):
        if mask >> at & 1 and (free >> at & 1 or at in shared):
            yield gpu.shards - shared.get(at, 0), at


def take_shards(shared: dict[int, int], shards: Shards) -> None:
    """Somebody has these, too."""
    for position, number in shards:
        shared[position] = shared.get(position, 0) + number


def give_back_shards(shared: dict[int, int], shards: Shards) -> int:
    """Nobody has these any more; the GPUs of which nobody has anything then."""
    whole = 0
    for position, number in shards:
        shared[position] -= number
        if not shared[position]:
            del shared[position]
            whole |= 1 << position
    return whole
