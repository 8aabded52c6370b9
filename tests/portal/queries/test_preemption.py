"""What a plan is told of running jobs before it chooses who makes room."""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction

from jobs.lifecycle import State
from jobs.scheduler.policy import Policy
from portal.actions import preempt
from portal.models import Checkpoint, Job, Node, Project, User
from portal.queries import holdings, preemption
from tests.portal import cast
from tests.portal.cast import NOW


def _running(owner: User, project: Project, node: Node, *, hours: float) -> Job:
    job = cast.job(owner, project, state=State.RUNNING)
    Job.objects.filter(pk=job.pk).update(started_at=NOW - timedelta(hours=hours))
    cast.run(job, node, 0)
    return job


def _saved(job: Job, step: int, minutes: int, *, complete: bool = True) -> None:
    part = job.attempts.get().allocations.get()
    Checkpoint.objects.create(
        job=job, attempt=part.attempt, node=part.node, name=f"{step}", path=f"/ckpt/{step}",
        step=step, size_bytes=1, complete=complete, modified_at=NOW - timedelta(minutes=minutes),
    )  # fmt: skip


def test_since_when_each_runs_and_when_it_last_saved(
    alice: User, project: Project, node: Node
) -> None:
    one = _running(alice, project, node, hours=3)
    _saved(one, 10, 240)
    _saved(one, 20, 30)
    _saved(one, 30, 1, complete=False)
    starting = cast.job(alice, project, state=State.CONFIGURING, started_at=None)
    cast.run(starting, cast.node("gpu-2"), 0)
    began = NOW - timedelta(hours=3)
    assert preemption.runs(holdings.read().open, NOW) == {
        one.pk: preemption.Run(began, NOW - timedelta(minutes=30), 0, None, True)
    }
    # What was written before this run began is not lost with it.
    Checkpoint.objects.filter(step=20).delete()
    assert preemption.runs(holdings.read().open, NOW)[one.pk].saved_at is None


def test_who_leaves_and_until_when(alice: User, project: Project, node: Node) -> None:
    one, waiting = _running(alice, project, node, hours=1), cast.job(alice, project)
    assert not preemption.runs(holdings.read().open, NOW)[one.pk].leaving
    with transaction.atomic():
        preempt.preempt({one.pk: waiting.pk}, policy=Policy(grace_s=45.5), now=NOW)
    found = preemption.runs(holdings.read().open, NOW)[one.pk]
    assert (found.leaving, found.leaves_by) == (True, NOW + timedelta(seconds=46))


def test_a_long_run_ends_the_row_of_preemptions(alice: User, project: Project, node: Node) -> None:
    one = _running(alice, project, node, hours=23)
    Job.objects.filter(pk=one.pk).update(preemptions=3)
    assert preemption.runs(holdings.read().open, NOW)[one.pk].preemptions == 3
    assert preemption.runs(holdings.read().open, NOW + timedelta(hours=1))[one.pk].preemptions == 0
