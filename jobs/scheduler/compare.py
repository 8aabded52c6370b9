"""What another policy, other shares or other nodes would make of the same queue: planned, not
guessed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from jobs.lifecycle import Reason
from jobs.scheduler.plan import plan
from jobs.scheduler.preempt import may_be_asked
from jobs.scheduler.rank import ranked
from jobs.scheduler.snapshot import Plan, Preempted, Running, Snapshot

NOTICED = timedelta(minutes=5)
"""An expected start that moves by less is as it was."""
_NO_TURN = (Reason.BEGIN_TIME, Reason.DEPENDENCY, Reason.ARRAY_LIMIT)
"""Who waits for these may start one day, but has no place in the queue now."""


@dataclass(frozen=True)
class First:
    """Whose turn it is in a partition: jobs by their ids."""

    partition: str
    before: int
    after: int


@dataclass(frozen=True)
class Moved:
    """A job that waits either way, and when it is expected to start."""

    job_id: int
    before: datetime
    after: datetime


@dataclass(frozen=True)
class Difference:
    """Between two plans for the same moment. Jobs by their ids, in order."""

    first: tuple[First, ...]
    starting: tuple[int, ...]
    """Those that would start now, and do not as it is."""
    kept_waiting: tuple[int, ...]
    """Those that start now as it is, and would not."""
    preempted: tuple[Preempted, ...]
    """Those that would be told to make room now, and are not as it is."""
    exposed: tuple[int, ...]
    """Running jobs that a job of a higher band could preempt, and cannot as it is."""
    safe: tuple[int, ...]
    """The other way round."""
    moved: tuple[Moved, ...]
    """Expected starts that differ, those that differ most before the others."""


def compare(before: Snapshot, after: Snapshot, now: datetime) -> Difference:
    """Both at the same moment, `now`. Deterministic, whatever the order of the snapshots."""
    old, new = plan(before, now), plan(after, now)
    was, will = _starting(old), _starting(new)
    had, has = exposed(before, now), exposed(after, now)
    told = {one.job_id for one in old.preempted}
    return Difference(
        first=tuple(_first(_turns(before, old, now), _turns(after, new, now))),
        starting=tuple(sorted(will - was)),
        kept_waiting=tuple(sorted(was - will)),
        preempted=tuple(
            sorted(
                (one for one in new.preempted if one.job_id not in told),
                key=lambda one: one.job_id,
            )
        ),
        exposed=tuple(sorted(has - had)),
        safe=tuple(sorted(had - has)),
        moved=tuple(sorted(_moved(old, new), key=_by_most)),
    )


def exposed(snapshot: Snapshot, now: datetime) -> frozenset[int]:
    """Running jobs that the policy lets a job of a higher band preempt at this moment."""
    policy = snapshot.policy
    victims = frozenset(band for bands in policy.preempts.values() for band in bands)
    return frozenset(
        job.id
        for job in snapshot.running
        if job.band in victims
        and not job.leaving
        and may_be_asked(policy, _run_s(job, now), job.preemptions)
    )


def _run_s(job: Running, now: datetime) -> float:
    return (now - job.started_at).total_seconds() if job.started_at else 0.0


def _starting(decided: Plan) -> set[int]:
    return {start.job_id for start in decided.starts}


def _turns(snapshot: Snapshot, decided: Plan, now: datetime) -> dict[str, int]:
    """By partition the first job of those that can start and wait for nothing but their turn."""
    starting = _starting(decided)
    found: dict[str, int] = {}
    for job in ranked(snapshot, now):
        why = decided.explanations.get(job.id)
        waits = job.id in decided.estimates and why is not None and why.reason not in _NO_TURN
        if job.id in starting or waits:
            found.setdefault(job.partition, job.id)
    return found


def _first(before: dict[str, int], after: dict[str, int]) -> Iterator[First]:
    for partition in sorted(before.keys() & after.keys()):
        if before[partition] != after[partition]:
            yield First(partition, before[partition], after[partition])


def _moved(old: Plan, new: Plan) -> Iterable[Moved]:
    for job_id in old.estimates.keys() & new.estimates.keys():
        one = Moved(job_id, old.estimates[job_id].at, new.estimates[job_id].at)
        if abs(one.after - one.before) >= NOTICED:
            yield one


def _by_most(one: Moved) -> tuple[timedelta, int]:
    return -abs(one.after - one.before), one.job_id
