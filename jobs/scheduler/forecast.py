"""When a request would fit if every running job used its whole walltime."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from jobs.scheduler.room import Room
from jobs.scheduler.snapshot import Gpu, Running
from jobs.spec import Resources


@dataclass(frozen=True)
class Ending:
    """A job leaves a node, at the latest then, and gives this back."""

    at: datetime
    job_id: int
    label: str
    node_id: int
    gpus: tuple[Gpu, ...]
    cpus: int
    memory_mib: int


@dataclass(frozen=True)
class Opening:
    """The request fits on `nodes` at `at` at the latest, when these have ended there."""

    at: datetime
    nodes: tuple[str, ...]
    endings: tuple[Ending, ...]


def endings(running: Iterable[Running], rooms: Iterable[Room]) -> list[Ending]:
    """What the end of each running job gives back, node by node."""
    by_node = {room.node.id: room.node for room in rooms}
    return [
        Ending(
            at=job.ends_by,
            job_id=job.id,
            label=job.label,
            node_id=node_id,
            gpus=tuple(gpu for gpu in by_node[node_id].gpus if gpu.job_id == job.id),
            cpus=job.cpus_per_node,
            memory_mib=job.memory_mib_per_node,
        )
        for job in running
        for node_id in sorted(set(job.node_ids))
        if node_id in by_node
    ]


def opening(asked: Resources, rooms: Sequence[Room], ends: Iterable[Ending]) -> Opening | None:
    """The first moment at which the request surely fits; None when no end is known that helps.

    `rooms` are those that could hold it; they are not changed.
    """
    tried = {room.node.id: room.copy() for room in rooms}
    open_ids = {node_id for node_id, room in tried.items() if room.fits(asked)}
    past: list[Ending] = []
    for end in sorted(ends, key=lambda end: (end.at, end.job_id, end.node_id)):
        room = tried.get(end.node_id)
        if room is None:
            continue
        room.release(end.job_id, end.gpus, end.cpus, end.memory_mib)
        past.append(end)
        if room.fits(asked):
            open_ids.add(end.node_id)
        if len(open_ids) >= asked.nodes:
            chosen = sorted((tried[node_id] for node_id in open_ids), key=Room.snugness)
            used = {room.node.id for room in chosen[: asked.nodes]}
            return Opening(
                at=end.at,
                nodes=tuple(r.node.name for r in sorted(chosen[: asked.nodes], key=_by_name)),
                endings=tuple(found for found in past if found.node_id in used),
            )
    return None


def _by_name(room: Room) -> tuple[object, ...]:
    return room.order
