"""What is free of a node while the future is played forward: counts, and who leaves when."""

from __future__ import annotations

import math
from bisect import insort

from jobs.scheduler.holds import Shards
from jobs.scheduler.room import Room
from jobs.scheduler.shape import Shape
from jobs.spec import Resources


class Place:
    """What is free of one node at the forecast's moment."""

    __slots__ = (
        "alone", "cpus", "free", "holds", "known", "memory_mib", "node", "node_id", "room", "shared"
    )  # fmt: skip

    def __init__(self, room: Room) -> None:
        self.room = room
        self.node, self.node_id = room.node, room.node.id
        self.free, self.cpus, self.memory_mib = room.free, room.cpus, room.memory_mib
        self.alone = room.alone
        self.shared = dict(room.shared)
        """Of the GPUs that are shared: how many shards are taken."""
        self.known: dict[int, float] = {}
        """What `fits_from` has found since something last changed here."""
        self.holds: list[tuple[float, int, int, Shards, int, int]] = []
        """Who is there: end, job, whole GPUs, shards, CPUs, memory; by end."""
        for job_id, held in room.holds.items():
            part = held.part
            self.holds.append(
                (math.inf, job_id, part.gpus, part.shards, part.cpus, part.memory_mib)
            )

    def expect(self, job_id: int, end: float) -> bool:
        """Tell when somebody who is here leaves; False if nobody of that name is here."""
        self.known.clear()
        for at, held in enumerate(self.holds):
            if held[1] == job_id:
                del self.holds[at]
                insort(self.holds, (end, *held[1:]))
                return True
        return False

    def snugness(self) -> tuple[object, ...]:
        """Sorts the tightest first."""
        return self.free.bit_count(), self.cpus, self.room.order

    def fits(self, shape: Shape) -> bool:
        asked = shape.asked
        if self.cpus < asked.cpus or self.alone or (asked.exclusive and self.holds):
            return False
        if asked.memory_mib is not None and self.memory_mib < asked.memory_mib:
            return False
        mask = shape.masks[self.node_id]
        if asked.shards:
            return self.part(asked, mask) is not None
        return (self.free & mask).bit_count() >= asked.gpus_per_node

    def part(self, asked: Resources, mask: int) -> int | None:
        """The GPU with the least room that is enough for its shards; None if none has enough."""
        return _part(self.room, asked, mask, self.free, self.shared)

    def fits_from(self, shape: Shape) -> float:
        """When it fits if nobody else comes; infinity if that is not known."""
        found = self.known.get(id(shape))
        if found is None:
            found = self.known[id(shape)] = self._fits_from(shape)
        return found

    def _fits_from(self, shape: Shape) -> float:
        if self.fits(shape):
            return -math.inf
        asked, mask = shape.asked, shape.masks[self.node_id]
        free, cpus, memory_mib = self.free, self.cpus, self.memory_mib
        shared = dict(self.shared) if self.shared else {}
        for end, _, gpus, shards, more_cpus, more_memory in self.holds:
            free |= gpus
            if shards:
                free |= _given_back(shared, shards)
            cpus += more_cpus
            memory_mib += more_memory
            if (free & mask).bit_count() < asked.gpus_per_node or cpus < asked.cpus:
                continue
            if asked.shards and _part(self.room, asked, mask, free, shared) is None:
                continue
            if asked.memory_mib is None or memory_mib >= asked.memory_mib:
                return self.holds[-1][0] if asked.exclusive or self.alone else end
        return self.holds[-1][0] if self.holds else math.inf

    def take(self, job_id: int, shape: Shape, end: float) -> None:
        asked, mask = shape.asked, shape.masks[self.node_id]
        usable = self.free & mask
        gpus = 0
        for _ in range(asked.gpus_per_node):
            gpus |= usable & -usable
            usable &= usable - 1
        shards: Shards = ()
        if asked.exclusive:
            gpus, self.alone = self.free, True
        elif asked.shards:
            position = self.part(asked, mask)
            assert position is not None, "it fits"
            shards = ((position, asked.shards),)
            self.shared[position] = self.shared.get(position, 0) + asked.shards
            self.free &= ~(1 << position)
        self.known.clear()
        self.free &= ~gpus
        self.cpus -= asked.cpus
        self.memory_mib -= asked.memory_mib or 0
        insort(self.holds, (end, job_id, gpus, shards, asked.cpus, asked.memory_mib or 0))

    def leave(self, job_id: int) -> None:
        self.known.clear()
        for at, (_, holder, gpus, shards, cpus, memory_mib) in enumerate(self.holds):
            if holder == job_id:
                del self.holds[at]
                self.free |= gpus
                if shards:
                    self.free |= _given_back(self.shared, shards)
                self.cpus += cpus
                self.memory_mib += memory_mib
                break
        if not self.holds:
            node = self.room.node
            self.alone, self.cpus, self.memory_mib = False, node.cpus, node.memory_mib


def _given_back(shared: dict[int, int], shards: Shards) -> int:
    """Take these off; the GPUs of which nobody has anything then."""
    whole = 0
    for position, number in shards:
        shared[position] -= number
        if not shared[position]:
            del shared[position]
            whole |= 1 << position
    return whole


def _part(room: Room, asked: Resources, mask: int, free: int, shared: dict[int, int]) -> int | None:
    places = [
        (gpu.shards - shared.get(at, 0), at)
        for at, gpu in enumerate(room.gpus)
        if mask >> at & 1
        and (free >> at & 1 or at in shared)
        and gpu.shards - shared.get(at, 0) >= asked.shards
    ]
    return min(places)[1] if places else None
