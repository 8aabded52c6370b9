"""Checkpoints that nobody wants kept are removed, and only those."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from jobs.engines.contract import Prune, Pruned
from jobs.nodes.transport import NodeError
from portal import reach
from portal.actions import retention
from portal.models import Allocation, Checkpoint, Event, Job, Node, Project, User
from tests.portal import cast
from tests.portal.actions.conftest import Lab
from tests.portal.cast import NOW
from tests.portal.views.pages import job_page


class Engine:
    """Removes what it is asked to, but `refused`."""

    def __init__(self) -> None:
        self.asked: list[Prune] = []
        self.refused: set[str] = set()
        self.error: Exception | None = None

    def prune(self, prunes: list[Prune]) -> list[Pruned]:
        if self.error:
            raise self.error
        self.asked += prunes
        return [Pruned(one.key, one.name, one.name not in self.refused) for one in prunes]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    made = Engine()
    monkeypatch.setattr(reach, "engine", lambda node: made)
    return made


@pytest.fixture
def part(node: Node, alice: User, project: Project) -> Allocation:
    spec = {"name": "train", "keep_checkpoints": {"last": 2, "every": None}}
    found = cast.run(cast.job(alice, project, state="RUNNING", spec=spec), node, 0)
    Allocation.objects.update(phase="running")
    for step in range(1, 6):
        saved(found, step)
    return found


def saved(part: Allocation, step: int, **facts: Any) -> Checkpoint:
    usual = {"complete": True, "modified_at": NOW + timedelta(seconds=step), "node": part.node}
    return Checkpoint.objects.create(
        job=part.attempt.job, attempt=part.attempt, name=f"{step}.pt", path=f"/c/{step}.pt",
        step=step, size_bytes=7, **usual | facts,
    )  # fmt: skip


def gone(engine: Engine, node: Node) -> list[str]:
    retention.prune(node_id=node.pk, now=NOW)
    return [one.name for one in engine.asked]


def test_what_is_not_kept_goes(engine: Engine, part: Allocation, node: Node) -> None:
    engine.refused = {"2.pt"}
    assert retention.prune(node_id=node.pk, now=NOW) == 2
    assert engine.asked == [Prune(part.key, f"{step}.pt", 7) for step in (1, 2, 3)]
    assert set(Checkpoint.objects.values_list("step", flat=True)) == {2, 4, 5}
    assert Event.objects.get(kind="pruned").detail == "2 so far, the last of them step 3."
    engine.refused = set()
    retention.prune(node_id=node.pk, now=NOW)
    assert Event.objects.get(kind="pruned").detail == "3 so far, the last of them step 2."


def test_who_says_nothing_keeps_all(engine: Engine, part: Allocation, node: Node) -> None:
    for keep in ({}, {"keep_checkpoints": None}):
        Job.objects.update(spec={"name": "train"} | keep)
        assert gone(engine, node) == []


def test_pinned_and_used_ones_stay(
    engine: Engine, part: Allocation, node: Node, alice: User, project: Project
) -> None:
    Checkpoint.objects.filter(step=1).update(pinned=True)
    cast.job(alice, project, resume_from="/c/2.pt")
    assert gone(engine, node) == ["3.pt"]


def test_what_a_node_doubts_does_not_count(engine: Engine, part: Allocation, node: Node) -> None:
    other = cast.node("gpu-2")
    for step in (4, 5):
        saved(part, step, node=other, complete=False)
    assert gone(engine, node) == ["1.pt"], "2 and 3 are the last that a job would go on from"


@pytest.mark.parametrize(("hours", "names"), [(1, ["1.pt", "2.pt", "3.pt"]), (13, [])])
def test_an_ended_run_is_asked_for_some_time(
    engine: Engine, part: Allocation, node: Node, hours: int, names: list[str]
) -> None:
    Allocation.objects.update(phase="ended", ended_at=NOW - timedelta(hours=hours))
    assert gone(engine, node) == names


def test_a_node_that_does_not_answer_changes_nothing(
    engine: Engine, part: Allocation, node: Node
) -> None:
    engine.error = NodeError("no route")
    assert retention.prune(node_id=node.pk, now=NOW) == 0
    assert Checkpoint.objects.count() == 5


def test_pinning(part: Allocation, alice: User) -> None:
    row = Checkpoint.objects.get(step=1)
    twin = saved(part, 1, node=cast.node("gpu-2"))
    assert retention.pin(checkpoint=row, pinned=True, actor=alice, now=NOW)
    assert not retention.pin(checkpoint=row, pinned=True, actor=alice, now=NOW)
    twin.refresh_from_db()
    assert twin.pinned, "the nodes may share their storage"
    assert Event.objects.get(kind="pinned").actor == alice


def test_the_page_pins_and_unpins(as_alice: Client, as_bob: Client, part: Allocation) -> None:
    job, row = part.attempt.job, Checkpoint.objects.get(step=1)
    url = f"/jobs/{job.pk}/checkpoints/{row.pk}/"
    shown = job_page(as_alice, job)
    assert f"{url}pin/" in shown and "the last 2" in shown
    assert f"{url}pin/" not in job_page(as_bob, job)
    assert as_bob.post(f"{url}pin/").status_code == 403
    as_alice.post(f"{url}pin/")
    assert f"{url}unpin/" in job_page(as_alice, job)
    as_alice.post(f"{url}unpin/")
    row.refresh_from_db()
    assert not row.pinned
    assert as_alice.get(f"{url}pin/").status_code == 405
    assert as_alice.post(f"/jobs/{job.pk}/checkpoints/999999/pin/").status_code == 302
    Job.objects.update(spec={"name": "train"})
    assert "pin/" not in job_page(as_alice, job), "where all are kept there is nothing to pin"


def test_a_real_node_removes_what_a_real_job_does_not_keep(lab: Lab) -> None:
    node = lab.node("n1")
    job = lab.submit(
        "#!/bin/sh\n#CARREL --keep-checkpoints=last=1\n"
        "cd $CARREL_CHECKPOINT_DIR; for n in 1 2 3; do echo $n > $n.bin; sleep 0.05; done\n"
    )
    lab.end(job)
    assert retention.prune(node_id=node.pk, now=timezone.now()) == 2
    left = Checkpoint.objects.get(job=job)
    assert left.name == "3.bin"
    assert [path.name for path in lab.directory.glob("checkpoints/job-*/*")] == ["3.bin"]
