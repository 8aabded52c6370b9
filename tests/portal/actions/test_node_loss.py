"""A node goes out of reach: its jobs go on elsewhere, once they have surely ended there."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from jobs.nodes.shepherd import Shepherd
from jobs.nodes.transport import NoRoute
from portal.actions import leases, recover, requeue
from portal.actions.leases import Term, Vigil
from portal.models import Allocation, Attempt, Checkpoint, Event, Job, Lease, Node, Project, User
from tests.portal import cast
from tests.portal.actions.conftest import Lab

LEASE_S = 30
AFTER_S = LEASE_S * (1 + leases.DRIFT) + leases.MARGIN_S
WAIT = "echo began; while [ ! -e {gate} ]; do sleep 0.05; done"


@pytest.fixture
def lease(settings: Any) -> None:
    settings.LEASE_S = LEASE_S


class Silence:
    """Nodes of which nothing comes back."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.spools: set[str] = set()
        ask = Shepherd.ask

        def asked(shepherd: Shepherd, verb: str, request: Mapping[str, Any], **more: Any) -> Any:
            if shepherd._spool in self.spools:
                raise NoRoute("No answer.")
            return ask(shepherd, verb, request, **more)

        monkeypatch.setattr(Shepherd, "ask", asked)

    def begin(self, lab: Lab, *nodes: Node) -> None:
        """Until it is known that they are out of reach."""
        self.spools |= {node.spool for node in nodes}
        names = [node.pk for node in nodes]
        silent = Node.objects.filter(pk__in=names, health=Node.Health.UNREACHABLE)

        def known() -> bool:
            Node.objects.filter(pk__in=names).update(tried_at=None)
            return silent.count() == len(nodes)

        lab.drive(known)

    def end(self) -> None:
        self.spools.clear()


@pytest.fixture
def silence(monkeypatch: pytest.MonkeyPatch) -> Silence:
    return Silence(monkeypatch)


class Watch:
    """A worker that waits, with a clock of its own."""

    def __init__(self) -> None:
        self.vigil = Vigil()
        self.clock = 1000.0

    def after(self, seconds: float) -> list[int]:
        self.clock += seconds
        return recover.recover(vigil=self.vigil, clock=self.clock, now=timezone.now())


@pytest.fixture
def watch() -> Watch:
    return Watch()


def outcomes(job: Job) -> list[str]:
    return list(job.attempts.order_by("number").values_list("outcome", flat=True))


def began(lab: Lab, job: Job, attempt: int) -> Node:
    """Where that attempt runs."""
    part = Allocation.objects.filter(attempt__job=job, attempt__number=attempt)
    lab.drive(lambda: part.filter(phase="running", started_at__isnull=False).exists())
    return part.get().node


def test_it_goes_on_elsewhere(lab: Lab, lease: None, silence: Silence, watch: Watch) -> None:
    nodes = [lab.node("n1"), lab.node("n2"), lab.node("n3")]
    gate = lab.directory / "gate"
    job = lab.submit(f"#!/bin/bash\n#SBATCH --requeue\n{WAIT.format(gate=gate)}", gpus_per_node="1")
    lost = began(lab, job, 1)
    silence.begin(lab, lost)
    assert watch.after(0) == []
    assert watch.after(AFTER_S - 0.1) == []
    assert Lease.objects.filter(released_at=None, gpu__node=lost).exists()
    assert watch.after(0.2) == [job.pk]
    assert began(lab, job, 2) in [node for node in nodes if node != lost]
    told = Attempt.objects.get(job=job, number=1)
    assert told.outcome == "NODE_FAIL"
    assert f"{lost.name} has not answered since" in told.detail
    assert "starts again from the beginning" in told.detail
    gate.touch()
    silence.end()
    lab.end(job)
    assert outcomes(job) == ["NODE_FAIL", "COMPLETED"]
    assert job.node_losses == 1


def test_should_the_node_come_back_nothing_of_it_runs_there(
    lab: Lab, lease: None, silence: Silence, watch: Watch
) -> None:
    for name in ("n1", "n2", "n3"):
        lab.node(name)
    gate = lab.directory / "gate"
    job = lab.submit(f"#!/bin/bash\n#SBATCH --requeue\n{WAIT.format(gate=gate)}", gpus_per_node="1")
    lost = began(lab, job, 1)
    silence.begin(lab, lost)
    watch.after(0)
    watch.after(AFTER_S + 1)
    silence.end()
    first = Allocation.objects.get(attempt__job=job, attempt__number=1)
    lab.drive(lambda: Allocation.objects.get(pk=first.pk).stop_sent_at is not None)
    told = lab.directory / lost.name / "runs" / first.key / "exit.json"
    lab.drive(told.exists)
    assert Allocation.objects.get(pk=first.pk).cause == "fenced"
    gate.touch()
    lab.end(job)


@pytest.mark.parametrize("option", ["--no-requeue", "--job-name=plain"])
def test_who_may_not_be_started_again_waits_for_the_node(
    lab: Lab, lease: None, silence: Silence, watch: Watch, option: str
) -> None:
    for name in ("n1", "n2", "n3"):
        lab.node(name)
    gate = lab.directory / "gate"
    job = lab.submit(f"#!/bin/bash\n#SBATCH {option}\n{WAIT.format(gate=gate)}", gpus_per_node="1")
    silence.begin(lab, began(lab, job, 1))
    watch.after(0)
    assert watch.after(100 * AFTER_S) == []
    assert lab.fresh(job).state == "RUNNING"
    silence.end()
    gate.touch()
    lab.end(job)
    assert outcomes(job) == ["COMPLETED"]


def test_a_checkpoint_puts_up_the_fence(
    lab: Lab, lease: None, silence: Silence, watch: Watch
) -> None:
    for name in ("n1", "n2", "n3"):
        lab.node(name)
    gate = lab.directory / "gate"
    save = 'echo saved > "$CARREL_CHECKPOINT_DIR/step-7.txt"'
    job = lab.submit(f'echo "${{CARREL_RESUME_FROM:-}}"; {save}; {WAIT.format(gate=gate)}')
    lost = began(lab, job, 1)
    part = Allocation.objects.filter(attempt__job=job, attempt__number=1)
    assert part.get().fence == "later"
    lab.drive(lambda: part.get().fence == "up")
    silence.begin(lab, lost)
    watch.after(0)
    assert watch.after(AFTER_S + 1) == [job.pk]
    began(lab, job, 2)
    assert Allocation.objects.get(attempt__job=job, attempt__number=2).fence == "up"
    (saved,) = set(Checkpoint.objects.filter(job=job, step=7).values_list("path", flat=True))
    lab.drive(lambda: saved in lab.log(job))
    assert "It resumes from step 7." in Attempt.objects.get(job=job, number=1).detail
    gate.touch()
    silence.end()
    lab.end(job)


def test_a_gang_stops_everywhere_before_it_starts_anywhere(
    lab: Lab, lease: None, silence: Silence, watch: Watch
) -> None:
    for name in ("n1", "n2", "n3", "n4"):
        lab.node(name, gpus=1)
    gate, stay = lab.directory / "gate", lab.directory / "stay"
    stay.touch()
    stubborn = f"trap 'while [ -e {stay} ]; do sleep 0.05; done; exit 1' TERM"
    job = lab.submit(
        f"#!/bin/bash\n#SBATCH --requeue\n{stubborn}\n{WAIT.format(gate=gate)}",
        gpus_per_node="1", nodes="2",
    )  # fmt: skip
    lab.running(job)
    parts = Allocation.objects.filter(attempt__job=job, attempt__number=1)
    lab.drive(lambda: all(lab.log(job, rank) == "began\n" for rank in (0, 1)))
    silence.begin(lab, parts.get(rank=0).node)
    watch.after(0)
    assert watch.after(AFTER_S + 1) == [job.pk]
    lab.drive(lambda: parts.get(rank=1).stop_sent_at is not None)
    assert lab.fresh(job).state == "COMPLETING"
    assert job.attempts.count() == 1
    stay.unlink()
    lab.drive(lambda: job.attempts.count() == 2)
    assert parts.get(rank=1).ended_at <= Attempt.objects.get(job=job, number=2).started_at
    gate.touch()
    silence.end()
    lab.end(job)
    assert outcomes(job) == ["NODE_FAIL", "COMPLETED"]


def test_many_at_once_are_more_likely_our_own_network(
    lab: Lab, lease: None, silence: Silence, watch: Watch
) -> None:
    nodes = [lab.node(name) for name in ("n1", "n2", "n3", "n4")]
    gate = lab.directory / "gate"
    job = lab.submit(f"#!/bin/bash\n#SBATCH --requeue\n{WAIT.format(gate=gate)}", gpus_per_node="1")
    lost = began(lab, job, 1)
    silence.begin(lab, lost, next(node for node in nodes if node != lost))
    watch.after(0)
    assert watch.after(AFTER_S + 1) == []
    # The other one answers again: it was one node after all.
    silence.spools = {lost.spool}
    lab.drive(lambda: Node.objects.filter(health=Node.Health.UNREACHABLE).count() == 1)
    assert watch.after(0) == [job.pk]
    gate.touch()
    silence.end()
    lab.end(job)


def row(node: Node, owner: User, project: Project, **columns: Any) -> Allocation:
    job = cast.job(owner, project, state="RUNNING")
    part = cast.run(job, node)
    Allocation.objects.filter(pk=part.pk).update(**{"fence": "up"} | columns)
    return part


def silent(name: str = "gpu-1", until: float = 500.0) -> Node:
    return cast.node(
        name, health=Node.Health.UNREACHABLE, clock=440.0, clock_boot_id="b",
        lease_boot_id="b", lease_until=until,
    )  # fmt: skip


def test_what_was_granted_meanwhile_is_waited_for(
    alice: User, project: Project, watch: Watch
) -> None:
    node = silent()
    part = row(node, alice, project)
    watch.after(0)
    Node.objects.update(lease_until=530.0)
    assert watch.after(1000) == []  # It has seen only now that more was promised.
    assert watch.after(1000) == [part.attempt.job_id]


def test_what_was_granted_since_the_look_is_not_given_up(alice: User, project: Project) -> None:
    node = silent()
    row(node, alice, project)
    assert recover._give_up(node, Term("b", 499.0), timezone.now()) == []
    assert recover._give_up(node, Term("other", 500.0), timezone.now()) == []
    Node.objects.update(health=Node.Health.UP)
    assert recover._give_up(node, Term("b", 500.0), timezone.now()) == []


def test_only_what_is_behind_a_fence_is_given_up(
    alice: User, project: Project, watch: Watch
) -> None:
    node = silent()
    given_up = row(node, alice, project)
    kept = [row(node, alice, project, fence=fence) for fence in ("never", "later")]
    kept.append(row(node, alice, project, phase="planned"))
    kept.append(row(cast.node("gpu-2"), alice, project))
    watch.after(0)
    assert watch.after(1000) == [given_up.attempt.job_id]
    left = Allocation.objects.filter(attempt__ended_at=None).values_list("pk", flat=True)
    assert set(left) == {part.pk for part in kept}
    assert Event.objects.filter(node=node, kind="given up").count() == 1


def test_the_calendar_has_no_part_in_it(alice: User, project: Project, watch: Watch) -> None:
    row(silent(), alice, project)
    watch.after(0)
    year = timezone.now() + timedelta(days=365)
    assert recover.recover(vigil=watch.vigil, clock=watch.clock + 1, now=year) == []


def test_it_is_held_when_it_loses_nodes_again_and_again(
    alice: User, project: Project, watch: Watch
) -> None:
    part = row(silent(), alice, project, started_at=timezone.now())
    Job.objects.update(node_losses=requeue.MAX_NODE_LOSSES - 1)
    watch.after(0)
    watch.after(1000)
    job = Job.objects.get(pk=part.attempt.job_id)
    assert (job.state, job.held, job.reason) == ("PENDING", True, "JobHoldMaxRequeue")
    assert job.node_losses == 0
