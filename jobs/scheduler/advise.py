"""The one thing a job's owner could change for it to start sooner: tried, not guessed.

All changes are tried in one walk along the queue; what comes of the best is asked of the real plan,
in whose queue it is put in place of the request. It stays the same job, with its age and its claim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from jobs.bands import Band
from jobs.scheduler.alternatives import Alternative, Steps, alternatives
from jobs.scheduler.plan import expect, plan
from jobs.scheduler.snapshot import Pending, Snapshot
from jobs.scheduler.tries import Tries
from jobs.scheduler.when import about
from jobs.scheduler.words import capital

SOONER = timedelta(minutes=5)
SOONER_PART = 0.1
"""Less than this, and than this part of the wait, is worth no change, and no larger change."""
FORETOLD = 2
"""So many changes at most are foretold, the most promising first."""
Tried = tuple[datetime, Alternative]
"""When a job would start with a change."""
Foretell = Callable[[Sequence[Pending]], Sequence[Pending]]
"""The same requests with how long each is expected to run, which may depend on what it asks for."""


@dataclass(frozen=True)
class Advice:
    """A change, when the job would start with it, and both in a sentence."""

    job: Pending
    at: datetime
    change: str
    """In words, as a sentence."""
    sentence: str

    @classmethod
    def of(cls, change: Alternative, at: datetime, then: str) -> Advice:
        words = capital(change.words)
        return cls(change.job, at, f"{words.removesuffix(',')}.", f"{words} {then}.")


def advise(
    snapshot: Snapshot, job_id: int, now: datetime,
    partitions: Iterable[str] = (), bands: Iterable[Band] = (), foretell: Foretell = tuple,
) -> Advice | None:  # fmt: skip
    """The least change that starts this waiting job at once, or the one that starts it first.

    None if none does so noticeably sooner. `partitions` and lower `bands`: others that it may
    go to.
    """
    job = next(waits for waits in snapshot.pending if waits.id == job_id)
    things = _foretold(alternatives(job, snapshot, now, partitions, bands), foretell)
    tries = Tries(snapshot, job, [step.job for steps in things for step in steps], now)
    for steps in things:
        least = next((step for step in steps if tries.starts(step.job)), None)
        if least is not None and _starts(least, snapshot, now):
            return Advice.of(least, now, "it would start now")
    return _soonest(things, tries, snapshot, job, now)


def _foretold(things: Iterable[Steps], foretell: Foretell) -> list[Steps]:
    found = [steps for steps in things if steps]
    jobs = iter(foretell([step.job for steps in found for step in steps]))
    return [[replace(step, job=next(jobs)) for step in steps] for steps in found]


def _starts(change: Alternative, snapshot: Snapshot, now: datetime) -> bool:
    decided = plan(_with(snapshot, change.job), now, explained=False)
    return any(start.job_id == change.job.id for start in decided.starts)


def _soonest(
    things: Iterable[Steps], tries: Tries, snapshot: Snapshot, job: Pending, now: datetime
) -> Advice | None:
    """Of each thing half of the change and all of it are tried, and the best are foretold."""
    steps = [step for of in things for step in dict.fromkeys((of[len(of) // 2], of[-1]))]
    as_is, *moments = tries.expected([job, *(step.job for step in steps)])
    tried = [(at, step) for at, step in zip(moments, steps, strict=True) if at is not None]
    if _best(tried, as_is, now) is None:
        return None
    usual = expect(snapshot, now, [job.id]).get(job.id)
    for _ in range(FORETOLD):
        best = _best(tried, as_is, now)
        if best is None:
            return None
        change = best[1]
        at = expect(_with(snapshot, change.job), now, [job.id]).get(job.id)
        # Foretold for now, though the plan does not start it: not to be relied on.
        if at is not None and at > now and _is_worth_it(at, usual, now):
            as_it_is = f"; as it is, {about(usual, now)}" if usual else ""
            return Advice.of(change, at, f"it is expected to start {about(at, now)}{as_it_is}")
        tried.remove(best)
    return None


def _best(tried: Iterable[Tried], usual: datetime | None, now: datetime) -> Tried | None:
    """A larger change has to be worth it against the smaller one."""
    best = None
    for at, change in tried:
        if _is_worth_it(at, best[0] if best else usual, now):
            best = at, change
    return best


def _is_worth_it(at: datetime, usual: datetime | None, now: datetime) -> bool:
    """Sooner, and by so much that it is told in other words."""
    if usual is None:
        return True
    least = max(SOONER, SOONER_PART * (usual - now))
    return usual - at >= least and about(at, now) != about(usual, now)


def _with(snapshot: Snapshot, job: Pending) -> Snapshot:
    others = tuple(waits for waits in snapshot.pending if waits.id != job.id)
    return replace(snapshot, pending=(*others, job))
