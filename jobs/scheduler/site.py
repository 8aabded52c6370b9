"""Where a job would be: which nodes of those that fit, and what it would have of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jobs.scheduler.holds import Part
from jobs.scheduler.room import Room
from jobs.scheduler.snapshot import Placement
from jobs.scheduler.topology import Key, compact
from jobs.spec import Resources

Rooms = list[Room]
Site = list[tuple[Room, Part]]
"""A part of each node, by the nodes' names."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The nodes to take for a request, whose GPUs there are in `masks`, by node id."""

    asked: Resources
    masks: Mapping[int, int]
    rooms: Rooms
    gpu: int | None = None
    """Where shards should come from, if that has been found."""

    def site(self, start: float, until: float) -> Site:
        """What it would have of them then."""
        return [
            (room, room.part(self.asked, self.masks[room.node.id], start, until, self.gpu))
            for room in self.rooms
        ]


def choose(asked: Resources, fitting: Sequence[Room], key: Key = Room.snugness) -> Rooms | None:
    """The nodes to use of those that fit, by name; None if there are too few."""
    if len(fitting) < asked.nodes:
        return None
    if asked.nodes == 1:
        return [min(fitting, key=key)]
    chosen = compact(fitting, asked.nodes, key, asked.max_switches)
    return sorted(chosen, key=by_name) if chosen else None


def by_name(room: Room) -> tuple[object, ...]:
    return room.order


def placement(room: Room, part: Part) -> Placement:
    """A part of a node as the plan gives it."""
    bits = part.touches()
    uuids = tuple(gpu.uuid for at, gpu in enumerate(room.gpus) if bits >> at & 1)
    shards = sum(shards for _, shards in part.shards)
    return Placement(room.node.id, uuids, part.cpus, part.memory_mib, shards)
