"""How often a job should save itself, from what was measured of it and of the lab's nodes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from jobs.checkpoints import Reliability, daly_s
from portal.actions.launches import launches_of
from portal.models import Allocation, Attempt, Checkpoint, Job, Node, Project, User
from portal.queries import checkpoints
from tests.portal import cast
from tests.portal.cast import NOW
from tests.portal.views.pages import job_page

HOUR = NOW.replace(minute=0)
USUAL = Reliability(0, 0.0)


@pytest.fixture
def part(node: Node, alice: User, project: Project) -> Allocation:
    found = cast.run(cast.job(alice, project, state="RUNNING"), node, 0)
    # As if it had just been sent: its own time counts for nothing yet.
    Allocation.objects.update(started_at=None)
    return found


def saved(part: Allocation, step: int, **facts: Any) -> Checkpoint:
    usual = {"write_s": 20.0, "complete": True, "modified_at": NOW + timedelta(seconds=step)}
    return Checkpoint.objects.create(
        job=part.attempt.job, attempt=part.attempt, node=part.node, name=f"{step}.pt",
        path=f"/c/{step}.pt", step=step, size_bytes=1, **usual | facts,
    )  # fmt: skip


def test_from_measured_times_and_the_labs_failures(part: Allocation) -> None:
    job = part.attempt.job
    saved(part, 0, write_s=None)
    assert checkpoints.interval(job, NOW) is None, "not known how long it takes"
    for step, write_s in ((100, 10.0), (200, 30.0), (300, 20.0)):
        saved(part, step, write_s=write_s)
    saved(part, 400, complete=False, write_s=999.0)
    found = checkpoints.interval(job, NOW)
    assert found is not None
    assert (found.write_s, found.measured, found.actual_s) == (20.0, 3, 100.0)
    assert found.daly_s == pytest.approx(daly_s(20.0, USUAL.mttf_s(1)))
    job.node_count = 4
    more = checkpoints.interval(job, NOW)
    assert more is not None and more.mttf_s == pytest.approx(found.mttf_s / 4)


def ran(part: Allocation, days: float, cause: str, ended_days_ago: float = 0) -> None:
    ended = HOUR - timedelta(days=ended_days_ago)
    Allocation.objects.filter(pk=part.pk).update(
        phase="ended", cause=cause, started_at=ended - timedelta(days=days), ended_at=ended
    )


@pytest.mark.parametrize(
    ("cause", "ago", "simulated", "seen"),
    [
        ("exited", 1, False, Reliability(0, 2)),
        ("lost", 1, False, Reliability(1, 2)),
        ("node_restarted", 1, False, Reliability(1, 2)),
        ("lost", 400, False, USUAL),
        ("lost", 1, True, USUAL),
    ],
)
def test_what_counts_as_seen(
    part: Allocation, cause: str, ago: float, simulated: bool, seen: Reliability
) -> None:
    Node.objects.update(simulated=simulated)
    ran(part, 2, cause, ago)
    assert checkpoints.reliability(NOW) == seen


def test_what_runs_now_counts_up_to_the_hour(part: Allocation) -> None:
    Allocation.objects.update(started_at=HOUR - timedelta(days=3))
    assert checkpoints.reliability(NOW) == Reliability(0, 3)


def interval_told(part: Allocation) -> str | None:
    row = Allocation.objects.select_related("attempt__job__owner").get(pk=part.pk)
    (launch,) = launches_of([row], row.node, now=NOW)
    return launch.environment.get("CARREL_CHECKPOINT_INTERVAL")


def test_the_next_attempt_is_told(part: Allocation, node: Node) -> None:
    saved(part, 100)
    assert interval_told(part) is None, "the first attempt cannot know"
    Attempt.objects.update(ended_at=NOW)
    job = part.attempt.job
    again = cast.run(job, node, 1)
    Allocation.objects.update(started_at=None)
    assert interval_told(again) == str(round(daly_s(20.0, USUAL.mttf_s(1))))


def test_a_relaunch_is_told_by_the_job_it_repeats(
    part: Allocation, node: Node, alice: User, project: Project
) -> None:
    other = cast.job(alice, project, relaunch_of=part.attempt.job)
    relaunched = cast.run(other, node, 2)
    Allocation.objects.update(started_at=None)
    assert interval_told(relaunched) is None
    saved(part, 100)
    assert interval_told(relaunched) == str(round(daly_s(20.0, USUAL.mttf_s(1))))


def test_the_page_shows_both_intervals(as_alice: Client, part: Allocation) -> None:
    job = Job.objects.get()
    saved(part, 0)
    saved(part, 600)
    shown = job_page(as_alice, job)
    assert "it writes one every 10 min" in shown
    assert "its node fails every 154 days" in shown
    Checkpoint.objects.update(write_s=None)
    assert "Least is lost" not in job_page(as_alice, job)
