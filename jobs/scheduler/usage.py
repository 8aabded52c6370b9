"""What a job is charged, and how what was charged fades.

The unit is the weighted GPU-second: one GPU of weight 1 for one second. The formulas, their sources
and examples worked by hand are in `docs/scheduling.md`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

WEEK_S = 7 * 24 * 3600.0


@dataclass(frozen=True)
class Weights:
    """What one second of each thing costs. A model that is not named costs `gpu`.

    CPUs and memory cost so much that a share of a node's that goes with its GPUs adds a little to
    them, and that jobs without GPUs are not free.
    """

    gpu_models: Mapping[str, float] = field(default_factory=dict)
    """By the model's name as nodes report it."""
    gpu: float = 1.0
    cpu: float = 0.02
    memory_gib: float = 0.0025

    def __post_init__(self) -> None:
        for weight in (self.gpu, self.cpu, self.memory_gib, *self.gpu_models.values()):
            if not 0 <= weight < math.inf:
                raise ValueError(f"a weight must be a number from 0, not {weight!r}")


@dataclass(frozen=True)
class Gpus:
    """GPUs of one model that a job holds on a node, or of each of them some of its equal parts."""

    model: str
    count: int = 1
    shards: int = 1
    shards_per_gpu: int = 1

    @property
    def amount(self) -> float:
        """In whole GPUs: 2 of 4 shards are half of one."""
        return self.count * self.shards / self.shards_per_gpu


@dataclass(frozen=True)
class Held:
    """What a job holds on one node."""

    cpus: int = 0
    memory_mib: int = 0
    gpus: tuple[Gpus, ...] = ()


def billing(nodes: Iterable[Held], weights: Weights) -> float:
    """What a job costs each second: weighted GPUs.

    On each node its GPUs, and beside them the dearer one of its CPUs and its memory: Slurm's
    `PriorityFlags=MAX_TRES_GRES`, "MAX(node TRES) + node GRES".
    """
    return math.fsum(cost for held in nodes for cost in _costs(held, weights))


def _costs(held: Held, weights: Weights) -> Iterator[float]:
    yield max(weights.cpu * held.cpus, weights.memory_gib * held.memory_mib / 1024)
    for gpus in held.gpus:
        yield gpus.amount * weights.gpu_models.get(gpus.model, weights.gpu)


@dataclass(frozen=True)
class Decay:
    """Exact half-life: usage x 0.5^(t / half-life). Slurm's default is 7 days, too."""

    half_life_s: float = WEEK_S

    def __post_init__(self) -> None:
        if not 0 < self.half_life_s < math.inf:
            raise ValueError(f"a half-life must be above 0 s, not {self.half_life_s!r}")

    def factor(self, elapsed_s: float) -> float:
        """What is left of 1 after so many seconds; above 1 for a moment that lies before."""
        return math.exp2(-elapsed_s / self.half_life_s)

    def integral(self, duration_s: float) -> float:
        """What a rate of 1 comes to at the end of that time, each second faded since it passed.

        The integral of 0.5^(t/H) from 0 to the duration: H / ln 2 x (1 - 0.5^(duration/H)).
        """
        mean_s = self.half_life_s / math.log(2)
        return -mean_s * math.expm1(-duration_s / mean_s)


@dataclass(frozen=True)
class Charge:
    """A job cost `rate` weighted GPUs from `start` to `end`."""

    rate: float
    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        if not 0 <= self.rate < math.inf:
            raise ValueError(f"a rate must be a number from 0, not {self.rate!r}")
        if self.end < self.start:
            raise ValueError(f"a charge may not end ({self.end}) before it starts ({self.start})")

    @property
    def gpu_seconds(self) -> float:
        """Weighted, and not decayed: what reports and quotas by period count."""
        return self.rate * (self.end - self.start).total_seconds()


@dataclass(frozen=True)
class Usage:
    """Decayed weighted GPU-seconds, as they stand at the moment `at`.

    Charges may be added and usages merged in any order and grouping: each is worth the same at any
    moment, whenever it became known.
    """

    value: float
    at: datetime

    def seen(self, at: datetime, decay: Decay) -> Usage:
        """The same usage, as it stands at another moment."""
        if at == self.at:
            return self
        return Usage(self.value * decay.factor((at - self.at).total_seconds()), at)

    def merged(self, other: Usage, decay: Decay) -> Usage:
        """Both together, at the later of their moments."""
        at = max(self.at, other.at)
        return Usage(self.seen(at, decay).value + other.seen(at, decay).value, at)

    def charged(self, charge: Charge, decay: Decay) -> Usage:
        """With one more charge, which may lie before `at` or after."""
        return self.merged(usage_of(charge, decay), decay)


def usage_of(charge: Charge, decay: Decay) -> Usage:
    """What a charge comes to at its end."""
    duration_s = (charge.end - charge.start).total_seconds()
    return Usage(charge.rate * decay.integral(duration_s), charge.end)


@dataclass(frozen=True)
class EntryPenalty:
    """Counts the first `share` of a job's walltime as used from its start on.

    So of many jobs submitted at once each finds the ones before it on the account, as in Kueue's
    admission fair sharing. The real charge takes its place second by second: the two together never
    exceed the larger of them, and nothing of the penalty is left when the job ends or has run for
    so long. It is never written down, so there is nothing to give back.
    """

    share: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"the share of the walltime must be from 0 to 1, not {self.share!r}")

    def remaining(self, rate: float, walltime_s: float, elapsed_s: float = 0.0) -> float:
        """In weighted GPU-seconds: rate x (share x walltime - elapsed), or nothing."""
        return rate * max(0.0, self.share * walltime_s - max(0.0, elapsed_s))
