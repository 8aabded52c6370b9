"""What counts against quotas while a plan is being made. Mutable; of one scheduling pass.

Jobs of one project, user and band form a group and count against the same limits, so that to ask
for one more costs a few comparisons of whole numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from operator import itemgetter

from jobs.bands import Band
from jobs.scheduler.fairshare import Project
from jobs.scheduler.limits import (
    PARTS_PER_GPU,
    Borrower,
    Key,
    Limited,
    Quota,
    Rule,
    Scope,
    Usage,
)
from jobs.scheduler.periods import Period, Slice
from jobs.scheduler.quota import MICROS, NOBODY, QuotaTree, counted, micros, parts

FITS = -1
"""Within all limits, and within its guarantee where there is one."""
BORROWS = -2
"""Within all limits, on GPUs that are lent."""

SCALE = {
    Limited.GPUS: PARTS_PER_GPU,
    Limited.LENDING: PARTS_PER_GPU,
    Limited.GPU_HOURS: MICROS * 3600,
    Limited.JOBS_RUNNING: 1,
    Limited.JOBS_PENDING: 1,
}
"""How many of what is counted make one of what people say."""
_PLACES = {
    Limited.JOBS_PENDING: "pending",
    Limited.JOBS_RUNNING: "jobs",
    Limited.GPUS: "gpus",
    Limited.LENDING: "gpus",
    Limited.GPU_HOURS: "micros",
}
_KINDS = ("pending", "jobs", "gpus", "micros", "guarantees")


class Counter:
    """What counts against one limit, of one user where it is one for each."""

    __slots__ = ("index", "limit", "rule", "taken", "used", "user_id")

    def __init__(self, index: int, rule: Rule, user_id: int | None) -> None:
        self.index = index
        self.rule = rule
        self.user_id = user_id
        self.limit = counted(rule.limited, rule.limit)
        self.taken = 0
        """All of it."""
        self.used = 0
        """Of GPU-hours: what has been used and not only charged."""

    def has_room(self, asked: int) -> bool:
        return self.taken + asked <= self.limit


Mark = tuple[list[tuple[Counter, int]], int]


class Group:
    """The counters that jobs of one project, user and band are counted in."""

    __slots__ = ("gpus", "guarantees", "jobs", "key", "limits", "micros", "pending")

    def __init__(self, key: Key, counters: Iterable[tuple[Counter, ...]]) -> None:
        self.key = key
        self.pending, self.jobs, self.gpus, self.micros, self.guarantees = counters
        self.limits = tuple(one.index for one in (*self.jobs, *self.gpus, *self.micros))


class Tally:
    """Counts, and says whether one more fits.

    Raises `ValueError` where `usage` lacks a period that a limit is for.
    """

    def __init__(
        self,
        projects: Iterable[Project],
        quotas: Iterable[Quota],
        usage: Usage,
        lends: frozenset[int | None] = NOBODY,
    ) -> None:
        self.tree = QuotaTree(projects, quotas, lends)
        self._usage = usage
        self._counters: dict[tuple[object, ...], Counter] = {}
        self._shared: dict[tuple[int, Band], list[list[Counter | Rule]]] = {}
        self._numbers: dict[Key, int] = {}
        self._groups: list[Group] = []
        self._charged: list[tuple[int, float, float]] = []
        """What was added and removed: group, GPUs, GPU-seconds; a sign for which."""
        for key, jobs in usage.pending.items():
            for counter in self._groups[self.group(*key)].pending:
                counter.taken += jobs
        for period, used in usage.used.items():
            for key, gpu_seconds in used.items():
                self._count_used(period, key, micros(gpu_seconds))
        for holding in usage.running:
            asked = holding.demand
            left = holding.seconds_left(usage.at) * asked.gpus
            self.add(self.group(asked.project_id, asked.user_id, asked.band), asked.gpus, left)

    def group(self, project_id: int, user_id: int, band: Band) -> int:
        """The number of a group, for the questions below. It is the same for all of a pass."""
        key = (project_id, user_id, band)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._groups)
            self._groups.append(Group(key, self._counters_of(key)))
        return number

    def check(self, group: int, gpus: float, gpu_seconds: float) -> int:
        """Whether a job may start: `FITS`, `BORROWS`, or from 0 on a limit that is in the way.

        Equal numbers are the same limit: while it has not changed, it is in the way of all that
        ask as much.
        """
        mine = self._groups[group]
        for counter in mine.jobs:
            if counter.taken >= counter.limit:
                return counter.index
        if not gpus:
            return FITS
        asked = round(gpus * PARTS_PER_GPU)
        for counter in mine.gpus:
            if counter.taken + asked > counter.limit:
                return counter.index
        if mine.micros:
            charged = round(gpu_seconds * MICROS)
            for counter in mine.micros:
                if counter.taken + charged > counter.limit:
                    return counter.index
        for counter in mine.guarantees:
            if counter.taken + asked > counter.limit:
                return BORROWS
        return FITS

    def mark(self) -> Mark:
        """What is counted now, for `reset`."""
        return [(counter, counter.taken) for counter in self._counters.values()], len(self._charged)

    def reset(self, mark: Mark) -> None:
        """Count again what was counted then."""
        taken, charged = mark
        for counter in self._counters.values():
            counter.taken = 0
        for counter, number in taken:
            counter.taken = number
        del self._charged[charged:]

    def limits(self, group: int) -> tuple[int, ...]:
        """All that `check` may tell to be in the way of this group's jobs."""
        return self._groups[group].limits

    def counters(self, group: int) -> Group:
        """All that this group counts in."""
        return self._groups[group]

    def history(self, counter: Counter) -> Iterable[Slice]:
        """When what counts in one of GPU-hours was used, as far as that is told."""
        return self._usage.history(counter.rule.account(counter.user_id))

    def owes(self, debtor: int, creditor: int, gpus: float) -> bool:
        """Whether a project of the one group runs on what the other has a right to.

        Somewhere on their ways up they are lenders to each other, the one beyond its guarantee,
        the other within its own even with so many GPUs more.
        """
        return any(
            theirs.taken > theirs.limit and mine.taken + parts(gpus) <= mine.limit
            for theirs, mine in self._siblings(debtor, creditor)
        )

    def trespasses(self, borrower: int, lender: int, gpus: float) -> bool:
        """Whether with so many GPUs more the one group would take what the other has a right to.

        Somewhere on their ways up they are lenders to each other, the one beyond its guarantee
        then, the other within its own.
        """
        return any(
            mine.taken + parts(gpus) > mine.limit and theirs.taken <= theirs.limit
            for mine, theirs in self._siblings(borrower, lender)
        )

    def _siblings(self, one: int, other: int) -> Iterator[tuple[Counter, Counter]]:
        """Their guarantees wherever their projects, or those above them, lend to each other."""
        by_parent = {self._parent(counter): counter for counter in self._groups[one].guarantees}
        for theirs in self._groups[other].guarantees:
            ours = by_parent.get(self._parent(theirs))
            if ours is not None and ours is not theirs:
                yield ours, theirs

    def over_guarantee(self, project_id: int) -> float:
        """The GPUs that a project and all below it have borrowed."""
        return self._over(project_id) / PARTS_PER_GPU

    def borrowers(self, group: int, gpus: float) -> tuple[Borrower, ...]:
        """Who has borrowed what a job of this group has a right to.

        A project asks back what siblings use beyond their guarantees, as long as it stays within
        its own. Most over first, relative to the guarantee (Kueue's dominant resource share with
        the guarantee for its weight); the nearest lenders before those further up.
        """
        mine = self._groups[group]
        guarded = {counter.rule.project_id: counter for counter in mine.guarantees}
        if not guarded:
            return ()
        project_id = mine.key[0]
        return tuple(
            borrower
            for project in self.tree.line(project_id)
            if project.id in guarded and guarded[project.id].has_room(parts(gpus))
            for borrower in self._borrowers_below(project.parent_id)
        )

    def is_below(self, group: int, project_id: int) -> bool:
        """Whether a group's jobs count against the guarantee of this project."""
        guarantees = self._groups[group].guarantees
        return any(counter.rule.project_id == project_id for counter in guarantees)

    def _borrowers_below(self, parent_id: int | None) -> list[Borrower]:
        """Nobody who is within their own guarantee is among them, nor is then who asks."""
        found = []
        for project_id, guarantee in self.tree.lenders[parent_id].items():
            over = self._over(project_id)
            if over > 0:
                limit = counted(Limited.GPUS, guarantee.limit)
                relative = Fraction(over, limit) if limit else math.inf
                borrower = Borrower(project_id, guarantee.limit, over / PARTS_PER_GPU)
                found.append((-relative, project_id, borrower))
        return [borrower for _, _, borrower in sorted(found, key=itemgetter(0, 1))]

    def _over(self, project_id: int) -> int:
        guarantee = self.tree.guarantees.get(project_id)
        counter = guarantee and self._counters.get((*guarantee.kind, None))
        return max(0, counter.taken - counter.limit) if counter else 0

    def _parent(self, counter: Counter) -> int | None:
        project_id = counter.rule.project_id
        return None if project_id is None else self.tree.projects[project_id].parent_id

    def add(self, group: int, gpus: float, gpu_seconds: float) -> None:
        """A job starts, and is charged with its whole walltime."""
        self._count(group, 1, gpus, gpu_seconds)

    def remove(self, group: int, gpus: float, gpu_seconds: float) -> None:
        """A job ends, and gives back what is left of its charge: what it has used stays used."""
        self._count(group, -1, gpus, gpu_seconds)

    def _counters_of(self, key: Key) -> Iterator[tuple[Counter, ...]]:
        """In the order of `_KINDS`. All users of a project share those that are not of each."""
        project_id, user_id, band = key
        if (project_id, band) not in self._shared:
            rules = self.tree.rules(project_id, band)
            self._shared[project_id, band] = [
                [self._shareable(rule) for rule in rules if _kind(rule) == kind] for kind in _KINDS
            ]
        for kind in self._shared[project_id, band]:
            yield tuple(
                self._counter(found, user_id) if isinstance(found, Rule) else found
                for found in kind
            )

    def _shareable(self, rule: Rule) -> Counter | Rule:
        return rule if rule.scope is Scope.USER else self._counter(rule, None)

    def _counter(self, rule: Rule, user_id: int | None) -> Counter:
        kind = (*rule.kind, user_id)
        found = self._counters.get(kind)
        if found is None:
            if rule.period is not None and rule.period not in self._usage.used:
                raise ValueError(f"it is not told what was used {rule.period}")
            found = self._counters[kind] = Counter(len(self._counters), rule, user_id)
        return found

    def _count_used(self, period: Period, key: Key, amount: int) -> None:
        for counter in self._groups[self.group(*key)].micros:
            if counter.rule.period == period:
                counter.taken += amount
                counter.used += amount

    def _count(self, group: int, sign: int, gpus: float, gpu_seconds: float) -> None:
        mine = self._groups[group]
        for counter in mine.jobs:
            counter.taken += sign
        if not gpus:
            return
        asked = sign * parts(gpus)
        for counter in mine.gpus:
            counter.taken += asked
        for counter in mine.guarantees:
            counter.taken += asked
        if mine.micros:
            charge = sign * micros(gpu_seconds)
            for counter in mine.micros:
                counter.taken += charge
            self._charged.append((group, gpus, sign * gpu_seconds))


def _kind(rule: Rule) -> str:
    """Where a group has its counter; empty for what is not counted."""
    if rule.guarantee:
        return "guarantees"
    return _PLACES.get(rule.limited, "")
