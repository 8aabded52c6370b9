"""An array as a whole: cancelled, held and released, however many of its tasks wait."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs.lifecycle import Reason, State
from portal.actions.cancel import cancel_array
from portal.actions.hold import hold_array, release_array
from portal.models import Event, Job, Node, Project, User
from tests.portal import cast
from tests.portal.actions.conftest import Lab

Verb = Callable[..., object]


def events(job: Job) -> list[tuple[str, str, User | None]]:
    return [(event.kind, event.new, event.actor) for event in job.events.all()]


def test_cancelling_an_array_ends_every_process_of_it(lab: Lab) -> None:
    lab.node("n1", gpus=2)
    mark = lab.directory / "mark"
    script = f'touch {mark}.$SLURM_ARRAY_TASK_ID; sleep 600; touch "{mark}.$SLURM_ARRAY_TASK_ID.on"'
    other = lab.submit("true", gpus_per_node="2")
    head = lab.submit(script, array="1-5", gpus_per_node="1")
    first, second, *waiting = tasks = list(Job.objects.filter(array_id=head.pk).order_by("pk"))
    lab.running(first, second)
    now = timezone.now()
    assert cancel_array(array_id=head.pk, actor=lab.owner, now=now) == (3, 2)
    for task in waiting:
        assert lab.fresh(task).state == State.CANCELLED
        assert (task.cancelled_by, task.cancelled_at, task.ended_at) == (lab.owner, now, now)
        assert events(task)[-1] == ("state", State.CANCELLED, lab.owner)
    for task in (first, second):
        assert lab.fresh(task).state == State.COMPLETING
        assert ("cancel", "", lab.owner) in events(task)
    lab.end(*tasks)
    assert {task.state for task in tasks} == {State.CANCELLED}
    assert not list(lab.directory.glob("mark.*.on"))
    lab.end(other)
    assert other.state == State.COMPLETED


def test_what_ended_and_what_ends_is_left_alone(alice: User, bob: User, project: Project) -> None:
    done, failed, ending, waiting = tasks = cast.array(
        alice, project, State.COMPLETED, State.FAILED, State.COMPLETING, State.PENDING
    )
    asked = {"cancelled_by": bob, "cancelled_at": cast.NOW}
    Job.objects.filter(pk=ending.pk).update(**asked)
    cast.array(alice, project, State.PENDING, State.PENDING)
    assert cancel_array(array_id=done.pk, actor=alice, now=timezone.now()) == (1, 0)
    found = {job.pk: job for job in Job.objects.filter(array_id=done.pk)}
    assert [found[task.pk].state for task in tasks] == [
        State.COMPLETED, State.FAILED, State.COMPLETING, State.CANCELLED
    ]  # fmt: skip
    assert (found[ending.pk].cancelled_by, found[ending.pk].cancelled_at) == (bob, cast.NOW)
    assert not Event.objects.filter(job__in=(done, failed, ending)).exists()
    assert Job.objects.filter(state=State.PENDING).count() == 2
    assert cancel_array(array_id=done.pk, actor=alice, now=timezone.now()) == (0, 0)
    assert events(waiting) == [("state", State.CANCELLED, alice)]


def test_holding_and_releasing_concern_what_waits(
    lab: Lab, alice: User, project: Project
) -> None:  # fmt: skip
    lab.node("n1", gpus=2)
    running, first, second = cast.array(alice, project, State.RUNNING, State.PENDING, State.PENDING)
    (alone,) = cast.array(alice, project, State.PENDING, name="alone", gpus=4)
    assert hold_array(array_id=running.pk, actor=alice, now=timezone.now()) == 2
    assert hold_array(array_id=running.pk, actor=alice, now=timezone.now()) == 0
    lab.step()
    for job in (first, second):
        assert (lab.fresh(job).state, job.held) == (State.PENDING, True)
        assert (job.reason, job.detail) == (Reason.HELD_USER, f"Held by {alice}.")
    assert [lab.fresh(job).held for job in (running, alone)] == [False, False]
    assert release_array(array_id=running.pk, actor=alice, now=timezone.now()) == (2, 0)
    assert release_array(array_id=running.pk, actor=alice, now=timezone.now()) == (0, 0)
    for job in (first, second):
        assert (lab.fresh(job).held, job.reason, job.detail) == (False, "", "")
        assert events(job) == [("held", "", alice), ("released", "", alice)]


@pytest.mark.parametrize("verb", [cancel_array, hold_array, release_array])
def test_the_number_of_statements_does_not_grow(
    alice: User, project: Project, node: Node, verb: Verb
) -> None:
    def statements(waiting: int) -> int:
        states = [State.RUNNING, *[State.PENDING] * waiting]
        tasks = cast.array(alice, project, *states, held=verb is release_array)
        cast.run(tasks[0], node, waiting % 4)
        with CaptureQueriesContext(connection) as seen:
            assert verb(array_id=tasks[0].pk, actor=alice, now=timezone.now())
        return len(seen)

    # SQLite takes 999 values at once.
    assert statements(2) == statements(51)
