"""What a look at a node brings in: checkpoints, times on the right clock, and nothing concluded
from a directory that somebody removed."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from jobs.engines.ssh import ShepherdEngine
from jobs.events import CheckpointSeen, Observation
from jobs.nodes.memory import MemoryTransport
from jobs.nodes.probe import GpuFacts, NodeFacts
from portal.actions import cancel, checkpoints, nodes, observe
from portal.actions.clock import Times
from portal.models import Allocation, Checkpoint, Event, Job, Lease, Node
from tests.portal import cast
from tests.portal.actions.conftest import Lab

PROBE = nodes.ask
LOOK = ShepherdEngine.observe
NOW = datetime(2026, 11, 3, 12, 0, tzinfo=UTC)
EMPTY = NodeFacts(
    hostname="n", python="3.11", cpus=8, memory_mib=1024, os="Linux", kernel="6", user="u",
    home="/", boot_id="b",
)  # fmt: skip


def node_clock(monkeypatch: pytest.MonkeyPatch, ahead_s: float, *, set_since: bool = False) -> None:
    """The node's clock is that much ahead, or has been `set_since` its runs were started."""

    def later(moment: float | None, is_known: bool = False) -> float | None:
        return moment if moment is None or is_known else moment + ahead_s

    def look(self: ShepherdEngine, keys: Any, **more: Any) -> Observation:
        seen = LOOK(self, keys, **more)
        runs = tuple(
            replace(run, started_at=later(run.started_at, set_since), ended_at=later(run.ended_at))
            for run in seen.runs
        )
        return replace(seen, at=seen.at + ahead_s, runs=runs)

    monkeypatch.setattr(ShepherdEngine, "observe", look)


def test_times_are_ours_whatever_the_node_thinks(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.node("n1")
    node_clock(monkeypatch, 7 * 3600)
    job = lab.submit("sleep 0.2")
    lab.end(job)
    assert job.submitted_at <= job.started_at <= job.ended_at <= timezone.now()


def test_a_clock_set_in_the_middle_moves_no_start(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.node("n1")
    gate = lab.directory / "gate"
    job = lab.submit(f"while [ ! -e {gate} ]; do sleep 0.05; done")
    lab.drive(lambda: Allocation.objects.filter(started_at__isnull=False).exists())
    began = Allocation.objects.get().started_at
    node_clock(monkeypatch, 9000, set_since=True)
    gate.touch()
    lab.end(job)
    assert job.started_at == began
    assert job.started_at <= job.ended_at <= timezone.now()


def test_times_no_calendar_has_are_none() -> None:
    times = Times(at=1000.0, now=NOW)
    assert times.ours(940.0) == NOW - timedelta(minutes=1)
    assert times.ours(1e18) is times.ours(float("inf")) is times.ours(-1e15) is None


def test_a_removed_spool_frees_no_gpu_while_the_job_lives(lab: Lab) -> None:
    node = lab.node("n1")
    gate = lab.directory / "gate"
    job = lab.submit(f"while [ ! -e {gate} ]; do sleep 0.05; done; exit 4", gpus_per_node="1")
    lab.running(job)
    shutil.rmtree(lab.directory / "n1" / "runs")
    for _ in range(3):
        observe.observe(node_id=node.pk, now=timezone.now())
    assert lab.fresh(job).state == "RUNNING"
    assert Lease.objects.filter(released_at=None).count() == 1
    gate.touch()
    lab.end(job)
    assert (job.state, job.exit_code) == ("FAILED", 4)


def test_a_cancelled_job_without_its_spool_leaves_no_process(lab: Lab) -> None:
    lab.node("n1")
    pids = lab.directory / "pids"
    job = lab.submit(f"echo $$ > {pids}; sleep 600", gpus_per_node="1")
    lab.drive(lambda: pids.exists() and bool(pids.read_text().strip()))
    lab.running(job)
    shutil.rmtree(lab.directory / "n1" / "runs")
    cancel.cancel(job=job, actor=lab.owner, now=timezone.now())
    lab.end(job)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pids.read_text()), 0)


@pytest.fixture
def part(node: Node, alice: Any, project: Any) -> Allocation:
    return cast.run(cast.job(alice, project, state="RUNNING"), node, 0)


def saved(part: Allocation, name: str, **facts: Any) -> CheckpointSeen:
    known = {"size_bytes": 10, "modified_at": 1000.0, "step": None, "complete": True}
    return CheckpointSeen(key=part.key, name=name, path=f"/c/{name}", **known | facts)


def note(part: Allocation, *seen: CheckpointSeen) -> None:
    checkpoints.note({part.key: part}, seen, Times(1000.0, NOW))


def test_an_overwritten_checkpoint_of_the_same_size_gets_its_new_time(part: Allocation) -> None:
    note(part, saved(part, "last.pt"))
    note(part, saved(part, "last.pt", modified_at=1001.0))
    assert Checkpoint.objects.get().modified_at == NOW
    note(part, saved(part, "last.pt", modified_at=1100.0))
    assert Checkpoint.objects.get().modified_at == NOW + timedelta(seconds=100)


def test_a_checkpoint_that_was_deleted_on_the_node_is_not_listed(part: Allocation) -> None:
    note(part, saved(part, "1.pt"), saved(part, "2.pt"))
    note(part, saved(part, "2.pt"), saved(part, "3.pt", complete=False))
    assert set(Checkpoint.objects.values_list("name", flat=True)) == {"2.pt", "3.pt"}
    note(part)
    assert Checkpoint.objects.count() == 2, "an empty list may be a file system not mounted"


def test_a_file_of_a_year_no_calendar_has_harms_nobody(part: Allocation) -> None:
    note(part, saved(part, "1.pt", modified_at=1e17, step=10**18 - 1))
    assert Checkpoint.objects.get().modified_at == NOW


def test_many_checkpoints_take_few_queries(
    part: Allocation, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(8):
        note(part, *(saved(part, f"{step}.pt", step=step) for step in range(400)))
    assert Checkpoint.objects.filter(job=Job.objects.get()).count() == 400


def test_a_probe_that_another_one_overtook_changes_nothing(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = lab.node("n1")
    Node.objects.update(probed_at=None)

    def slow(*given: Any) -> Any:
        monkeypatch.setattr(nodes, "ask", PROBE)
        assert nodes.probe_if_due(node_id=node.pk, now=timezone.now())
        Node.objects.update(cpus=99)
        return PROBE(*given)

    monkeypatch.setattr(nodes, "ask", slow)
    assert nodes.probe_if_due(node_id=node.pk, now=timezone.now())
    assert Node.objects.get().cpus == 99
    assert Event.objects.filter(node=node, kind="probed").count() == 1


def test_a_card_that_is_cut_into_instances_gives_way_to_them(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portal.reach.transport", lambda node: MemoryTransport())
    whole = GpuFacts(0, "GPU-x", "NVIDIA A100-SXM4-80GB", 81_920, None, False, domain=0)
    small = GpuFacts(0, "MIG-x", "NVIDIA A100-SXM4-80GB MIG 1g.10gb", 9728, None, True, domain=1)
    for gpu, gone in ((whole, "MIG-x"), (small, "GPU-x")):
        facts = replace(EMPTY, gpus=(gpu,))
        monkeypatch.setattr(nodes, "ask", lambda transport, spool, facts=facts: facts)
        nodes.probe(node=node, actor=None, now=timezone.now())
        row = node.gpus.get(present=True)
        assert (row.uuid, row.domain, row.memory_mib) == (gpu.uuid, gpu.domain, gpu.memory_mib)
        assert not node.gpus.filter(uuid=gone, present=True).exists()
    assert small.model == row.model
