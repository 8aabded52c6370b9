"""Jobs and nodes that leave odd things for the portal to find: each harms itself alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from django.utils import timezone

from jobs.engines.ssh import ShepherdEngine
from jobs.events import Observation
from jobs.nodes.probe import GpuFacts, NodeFacts
from portal import archive
from portal.actions import logs, nodes, observe
from portal.models import Allocation, Checkpoint, Event, Gpu, Node
from tests.portal import cast
from tests.portal.actions.conftest import Lab

LOOK = ShepherdEngine.observe


def looks_tell(monkeypatch: pytest.MonkeyPatch, **facts: object) -> None:
    """Whatever checkpoints are there are told with these facts."""

    def look(self: ShepherdEngine, keys: Sequence[str], **asked: bool) -> Observation:
        seen = LOOK(self, keys, **asked)
        return replace(seen, checkpoints=tuple(replace(c, **facts) for c in seen.checkpoints))

    monkeypatch.setattr(ShepherdEngine, "observe", look)


def kept(part: Allocation) -> bytes:
    return archive.path(part.key).read_bytes()


@pytest.mark.parametrize(
    "facts",
    [{"modified_at": 1e12}, {"modified_at": -1e12}, {"modified_at": 253402300799.0},
     {"size_bytes": 2**64}, {"modified_at": 1e300, "size_bytes": 2**80}],
)  # fmt: skip
def test_a_checkpoint_of_any_time_and_size(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, facts: dict[str, object]
) -> None:
    lab.node("n1")
    looks_tell(monkeypatch, **facts)
    job = lab.submit('echo weights > "$CARREL_CHECKPOINT_DIR/step_1.pt"')
    lab.end(job)
    assert job.state == "COMPLETED"
    found = Checkpoint.objects.get(job=job)
    assert 1900 <= found.modified_at.year <= 9000
    assert found.size_bytes in (8, 2**63 - 1)


def test_what_no_column_takes_is_said_of_the_node(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = lab.node("n1")
    job = lab.submit('echo weights > "$CARREL_CHECKPOINT_DIR/step_1.pt"; sleep 600')
    lab.drive(lambda: Checkpoint.objects.exists())
    looks_tell(monkeypatch, step=2**70, complete=True)
    observe.observe(node_id=node.pk, now=timezone.now())
    node.refresh_from_db()
    assert node.missed == 1
    assert lab.fresh(job).state == "RUNNING"
    monkeypatch.undo()


def test_a_log_that_was_blown_up_is_cut(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LARGEST", 3 * logs.MAX_RANGE)
    node = lab.node("n1")
    job = lab.submit(
        'echo hello; cd "$CARREL_RUN_DIR"; until [ -s log ]; do sleep 0.05; done; '
        "truncate -s 1T log"
    )
    lab.end(job)
    logs.keep(node_id=node.pk, now=timezone.now())
    part = Allocation.objects.get(attempt__job=job)
    data = kept(part)
    assert part.log_kept
    assert len(data) == part.log_bytes < 4 * logs.MAX_RANGE
    assert data.startswith(b"hello\n")
    assert data.endswith(
        b"\n[carrel] only the first 3145728 bytes are kept, of 1099511627776 on the node\n"
    )


@pytest.mark.parametrize("instead", ["mkdir", "mkfifo", "ln -s /proc/self/mem"])
def test_a_log_that_cannot_be_read_is_no_fault_of_its_node(lab: Lab, instead: str) -> None:
    node = lab.node("n1")
    large = "head -c 100000 /dev/zero"
    well = lab.submit(large)
    odd = lab.submit(f'{large}; rm "$CARREL_RUN_DIR/log"; {instead} "$CARREL_RUN_DIR/log"')
    lab.end(well, odd)
    Allocation.objects.filter(attempt__job=odd).update(log_kept=False)
    logs.keep(node_id=node.pk, now=timezone.now())
    assert Allocation.objects.get(attempt__job=well).log_kept
    assert Node.objects.get().missed == 0


def test_what_a_killed_worker_left_of_a_log_goes(lab: Lab) -> None:
    node = lab.node("n1")
    job = lab.submit("head -c 100000 /dev/zero")
    lab.end(job)
    part = Allocation.objects.get(attempt__job=job)
    assert not part.log_kept
    left = archive.partial_path(part.key, "dead")
    left.parent.mkdir(parents=True, exist_ok=True)
    left.write_bytes(b"half")
    logs.keep(node_id=node.pk, now=timezone.now())
    assert len(kept(part)) == 100_000
    assert not left.exists()


FACTS = NodeFacts(
    hostname="n", python="3.11", cpus=8, memory_mib=1024, os="Linux", kernel="6", user="u",
    home="/", boot_id="b",
)  # fmt: skip


def probe_tells(monkeypatch: pytest.MonkeyPatch, facts: NodeFacts) -> None:
    monkeypatch.setattr(nodes, "ask", lambda transport, spool: facts)


def test_figures_that_no_column_takes(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    node = lab.node("n1")
    probe_tells(monkeypatch, replace(FACTS, cpus=2**70))
    nodes.probe(node=node, actor=None, now=timezone.now())
    assert node.health == Node.Health.UNREACHABLE
    assert "cannot be written down" in node.problem
    assert node.cpus == 32


def test_a_node_gets_no_gpus_of_others(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    other = cast.node("n2")
    node = lab.node("n1", gpus=0)
    uuid = other.gpus.get(index=0).uuid
    probe_tells(monkeypatch, replace(FACTS, gpus=(GpuFacts(0, uuid, "A100", 1, None),)))
    nodes.probe(node=node, actor=None, now=timezone.now())
    assert Gpu.objects.get(uuid=uuid).node == other
    assert "is on n2" in Event.objects.get(node=node, kind="claims a GPU").detail
    Node.objects.filter(pk=other.pk).update(health=Node.Health.UNREACHABLE)
    nodes.probe(node=node, actor=None, now=timezone.now())
    assert Gpu.objects.get(uuid=uuid).node == node
