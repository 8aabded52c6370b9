"""A job that is being ended, or still being started, is asked for nothing."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from jobs.bands import Band
from jobs.lifecycle import State
from portal.actions import cancel, schedule
from portal.models import Attempt, Job, Node, Project, User
from portal.queries import snapshot
from tests.portal import cast
from tests.portal.cast import NOW

LONG_AGO = NOW - timedelta(hours=1)


@pytest.fixture
def both(alice: User, project: Project, node: Node) -> tuple[Job, Job]:
    """Best-effort jobs on all of a node."""
    return running(alice, project, node, 0), running(alice, project, node, 1, 2, 3)


def running(owner: User, project: Project, node: Node, *gpus: int) -> Job:
    job = cast.job(
        owner, project, gpus=len(gpus), state=State.RUNNING, band=Band.BEST_EFFORT,
        started_at=LONG_AGO, walltime_s=86_400,
    )  # fmt: skip
    cast.run(job, node, *gpus)
    return job


def passes(now: datetime) -> list[str]:
    """What the jobs are in after one."""
    schedule.schedule(now=now)
    return list(Job.objects.order_by("pk").values_list("state", flat=True))


def test_another_makes_room_than_one_that_was_cancelled(
    alice: User, bob: User, project: Project, both: tuple[Job, Job]
) -> None:
    stuck, other = both
    cancel.cancel(job=stuck, actor=alice, now=NOW)
    waits = cast.job(bob, project, band=Band.PRODUCTION)
    assert passes(NOW) == [State.COMPLETING, State.COMPLETING, State.PENDING]
    assert Attempt.objects.get(preemptor=waits).job == other


def test_one_that_does_not_stop_in_time_is_not_waited_for(
    bob: User, project: Project, both: tuple[Job, Job]
) -> None:
    """The one that was told first, having less to lose, is still there after its grace."""
    waits = cast.job(bob, project, band=Band.PRODUCTION)
    assert passes(NOW) == [State.COMPLETING, State.RUNNING, State.PENDING]
    assert passes(NOW + timedelta(seconds=100))[1] == State.RUNNING
    assert passes(NOW + timedelta(seconds=130))[1] == State.COMPLETING
    assert set(Attempt.objects.values_list("preemptor", flat=True)) == {waits.pk}


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({}, True),
        ({"state": State.COMPLETING}, False),
        ({"state": State.CONFIGURING, "started_at": None}, False),
        ({"cancelled_at": NOW}, False),
    ],
    ids=["runs", "ends", "starts", "cancelled"],
)
def test_only_one_that_runs_can_be_told(
    both: tuple[Job, Job], columns: dict[str, object], told: bool
) -> None:
    Job.objects.filter(pk=both[0].pk).update(**columns)
    found = {job.id: job.preemptible for job in snapshot.take(NOW).running}
    assert found == {both[0].pk: told, both[1].pk: True}
