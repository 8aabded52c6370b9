"""What goes wrong between the portal and its nodes, and that no job is stuck or run twice by it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from jobs.engines.contract import Launch, Launched
from jobs.engines.ssh import ShepherdEngine
from jobs.nodes.transport import ConnectionLost, NodeError, NoRoute
from portal import archive, reach
from portal.actions import cancel, contact, dispatch, down, nodes, observe, schedule
from portal.models import Allocation, Attempt, Event, Job, Lease, Node
from tests.portal.actions.conftest import Lab

SEND = ShepherdEngine.launch


def launches_fail(
    monkeypatch: pytest.MonkeyPatch, fails: Callable[[Sequence[Launch]], NodeError | None]
) -> None:
    """Launches of which `fails` gives an error are not sent."""

    def launch(self: ShepherdEngine, launches: Sequence[Launch], **more: Any) -> list[Launched]:
        if error := fails(launches):
            raise error
        return SEND(self, launches, **more)

    monkeypatch.setattr(ShepherdEngine, "launch", launch)


def on(node: Node) -> Callable[[Sequence[Launch]], NodeError | None]:
    """Fails for what is allocated on this node."""

    def fails(launches: Sequence[Launch]) -> NodeError | None:
        found = Allocation.objects.filter(key__in=[one.key for one in launches], node=node)
        return NoRoute(f"No answer from {node.name}.") if found.exists() else None

    return fails


def test_who_comes_late_with_an_earlier_attempt_changes_nothing(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = lab.node("n1")
    job = lab.submit("sleep 600", gpus_per_node="1")
    launches_fail(monkeypatch, on(node))
    schedule.schedule(now=timezone.now())
    dispatch.dispatch(node_id=node.pk, now=timezone.now())
    monkeypatch.undo()
    first = Attempt.objects.get(job=job)
    assert first.ended_at
    Node.objects.update(health=Node.Health.UP)
    lab.running(job)
    dispatch.settle(attempt=first, now=timezone.now())
    assert lab.fresh(job).state == "RUNNING"
    assert Lease.objects.filter(released_at=None).count() == 1


def test_a_job_goes_elsewhere_when_its_node_is_out_of_reach(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = lab.node("n1", gpus=1)
    lab.node("n2")
    launches_fail(monkeypatch, on(node))
    job = lab.submit("true", gpus_per_node="1")
    schedule.schedule(now=timezone.now())
    dispatch.dispatch(node_id=node.pk, now=timezone.now())
    assert "n1 could not be reached" in lab.fresh(job).detail
    assert schedule.schedule(now=timezone.now()) == 1
    assert Allocation.objects.get(attempt__job=job, attempt__number=2).node.name == "n2"
    lab.end(job)
    assert job.state == "COMPLETED"


def test_half_sent_launches_are_never_taken_back(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second of two calls finds no way: the first one's runs live."""
    node = lab.node("n1")
    monkeypatch.setattr("jobs.engines.ssh.LAUNCH_BYTES", 1)
    ask, calls = ShepherdEngine._ask, []

    def once(self: ShepherdEngine, kind: type, verb: str, *rest: object) -> object:
        calls.append(verb)
        if calls.count("launch") == 2:
            raise NoRoute("No answer from n1.")
        return ask(self, kind, verb, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(ShepherdEngine, "_ask", once)
    proof = lab.directory / "proof"
    jobs = [lab.submit(f"echo {number} >> {proof}; sleep 0.5") for number in (1, 2)]
    schedule.schedule(now=timezone.now())
    dispatch.dispatch(node_id=node.pk, now=timezone.now())
    assert Allocation.objects.filter(phase="launching").count() == 2
    observe.observe(node_id=node.pk, now=timezone.now())
    dispatch.dispatch(node_id=node.pk, now=timezone.now() + timedelta(seconds=11))
    lab.end(*jobs)
    assert [job.state for job in jobs] == ["COMPLETED", "COMPLETED"]
    assert sorted(proof.read_text().split()) == ["1", "2"]


def test_an_unreached_part_of_a_gang_is_no_success(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = lab.node("n1"), lab.node("n2")
    launches_fail(monkeypatch, on(second))
    job = lab.submit("true", nodes="2")
    schedule.schedule(now=timezone.now())
    dispatch.dispatch(node_id=first.pk, now=timezone.now())
    part = Allocation.objects.get(attempt__job=job, rank=0)

    def ended() -> bool:
        observe.observe(node_id=first.pk, now=timezone.now())
        part.refresh_from_db()
        return part.phase == "ended"

    while not ended():
        continue
    assert lab.fresh(job).state == "CONFIGURING"
    dispatch.dispatch(node_id=second.pk, now=timezone.now())
    assert (lab.fresh(job).state, job.reason) == ("FAILED", "JobLaunchFailure")
    assert "n2 could not be reached" in job.detail


def test_a_gang_whose_other_node_is_out_of_reach_waits_again(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = lab.node("n1"), lab.node("n2")
    launches_fail(monkeypatch, on(second))
    job = lab.submit("sleep 600", nodes="2", gpus_per_node="1")
    schedule.schedule(now=timezone.now())
    dispatch.dispatch(node_id=first.pk, now=timezone.now())
    dispatch.dispatch(node_id=second.pk, now=timezone.now())
    assert lab.fresh(job).state == "COMPLETING"
    assert "n2 could not be reached" in job.detail
    lab.drive(lambda: lab.fresh(job).state == "PENDING")
    assert not Lease.objects.filter(released_at=None).exists()
    lab.step()
    assert job.reason in ("Resources", "ReqNodeNotAvail")


def test_a_node_that_cannot_take_launches_in_is_drained(lab: Lab) -> None:
    node = lab.node("n1", gpus=1)
    lab.node("n2")
    runs = lab.directory / "n1" / "runs"
    runs.parent.mkdir()
    runs.write_text("in the way")
    job = lab.submit("true", gpus_per_node="1")
    lab.end(job)
    assert job.state == "COMPLETED"
    node.refresh_from_db()
    assert node.drained and "launches fail here" in node.drain_reason
    given_up = Allocation.objects.get(attempt__job=job, node=node)
    assert given_up.phase == "void" and "runs" in given_up.message


def test_a_full_disk_of_the_portal_hides_no_end(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    node = lab.node("n1")

    def full(key: str, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(archive, "write", full)
    job = lab.submit("echo hello; exit 3")
    lab.end(job)
    assert (job.state, job.exit_code) == ("FAILED", 3)
    assert not node.allocations.get().log_kept
    assert lab.log(job) == "hello\n"


def test_one_broken_connection_is_one_miss(lab: Lab) -> None:
    node, now = lab.node("n1"), timezone.now()
    for _ in range(3):
        contact.missed(node=node, error=ConnectionLost("The connection broke."), now=now)
    node.refresh_from_db()
    assert (node.missed, node.health) == (1, Node.Health.UP)
    for seconds in (5, 10):
        error = ConnectionLost("The connection broke.")
        contact.missed(node=node, error=error, now=now + timedelta(seconds=seconds))
    node.refresh_from_db()
    assert node.health == Node.Health.UNREACHABLE


def test_a_machine_that_is_off_gives_its_jobs_up_on_an_admins_word(lab: Lab) -> None:
    node = lab.node("n1")
    job = lab.submit("sleep 600", gpus_per_node="2")
    lab.running(job)
    with pytest.raises(down.NodeAnswers):
        down.declare_off(node=node, actor=lab.owner, now=timezone.now())
    Node.objects.filter(pk=node.pk).update(health=Node.Health.UNREACHABLE)
    cancel.cancel(job=job, actor=lab.owner, now=timezone.now())
    with pytest.raises(nodes.NodeBusy, match="nodes off n1"):
        nodes.remove(node=node, actor=lab.owner, now=timezone.now())
    assert down.declare_off(node=node, actor=lab.owner, now=timezone.now()) == [job.pk]
    assert lab.fresh(job).state == "CANCELLED"
    assert not Lease.objects.filter(released_at=None).exists()
    part = node.allocations.get()
    # It was not off. What it still runs is ended.
    dispatch.dispatch(node_id=node.pk, now=timezone.now())
    lab.drive(lambda: reach.engine(node).observe([part.key]).runs[0].phase == "exited")


def test_a_run_stopped_by_others_is_not_run_again(lab: Lab) -> None:
    node = lab.node("n1")
    job = lab.submit("sleep 600")
    lab.running(job)
    reach.engine(node).stop([dispatch.Stop(key=node.allocations.get().key)])
    lab.end(job)
    assert job.state == "CANCELLED"
    assert Attempt.objects.filter(job=job).count() == 1
    assert list(Event.objects.filter(job=job, new="PENDING", kind="state")) == []


def test_a_restarted_node_is_probed_before_it_takes_jobs(lab: Lab) -> None:
    node = lab.node("n1")
    observe.observe(node_id=node.pk, now=timezone.now())
    Node.objects.filter(pk=node.pk).update(boot_id="another")
    job = lab.submit("true")
    observe.observe(node_id=node.pk, now=timezone.now())
    assert Event.objects.filter(node=node, kind="restarted").count() == 1
    assert schedule.schedule(now=timezone.now()) == 0
    assert "restart" in Job.objects.get(pk=job.pk).detail
