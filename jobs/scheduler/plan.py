"""Who starts now, where, why the rest waits, and until when.

Jobs are taken band by band, and within a band by their priority. A job that waits for something
of its own (held, not begun yet, another job, its array's limit), for a quota, or for nodes that
take no jobs at the moment, lets others pass. Behind a job that waits for room others start only if
they do not delay what it is promised (`decide.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

from jobs.scheduler.rank import ranked
from jobs.scheduler.snapshot import Plan, Snapshot
from jobs.scheduler.walk import Walk


def plan(snapshot: Snapshot, now: datetime, *, explained: bool = True) -> Plan:
    """Decide for every pending job. `now` has a time zone; sentences give times in it.

    Deterministic; the order of the snapshot's tuples means nothing. Without `explained` it tells
    only what starts and what expires.
    """
    decision = Decision(snapshot, now)
    return decision.explained() if explained else decision.plan


class Decision:
    """A plan that can be carried out before it is explained, which takes longer than to make it."""

    plan: Plan
    """Who starts, and whom something of their own keeps back."""

    def __init__(self, snapshot: Snapshot, now: datetime) -> None:
        self._walk: Walk | None = None
        self.plan = Plan((), {})
        if not snapshot.pending:
            return
        self._walk = walk = Walk.of(snapshot, now)
        queue = ranked(snapshot, now)
        walk.begin(queue)
        for job in queue:
            walk.take(job)
        decided = walk.finish()
        starts, preempted = tuple(decided.starts), tuple(decided.preempted)
        self.plan = Plan(starts, walk.own, tuple(walk.expired), preempted)

    def explained(self) -> Plan:
        """The same with the reasons and estimates of all who wait."""
        if self._walk is None:
            return self.plan
        foresight = self._walk.foresight()
        estimates = foresight.estimates()
        reasons = self.plan.explanations | self._walk.explanations()
        reasons |= self._walk.with_deadlines(reasons, foresight.too_late())
        return replace(self.plan, explanations=reasons, estimates=estimates)

    def expected(self, about: Iterable[int] = ()) -> dict[int, datetime]:
        """When each job that may start is expected to: at once for those that start. `about`: of
        these at least, which takes less."""
        if self._walk is None:
            return {}
        at = self._walk.now.astimezone(UTC)
        foreseen = self._walk.foresight().expected(about)
        return {start.job_id: at for start in self.plan.starts} | foreseen


def expect(snapshot: Snapshot, now: datetime, about: Iterable[int] = ()) -> dict[int, datetime]:
    """When each job that may start is expected to: `now` for those that a plan would start.

    `about`: of these at least.
    """
    return Decision(snapshot, now).expected(about)
