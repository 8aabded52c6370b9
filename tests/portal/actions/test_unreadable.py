"""A job whose stored request this version cannot read: it alone has to wait."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from jobs.lifecycle import State
from portal.actions import schedule
from portal.models import Job, Lease, Node, Project, User
from portal.queries import snapshot, workload
from tests.portal import cast

ODD: list[dict[str, Any]] = [
    {"name": "x", "resources": {"gpus_per_node": 1, "wings": 2}},
    {"name": "x", "resources": {"gpus_per_node": -1}},
    {"name": "x", "wings": 2},
]


def odd_job(owner: User, project: Project, spec: dict[str, Any], **columns: Any) -> Job:
    return cast.job(owner, project, spec=spec, **columns)


@pytest.mark.parametrize("spec", ODD)
def test_it_waits_with_a_reason_and_others_start(
    alice: User, project: Project, node: Node, spec: dict[str, Any]
) -> None:
    odd = odd_job(alice, project, spec)
    well = cast.job(alice, project)
    assert schedule.schedule(now=cast.NOW) == 1
    odd.refresh_from_db()
    well.refresh_from_db()
    assert (odd.state, well.state) == (State.PENDING, State.CONFIGURING)
    assert odd.reason == "BadConstraints"
    assert odd.detail.startswith("Its request cannot be read: ")
    assert (odd.starts_at, odd.position) == (None, None)


def test_while_it_runs_it_holds_what_its_columns_say(
    alice: User, project: Project, node: Node
) -> None:
    runs = odd_job(alice, project, ODD[0], state=State.RUNNING, gpus=3)
    cast.run(runs, node, 0, 1, 2)
    for _ in range(2):
        cast.job(alice, project)
    (running,) = snapshot.take(cast.NOW).running
    assert running.ends_by == runs.started_at + timedelta(seconds=runs.walltime_s)
    assert running.resources is not None
    assert (running.resources.gpus, running.again) == (3, None)
    assert schedule.schedule(now=cast.NOW) == 1
    assert Lease.objects.filter(released_at=None).count() == 4


def test_a_variable_that_carrel_sets_by_now_keeps_nobody_waiting(
    alice: User, project: Project, node: Node
) -> None:
    pairs = [["CUDA_MPS_PIPE_DIRECTORY", "/tmp/mps"], ["SEED", "7"]]
    stored = {"name": "x", "resources": {"gpus_per_node": 1}, "environment": pairs}
    odd_job(alice, project, stored)
    assert schedule.schedule(now=cast.NOW) == 1


@pytest.mark.parametrize("spec", ODD)
def test_its_pages_can_be_seen(
    as_alice: Client, alice: User, project: Project, node: Node, spec: dict[str, Any]
) -> None:
    odd = odd_job(alice, project, spec)
    schedule.schedule(now=cast.NOW)
    for path in (f"/jobs/{odd.pk}/", f"/jobs/{odd.pk}/sooner/", f"/jobs/{odd.pk}/relaunch/", "/"):
        assert as_alice.get(path, follow=True).status_code == 200, path
    page = as_alice.get(f"/jobs/{odd.pk}/").text
    assert "Its request cannot be read" in page
    assert "what this version cannot read" in page


def test_what_if_leaves_it_out(alice: User, project: Project, node: Node) -> None:
    since = cast.NOW - timedelta(days=1)
    odd = odd_job(alice, project, ODD[2], state=State.RUNNING)
    cast.run(odd, node, 0)
    cast.run(cast.job(alice, project, state=State.RUNNING), node, 1)
    found = workload.read(since, cast.NOW, cast.NOW)
    assert found.jobs == 1
    assert found.left_out == ("1 job whose request this version cannot read",)


def test_a_quota_is_set_beside_it(as_admin: Client, alice: User, project: Project) -> None:
    odd_job(alice, project, ODD[0])
    sent = as_admin.post(f"/projects/{project.name}/quota/", {"gpus": "2", "period": "month"})
    assert sent.status_code == 200
    assert Job.objects.get().state == State.PENDING
