"""What allocations hold, and have held since they were last charged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.db.models import Count, QuerySet

from jobs.bands import Band
from jobs.scheduler.limits import Key
from jobs.scheduler.usage import Gpus, Held, Weights, billing
from portal.models import Accounting, Allocation, GpuModel, Lease


@dataclass(frozen=True)
class Rate:
    """What GPUs of one model cost each second. Of none of them: what CPUs and memory cost."""

    gpu_model: str
    gpus: float
    weighted: float


@dataclass(frozen=True)
class Meter:
    """An allocation, and since when it is to be charged for what it holds."""

    allocation_id: int
    job_id: int
    account: Key
    walltime_s: int
    """What its job asked for."""
    held_since: datetime
    start: datetime
    """When it was last charged; at first when it began to hold what it holds."""
    released_at: datetime | None
    rates: tuple[Rate, ...]
    """By model. CPUs and memory count with the first of them."""

    def end(self, now: datetime) -> datetime:
        """To when it is to be charged; `start` for a clock that is behind."""
        return max(self.start, self.released_at or now)

    @property
    def gpus(self) -> float:
        return sum(rate.gpus for rate in self.rates)

    @property
    def weighted(self) -> float:
        """Weighted GPUs."""
        return sum(rate.weighted for rate in self.rates)


class _Row(NamedTuple):
    """What is read of an allocation, by the names of its columns."""

    pk: int
    attempt__job_id: int
    attempt__job__project_id: int
    attempt__job__owner_id: int
    attempt__job__band: str
    attempt__job__walltime_s: int
    attempt__started_at: datetime
    charged_until: datetime
    released_at: datetime | None
    cpus: int
    memory_mib: int


def weights() -> Weights:
    """What the lab charges for."""
    terms = Accounting.current()
    return Weights(
        gpu_models=dict(GpuModel.objects.values_list("name", "weight")),
        gpu=terms.gpu_weight,
        cpu=terms.cpu_weight,
        memory_gib=terms.memory_gib_weight,
    )


def uncharged() -> list[Meter]:
    """Of all that hold something, and of those that did until just now."""
    return meters(Allocation.objects.filter(charged=False))


def meters(allocations: QuerySet[Allocation]) -> list[Meter]:
    """In a constant number of queries."""
    rows = [_Row._make(row) for row in allocations.order_by("pk").values_list(*_Row._fields)]
    if not rows:
        return []
    gpus: dict[int, list[Gpus]] = defaultdict(list)
    leases = Lease.objects.filter(allocation__in=allocations.order_by().values("pk"))
    shares = leases.values_list("allocation_id", "gpu__model", "of").annotate(Count("pk"))
    for allocation_id, model, of, count in shares.order_by("allocation_id", "gpu__model", "of"):
        gpus[allocation_id].append(Gpus(model, shards=count, shards_per_gpu=of))
    terms = weights()
    return [_meter(row, gpus[row.pk], terms) for row in rows]


def _meter(row: _Row, gpus: list[Gpus], terms: Weights) -> Meter:
    account = (
        row.attempt__job__project_id, row.attempt__job__owner_id, Band(row.attempt__job__band)
    )  # fmt: skip
    held = Held(row.cpus, row.memory_mib, tuple(gpus))
    return Meter(
        allocation_id=row.pk,
        job_id=row.attempt__job_id,
        account=account,
        walltime_s=row.attempt__job__walltime_s,
        held_since=row.attempt__started_at,
        start=row.charged_until,
        released_at=row.released_at,
        rates=tuple(_rates(held, terms)),
    )


def _rates(held: Held, terms: Weights) -> Iterable[Rate]:
    cpus, memory_mib = held.cpus, held.memory_mib
    for model in sorted({gpus.model for gpus in held.gpus}) or [""]:
        alike = tuple(gpus for gpus in held.gpus if gpus.model == model)
        cost = billing([Held(cpus, memory_mib, alike)], terms)
        yield Rate(model, sum(gpus.amount for gpus in alike), cost)
        cpus = memory_mib = 0
