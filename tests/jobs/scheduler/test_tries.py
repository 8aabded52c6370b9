"""A change that is tried in the queue of the others: what comes of it there is what really does."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given

from jobs.scheduler.plan import expect, plan
from jobs.scheduler.policy import Backfill
from jobs.scheduler.rank import ranked
from jobs.scheduler.snapshot import Snapshot
from jobs.scheduler.tries import Tries
from tests.jobs.scheduler.clusters import NOW
from tests.jobs.scheduler.generated import PLAIN, snapshots


@given(snapshots(most=12))
def test_who_nobody_waits_behind_is_told_what_it_would_be(snapshot: Snapshot) -> None:
    """Without promises, which no expected start is later than."""
    running = tuple(replace(run, again=None, leaving=False) for run in snapshot.running)
    asked = replace(
        snapshot,
        running=running,
        lends=frozenset(),
        policy=replace(PLAIN, backfill=Backfill.GREEDY),
    )
    if not asked.pending:
        return
    last = ranked(asked, NOW)[-1]
    tries = Tries(asked, last, [last], NOW)
    starts = last.id in {start.job_id for start in plan(asked, NOW, explained=False).starts}
    assert tries.starts(last) == starts
    if not starts:
        assert tries.expected([last]) == [expect(asked, NOW).get(last.id)]


@given(snapshots(most=12))
def test_nothing_comes_of_trying(snapshot: Snapshot) -> None:
    """What is tried again and again is answered the same."""
    for job in snapshot.pending[:2]:
        once, often = Tries(snapshot, job, [job], NOW), Tries(snapshot, job, [job] * 9, NOW)
        assert once.starts(job) == often.starts(job)
        assert once.expected([job]) * 9 == often.expected([job] * 9)
