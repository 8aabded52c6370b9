"""How many nodes have how many GPUs free: enough to see that nothing can start."""

from __future__ import annotations

from collections.abc import Iterable

from jobs.scheduler.room import Room
from jobs.spec import Resources


class Census:
    """Of one partition."""

    def __init__(self, rooms: Iterable[Room]) -> None:
        self._free: dict[int, int] = {}
        self._nodes: list[int] = [0]
        """By the number of GPUs that are free."""
        self.look(rooms)

    def look(self, rooms: Iterable[Room]) -> None:
        """Something has begun or ended there."""
        for room in rooms:
            before, free = self._free.get(room.node.id), room.free.bit_count()
            if before is not None:
                self._nodes[before] -= 1
            while len(self._nodes) <= free:
                self._nodes.append(0)
            self._nodes[free] += 1
            self._free[room.node.id] = free

    def has_room(self, asked: Resources) -> bool:
        """False: no request like this fits now. True: it may."""
        return sum(self._nodes[asked.gpus_per_node :]) >= asked.nodes
