"""The way to a node breaks during a launch: what may have begun is not begun elsewhere."""

from __future__ import annotations

import os
import signal
import threading
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from jobs.nodes.transport import NodeError, NoRoute, Refused
from portal import reach
from portal.actions import cancel, dispatch, logs, schedule
from portal.models import Allocation, Job, Lease, Node
from tests.lab.portal import until
from tests.portal.actions.conftest import Lab


def _follow(node: Node) -> Any:
    """Follow it as the worker does, and wait for the shepherd that stays."""
    engine: Any = reach.engine(node)

    def watch() -> None:
        try:
            for _ in engine.watch():
                pass
        except NodeError:
            return

    threading.Thread(target=watch, daemon=True).start()
    until(lambda: engine._shepherd._warm is not None, lambda: "no shepherd stays")
    return engine._shepherd


@pytest.mark.parametrize("error", [NoRoute, Refused])
def test_a_launch_whose_answer_was_lost_is_not_taken_back(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, error: type[NodeError]
) -> None:
    node = lab.node("n1", gpus=1)
    shepherd = _follow(node)
    warm = shepherd._warm

    def cut(line: bytes) -> None:
        warm.close()

    def no_way(*_: Any, **__: Any) -> None:
        raise error("No answer from n1 within 10 s.")

    # What is written goes out, no answer comes back, and a new connection finds no way.
    monkeypatch.setattr(warm, "_hear", cut)
    monkeypatch.setattr(shepherd.transport, "run", no_way)
    proof = lab.directory / "proof"
    job = lab.submit(f"echo once >>{proof}; sleep 600", gpus_per_node="1")
    schedule.schedule(now=timezone.now())
    dispatch.dispatch(node_id=node.pk, now=timezone.now())
    part = Allocation.objects.get(attempt__job=job)
    assert part.phase == Allocation.Phase.LAUNCHING
    assert Lease.objects.filter(released_at=None).count() == 1
    until(proof.exists, lambda: "the run does not begin")
    monkeypatch.undo()
    Allocation.objects.filter(pk=part.pk).update(sent_at=timezone.now() - dispatch.RESEND_AFTER * 2)
    Node.objects.update(health=Node.Health.UP)
    lab.running(job)
    assert proof.read_text() == "once\n"
    assert Allocation.objects.filter(attempt__job=job).count() == 1


def test_a_launch_that_was_cut_off_before_anything_began_is_given_back(lab: Lab) -> None:
    node = lab.node("n1")
    job = lab.submit("echo here")
    schedule.schedule(now=timezone.now())
    first = Allocation.objects.get(attempt__job=job)
    # As a launcher leaves it that was killed right after its claim.
    (lab.directory / "n1" / "runs" / first.key).mkdir(parents=True)
    lab.end(job)
    first.refresh_from_db()
    assert (first.phase, first.cause, first.started_at) == ("void", "not_begun", None)
    assert "nothing was started" in first.message
    assert (job.state, job.attempts.count()) == ("COMPLETED", 2)
    assert lab.log(job) == "here\n"
    Allocation.objects.update(ended_at=timezone.now() - logs.KEEP_ON_NODE * 2)
    assert logs.tidy(node_id=node.pk, now=timezone.now()) == 2


def test_the_log_of_a_run_whose_guard_was_killed_is_brought_home(lab: Lab) -> None:
    node = lab.node("n1")
    job = lab.submit("head -c 300000 /dev/zero | tr '\\0' x; echo end; sleep 600")
    lab.running(job)
    part = Allocation.objects.get(attempt__job=job)
    directory = lab.directory / "n1" / "runs" / part.key
    until(
        lambda: (directory / "log").read_bytes().endswith(b"end\n"), lambda: "the log is not whole"
    )
    os.kill(int(Path(directory / "begun").readlink().name.split(".")[0]), signal.SIGKILL)
    lab.end(job)
    assert job.state == "NODE_FAIL"
    logs.keep(node_id=node.pk, now=timezone.now())
    part.refresh_from_db()
    assert (part.log_kept, part.log_bytes) == (True, 300_004)


def test_who_is_cancelled_during_a_pass_does_not_cost_the_others_theirs(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.node("n1")
    cancelled, other = lab.submit("true"), lab.submit("true")
    take = schedule.snapshot.take

    def taken(now: datetime) -> Any:
        found = take(now)
        assert cancel.cancel(job=cancelled, actor=cancelled.owner, now=timezone.now())
        return found

    monkeypatch.setattr(schedule.snapshot, "take", taken)
    assert schedule.schedule(now=timezone.now()) == 1
    assert [job.state for job in Job.objects.order_by("pk")] == ["CANCELLED", "CONFIGURING"]
    assert other.pk == Job.objects.latest("pk").pk
