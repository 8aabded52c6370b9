"""Arrays in lists of jobs: one row for all of an array's jobs that a list would show."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from django.db.models import Count, Exists, Max, Min, OuterRef, Q, QuerySet

from jobs import lifecycle
from jobs.lifecycle import State
from portal.models import Job

_SHOWN = (State.RUNNING, State.CONFIGURING, State.COMPLETING, State.PENDING)
_LAST = (State.CANCELLED, State.COMPLETED)
STATE_ORDER = (*_SHOWN, *(state for state in State if state not in _SHOWN + _LAST), *_LAST)
"""What goes on, what is to come, what went wrong, and then the rest."""


@dataclass(frozen=True)
class Summary:
    """How an array stands as a whole."""

    id: int
    first: int
    last: int
    """Its smallest and its largest index."""
    states: tuple[tuple[State, int], ...]
    """How many of its jobs are in which state, in `STATE_ORDER`."""
    next_id: int | None
    """The first of its jobs that wait."""

    @property
    def jobs(self) -> int:
        return sum(number for _, number in self.states)


@dataclass(frozen=True)
class Left:
    """What of an array a person can still cancel, hold and release."""

    states: tuple[tuple[State, int], ...]
    """How many of the jobs that cancelling ends are in which state, in `STATE_ORDER`."""
    held: int
    """How many of those that wait."""
    held_by_admin: int
    """How many of these an administrator holds."""
    held_twice: int
    """How many of these their owner holds, too."""

    @property
    def jobs(self) -> int:
        return sum(number for _, number in self.states)

    @property
    def waiting(self) -> int:
        return sum(number for state, number in self.states if state in lifecycle.WAITING)

    @property
    def owner_may_hold(self) -> int:
        """How many wait that their owner does not hold."""
        return self.waiting - self.owner_may_release

    @property
    def owner_may_release(self) -> int:
        """How many are held, and not by an administrator alone."""
        return self.held - self.held_by_admin + self.held_twice


def folded(jobs: QuerySet[Job], alike: QuerySet[Job], *, newest: bool) -> QuerySet[Job]:
    """Of these jobs only one of each array: its last or its first one that is in the list.

    `alike` says which jobs of an array are in the list, worded by `state__in`: the database then
    finds the next one by `job_by_array`, and a long list is never sorted or grouped.
    """
    further = {"pk__gt" if newest else "pk__lt": OuterRef("pk")}
    return jobs.exclude(Exists(alike.filter(array_id=OuterRef("array_id"), **further)))


def several(jobs: QuerySet[Job], array_ids: Collection[int]) -> set[int]:
    """Of these arrays, those of which more than one job is in the list `jobs`."""
    if not array_ids:
        return set()
    counted = jobs.filter(array_id__in=array_ids).order_by().values_list("array_id")
    found = counted.annotate(jobs=Count("pk")).filter(jobs__gt=1)
    return {array_id for array_id, _ in found if array_id is not None}


class _Part(NamedTuple):
    """An array's jobs in one state."""

    jobs: int
    head: int
    """The smallest id."""
    first: int
    last: int


def summaries(array_ids: Collection[int]) -> dict[int, Summary]:
    """How these arrays stand, by their ids."""
    if not array_ids:
        return {}
    jobs = Job.objects.filter(array_id__in=array_ids).order_by().values_list("array_id", "state")
    found: dict[int, dict[State, _Part]] = defaultdict(dict)
    for array_id, state, *counted in jobs.annotate(
        Count("pk"), Min("pk"), Min("array_index"), Max("array_index")
    ):
        found[array_id or 0][State(state)] = _Part(*counted)
    return {array_id: _summary(array_id, parts) for array_id, parts in found.items()}


def one(array_id: int) -> Summary | None:
    """How this array stands; None when there is none of this id."""
    return summaries([array_id]).get(array_id)


def head(array_id: int) -> Job | None:
    """The array's first job, with its owner; None when there is no array of this id."""
    return Job.objects.select_related("owner").filter(pk=array_id, array_id=array_id).first()


def cancellable(array_id: int) -> QuerySet[Job]:
    """Its jobs that have not ended and whose end nobody has asked for."""
    unfinished = lifecycle.WAITING | lifecycle.ACTIVE
    return Job.objects.filter(array_id=array_id, state__in=unfinished, cancelled_at=None)


def left(array_id: int) -> Left:
    """What cancelling, holding and releasing this array would concern."""
    counted = cancellable(array_id).order_by().values_list("state").annotate(
        jobs=Count("pk"), held_jobs=Count("pk", filter=Q(held=True)),
        admin_holds=Count("pk", filter=Q(held_by_admin=True)),
        both_hold=Count("pk", filter=Q(held_by_admin=True, held_by_owner=True)),
    )  # fmt: skip
    found = {State(state): numbers for state, *numbers in counted}
    waiting = [found[state][1:] for state in lifecycle.WAITING if state in found]
    held, by_admin, twice = map(sum, zip(*waiting, strict=True)) if waiting else (0, 0, 0)
    return Left(
        states=tuple((state, found[state][0]) for state in STATE_ORDER if state in found),
        held=held,
        held_by_admin=by_admin,
        held_twice=twice,
    )


def _summary(array_id: int, parts: dict[State, _Part]) -> Summary:
    return Summary(
        id=array_id,
        first=min(part.first for part in parts.values()),
        last=max(part.last for part in parts.values()),
        states=tuple((state, parts[state].jobs) for state in STATE_ORDER if state in parts),
        next_id=min((parts[s].head for s in lifecycle.WAITING if s in parts), default=None),
    )
