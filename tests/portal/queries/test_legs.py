"""A job that went on from a checkpoint ran for as long as all its legs since it began."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from jobs.lifecycle import State
from jobs.scheduler.policy import Order
from jobs.scheduler.work import Work
from portal.models import Attempt, Checkpoint, Event, Job, Node, Project, SchedulingPolicy, User
from portal.queries import history, snapshot, why
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
    work = Work(job.owner_id, job.project_id, job.name, job.gpus)
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


def test_what_was_given_back_has_not_run(job: Job, node: Node) -> None:
    first = leg(job, 0, 5, State.PREEMPTED)
    saves(first, node, 4.9)
    leg(job, 6, 8, State.PENDING)
    leg(job, 10, 13, State.COMPLETED)
    assert expected(job) == pytest.approx(5 + 3)
    waits = cast.job(job.owner, job.project, preemptions=1)
    saves(leg(waits, 0, 5, State.PREEMPTED), node, 4.9)
    leg(waits, 6, 8, State.PENDING)
    assert history.served([waits.pk]) == {waits.pk: 5 * 3600}


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


@pytest.fixture
def known(job: Job) -> float:
    """Jobs like it ran for ten hours."""
    leg(job, -20, -10, State.COMPLETED)
    return expected(job)


def resumed(job: Job, node: Node, **columns: object) -> Job:
    """It ran for six hours, with a checkpoint, and had to make room."""
    again = cast.job(
        job.owner, job.project, preemptions=1, walltime_s=12 * 3600,
        submitted_at=NOW - 20 * HOUR, **columns,
    )  # fmt: skip
    saves(leg(again, -18, -12, State.PREEMPTED), node, -12)
    return again


def test_of_who_waits_to_go_on_only_the_rest_is_expected(
    job: Job, node: Node, known: float
) -> None:
    assert known == pytest.approx(10)
    waits = resumed(job, node)
    (told,) = snapshot.take(NOW).pending
    assert (told.expected_s, told.typical_s) == pytest.approx((4 * 3600, 4 * 3600))
    assert told.spread_s == pytest.approx((4 * 3600, 4 * 3600))
    assert why.of(waits, NOW).prediction.expected_s == pytest.approx(4 * 3600)
    SchedulingPolicy.objects.create(order=Order.SHORTEST)
    assert why.of(waits, NOW).turn.own == "It counts as a run of 4 h."
    # Without a checkpoint it begins again.
    Checkpoint.objects.all().delete()
    assert snapshot.take(NOW).pending[0].expected_s == pytest.approx(10 * 3600)


def test_of_who_runs_again_the_rest_is_expected_since_it_did(
    job: Job, node: Node, known: float
) -> None:
    runs = resumed(job, node, state=State.RUNNING, started_at=NOW - HOUR)
    cast.run(runs, node, 0)
    Attempt.objects.filter(ended_at=None).update(started_at=NOW - HOUR)
    (told,) = snapshot.take(NOW).running
    assert told.expected_end == NOW + 3 * HOUR
    # Should it have to make room, it goes on from what it has saved since.
    assert told.again is not None and told.again.expected_s == pytest.approx(4 * 3600)
    saves(runs.attempts.get(number=2), node, -0.5)
    (told,) = snapshot.take(NOW).running
    assert told.again is not None and told.again.expected_s == pytest.approx(3.5 * 3600)


def test_its_walltime_limits_each_leg_and_not_all_of_them(
    job: Job, node: Node, known: float
) -> None:
    waits = resumed(job, node)
    Job.objects.filter(pk=waits.pk).update(walltime_s=3600)
    assert snapshot.take(NOW).pending[0].expected_s == pytest.approx(3600)
    Job.objects.filter(pk=waits.pk).update(walltime_s=7 * 3600)
    assert snapshot.take(NOW).pending[0].expected_s == pytest.approx(4 * 3600)


def test_as_many_questions_whoever_goes_on(
    job: Job, node: Node, known: float, django_assert_max_num_queries: Callable[[int], Any]
) -> None:
    many = [resumed(job, node).pk for _ in range(5)]
    with django_assert_max_num_queries(2):
        assert history.served(many) == dict.fromkeys(many, 6 * 3600)
