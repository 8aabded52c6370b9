"""The nodes of a partition as `fragmentation.py` sees them, and the node it would take of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from jobs.scheduler.fragmentation import Fragmentation, Vacancy
from jobs.scheduler.room import Room
from jobs.scheduler.snapshot import Gpu, Node
from jobs.scheduler.typical import Request, Typical, typical
from jobs.spec import Resources

Bools = NDArray[np.bool_]

_NOTHING = -1
"""CPUs of a node that somebody has alone: fewer than anybody asks for."""


class Packing:
    """Kept from pass to pass, in each of which something else may be typical."""

    def __init__(self, rooms: Sequence[Room]) -> None:
        self._rooms = {room.node.name: room for room in rooms}
        self._largest = max((gpu.shards for room in rooms for gpu in room.gpus), default=0) or 1
        found = sorted({_kind(room.node, gpu) for room in rooms for gpu in room.gpus})
        names = {kind: f"{number:04d}" for number, kind in enumerate(found)}
        self._kinds = {
            room.node.id: [names[_kind(room.node, gpu)] for gpu in room.gpus] for room in rooms
        }
        """By node id, for each GPU."""
        self._shards = {
            self._kinds[room.node.id][at]: gpu.shards or self._largest
            for room in rooms
            for at, gpu in enumerate(room.gpus)
        }
        """What is not divided counts as what is, which no shards can be had of."""
        self._nodes = Fragmentation(map(self._vacancy, rooms), Typical(), self._shards)

    def request(
        self, asked: Resources, able: Sequence[Room], masks: Mapping[int, int]
    ) -> Request | None:
        """What is asked of one node; None if none could hold it.

        `able` could, and `masks` are the GPUs there that serve, by node id.
        """
        kinds = {
            self._kinds[room.node.id][at]
            for room in able
            for at, gpu in enumerate(room.gpus)
            if masks[room.node.id] >> at & 1 and gpu.shards >= asked.shards
        }
        any_will = len(kinds) == len(self._shards) or not (asked.gpus_per_node or asked.shards)
        request = Request(
            gpus=asked.gpus_per_node,
            shards=asked.shards,
            cpus=asked.cpus,
            memory=asked.memory_mib or 0,
            models=frozenset() if any_will else frozenset(kinds),
        )
        return request if able else None

    def expect(self, asked: Iterable[tuple[Request | None, int]]) -> None:
        """This is what is asked for now, and how often."""
        self._nodes.expect(typical(_merged(asked)))

    def follow(self, changed: Iterable[Room]) -> None:
        """These have other things left than before."""
        for room in changed:
            self._nodes.update(self._vacancy(room))

    def among(self, rooms: Collection[Room]) -> Bools | None:
        """These as `choose` wants them."""
        if len(rooms) == len(self._rooms):
            return None
        names = {room.node.name for room in rooms}
        return np.array([name in names for name in self._nodes.names], dtype=np.bool_)

    def choose(self, request: Request, allowed: Bools | None) -> tuple[Room, int | None] | None:
        """The best of these nodes, and of which of its GPUs the shards are; None if none fits."""
        found = self._nodes.choose(request, allowed)
        if found is None:
            return None
        name, gpus = found
        return self._rooms[name], gpus[0] if request.shards else None

    def _vacancy(self, room: Room) -> Vacancy:
        kinds = self._kinds[room.node.id]
        return Vacancy(
            room.node.name,
            _NOTHING if room.alone else room.cpus,
            max(0, room.memory_mib),
            tuple((kind, self._free(room, at)) for at, kind in enumerate(kinds)),
        )

    def _free(self, room: Room, at: int) -> int:
        taken = room.shared.get(at)
        if taken is not None:
            return max(0, room.gpus[at].shards - taken)
        return (room.gpus[at].shards or self._largest) if room.free >> at & 1 else 0


def _kind(node: Node, gpu: Gpu) -> tuple[object, ...]:
    """GPUs of one kind serve the same requests, as far as those name no nodes."""
    models = tuple(sorted({other.model for other in node.gpus}))
    return gpu.model, gpu.shards, models, tuple(sorted(node.features))


def _merged(asked: Iterable[tuple[Request | None, int]]) -> dict[Request, float]:
    """Those for GPUs, with the mean of their memory where they differ in nothing else."""
    counts: dict[Request, float] = defaultdict(float)
    memory: dict[Request, float] = defaultdict(float)
    for request, number in asked:
        if request is not None and (request.gpus or request.shards):
            kin = replace(request, memory=0)
            counts[kin] += number
            memory[kin] += number * request.memory
    return {
        replace(kin, memory=round(memory[kin] / number)): number for kin, number in counts.items()
    }
