"""What those will take of quotas who are promised a time, while others may still start before them.

Whoever starts meanwhile must leave them their part of the quota, as they have to of the nodes:
else a job would come to its promised time and could not start.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from jobs.scheduler.limits import Limited, Rule
from jobs.scheduler.quota import micros, parts
from jobs.scheduler.tally import Counter, Tally


@dataclass(frozen=True, slots=True)
class Taken:
    """What a job has, will have, or asks for. Times are seconds since the epoch."""

    job_id: int
    group: int
    """That of the tally."""
    gpus: float
    start: float
    end: float


@dataclass(frozen=True)
class Barred:
    """Why a job may not start, or be promised a time, though it is within its quotas."""

    rule: Rule
    """Of which nothing would be left to those before it."""
    by: tuple[int, ...]
    """Their numbers."""


class Claims:
    """Of those who are promised a time in one pass."""

    def __init__(self, tally: Tally, held: Callable[[], Iterable[Taken]]) -> None:
        """`held`: tells what those have who run, and is asked only if that matters."""
        self._tally = tally
        self._held = held
        self._begun: list[Taken] = []
        self._made: dict[int, list[Taken]] = defaultdict(list)
        """By the limit that they count against."""
        self._ends: dict[int, list[tuple[float, int]]] | None = None
        """By limit: when somebody gives back how much."""

    def make(self, claim: Taken) -> None:
        """Somebody is promised a time."""
        for counter, _ in self._amounts(claim):
            self._made[counter.index].append(claim)

    def begins(self, taken: Taken) -> None:
        """Somebody starts now."""
        self._begun.append(taken)
        self._ends = None

    def barring(self, asked: Taken) -> Barred | None:
        """What keeps a job from having so much then; None if nobody's claim is in its way."""
        if not self._made:
            return None
        for counter, amount in self._amounts(asked):
            rivals = self._rivals(counter, asked)
            if rivals and self._reaches(counter, amount, asked, rivals):
                return Barred(counter.rule, tuple(sorted(one.job_id for one in rivals)))
        return None

    def exceeded(self, asked: Taken) -> bool:
        """Whether its limits do not let a job have so much then, as far as is known now."""
        group = self._tally.counters(asked.group)
        if any(
            one.rule.limited is Limited.LENDING and not one.has_room(parts(asked.gpus))
            for one in group.gpus
        ):
            return True
        return any(
            self._reaches(counter, amount, asked, self._rivals(counter, asked))
            for counter, amount in self._amounts(asked)
        )

    def room_at(self, asked: Taken) -> float:
        """From when on it could have so much for as long, as far as is known now; infinity if that
        is not known."""
        length = asked.end - asked.start
        ends = self._given_back_at()
        moments = {end for of_limit in ends.values() for end, _ in of_limit if end > asked.start}
        for start in (asked.start, *sorted(moments)):
            if start < math.inf and not self.exceeded(
                replace(asked, start=start, end=start + length)
            ):
                return start
        return math.inf

    def _rivals(self, counter: Counter, asked: Taken) -> list[Taken]:
        """Those who have their part while this one runs; GPU-hours are used up by all of them,
        whenever they run."""
        claims = self._made.get(counter.index, [])
        if _lasts(counter):
            return claims
        return [one for one in claims if one.start < asked.end and asked.start < one.end]

    def _reaches(
        self, counter: Counter, amount: int, asked: Taken, rivals: Sequence[Taken]
    ) -> bool:
        """Whether a limit is exceeded at any time while it would run."""
        if _lasts(counter):
            return counter.taken + self._sum(counter, rivals) + amount > counter.limit
        starts = {asked.start, *(one.start for one in rivals if one.start > asked.start)}
        return any(
            counter.taken - self._given_back(counter, moment) + amount
            + self._sum(counter, [one for one in rivals if one.start <= moment < one.end])
            > counter.limit
            for moment in starts
        )  # fmt: skip

    def _amounts(self, taken: Taken) -> Iterator[tuple[Counter, int]]:
        """What it counts in, and how much; not in what projects lend, which is all there is."""
        group = self._tally.counters(taken.group)
        for counter in group.jobs:
            yield counter, 1
        for counter in group.gpus if taken.gpus else ():
            if counter.rule.limited is not Limited.LENDING:
                yield counter, parts(taken.gpus)
        for counter in group.micros if taken.gpus else ():
            yield counter, micros(taken.gpus * (taken.end - taken.start))

    def _sum(self, counter: Counter, claims: Iterable[Taken]) -> int:
        return sum(
            amount for one in claims for other, amount in self._amounts(one) if other is counter
        )

    def _given_back(self, counter: Counter, moment: float) -> int:
        """By those who run now, or start in this pass, and have ended by then."""
        ends = self._given_back_at().get(counter.index, ())
        return sum(amount for end, amount in ends if end <= moment)

    def _given_back_at(self) -> dict[int, list[tuple[float, int]]]:
        if self._ends is None:
            self._ends = defaultdict(list)
            for one in (*self._held(), *self._begun):
                for counter, amount in self._amounts(one):
                    self._ends[counter.index].append((one.end, amount))
        return self._ends


def _lasts(counter: Counter) -> bool:
    """Whether what counts in it still does when the job has ended."""
    return counter.rule.limited is Limited.GPU_HOURS
