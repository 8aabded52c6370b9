"""What jobs wait for of other jobs, and what has become of that."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple, Protocol

from django.db.models import F, Q

from jobs import lifecycle
from jobs.lifecycle import State
from jobs.scheduler.snapshot import DependencyState
from jobs.spec import Dependency, DependencyKind, JobSpec
from portal.models import Job


def in_vain(spec: JobSpec) -> tuple[Dependency, ...]:
    """Those of its dependencies that can never come true, as the others ended otherwise."""
    known = states([spec])
    return tuple(
        wait
        for wait in spec.dependencies
        if wait.job_id in known and judge(wait, known, ()) is DependencyState.NEVER
    )


class Named(Protocol):
    """A job as `singleton` knows it."""

    @property
    def pk(self) -> int: ...
    @property
    def owner_id(self) -> int: ...
    @property
    def name(self) -> str: ...


class Dependencies:
    """What each of some waiting jobs waits for, read in a constant number of queries."""

    def __init__(self, asked: Sequence[tuple[Named, JobSpec]]) -> None:
        waits = [(row, spec) for row, spec in asked if spec.dependencies]
        self._states = states(spec for _, spec in waits)
        self._known: dict[Dependency, DependencyState] = {}
        """All tasks of an array wait for the same."""
        self._singles = _earlier_singletons([row for row, spec in waits if is_single(spec)])

    def of(
        self, row: Named, spec: JobSpec
    ) -> tuple[DependencyState, tuple[int, ...], tuple[int, ...]]:
        """What they come to, and the jobs (or arrays, by their ids) that it comes from; where some
        ended otherwise, also those that have not ended yet."""
        if not spec.dependencies:
            return DependencyState.NONE, (), ()
        singles = self._singles.get(row.pk, ())
        judged = [(wait, self._judged(wait, singles)) for wait in spec.dependencies]
        state = together([found for _, found in judged])
        if state in (DependencyState.NONE, DependencyState.MET):
            return state, (), ()
        besides = state is DependencyState.NEVER
        return (
            state,
            _awaited(judged, state, singles),
            _awaited(judged, DependencyState.WAITING, singles) if besides else (),
        )

    def _judged(self, wait: Dependency, singles: tuple[int, ...]) -> DependencyState:
        if wait.kind is DependencyKind.SINGLETON:
            return judge(wait, {}, singles)
        if wait not in self._known:
            self._known[wait] = judge(wait, self._states, ())
        return self._known[wait]


def _awaited(
    judged: Iterable[tuple[Dependency, DependencyState]], state: DependencyState,
    singles: tuple[int, ...],
) -> tuple[int, ...]:  # fmt: skip
    found = (_jobs(wait, singles) for wait, judgement in judged if judgement is state)
    return tuple(sorted({job_id for ids in found for job_id in ids}))


def _jobs(wait: Dependency, singles: tuple[int, ...]) -> tuple[int, ...]:
    return (wait.job_id,) if wait.job_id else singles


def without(row: Named, spec: JobSpec, ids: Iterable[int]) -> tuple[Dependency, ...]:
    """Its dependencies less those on these jobs (or arrays, by their ids)."""
    singles = _earlier_singletons([row]).get(row.pk, ()) if is_single(spec) else ()
    left_out = frozenset(ids)
    return tuple(wait for wait in spec.dependencies if left_out.isdisjoint(_jobs(wait, singles)))


def is_single(spec: JobSpec) -> bool:
    """Whether it waits for its owner's earlier jobs of the same name."""
    return any(wait.kind is DependencyKind.SINGLETON for wait in spec.dependencies)


def together(states: Iterable[DependencyState]) -> DependencyState:
    found = set(states)
    for worst in (DependencyState.NEVER, DependencyState.WAITING, DependencyState.MET):
        if worst in found:
            return worst
    return DependencyState.NONE


def judge(
    wait: Dependency, states: dict[int, list[str]], singles: tuple[int, ...]
) -> DependencyState:
    if wait.kind is DependencyKind.SINGLETON:
        return DependencyState.WAITING if singles else DependencyState.MET
    found = [State(state) for state in states.get(wait.job_id or 0, [])]
    if any(state not in lifecycle.ENDED for state in found):
        return DependencyState.WAITING
    well = bool(found) and all(state is State.COMPLETED for state in found)
    if wait.kind is DependencyKind.AFTER_ANY:
        return DependencyState.MET
    wanted = well if wait.kind is DependencyKind.AFTER_OK else bool(found) and not well
    return DependencyState.MET if wanted else DependencyState.NEVER


def states(specs: Iterable[JobSpec]) -> dict[int, list[str]]:
    """The states of all jobs that others wait for; an array's id stands for all of its jobs."""
    wanted = {wait.job_id for spec in specs for wait in spec.dependencies if wait.job_id}
    if not wanted:
        return {}
    found: dict[int, list[str]] = defaultdict(list)
    one = Job.objects.filter(Q(array_id=None) | ~Q(array_id=F("pk")), pk__in=wanted)
    for job_id, state in one.values_list("pk", "state"):
        found[job_id].append(state)
    for row in Job.objects.filter(array_id__in=wanted).only("array_id", "state"):
        found[row.array_id or row.pk].append(row.state)
    return found


def after_alike(rows: Iterable[Named], single: Container[int]) -> dict[int, tuple[int, ...]]:
    """For each of `single`, by their ids, the earlier ones of the same owner and name: from the
    latest of them that is single itself on, since that one waits for all before it."""
    since: dict[tuple[int, str], list[int]] = defaultdict(list)
    found: dict[int, tuple[int, ...]] = {}
    for row in sorted(rows, key=lambda row: row.pk):
        alike = since[row.owner_id, row.name]
        if row.pk in single:
            found[row.pk] = tuple(alike)
            alike.clear()
        alike.append(row.pk)
    return found


class _Alike(NamedTuple):
    pk: int
    owner_id: int
    name: str


def _earlier_singletons(single: Sequence[Named]) -> dict[int, tuple[int, ...]]:
    """For each of these the owner's earlier unfinished jobs of the same name."""
    if not single:
        return {}
    unfinished = Job.objects.filter(
        state__in=lifecycle.WAITING | lifecycle.ACTIVE, owner__in={row.owner_id for row in single}
    )
    rows: dict[int, Named] = {row.pk: row for row in single}
    for values in unfinished.values_list("pk", "owner_id", "name"):
        rows.setdefault(values[0], _Alike(*values))
    return after_alike(rows.values(), {row.pk for row in single})
