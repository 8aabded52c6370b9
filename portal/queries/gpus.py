"""GPUs as pages show them: who holds each, whether it is used, and by whom besides."""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from django.db.models import Count, Exists, OuterRef, Prefetch, Q, QuerySet

from portal.models import Allocation, Gpu, Job, Lease, Node

IDLE_AFTER = timedelta(minutes=2)
"""A job that has not touched its GPU this long after its start is worth a word."""
STALE_AFTER = timedelta(minutes=1)
"""Figures older than this are shown as old."""

_JOB_OF = re.compile(r"j([0-9]{1,18})\.")
"""What a process says of itself it may have made up."""


class Use(StrEnum):
    """What a GPU is to somebody who wants one."""

    FREE = "free"
    USED = "used"
    OUT = "out"
    """Its node takes no jobs, or what was found on it keeps it from being leased."""


@dataclass(frozen=True)
class Process:
    """A process on a GPU that belongs to no job, or to one that does not hold this GPU."""

    pid: int
    user: str
    command: str
    memory_mib: int | None
    run_key: str | None
    age_s: float | None = None

    @property
    def job_id(self) -> int | None:
        """The job it came from, when it came from one: `j17.a1.n0...` is of job 17."""
        found = _JOB_OF.match(self.run_key or "")
        return int(found[1]) if found else None


@dataclass(frozen=True)
class Holder:
    """Who has a GPU, or some of the parts into which it is divided."""

    allocation: Allocation
    parts: int
    of: int

    @property
    def job(self) -> Job:
        return self.allocation.attempt.job


@dataclass(frozen=True)
class Tile:
    """One GPU at the moment of the last look."""

    gpu: Gpu
    use: Use
    holders: tuple[Holder, ...]
    strangers: tuple[Process, ...]
    idle: bool
    """Held by running jobs of which none has a process on it or makes it work."""
    stale: bool

    @property
    def free_parts(self) -> int:
        """Of one of which jobs have parts."""
        return self.holders[0].of - sum(one.parts for one in self.holders) if self.holders else 0

    @property
    def pip(self) -> str:
        """The one word for it where there is room for a dot only."""
        if self.strangers:
            return "odd"
        return "idle" if self.idle else str(self.use)

    @property
    def odd(self) -> bool:
        return self.idle or bool(self.strangers)


def tile(gpu: Gpu, node: Node, now: datetime) -> Tile:
    """A GPU of `with_leases` put into words."""
    holders = tuple(_holders(gpu))
    unheld = Use.OUT if node.unavailable or gpu.out_of_service else Use.FREE
    return Tile(
        gpu=gpu,
        use=Use.USED if holders else unheld,
        holders=holders,
        strangers=tuple(_strangers(gpu, {one.allocation.key for one in holders})),
        idle=bool(holders) and all(_idle(gpu, one.allocation) for one in holders),
        stale=gpu.sampled_at is None or now - gpu.sampled_at > STALE_AFTER,
    )


def _holders(gpu: Gpu) -> Iterable[Holder]:
    """In the order of their parts."""
    found: dict[Allocation, list[Lease]] = {}
    leases: list[Lease] = gpu.open_leases  # type: ignore[attr-defined]
    for lease in sorted(leases, key=lambda lease: lease.share):
        found.setdefault(lease.allocation, []).append(lease)
    return (Holder(part, len(held), held[0].of) for part, held in found.items())


def _strangers(gpu: Gpu, keys: Set[str]) -> Iterable[Process]:
    for found in gpu.processes:
        if found["run_key"] in keys:
            continue
        yield Process(
            pid=found["pid"],
            user=found["user"] or "",
            command=found["command"],
            memory_mib=found["memory_mib"],
            run_key=found["run_key"],
            age_s=found.get("age_s"),
        )


def _idle(gpu: Gpu, held: Allocation) -> bool:
    if held.phase != Allocation.Phase.RUNNING or not held.started_at or not gpu.sampled_at:
        return False
    if gpu.sampled_at - held.started_at < IDLE_AFTER:
        return False
    return not gpu.utilization_pct and not any(p["run_key"] == held.key for p in gpu.processes)


def with_leases(*, jobs: bool = True) -> QuerySet[Gpu]:
    """GPUs that are there, by index, each with who holds it, in two queries.

    Without `jobs`, only that and since when it is held is known, which is quicker.
    """
    leases = Lease.objects.filter(released_at=None).select_related(
        "allocation__attempt__job__owner" if jobs else "allocation"
    )
    return (
        Gpu.objects.filter(present=True)
        .order_by("index")
        .prefetch_related(Prefetch("leases", leases, to_attr="open_leases"))
    )


@dataclass(frozen=True)
class Capacity:
    """GPUs of one model in one partition."""

    partition: str
    model: str
    memory_mib: int
    simulated: bool
    total: int
    used: int
    out: int

    @property
    def free(self) -> int:
        return self.total - self.used - self.out


def capacity() -> list[Capacity]:
    """How many GPUs there are, are held and are out of service, by partition and model."""
    held = Exists(Lease.objects.filter(gpu=OuterRef("pk"), released_at=None))
    away = Q(out_of_service=True) | Q(node__drained=True) | ~Q(node__health=Node.Health.UP)
    rows = (
        Gpu.objects.filter(present=True, node__removed_at=None)
        .annotate(held=held)
        .values("node__partition__name", "model", "memory_mib", "node__simulated")
        .annotate(
            total=Count("pk"),
            used=Count("pk", filter=Q(held=True)),
            out=Count("pk", filter=away & Q(held=False)),
        )
        .order_by("node__partition__name", "model", "memory_mib", "node__simulated")
    )
    return [
        Capacity(
            partition=row["node__partition__name"],
            model=row["model"],
            memory_mib=row["memory_mib"],
            simulated=row["node__simulated"],
            total=row["total"],
            used=row["used"],
            out=row["out"],
        )
        for row in rows
    ]
