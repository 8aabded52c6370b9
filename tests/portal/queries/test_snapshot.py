"""The cluster as the scheduler is told of it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jobs.lifecycle import State
from portal.models import Attempt, Job, Node, Project, User
from portal.queries import snapshot
from tests.portal import cast


def test_held_jobs_do_not_keep_others_out_of_sight(
    alice: User, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "MAX_PENDING", 2)
    for _ in range(3):
        cast.job(alice, project, held=True)
    able = cast.job(alice, project)
    Job.objects.update(spec={"name": "train", "resources": {}})
    assert able.pk in [job.id for job in snapshot.take(cast.NOW).pending]


def test_a_job_about_to_start_has_its_walltime_before_it(
    alice: User, project: Project, node: Node
) -> None:
    waited = cast.job(
        alice, project, state=State.CONFIGURING, started_at=None,
        submitted_at=cast.NOW - timedelta(days=2),
    )  # fmt: skip
    cast.run(waited, node, 0)
    Attempt.objects.update(started_at=cast.NOW)
    (running,) = snapshot.take(cast.NOW).running
    assert running.ends_by == cast.NOW + timedelta(seconds=waited.walltime_s)


def test_of_several_dependencies_those_that_failed_are_what_it_waits_for_in_vain(
    alice: User, project: Project
) -> None:
    failed = cast.job(alice, project, state=State.FAILED)
    well = cast.job(alice, project, state=State.COMPLETED)
    waiting = cast.array(alice, project, State.PENDING)[0]
    job = cast.job(alice, project)
    waits = [{"kind": "afterok", "job_id": other.pk} for other in (failed, well, waiting)]
    Job.objects.filter(pk=job.pk).update(spec={"name": "train", "dependencies": waits})
    taken = {pending.id: pending for pending in snapshot.take(cast.NOW).pending}
    assert taken[job.pk].waits_for == (failed.pk,)
    assert (taken[job.pk].label, taken[waiting.pk].label) == (str(job.pk), f"{waiting.pk}_1")
