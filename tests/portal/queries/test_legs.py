"""A job that went on from a checkpoint ran for as long as all its legs since it began."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jobs.lifecycle import State
from jobs.scheduler.predict import Work
from portal.models import Attempt, Checkpoint, Event, Job, Node, Project, User
from portal.queries import history
from tests.portal import cast
from tests.portal.cast import NOW

HOUR = timedelta(hours=1)


@pytest.fixture
def job(alice: User, project: Project, node: Node) -> Job:
    return cast.job(alice, project, state=State.COMPLETED)


def leg(job: Job, begin: float, end: float, outcome: State) -> Attempt:
    """Hours from now."""
    return Attempt.objects.create(
        job=job, number=job.attempts.count() + 1, started_at=NOW + begin * HOUR,
        ended_at=NOW + end * HOUR, outcome=outcome,
    )  # fmt: skip


def saves(attempt: Attempt, node: Node, at: float, complete: bool = True) -> None:
    Checkpoint.objects.create(
        job=attempt.job, attempt=attempt, node=node, name=f"{at}", path=f"/{at}", size_bytes=1,
        complete=complete, modified_at=NOW + at * HOUR,
    )  # fmt: skip


def expected(job: Job) -> float:
    """In hours, of another one like it."""
    work = Work(job.owner.username, job.project.name, job.name, job.gpus)
    return history.predictions({0: work})[0].expected_s / 3600


def test_one_run(job: Job) -> None:
    leg(job, 0, 3, State.COMPLETED)
    assert expected(job) == pytest.approx(3)


def test_who_went_on_from_a_checkpoint_ran_in_several_legs(job: Job, node: Node) -> None:
    first = leg(job, 0, 5, State.PREEMPTED)
    saves(first, node, 4.9)
    leg(job, 6, 8, State.PREEMPTED)
    leg(job, 10, 13, State.COMPLETED)
    assert expected(job) == pytest.approx(5 + 2 + 3)


def test_who_had_to_begin_again_ran_since_then(job: Job, node: Node) -> None:
    first = leg(job, 0, 5, State.PREEMPTED)
    saves(first, node, 4, complete=False)
    second = leg(job, 6, 8, State.PREEMPTED)
    saves(second, node, 7)
    leg(job, 10, 13, State.COMPLETED)
    assert expected(job) == pytest.approx(2 + 3)


def test_what_ends_later_is_learnt_with_all_its_legs(job: Job, node: Node) -> None:
    first = leg(job, 0, 1, State.COMPLETED)
    assert expected(job) == pytest.approx(1)
    first.delete()
    history.forget()
    saves(leg(job, 0, 5, State.PREEMPTED), node, 4)
    with pytest.raises(KeyError):
        expected(job)
    leg(job, 6, 8, State.COMPLETED)
    Event.objects.create(at=NOW, job=job, kind="state", new=State.COMPLETED)
    assert expected(job) == pytest.approx(7)
