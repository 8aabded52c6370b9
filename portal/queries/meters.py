"""What allocations hold, and have held since they were last charged."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jobs.bands import Band
from jobs.scheduler.limits import Key
from jobs.scheduler.usage import Gpus, Held, Weights, billing
from portal.models import Accounting, GpuModel, Prepared
from portal.queries.holdings import Holdings, Part


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
    partition: str
    walltime_s: int
    """What its job asked for."""
    job_started_at: datetime | None
    """When all of its job ran; None while it is about to."""
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


_terms = Prepared(Accounting.objects.all, lambda row: Accounting(*row))
_models = Prepared[Any](lambda: GpuModel.objects.values_list("name", "weight"))


def terms() -> Accounting:
    """How the lab charges. Not to be changed: others are given the same."""
    return next(iter(_terms.rows()), None) or Accounting()


def weights(charged: Accounting | None = None) -> Weights:
    """What the lab charges for; how is read unless it is given."""
    charged = charged or terms()
    return Weights(
        gpu_models=dict(_models.rows()),
        gpu=charged.gpu_weight,
        cpu=charged.cpu_weight,
        memory_gib=charged.memory_gib_weight,
    )


def meters(held: Holdings, terms: Weights) -> list[Meter]:
    """In the order of the allocations."""
    gpus: dict[int, list[Gpus]] = defaultdict(list)
    counts = Counter((share.allocation_id, share.gpu__model, share.of) for share in held.shares)
    for (allocation_id, model, of), count in sorted(counts.items()):
        gpus[allocation_id].append(Gpus(model, shards=count, shards_per_gpu=of))
    return [_meter(part, gpus[part.pk], terms) for part in held.parts]


def _meter(part: Part, gpus: list[Gpus], terms: Weights) -> Meter:
    account = (
        part.attempt__job__project_id, part.attempt__job__owner_id, Band(part.attempt__job__band)
    )  # fmt: skip
    held = Held(part.cpus, part.memory_mib, tuple(gpus))
    return Meter(
        allocation_id=part.pk,
        job_id=part.attempt__job_id,
        account=account,
        partition=part.attempt__job__partition__name,
        walltime_s=part.attempt__job__walltime_s,
        job_started_at=part.attempt__job__started_at,
        held_since=part.attempt__started_at,
        start=part.charged_until,
        released_at=part.released_at,
        rates=tuple(_rates(held, terms)),
    )


def _rates(held: Held, terms: Weights) -> Iterable[Rate]:
    cpus, memory_mib = held.cpus, held.memory_mib
    for model in sorted({gpus.model for gpus in held.gpus}) or [""]:
        alike = tuple(gpus for gpus in held.gpus if gpus.model == model)
        cost = billing([Held(cpus, memory_mib, alike)], terms)
        yield Rate(model, sum(gpus.amount for gpus in alike), cost)
        cpus = memory_mib = 0
