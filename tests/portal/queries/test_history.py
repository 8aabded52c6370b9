"""What each process remembers of how long jobs ran."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from jobs.lifecycle import State
from jobs.scheduler.predict import Prediction
from jobs.scheduler.work import Work
from jobs.spec import JobSpec, Resources
from portal.models import Attempt, Event, Job, Project, User
from portal.queries import history, pass_rows, why
from tests.portal.cast import NOW, job

HOUR = timedelta(hours=1)
ONE_GPU = Resources(gpus_per_node=1)


def ended(owner: User, project: Project, hours: float, ago: timedelta = HOUR) -> Job:
    """A job that ran for so long."""
    ran = job(owner, project, state=State.RUNNING)
    at = NOW - ago
    began = at - hours * HOUR
    Attempt.objects.create(
        job=ran, number=1, started_at=began, ended_at=at, outcome=State.COMPLETED
    )
    assert ran.move(State.COMPLETED, now=NOW, ended_at=at)
    return ran


def runs() -> int:
    owner, project = User.objects.get(), Project.objects.get()
    found = history.predictions({1: Work(owner.pk, project.pk, "train", 1)})
    return found[1].from_n if found else 0


def test_who_is_called_otherwise_is_foretold_the_same(alice: User, project: Project) -> None:
    """By a process that knew the old names, and by one that has just begun."""
    other = Project.objects.create(name="speech")
    ended(alice, project, 3)
    ended(alice, other, 1)
    waiting = job(alice, project)

    def foretold() -> Prediction:
        (row,) = pass_rows.waiting()
        (found,) = history.predictions({row.pk: row.work(JobSpec("train", ":", ONE_GPU))}).values()
        assert why.of(Job.objects.get(pk=waiting.pk), NOW).prediction == found
        return found

    before = foretold()
    assert before.by == "your last job named train in vision on 1 GPU"
    User.objects.filter(pk=alice.pk).update(username="alicia")
    # Each gets the other's, as when a project is split.
    Project.objects.filter(pk=project.pk).update(name="sight")
    Project.objects.filter(pk=other.pk).update(name="vision")
    after = foretold()
    assert after == replace(before, by="your last job named train in sight on 1 GPU")
    history.forget()
    assert foretold() == after


def test_each_end_is_learnt_once_however_often_it_is_asked(alice: User, project: Project) -> None:
    ended(alice, project, 1)
    assert (runs(), runs()) == (1, 1)
    ended(alice, project, 2)
    assert (runs(), runs()) == (2, 2)
    ended(alice, project, 3)
    assert runs() == 3


def test_an_end_that_is_told_late_is_learnt_too(alice: User, project: Project) -> None:
    ended(alice, project, 1)
    assert runs() == 1
    ended(alice, project, 2, ago=30 * HOUR)
    assert runs() == 2


def test_an_end_is_learnt_whose_event_has_a_lower_number_than_one_seen(
    alice: User, project: Project
) -> None:
    assert runs() == 0
    late = ended(alice, project, 1)
    event = Event.objects.get(job=late, new=State.COMPLETED)
    # Not committed yet when the next one was.
    Event.objects.filter(pk=event.pk).update(kind="under way")
    ended(alice, project, 2)
    assert runs() == 1
    Event.objects.filter(pk=event.pk).update(kind="state")
    assert runs() == 2


@pytest.mark.parametrize("outcome", [State.NODE_FAIL, State.PREEMPTED])
def test_of_a_lost_node_or_a_preemption_nothing_follows(
    alice: User, project: Project, outcome: State
) -> None:
    assert runs() == 0
    ran = ended(alice, project, 1)
    Attempt.objects.filter(job=ran).update(outcome=outcome)
    assert runs() == 0


def test_shards_and_whole_nodes_are_told_from_jobs_without_gpus(
    alice: User, project: Project
) -> None:
    asks = [{"shards": 2}, {"exclusive": True}, {"gpus_per_node": 0}]
    for hours, asked in enumerate(asks, 1):
        ran = ended(alice, project, hours)
        columns = {"spec": ran.spec | {"resources": asked}, "gpus_per_node": 0}
        Job.objects.filter(pk=ran.pk).update(**columns)
    works = {
        hours: Work.of(alice.pk, project.pk, "train", Resources(**asked))
        for hours, asked in enumerate(asks, 1)
    }
    found = history.predictions(works)
    assert {hours: one.from_n for hours, one in found.items()} == {1: 1, 2: 1, 3: 1}
    assert found[1].expected_s < found[2].expected_s < found[3].expected_s
