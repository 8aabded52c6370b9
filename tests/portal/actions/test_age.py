"""How old waiting jobs are, as their priority counts it: with real passes and no node to start on,
unless a test adds one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.lifecycle import Reason, State
from jobs.scheduler.rank import points_of
from portal.actions import age, hold, schedule, submit
from portal.models import Job, Node, Project, User
from portal.queries import pass_rows, snapshot
from tests.portal import cast
from tests.portal.cast import NOW

MINUTE = timedelta(minutes=1)
SCRIPT = "#!/bin/bash\n#SBATCH --gres=gpu:1\ntrue\n"


def at(minutes: float) -> Any:
    return NOW + minutes * MINUTE


@pytest.fixture(autouse=True)
def full(node: Node) -> Node:
    """Nobody starts as long as it takes no jobs."""
    node.drained = True
    node.save()
    return node


def takes(owner: User, minutes: float = 0, **overrides: str) -> Job:
    now = at(minutes)
    asked = submit.read(owner=owner, script=SCRIPT, overrides=overrides, now=now)
    return submit.submit(
        owner=owner, spec=asked.spec, project=asked.project, partition=asked.partition, now=now
    )


def waited_min(job: Job, minutes: float) -> float:
    job.refresh_from_db()
    return age.waited_s(job, at(minutes)) / 60


def passes(minutes: float) -> None:
    # The reasons stay as they are, as in the passes that follow a hint.
    schedule.schedule(now=at(minutes), explain=False)


def test_it_grows_from_its_submission_on(alice: User) -> None:
    job = takes(alice)
    assert (job.eligible_at, job.waited_before_s) == (NOW, 0)
    passes(5)
    assert waited_min(job, 10) == 10


def test_every_task_of_an_array_grows(alice: User) -> None:
    takes(alice, array="0-2%1")
    passes(5)
    assert [waited_min(job, 10) for job in Job.objects.all()] == [10, 10, 10]


def test_a_hold_stops_it_and_a_release_lets_it_go_on(alice: User) -> None:
    job = takes(alice)
    assert hold.hold(job=job, actor=alice, now=at(10))
    passes(15)
    assert waited_min(job, 30) == 10
    assert hold.release(job=job, actor=alice, now=at(30))
    passes(31)
    assert waited_min(job, 41) == 20
    assert hold.hold(job=job, actor=alice, now=at(41))
    assert waited_min(job, 99) == 20


def test_whoever_is_submitted_held_grows_once_it_is_released(alice: User) -> None:
    job = takes(alice, held="on")
    passes(10)
    assert waited_min(job, 10) == 0
    hold.release(job=job, actor=alice, now=at(20))
    passes(20)
    assert waited_min(job, 25) == 5


def test_a_held_array_stands_still_as_a_whole(alice: User) -> None:
    first = takes(alice, array="0-1")
    Job.objects.exclude(pk=first.pk).update(eligible_at=at(4))
    hold.hold_array(array_id=first.pk, actor=alice, now=at(10))
    assert sorted(waited_min(job, 50) for job in Job.objects.all()) == [6, 10]
    hold.release_array(array_id=first.pk, actor=alice, now=at(60))
    passes(60)
    assert sorted(waited_min(job, 61) for job in Job.objects.all()) == [7, 11]


def test_a_begin_time_keeps_it_young(alice: User) -> None:
    job = takes(alice, begin="2026-11-03T12:30")
    passes(29)
    assert waited_min(job, 29) == 0
    passes(31)
    assert waited_min(job, 41) == 10


@pytest.mark.parametrize("begin", ["2026-11-03T11:00", "2026-11-03T12:00"])
def test_a_begin_time_that_has_come_does_not(alice: User, begin: str) -> None:
    assert takes(alice, begin=begin).eligible_at == NOW


def test_a_dependency_keeps_it_young(alice: User) -> None:
    other = takes(alice)
    job = takes(alice, dependency=f"afterok:{other.pk}")
    passes(10)
    assert waited_min(job, 10) == 0
    Job.objects.filter(pk=other.pk).update(state=State.COMPLETED)
    passes(20)
    passes(25)
    assert waited_min(job, 30) == 10


def test_one_that_failed_keeps_it_young_for_ever(alice: User) -> None:
    other = takes(alice)
    job = takes(alice, dependency=f"afterok:{other.pk}")
    Job.objects.filter(pk=other.pk).update(state=State.FAILED)
    schedule.schedule(now=at(10))
    job.refresh_from_db()
    assert (job.reason, waited_min(job, 99)) == (Reason.DEPENDENCY_NEVER, 0)


def test_only_what_a_pass_has_looked_at_begins_to_grow(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pass_rows, "MAX_PENDING", 1)
    first = takes(alice, dependency="singleton")
    second = takes(alice, 1, begin="2026-11-03T12:05")
    passes(10)
    assert (waited_min(first, 20), waited_min(second, 20)) == (10, 0)


def test_what_it_runs_does_not_count(alice: User, full: Node) -> None:
    job = takes(alice)
    Job.objects.filter(pk=job.pk).update(waited_before_s=60)
    full.drained = False
    full.save()
    passes(4)
    job.refresh_from_db()
    assert (job.state, job.eligible_at, job.waited_before_s) == (State.CONFIGURING, None, 300)
    # As when it has to wait again, since it did not start or made room.
    assert job.move(State.PENDING, now=at(50))
    Node.objects.update(drained=True)
    passes(51)
    assert waited_min(job, 53) == 5 + 2


def test_the_scheduler_is_told_both(alice: User, project: Project) -> None:
    told = cast.job(alice, project, eligible_at=at(-60), waited_before_s=86_400.0)
    kept = cast.job(alice, project, held=True, waited_before_s=3600.0, submitted_at=at(-9999))
    present = snapshot.take(NOW)
    assert {job.id: (job.eligible_at, job.waited_before_s) for job in present.pending} == {
        told.pk: (at(-60), 86_400.0),
        kept.pk: (NOW, 3600.0),
    }
    points = {job.id: points_of(present, NOW)(job) for job in present.pending}
    # Of 500 points for a week; alike in everything else.
    assert points[told.pk] - points[kept.pk] == pytest.approx(500 * 24 / (7 * 24))


def test_a_pass_asks_no_more_however_many_begin_to_grow(alice: User) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            passes(60)
        assert not Job.objects.filter(eligible_at=None).exists()
        return len(captured)

    takes(alice)
    passes(0)  # Reads once what has ended before.
    takes(alice, begin="2026-11-03T12:30")
    few = queries()
    for _ in range(5):
        takes(alice, begin="2026-11-03T12:30")
    assert queries() == few
