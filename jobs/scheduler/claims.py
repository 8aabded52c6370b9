"""What those will take of their quotas who are promised a time, or for whom others make room.

Who is only within a quota as long as these have not started is promised nothing: when its time
came, it could not start, and its place would have been kept in vain. And who would take of a quota
what those need for whom others make room does not start either: they would have left in vain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from jobs.scheduler.limits import Limited, Rule
from jobs.scheduler.quota import micros, parts
from jobs.scheduler.tally import BORROWS, FITS, Counter, Tally


@dataclass(frozen=True)
class Barred:
    """Why a job is promised no time, or does not start, though it is within its quotas."""

    rule: Rule
    """Of which not enough would be left."""
    by: tuple[int, ...]
    """Who need it before."""


@dataclass(slots=True)
class _Claimed:
    """Of one limit."""

    amount: int = 0
    by: list[int] = field(default_factory=list)


class Claims:
    """Of those who are promised a time in one pass."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._made: dict[int, _Claimed] = defaultdict(_Claimed)
        """By the limit that they count against."""

    def make(self, job_id: int, group: int, gpus: float, gpu_seconds: float) -> None:
        """Somebody is promised a time."""
        for counter, amount in self._amounts(group, gpus, gpu_seconds):
            self._made[counter.index].amount += amount
            self._made[counter.index].by.append(job_id)

    def barring(self, group: int, gpus: float, gpu_seconds: float) -> Barred | None:
        """The limit that would be exceeded by one more; None if there is none."""
        for counter, amount in self._amounts(group, gpus, gpu_seconds) if self._made else ():
            made = self._made.get(counter.index)
            if made is not None and not counter.has_room(made.amount + amount):
                return Barred(counter.rule, tuple(sorted(made.by)))
        return None

    def _amounts(
        self, group: int, gpus: float, gpu_seconds: float
    ) -> Iterator[tuple[Counter, int]]:
        """What it counts in, and how much; not in what projects lend, which is all there is."""
        mine = self._tally.counters(group)
        for counter in mine.jobs:
            yield counter, 1
        for counter in mine.gpus if gpus else ():
            if counter.rule.limited is not Limited.LENDING:
                yield counter, parts(gpus)
        for counter in mine.micros if gpus else ():
            yield counter, micros(gpu_seconds)


class Swap:
    """What is counted once those have left who make room, and those have started for whom."""

    def __init__(self, tally: Tally, leaving: Iterable[tuple[int, float]]) -> None:
        """`leaving`: group and GPUs of those who have been told before."""
        self._tally = tally
        self._leaving = list(leaving)
        self._coming: dict[int, tuple[int, float, float]] = {}
        """By job id."""

    def leaves(self, group: int, gpus: float) -> None:
        """Somebody is told to make room."""
        self._leaving.append((group, gpus))

    def comes(self, job_id: int, group: int, gpus: float, gpu_seconds: float) -> None:
        """Somebody for whom others do."""
        self._coming[job_id] = group, gpus, gpu_seconds

    def barring(self, group: int, gpus: float, gpu_seconds: float) -> Barred | None:
        """The limit that they would exceed if one more started before; None if there is none."""
        if not self._coming:
            return None
        tally = self._tally
        mark = tally.mark()
        for gone in self._leaving:
            tally.remove(*gone, 0.0)
        for come in self._coming.values():
            tally.add(*come)
        limit = tally.check(group, gpus, gpu_seconds)
        tally.reset(mark)
        if limit in (FITS, BORROWS):
            return None
        mine = tally.counters(group)
        (rule,) = (one.rule for one in (*mine.jobs, *mine.gpus, *mine.micros) if one.index == limit)
        by = (job for job, come in self._coming.items() if limit in tally.limits(come[0]))
        return Barred(rule, tuple(sorted(by)))
