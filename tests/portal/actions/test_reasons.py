"""What waiting jobs are told, and what is left as it was."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.lifecycle import Reason, State
from jobs.scheduler.snapshot import Estimate, Explanation, Plan
from portal.actions import hold, reasons, schedule
from portal.models import Job, Node, Partition, Project, User
from portal.queries import pass_rows, snapshot
from tests.portal import cast
from tests.portal.cast import NOW

SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)


def told(job: Job, text: str = "Needs a GPU.", at: datetime = NOW + 20 * HOUR) -> Plan:
    """A plan that says so of this job."""
    why = Explanation(Reason.RESOURCES, text, ahead=0)
    return Plan((), {job.pk: why}, estimates={job.pk: Estimate(at, at, at + HOUR)})


@pytest.fixture
def waiting(alice: User, project: Project) -> Job:
    return cast.job(alice, project)


def test_it_is_told_all_of_it(waiting: Job) -> None:
    assert reasons.write(told(waiting), now=NOW) == 1
    waiting.refresh_from_db()
    assert (waiting.reason, waiting.detail) == (Reason.RESOURCES, "Needs a GPU.")
    assert (waiting.position, waiting.starts_at) == (1, NOW + 20 * HOUR)
    assert Partition.objects.get().foretold_at == NOW


@pytest.mark.parametrize(
    ("away", "moved", "written"),
    [(20 * HOUR, HOUR / 2, 0), (20 * HOUR, 2 * HOUR, 1), (HOUR, HOUR / 2, 1), (HOUR, SECOND, 0)],
)
def test_an_estimate_is_written_when_people_would_see_that_it_moved(
    waiting: Job, away: timedelta, moved: timedelta, written: int
) -> None:
    reasons.write(told(waiting, at=NOW + away), now=NOW)
    assert reasons.write(told(waiting, at=NOW + away + moved), now=NOW + SECOND) == written
    waiting.refresh_from_db()
    assert waiting.starts_at == NOW + away + moved * written
    assert Partition.objects.get().foretold_at == NOW + SECOND


def test_an_earlier_pass_that_comes_late_takes_nothing_back(waiting: Job) -> None:
    reasons.write(told(waiting, "As it is now."), now=NOW)
    assert reasons.write(told(waiting, "As it was."), now=NOW - SECOND) == 0
    waiting.refresh_from_db()
    assert waiting.detail == "As it is now."
    assert Partition.objects.get().foretold_at == NOW


def test_who_was_held_since_is_told_who_did_it(waiting: Job, alice: User) -> None:
    decided = told(waiting)
    assert hold.hold(job=waiting, actor=alice, now=NOW)
    assert reasons.write(decided, now=NOW) == 0
    waiting.refresh_from_db()
    assert (waiting.reason, waiting.detail) == (Reason.HELD_USER, "Held by alice.")


def test_whose_hold_is_left_is_not_overwritten_by_a_pass_from_before(
    waiting: Job, alice: User, admin: User
) -> None:
    hold.hold(job=waiting, actor=alice, now=NOW)
    hold.hold(job=waiting, actor=admin, now=NOW)
    held = Explanation(Reason.HELD_ADMIN, "Held by an administrator.")
    decided = replace(told(waiting), explanations={waiting.pk: held})
    assert hold.release(job=waiting, actor=admin, now=NOW)
    reasons.write(decided, now=NOW)
    waiting.refresh_from_db()
    assert (waiting.reason, waiting.detail) == (Reason.HELD_USER, "Held by alice.")


def test_what_starts_is_written_down_before_the_rest_is_explained(
    waiting: Job, alice: User, project: Project, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    Job.objects.update(spec={"name": "train", "resources": {"gpus_per_node": 4}})
    kept = cast.job(alice, project, gpus=4)
    Job.objects.filter(pk=kept.pk).update(spec=Job.objects.get(pk=waiting.pk).spec)
    write, seen = reasons.write, list[Any]()

    def explains(decided: Plan, *, now: datetime) -> int:
        seen.append((Job.objects.get(pk=waiting.pk).state, sorted(decided.explanations)))
        return write(decided, now=now)

    monkeypatch.setattr(reasons, "write", explains)
    assert schedule.schedule(now=NOW) == 1
    assert seen == [(State.CONFIGURING, [kept.pk])]
    kept.refresh_from_db()
    assert kept.reason == Reason.RESOURCES


def queries(now: datetime) -> int:
    with CaptureQueriesContext(connection) as seen:
        schedule.schedule(now=now)
    return len(seen)


def test_a_pass_where_nobody_waits_asks_once(alice: User, project: Project, node: Node) -> None:
    cast.run(cast.job(alice, project, state=State.RUNNING), node, 0)
    with CaptureQueriesContext(connection) as seen:
        assert schedule.schedule(now=NOW) == 0
    asked = [query["sql"] for query in seen if query["sql"].startswith("SELECT")]
    assert len(asked) == 1


def test_a_pass_after_which_nobody_waits_tells_nobody(
    alice: User, project: Project, node: Node
) -> None:
    def told() -> bool:
        with CaptureQueriesContext(connection) as seen:
            assert schedule.schedule(now=NOW) == 1
        return any("foretold_at" in query["sql"] for query in seen)

    cast.job(alice, project, gpus=3)
    waits = cast.job(alice, project, gpus=2)
    assert told()
    Job.objects.filter(pk=waits.pk).update(state=State.CANCELLED)
    cast.job(alice, project, gpus=1)
    assert not told()


def test_a_pass_asks_no_more_however_many_wait_and_run(
    alice: User, bob: User, project: Project, node: Node
) -> None:
    Node.objects.update(drained=True)
    running = cast.job(alice, project, state=State.RUNNING)
    cast.run(running, node, 0)
    cast.job(alice, project)
    queries(NOW)
    few = queries(NOW + SECOND)
    for index, owner in ((1, alice), (2, bob), (3, bob)):
        cast.run(cast.job(owner, project, state=State.RUNNING), node, index)
        for _ in range(5):
            cast.job(owner, project, name=f"of {owner}")
    many = queries(NOW + 2 * SECOND)
    # What is new is locked and written, by one statement for each set of columns.
    assert many <= few + 2
    assert queries(NOW + 3 * SECOND) == few


def test_a_snapshot_of_a_lab_without_quotas(alice: User, project: Project, node: Node) -> None:
    cast.run(cast.job(alice, project, state=State.RUNNING), node, 0)
    cast.job(alice, project)
    snapshot.take(NOW)
    with CaptureQueriesContext(connection) as seen:
        present = snapshot.take(NOW)
    assert len(seen) <= 18
    tables = [query["sql"].partition(" FROM ")[2].split()[0] for query in seen]
    # Waiting and running jobs apart; and, where others may have charged something since what is
    # held was read, whether they have.
    again = {} if connection.vendor == "sqlite" else {'"portal_allocation"': 2}
    assert {name: tables.count(name) for name in tables if tables.count(name) > 1} == {
        '"portal_job"': 2, **again,
    }  # fmt: skip
    assert (len(present.pending), len(present.running)) == (1, 1)


def test_who_is_not_looked_at_as_too_many_wait_is_told_so(
    waiting: Job, alice: User, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once fewer wait it is looked at like all others. Who is held is told that."""
    held = cast.job(alice, project, held=True, reason=Reason.HELD_USER, detail="Held by alice.")
    later = cast.job(alice, project, submitted_at=NOW, position=7, starts_at=NOW + HOUR)
    monkeypatch.setattr(pass_rows, "MAX_PENDING", 1)
    schedule.schedule(now=NOW)
    for job in (waiting, held, later):
        job.refresh_from_db()
    assert "not all are looked at" not in waiting.detail
    assert held.detail == "Held by alice."
    assert later.detail.startswith("More than 1 jobs wait, and not all are looked at: ")
    assert (later.reason, later.position, later.starts_at) == (Reason.PRIORITY, None, None)
    monkeypatch.undo()
    schedule.schedule(now=NOW + SECOND)
    later.refresh_from_db()
    assert "not all are looked at" not in later.detail
