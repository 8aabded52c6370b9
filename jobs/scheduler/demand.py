"""How many GPUs a request counts as, for quotas and for its size.

Whole GPUs are counted one by one, parts as fractions of theirs, and of a node that a job wants to
itself all that it has. What a request comes to may depend on where it is placed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from jobs.scheduler.fit import could_hold, usable_models
from jobs.scheduler.room import Room
from jobs.scheduler.snapshot import Gpu, Node
from jobs.spec import Resources


def part_of(gpu: Gpu, asked: Resources) -> float:
    """What the shards asked for are of this GPU; infinity where it has too few."""
    return asked.shards / gpu.shards if gpu.shards >= asked.shards else math.inf


def counts(node: Node, asked: Resources, most: float = math.inf) -> tuple[float, ...]:
    """What its part on a node that could hold it may come to, ascending, up to `most`.

    Several where the node's GPUs are divided differently.
    """
    if asked.exclusive:
        found = {float(len(node.gpus))}
    elif asked.shards:
        models = usable_models(node, asked)
        found = {part_of(gpu, asked) for gpu in node.gpus if gpu.model in models}
    else:
        found = {float(asked.gpus_per_node)}
    return tuple(sorted(count for count in found if count <= most and count < math.inf))


def mask(
    room: Room, asked: Resources, most: float = math.inf, models: frozenset[str] | None = None
) -> int:
    """The GPUs of a node that may serve the request, its part of each being no more than `most`.

    `models`: of those that it may use; None: all.
    """
    every = room.mask(asked)
    if models is not None:
        every &= sum(bits for model, bits in room.models.items() if model in models)
    if not asked.shards or most == math.inf:
        return every
    fine = (1 << at for at, gpu in enumerate(room.gpus) if part_of(gpu, asked) <= most)
    return every & sum(fine)


def least(nodes: Iterable[Node], asked: Resources) -> float:
    """The fewest GPUs that it may come to on these nodes, in all."""
    if not asked.exclusive and not asked.shards:
        return float(asked.gpus)
    return fewest((counts(node, asked) for node in nodes if could_hold(node, asked)), asked)


def fewest(on_nodes: Iterable[tuple[float, ...]], asked: Resources) -> float:
    """The same, by what it may come to on each node that could hold it."""
    smallest = sorted(found[0] for found in on_nodes)[: asked.nodes]
    return max(float(asked.gpus), math.fsum(smallest))


def largest(on_nodes: Iterable[tuple[float, ...]], nodes: int, most: float) -> float:
    """What it may come to at worst where no node counts more than `most`."""
    found = (max((count for count in here if count <= most), default=0) for here in on_nodes)
    return math.fsum(sorted(found, reverse=True)[:nodes])
