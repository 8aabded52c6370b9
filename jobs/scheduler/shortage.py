"""What a request needs, and what of that is missing now, in words."""

from __future__ import annotations

from collections.abc import Sequence

from jobs.scheduler.available import free_shards
from jobs.scheduler.fit import gpus, switches
from jobs.scheduler.room import Room
from jobs.scheduler.shape import Shape
from jobs.scheduler.words import count, listed, memory
from jobs.spec import Resources


def need(asked: Resources) -> str:
    """`2 GPUs on one node`, `4 nodes with 8 GPUs, 16 CPUs and 64 GiB each`."""
    parts = []
    if asked.gpus_per_node:
        parts.append(gpus(asked))
    if asked.shards:
        parts.append(f"{count(asked.shards, 'part')} of a shared GPU")
    if asked.cpus > 1 or not parts:
        parts.append(count(asked.cpus, "CPU"))
    if asked.memory_mib is not None:
        parts.append(memory(asked.memory_mib))
    what = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    if asked.nodes == 1:
        return f"a whole node with {what}" if asked.exclusive else f"{what} on one node"
    return f"{asked.nodes} {'whole ' if asked.exclusive else ''}nodes with {what} each"


def shortage(shape: Shape) -> str:
    """What is free of that on the nodes that could hold it."""
    asked, rooms = shape.asked, shape.ready
    if asked.nodes > 1:
        return _too_few(shape)
    if asked.exclusive and all(room.holds for room in rooms):
        return "none is empty"
    roomy = [room for room in rooms if not room.alone]
    if not roomy:
        return "each that could hold it is taken whole by another job"
    if asked.gpus_per_node:
        free = {room.node.name: free_gpus(shape, room) for room in roomy}
        most = max(free.values())
        if most < asked.gpus_per_node:
            return _gpus_free(most, [name for name, number in free.items() if number == most])
    if asked.shards:
        most = max(free_parts(shape, room) for room in roomy)
        if most < asked.shards:
            return f"no GPU has more than {most} free" if most else "none is free"
    return _closest(shape, roomy)


def free_parts(shape: Shape, room: Room) -> int:
    """Of the GPUs of the node that may serve the request, the free parts of the emptiest one."""
    found = free_shards(room.gpus, shape.masks[room.node.id], room.free, room.shared)
    return max((number for number, _ in found), default=0)


def free_gpus(shape: Shape, room: Room) -> int:
    """GPUs of the node that may serve the request and that nobody has."""
    return (room.free & shape.masks[room.node.id]).bit_count()


def _too_few(shape: Shape) -> str:
    ready = [r for r in shape.ready if r.fits(shape.asked, shape.masks[r.node.id])]
    if not ready:
        return "none has that free now"
    names = listed(room.node.name for room in ready)
    if len(ready) >= shape.asked.nodes:
        sure = "" if all(room.node.switches for room in ready) else " as far as is known"
        where = f"{switches(shape.asked)}{sure}"
        return f"{len(ready)} have that free now ({names}), but not on {where}"
    return f"{len(ready)} {'has' if len(ready) == 1 else 'have'} that free now ({names})"


def _gpus_free(most: int, names: Sequence[str]) -> str:
    if most == 0:
        return "none is free"
    if len(names) == 1:
        return f"{most} {'is' if most == 1 else 'are'} free (on {names[0]})"
    return f"no node has more than {most} free"


def _closest(shape: Shape, rooms: Sequence[Room]) -> str:
    """GPUs are not what is missing, or not alone: name the node that lacks least."""
    asked = shape.asked

    def lacks(room: Room) -> list[str]:
        found = []
        free = free_gpus(shape, room)
        if free < asked.gpus_per_node:
            found.append(count(free, "GPU"))
        parts = free_parts(shape, room) if asked.shards else 0
        if parts < asked.shards:
            found.append(f"{count(parts, 'part')} of a GPU")
        if room.cpus < asked.cpus:
            found.append(count(max(room.cpus, 0), "CPU"))
        if asked.memory_mib is not None and room.memory_mib < asked.memory_mib:
            found.append(memory(max(room.memory_mib, 0)))
        if asked.exclusive and room.holds:
            found.append("no place to itself")
        return found

    best = min(rooms, key=lambda room: (len(lacks(room)), -room.cpus, room.order))
    return f"the closest, {best.node.name}, has only {' and '.join(lacks(best))} free"
