"""What looks wrong with a node's GPUs by what is known here already: who uses them, and who not."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from jobs.nodes.signs import KnownGpu, Sign
from jobs.scheduler.words import memory, span
from portal.models import Gpu, Node
from portal.queries import gpus
from portal.queries.gpus import Process, Tile

STRAY_MIB = 100
"""With less memory than that a process of no job takes nothing from anybody."""
KINDS = frozenset({"stray", "unused"})


def known(node: Node) -> list[KnownGpu]:
    """The GPUs of it that jobs can have."""
    rows = node.gpus.filter(present=True).order_by("index")
    return [KnownGpu(*row) for row in rows.values_list("uuid", "pci_bus_id", "mig_mode")]


def of_use(node: Node, now: datetime) -> tuple[list[Sign], frozenset[str]]:
    """Signs of processes of no job and of leases that are not used; and the kinds of which nothing
    can be told, as the last figures are too old."""
    tiles = [gpus.tile(gpu, node, now) for gpu in gpus.with_leases(jobs=False).filter(node=node)]
    if any(tile.stale for tile in tiles):
        return [], KINDS
    return [sign for tile in tiles for sign in _signs(tile)], frozenset()


def _signs(tile: Tile) -> Iterator[Sign]:
    gpu: Gpu = tile.gpu
    strays = [one for one in tile.strangers if one.memory_mib is None or one.memory_mib > STRAY_MIB]
    if strays:
        yield Sign("stray", " ".join(f"{_words(one)}." for one in strays[:3]), gpu.uuid)
    if tile.idle:
        yield Sign("unused", "No process of the job is on it, and it does not work.", gpu.uuid)


def _words(one: Process) -> str:
    """`Process 4711 (python train.py) of bob, for 3 h, with 12 GiB`."""
    parts = [f"Process {one.pid}{f' ({one.command[:60]})' if one.command else ''}"]
    parts[0] += f" of {one.user}" if one.user else ""
    if one.age_s is not None:
        parts.append(f"for {span(one.age_s)}")
    if one.memory_mib is not None:
        parts.append(f"with {memory(one.memory_mib)}")
    return ", ".join(parts)
