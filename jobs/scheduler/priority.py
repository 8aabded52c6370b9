"""Which job goes first: Slurm's weighted sum of factors, each with a sentence.

priority = sum of weight x factor (https://slurm.schedmd.com/priority_multifactor.html), with the
size in GPUs in place of CPUs. A job of a higher band goes first whatever the sums are. An example
worked by hand is in `docs/scheduling.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from jobs.bands import Band
from jobs.rules import MAX_NICE
from jobs.scheduler.fairshare import Standing
from jobs.scheduler.words import amount, count

_MINUTE_S = 60
_HOUR_S = 3600
_DAY_S = 86_400
_LONGEST_S = 3650 * _DAY_S
LONG_WAIT_S = 14.0 * _DAY_S
"""Of each user one job at a time that has waited for longer goes before all others of its band,
whatever the order goes by."""
AFTER_LONG = (
    f"After {LONG_WAIT_S / _DAY_S:g} days one job of each user at a time goes before all others of "
    "its band."
)


@dataclass(frozen=True)
class PriorityWeights:
    """What each factor counts in a partition, in points.

    By default one place in fair share is worth more than any age and size together, with up to
    1,600 members: else who has more jobs waiting for long would have more than their share. A nice
    value can outweigh it. Where places are equal a week of waiting counts most, and of equals the
    larger job goes first, as others fill in around it.
    """

    fair_share: float = 1e6
    age: float = 500.0
    size: float = 100.0
    nice: float = 1e6
    max_age_s: float = 7.0 * _DAY_S
    """Waiting any longer brings no more points (Slurm's PriorityMaxAge)."""

    def __post_init__(self) -> None:
        for weight in (self.fair_share, self.age, self.size, self.nice):
            if not 0 <= weight <= 1e9:
                raise ValueError(f"a weight must be from 0 to 1e9 points, not {weight!r}")
        if not 0 < self.max_age_s <= _LONGEST_S:
            raise ValueError(
                f"the age that counts must be above 0 and at most {_LONGEST_S:,} s, "
                f"not {self.max_age_s!r}"
            )


@dataclass(frozen=True)
class Factors:
    """What a pending job's priority is made of."""

    band: Band
    standing: Standing
    """That of its project and user in fair share."""
    gpus: float
    """Asked for, in whole GPUs; a shard is a fraction."""
    partition_gpus: int
    eligible_at: datetime | None
    """Since when nothing but room and others keeps it waiting; None while it is held, or waits for
    its begin time or another job. Such waiting does not count."""
    waited_before_s: float = 0.0
    """What counted before it was kept back: its age stands still, and does not begin anew."""
    nice: int = 0

    def __post_init__(self) -> None:
        if not -MAX_NICE <= self.nice <= MAX_NICE:
            raise ValueError(f"nice must be from {-MAX_NICE} to {MAX_NICE}, not {self.nice!r}")

    def waited_s(self, now: datetime) -> float:
        """The waiting that counts."""
        if self.eligible_at is None:
            return self.waited_before_s
        return self.waited_before_s + max(0.0, (now - self.eligible_at).total_seconds())


@dataclass(frozen=True)
class WeightedFactor:
    """One factor, what it brings, and that as a sentence."""

    name: str
    factor: float
    weight: float
    points: float
    sentence: str

    @property
    def told(self) -> str:
        """The points as people read them: nobody wants to read 0.007 of 500."""
        return _rounded(self.points if abs(self.points) >= min(1.0, self.weight / 1000) else 0)


@dataclass(frozen=True)
class Priority:
    """A job's place among others, and what makes it up: `total` is the sum of the points."""

    band: Band
    total: float
    parts: tuple[WeightedFactor, ...]

    @property
    def key(self) -> tuple[int, float]:
        """The larger goes first. No points lift a job over its band."""
        return self.band.rank, self.total


def points(
    weights: PriorityWeights,
    waited_s: float,
    fair_share: float,
    gpus: float,
    partition_gpus: int,
    nice: int = 0,
) -> float:
    """Only the total, fast: the same to the last bit as `priority(...).total`."""
    age = waited_s / weights.max_age_s
    size = gpus / partition_gpus if partition_gpus else 0.0
    return (
        weights.age * (age if age < 1.0 else 1.0)
        + weights.fair_share * fair_share
        + weights.size * (size if size < 1.0 else 1.0)
        - weights.nice * (nice / MAX_NICE)
    )


def priority(factors: Factors, weights: PriorityWeights, now: datetime) -> Priority:
    """The same with all its parts, for people."""
    waited_s = factors.waited_s(now)
    fair_share = factors.standing.factor
    total = points(
        weights, waited_s, fair_share, factors.gpus, factors.partition_gpus, factors.nice
    )
    parts = (
        _band(factors.band),
        _age(factors, weights, waited_s),
        _fair_share(factors.standing, weights.fair_share),
        _size(factors, weights.size),
        _nice(factors.nice, weights.nice),
    )
    return Priority(factors.band, total, parts)


def _band(band: Band) -> WeightedFactor:
    above = [other.value for other in Band if other.rank > band.rank]
    below = [other.value for other in Band if other.rank < band.rank]
    places = []
    if above:
        places.append(f"after all jobs of {_listed(above)}")
    if below:
        places.append(f"before all jobs of {_listed(below)}")
    sentence = f"Band {band}: {' and '.join(places)}, whatever their points."
    return WeightedFactor("band", band.rank / (len(Band) - 1), 0.0, 0.0, sentence)


def _age(factors: Factors, weights: PriorityWeights, waited_s: float) -> WeightedFactor:
    factor = min(1.0, waited_s / weights.max_age_s)
    waited = f"{_lasting(waited_s)} of {_lasting(weights.max_age_s)}"
    if factors.eligible_at is None:
        lead = f"Waited {waited}; while something else keeps it back, no more counts"
    else:
        before = factors.waited_before_s
        earlier = f", {_lasting(before)} of it earlier" if before >= _MINUTE_S else ""
        lead = f"Waited {waited}{earlier}"
    part = _factor("age", factor, weights.age, lead)
    if waited_s <= LONG_WAIT_S:
        return part
    return replace(part, sentence=f"{part.sentence} {AFTER_LONG}")


def _fair_share(standing: Standing, weight: float) -> WeightedFactor:
    lead = f"Place {standing.position:,} of {standing.associations:,} in fair share"
    return _factor("fair share", standing.factor, weight, lead)


def _size(factors: Factors, weight: float) -> WeightedFactor:
    if not factors.gpus:
        return _factor("size", 0.0, weight, "Asks for no GPU")
    whole = factors.partition_gpus
    factor = min(1.0, factors.gpus / whole) if whole else 0.0
    lead = f"Asks for {amount(factors.gpus)} of the partition's {count(whole, 'GPU')}"
    return _factor("size", factor, weight, lead)


def _nice(nice: int, weight: float) -> WeightedFactor:
    factor = -nice / MAX_NICE
    part = WeightedFactor("nice", factor, weight, weight * factor, "")
    return replace(part, sentence=f"{_moved(nice)}: {part.told} points.")


def _moved(nice: int) -> str:
    """Owners may move their own jobs back, and only an admin moves any forward."""
    if nice > 0:
        return f"Nice {nice}, as asked, moves it back"
    return f"An admin moved it forward with nice {nice}" if nice else "Nobody has moved it"


def _factor(name: str, factor: float, weight: float, lead: str) -> WeightedFactor:
    part = WeightedFactor(name, factor, weight, weight * factor, "")
    return replace(part, sentence=f"{lead}: {part.told} of {_rounded(weight)} points.")


def _rounded(number: float) -> str:
    """`1,000`, `-20`, `0`; a fraction only where there is nothing else."""
    if 0 < abs(number) < 1:
        return f"{number:.1g}"
    return f"{round(number):,}"


def _lasting(seconds: float) -> str:
    """`3 h`, `25 min`, `7 days`: whole units that have passed."""
    if seconds < _HOUR_S:
        return f"{int(seconds // _MINUTE_S)} min"
    if seconds < 2 * _DAY_S:
        return f"{int(seconds // _HOUR_S)} h"
    return f"{int(seconds // _DAY_S)} days"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
