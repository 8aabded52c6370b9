"""The one thing a job's owner could change for it to start sooner: tried, not guessed.

Each change is put into the queue in place of the request, and the real plan is asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from jobs.scheduler.changes import Change, Steps, changes
from jobs.scheduler.plan import expect, plan
from jobs.scheduler.snapshot import Pending, Snapshot
from jobs.scheduler.when import about
from jobs.scheduler.words import capital

SOONER = timedelta(minutes=5)
SOONER_PART = 0.1
"""Less than this, and than this part of the wait, is worth no change, and no larger change."""


@dataclass(frozen=True)
class Advice:
    """A change, when the job would start with it, and both in a sentence."""

    job: Pending
    at: datetime
    sentence: str


def advise(
    snapshot: Snapshot, job_id: int, now: datetime, partitions: Iterable[str] = ()
) -> Advice | None:
    """The least change that starts this waiting job at once, or the one that starts it first.

    None if none does so noticeably sooner. `partitions`: others that it may go to.
    """
    job = next(waits for waits in snapshot.pending if waits.id == job_id)
    things = [steps for steps in changes(job, snapshot, now, partitions) if steps]
    for steps in things:
        if _starts(steps[-1], snapshot, now):
            least = _least(steps, snapshot, now)
            return Advice(least.job, now, f"{capital(least.words)} it would start now.")
    return _soonest(things, snapshot, job, now)


def _starts(change: Change, snapshot: Snapshot, now: datetime) -> bool:
    decided = plan(_with(snapshot, change.job), now, explained=False)
    return any(start.job_id == change.job.id for start in decided.starts)


def _least(steps: Steps, snapshot: Snapshot, now: datetime) -> Change:
    """The first step that starts the job; the last is known to."""
    first, last = 0, len(steps) - 1
    while first < last:
        middle = (first + last) // 2
        if _starts(steps[middle], snapshot, now):
            last = middle
        else:
            first = middle + 1
    return steps[last]


def _soonest(
    things: Iterable[Steps], snapshot: Snapshot, job: Pending, now: datetime
) -> Advice | None:
    """Of each thing half of the change and all of it are foretold."""
    usual = expect(snapshot, now).get(job.id)
    best: tuple[datetime, Change] | None = None
    for steps in things:
        for change in dict.fromkeys((steps[len(steps) // 2], steps[-1])):
            at = expect(_with(snapshot, change.job), now).get(job.id)
            # Foretold for now, though the plan does not start it: not to be relied on.
            if at is not None and at > now and _is_worth_it(at, best[0] if best else usual, now):
                best = at, change
    if best is None:
        return None
    at, change = best
    as_it_is = f"; as it is, {about(usual, now)}" if usual else ""
    sentence = f"{capital(change.words)} it is expected to start {about(at, now)}{as_it_is}."
    return Advice(change.job, at, sentence)


def _is_worth_it(at: datetime, usual: datetime | None, now: datetime) -> bool:
    """Sooner, and by so much that it is told in other words."""
    if usual is None:
        return True
    least = max(SOONER, SOONER_PART * (usual - now))
    return usual - at >= least and about(at, now) != about(usual, now)


def _with(snapshot: Snapshot, job: Pending) -> Snapshot:
    others = tuple(waits for waits in snapshot.pending if waits.id != job.id)
    return replace(snapshot, pending=(*others, job))
