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
    assert able.pk in [job.id for job in snapshot.take().pending]


def test_a_job_about_to_start_has_its_walltime_before_it(
    alice: User, project: Project, node: Node
) -> None:
    waited = cast.job(
        alice, project, state=State.CONFIGURING, started_at=None,
        submitted_at=cast.NOW - timedelta(days=2),
    )  # fmt: skip
    cast.run(waited, node, 0)
    Attempt.objects.update(started_at=cast.NOW)
    (running,) = snapshot.take().running
    assert running.ends_by == cast.NOW + timedelta(seconds=waited.walltime_s)
