"""What is free of a node while the future is played forward: counts, and who leaves when."""

from __future__ import annotations

import math
from bisect import insort

from jobs.scheduler.room import Room
from jobs.scheduler.shape import Shape


class Place:
    """What is free of one node at the forecast's moment."""

    __slots__ = ("alone", "cpus", "free", "holds", "known", "memory_mib", "node_id", "room")

    def __init__(self, room: Room) -> None:
        self.room = room
        self.node_id = room.node.id
        self.free, self.cpus, self.memory_mib = room.free, room.cpus, room.memory_mib
        self.alone = room.alone
        self.known: dict[int, float] = {}
        """What `fits_from` has found since something last changed here."""
        self.holds: list[tuple[float, int, int, int, int]] = []
        """Who is there: end, job, GPUs, CPUs, memory; by end."""
        for job_id, held in room.holds.items():
            part = held.part
            self.holds.append((math.inf, job_id, part.touches(), part.cpus, part.memory_mib))

    def expect(self, job_id: int, end: float) -> bool:
        """Tell when somebody who is here leaves; False if nobody of that name is here."""
        self.known.clear()
        for at, (_, holder, *what) in enumerate(self.holds):
            if holder == job_id:
                del self.holds[at]
                insort(self.holds, (end, holder, what[0], what[1], what[2]))
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
        usable = self.free & shape.masks[self.node_id]
        return usable.bit_count() >= (asked.gpus_per_node or bool(asked.shards))

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
        for end, _, gpus, more_cpus, more_memory in self.holds:
            free |= gpus
            cpus += more_cpus
            memory_mib += more_memory
            if (free & mask).bit_count() < asked.gpus_per_node or cpus < asked.cpus:
                continue
            if asked.memory_mib is None or memory_mib >= asked.memory_mib:
                return self.holds[-1][0] if asked.exclusive or self.alone else end
        return self.holds[-1][0] if self.holds else math.inf

    def take(self, job_id: int, shape: Shape, end: float) -> None:
        asked = shape.asked
        usable = self.free & shape.masks[self.node_id]
        gpus = 0
        for _ in range(asked.gpus_per_node or bool(asked.shards)):
            gpus |= usable & -usable
            usable &= usable - 1
        if asked.exclusive:
            gpus, self.alone = self.free, True
        self.known.clear()
        held = (end, job_id, gpus, asked.cpus, asked.memory_mib or 0)
        self.free &= ~gpus
        self.cpus -= asked.cpus
        self.memory_mib -= asked.memory_mib or 0
        insort(self.holds, held)

    def leave(self, job_id: int) -> None:
        self.known.clear()
        for at, (_, holder, gpus, cpus, memory_mib) in enumerate(self.holds):
            if holder == job_id:
                del self.holds[at]
                self.free |= gpus
                self.cpus += cpus
                self.memory_mib += memory_mib
                break
        if not self.holds:
            node = self.room.node
            self.alone, self.cpus, self.memory_mib = False, node.cpus, node.memory_mib
