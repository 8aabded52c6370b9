"""What looks wrong with a node's GPUs by what is known here already: who uses them, and who not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from jobs.nodes.signs import KnownGpu, Sign
from jobs.scheduler.words import memory, span
from portal.models import Gpu, Node
from portal.queries import gpus
from portal.queries.gpus import Process, Tile

STRAY_MIB = 100
"""With less memory than that a process of no job takes nothing from anybody."""
OCCUPIED_MIB = 1024
"""With more than that it may be in the way of a job."""
KINDS = frozenset({"stray", "occupied", "unused"})


def known(node: Node) -> list[KnownGpu]:
    """The GPUs of it that jobs can have."""
    rows = node.gpus.filter(present=True).order_by("index")
    return [KnownGpu(*row) for row in rows.values_list("uuid", "pci_bus_id", "mig_mode")]


def of_use(node: Node, now: datetime) -> tuple[list[Sign], frozenset[str]]:
    """Signs of processes of no job and of leases that are not used; and the kinds of which nothing
    can be told, as the last figures are too old."""
    tiles = [gpus.tile(gpu, node, now) for gpu in gpus.with_leases(jobs=False).filter(node=node)]
    # Of instances of a card there are no figures ever.
    tiles = [tile for tile in tiles if not tile.stale]
    if not tiles:
        return [], KINDS
    found = [sign for tile in tiles for sign in _signs(tile)]
    if node.guards_gpus:
        found += [sign for tile in tiles for sign in _occupied(tile)]
    return found, frozenset()


def occupied(gpus_: Iterable[Gpu], node: Node, now: datetime) -> list[Sign]:
    """The same of some GPUs that a job is about to get, as far as the last figures tell."""
    rows = gpus.with_leases(jobs=False).filter(pk__in=[gpu.pk for gpu in gpus_])
    tiles = [gpus.tile(gpu, node, now) for gpu in rows]
    return [sign for tile in tiles if not tile.stale for sign in _occupied(tile)]


def _occupied(tile: Tile) -> Iterator[Sign]:
    # Of a job that has just ended, a process may have been seen last while it still ran.
    alien = (one for one in tile.strangers if one.run_key is None)
    taking = [one for one in alien if (one.memory_mib or 0) > OCCUPIED_MIB]
    if taking:
        yield Sign("occupied", " ".join(f"{_words(one)}." for one in taking[:3]), tile.gpu.uuid)


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
