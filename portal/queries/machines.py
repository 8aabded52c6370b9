"""The lab's machines at one moment, with who holds what of them, for `jobs.scheduler`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from jobs.scheduler.demand import least
from jobs.scheduler.snapshot import Gpu, Node, Reservation
from jobs.spec import Resources
from portal import models
from portal.models import Prepared
from portal.queries.holdings import Holdings, Part

OF_NODE = (
    "pk", "name", "cpus", "memory_mib", "features", "switches", "partition__name",
    "drained", "drain_reason", "health", "probed_at",
)  # fmt: skip
OF_GPU = (
    "pk",
    "node_id",
    "uuid",
    "index",
    "model",
    "memory_mib",
    "shards",
    "domain",
    "out_of_service",
)
OUT_OF_SERVICE = 0
"""No job's id: a GPU that nobody may have counts as held, and for how long is not known. So it is
there for who asks what could ever fit, and for nobody who wants it now."""


class Holder(NamedTuple):
    """A job's part of a GPU."""

    job_id: int
    shards: int
    of: int
    """Into how many the GPU was divided then; who has all of them has the whole."""


def _idle_node(row: tuple[Any, ...]) -> Node:
    """A node as if nothing ran there, and without its GPUs."""
    pk, name, cpus, memory_mib, features, switches, partition, *state = row
    drained, why, health, probed_at = state
    told = models.Node(drained=drained, drain_reason=why, health=health, probed_at=probed_at)
    return Node(
        id=pk,
        name=name,
        partition=partition,
        cpus=cpus,
        memory_mib=memory_mib,
        cpus_free=cpus,
        memory_free_mib=memory_mib,
        features=tuple(features),
        unavailable=told.unavailable,
        switches=tuple(switches),
    )


class _Card(NamedTuple):
    """A GPU of a node as if nobody had it, and its id."""

    pk: int
    node_id: int
    gpu: Gpu
    out: bool

    def held_by(self, holders: list[Holder]) -> Gpu:
        if not holders:
            return replace(self.gpu, job_id=OUT_OF_SERVICE) if self.out else self.gpu
        whole, sharers = _shared(holders)
        left = self.gpu.shards - sum(shards for _, shards in sharers)
        if self.out and sharers and left > 0:
            sharers = ((OUT_OF_SERVICE, left), *sharers)
        return replace(self.gpu, job_id=whole, sharers=sharers)


def _card(row: tuple[Any, ...]) -> _Card:
    pk, node_id, uuid, index, model, memory_mib, shards, domain, out = row
    near = -1 - index if domain is None else domain  # Not known: near to none.
    gpu = Gpu(uuid, index, model, memory_mib, shards=shards, domain=near)
    return _Card(pk, node_id, gpu, bool(out))


_nodes = Prepared(lambda: models.Node.objects.values_list(*OF_NODE), _idle_node)
_cards = Prepared(lambda: models.Gpu.objects.filter(present=True).values_list(*OF_GPU), _card)


def nodes(held: Holdings) -> tuple[Node, ...]:
    """All of them, those that take no jobs too."""
    on: dict[int, list[Part]] = defaultdict(list)
    for part in held.open:
        on[part.node_id].append(part)
    taken = _holders(held)
    gpus: dict[int, list[Gpu]] = defaultdict(list)
    for card in _cards.rows():
        gpus[card.node_id].append(card.held_by(taken.get(card.pk, [])))
    return tuple(_with(node, tuple(gpus[node.id]), on[node.id]) for node in _nodes.rows())


def empty() -> tuple[Node, ...]:
    """All nodes as if nothing ran and nothing were broken: enough to tell what could ever fit."""
    gpus: dict[int, list[Gpu]] = defaultdict(list)
    for card in _cards.rows():
        gpus[card.node_id].append(card.gpu)
    return tuple(_with(node, tuple(gpus[node.id]), []) for node in _nodes.rows())


def reported() -> tuple[Node, ...]:
    """Those of them that have ever told what they have, as if all were up: what a trial plays."""
    return tuple(replace(node, unavailable="") for node in empty() if node.cpus)


def gpus_asked(
    asked: Resources, partition: str, nodes: Callable[[], tuple[Node, ...]] = empty
) -> float:
    """As how many GPUs a request counts there at least, on nodes with nothing on them, which are
    read only where that depends on them."""
    if not asked.exclusive and not asked.shards:
        return asked.gpus
    return least((node for node in nodes() if node.partition == partition), asked)


_last_end = Prepared[Any](
    lambda: models.Reservation.objects.order_by("-ends_at").values_list("ends_at")[:1]
)


def reservations(now: datetime) -> list[models.Reservation]:
    """Those that are not over, with their nodes and with who may use them."""
    if not any(ends_at > now for (ends_at,) in _last_end.rows()):
        return []
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


def _with(node: Node, gpus: tuple[Gpu, ...], parts: list[Part]) -> Node:
    return replace(
        node,
        cpus_free=node.cpus - sum(part.cpus for part in parts),
        memory_free_mib=node.memory_mib - sum(part.memory_mib for part in parts),
        gpus=gpus,
        jobs=tuple(sorted(part.attempt__job_id for part in parts)),
        exclusive=any(part.exclusive for part in parts),
    )
