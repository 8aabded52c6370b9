"""Trials of changes: asked for, played one at a time, cancelled, killed."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta

import pytest
from django.core.exceptions import ValidationError

from jobs.lifecycle import State as JobState
from jobs.scheduler.policy import Order
from jobs.scheduler.simulate.changes import Changes, NodesChange, ProjectChange
from jobs.scheduler.simulate.quota_change import QuotaChange
from portal import tasks
from portal.actions import reconcile, what_if
from portal.management.commands import what_if as command
from portal.models import Attempt, Project, Quota, SchedulingPolicy, User, WhatIf
from tests.portal import cast

SINCE = cast.NOW - timedelta(days=1)
State = WhatIf.State
ONE = Changes(order=Order.SHORTEST)


def clock() -> datetime:
    return cast.NOW


def ask(actor: User, changes: Changes = ONE) -> WhatIf:
    return what_if.ask(actor=actor, since=SINCE, until=cast.NOW, changes=changes, now=cast.NOW)


def ran(owner: User, project: Project, came: int, took: int = 100, **columns: object) -> None:
    """A job of 4 GPUs that came so many seconds after the beginning and never waited."""
    at = SINCE + timedelta(seconds=came)
    job = cast.job(
        owner, project, gpus=4, state=JobState.COMPLETED, submitted_at=at, started_at=at,
        ended_at=at + timedelta(seconds=took), walltime_s=took, **columns,
    )  # fmt: skip
    Attempt.objects.create(
        job=job, number=1, started_at=at, ended_at=job.ended_at, outcome=JobState.COMPLETED
    )


@pytest.fixture
def jobs(alice: User, bob: User, project: Project) -> Project:
    """The two projects worked by hand in the simulator's own tests, on a node of 8 GPUs."""
    cast.node("big", gpus=8)
    other = Project.objects.create(name="robots")
    Quota.objects.create(project=project, gpus=4)
    SchedulingPolicy.objects.create(order=Order.SUBMISSION)
    for who, where, came in (
        (alice, project, 0), (alice, project, 0), (bob, other, 0), (bob, other, 50),
    ):  # fmt: skip
        ran(who, where, came)
    return project


def test_a_larger_quota_as_worked_by_hand(jobs: Project, admin: User) -> None:
    row = ask(admin, Changes(quotas=(QuotaChange(jobs.pk, gpus=8),)))
    assert row.said == [["vision", "at most 4 GPUs at once", "at most 8 GPUs at once"]]
    assert what_if._begin(cast.NOW) == row
    what_if.play(pk=row.pk, clock=clock, told=lambda part: None)
    row.refresh_from_db()
    assert (row.state, row.progress, row.ended_at) == (State.DONE, 1.0, cast.NOW)
    now, then = row.result["now"], row.result["then"]
    waits = {name: figures["mean_wait_s"] for name, figures in now["projects"].items()}
    assert waits == {"vision": 50, "robots": 25}
    waits = {name: figures["mean_wait_s"] for name, figures in then["projects"].items()}
    assert waits == {"vision": 0, "robots": 75}
    assert row.result["real"]["mean_wait_s"] == 0 and row.result["jobs"] == 4


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (4, 1_000_000, ["4", "1,000,000"]),
        (123_456, 123_456.5, ["123,456", "123,456.5"]),
        (1_234_567, 0.125, ["1,234,567", "0.125"]),
    ],
)
def test_limits_are_told_in_full(
    jobs: Project, admin: User, before: float, after: float, said: list[str]
) -> None:
    Quota.objects.filter(project=jobs).update(gpus=before)
    row = ask(admin, Changes(quotas=(QuotaChange(jobs.pk, gpus=after),)))
    assert row.said == [["vision", *(f"at most {number} GPUs at once" for number in said)]]


def test_nothing_of_the_lab_is_changed(jobs: Project, admin: User) -> None:
    row = ask(admin, Changes(order=Order.SHORTEST, projects=(ProjectChange(jobs.pk, shares=9),)))
    what_if._begin(cast.NOW)
    what_if.play(pk=row.pk, clock=clock, told=lambda part: None)
    jobs.refresh_from_db()
    assert (jobs.shares, SchedulingPolicy.current().order) == (1, Order.SUBMISSION)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (Changes(), "Nothing would change. Say what is to be tried."),
        (Changes(order=Order.SUBMISSION), "Nothing would change. Say what is to be tried."),
        (Changes(reservations=-1), "at least 1 job is promised a time, not -1"),
        (Changes(projects=(ProjectChange(0, shares=1),)), "One of the projects is gone."),
        (Changes(quotas=(QuotaChange(0, gpus=1),)), "One of the projects is gone."),
        (Changes(nodes=(NodesChange("x: 1 x Y", 1),)), "There are no nodes of the kind"),
    ],
)
def test_what_cannot_be_tried_is_refused(
    jobs: Project, admin: User, changes: Changes, said: str
) -> None:
    with pytest.raises(ValidationError) as told:
        ask(admin, changes)
    assert told.value.messages[0].startswith(said)
    assert not WhatIf.objects.exists()


def test_a_time_without_jobs_and_one_with_too_many(
    jobs: Project, admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    early = {"since": SINCE - timedelta(days=9), "until": SINCE - timedelta(days=8)}
    with pytest.raises(ValidationError, match="No job is of that time"):
        what_if.ask(actor=admin, changes=ONE, now=cast.NOW, **early)
    monkeypatch.setattr(what_if.workload, "MOST_JOBS", 3)
    with pytest.raises(ValidationError, match="4 jobs are of that time, and at most 3 can"):
        ask(admin)


def test_each_administrator_asks_for_one_at_a_time(jobs: Project, admin: User) -> None:
    first = ask(admin)
    with pytest.raises(ValidationError, match="One that you asked for is not done yet"):
        ask(admin)
    ask(cast.person("other", staff=True))
    assert what_if.cancel(row=first, actor=admin, now=cast.NOW)
    ask(admin)
    first.refresh_from_db()
    assert (first.state, first.detail) == (State.CANCELLED, "Cancelled by root.")


def test_one_is_played_at_a_time_the_oldest_first(jobs: Project, admin: User) -> None:
    first, second = ask(admin), ask(cast.person("other", staff=True))
    assert what_if._begin(cast.NOW) == first
    assert what_if._begin(cast.NOW) is None
    what_if.fail(pk=first.pk, why="x", now=cast.NOW)
    assert what_if._begin(cast.NOW) == second


def test_a_cancelled_one_stops_at_its_next_sign(jobs: Project, admin: User) -> None:
    row = ask(admin)
    what_if._begin(cast.NOW)
    assert what_if.note(pk=row.pk, progress=0.1, now=cast.NOW)
    what_if.cancel(row=row, actor=admin, now=cast.NOW)
    what_if.play(pk=row.pk, clock=clock, told=command._Teller(row.pk).tell)
    row.refresh_from_db()
    assert (row.state, row.result) == (State.CANCELLED, None)
    assert not what_if.cancel(row=row, actor=admin, now=cast.NOW)


def test_one_that_takes_too_long_says_so(
    jobs: Project, admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "MOST_S", 0.0)
    row = ask(admin)
    what_if._begin(cast.NOW)
    what_if.play(pk=row.pk, clock=clock, told=command._Teller(row.pk).tell)
    row.refresh_from_db()
    assert (row.state, row.detail) == (
        State.FAILED, "It took more than 0 minutes. Choose a shorter time.",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", what_if.LOST),
        (
            "raise SystemExit(3)",
            "Its process failed (exit code 3); the log of the worker says why.",
        ),
    ],
)
def test_one_whose_process_is_killed_has_failed(
    jobs: Project, admin: User, monkeypatch: pytest.MonkeyPatch, program: str, said: str
) -> None:
    monkeypatch.setattr(what_if, "COMMAND", (sys.executable, "-c", program))
    row = ask(admin)
    tasks.what_if()
    row.refresh_from_db()
    assert (row.state, row.detail, row.result) == (State.FAILED, said, None)
    again = what_if.ask_again(row=row, actor=admin, now=cast.NOW)
    again.refresh_from_db()
    assert (again.changes, again.since, again.state) == (row.changes, row.since, State.WAITING)


def test_one_whose_worker_is_gone_is_given_up_and_the_next_begun(
    jobs: Project, admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    hinted: list[bool] = []
    monkeypatch.setattr(what_if.hints, "what_if", lambda: hinted.append(True))
    row = ask(admin)
    what_if._begin(cast.NOW)
    hinted.clear()
    soon = cast.NOW + what_if.LOST_AFTER
    what_if.sweep(now=soon)
    row.refresh_from_db()
    assert (row.state, hinted) == (State.RUNNING, [])
    ask(cast.person("other", staff=True))
    hinted.clear()
    what_if.sweep(now=soon + timedelta(seconds=1))
    row.refresh_from_db()
    assert (row.state, row.detail, hinted) == (State.FAILED, what_if.LOST, [True])
    # Should its process be alive all the same, it is told to stop, and what it found is not taken.
    assert not what_if.note(pk=row.pk, progress=0.9, now=soon)
    what_if.finish(pk=row.pk, result={}, now=soon)
    row.refresh_from_db()
    assert row.result is None


def test_a_lost_hint_is_given_again(
    jobs: Project, admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    hinted: list[bool] = []
    monkeypatch.setattr(what_if.hints, "what_if", lambda: hinted.append(True))
    reconcile.what_if.sweep(now=cast.NOW)
    assert hinted == []
    ask(admin)
    hinted.clear()
    reconcile.what_if.sweep(now=cast.NOW)
    assert hinted == [True]
