"""What another policy, other shares or other nodes would make of the same queue: planned, not
guessed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from jobs.lifecycle import NO_TURN
from jobs.scheduler.plan import plan
from jobs.scheduler.preempt import may_be_asked
from jobs.scheduler.rank import ranked
from jobs.scheduler.snapshot import Plan, Preempted, Running, Snapshot

NOTICED = timedelta(minutes=5)
"""An expected start that moves by less is as it was."""


@dataclass(frozen=True)
class First:
    """Whose turn it is in a partition: jobs by their ids."""

    partition: str
    before: int
    after: int


@dataclass(frozen=True)
class Moved:
    """A job that waits either way, and when it is expected to start; `before` None: nobody could
    tell."""

    job_id: int
    before: datetime | None
    after: datetime


@dataclass(frozen=True)
class Lost:
    """A job that would have no expected start any more, and why."""

    job_id: int
    why: str


@dataclass(frozen=True)
class Difference:
    """Between two plans for the same moment. Jobs by their ids, in order."""

    first: tuple[First, ...]
    starting: tuple[int, ...]
    """Those that would start now, and do not as it is."""
    kept_waiting: tuple[int, ...]
    """Those that start now as it is, and would later."""
    preempted: tuple[Preempted, ...]
    """Those that would be told to make room now, and are not as it is."""
    exposed: tuple[int, ...]
    """Running jobs that a job of a higher band could preempt, and cannot as it is."""
    safe: tuple[int, ...]
    """The other way round."""
    moved: tuple[Moved, ...]
    """Expected starts that differ: those that are new, then those that differ most."""
    lost: tuple[Lost, ...]
    """Those that start as it is, now or later, and by all that is known would not."""


def compare(before: Snapshot, after: Snapshot, now: datetime) -> Difference:
    """Both at the same moment, `now`. Deterministic, whatever the order of the snapshots."""
    old, new = plan(before, now), plan(after, now)
    was, will = _starting(old), _starting(new)
    had, has = exposed(before, now), exposed(after, now)
    told = {one.job_id for one in old.preempted}
    lost = sorted(_lost(old, new), key=lambda one: one.job_id)
    return Difference(
        first=tuple(_first(_turns(before, old, now), _turns(after, new, now))),
        starting=tuple(sorted(will - was)),
        kept_waiting=tuple(sorted(was - will - {one.job_id for one in lost})),
        preempted=tuple(
            sorted(
                (one for one in new.preempted if one.job_id not in told),
                key=lambda one: one.job_id,
            )
        ),
        exposed=tuple(sorted(has - had)),
        safe=tuple(sorted(had - has)),
        moved=tuple(sorted(_moved(old, new), key=_by_most)),
        lost=tuple(lost),
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
    """By partition the first job of those that wait for their turn."""
    starting = _starting(decided)
    found: dict[str, int] = {}
    for job in ranked(snapshot, now):
        why = decided.explanations.get(job.id)
        waits = why is not None and why.reason not in NO_TURN
        if job.id in starting or waits:
            found.setdefault(job.partition, job.id)
    return found


def _first(before: dict[str, int], after: dict[str, int]) -> Iterator[First]:
    for partition in sorted(before.keys() & after.keys()):
        if before[partition] != after[partition]:
            yield First(partition, before[partition], after[partition])


def _moved(old: Plan, new: Plan) -> Iterable[Moved]:
    for job_id in new.estimates.keys() & (old.estimates.keys() | old.explanations.keys()):
        was, after = old.estimates.get(job_id), new.estimates[job_id].at
        if was is None or abs(after - was.at) >= NOTICED:
            yield Moved(job_id, was.at if was else None, after)


def _by_most(one: Moved) -> tuple[bool, timedelta, int]:
    by = abs(one.after - one.before) if one.before else timedelta()
    return one.before is not None, -by, one.job_id


def _lost(old: Plan, new: Plan) -> Iterable[Lost]:
    begins = old.estimates.keys() | _starting(old)
    for job_id in begins & (new.explanations.keys() - new.estimates.keys()):
        told = new.explanations[job_id]
        yield Lost(job_id, " ".join((told.detail, *told.more)))
