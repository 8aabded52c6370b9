"""What is free of a node while the future is played forward: counts, and who leaves when."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Sequence

from jobs.scheduler.available import Available, give_back_shards, take_shards, tightest
from jobs.scheduler.holds import Shards, Spans
from jobs.scheduler.room import Room
from jobs.spec import Resources


class Place(Available):
    """What is free of one node at the forecast's moment."""

    __slots__ = (
        "closed", "kinds", "node", "node_id", "order", "partition", "served", "snugness",
    )  # fmt: skip

    def __init__(self, room: Room, order: int) -> None:
        self.node, self.node_id, self.gpus = room.node, room.node.id, room.gpus
        self.partition = room.node.partition
        self.order = order
        """By name."""
        self.free, self.cpus, self.memory_mib = room.free, room.cpus, room.memory_mib
        self.alone = room.alone
        self.shared = dict(room.shared)
        self.holds: list[tuple[float, int, int, Shards, int, int]] = []
        """Who is there: end, job, whole GPUs, shards, CPUs, memory; by end."""
        for job_id, held in room.holds.items():
            part = held.part
            self.holds.append(
                (math.inf, job_id, part.gpus, part.shards, part.cpus, part.memory_mib)
            )
        self.kinds = 0
        """The kinds of which it is known that a part fits here now."""
        self.served: Sequence[tuple[int, Sequence[int]]] = ()
        """The kinds that may ever be here: by the GPUs that may serve them, and by how many of
        these are free."""
        self.closed: Sequence[tuple[Spans, int]] = ()
        """When it is kept for others than these kinds."""
        self.snugness = self.free.bit_count(), self.cpus, self.order
        """Sorts the tightest first."""

    def expect(self, job_id: int, end: float) -> None:
        """Tell when somebody who is here leaves."""
        for at, held in enumerate(self.holds):
            if held[1] == job_id:
                del self.holds[at]
                insort(self.holds, (end, *held[1:]))
                return

    def opens(self, asked: Resources, mask: int) -> float:
        """When it fits if nobody else comes; infinity if that is not known."""
        if self.fits(asked, mask):
            return -math.inf
        free, cpus, memory_mib = self.free, self.cpus, self.memory_mib
        gpus_asked, cpus_asked, memory_asked = asked.gpus_per_node, asked.cpus, asked.memory_mib
        shared = dict(self.shared) if self.shared else {}
        for end, _, gpus, shards, more_cpus, more_memory in self.holds:
            free |= gpus
            if shards:
                free |= give_back_shards(shared, shards)
            cpus += more_cpus
            memory_mib += more_memory
            if cpus < cpus_asked or (free & mask).bit_count() < gpus_asked:
                continue
            if asked.shards and tightest(self.gpus, asked.shards, mask, free, shared) is None:
                continue
            if memory_asked is None or memory_mib >= memory_asked:
                return self.holds[-1][0] if asked.exclusive or self.alone else end
        return self.holds[-1][0] if self.holds else math.inf

    def take(self, job_id: int, asked: Resources, mask: int, end: float) -> None:
        """Somebody comes, who leaves then."""
        gpus = _lowest(self.free & mask, asked.gpus_per_node)
        shards: Shards = ()
        if asked.exclusive:
            gpus, self.alone = self.free, True
        elif asked.shards:
            position = self.shares_gpu(asked, mask)
            assert position is not None, "it fits"
            shards = ((position, asked.shards),)
            take_shards(self.shared, shards)
            self.free &= ~(1 << position)
        cpus, memory_mib = asked.cpus, asked.memory_mib or 0
        self.free &= ~gpus
        self.cpus -= cpus
        self.memory_mib -= memory_mib
        insort(self.holds, (end, job_id, gpus, shards, cpus, memory_mib))
        self.snugness = self.free.bit_count(), self.cpus, self.order

    def leave(self, job_id: int) -> None:
        """Somebody is gone."""
        holds, at = self.holds, 0
        while holds[at][1] != job_id:
            at += 1
        _, _, gpus, shards, cpus, memory_mib = holds.pop(at)
        self.free |= gpus
        if shards:
            self.free |= give_back_shards(self.shared, shards)
        self.cpus += cpus
        self.memory_mib += memory_mib
        if not holds:
            self.alone, self.cpus, self.memory_mib = False, self.node.cpus, self.node.memory_mib
        self.snugness = self.free.bit_count(), self.cpus, self.order


def _lowest(bits: int, number: int) -> int:
    if bits.bit_count() == number:
        return bits
    found = 0
    for _ in range(number):
        found |= bits & -bits
        bits &= bits - 1
    return found
