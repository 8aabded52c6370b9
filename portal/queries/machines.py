"""The lab's machines at one moment, with who holds what of them, for `jobs.scheduler`."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime
from typing import NamedTuple

from jobs.scheduler.demand import least
from jobs.scheduler.snapshot import Gpu, Node, Reservation
from jobs.spec import Resources
from portal import models
from portal.queries.holdings import Holdings, Part

OF_NODE = (
    "name", "cpus", "memory_mib", "features", "switches", "partition__name",
    "drained", "drain_reason", "health", "probed_at",
)  # fmt: skip
OF_GPU = ("pk", "node_id", "uuid", "index", "model", "memory_mib", "shards", "domain")


class Holder(NamedTuple):
    """A job's part of a GPU."""

    job_id: int
    shards: int
    of: int
    """Into how many the GPU was divided then; who has all of them has the whole."""


def nodes(held: Holdings) -> tuple[Node, ...]:
    """All of them, those that take no jobs too."""
    on: dict[int, list[Part]] = defaultdict(list)
    for part in held.open:
        on[part.node_id].append(part)
    taken = _holders(held)
    gpus: dict[int, list[Gpu]] = defaultdict(list)
    present = models.Gpu.objects.filter(present=True)
    for pk, node_id, uuid, index, model, memory_mib, shards, domain in present.values_list(*OF_GPU):
        whole, sharers = _shared(taken.get(pk, []))
        near = -1 - index if domain is None else domain  # Not known: near to none.
        gpus[node_id].append(Gpu(uuid, index, model, memory_mib, whole, shards, sharers, near))
    rows = models.Node.objects.select_related("partition").only(*OF_NODE)
    return tuple(_node(row, tuple(gpus[row.pk]), on[row.pk]) for row in rows)


def empty() -> tuple[Node, ...]:
    """All nodes as if nothing ran: enough to tell what could ever fit."""
    return nodes(Holdings())


def gpus_asked(asked: Resources, partition: str) -> float:
    """As how many GPUs a request counts there at least, on nodes with nothing on them."""
    if not asked.exclusive and not asked.shards:
        return asked.gpus
    return least((node for node in empty() if node.partition == partition), asked)


def reservations(now: datetime) -> list[models.Reservation]:
    """Those that are not over, with their nodes and with who may use them."""
    rows = models.Reservation.objects.filter(ends_at__gt=now).order_by("pk")
    return list(rows.prefetch_related("nodes", "projects", "users"))


def reservation(row: models.Reservation) -> Reservation:
    """A row as the scheduler's value."""
    ids = frozenset(node.pk for node in row.nodes.all())
    return Reservation(row.pk, row.name, row.starts_at, row.ends_at, ids)


def _holders(held: Holdings) -> dict[int, list[Holder]]:
    """By GPU."""
    jobs = {part.pk: part.attempt__job_id for part in held.open}
    counts = Counter(
        (share.gpu_id, jobs[share.allocation_id], share.of)
        for share in held.shares
        if share.released_at is None and share.allocation_id in jobs
    )
    found: dict[int, list[Holder]] = defaultdict(list)
    for (gpu_id, job_id, of), shards in counts.items():
        found[gpu_id].append(Holder(job_id, shards, of))
    return found


def _shared(parts: list[Holder]) -> tuple[int | None, tuple[tuple[int, int], ...]]:
    """Who has the whole of a GPU, or who has parts of it."""
    if len(parts) == 1 and parts[0].shards >= parts[0].of:
        return parts[0].job_id, ()
    return None, tuple(sorted((part.job_id, part.shards) for part in parts))


def _node(row: models.Node, gpus: tuple[Gpu, ...], parts: list[Part]) -> Node:
    return Node(
        id=row.pk,
        name=row.name,
        partition=row.partition.name,
        cpus=row.cpus,
        memory_mib=row.memory_mib,
        cpus_free=row.cpus - sum(part.cpus for part in parts),
        memory_free_mib=row.memory_mib - sum(part.memory_mib for part in parts),
        gpus=gpus,
        features=tuple(row.features),
        unavailable=row.unavailable,
        jobs=tuple(sorted(part.attempt__job_id for part in parts)),
        exclusive=any(part.exclusive for part in parts),
        switches=tuple(row.switches),
    )
